"""What an episode shows of the difference that safety is about.

Inside, D = sum_h (g_h - x_h) has, given the past, the mean V_g - alpha, whatever the world is and whoever chose the
policy. It ranges from the least total of g less the largest of the threshold to the largest less the least: over 2H
where nothing is declared, over H where the thresholds are known. A step without a sample may have had any: x = 1 there
makes D smallest, x = 0 largest. So may a step of an unfinished episode whose outcome never came: g = 0 makes D
smallest, g = 1 largest.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from ..arrays import Float, InsideEpisode, as_floats, first, frozen
from ..errors import InvalidEpisode, InvalidOption
from ..kernels.jit import inlined, inlined_noalias
from ..signals.limits import EXTRAS, limit_arguments
from ..units import ROUNDING, spread_thresholds
from .interface import Interface

DECLARED = ("alpha", "values", "limits")  # from which the other fields follow


class Declared(NamedTuple):
    """What is declared of an episode's totals, inside."""

    alpha: Float  # [m]: the thresholds where they are known, else empty
    values: Float  # [2, m]: least and largest total of g
    limits: Float  # [2, m]: the same of the threshold's samples
    least: Float  # [m]: the least that D can be
    width: Float  # [m]: between the least and the largest D
    scale: Float  # [1+m]: 1 / H for the reward, then 1 / width


def derived(H: int, alpha: Float, values: Float, limits: Float) -> Declared:
    """The record of the first three, from which the rest follows."""
    least, width = values[0] - limits[1], values[1] - values[0] + limits[1] - limits[0]
    made = Declared(alpha, values, limits, least, width, 1.0 / np.append(float(H), width))
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
        given = as_floats("thresholds", known["thresholds"], error=InvalidOption)
        spread = spread_thresholds(given, interface.H, interface.units, error=InvalidOption)[1]
        alpha = spread.sum(axis=1)
        limits = np.stack([alpha, alpha])
    return derived(interface.H, alpha, values, limits)


def _totals(name: str, value: ArrayLike | None, interface: Interface) -> Float:
    """``[2, m]``: the least and the largest total of an episode, inside; by default those of H steps."""
    H, m = interface.H, interface.m
    if value is None:
        return np.repeat([[0.0], [float(H)]], m, axis=1)
    given = as_floats(name, value, error=InvalidOption)
    given = np.tile(given, (m, 1)) if given.shape == (2,) else given
    if given.shape != (m, 2) or not (given[:, 0] < given[:, 1]).all():
        raise InvalidOption(
            f"{name} must be (low, high) with low < high, for all constraints or one for each of the {m}, in an "
            f"episode's total; got {value!r}."
        )
    ends = interface.units.constraints.total_inside(given.T, H)
    totals = np.stack([ends.min(axis=0), ends.max(axis=0)])
    if (totals[0] < -ROUNDING * H).any() or (totals[1] > H * (1.0 + ROUNDING)).any():
        raise InvalidOption(
            f"{name} {given.tolist()} reach beyond {H} steps of the declared ranges "
            f"{list(interface.units.constraint_ranges)}. Declare a smaller range of totals, or larger ranges of steps."
        )
    return totals.clip(0.0, float(H))


def check_totals(declared: Declared, episode: InsideEpisode) -> None:
    """Raise unless the episode's totals lie where they were declared to."""
    values, limits = (least_and_most(each) for each in (episode.constraints, episode.thresholds))
    check_sums(declared, len(episode.rewards), values, limits)


def least_and_most(signals: Float) -> tuple[Float, Float]:
    """The sums over the steps where what is missing is 0, and where it is 1."""
    low, high = (np.nan_to_num(signals, nan=x).sum(axis=0) for x in (0.0, 1.0))
    return low, high


