"""Column generation over an explicit list of columns, against the linear program over all of them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import linprog

from safespot.planning.columns import Column, Price, best_mixture, largest_margin

TIGHT: Any = {"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10}


def pricing(table: Any) -> Price[int]:
    """The first column with the largest weighted sum; the plan is its index."""

    def price(weights: Any) -> Column[int]:
        j = int((table @ weights).argmax())
        return Column(table[j], j)

    return price


def best_by_program(table: Any, thresholds: Any) -> float | None:
    n = len(table)
    result: Any = linprog(
        -table[:, 0], A_ub=-table[:, 1:].T, b_ub=-thresholds, A_eq=np.ones((1, n)), b_eq=[1.0],
        method="highs", options=TIGHT,
    )  # fmt: skip
    return None if result.status == 2 else -float(result.fun)


def margin_by_program(table: Any, thresholds: Any) -> float:
    n, m = len(table), len(thresholds)
    result: Any = linprog(
        np.r_[np.zeros(n), -1.0],
        A_ub=np.c_[(thresholds - table[:, 1:]).T, np.ones(m)],
        b_ub=np.zeros(m),
        A_eq=np.r_[np.ones(n), 0.0][None],
        b_eq=[1.0],
        bounds=[(0, None)] * n + [(None, None)],
        method="highs",
        options=TIGHT,
    )
    return -float(result.fun)


@st.composite
def lists(draw: st.DrawFn) -> tuple[Any, Any]:
    """Columns and thresholds; on a coarse grid many columns tie and programs are degenerate."""
    n, m = draw(st.integers(1, 40)), draw(st.integers(1, 10))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    table = rng.random((n, 1 + m))
    if draw(st.booleans()):
        table = np.round(4 * table) / 4
    if draw(st.booleans()):
        table = np.concatenate([table, table])  # every column twice
    table *= draw(st.sampled_from([1.0, 100.0]))
    mixed = rng.dirichlet(np.ones(len(table))) @ table
    if draw(st.booleans()):
        mixed = table[rng.integers(len(table))]  # a vertex: no room at all
    return table, mixed[1:] - draw(st.sampled_from([0.0, 0.01, 0.5, -0.05])) * table.max()


@given(lists())
def test_the_best_mixture_is_the_programs(case: tuple[Any, Any]) -> None:
    table, thresholds = case
    reference, margin = best_by_program(table, thresholds), margin_by_program(table, thresholds)
    mixture = best_mixture(pricing(table), thresholds)
    size = max(1.0, float(table.max()))
    if margin < -1e-9 * size:
        assert mixture is None
        assert reference is None
        return
    assert mixture is not None  # also where there is no room at all
    assert mixture.weights.sum() == pytest.approx(1.0, abs=1e-12)
    assert (mixture.weights >= 0.0).all()
    plans = np.array(mixture.plans)
    np.testing.assert_allclose(mixture.weights @ table[plans], mixture.values, atol=1e-12 * size)
    assert (mixture.values[1:] >= thresholds - 1e-9 * size).all()
    assert (mixture.multipliers >= 0.0).all()
    # The bound is the Lagrangian's, whatever the search did: no feasible mixture is above it.
    lagrangian = table[:, 0] + (table[:, 1:] - thresholds) @ mixture.multipliers
    assert mixture.bound == pytest.approx(lagrangian.max(), rel=1e-12, abs=1e-9 * size)
    if reference is not None:
        assert mixture.bound >= reference - 1e-9 * size
        assert mixture.values[0] == pytest.approx(reference, abs=1e-8 * size)
        assert mixture.bound - mixture.values[0] <= 1e-8 * size


@given(lists())
def test_the_largest_margin_is_the_programs(case: tuple[Any, Any]) -> None:
    table, thresholds = case
    size = max(1.0, float(table.max()))
    reference = margin_by_program(table, thresholds)
    mixture = largest_margin(pricing(table), thresholds)
    assert (mixture.values[1:] - thresholds).min() == pytest.approx(reference, abs=1e-8 * size)
    assert mixture.bound >= reference - 1e-9 * size
    assert mixture.bound == pytest.approx(reference, abs=1e-8 * size)
    assert mixture.multipliers.sum() == pytest.approx(1.0, abs=1e-12)


@given(lists())
def test_columns_of_an_earlier_search_can_be_reused(case: tuple[Any, Any]) -> None:
    table, thresholds = case
    size = max(1.0, float(table.max()))
    price = pricing(table)
    widest = largest_margin(price, thresholds)
    cold = best_mixture(price, thresholds)
    warm = best_mixture(price, thresholds, widest.columns)
    assert (cold is None) == (warm is None)
    if cold is not None and warm is not None:
        assert warm.values[0] == pytest.approx(cold.values[0], abs=1e-8 * size)


def test_the_search_ends_early_once_the_margin_is_enough() -> None:
    rng = np.random.default_rng(0)
    table = rng.random((200, 6))
    calls = []

    def counting(weights: Any) -> Column[int]:
        calls.append(1)
        return pricing(table)(weights)

    full = largest_margin(counting, np.full(5, 0.3))
    long = len(calls)
    calls.clear()
    early = largest_margin(counting, np.full(5, 0.3), enough=0.0)
    assert len(calls) < long
    assert 0.0 <= (early.values[1:] - 0.3).min() <= (full.values[1:] - 0.3).min() + 1e-12


def test_thresholds_that_do_not_bind_cost_nothing() -> None:
    table = np.array([[1.0, 0.5], [0.0, 1.0]])
    mixture = best_mixture(pricing(table), np.array([0.5]))
    assert mixture is not None
    assert mixture.plans == (0,)
    assert mixture.bound == mixture.values[0] == 1.0
    np.testing.assert_array_equal(mixture.multipliers, [0.0])


def test_a_mixture_by_hand() -> None:
    # Half of each keeps 3/4, for a price of (1 - 0) / (1 - 1/2) = 2 a unit.
    table = np.array([[1.0, 0.5], [0.0, 1.0]])
    mixture = best_mixture(pricing(table), np.array([0.75]))
    assert mixture is not None
    assert mixture.values == pytest.approx([0.5, 0.75], abs=1e-12)
    assert mixture.multipliers == pytest.approx([2.0], abs=1e-9)
    assert best_mixture(pricing(table), np.array([1.0 + 1e-6])) is None
    edge = best_mixture(pricing(table), np.array([1.0]))
    assert edge is not None
    assert edge.values == pytest.approx([0.0, 1.0], abs=1e-9)


def test_without_any_room_the_thresholds_are_still_kept() -> None:
    # The bound on the margin came out as -1e-17, and the search for a first mixture ended there.
    table = np.array([
        [0.50, 0.50, 0.75, 0.25],
        [1.00, 1.00, 0.50, 0.50],
        [0.50, 0.50, 0.25, 1.00],
        [0.75, 0.75, 0.50, 0.75],
    ])  # fmt: skip
    mixture = best_mixture(pricing(table), np.array([0.75, 0.5, 0.75]))
    assert mixture is not None
    assert mixture.values == pytest.approx([0.75, 0.75, 0.5, 0.75], abs=1e-9)
    assert mixture.bound == pytest.approx(0.75, abs=1e-9)
