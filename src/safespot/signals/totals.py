"""Totals of an episode: all that evidence knows of it.

An episode's difference in constraint i is D = sum_h (g_h - x_h): its constraint signals less its threshold samples,
inside (sense ``>=``). Its mean given the past is V_g - alpha, whatever the process is: no states, no actions and no
model are needed to judge it. Where the threshold is known, D = sum_h g_h - alpha.

In kernels an episode is a row ``[2+4m]`` of sums:

    0, 1                the reward
    2 … 2+m, … 2+2m     the constraints
    2+2m …, 2+3m …      the threshold samples

each at its least and at its largest: a signal that is missing (a threshold sample, D7; what became of an unfinished
episode) counts as 0 in the first and as 1 in the second.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from ..arrays import Float, InsideEpisode, as_count, as_floats, first, frozen
from ..display import Displayed
from ..errors import InvalidEpisode, InvalidOption
from ..kernels.jit import inlined, inlined_noalias, no_refcount
from ..units import ROUNDING, spread_thresholds
from .interface import Interface
from .limits import EXTRAS, limit_arguments


class Declared(NamedTuple):
    """Declared ranges of an episode's totals, inside; the reward's begins at 0."""

    alpha: Float  # [m]: the thresholds where they are known, else empty
    values: Float  # [2, m]: least and largest total of the constraints
    limits: Float  # [2, m]: the same of the threshold samples
    rounding: Float  # [m]: by how much a total may miss them
    least: Float  # [m]: the least that D can be
    width: Float  # [m]: between the least and the largest D
    scale: Float  # [1+m]: 1 / the reward's width, then 1 / width


@dataclass(frozen=True, init=False, eq=False, repr=False)
class Totals(Displayed):
    """Sums over one episode, in the user's units.

    Args:
        costs: ``[m]``, one for each limit. NaN: it is missing, and counts at its worst on either side. ``[2,m]``: the
            least and the largest that it can have been.
        hints: the same of the hints of the limits; None where none was seen.
        reward: what the episode earned.
        finished: whether it went to its end.
        clipped: signals that were cut off to their declared range before they were added up.
        rejected: episodes that were left out beside it.

    Examples:
        >>> import safespot as ss
        >>> ss.Totals([3.0], hints=[4.5]).costs
        array([3.])

    """

    costs: Float
    hints: Float | None
    reward: float
    finished: bool
    clipped: int
    rejected: int

    def __init__(
        self,
        costs: ArrayLike,
        hints: ArrayLike | None = None,
        reward: float = math.nan,
        finished: bool = True,
        clipped: int = 0,
        rejected: int = 0,
    ) -> None:
        earned = as_floats("reward", reward, error=InvalidEpisode, missing=True)
        if earned.shape != ():
            raise InvalidEpisode(f"reward must be one number, got {reward!r}.")
        self.__dict__.update(
            costs=_as_totals("costs", costs),
            hints=None if hints is None else _as_totals("hints", hints),
            reward=float(earned),
            finished=bool(finished),
            clipped=as_count("clipped", clipped, least=0, error=InvalidEpisode),
            rejected=as_count("rejected", rejected, least=0, error=InvalidEpisode),
        )

    @property
    def unfinished(self) -> bool:
        """True for an episode that was given up."""
        return not self.finished

    def _facts(self) -> dict[str, Any]:
        return {"costs": self.costs, "hints": self.hints, "reward": self.reward}


def _as_totals(name: str, value: ArrayLike) -> Float:
    """Return totals ``[m]``, or their ends ``[2,m]``."""
    array = np.atleast_1d(as_floats(name, value, error=InvalidEpisode, missing=True))
    if array.ndim > 2 or (array.ndim == 2 and len(array) != 2) or array.size == 0:
        raise InvalidEpisode(
            f"{name} have shape {array.shape}; expected one number for each limit, [m], or the least and the largest "
            "it can be, [2,m]."
        )
    return frozen(array)


def make_declared(
    reward: float, alpha: Float, values: Float, limits: Float, spans: Float
) -> Declared:
    """Return the record of declared ranges; rounding is forgiven in parts of `spans` ``[m]``."""
    least, width = values[0] - limits[1], values[1] - values[0] + limits[1] - limits[0]
    made = Declared(
        alpha, values, limits, ROUNDING * spans, least, width, 1.0 / np.append(reward, width)
    )
    for array in made:
        frozen(array)
    return made


def declare(
    interface: Interface,
    thresholds: ArrayLike | None = None,
    constraint_totals: ArrayLike | None = None,
    threshold_totals: ArrayLike | None = None,
) -> Declared:
    """Check what is declared, in the user's units, and bring it inside; by default what the interface's limits say."""
    own = zip(EXTRAS, (thresholds, constraint_totals, threshold_totals), strict=False)
    known: dict[str, Any] = limit_arguments(interface.limits, interface.H)
    known |= {key: value for key, value in own if value is not None}
    if "thresholds" in known and "threshold_totals" in known:
        raise InvalidOption(
            "threshold_totals say where samples of unknown thresholds lie; with thresholds= there are none. "
            "Give one of the two."
        )
    alpha = np.zeros(0)
    values, limits = (
        _totals(key, known.get(key), interface) for key in ("constraint_totals", "threshold_totals")
    )
    if "thresholds" in known:
        raw = as_floats("thresholds", known["thresholds"], error=InvalidOption)
        spread = spread_thresholds(raw, interface.H, interface.units, error=InvalidOption)[1]
        alpha = spread.sum(axis=1)
        limits = np.stack([alpha, alpha])
    H = float(interface.H)
    return make_declared(H, alpha, values, limits, np.full(interface.m, H))


def _totals(name: str, value: ArrayLike | None, interface: Interface) -> Float:
    """Return ``[2, m]``, the least and the largest total of an episode, inside; by default those of H steps."""
    H, m = interface.H, interface.m
    if value is None:
        return np.repeat([[0.0], [float(H)]], m, axis=1)
    pairs = as_floats(name, value, error=InvalidOption)
    pairs = np.tile(pairs, (m, 1)) if pairs.shape == (2,) else pairs
    if pairs.shape != (m, 2) or not (pairs[:, 0] < pairs[:, 1]).all():
        raise InvalidOption(
            f"{name} must be (low, high) with low < high, for all constraints or one for each of the {m}, in an "
            f"episode's total; got {value!r}."
        )
    ends = interface.units.constraints.total_inside(pairs.T, H)
    totals = np.stack([ends.min(axis=0), ends.max(axis=0)])
    if (totals[0] < -ROUNDING * H).any() or (totals[1] > H * (1.0 + ROUNDING)).any():
        raise InvalidOption(
            f"{name} {pairs.tolist()} reach beyond {H} steps of the declared ranges "
            f"{list(interface.units.constraint_ranges)}. Declare a smaller range of totals, or larger ranges of steps."
        )
    return totals.clip(0.0, float(H))


# Sums of an episode


@inlined
def add_sums(rewards: Float, constraints: Float, thresholds: Float, sums: Float) -> None:
    """Write an episode's sums ``[2+4m]``, inside."""
    H, m = constraints.shape
    sums[:] = 0.0
    for h in range(H):
        for side in range(2):
            sums[side] += float(side) if math.isnan(rewards[h]) else rewards[h]
            for i in range(m):
                g, x = constraints[h, i], thresholds[h, i]
                sums[2 + side * m + i] += float(side) if math.isnan(g) else g
                sums[2 + (2 + side) * m + i] += float(side) if math.isnan(x) else x


