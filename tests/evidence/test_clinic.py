"""How often bounds miss on the patients of `Clinic`: hidden types, and deaths that end an episode early.

Runs draw from a pool of patients that were treated once, so that the truth of their law is known exactly.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import pytest

from safespot.arrays import InsideEpisode
from safespot.evidence.meter import SafetyMeter, meter_episode, meter_levels, read_meter
from safespot.gym.clinic import Clinic
from safespot.kernels.jit import no_refcount
from safespot.learners.threshold_totals import observe_totals, total_rates, total_state
from safespot.problems.dosing import BLOCKS
from safespot.signals.totals import add_sums

from .test_coverage import clopper_pearson, shrink

Array = Any
H, DELTA, PATIENTS = BLOCKS, 0.3, 1_500
INTERFACE = {"states": 1, "actions": 1, "horizon": H, "constraints": 1, "senses": ">="}


@functools.cache
def treated() -> tuple[Array, Array]:
    """The doses not given ``[n,H,1]``, 0 after a death, and the hints, NaN after it, of patients treated at random."""
    ward, rng = Clinic(), np.random.default_rng(0)
    spared, hints = np.zeros((PATIENTS, H, 1)), np.full((PATIENTS, H, 1), np.nan)
    for n in range(PATIENTS):
        ward.reset(seed=0 if n == 0 else None)
        for h in range(H):
            _, _, died, _, info = ward.step(int(rng.integers(5)))
            spared[n, h, 0], hints[n, h, 0] = 1.0 - info["cost"], info["threshold"]
            if died:
                break
    return spared, hints


@no_refcount
def run_of(
    spared: Array, hints: Array, drawn: Array, declared: Any, state: Any, episode: Any, sums: Array,
    x: Array, levels: Array, low: Array, rates: Any, totals: Any, lower: Array, upper: Array,
    value: float, limit: float, shrunk: float,
) -> int:  # fmt: skip
    """1 where any bound of the meter is wrong after any patient, 2 where one on the tolerance is, 3 for both."""
    missed, unknown = False, False
    for t in range(drawn.shape[0]):
        for h in range(hints.shape[1]):
            episode.constraints[h, 0] = spared[drawn[t], h, 0]
            episode.thresholds[h, 0] = hints[drawn[t], h, 0]
            episode.rewards[h] = spared[drawn[t], h, 0]
        add_sums(episode.rewards, episode.constraints, episode.thresholds, sums)
        meter_episode(declared, state, sums, x)
        read_meter(state, levels, low)
        n = t + 1.0
        shrink(state, low, shrunk)
        missed |= H * low[0] > n * value + 1e-6 or H * (n - low[1]) < n * value - 1e-6
        missed |= 2.0 * H * low[2] - n * H > n * (value - limit) + 1e-6
        missed |= n * H - 2.0 * H * low[3] < n * (value - limit) - 1e-6
        observe_totals(rates, totals, episode.thresholds, lower, upper)
        middle, half = (lower[0] + upper[0]) / 2.0, (upper[0] - lower[0]) / 2.0 / shrunk
        unknown |= not middle - half - 1e-6 <= limit <= middle + half + 1e-6
    return int(missed) + 2 * int(unknown)


def misses(runs: int, length: int, shrunk: float = 1.0) -> tuple[int, int]:
    """How many runs any bound of the meter, and how many any bound on the tolerance, is wrong in."""
    spared, hints = treated()
    value, limit = spared.sum() / PATIENTS, H * float(np.nanmean(hints))
    declared = SafetyMeter(INTERFACE).terms.declared
    rates = total_rates(1, H, DELTA, planned=length, shared_threshold=True)
    episode = InsideEpisode(
        np.zeros(H + 1, np.int64), np.zeros(H, np.int64), np.zeros(H), np.zeros((H, 1)), np.zeros((H, 1))
    )  # fmt: skip
    rng, found = np.random.default_rng(1), np.zeros(2, int)
    for _ in range(runs):
        said = run_of(
            spared, hints, rng.integers(0, PATIENTS, length), declared, SafetyMeter(INTERFACE).state, episode,
            np.zeros(6), np.zeros(4), meter_levels(1, DELTA), np.zeros(4),
            rates, total_state(rates, H), np.zeros(1), np.full(1, float(H)), value, limit, shrunk,
        )  # fmt: skip
        found += said & 1, said >> 1
    return int(found[0]), int(found[1])


def test_some_patients_die_and_the_pool_is_that_of_the_clinic() -> None:
    _, hints = treated()
    gone = np.isnan(hints[:, -1, 0]).mean()
    assert 0.02 < gone < 0.9
    assert abs(H * np.nanmean(hints) - 6.0) < 0.1


def test_few_runs_miss() -> None:
    for found in misses(60, 200):
        assert clopper_pearson(found, 60)[0] <= DELTA


def test_a_third_of_the_radius_is_caught() -> None:
    """Of the meter: bounds per sample are so cautious that a third of them seldom misses, too."""
    assert clopper_pearson(misses(200, 500, 3.0)[0], 200)[0] > DELTA


@pytest.mark.slow
def test_of_2000_runs_few_miss() -> None:
    for found in misses(2_000, 500):
        assert clopper_pearson(found, 2_000)[1] <= DELTA
