"""Optimism: the bonus of a visited pair and the bounds of a learned threshold.

The bonus covers the error of the empirical model (Eq. opt-p, deviations D1 and D3); the threshold radius is that of
Theorem 1. Both depend on logarithms and on the number of samples only.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from ..arrays import Bool, Float
from ..kernels.jit import inlined, kernel
from .visits import Statistics
from .window import Window, representative


class Radii(NamedTuple):
    """The constants of the confidence radii; they change only when T or delta do."""

    L_r: float  # ln(S A H m T / delta), of signals and thresholds
    L_p: float  # ln(S A H T / delta), of transitions
    L_b: float  # ln(10 S^2 A H T / delta), of single transition probabilities (Bernstein)
    H: float
    S: float
    bonus_scale: float  # c
    threshold_scale: float  # k
    bernstein: bool
    clip: bool  # D2


def make_radii(
    S: int,
    A: int,
    H: int,
    m: int,
    T: int,
    delta: float,
    *,
    bonus_scale: float = 1.0,
    threshold_scale: float = 1.0,
    bernstein: bool = False,
    clip: bool = True,
) -> Radii:
    """The radii for T episodes and a confidence of 1 - delta."""
    return Radii(
        L_r=math.log(S * A * H * m * T / delta),
        L_p=math.log(S * A * H * T / delta),
        L_b=math.log(10 * S**2 * A * H * T / delta),
        H=float(H),
        S=float(S),
        bonus_scale=float(bonus_scale),
        threshold_scale=float(threshold_scale),
        bernstein=bernstein,
        clip=clip,
    )


@inlined
def bonus(radii: Radii, n: float, transition: float) -> float:
    """``phi = c (sqrt(L_r / n) + transition)``: Eq. opt-p with the constants of D3."""
    return radii.bonus_scale * (math.sqrt(radii.L_r / n) + transition)


@inlined
def transition_radius(radii: Radii, n: float) -> float:
    """``H sqrt((S + L_p) / n)``, the transition part of Eq. opt-p."""
    return radii.H * math.sqrt((radii.S + radii.L_p) / n)


@inlined
def bernstein_radius(radii: Radii, n: float, count: float) -> float:
    """``sqrt(2 p(1-p) l / (n-1)) + 7 l / (3 (n-1))`` for a successor seen `count` of n >= 2 times.

    Zero for one that was never seen: observed successors suffice.
    """
    if count == 0.0:
        return 0.0
    p = count / n
    root = math.sqrt(2.0 * p * (1.0 - p) * radii.L_b / (n - 1.0))
    return root + 7.0 * radii.L_b / (3.0 * (n - 1.0))


@inlined
def pair_bonus(radii: Radii, statistics: Statistics, h: int, pair: int) -> float:
    """The bonus of a pair; infinite where there is too little data, so that it sits at its cap (D8)."""
    n = float(statistics.n[h, pair])
    if n == 0.0 or (radii.bernstein and n == 1.0):
        return np.inf
    transition = transition_radius(radii, n)
    if radii.bernstein:
        total = 0.0
        successors = statistics.successors
        if successors.dense.shape[0] > 0:
            for after in range(successors.dense.shape[1]):
                total += bernstein_radius(radii, n, successors.dense[h, after, pair])
        else:
            s, a = divmod(pair, statistics.n.shape[1] // statistics.known.shape[1])
            first = successors.where[h, s]
            for j in range(first, first + successors.length[h, s]):
                if successors.actions[j] == a:
                    total += bernstein_radius(radii, n, successors.counts[j])
        transition = min(transition, radii.H * total)
    return bonus(radii, n, transition)


@inlined
def refresh_pair(
    radii: Radii,
    statistics: Statistics,
    mask: Bool,
    h: int,
    s: int,
    pair: int,
    deficit: Float,
    weight: Float,
    max_deficit: Float,
) -> None:
    """Derive what planning reads of a pair of state s: ``deficit = 1 - v_bar``, ``weight = 1 / n`` and `max_deficit`.

    ``v_bar = v_hat + phi`` is the optimistic reward or constraint (Eq. opt-p). A pair without data, or one that is not
    admissible (D6), has an infinite v_bar: it never falls below its cap. `max_deficit` is the largest deficit among the
    actions of a state: with gaps of at most G ahead, a state is at its cap as long as max_deficit + G <= 0. It is for
    large problems, whose states are swept one by one.
    """
    phi = pair_bonus(radii, statistics, h, pair) if mask[h, pair] else np.inf
    n = statistics.n[h, pair]
    weight[h, pair] = 1.0 / n if n > 0 else 0.0
    for c in range(deficit.shape[0]):
        mean = statistics.sums[c, h, pair] / n if n > 0 else 0.0
        deficit[c, h, pair] = 1.0 - (mean + phi)
    if statistics.successors.dense.shape[0] == 0:
        A = mask.shape[1] // max_deficit.shape[1]
        highest = -np.inf
        for c in range(deficit.shape[0]):
            for other in range(s * A, (s + 1) * A):
                highest = max(highest, deficit[c, h, other])
        max_deficit[h, s] = highest


@kernel
def refresh_all(
    radii: Radii,
    statistics: Statistics,
    mask: Bool,
    deficit: Float,
    weight: Float,
    max_deficit: Float,
) -> None:
    """`refresh_pair` for every pair, as when the radii have changed."""
    H, S = max_deficit.shape
    A = mask.shape[1] // S
    for h in range(H):
        for s in range(S):
            for pair in range(s * A, (s + 1) * A):
                refresh_pair(radii, statistics, mask, h, s, pair, deficit, weight, max_deficit)


@inlined
def threshold_deviation(radii: Radii, n: float) -> float:
    """``sqrt(4 ln(m S A H T / delta) / n)``: how far Theorem 1 lets a mean of n samples be from the truth."""
    return math.sqrt(4.0 * radii.L_r / n)


@inlined
def threshold_radius(radii: Radii, n: float) -> float:
    """``zeta = min(1, k sqrt(4 ln(m S A H T / delta) / n))``: Theorem 1."""
    return min(1.0, radii.threshold_scale * threshold_deviation(radii, n))


@inlined
def threshold_bounds(radii: Radii, window: Window, lower: Float, upper: Float) -> None:
    """Eq. opt-a: ``alpha_hat -/+ zeta`` at the representative pair, summed over the steps.

    Clipped to [0,1] per step (D2); a step without a sample contributes [0,1].
    """
    H = window.n.shape[0]
    lower[:] = 0.0
    upper[:] = 0.0
    for h in range(H):
        pair = representative(window, h)
        n = window.n[h, pair]
        for i in range(lower.shape[0]):
            low, high = 0.0, 1.0
            if n > 0:
                alpha_hat = (window.sums[i, h, pair] + window.carries[i, h, pair]) / n
                zeta = threshold_radius(radii, float(n))
                low, high = alpha_hat - zeta, alpha_hat + zeta
                if radii.clip:
                    low, high = min(max(low, 0.0), 1.0), min(max(high, 0.0), 1.0)
            lower[i] += low
            upper[i] += high