@no_refcount
def sums_of_many(rewards: Float, constraints: Float, thresholds: Float, sums: Float) -> None:
    """Write the sums ``[n,2+4m]`` of many episodes."""
    for n in range(sums.shape[0]):
        add_sums(rewards[n], constraints[n], thresholds[n], sums[n])


def sums_of_signals(f: Interface, rewards: Float, constraints: Float, thresholds: Float) -> Float:
    """Return the sums ``[n,2+4m]`` of signals ``[n,H]``, ``[n,H,m]``, ``[n,H,m]`` in the user's units; NaN: missing."""
    names = ("rewards", "constraints", "thresholds")
    signals = (
        as_floats(name, array, error=InvalidEpisode, missing=True)
        for name, array in zip(names, (rewards, constraints, thresholds), strict=True)
    )
    sums: Float = np.empty((len(rewards), 2 + 4 * f.m))
    r, g, x = f.signals_inside(*signals)
    sums_of_many(r, g, x, sums)
    return sums


def episode_sums(episode: InsideEpisode) -> Float:
    """Return an episode's sums ``[2+4m]``."""
    sums: Float = np.empty((1, 2 + 4 * episode.constraints.shape[1]))
    r, g, x = episode.rewards, episode.constraints, episode.thresholds
    sums_of_many(r[None], g[None], x[None], sums)
    first_sums: Float = sums[0]
    return first_sums


def checked_sums(declared: Declared, episode: InsideEpisode) -> Float:
    """Return an episode's sums ``[2+4m]``; raise where they lie outside of what is declared."""
    sums = episode_sums(episode)
    check_sums(declared, sums)
    return sums


def check_sums(declared: Declared, sums: Float) -> None:
    """Raise unless sums ``[…,2+4m]`` of episodes lie where they were declared to."""
    m = len(declared.least)
    low, high, under, over = (sums[..., 2 + k * m : 2 + (k + 1) * m] for k in range(4))
    checks = [("constraint_totals", low, high, declared.values)]
    if len(declared.alpha) == 0:
        checks.append(("threshold_totals", under, over, declared.limits))
    for name, below, above, (least, most) in checks:
        wrong = (above < least - declared.rounding) | (below > most + declared.rounding)
        if wrong.any():
            i = first(wrong)[-1]
            raise InvalidEpisode(
                f"the episode's total of constraint {i} lies outside the {name} that were declared. Declare the range "
                "that it has."
            )


