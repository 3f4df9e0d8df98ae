"""What a certificate states of episodes, as numbers in [0,1] whose means are bounded from below.

An episode's sums give two numbers for each statement, one for either side:

    0, 1               the reward, and 1 less it
    2+2i, 3+2i         the difference D of constraint i (`differences`): of what verdicts are made
    2+2m+2i, …         its value
    2+4m+2i, …         its threshold, where that is not known

Where one policy was fixed before its episodes, a verdict can be wrong on one side only, which that policy says. So each
side of a difference may have the share delta / m: the verdicts of one certificate are right with probability 1 - delta,
both ends of the differences with 1 - 2 delta. Where policies may change with what was seen (`moving`), that may also
decide which side is the wrong one, so the two divide it: then both ends hold with probability 1 - delta. The other
bounds are there to be read; all of them hold at once with probability 1 - delta, of their own.
"""

from __future__ import annotations

import math

import numpy as np

from ..arrays import Float, InsideEpisode, frozen
from ..kernels.jit import inlined, no_refcount
from .certificate import Bounds
from .differences import Declared, check_sums, least_and_most
from .interface import Interface
from .sequences import FixedMeans, Targets, fixed_means, observe_fixed, read_fixed, targets


def episode_sums(episode: InsideEpisode) -> Float:
    """``[2+4m]``: the sums over an episode of rewards, constraints and thresholds, each twice.

    What is missing (a threshold's sample, D7; what became of an unfinished episode) counts as 0 in the first of the
    two, and as 1 in the second.
    """
    signals = (episode.rewards, episode.constraints, episode.thresholds)
    return np.hstack([end for each in signals for end in least_and_most(each)])


@inlined
def add_sums(rewards: Float, constraints: Float, thresholds: Float, sums: Float) -> None:
    """`episode_sums` of an episode's signals in a compiled loop, added to `sums` ``[2+4m]``, step by step."""
    H, m = constraints.shape
    for h in range(H):
        for side in range(2):
            sums[side] += float(side) if math.isnan(rewards[h]) else rewards[h]
            for i in range(m):
                g, x = constraints[h, i], thresholds[h, i]
                sums[2 + side * m + i] += float(side) if math.isnan(g) else g
                sums[2 + (2 + side) * m + i] += float(side) if math.isnan(x) else x


def statements(declared: Declared, H: int, sums: Float) -> Float:
    """``[n, 2+6m]`` in [0,1] (``2+4m`` where thresholds are known), of sums ``[n, 2+4m]`` as above.

    Raises where a total lies outside of what was declared.
    """
    m = len(declared.least)
    rewards, values, limits = np.split(sums, [2, 2 + 2 * m], axis=1)
    (worst, best), (least, most) = np.split(rewards, 2, axis=1), np.split(values, 2, axis=1)
    under, over = np.split(limits, 2, axis=1)
    if len(declared.alpha):
        under = over = np.broadcast_to(declared.alpha, least.shape)
    check_sums(declared, H, (least, most), (under, over))
    low, high = declared.limits
    under, over = np.maximum(under, low), np.minimum(over, high)
    parts = [
        _sides(worst / H, best / H),
        _sides(
            (least - over - declared.least) / declared.width,
            (most - under - declared.least) / declared.width,
        ),
        _sides(
            *[(v - declared.values[0]) / np.subtract(*declared.values[::-1]) for v in (least, most)]
        ),
    ]
    if not len(declared.alpha):
        parts.append(_sides((under - low) / (high - low), (over - low) / (high - low)))
    rows: Float = np.hstack(parts)
    return rows.clip(0.0, 1.0)


def _sides(least: Float, most: Float) -> Float:
    """``[n, 2k]``: the least that each of k numbers can be, and 1 less the largest, side by side."""
    both: Float = np.stack([least, 1.0 - most], axis=2).reshape(len(least), -1)
    return both


def levels(declared: Declared, delta: float, *, moving: bool = False) -> Float:
    """``[2+6m]`` or ``[2+4m]``: ln(1/share) of each; `moving`: policies may change with what was seen."""
    m, known = len(declared.least), len(declared.alpha) > 0
    rows = 2 + (4 if known else 6) * m
    shares = np.full(rows, delta / (rows - 2 * m))
    shares[2 : 2 + 2 * m] = delta / (2 * m if moving else m)
    return frozen(-np.log(shares))


def as_bounds(declared: Declared, interface: Interface, low: Float) -> Bounds:
    """What lower bounds ``[2+6m]`` of the means say; no lower end is above its upper one."""
    H, m, units = interface.H, interface.m, interface.units
    ends = low.reshape(-1, 2)
    ends = np.stack([ends[:, 0], np.maximum(ends[:, 0], 1.0 - ends[:, 1])])
    reward, difference, value, threshold = np.split(ends, [1, 1 + m, 1 + 2 * m], axis=1)
    scale = np.abs(units.constraints.scale)
    lower, upper = scale * (declared.least + declared.width * difference)
    least, most = declared.values
    inside = declared.limits
    if threshold.size:
        inside = inside[0] + (inside[1] - inside[0]) * threshold
    first, last = (float(units.reward.total_outside(H * end[0], H)) for end in reward)
    return Bounds(
        difference=(lower, upper),
        value=units.bounds(least + (most - least) * value[0], least + (most - least) * value[1], H),
        threshold=units.bounds(inside[0], inside[1], H),
        reward=(first, last),
    )


def assumed_of_thresholds(declared: Declared) -> str:
    """What is assumed of the thresholds, for a certificate."""
    if len(declared.alpha):
        return "the thresholds are the ones that were given"
    return (
        "the thresholds do not change over the episodes; a step without a sample counts as the worst in either "
        "direction"
    )


@no_refcount
def watch(
    targets: Targets, state: FixedMeans, rows: Float, levels: Float, kept: Float, early: bool
) -> int:
    """Count the statements ``[n, .]`` of one policy's episodes; returns how many.

    `early`: only until every constraint is decided. `kept` ``[m]`` is what a difference of 0 is in [0,1].
    """
    for n in range(rows.shape[0]):
        for r in range(rows.shape[1]):
            observe_fixed(targets, state, r, rows[n, r])
        if early:
            decided = True
            for i in range(kept.shape[0]):
                r = 2 + 2 * i
                read_fixed(targets, state, r, levels[r])
                read_fixed(targets, state, r + 1, levels[r + 1])
                decided &= state.lower[r] >= kept[i] or state.lower[r + 1] > 1.0 - kept[i]
            if decided:
                return n + 1
    return int(rows.shape[0])


def lower_bounds(rows: Float, level: Float) -> Float:
    """Lower bounds of the means of `rows` ``[n, .]`` in [0,1], which do not change, each with share exp(-level)."""
    weights, state = targets(len(rows)), fixed_means(len(level))
    watch(weights, state, np.ascontiguousarray(rows), level, np.empty(0), False)
    for r, of_row in enumerate(level):
        read_fixed(weights, state, r, of_row)
    return state.lower
