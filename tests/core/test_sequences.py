"""Confidence sequences against their slow reading, and against the kernels that they replace."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import safespot as ss
from safespot import _core
from safespot.evidence import sequences as numba
from safespot.evidence.meter import MeterState, meter_episodes, meter_levels, read_meter
from safespot.evidence.sequences import changing_means
from safespot.signals.interface import make_interface
from safespot.signals.totals import declare, sums_of_many
from tests.core.support import Record, meter_rows
from tests.evidence import reference as ref

Array = Any
NUMBERS: dict[str, Callable[[np.random.Generator, int], Array]] = {
    "coins": lambda rng, n: (rng.random(n) < 0.3).astype(float),
    "rare": lambda rng, n: (rng.random(n) < 0.002).astype(float),
    "uniform": lambda rng, n: rng.random(n),
    "zeros": lambda rng, n: np.zeros(n),
    "ones": lambda rng, n: np.ones(n),
    "narrow": lambda rng, n: 0.5 + 1e-3 * rng.standard_normal(n).clip(-3.0, 3.0),
    "drifting": lambda rng, n: (rng.random(n) < np.linspace(0.0, 1.0, n)).astype(float),
}


@pytest.mark.parametrize("share", [0.05, 1e-9])
@pytest.mark.parametrize("kind", NUMBERS)
@pytest.mark.parametrize("n", [1, 127, 128, 700])
def test_changing_means(kind: str, n: int, share: float) -> None:
    x = np.stack([NUMBERS[kind](np.random.default_rng(k), n) for k in range(2)], axis=1)
    rows, old = np.full((2, _core.ChangingMeans.width), math.nan), numba.changing_means(2)
    for r in range(2):
        _core.ChangingMeans.reset(rows, r)
    for each in x:
        for r in range(2):
            _core.ChangingMeans.observe(rows, r, each[r])
        numba.observe_changing(old, each)
    np.testing.assert_array_equal(rows, meter_rows(old))
    level, expected = -math.log(share), np.zeros(2)
    lower = np.array([_core.ChangingMeans.bound(rows, r, level) for r in range(2)])
    numba.sums_of_means(old, np.full(2, level), expected)
    np.testing.assert_allclose(lower, expected, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(
        lower, [ref.changing_sum(x[:, k], share) for k in range(2)], rtol=1e-9, atol=1e-9
    )
    assert (lower <= n).all()


@pytest.mark.parametrize("factors", [1.0, 7.0])
@pytest.mark.parametrize("kind", NUMBERS)
@pytest.mark.parametrize("n", [1, 40, 300])
def test_fixed_means(kind: str, n: int, factors: float) -> None:
    x, share, planned = NUMBERS[kind](np.random.default_rng(n), n), 0.02, 200
    targets = _core.Targets(planned, factors)
    plain = numba.targets(planned)
    old_targets = plain._replace(rate=plain.rate / math.sqrt(factors))
    rows, old = np.full((1, _core.FixedMean.width), math.nan), numba.fixed_means(1)
    _core.FixedMean.reset(rows, 0)
    level = -math.log(share)
    for each in x:
        _core.FixedMean.observe(rows, 0, targets, each)
        _core.FixedMean.read_when_due(rows, 0, targets, level)
        numba.observe_fixed(old_targets, old, 0, each)
        if numba.is_due(old, 0):
            numba.read_fixed(old_targets, old, 0, level)
    order = (old.counted, old.total, old.squares, old.lower, old.due)
    np.testing.assert_allclose(rows[0, :5], [array[0] for array in order], rtol=1e-12, atol=1e-12)
    blocks = (old.weight, old.slope, old.offset, old.product, old.power)
    np.testing.assert_allclose(rows[0, 5:].reshape(5, 16), [b[0] for b in blocks], rtol=1e-12)
    _core.FixedMean.read(rows, 0, targets, level)
    if factors == 1.0:
        best = ref.fixed_mean(x, share, planned)
        assert rows[0, 3] >= best - 1e-9
        if n == 1:
            assert rows[0, 3] == pytest.approx(best, abs=1e-9)


@pytest.mark.parametrize("kind", NUMBERS)
def test_sums_over_windows(kind: str) -> None:
    x = NUMBERS[kind](np.random.default_rng(3), 300)
    y = x - ref.guesses(x)
    rows, old = np.full((2, _core.WindowSum.width), math.nan), np.zeros(4)
    for r in range(2):
        _core.WindowSum.reset(rows, r)
    for t in range(300):
        _core.WindowSum.move(rows, 1, x[t], y[t])
        numba.move_powers(old, x[t], y[t], 1.0)
        if t >= 100:  # the last hundred
            _core.WindowSum.move(rows, 1, x[t - 100], y[t - 100], -1.0)
            numba.move_powers(old, x[t - 100], y[t - 100], -1.0)
    np.testing.assert_array_equal(rows, [[0.0] * 4, old])
    bound = _core.WindowSum.bound(rows, 1, 3.0)
    assert bound == pytest.approx(numba.window_sum(old, 3.0, np.zeros(8)), rel=1e-12, abs=1e-12)
    assert bound == pytest.approx(
        ref.window_sum(x[200:], y[200:], math.exp(-3.0)), rel=1e-8, abs=1e-8
    )


def test_means_of_samples() -> None:
    rng, H = np.random.default_rng(1), 5
    rows, old = np.full((1, _core.SampleMean.width), math.nan), np.zeros(5)
    _core.SampleMean.reset(rows, 0)
    assert _core.SampleMean.bound(rows, 0, H, 3.0) == 0.0
    n = rng.integers(0, H + 1, 400).astype(float)
    s = n * (rng.random(400) < 0.6)
    for each in zip(n, s, strict=True):
        _core.SampleMean.observe(rows, 0, *each)
        numba.observe_samples(old, *each)
    np.testing.assert_array_equal(rows[0], old)
    bound = _core.SampleMean.bound(rows, 0, H, 3.0)
    assert bound == pytest.approx(numba.sample_mean(old, float(H), 3.0), rel=1e-12)
    assert bound == pytest.approx(ref.sample_mean(n, s, H, math.exp(-3.0)), abs=1e-4)
    assert 0.3 < bound < 0.6


@pytest.mark.parametrize("fresh", [0.0, 1.0])
@pytest.mark.parametrize("mu", [-0.1, 0.0, 0.01, 0.4, 1.0])
def test_bets(mu: float, fresh: float) -> None:
    rng, rows, old = np.random.default_rng(2), np.full((1, 8), 1.0 - fresh), np.full(8, 1.0 - fresh)
    weights = 6.0 / 3.0 ** np.arange(8)
    prior = 1.0 / (1.0 + np.log(weights / 0.5) ** 2)
    rates = np.minimum(weights, 0.9 / mu) if mu > 0.0 else weights
    wealth = np.full(8, 1.0 - fresh)
    for x in (rng.random(50) < 0.3).astype(float):
        mixed = _core.Bets.observe(rows, 0, fresh, mu, x)
        assert mixed == pytest.approx(numba.bet(old, fresh, mu, x), rel=1e-12)
        wealth = (fresh + wealth) * (1.0 + rates * (x - mu))
        assert mixed == pytest.approx(wealth @ (prior / prior.sum()), rel=1e-10)


# The meter on top of them


@given(
    st.integers(1, 3), st.integers(1, 4), st.sampled_from(["", "thresholds", "totals"]), st.integers(0, 2**32 - 1),
    st.sampled_from([0.0, 0.3]),
)  # fmt: skip
@settings(max_examples=40, deadline=None)
def test_meters(m: int, H: int, known: str, seed: int, missing: float) -> None:
    face = make_interface(1, 1, H, m)
    every: dict[str, dict[str, Any]] = {
        "": {}, "thresholds": {"thresholds": [0.4 * H] * m}, "totals": {"threshold_totals": (0.0, float(H))},
    }  # fmt: skip
    declared = declare(face, **every[known])
    rng, n = np.random.default_rng(seed), 60
    r, g, x = rng.random((n, H)), rng.random((n, H, m)), rng.random((n, H, m))
    x[rng.random((n, H)) < missing] = math.nan
    unfinished = rng.random(n) < missing / 3
    r[unfinished, -1] = g[unfinished, -1] = math.nan
    old = MeterState(changing_means(2 * m), np.zeros((2, 4)))
    sums = np.zeros((n, 2 + 4 * m))
    sums_of_many(r, g, x, sums)
    meter_episodes(declared, old, sums, np.zeros(2 + 2 * m))
    rows, reward = np.zeros((2 * m, _core.ChangingMeans.width)), np.zeros((2, 4))
    for k in range(2 * m):
        _core.ChangingMeans.reset(rows, k)
    meter = _core.Meter(declared, Record(means=rows, reward=reward))
    meter.observe(sums)
    np.testing.assert_array_equal(rows, meter_rows(old.means))
    np.testing.assert_array_equal(reward, old.reward)
    levels, lower, expected = meter_levels(m, 0.05), np.zeros(2 + 2 * m), np.zeros(2 + 2 * m)
    meter.read(levels, lower)
    read_meter(old, levels, expected)
    np.testing.assert_allclose(lower, expected, rtol=1e-12, atol=1e-12)
    _, high = (np.nan_to_num(x, nan=each).sum(axis=1) for each in (0.0, 1.0))
    low_g = np.nan_to_num(g).sum(axis=1)
    alpha = declared.alpha if known == "thresholds" else high
    share = math.exp(-levels[2])
    numbers = ((low_g - alpha - declared.least) / declared.width).clip(0.0, 1.0)
    slow = [ref.changing_sum(numbers[:, i], share) for i in range(m)]
    np.testing.assert_allclose(lower[2::2], slow, rtol=1e-8, atol=1e-8)


def test_a_meter_is_that_of_the_package() -> None:
    problem, noise = ss.problems.make("machine"), ss.streams(0)
    meter = ss.SafetyMeter(problem.interface)
    rows, reward = np.zeros((2, _core.ChangingMeans.width)), np.zeros((2, 4))
    for k in range(2):
        _core.ChangingMeans.reset(rows, k)
    core = _core.Meter(meter.terms.declared, Record(means=rows, reward=reward))
    for t in range(1, 300):
        episode = ss.play(problem, [[0.5, 0.5], [0.5, 0.5]], noise, t)
        meter.observe(episode)
        core.observe(meter.terms.row(episode)[None])
    np.testing.assert_array_equal(rows, meter_rows(meter.state.means))