@inlined
def sums_fit(declared: Declared, sums: Float) -> bool:
    """Return in a compiled loop whether `check_sums` would raise nothing."""
    m, fit = declared.least.shape[0], True
    for i in range(m):
        spare = declared.rounding[i]
        fit &= sums[2 + m + i] >= declared.values[0, i] - spare
        fit &= sums[2 + i] <= declared.values[1, i] + spare
        if declared.alpha.shape[0] == 0:
            fit &= sums[2 + 3 * m + i] >= declared.limits[0, i] - spare
            fit &= sums[2 + 2 * m + i] <= declared.limits[1, i] + spare
    return fit


# Statements


@inlined
def hinted(declared: Declared, sums: Float, i: int) -> tuple[float, float]:
    """Return the least and the largest threshold total that an episode's samples leave open."""
    if declared.alpha.shape[0] > 0:
        return declared.alpha[i], declared.alpha[i]
    m = declared.least.shape[0]
    under, over = sums[2 + 2 * m + i], sums[2 + 3 * m + i]
    return max(under, declared.limits[0, i]), min(over, declared.limits[1, i])


@inlined
def difference_range(declared: Declared, w: float, i: int) -> tuple[float, float, float]:
    """Return the least of ``sum_h (g_h - w x_h)``, the width of its range, and 1 / width; of D for w = 1."""
    if w == 1.0:
        return declared.least[i], declared.width[i], declared.scale[1 + i]
    values, limits = declared.values, declared.limits
    width = values[1, i] - values[0, i] + w * (limits[1, i] - limits[0, i])
    return values[0, i] - w * limits[1, i], width, 1.0 / width


@inlined
def within(x: float) -> float:
    """Return `x`, cut off to [0,1]."""
    return min(max(x, 0.0), 1.0)


@inlined
def state_reward(declared: Declared, sums: Float, x: Float) -> None:
    """Write what an episode states of the reward, ``x[0]`` and ``x[1]``."""
    x[0] = within(sums[0] * declared.scale[0])
    x[1] = within(1.0 - sums[1] * declared.scale[0])


@inlined
def state_difference(declared: Declared, w: float, sums: Float, i: int, x: Float) -> None:
    """Write what an episode states of ``sum_h (g_h - w x_h)`` of constraint i, ``x[2+2i]`` and ``x[3+2i]``."""
    low, high = sums[2 + i], sums[2 + declared.least.shape[0] + i]
    under, over = hinted(declared, sums, i)
    least, _, scale = difference_range(declared, w, i)
    x[2 + 2 * i] = within((low - w * over - least) * scale)
    x[3 + 2 * i] = within(1.0 - (high - w * under - least) * scale)


@inlined_noalias
def state_differences(declared: Declared, sums: Float, x: Float) -> None:
    """Write what an episode states of the reward and of each D, the first ``[2+2m]`` of `state_totals`."""
    state_reward(declared, sums, x)
    for i in range(declared.least.shape[0]):
        state_difference(declared, 1.0, sums, i, x)


@inlined_noalias
def state_totals(declared: Declared, weight: Float, sums: Float, x: Float) -> None:
    """Write what an episode states, in [0,1]: two numbers for each quantity, its least and 1 less its largest.

    0, 1               the reward
    2+2i, 3+2i         the difference of constraint i, with threshold samples weighted by ``weight[i]``: 1 for D
    2+2m+2i, …         its value
    2+4m+2i, …         its threshold

    `x` may end after any of these lines. A number is small where the evidence for a lower bound is weak, as `sequences`
    has it.
    """
    m = declared.least.shape[0]
    state_reward(declared, sums, x)
    for i in range(m):
        state_difference(declared, weight[i], sums, i, x)
        low, high = sums[2 + i], sums[2 + m + i]
        under, over = hinted(declared, sums, i)
        if x.shape[0] > 2 + 2 * m:
            least, width = declared.values[0, i], declared.values[1, i] - declared.values[0, i]
            x[2 + 2 * m + 2 * i] = within((low - least) / width)
            x[3 + 2 * m + 2 * i] = within(1.0 - (high - least) / width)
        if x.shape[0] > 2 + 4 * m:
            least, width = declared.limits[0, i], declared.limits[1, i] - declared.limits[0, i]
            x[2 + 4 * m + 2 * i] = within((under - least) / width)
            x[3 + 4 * m + 2 * i] = within(1.0 - (over - least) / width)


@no_refcount
def state_all(declared: Declared, weight: Float, sums: Float, x: Float) -> None:
    """Write what each of many episodes states: ``x`` ``[n,.]`` of sums ``[n,2+4m]``."""
    for n in range(sums.shape[0]):
        state_totals(declared, weight, sums[n], x[n])


def statements(declared: Declared, sums: Float) -> Float:
    """Return all that episodes state, ``[n,2+6m]`` (``2+4m`` where thresholds are known), of sums ``[n,2+4m]``.

    Raises where a total lies outside of what was declared.
    """
    m = len(declared.least)
    check_sums(declared, sums)
    rows = np.empty((len(sums), 2 + (4 if len(declared.alpha) else 6) * m))
    state_all(declared, np.ones(m), np.ascontiguousarray(sums), rows)
    return rows
