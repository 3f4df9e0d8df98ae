"""Bonuses and threshold bounds, each against its formula in one line of NumPy."""

from __future__ import annotations

import math

import numpy as np
import pytest

from safespot.spot import optimism, visits
from safespot.spot import window as windows
from safespot.spot.optimism import Radii
from safespot.spot.visits import Statistics
from tests.spot.test_visits_and_window import filled, samples, visited

S, A, H, M, T, DELTA = 3, 2, 4, 2, 500, 0.1
RADII = optimism.make_radii(S, A, H, M, T, DELTA, bonus_scale=0.3, threshold_scale=0.2)


def test_the_logarithms() -> None:
    assert RADII.L_r == pytest.approx(math.log(3 * 2 * 4 * 2 * 500 / 0.1), rel=1e-15)
    assert RADII.L_p == pytest.approx(math.log(3 * 2 * 4 * 500 / 0.1), rel=1e-15)
    assert RADII.L_b == pytest.approx(math.log(10 * 9 * 2 * 4 * 500 / 0.1), rel=1e-15)
    assert (RADII.H, RADII.S, RADII.bonus_scale, RADII.threshold_scale) == (4, 3, 0.3, 0.2)


@pytest.mark.parametrize("n", [1, 2, 7, 1000])
def test_bonus_and_radii_of_n_samples(n: int) -> None:
    transition = 4 * math.sqrt((3 + RADII.L_p) / n)
    assert optimism.transition_radius(RADII, float(n)) == pytest.approx(transition, rel=1e-15)
    phi = 0.3 * (math.sqrt(RADII.L_r / n) + transition)
    assert optimism.bonus(RADII, float(n), transition) == pytest.approx(phi, rel=1e-15)
    zeta = min(1.0, 0.2 * math.sqrt(4 * math.log(2 * 3 * 2 * 4 * 500 / 0.1) / n))
    assert optimism.threshold_radius(RADII, float(n)) == pytest.approx(zeta, rel=1e-15)


def test_the_threshold_radius_is_at_most_one() -> None:
    wide = RADII._replace(threshold_scale=1.0)
    assert optimism.threshold_radius(wide, 1.0) == 1.0
    assert optimism.threshold_radius(wide, 1e4) < 1.0


def test_bernstein_radius_of_a_successor() -> None:
    counts = np.array([5.0, 0.0, 2.0, 1.0])
    p = counts[counts > 0] / 8
    terms = np.sqrt(2 * p * (1 - p) * RADII.L_b / 7) + 7 * RADII.L_b / (3 * 7)
    radii = [optimism.bernstein_radius(RADII, 8.0, count) for count in counts]
    assert radii[1] == 0.0  # never seen
    assert [radii[0], *radii[2:]] == pytest.approx(terms, rel=1e-14)


def expected_bonus(radii: Radii, statistics: Statistics, h: int, pair: int) -> float:
    """The bonus by its definition, from a dense block of counts."""
    n = int(statistics.n[h, pair])
    if n == 0 or (radii.bernstein and n == 1):
        return math.inf
    transition = H * math.sqrt((S + radii.L_p) / n)
    if radii.bernstein:
        counts = statistics.successors.dense[h, :, pair]
        p = counts[counts > 0] / n
        terms = np.sqrt(2 * p * (1 - p) * radii.L_b / (n - 1)) + 7 * radii.L_b / (3 * (n - 1))
        transition = min(transition, H * float(terms.sum()))
    return radii.bonus_scale * (math.sqrt(radii.L_r / n) + transition)


@pytest.mark.parametrize("bernstein", [False, True])
@pytest.mark.parametrize("dense", [True, False])
def test_what_planning_reads_of_every_pair(bernstein: bool, dense: bool) -> None:
    counted = visited(visits.empty_statistics(H, S, A, M, dense=True), 7, 3000)
    statistics = visited(visits.empty_statistics(H, S, A, M, dense=dense), 7, 3000)
    few = visited(visits.empty_statistics(H, S, A, M, dense=True), 3, 3)
    few_too = visited(visits.empty_statistics(H, S, A, M, dense=dense), 3, 3)
    assert {0, 1, 2} <= set(few.n.ravel().tolist())
    radii = RADII._replace(bernstein=bernstein)
    mask = np.random.default_rng(0).random((H, S * A)) < 0.8
    for kept, given in ((counted, statistics), (few, few_too)):
        deficit, weight = np.zeros((1 + M, H, S * A)), np.zeros((H, S * A))
        max_deficit = np.zeros((H, S))
        optimism.refresh_all(radii, given, mask, deficit, weight, max_deficit)
        for h in range(H):
            for pair in range(S * A):
                n = kept.n[h, pair]
                phi = expected_bonus(radii, kept, h, pair)
                got = optimism.pair_bonus(radii, given, h, pair)
                assert got == pytest.approx(phi, rel=1e-14)
                assert weight[h, pair] == (1 / n if n else 0.0)
                mean = kept.sums[:, h, pair] / max(n, 1)
                v_bar = mean + (phi if mask[h, pair] else math.inf)
                np.testing.assert_allclose(deficit[:, h, pair], 1 - v_bar, rtol=1e-13, atol=1e-15)
        highest = deficit.reshape(1 + M, H, S, A).max(axis=(0, 3))
        np.testing.assert_array_equal(max_deficit, np.zeros((H, S)) if dense else highest)


