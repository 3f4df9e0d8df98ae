"""A budget of violation: upper bounds of what was violated so far, and whether one more episode fits.

Inside units. Let U_i(t) be the upper bound of the summed violation ``sum_t (alpha - V_g)`` of constraint i that the
episodes themselves prove (`sequences.ChangingMeans` on their differences D), and c_i the most that one episode can add
(H, or less where totals are declared or the limit is known). The account keeps

    U*_i(0) = 0,    U*_i(t) = min( U_i(t),  U*_i(t-1) + c_i,  or + 0 where a baseline played that keeps every limit ),

and one more episode fits if ``U*_i(t) + c_i <= B_i`` for every i. docs/guard.md has the proof that then the violation
never exceeds B with probability 1 - delta.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from ..arrays import Episode, Float, as_floats, frozen
from ..errors import InvalidFile, InvalidOption
from ..kernels.jit import inlined, no_refcount
from ..signals.limits import Limits
from ..signals.terms import Declarations, Terms
from ..signals.totals import Declared, Totals, state_differences
from ..units import ROUNDING
from .counter import EpisodeCounter, as_delta
from .sequences import ChangingMeans, changing_means, observe_changing, sum_of_means, sums_of_means

UPPER = 0.8  # the budget's part of delta
LOWER = 0.1  # that of the lower bounds of what was spent


class BudgetState(NamedTuple):
    """The sequences of a budget."""

    means: ChangingMeans  # [2m]: D of the counted episodes
    spent: Float  # [m]: U*


class Budget(EpisodeCounter):
    """An account of violation: says before each episode whether it may be played.

    If the baseline keeps every limit, then with probability 1 - delta the violation summed over all episodes never
    exceeds the budget, where the baseline is played whenever `may_play` is False.

    Args:
        limits: of the episodes: `Limit` records with the range of their totals; or ``problem.interface``.
        budget: how much the limits may be violated over all episodes, a number or one for each limit, in the user's
            units; at least what one episode can cost.
        delta: what may be missed.
        more: beside an interface, `Limit` records where more is known than it declares.

    Examples:
        >>> import safespot as ss
        >>> falls = ss.Limit("falls", "<=", total=(0, 1), threshold=0.2)
        >>> account = ss.Budget(falls, budget=2.0)
        >>> for fallen in (1, 1, 0, 1):
        ...     if account.may_play:
        ...         account.observe(ss.Totals([fallen]))
        >>> account.episodes, account.may_play
        (2, False)

    """

    kind = "budget"
    state: BudgetState

    def __init__(
        self,
        limits: Declarations,
        budget: ArrayLike,
        delta: float = 0.05,
        more: Limits = None,
    ) -> None:
        super().__init__(limits, more)
        self.budget, self._inside = as_budget(budget, self.terms)
        self.delta = as_delta(delta)
        self.state = empty_budget(self.terms.m)
        self._x = np.empty(2 + 2 * self.terms.m)

    def observe(self, episode: Totals | Episode, *, baseline: bool = False) -> None:
        """Charge an episode; `baseline`: the baseline played it, which keeps every limit."""
        self._observe(episode, free=baseline)

    def _count(self, sums: Float, free: bool = False) -> None:
        level = budget_level(self.terms.m, self.delta)
        charge_episode(self.terms.declared, self.state, level, sums, self._x, free)

    @property
    def may_play(self) -> bool:
        """True where one more episode of any policy fits in the budget."""
        return bool(fits(self.terms.declared, self._inside, self.state.spent))

    @property
    def spent(self) -> tuple[Float, Float]:
        """(lower ``[m]``, upper ``[m]``) of the violation so far, in the user's units; below 0 it is a surplus."""
        return spent_bounds(self.terms, self.state, self.delta)

    @property
    def episodes(self) -> int:
        """The number of episodes charged."""
        return int(self.state.means.counted[0])

    @property
    def options(self) -> dict[str, Any]:
        """The constructor's arguments but for the limits."""
        return {"budget": self.budget.tolist(), "delta": self.delta}

    def _facts(self) -> dict[str, Any]:
        doubts = self.doubts.sentences()
        return {
            "episodes": self.episodes,
            "budget": self.budget,
            "spent at most": self.spent[1],
            "may play": self.may_play,
            **({"not proven": "; ".join(doubts)} if doubts else {}),
        }

    def _check(self) -> None:
        n = self.state.means.counted[0]
        if not (n >= 0.0 and n == np.floor(n)):
            raise InvalidFile("its numbers contradict each other")


def empty_budget(m: int) -> BudgetState:
    """Return the state after no episodes."""
    return BudgetState(changing_means(2 * m), np.zeros(m))


def budget_level(m: int, delta: float) -> float:
    """Return ln(1/share) of each upper bound."""
    return math.log(m / (UPPER * delta))


def as_budget(value: ArrayLike, terms: Terms) -> tuple[Float, Float]:
    """Return a budget ``[m]`` in the user's units, and inside; it is at least what one episode can cost."""
    least = -terms.declared.least * terms.scale
    budget = as_floats("budget", value, error=InvalidOption)
    if budget.shape not in ((), least.shape) or (budget < least * (1.0 - ROUNDING)).any():
        m = len(least)
        each = f", or one for each of the {m} constraints," * (m > 1)
        ends = ", ".join(f"{end:g}" for end in least)
        raise InvalidOption(
            f"budget is {budget.tolist()}; expected a number{each} of at least {ends}: one episode can cost as "
            "much."
        )
    whole = frozen(np.broadcast_to(budget, least.shape).copy())
    return whole, np.maximum(whole / terms.scale, -terms.declared.least)


def spent_bounds(terms: Terms, state: BudgetState, delta: float) -> tuple[Float, Float]:
    """Return (lower ``[m]``, upper ``[m]``) of the violation so far, in the user's units."""
    m, declared = terms.m, terms.declared
    low = np.zeros(2 * m)
    sums_of_means(state.means, np.full(2 * m, math.log(m / (LOWER * delta))), low)
    counted = state.means.counted[0]
    least = declared.width * low[1::2] - counted * (declared.least + declared.width)
    upper = terms.scale * state.spent
    return frozen(np.minimum(terms.scale * least, upper)), frozen(upper)


@no_refcount
def charge_episode(
    declared: Declared,
    state: BudgetState,
    level: float,
    sums: Float,
    x: Float,
    free: bool,
) -> None:
    """Charge an episode of sums ``[2+4m]``; `x` ``[2+2m]`` is a buffer."""
    state_differences(declared, sums, x)
    charge(declared, state, level, x, free)


@inlined
def charge(declared: Declared, state: BudgetState, level: float, x: Float, free: bool) -> None:
    """Charge an episode that states `x` (`signals.totals.state_differences`), whose policy is `free` or costs."""
    m = state.spent.shape[0]
    observe_changing(state.means, x[2 : 2 + 2 * m])
    for i in range(m):
        cost = 0.0 if free else -declared.least[i]
        state.spent[i] = min(proven_most(declared, state, level, i), state.spent[i] + cost)


@inlined
def proven_most(declared: Declared, state: BudgetState, level: float, i: int) -> float:
    """Return U_i: the most that the counted episodes have violated, by themselves."""
    low = sum_of_means(state.means, 2 * i, level)
    return float(-(state.means.counted[0] * declared.least[i] + declared.width[i] * low))


@inlined
def fits(declared: Declared, budget: Float, spent: Float) -> bool:
    """Return whether one more episode cannot exceed any budget ``[m]``, inside."""
    one_more = True
    for i in range(spent.shape[0]):
        one_more &= spent[i] - declared.least[i] <= budget[i]
    return one_more
