"""What is tried next: the room that a proposal is to have, and what becomes of it where no policy has so much."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import safespot as ss
from safespot.evidence.sequences import LARGEST
from safespot.learners.epoch_trials import trial_rates
from safespot.learners.exploring import explore
from safespot.learners.phases import BREAKS, Memory
from safespot.learners.proposals import plan_with_margin, propose, trial_needs
from safespot.planning import counted as pm
from safespot.planning import process as pp
from safespot.planning.errors import standard_errors
from safespot.signals.totals import declare
from tests.planning.test_errors import M, made

Array = Any
RECIPE = ss.SpotEpochs.recipe
NOTHING = pm.Known(np.zeros((1 + M, 1, 1)), np.zeros(1 + M, bool))
EPISODES = 50


@pytest.fixture
def model() -> pm.Counted:
    return made(1, 9)[0]


@pytest.fixture
def limits(model: pm.Counted) -> Array:
    """Half below what the best plan for the constraints alone reaches: so much room there is, and no more."""
    return pp.widest_plan(model.process, np.zeros(M)).values[1:].min() - np.full(M, 0.5)


def planned(model: pm.Counted, limits: Array, needs: float, **given: Any) -> tuple[pp.Plan, Array]:
    side = given.pop("side", 1.0)
    return plan_with_margin(
        model, NOTHING, EPISODES, limits, side, np.full(M, needs), RECIPE, **given
    )


def margin_of(model: pm.Counted, plan: pp.Plan, limits: Array) -> float:
    values = standard_errors(model, NOTHING, plan.policy, EPISODES)[0]
    return float((values[1:] - limits).min())


@pytest.mark.parametrize(("side", "needs"), [(1.0, 0.02), (1.0, 0.4), (-1.0, 0.4)])
def test_the_margin_is_what_the_trial_needs_and_the_plans_own_standard_errors(
    model: pm.Counted, limits: Array, side: float, needs: float
) -> None:
    plan, room = planned(model, limits, needs, side=side)
    at_first = pp.best_plan(model.process, limits + side * needs)
    errors = standard_errors(model, NOTHING, at_first.policy, EPISODES)[1][1:]
    np.testing.assert_allclose(room, side * (needs + RECIPE.caution * errors), rtol=1e-9)
    assert plan.feasible


def test_room_that_no_policy_has_is_halved_until_one_has_it(
    model: pm.Counted, limits: Array
) -> None:
    plan, wanted = planned(model, limits, 1.5)
    assert plan.feasible
    halved = wanted.copy()
    while not (expected := pp.best_plan(model.process, limits + halved)).feasible:
        halved = halved / 2.0
    assert (wanted > halved).all()
    np.testing.assert_allclose(plan.values, expected.values, rtol=1e-9)
    assert margin_of(model, plan, limits + halved) >= -1e-9


def test_where_halving_does_not_help_the_largest_margin_is_tried(model: pm.Counted) -> None:
    beyond = pp.widest_plan(model.process, np.zeros(M)).values[1:] + 0.5
    plan, _ = planned(model, beyond, 0.1)
    assert not plan.feasible
    np.testing.assert_allclose(plan.values, pp.widest_plan(model.process, beyond).values, rtol=1e-9)


@pytest.mark.parametrize(
    ("needs", "proof", "side", "widest"),
    [(0.0, True, 1.0, False), (0.55, True, 1.0, True), (0.55, False, 1.0, False), (2.5, True, 1.0, False)],
)  # fmt: skip
def test_a_first_proof_is_tried_with_the_largest_margin_where_that_comes_near(
    model: pm.Counted, limits: Array, needs: float, proof: bool, side: float, widest: bool
) -> None:
    """Not where a policy has the whole room, not where the most there is is less than half of it."""
    plan, wanted = planned(model, limits, needs, proof=proof, side=side)
    most = margin_of(model, pp.widest_plan(model.process, limits), limits)
    fits = pp.best_plan(model.process, limits + wanted).feasible
    assert fits == (needs == 0.0)
    assert widest == (proof and not fits and most >= RECIPE.hope * wanted.max())
    assert (not plan.feasible) == widest
    if widest:
        assert margin_of(model, plan, limits) == pytest.approx(most)
    else:
        assert margin_of(model, plan, limits) < most - 1e-6


@pytest.mark.parametrize(("breaks", "wider"), [(0, False), (1, False), (2, True)])
def test_the_room_is_twice_as_wide_after_each_further_break_in_a_row(
    model: pm.Counted, limits: Array, breaks: int, wider: bool
) -> None:
    state = ss.SpotEpochs(4, 2, 3, M).state
    state.clock[BREAKS] = breaks
    state.memory[Memory.ROOM] = 0.2
    state.finished[0] = EPISODES
    needs = np.full(M, 0.01)
    found = propose(model, NOTHING, state, limits, 1.0, needs, RECIPE, proof=False)
    _, alone = planned(model, limits, 0.01)
    expected = np.maximum(np.maximum(0.4, 0.2 + alone), alone) if wider else alone
    np.testing.assert_allclose(found.room, expected, rtol=1e-9)
    reached = standard_errors(model, NOTHING, found.plan.policy, EPISODES)[0][1:]
    np.testing.assert_allclose(found.promised, reached - (state.lower + state.upper) / 2.0)


@pytest.mark.parametrize("trial", [True, False])
@pytest.mark.parametrize("learned", [True, False])
@pytest.mark.parametrize("length", [10, 2000])
def test_a_trial_needs_its_radius_less_what_the_threshold_covers(
    trial: bool, learned: bool, length: int
) -> None:
    """The formulas of `trial_needs`, with samples of the first threshold and none of the second."""
    learner = ss.SpotEpochs(1, 2, 2, M, constraint_totals=[(0.5, 1.5), (0.0, 2.0)],
                            threshold_totals=[(0.5, 1.25), (0.0, 2.0)])  # fmt: skip
    declared, state, hints = learner.declared, learner.state, np.array([0.3, 0.0])
    if not learned:
        declared = declare(learner.interface, [0.5, 0.5], [(0.5, 1.5), (0.0, 2.0)])
    rates = trial_rates(declared, 0.1, length)
    state.finished[0] = 30
    state.memory[Memory.SPREAD] = spread = np.array([0.4, 0.7])
    state.lower[:], state.upper[:] = (0.75, 0.5), (0.8, 1.5)
    L = rates.kept_level + RECIPE.mixture * (2 if learned else 1)
    expected = []
    for i, (width, of_hints, covered) in enumerate(((1.0, 0.75, 0.025), (2.0, 0.0, 0.0))):
        x = hints[i] if learned else 0.0
        e = math.sqrt(spread[i] ** 2 / length + x**2 / (30 + length))
        radius = math.sqrt(2.0 * L) * e
        if trial:
            w = length / (30 + length) if learned else 0.0
            weight = min(math.sqrt(2.0 * L) / (length * e), LARGEST / (width + w * of_hints))
            radius = L / (length * weight) + weight * length * e**2 / 2.0 + RECIPE.power * e
        expected.append(max(radius - covered, 0.0))
    found = trial_needs(rates, state, hints, length, RECIPE, trial=trial)
    np.testing.assert_allclose(found, expected, rtol=1e-9)


@pytest.mark.parametrize("eagerness", [1e-3, 0.5])
def test_a_phase_explores_as_much_as_the_plan_promises_beyond_the_sure_one(
    model: pm.Counted, limits: Array, eagerness: float
) -> None:
    """In parts of what is sure, and never more than the largest share there is."""
    state = ss.SpotEpochs(4, 2, 3, M).state
    state.finished[0] = EPISODES
    sure = pm.count_model(
        model.pooled, pm.Imagined(0.5, np.zeros((1 + M, 4))), NOTHING, model.process.mask
    )
    recipe = RECIPE._replace(eagerness=eagerness)
    plan, share = explore(model, NOTHING, state, limits, 0.0, recipe, sure=sure)
    best = pp.best_plan(sure.process, limits).values[0]
    promised = (plan.values[0] - best) / best
    assert promised > 1.0
    assert share == pytest.approx(min(recipe.exploring, eagerness * promised))
    assert (share < recipe.exploring) == (eagerness < 0.5)