def check_sums(
    declared: Declared, H: int, values: tuple[Float, Float], limits: tuple[Float, Float]
) -> None:
    """The same of the least and the largest totals ``[.,m]`` that constraints and thresholds can have."""
    checks: list[tuple[str, Any, Any]] = [("constraint_totals", *values[::-1])]
    if len(declared.alpha) == 0:
        checks.append(("threshold_totals", *limits[::-1]))
    for (name, high, low), (least, most) in zip(
        checks, (declared.values, declared.limits), strict=False
    ):
        wrong = (high < least - ROUNDING * H) | (low > most + ROUNDING * H)
        if wrong.any():
            i = first(wrong)[-1]
            raise InvalidEpisode(
                f"the episode's total of constraint {i} lies outside the {name} that were declared. Declare the range "
                "that it has."
            )


@inlined
def totals_fit(declared: Declared, episode: InsideEpisode) -> bool:
    """`check_totals` in a compiled loop: whether it would raise nothing."""
    H, m = episode.constraints.shape
    room, fit = ROUNDING * H, True
    for i in range(m):
        under, over = 0.0, 0.0
        for h in range(H):
            hint = episode.thresholds[h, i]
            under += 0.0 if math.isnan(hint) else hint
            over += 1.0 if math.isnan(hint) else hint
        low, high = value_total(episode.constraints, i)
        fit &= high >= declared.values[0, i] - room and low <= declared.values[1, i] + room
        if declared.alpha.shape[0] == 0:
            fit &= over >= declared.limits[0, i] - room and under <= declared.limits[1, i] + room
    return fit


@inlined_noalias
def hinted(declared: Declared, thresholds: Float, i: int) -> tuple[float, float]:
    """The least and the largest threshold total that an episode's samples leave open."""
    if declared.alpha.shape[0] > 0:
        return declared.alpha[i], declared.alpha[i]
    under, over = 0.0, 0.0
    for h in range(thresholds.shape[0]):
        hint = thresholds[h, i]
        missing = math.isnan(hint)
        under += 0.0 if missing else hint
        over += 1.0 if missing else hint
    return max(under, declared.limits[0, i]), min(over, declared.limits[1, i])


@inlined_noalias
def value_total(constraints: Float, i: int) -> tuple[float, float]:
    """The least and the largest total of constraint i that an episode leaves open: one number, if it was finished."""
    total = 0.0
    for h in range(constraints.shape[0]):
        total += constraints[h, i]
    if not math.isnan(total):
        return total, total
    low, high = 0.0, 0.0
    for h in range(constraints.shape[0]):
        missing = math.isnan(constraints[h, i])
        low += 0.0 if missing else constraints[h, i]
        high += 1.0 if missing else constraints[h, i]
    return low, high


@inlined_noalias
def differences(declared: Declared, constraints: Float, thresholds: Float, x: Float) -> None:
    """``x`` ``[2m]`` in [0,1]: for each constraint the least D, and 1 less the largest.

    Every entry is small where the evidence for a *lower* bound is weak, as `sequences` has it.
    """
    H, m = constraints.shape
    for i in range(m):
        hints = 0.0
        for h in range(H):
            hints += thresholds[h, i]
        low, high = value_total(constraints, i)
        under, over = hints, hints
        if math.isnan(hints) or declared.alpha.shape[0] > 0:  # else every step has a sample
            under, over = hinted(declared, thresholds, i)
        least, scale = declared.least[i], declared.scale[1 + i]
        x[2 * i] = min(max((low - over - least) * scale, 0.0), 1.0)
        x[2 * i + 1] = min(max(1.0 - (high - under - least) * scale, 0.0), 1.0)


@inlined
def reward_shares(declared: Declared, rewards: Float) -> tuple[float, float]:
    """The least and the largest sum of an episode's rewards, scaled to [0,1]: one number, if it was finished."""
    total = 0.0
    for h in range(rewards.shape[0]):
        total += rewards[h]
    if not math.isnan(total):
        share = min(total * declared.scale[0], 1.0)
        return share, share
    low, high = 0.0, 0.0
    for h in range(rewards.shape[0]):
        missing = math.isnan(rewards[h])
        low += 0.0 if missing else rewards[h]
        high += 1.0 if missing else rewards[h]
    return min(low * declared.scale[0], 1.0), min(high * declared.scale[0], 1.0)
