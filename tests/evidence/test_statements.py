"""The bounds of a certificate's statements: when a trial may stop, and what lower bounds say."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from safespot.evidence.sequences import fixed_means, targets
from safespot.evidence.statements import lower_bounds, watch

from . import reference as ref

Array = Any
LEVELS = np.array([9.0, 9.0, 3.0, 3.5, 2.5, 4.0, 9.0, 9.0])  # reward, two differences, a value


def rows_of(n: int, *means: float) -> Array:
    """Statements ``[n,8]``: the reward, and differences of these means, with both sides each."""
    rng = np.random.default_rng(0)
    x = np.stack([(rng.random(n) < mean).astype(float) for mean in (0.5, *means, 0.5)], axis=1)
    return np.stack([x, 1.0 - x], axis=2).reshape(n, -1)


def first_decided(rows: Array, kept: Array, planned: int) -> int:
    """By the slow reading after every episode; bounds hold at all times, so the best one so far counts."""
    best = np.zeros(8)
    for n in range(1, len(rows) + 1):
        for r in range(2, 6):
            found = ref.fixed_mean(rows[:n, r], math.exp(-LEVELS[r]), planned)
            best[r] = max(best[r], found)
        lower, upper = best[[2, 4]], 1.0 - best[[3, 5]]
        if ((lower >= kept) | (upper < kept)).all():
            return n
    return len(rows)


@pytest.mark.parametrize(
    ("means", "kept"), [((0.9, 0.9), (0.5, 0.4)), ((0.9, 0.1), (0.5, 0.5)), ((0.1, 0.9), (0.5, 0.5))]
)  # fmt: skip
def test_a_trial_stops_once_every_constraint_is_decided(
    means: tuple[float, float], kept: tuple[float, float]
) -> None:
    rows, limits = rows_of(60, *means), np.array(kept)
    state = fixed_means(8)
    stopped = watch(targets(40), state, rows, LEVELS, limits, True)
    assert stopped == first_decided(rows, limits, 40)
    assert 1 < stopped < 60
    assert (state.counted == stopped).all()  # what comes later is not counted


def test_a_trial_that_decides_nothing_takes_all_and_one_that_may_not_stop_does_too() -> None:
    rows = rows_of(30, 0.5, 0.9)
    assert watch(targets(40), fixed_means(8), rows, LEVELS, np.array([0.5, 0.5]), True) == 30
    rows = rows_of(30, 0.95, 0.95)
    state = fixed_means(8)
    assert watch(targets(40), state, rows, LEVELS, np.array([0.1, 0.1]), False) == 30
    assert (state.counted == 30).all()


def test_lower_bounds_are_those_of_the_slow_reading() -> None:
    rows = rows_of(50, 0.8, 0.3)
    expected = [ref.fixed_mean(rows[:, r], math.exp(-level), 50) for r, level in enumerate(LEVELS)]
    np.testing.assert_allclose(lower_bounds(rows, LEVELS), expected, rtol=1e-8, atol=1e-9)
