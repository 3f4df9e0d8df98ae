"""The oracle: exact values, the constrained optimum and the Slater policy of a known CMDP.

Column generation, priced by backward induction, finds the optimum; a linear program over occupancy measures is its
check in the tests.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ..arrays import Float, Policy, frozen
from ..display import Displayed
from ..errors import Infeasible, InvalidModel
from ..names import Names
from ..planning.columns import TOLERANCE, best_mixture, largest_margin
from ..planning.process import Pricing, markov_policy, occupancy_values, policy_occupancy
from ..plotting import policy_chart
from .cmdp import CMDP


@dataclass(frozen=True, eq=False, repr=False)
class Evaluation(Displayed):
    """Exact values of a policy, in the user's terms.

    Examples:
        >>> import safespot as ss
        >>> cmdp = ss.problems.make("triage").cmdp
        >>> found = ss.evaluate(cmdp, [[0, 1, 0], [0, 1, 0]])  # everybody to the ward
        >>> print(round(found.value, 6), found.constraints, cmdp.limits.round(6))
        2.4 [0. 3.] [1.8 2.1]

    """

    value: float
    constraints: Float  # [m]


@dataclass(frozen=True, eq=False, repr=False)
class Solution(Displayed):
    """A constrained optimum, in the user's terms.

    Examples:
        >>> import safespot as ss
        >>> best = ss.solve(ss.problems.make("machine", budget=2.0).cmdp)
        >>> print(round(best.value, 6), best.constraints.round(6))
        14.0 [2.]
        >>> print(best.policy[0, 0].round(6))
        [1. 0.]

    """

    value: float
    constraints: Float  # [m]
    policy: Policy  # [H, S, A]
    multipliers: Float  # [m], >= 0: what one unit of each limit is worth in reward
    gap: float  # no policy that keeps the limits has more than value + gap
    visits: Float  # [H, S]: how often each state is met, in an episode
    names: Names

    def plot(self) -> Any:
        """Draw the policy as an Altair chart: its actions in the states that it visits most often."""
        return policy_chart(self.policy, self.names, self.visits)

    def _facts(self) -> dict[str, Any]:
        constraints = {self.names.quantity(i): float(v) for i, v in enumerate(self.constraints)}
        prices = {
            f"price of {self.names.limit(i)}": float(p) for i, p in enumerate(self.multipliers)
        }
        return {self.names.reward: self.value, **constraints, **prices, "gap": self.gap}


@dataclass(frozen=True, eq=False, repr=False)
class Slater(Displayed):
    """The policy with the largest common margin, and of these the one with the largest reward.

    Examples:
        >>> import safespot as ss
        >>> safest = ss.slater(ss.problems.make("machine").cmdp)
        >>> print(round(safest.margin, 6), round(safest.value, 6), round(safest.rho, 6))
        1.0 8.0 2.4

    """

    policy: Policy  # [H, S, A]
    margin: float  # every limit is kept with at least this room, in its own units
    margins: Float  # [m]: the room of each limit, in its own units
    value: float
    rho: float  # a bound for the multipliers (deviation D4), inside units: it has no unit


def evaluate(cmdp: CMDP, policy: ArrayLike) -> Evaluation:
    """Return the exact values of `policy` ``[H,S,A]``, from its occupancy measure.

    Examples:
        >>> import safespot as ss
        >>> always_fast = [[0, 1], [0, 1]]
        >>> found = ss.evaluate(ss.problems.make("machine").cmdp, always_fast)
        >>> print(found.value, found.constraints)
        18.0 [5.]

    """
    cmdp = _as_cmdp(cmdp)
    values = _values(cmdp, cmdp.policy(policy))
    return Evaluation(_value(cmdp, values), _constraints(cmdp, values))


def solve(cmdp: CMDP) -> Solution:
    """Return the policy with the largest value among those that keep every limit.

    Raises:
        Infeasible: no policy keeps every limit.

    Examples:
        >>> import safespot as ss
        >>> best = ss.solve(ss.problems.make("machine").cmdp)
        >>> print(round(best.value, 6), best.multipliers.round(6))
        11.0 [3.]

    """
    cmdp = _as_cmdp(cmdp)
    pricing = Pricing(cmdp.process)
    mixture = best_mixture(pricing, cmdp.model.limits)
    if mixture is None:
        raise _infeasible(cmdp)
    occupancy, multipliers = pricing.occupancy(mixture), mixture.multipliers
    policy = _markov(cmdp, occupancy)
    values = _values(cmdp, policy)
    return Solution(
        value=_value(cmdp, values),
        constraints=_constraints(cmdp, values),
        policy=policy,
        multipliers=frozen(cmdp.units.prices(multipliers)),
        gap=max(0.0, mixture.bound - float(values[0])) * float(cmdp.units.reward.scale),
        visits=frozen(occupancy.sum(axis=2)),
        names=cmdp.names,
    )


def slater(cmdp: CMDP) -> Slater:
    """Return the policy with the largest common margin, its margin, and ``rho`` (deviation D4).

    Raises:
        Infeasible: even the largest margin is negative.

    Examples:
        >>> import safespot as ss
        >>> problem = ss.problems.make("machine")
        >>> learner = ss.Spot(**problem.interface, episodes=500, rho=ss.slater(problem.cmdp).rho)
        >>> round(learner.rho, 6)
        2.4

    """
    cmdp = _as_cmdp(cmdp)
    limits, pricing = cmdp.model.limits, Pricing(cmdp.process)
    widest = largest_margin(pricing, limits)
    reach = float((widest.values[1:] - limits).min())
    if reach < -TOLERANCE * cmdp.H:
        raise _infeasible(cmdp)
    richest = best_mixture(pricing, limits + reach - TOLERANCE * cmdp.H, widest.columns)
    policy = _markov(cmdp, pricing.occupancy(widest if richest is None else richest))
    values = _values(cmdp, policy)
    room = values[1:] - limits
    best = best_mixture(pricing, limits, widest.columns)
    optimum = float(values[0]) if best is None else float(best.values[0])
    margin = float(room.min())
    # D4: the paper's (V* - V(pi0)) / margin, doubled as Lemma F.2 needs it, and at least 1.
    rho = max(1.0, 2.0 * (optimum - float(values[0])) / margin) if margin > 1e-9 else np.inf
    margins = room * np.abs(cmdp.units.constraints.scale)
    return Slater(policy, float(margins.min()), frozen(margins), _value(cmdp, values), rho)


def _as_cmdp(value: CMDP) -> CMDP:
    if not isinstance(value, CMDP):
        hint = " Take its .cmdp." if hasattr(value, "cmdp") else ""
        raise InvalidModel(f"expected a CMDP, got {type(value).__name__}.{hint}")
    return value


def _value(cmdp: CMDP, values: Float) -> float:
    return float(cmdp.units.reward.total_outside(values[0], cmdp.H))


def _constraints(cmdp: CMDP, values: Float) -> Float:
    return frozen(cmdp.units.constraints.total_outside(values[1:], cmdp.H))


def _values(cmdp: CMDP, policy: Policy) -> Float:
    """Return the inside values ``[1+m]`` of a policy, at the start."""
    return occupancy_values(cmdp.process, policy_occupancy(cmdp.process, policy))


def _infeasible(cmdp: CMDP) -> Infeasible:
    """Return the error that says which limit cannot be kept, and the best that can be reached."""
    units, H, limits = cmdp.units, cmdp.H, cmdp.limits
    pricing = Pricing(cmdp.process)
    best = []
    for i in range(cmdp.m):
        reach = pricing(np.eye(1, 1 + cmdp.m, 1 + i)[0]).values[1:]
        best.append(float(units.constraints.total_outside(reach, H)[i]))
        if reach[i] < cmdp.model.limits[i] - TOLERANCE:
            return Infeasible(
                f"constraint {i} cannot be kept: it asks for {units.senses[i]} {limits[i]:.6g} over "
                f"an episode, and the best that any policy reaches is {best[i]:.6g}. Move the limit "
                "at least that far.",
                constraint=i,
                best=best[i],
            )
    widest = largest_margin(pricing, cmdp.model.limits)
    jointly = [i for i in range(cmdp.m) if widest.multipliers[i] > 1e-9]
    alone = ", ".join(f"{i}: {best[i]:.6g} (limit {limits[i]:.6g})" for i in jointly)
    short = -widest.bound
    return Infeasible(
        f"constraints {jointly} cannot be kept together, though each can alone. Best values alone: "
        f"{alone}. Together at least one falls short by {short:.3g} of its range. Loosen one of them."
    )


def _markov(cmdp: CMDP, occupancy: Float) -> Policy:
    """Return the Markov policy with this occupancy measure; where nothing goes, the lowest admissible action."""
    lowest = cmdp.model.mask.reshape(-1, cmdp.S, cmdp.A).argmax(axis=2)
    return frozen(markov_policy(occupancy, lowest))
