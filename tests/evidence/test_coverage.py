"""How often bounds miss, over worlds that try: with delta = 0.3 at most so many runs, at any of all moments."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import pytest
from scipy.stats import beta

from safespot.arrays import InsideEpisode
from safespot.evidence.meter import SafetyMeter, meter_episode, meter_levels, read_meter
from safespot.kernels.jit import inlined, no_refcount
from safespot.learners.threshold_totals import (
    grow_totals,
    observe_totals,
    total_rates,
    total_state,
    totals_have_room,
)
from safespot.signals.totals import add_sums

from . import worlds
from .worlds import draw

Array = Any
H, DELTA = 4, 0.3
INTERFACE = {"states": 1, "actions": 1, "horizon": H, "constraints": 1}


def clopper_pearson(misses: int, runs: int) -> tuple[float, float]:
    """In which the probability of a miss lies, each side but for 1 %."""
    low = beta.ppf(0.01, misses, runs - misses + 1) if misses else 0.0
    high = beta.ppf(0.99, misses + 1, runs - misses) if misses < runs else 1.0
    return float(low), float(high)


@inlined
def shrink(state: Any, low: Array, shrunk: float) -> None:
    """Divide the distances of a meter's bounds from the sums that were seen."""
    for r in range(4):
        seen = state.means.total[r - 2] if r > 1 else state.reward[r, 0]
        low[r] = seen - (seen - low[r]) / shrunk


@no_refcount
def meter_run(
    world: int,
    u: Array,
    declared: Any,
    state: Any,
    episode: Any,
    sums: Array,
    x: Array,
    level: Array,
    low: Array,
    shrunk: float,
) -> bool:
    """Whether any bound of the violation or the reward is wrong after any episode."""
    value, limit, seen, missed = 0.0, 0.0, 0.0, False
    for t in range(u.shape[0]):
        expected, hinted = draw(
            world, t / u.shape[0], seen - value, u[t], episode.constraints, episode.thresholds
        )
        for h in range(u.shape[1]):
            episode.rewards[h] = episode.constraints[h, 0]
            seen += episode.constraints[h, 0]
        value += expected
        limit += hinted
        add_sums(episode.rewards, episode.constraints, episode.thresholds, sums)
        meter_episode(declared, state, sums, x)
        read_meter(state, level, low)
        n = t + 1.0
        shrink(state, low, shrunk)
        missed |= H * low[0] > value + 1e-6
        missed |= H * (n - low[1]) < value - 1e-6
        missed |= 2.0 * H * low[2] - n * H > value - limit + 1e-6
        missed |= n * H - 2.0 * H * low[3] < value - limit - 1e-6
    return missed


def meter_misses(world: int, runs: int, length: int, shrunk: float = 1.0) -> int:
    declared = SafetyMeter(INTERFACE).terms.declared
    rng, x, low = np.random.default_rng(world), np.zeros(4), np.zeros(4)
    episode = InsideEpisode(
        np.zeros(H + 1, np.int64),
        np.zeros(H, np.int64),
        np.zeros(H),
        np.zeros((H, 1)),
        np.zeros((H, 1)),
    )
    return sum(
        meter_run(
            world,
            rng.random((length, H, 3)),
            declared,
            SafetyMeter(INTERFACE).state,
            episode,
            np.zeros(6),
            x,
            meter_levels(1, DELTA),
            low,
            shrunk,
        )
        for _ in range(runs)
    )


