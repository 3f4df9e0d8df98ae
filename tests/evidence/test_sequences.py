"""Confidence sequences against their slow reading, and what their formulas promise."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from safespot.errors import InvalidOption
from safespot.evidence.lengths import episodes_needed
from safespot.evidence.sequences import (
    LOG_PRIOR,
    WEIGHTS,
    add_factor,
    bet,
    changing_means,
    choose_weights,
    crossing,
    fixed_means,
    move_powers,
    observe_changing,
    observe_fixed,
    observe_samples,
    read_fixed,
    sample_mean,
    sums_of_means,
    targets,
    window_sum,
)
from safespot.kernels.jit import no_refcount

from . import reference as ref

Array = Any
SHARE = 0.05


@no_refcount
def watch_changing(state: Any, x: Array) -> None:
    for t in range(x.shape[0]):
        observe_changing(state, x[t])


@no_refcount
def watch_fixed(targets: Any, state: Any, x: Array) -> None:
    for t in range(x.shape[0]):
        observe_fixed(targets, state, 0, x[t])


@no_refcount
def lower_sample_mean(sums: Array, H: float, level: float) -> float:
    return sample_mean(sums, H, level)


@no_refcount
def cross(terms: Array, slopes: Array, level: float) -> float:
    return crossing(terms, slopes, level)


@no_refcount
def bets(wealth: Array, fresh: float, mu: float, x: Array, total: Array) -> None:
    for t in range(x.shape[0]):
        total[t] = bet(wealth, fresh, mu, x[t])


def changing(x: Array) -> Array:
    """The bounds of each column's sum of means."""
    state, low = changing_means(x.shape[1]), np.zeros(x.shape[1])
    watch_changing(state, x)
    sums_of_means(state, np.full(x.shape[1], math.log(1 / SHARE)), low)
    return low


def fixed(x: Array, planned: int) -> float:
    state, made = fixed_means(1), targets(planned)
    watch_fixed(made, state, x)
    read_fixed(made, state, 0, math.log(1 / SHARE))
    return float(state.lower[0])


def numbers(seed: int, n: int) -> Array:
    """Columns of quite different laws."""
    rng = np.random.default_rng(seed)
    return np.stack(
        [
            rng.random(n) < 0.5, rng.random(n) < 0.01, rng.random(n) < 0.99, rng.beta(2, 5, n), np.full(n, 0.3),
            np.zeros(n), np.ones(n), np.arange(n) % 2, np.clip(0.4 + 0.02 * rng.standard_normal(n), 0, 1),
        ], axis=1,
    ).astype(float)  # fmt: skip


