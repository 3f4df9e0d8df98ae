"""The exact simplex method against HiGHS, by hand, and where floating point would not know what to do."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from safespot.planning.simplex import Simplex
from tests.planning.test_columns import best_by_program, lists, margin_by_program


def columns(table: Any, thresholds: Any) -> list[tuple[float, list[float]]]:
    return [(float(row[0]), (row[1:] - thresholds).tolist()) for row in table]


@given(lists(), st.integers(1, 40))
def test_both_programs_are_those_of_highs(case: tuple[Any, Any], first: int) -> None:
    table, thresholds = case
    size = max(1.0, float(np.abs(table).max()))
    every = columns(table, thresholds)
    margin = margin_by_program(table, thresholds)
    widest = Simplex(every[:1], margin=True)
    for column in every[1:]:
        widest.add(*column)
    found = widest.solve()
    assert found.value == pytest.approx(margin, abs=1e-9 * size)
    check(found, table[:, 1:] - thresholds, np.zeros(len(table)), size)
    assert sum(found.duals) == pytest.approx(1.0, abs=1e-15)
    if found.value < 0.0:
        with pytest.raises(ValueError, match="no mixture"):
            Simplex(every, margin=False)
        return
    # Beginning with columns that can keep the thresholds, and adding the others one by one.
    kept = [j for j, x in enumerate(found.weights) if x > 0.0] + list(range(min(first, len(every))))
    order = list(dict.fromkeys([*kept, *range(len(every))]))
    best = Simplex([every[j] for j in order[: len(set(kept))]], margin=False)
    for j in order[len(set(kept)) :]:
        best.add(*every[j])
        best.solve()
    found = best.solve()
    check(found, table[order, 1:] - thresholds, table[order, 0], size)
    reference = best_by_program(table, thresholds)
    if reference is not None:
        assert found.value == pytest.approx(reference, abs=1e-8 * size)
    assert found.value == pytest.approx(Simplex(every, margin=False).solve().value, abs=1e-15)


def check(found: Any, excess: Any, costs: Any, size: float) -> None:
    """Weak duality: feasible weights and nonnegative duals whose values agree."""
    x, duals = np.array(found.weights), np.array(found.duals)
    assert (x >= 0.0).all()
    assert x.sum() == pytest.approx(1.0, abs=1e-14)
    assert (duals >= 0.0).all()
    assert (x @ excess).min() >= (found.value if not costs.any() else 0.0) - 1e-13 * size
    noise = 1e-13 * size * (1.0 + duals.sum())
    assert (costs + excess @ duals).max() == pytest.approx(found.value, abs=noise)


def test_a_feasible_set_thinner_than_any_tolerance() -> None:
    # x_1 >= 1/2 + 2^-50 and x_2 >= 1/2 - 2^-50 leave one point.
    tiny = 2.0**-50
    program = Simplex(
        [(1.0, [0.5 - tiny, tiny - 0.5]), (0.0, [-0.5 - tiny, 0.5 + tiny])], margin=False
    )
    found = program.solve()
    assert found.weights == [0.5 + tiny, 0.5 - tiny]
    assert found.value == 0.5 + tiny
    with pytest.raises(ValueError, match="no mixture"):
        Simplex([(1.0, [0.5 - tiny, -0.5]), (0.0, [-0.5 - tiny, 0.5])], margin=False)


def test_multipliers_of_any_size() -> None:
    tiny = 2.0**-50
    found = Simplex([(0.0, [tiny]), (1.0, [-tiny])], margin=False).solve()
    assert found.weights == [0.5, 0.5]
    assert found.duals == [2.0**49]


def test_pivots_that_change_nothing() -> None:
    # Beale's example of a cycle, mixed with a column of zeros: until the last pivot all weight stays on that one.
    table = [
        (0.0, [0.0, 0.0]),
        (0.75, [-0.25, -0.5]),
        (-1.5, [0.6, 0.9]),
        (0.02, [0.04, 0.02]),
        (-0.06, [-0.09, -0.03]),
    ]
    found = Simplex(table, margin=False).solve()
    costs, excess = np.array([c for c, _ in table]), np.array([e for _, e in table])
    check(found, excess, costs, 1.0)
    reference = best_by_program(np.c_[costs, excess], np.zeros(2))
    assert found.value == pytest.approx(reference, abs=1e-12)