def test_bernstein_is_the_smaller_of_the_two() -> None:
    """With one successor and many visits it is smaller than Hoeffding's, with few visits it is not."""
    smaller = []
    for n in (20, 20_000):
        statistics = visits.empty_statistics(1, 2, 1, 1)
        statistics.n[0, 0] = n
        statistics.successors.dense[0, 1, 0] = n
        radii = optimism.make_radii(2, 1, 1, 1, 10**5, 0.05)
        bonuses = [
            optimism.pair_bonus(radii._replace(bernstein=b), statistics, 0, 0)
            for b in (False, True)
        ]
        assert bonuses[1] <= bonuses[0]
        smaller.append(bonuses[1] < bonuses[0])
    assert smaller == [False, True]


def test_no_data_is_at_the_cap_whatever_the_scale() -> None:
    none = RADII._replace(bonus_scale=0.0)
    statistics = visits.empty_statistics(H, S, A, M)
    assert optimism.pair_bonus(none, statistics, 0, 0) == math.inf
    statistics.n[0, 0] = 1
    assert optimism.pair_bonus(none, statistics, 0, 0) == 0.0
    assert optimism.pair_bonus(none._replace(bernstein=True), statistics, 0, 0) == math.inf


@pytest.mark.parametrize("clip", [True, False])
@pytest.mark.parametrize("pairs", [1, S * A])
@pytest.mark.parametrize("episodes", [0, 1, 40])
def test_threshold_bounds(clip: bool, pairs: int, episodes: int) -> None:
    history = samples(4, episodes, H, S * A, M, 0.4)
    window = filled(windows.empty_window(H, pairs, M, 0.5), history)
    radii = RADII._replace(clip=clip)
    lower, upper = np.full(M, np.nan), np.full(M, np.nan)
    optimism.threshold_bounds(radii, window, lower, upper)
    low, high = np.zeros(M), np.zeros(M)
    kept = history[len(history) - max(1, len(history) // 2) :] if history else []
    for h in range(H):
        of_pair: dict[int, list[np.ndarray]] = {}
        for at, x in kept:
            if not np.isnan(x[h, 0]):
                of_pair.setdefault(0 if pairs == 1 else int(at[h]), []).append(x[h])
        if not of_pair:
            low, high = low, high + 1.0
            continue
        best = min(of_pair, key=lambda pair: (-len(of_pair[pair]), pair))
        mean, n = np.mean(of_pair[best], axis=0), len(of_pair[best])
        zeta = min(1.0, 0.2 * math.sqrt(4 * RADII.L_r / n))
        ends = mean - zeta, mean + zeta
        low += np.clip(ends[0], 0, 1) if clip else ends[0]
        high += np.clip(ends[1], 0, 1) if clip else ends[1]
    np.testing.assert_allclose(lower, low, rtol=1e-13, atol=1e-13)
    np.testing.assert_allclose(upper, high, rtol=1e-13, atol=1e-13)
    assert (lower <= upper).all()


def test_threshold_bounds_add_what_rounding_had_cut_off() -> None:
    """After large sums came and went, the mean is that of what is left."""
    window = windows.empty_window(1, 1, 1, 0.5)
    signals = [1e9, 0.1, 1e9, 1 / 3, 0.7]
    for x in signals:
        windows.count_sample(window, 0, 0, np.array([x]), 1.0)
    for x in signals[:3:2]:
        windows.count_sample(window, 0, 0, np.array([x]), -1.0)
    lower, upper = np.zeros(1), np.zeros(1)
    optimism.threshold_bounds(RADII._replace(threshold_scale=0.0), window, lower, upper)
    assert lower[0] == upper[0] == pytest.approx(math.fsum([0.1, 1 / 3, 0.7]) / 3, rel=1e-15)
    assert window.sums[0, 0, 0] / 3 != pytest.approx(lower[0], rel=1e-12)
