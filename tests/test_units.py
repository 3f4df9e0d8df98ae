"""Senses and units: a problem stated in costs and ranges is the same problem inside."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import safespot as ss
from safespot.units import Units, make_units, units_of_interface
from tests.support.models import (
    RANGES,
    Arguments,
    random_policy,
    tables,
    to_arguments,
    to_inside,
    valid,
)

numbers = st.floats(0.0, 1.0, allow_subnormal=False)
ranges = st.sampled_from(RANGES) | st.tuples(
    st.floats(-1e3, 1e3), st.floats(1e-3, 1e3)
).map(lambda pair: (pair[0], pair[0] + pair[1]))  # fmt: skip
senses = st.sampled_from([">=", "<="])


@st.composite
def terms(draw: st.DrawFn) -> Units:
    m = draw(st.integers(1, 4))
    return make_units(
        m,
        [draw(senses) for _ in range(m)],
        draw(ranges),
        [draw(ranges) for _ in range(m)],
    )


@given(terms(), st.data())
def test_there_and_back(terms: Units, data: st.DataObject) -> None:
    m = len(terms.senses)
    inside = np.array([data.draw(numbers) for _ in range(m)])
    steps = data.draw(st.integers(1, 50))
    # Both ends of a range are below 2,001, so rounding is below 2,001 * 2^-52 over the smallest width.
    close: dict[str, Any] = {"rtol": 0.0, "atol": 1e-9}
    outside = terms.constraints.outside(inside)
    for x, y, sense, (low, high) in zip(
        inside, outside, terms.senses, terms.constraint_ranges, strict=True
    ):
        expected = low + (high - low) * x if sense == ">=" else high - (high - low) * x
        assert y == pytest.approx(expected, abs=1e-9)
    np.testing.assert_allclose(terms.constraints.inside(outside), inside, **close)
    totals = terms.constraints.total_outside(steps * inside, steps)
    np.testing.assert_allclose(totals, steps * outside, rtol=1e-12, atol=1e-9)
    back = terms.constraints.total_inside(totals, steps)
    np.testing.assert_allclose(back, steps * inside, rtol=0.0, atol=50 * 1e-9)
    x = data.draw(numbers)
    low, high = terms.reward_range
    assert terms.reward.outside(x) == pytest.approx(low + (high - low) * x, abs=1e-9)
    assert terms.reward.inside(terms.reward.outside(x)) == pytest.approx(x, abs=1e-9)


@given(terms(), st.data())
def test_bounds_never_flip(terms: Units, data: st.DataObject) -> None:
    m = len(terms.senses)
    ends = np.sort([[data.draw(numbers) for _ in range(m)] for _ in range(2)], axis=0)
    lower, upper = terms.bounds(ends[0], ends[1], 3)
    assert (lower <= upper).all()
    # They are the two ends, exchanged where a cost is meant.
    for i, sense in enumerate(terms.senses):
        outside = [terms.constraints.total_outside(end, 3)[i] for end in ends]
        assert [lower[i], upper[i]] == (outside if sense == ">=" else outside[::-1])


def test_a_range_maps_its_ends_exactly() -> None:
    terms = make_units(2, [">=", "<="], (-3, 7), (2, 6))
    assert terms.reward.inside(-3.0) == 0.0
    assert terms.reward.inside(7.0) == 1.0
    np.testing.assert_array_equal(terms.constraints.inside(np.array([2.0, 2.0])), [0.0, 1.0])
    np.testing.assert_array_equal(terms.constraints.inside(np.array([6.0, 6.0])), [1.0, 0.0])
    # A multiplier of 1 inside is worth 10 reward for 4 of a constraint, in either sense.
    np.testing.assert_array_equal(terms.prices(np.ones(2)), [2.5, 2.5])


@given(valid(), st.integers(0, 2**32 - 1))
def test_a_stated_problem_is_the_converted_one(arguments: Arguments, seed: int) -> None:
    """Values, optimum, multipliers and margins, against the model converted by hand."""
    t = tables(arguments)
    stated, inside = ss.CMDP(**arguments), ss.CMDP(**to_arguments(to_inside(t)))
    H, m = stated.H, stated.m
    low, high = t.reward_range
    widths = np.array([b - a for a, b in t.constraint_ranges])

    def outside(value: float, constraints: Any) -> tuple[float, list[float]]:
        totals = []
        for v, sense, (least, most) in zip(constraints, t.senses, t.constraint_ranges, strict=True):
            gain = (most - least) * v
            totals.append(H * least + gain if sense == ">=" else H * most - gain)
        return H * low + (high - low) * value, totals

    policy = random_policy(t.mask, np.random.default_rng(seed))
    ours, theirs = ss.evaluate(stated, policy), ss.evaluate(inside, policy)
    value, constraints = outside(theirs.value, theirs.constraints)
    assert ours.value == pytest.approx(value, abs=1e-11)
    np.testing.assert_allclose(ours.constraints, constraints, rtol=0, atol=1e-11)

    best, reference = ss.solve(stated), ss.solve(inside)
    assert best.value == pytest.approx(outside(reference.value, [0] * m)[0], abs=1e-7)
    for i, sense in enumerate(t.senses):  # kept, in the user's own sense
        sign = 1 if sense == ">=" else -1
        assert sign * (best.constraints[i] - stated.limits[i]) >= -1e-8

    safest, reference_safest = ss.slater(stated), ss.slater(inside)
    assert (safest.margins / widths).min() == pytest.approx(reference_safest.margin, abs=1e-8)
    assert safest.margin == safest.margins.min()
    assume(reference_safest.margin > 0.01)  # rho divides by it
    assert safest.rho == pytest.approx(reference_safest.rho, rel=1e-5)


@pytest.mark.parametrize("seed", range(5))
def test_a_multiplier_is_what_a_unit_of_a_limit_is_worth(seed: int) -> None:
    """A finite difference of the optimum, in the user's units: money per unit of cost or of yield."""
    m = 2
    base = ss.problems.make("random", constraints=m, seed=seed, slack=0.3).cmdp
    ranges = [(-2.0, 6.0), (10.0, 10.5)]
    cost, offset = 6.0 - 8.0 * base.constraints[0], 10.0 + 0.5 * base.constraints[1]
    limits = np.array([6.0 * base.H - 8.0 * base.limits[0], 10.0 * base.H + 0.5 * base.limits[1]])

    def optimum(limits: Any) -> ss.Solution:
        return ss.solve(
            ss.CMDP(
                base.transitions,
                -50.0 + 100.0 * base.rewards,
                np.stack([cost, offset]),
                limits,
                senses=["<=", ">="],
                reward_range=(-50, 50),
                constraint_ranges=ranges,
            )
        )

    here = optimum(limits)
    assert (here.multipliers > 1e-6).any()  # some limit binds, or this would say nothing
    for i, sign in enumerate([1.0, -1.0]):  # a larger budget helps, a larger demand hurts
        # The optimum is piecewise linear in the limit: on one piece the difference is exact.
        step = 1e-3 * (ranges[i][1] - ranges[i][0])
        up, down = (optimum(limits + s * step * np.eye(m)[i]).value for s in (1, -1))
        left, right = (here.value - down) / step, (up - here.value) / step
        assert left == pytest.approx(right, abs=1e-5), "the seed sits on a kink: take another"
        assert here.multipliers[i] == pytest.approx(sign * (up - down) / (2 * step), abs=1e-5)


def test_a_learners_ranges_say_the_same() -> None:
    given_ranges = make_units(2, ["<=", ">="], (0, 10), [(0, 4), (-1, 1)])
    again = units_of_interface(
        2, given_ranges.senses, given_ranges.ranges, error=ss.errors.InvalidOption
    )
    assert again == given_ranges
    np.testing.assert_array_equal(again.constraints.scale, given_ranges.constraints.scale)
    assert units_of_interface(1, ">=", None, error=ss.errors.InvalidOption) == make_units(1)


@pytest.mark.parametrize("wrong", [{"rewards": (0, 1)}, "wide", [(0, 1)], {"reward": (1, 0)}])
def test_wrong_ranges_of_a_learner_are_its_own_error(wrong: Any) -> None:
    with pytest.raises(ss.errors.InvalidOption):
        units_of_interface(1, ">=", wrong, error=ss.errors.InvalidOption)