@no_refcount
def totals_run(
    world: int, u: Array, first: int, rates: Any, state: Any, g: Array, x: Array,
    lower: Array, upper: Array, past: Array, shrunk: float,
) -> int:  # fmt: skip
    """The episode before which there was no room, or the last; -1: a bound was wrong."""
    for t in range(first, u.shape[0]):
        if not totals_have_room(state):
            return t
        hinted = draw(world, t / u.shape[0], 0.0, u[t], g, x)[1]
        past[t] = hinted
        observe_totals(rates, state, x, lower, upper)
        truth, since = hinted, 0
        if rates.gamma < 1.0:
            since = t + 1 - max(1, int(rates.gamma * (t + 1)))
            truth = past[since : t + 1].sum() / (t + 1 - since)
        middle, half = (lower[0] + upper[0]) / 2.0, (upper[0] - lower[0]) / 2.0 / shrunk
        if not middle - half - 1e-6 <= truth <= middle + half + 1e-6:
            return -1
    return int(u.shape[0])


def totals_misses(world: int, runs: int, length: int, shrunk: float = 1.0, **declared: Any) -> int:
    rng, past, misses = np.random.default_rng(world), np.zeros(length), 0
    rates = total_rates(1, H, DELTA, planned=length, **declared)
    for _ in range(runs):
        state, lower, upper = total_state(rates, H), np.zeros(1), np.full(1, float(H))
        u, t = rng.random((length, H, 3)), 0
        while 0 <= t < length:
            t = totals_run(
                world, u, t, rates, state, np.zeros((H, 1)), np.zeros((H, 1)), lower, upper, past, shrunk
            )  # fmt: skip
            if 0 <= t < length:
                state = grow_totals(state)
        misses += t < 0
    return misses


ANY = range(len(worlds.NAMES))
STATIONARY = [w for w in ANY if w not in (worlds.ADVERSARY, worlds.DRIFT)]
INDEPENDENT = [
    w for w in STATIONARY if w not in (worlds.ONE_NOISE, worlds.HIDDEN, worlds.ONE_NOISE_ENDED_BY_G)
]
SHARED = [w for w in STATIONARY if w != worlds.MISSING_BY_HINT]

METER = [
    pytest.param(functools.partial(meter_misses, w), id=f"meter, {worlds.NAMES[w]}") for w in ANY
]
TOTALS = [
    pytest.param(functools.partial(totals_misses, w, **options), id=f"{name}, {worlds.NAMES[w]}")
    for name, options, where in (
        ("totals", {}, STATIONARY),
        ("steps", {"independent_hints": True}, INDEPENDENT),
        ("shared", {"shared_threshold": True}, SHARED),
        (
            "samples",
            {"shared_threshold": True, "independent_hints": True},
            [w for w in INDEPENDENT if w in SHARED],
        ),
        ("window", {"window": 0.5}, [*STATIONARY, worlds.DRIFT]),
    )
    for w in where
]


@pytest.mark.parametrize("misses", METER + TOTALS)
def test_few_runs_miss(misses: Any) -> None:
    runs = 60
    assert clopper_pearson(misses(runs, 200), runs)[0] <= DELTA


@pytest.mark.slow
@pytest.mark.parametrize("misses", METER + TOTALS)
def test_of_2000_runs_few_miss(misses: Any) -> None:
    runs = 2_000
    assert clopper_pearson(misses(runs, 500), runs)[1] <= DELTA


@pytest.mark.parametrize("bounds", ["meter", "totals", "steps", "shared", "window"])
def test_a_third_of_the_radius_is_caught(bounds: str) -> None:
    runs, length = (
        200,
        8_000 if bounds == "window" else 1_000,
    )  # each moment has its own share there
    options: dict[str, dict[str, Any]] = {
        "steps": {"independent_hints": True}, "shared": {"shared_threshold": True}, "window": {"window": 0.5},
    }  # fmt: skip
    found = (
        meter_misses(worlds.COINS, runs, length, 3.0)
        if bounds == "meter"
        else totals_misses(worlds.COINS, runs, length, 3.0, **options.get(bounds, {}))
    )
    assert clopper_pearson(found, runs)[0] > DELTA


def test_hints_with_one_noise_need_one_factor_per_episode() -> None:
    runs = 200
    found = totals_misses(worlds.ONE_NOISE, runs, 500, independent_hints=True)
    assert clopper_pearson(found, runs)[0] > DELTA
