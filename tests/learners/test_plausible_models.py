"""Planning over plausible models against the extended linear program, and the intervals against their formulas."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from studies.speed.extended import extended_program

import safespot as ss
from safespot.arrays import Float
from safespot.learners.baselines import plausible_models as plausible
from safespot.learners.baselines.plausible_models import Models, best_response, optimistic_plan
from safespot.learners.counts import counts
from safespot.spot.optimism import make_radii
from tests.support.episodes import random_mask

S, A, H, M = 3, 2, 3, 2


def random_models(seed: int, *, S: int = S, A: int = A, H: int = H, m: int = M) -> Models:
    """Intervals around random rows, some of them all of [0,1], some a point."""
    rng = np.random.default_rng(seed)
    p = rng.dirichlet(np.full(S, 0.5), (H, S * A))
    width = rng.choice([0.0, 0.05, 0.3, 1.0], (H, S * A, 1)) * rng.random((H, S * A, S))
    start = rng.dirichlet(np.ones(S))
    mask = random_mask(rng, H, S, A).reshape(H, S * A)
    return Models(
        payoffs=rng.random((1 + m, H, S * A)) * 2.0 - rng.choice([0.0, 1.0]),
        lower=(p - width).clip(0.0),
        upper=(p + width).clip(None, 1.0),
        start_lower=(start - 0.1).clip(0.0),
        start_upper=(start + 0.1).clip(None, 1.0),
        mask=mask,
    )


def reachable_limits(models: Models, rng: np.random.Generator) -> Float:
    """Limits between what the worst and the best plan reach: some can be kept, some cannot."""
    m = len(models.payoffs) - 1
    ends = [
        [best_response(models, sign * np.eye(1 + m)[1 + i])[0][1 + i] for i in range(m)]
        for sign in (-1.0, 1.0)
    ]
    worst, best = np.array(ends)
    limits: Float = worst + rng.uniform(0.2, 1.05, m) * (best - worst)
    return limits


@given(st.integers(0, 2**32 - 1))
@settings(deadline=None, max_examples=40)
def test_the_best_plan_is_that_of_the_extended_program(seed: int) -> None:
    models = random_models(seed)
    limits = reachable_limits(models, np.random.default_rng(seed))
    plan, program = optimistic_plan(models, limits), extended_program(models, limits)
    assert plan.feasible == (program.value is not None)
    if program.value is not None:
        assert plan.values[0] == pytest.approx(program.value, abs=1e-7)
        assert (plan.values[1:] >= limits - 1e-8).all()
        # Its policy reaches the value in one of the models.
        own = extended_program(models, limits - 1e-9, plan.policy)
        assert own.value == pytest.approx(program.value, abs=1e-7)
        # Strong duality: the multipliers price the limits.
        weights = np.r_[1.0, plan.multipliers]
        bound = best_response(models, weights)[0] @ weights - plan.multipliers @ limits
        assert bound == pytest.approx(program.value, abs=1e-7)


@given(st.integers(0, 2**32 - 1))
@settings(deadline=None, max_examples=20)
def test_without_a_feasible_plan_the_margin_is_the_largest(seed: int) -> None:
    models = random_models(seed)
    best = [best_response(models, np.eye(1 + M)[1 + i])[0][1 + i] for i in range(M)]
    limits = np.array(best) + 0.1
    plan = optimistic_plan(models, limits)
    assert not plan.feasible
    assert plan.multipliers.sum() == pytest.approx(1.0)
    margin = (plan.values[1:] - limits).min()
    assert extended_program(models, limits + margin - 1e-7).value is not None
    assert extended_program(models, limits + margin + 1e-6).value is None


@pytest.mark.parametrize("seed", range(4))
def test_where_everything_is_known_the_plan_is_the_optimum(seed: int) -> None:
    problem = ss.problems.make("random", states=4, actions=3, horizon=4, constraints=2, seed=seed)
    cmdp, model = problem.cmdp, problem.cmdp.model
    p = np.broadcast_to(model.P.dense, (cmdp.H, *model.P.dense.shape[1:])).copy()
    payoffs = np.broadcast_to(model.payoffs, (3, cmdp.H, cmdp.S * cmdp.A)).copy()
    mask = np.broadcast_to(model.mask, p.shape[:2]).copy()
    start = np.array(model.start)
    plan = optimistic_plan(Models(payoffs, p, p, start, start, mask), np.array(model.limits))
    best = ss.solve(cmdp)
    assert plan.values[0] == pytest.approx(best.value, abs=1e-8)
    ours = ss.evaluate(cmdp, plan.policy)
    assert ours.value == pytest.approx(best.value, abs=1e-8)
    assert (ours.constraints >= cmdp.limits - 1e-8).all()


@given(st.integers(0, 2**32 - 1))
@settings(deadline=None, max_examples=100)
def test_a_row_is_filled_as_a_linear_program_would(seed: int) -> None:
    rng = np.random.default_rng(seed)
    p = rng.dirichlet(np.ones(5))
    lower, upper = (p - rng.random(5) * 0.3).clip(0.0), (p + rng.random(5) * 0.3).clip(None, 1.0)
    U, row = rng.normal(size=5).round(1), np.zeros(5)  # rounded: ties
    total = plausible.fill(lower, upper, U, np.argsort(-U, kind="mergesort"), row)
    assert row.sum() == pytest.approx(1.0)
    assert ((row >= lower) & (row <= upper + 1e-15)).all()
    assert total == pytest.approx(row @ U)
    # Optimal: no mass can move to a state of larger value.
    for low in range(5):
        for high in range(5):
            if U[high] > U[low]:
                assert row[low] <= lower[low] + 1e-12 or row[high] >= upper[high] - 1e-12


RADII = make_radii(3, 2, 3, 1, 1000, 0.1, bonus_scale=0.5)


def test_intervals_by_hand() -> None:
    n = np.array([[0, 1, 9]])
    counted = np.array([[[0.0, 0, 0], [1, 0, 0], [6, 3, 0]]])
    lower, upper = plausible.intervals(RADII, n, counted)
    assert (lower[0, :2] == 0.0).all()
    assert (upper[0, :2] == 1.0).all()
    log = math.log(10 * 9 * 2 * 3 * 1000 / 0.1)
    for k, p in enumerate((6 / 9, 3 / 9, 0.0)):
        radius = 0.5 * (math.sqrt(2 * p * (1 - p) * log / 8) + 7 * log / 24)
        assert lower[0, 2, k] == pytest.approx(max(p - radius, 0.0))
        assert upper[0, 2, k] == pytest.approx(min(p + radius, 1.0))
    signal = plausible.signal_radius(RADII, np.array([0, 1, 400]))
    assert signal.tolist() == [1.0, 1.0, pytest.approx(0.5 * math.sqrt(RADII.L_r / 400))]


@given(st.integers(0, 2**32 - 1))
@settings(deadline=None, max_examples=50)
def test_rows_are_no_further_apart_than_their_bounds_say(seed: int) -> None:
    rng = np.random.default_rng(seed)
    counted = rng.integers(0, 40, (1, 4)).astype(float) * (rng.random((1, 4)) < 0.6)
    n = counted.sum(axis=1).astype(np.int64)
    small = RADII._replace(bonus_scale=float(rng.choice([0.01, 0.1, 1.0])))
    lower, upper = plausible.intervals(small, n, counted)
    rows = []
    for _ in range(2):
        row = np.zeros(4)
        plausible.fill(lower[0], upper[0], np.zeros(4), rng.permutation(4), row)
        rows.append(row)
    apart = np.abs(rows[0] - rows[1]).sum() / 2.0
    assert apart <= plausible.total_variation(lower, upper)[0] + 1e-12
    if n[0] > 1:
        from_counts = np.abs(rows[0] - counted[0] / n[0]).sum() / 2.0
        within = plausible.empirical_variation(small, n, counted)[0]
        hoeffding = small.bonus_scale * math.sqrt((small.S + small.L_p) / n[0])
        assert within <= hoeffding + 1e-15
        assert from_counts <= within + 1e-12 or within == hoeffding


def test_both_layouts_of_successors_give_the_same_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    from safespot.spot import visits
    from tests.support.episodes import full_mask, random_episode

    tables = []
    for dense in (2**22, 0):
        monkeypatch.setattr(visits, "DENSE", dense)
        learner = ss.Uniform(4, 3, 3, 2, episodes=100)
        rng = np.random.default_rng(0)
        for _ in range(60):
            learner.observe(random_episode(rng, full_mask(None, 3, 4, 3), 2))
        tables.append(counts(learner.statistics))
    assert tables[0].tobytes() == tables[1].tobytes()
    assert tables[0].sum() == 60 * 3
