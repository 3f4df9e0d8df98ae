"""Which episodes are recorded, which optimum they are compared with, and how losses add up."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import safespot as ss
from safespot.kernels.jit import kernel
from safespot.training.metrics import DRIFT_POINTS, Optima, accumulate, add_shortfalls, grid
from tests.support.trails import example


@given(
    st.integers(1, 10**6), st.integers(0, 10**6), st.one_of(st.just("log"), st.integers(1, 10**6))
)
def test_a_grid_begins_and_ends_where_the_run_does(first: int, more: int, record: Any) -> None:
    last = first + more
    if record != "log":
        record = max(record, more // 1000 + 1)  # not millions of points
    points = grid(record, first, last)
    assert points.dtype == np.int64
    assert points[0] == first
    assert points[-1] == last
    assert (np.diff(points) > 0).all()
    inside = points[1:-1]
    if record == "log":
        steps = 32 * np.log10(inside)
        assert np.abs(10 ** (np.round(steps) / 32) - inside).max(initial=0.0) <= 0.5
        assert len(points) <= 2 + 32 * np.log10(last / first) + 1
    else:
        multiples = [t for t in range(record, last, record) if t > first]
        assert inside.tolist() == multiples


def test_a_grid_of_all_episodes() -> None:
    assert grid("all", 3, 7).tolist() == [3, 4, 5, 6, 7]
    assert grid("all", 5, 5).tolist() == [5]
    assert grid("log", 5, 5).tolist() == [5]
    assert grid(4, 5, 5).tolist() == [5]


def test_a_grid_has_32_points_a_decade() -> None:
    points = grid("log", 1, 10**7)
    for low in (10**3, 10**4, 10**5, 10**6):
        assert ((points >= low) & (points < 10 * low)).sum() == 32
        assert low in points
    # Runs of different lengths share their points, so that they can be compared.
    assert set(grid("log", 1, 10**5)) <= set(points)


def total(values: Any, optimum: float, limits: Any, weights: Any) -> Any:
    """`accumulate` over rows of values."""
    totals = np.zeros((2, values.shape[1]))
    for row, weight in zip(values, weights, strict=True):
        add(totals, optimum, limits, row, weight)
    return totals


@kernel
def add(totals: Any, optimum: float, limits: Any, values: Any, weight: float) -> None:
    accumulate(totals, optimum, limits, values, weight)


def test_losses_add_up_weak_and_strong() -> None:
    rng = np.random.default_rng(0)
    values, limits, weights = 3 * rng.random((50, 3)), np.array([1.0, 2.0]), rng.random(50)
    totals = total(values, 1.5, limits, weights)
    lost = np.r_[1.5, limits] - values
    assert lost.min() < 0.0 < lost.max()
    np.testing.assert_allclose(totals[0], weights @ lost, rtol=1e-12)
    np.testing.assert_allclose(totals[1], weights @ np.maximum(lost, 0.0), rtol=1e-12)


def test_an_unknown_optimum_is_an_unknown_regret_and_nothing_else() -> None:
    totals = total(np.array([[0.5, 0.25]]), np.nan, np.array([1.0]), [2.0])
    assert np.isnan(totals[:, 0]).all()
    assert totals[:, 1].tolist() == [1.5, 1.5]


def with_drift(thresholds: Any, first: int, last: int | None = None, **options: Any) -> ss.Problem:
    return example(ss.signals.Signals(drift=ss.signals.Drift(thresholds, first, last)), **options)


def value(problem: ss.Problem, share: float) -> float:
    """The inside optimum when that share of the drift is done."""
    alpha = problem.cmdp.model.alpha
    moved = alpha + share * (problem.target - alpha)
    units = problem.cmdp.units
    user = (units.constraints.offset + units.constraints.scale * moved.T).T
    found = ss.solve(problem.cmdp.with_thresholds(user)).value
    return float((found - problem.cmdp.H * units.reward.offset) / units.reward.scale)


def close(ours: Any, theirs: Any) -> None:
    np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-9)


@pytest.mark.parametrize("units", [False, True])
def test_without_drift_there_is_one_optimum(units: bool) -> None:
    problem = example(units=units)
    close(Optima(problem)(np.array([1, 2, 10**9])), value(problem, 0.0))
    close(value(problem, 0.0), value(example(), 0.0))


@pytest.mark.parametrize(("units", "to"), [(False, [0.9, 2.1]), (True, [10.5, 36.3])])
@pytest.mark.parametrize("first", [1, 2, 40])
def test_a_step_has_two_optima(units: bool, to: Any, first: int) -> None:
    problem = with_drift(to, first, units=units)
    before, after = value(problem, 0.0), value(problem, 1.0)
    assert abs(before - after) > 0.01
    episodes = np.arange(1, 60)
    close(Optima(problem)(episodes), np.where(episodes < first, before, after))


@pytest.mark.parametrize("units", [False, True])
def test_along_a_linear_drift_optima_are_exact_at_points_and_interpolated_between(
    units: bool,
) -> None:
    assert DRIFT_POINTS == 65
    problem = with_drift([10.5, 36.3] if units else [0.9, 2.1], 11, 11 + 128, units=units)
    found = Optima(problem)(np.arange(1, 201))
    close(found[:11], value(problem, 0.0))
    close(found[138:], value(problem, 1.0))
    exact = [value(problem, k / 64) for k in range(65)]
    close(found[10:139:2], exact)
    close(found[11:139:2], (np.array(exact[1:]) + exact[:-1]) / 2)
    assert np.ptp(exact) > 0.01
    # The optimum is concave along the drift, so interpolation never promises more than there is.
    assert (found[11:139:2] <= [value(problem, (2 * k + 1) / 128) + 1e-9 for k in range(64)]).all()


def test_where_nothing_keeps_the_limits_there_is_no_optimum() -> None:
    step = Optima(with_drift([2.9, 2.9], 10))(np.arange(1, 21))
    assert np.isfinite(step[:9]).all()
    assert np.isnan(step[9:]).all()
    problem = with_drift([2.9, 2.9], 10, 74)
    linear = Optima(problem)(np.arange(1, 101))
    first = int(np.isnan(linear).argmax())
    assert 10 < first < 73
    assert np.isnan(linear[first:]).all()
    close(linear[9:first], [value(problem, k / 64) for k in range(first - 9)])


def test_shortfalls_of_an_episode_count_a_step_without_a_sample_like_the_others() -> None:
    constraints = np.array([[0.5, 0.25], [0.25, 0.0], [0.0, 0.25]])
    thresholds = np.array([[0.5, 0.125], [np.nan, np.nan], [0.25, 0.375]])
    learned, sums = np.full(2, np.nan), np.zeros((2, 2))
    add_shortfalls(constraints, thresholds, learned, np.array([1.0, -1.0]), sums)
    asked = 3 * np.array([0.375, 0.25])  # the means of two samples each, for three steps
    np.testing.assert_allclose(sums[0], [asked[0] - 0.75, 0.5 - asked[1]], rtol=1e-15)
    np.testing.assert_allclose(sums[1], [asked[0] - 0.75, 0.0], rtol=1e-15)
    add_shortfalls(constraints, thresholds, np.array([0.5, 0.25]), np.array([1.0, -1.0]), sums)
    np.testing.assert_allclose(sums[0], [asked[0] - 1.0, 0.75 - asked[1]], rtol=1e-15)
    np.testing.assert_allclose(sums[1], [asked[0] - 0.75, 0.25], rtol=1e-15)
    add_shortfalls(constraints, np.full((3, 2), np.nan), learned, np.ones(2), sums)
    assert np.isnan(sums).all()  # nobody knows what was asked for