@pytest.mark.parametrize("n", [1, 2, 7, 127, 128, 129, 1_000, 5_000])
def test_sums_of_changing_means_are_those_of_the_slow_reading(n: int) -> None:
    x = numbers(n, n)
    expected = [ref.changing_sum(column, SHARE) for column in x.T]
    np.testing.assert_allclose(changing(x), expected, rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("n", [1, 2, 7, 128, 129, 1_000, 5_000])
def test_a_fixed_mean_is_that_of_the_slow_reading(n: int) -> None:
    for column in numbers(n, n).T:
        expected = ref.fixed_mean(column, SHARE, 500)
        assert fixed(column, 500) == pytest.approx(expected, rel=1e-8, abs=1e-9)


@pytest.mark.parametrize("n", [1, 20, 500])
def test_the_mean_of_samples_is_that_of_a_dense_search(n: int) -> None:
    rng, H = np.random.default_rng(n), 6
    counts = rng.integers(0, H + 1, n).astype(float)
    totals = rng.binomial(counts.astype(int), 0.7).astype(float)
    sums = np.zeros(5)
    for k, s in zip(counts, totals, strict=True):
        observe_samples(sums, k, s)
    found = lower_sample_mean(sums, float(H), math.log(1 / SHARE))
    assert found == pytest.approx(ref.sample_mean(counts, totals, H, SHARE), abs=6e-5)


def test_the_mean_of_very_many_samples_is_known_and_nothing_overflows() -> None:
    n = 1e6
    sums = n * np.array([6.0, 5.0, 25.0, 30.0, 36.0])  # six samples an episode, five of them 1
    found = lower_sample_mean(sums, 6.0, math.log(1 / SHARE))
    assert 5 / 6 - 0.01 < found < 5 / 6
    none = lower_sample_mean(sums * [1.0, 0.0, 0.0, 0.0, 1.0], 6.0, math.log(1 / SHARE))
    assert none == 0.0


def test_a_window_is_that_of_the_slow_reading_after_taking_back() -> None:
    rng = np.random.default_rng(3)
    x = rng.random(400) * 0.5
    y = x - np.clip(rng.random(400), 0.0, 1.0)  # any guesses
    sums = np.zeros(4)
    for a, b in zip(x, y, strict=True):
        move_powers(sums, a, b, 1.0)
    for a, b in zip(x[:150], y[:150], strict=True):
        move_powers(sums, a, b, -1.0)
    found = window_sum(sums, math.log(1 / SHARE), np.zeros(8))
    assert found == pytest.approx(ref.window_sum(x[150:], y[150:], SHARE), rel=1e-9)


def test_bets_are_products_and_restarts_add_up() -> None:
    x = np.random.default_rng(4).random(50)
    mu, weights = 0.4, np.minimum(WEIGHTS, 0.9 / 0.4)
    found = np.zeros(50)
    bets(np.ones(len(WEIGHTS)), 0.0, mu, x, found)
    factors = 1.0 + weights * (x[:, None] - mu)
    np.testing.assert_allclose(found, np.cumprod(factors, axis=0) @ np.exp(LOG_PRIOR), rtol=1e-12)
    bets(np.zeros(len(WEIGHTS)), 1.0, mu, x, found)
    restarted = [
        sum(factors[j : t + 1].prod(axis=0) for j in range(t + 1)) @ np.exp(LOG_PRIOR)
        for t in range(50)
    ]
    np.testing.assert_allclose(found, restarted, rtol=1e-12)


@settings(max_examples=200)
@given(
    st.lists(st.floats(-50.0, 50.0), min_size=3, max_size=3),
    st.lists(st.floats(1e-3, 50.0), min_size=3, max_size=3),
    st.floats(0.1, 30.0),
)
def test_newton_ends_at_the_root_and_never_beyond(
    terms: list[float], slopes: list[float], level: float
) -> None:
    a, b = np.array(terms), np.array(slopes)
    z = cross(a, b, level)
    assert np.logaddexp.reduce(a - b * z) == pytest.approx(level, abs=1e-7)
    assert np.logaddexp.reduce(a - b * (z - 1e-9 * (1 + abs(z)))) >= level - 1e-9


@settings(max_examples=100)
@given(st.lists(st.floats(0.0, 1.0), min_size=1, max_size=40), st.integers(0, 2**32 - 1))
def test_bounds_lie_in_the_range_and_do_not_cross(x: list[float], seed: int) -> None:
    column = np.array(x)
    low, missing = changing(np.stack([column, 1.0 - column], axis=1))
    assert 0.0 <= low <= column.sum() + 1e-9
    assert len(x) - missing >= column.sum() - 1e-9
    assert 0.0 <= fixed(column, 100) <= 1.0


def test_compiled_equals_plain_to_the_last_bit() -> None:
    x, made = numbers(6, 300), targets(100)
    states = changing_means(x.shape[1]), changing_means(x.shape[1])
    single = fixed_means(1), fixed_means(1)
    watch_changing(states[0], x)
    watch_fixed(made, single[0], x[:, 3])
    plain: Any = [getattr(f, "py_func", f) for f in (observe_changing, choose_weights, add_factor)]
    for row in x:
        plain[0](states[1], row)
        guess = (0.5 + single[1].total[0]) / (single[1].counted[0] + 1.0)
        plain[1](made, single[1], 0, guess)
        plain[2](single[1], 0, row[3], guess)
    for a, b in zip(states[0] + single[0], states[1] + single[1], strict=True):
        np.testing.assert_array_equal(a, b)


def test_setting_powers_aside_loses_nothing_over_many_episodes() -> None:
    x = np.zeros((3_000, 2))  # products that would underflow, and overflow, without it
    x[:, 1] = 1.0
    state = changing_means(2)
    watch_changing(state, x)
    assert np.isfinite(state.product).all()
    assert (state.product > 0.0).all()
    low = changing(x)
    assert low[0] == 0.0
    assert low[1] == pytest.approx(ref.changing_sum(x[:, 1], SHARE), rel=1e-9)


def test_rare_events_have_a_lower_bound_near_that_of_betting() -> None:
    """0.015 falls in 14 steps, 5,000 times: a range of 14 must not matter."""
    x = (np.random.default_rng(1).random((5_000, 14)) < 0.015 / 14).sum(axis=1) / 14
    dense = 14 * ref.betting_mean(x, 0.025, np.geomspace(3e-4, 2e-3, 400))
    state, made = fixed_means(1), targets(5_000)
    watch_fixed(made, state, x)
    read_fixed(made, state, 0, math.log(1 / 0.025))
    assert 14 * state.lower[0] >= 0.95 * dense
    assert 14 * state.lower[0] > 0.006
    sums, low = changing_means(1), np.zeros(1)
    watch_changing(sums, x[:, None])
    sums_of_means(sums, np.full(1, math.log(1 / 0.025)), low)
    assert 14 * low[0] / 5_000 > 0.5 * dense  # no weight above 1: nothing at all


def test_many_episodes_narrow_as_the_root_of_their_number() -> None:
    rng, widths = np.random.default_rng(5), []
    for n in (1_000, 100_000):
        x = (rng.random(n) < 0.5).astype(float)
        low, above = changing(np.stack([x, 1.0 - x], axis=1))
        widths.append((n - above - low) / n)
    assert 8.0 < widths[0] / widths[1] < 12.0


def test_a_proof_takes_as_long_as_the_quotient_says() -> None:
    assert episodes_needed(0.2, 1.4) / episodes_needed(0.4, 1.4) == pytest.approx(4.0, rel=0.05)
    assert episodes_needed(0.4, 1.4) < episodes_needed(0.4, 1.4, 0.001)
    assert episodes_needed(0.4, 1.4) < episodes_needed(0.4, 1.4, constraints=3)
    rng, stops = np.random.default_rng(0), []
    for _ in range(101):
        d = (rng.binomial(4, 0.6, 2_000) - rng.binomial(4, 0.5, 2_000) + 4) / 8
        state, made = fixed_means(1), targets(200)
        for t in range(2_000):
            watch_fixed(made, state, d[t : t + 1])
            read_fixed(made, state, 0, math.log(1 / 0.05))
            if state.lower[0] > 0.5:
                stops.append(t + 1)
                break
    assert np.median(stops) == pytest.approx(episodes_needed(0.4, math.sqrt(1.96)), rel=0.3)


@pytest.mark.parametrize(
    "wrong",
    [
        *({"room": 0.0}, {"deviation": -1.0}, {"delta": 1.0}, {"room": math.nan}, {"room": 1e-12}),
        *({"worst": -1.0}, {"worst": math.inf}, {"worst": 1e17}, {"room": 1e-200, "worst": 1e200}),
    ],
)
def test_lengths_refuse_nonsense(wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidOption):
        episodes_needed(**({"room": 1.0, "deviation": 1.0} | wrong))


@pytest.mark.parametrize(
    ("room", "deviation", "delta", "m"),
    [(0.4, 1.4, 0.05, 1), (0.4, 0.5, 0.05, 1), (0.5, 0.9, 0.3, 4), (3.0, 0.5, 0.05, 1), (50.0, 1.0, 0.9, 1)],
)  # fmt: skip
def test_a_proof_takes_no_episode_more_than_it_needs(
    room: float, deviation: float, delta: float, m: int
) -> None:
    """The mixture planned for n reaches m / delta with the average of n episodes, and that for n - 1 does not."""

    def reached(n: int) -> bool:
        k = np.arange(-6, 10)
        rates, prior = np.sqrt(10.0 / (n * 4.0**k)), 1.0 / (1.0 + k**2)
        gain = n * (rates * room / deviation - rates**2 / 2.0)
        return bool(np.logaddexp.reduce(np.log(prior / prior.sum()) + gain) >= math.log(m / delta))

    needed = episodes_needed(room, deviation, delta, constraints=m)
    assert reached(needed)
    assert needed == 1 or not reached(needed - 1)


@pytest.mark.parametrize(
    ("room", "worst"), [(0.6, 1.0), (0.05, 1.0), (1.0, 4.0), (0.4, 14.0), (3.0, 14.0)]
)
def test_a_wide_range_makes_a_proof_take_longer_than_the_noise_does(
    room: float, worst: float
) -> None:
    """Episodes that are all alike, with ranges from -worst to worst: no bet on the average one is larger."""
    needed = episodes_needed(room, 1e-9, worst=worst)
    assert needed == math.ceil(math.log(20.0) / math.log(1.0 + room / worst))
    state, made, took = fixed_means(1), targets(needed), 0
    while state.lower[0] <= 0.5:
        watch_fixed(made, state, np.full(1, (room / worst + 1.0) / 2.0))
        read_fixed(made, state, 0, math.log(20.0))
        took += 1
    assert needed < took < 1.4 * needed  # a mixture of bets, whose weights come to know the noise


def test_where_the_noise_is_as_wide_as_the_range_the_range_says_nothing_more() -> None:
    assert episodes_needed(0.4, 1.4, worst=4.0) == episodes_needed(0.4, 1.4)
