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
from safespot.learners import radii
from safespot.learners.baselines import plausible_models as plausible
from safespot.learners.baselines.plausible_models import (
    Intervals,
    Models,
    best_response,
    between,
    optimistic_plan,
)
from safespot.learners.pooling import counts
from safespot.spot.optimism import make_radii
from tests.support.episodes import random_mask

S, A, H, M = 3, 2, 3, 2


def around(p: Float, width: Float) -> Intervals:
    """Intervals of this half width around rows, ``[S, pairs]``."""
    return between((p - width).clip(0.0), (p + width).clip(None, 1.0))


def random_models(seed: int, *, S: int = S, A: int = A, H: int = H, m: int = M) -> Models:
    """Intervals around random rows, some of them all of [0,1], some a point; of each step, or of one for all."""
    rng = np.random.default_rng(seed)
    p = rng.dirichlet(np.full(S, 0.5), (H, S * A)).transpose(0, 2, 1)
    width = rng.choice([0.0, 0.05, 0.3, 1.0], (H, 1, S * A)) * rng.random((H, S, S * A))
    start = rng.dirichlet(np.ones(S))
    mask = random_mask(rng, H, S, A).reshape(H, S * A)
    return Models(
        payoffs=rng.random((1 + m, H, S * A)) * 2.0 - rng.choice([0.0, 1.0]),
        rows=tuple(map(around, p, width))[: rng.choice([1, H])],
        start=around(start[:, None], np.full((S, 1), 0.1)),
        mask=mask,
    )


def response_one_by_one(models: Models, weights: Float) -> tuple[Float, Float, Float]:
    """Extended value iteration in loops, as Jaksch, Ortner and Auer state it: (values, occupancy, Q)."""
    components, H, pairs = models.payoffs.shape
    S = len(models.start.lower)
    A = pairs // S

    def fill(rows: Intervals, pair: int, V: Float) -> Float:
        lower, room = rows.lower[:, pair], rows.room[:, pair]
        row, left = lower.copy(), 1.0 - lower.sum()
        for s in np.argsort(-V, kind="stable"):
            more = min(room[s], max(left, 0.0))
            row[s] += more
            left -= more
        return row

    V, Q = np.zeros((components, S)), np.full((H, S, A), -np.inf)
    rows = np.zeros((H, S, S))
    taken = np.zeros((H, S), int)
    for h in reversed(range(H)):
        following = models.rows[h if len(models.rows) > 1 else 0]
        now = np.zeros_like(V)
        for s in range(S):
            options = {}
            for a in np.flatnonzero(models.mask[h].reshape(S, A)[s]):
                row = fill(following, s * A + a, weights @ V) if h < H - 1 else np.zeros(S)
                options[a] = row, models.payoffs[:, h, s * A + a] + V @ row
                Q[h, s, a] = weights @ options[a][1]
            taken[h, s] = a = Q[h, s].argmax()
            rows[h, s], now[:, s] = options[a]
        V = now
    mass, occupancy = fill(models.start, 0, weights @ V), np.zeros((H, S, A))
    values = V @ mass
    for h in range(H):
        occupancy[h, np.arange(S), taken[h]] = mass
        mass = mass @ rows[h]
    return values, occupancy, Q


@given(st.integers(0, 2**32 - 1))
@settings(deadline=None, max_examples=60)
def test_the_best_response_is_that_of_one_pair_after_the_other(seed: int) -> None:
    rng = np.random.default_rng(seed)
    models = random_models(seed, S=6, A=3, H=4)
    weights = rng.random(1 + M)
    values, occupancy, actions = best_response(models, weights)
    ref_values, ref_occupancy, Q = response_one_by_one(models, weights)
    np.testing.assert_allclose(values, ref_values, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(occupancy, ref_occupancy, rtol=1e-12, atol=1e-14)
    assert (actions == Q.argmax(axis=2)).all()


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
    p = np.broadcast_to(model.P.dense, (cmdp.H, *model.P.dense.shape[1:]))
    payoffs = np.broadcast_to(model.payoffs, (3, cmdp.H, cmdp.S * cmdp.A))
    mask = np.broadcast_to(model.mask, p.shape[:2])
    rows = tuple(between(each.T, each.T) for each in p)
    start = between(model.start[:, None], model.start[:, None])
    plan = optimistic_plan(Models(payoffs, rows, start, mask), np.array(model.limits))
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
    U = rng.normal(size=5).round(1)  # rounded: ties
    (row,) = plausible.fill(between(lower[:, None], upper[:, None]), U).T
    assert row.sum() == pytest.approx(1.0)
    assert ((row >= lower) & (row <= upper + 1e-15)).all()
    # Optimal: no mass can move to a state of larger value.
    for low in range(5):
        for high in range(5):
            if U[high] > U[low]:
                assert row[low] <= lower[low] + 1e-12 or row[high] >= upper[high] - 1e-12


RADII = make_radii(3, 2, 3, 1, 1000, 0.1, bonus_scale=0.5)


def test_intervals_by_hand() -> None:
    counted = np.array([[0.0, 0, 0], [1, 0, 0], [6, 3, 0]]).T
    lower, upper = plausible.intervals(RADII, np.array([0, 1, 9]), counted)
    assert (lower[:, :2] == 0.0).all()
    assert (upper[:, :2] == 1.0).all()
    log = math.log(10 * 9 * 2 * 3 * 1000 / 0.1)
    for k, p in enumerate((6 / 9, 3 / 9, 0.0)):
        radius = 0.5 * (math.sqrt(2 * p * (1 - p) * log / 8) + 7 * log / 24)
        assert lower[k, 2] == pytest.approx(max(p - radius, 0.0))
        assert upper[k, 2] == pytest.approx(min(p + radius, 1.0))
    signal = radii.signal_radius(RADII, np.array([0, 1, 400]))
    assert signal.tolist() == [1.0, 1.0, pytest.approx(0.5 * math.sqrt(RADII.L_r / 400))]


@given(st.integers(0, 2**32 - 1))
@settings(deadline=None, max_examples=50)
def test_rows_are_no_further_apart_than_their_bounds_say(seed: int) -> None:
    rng = np.random.default_rng(seed)
    counted = rng.integers(0, 40, (4, 1)).astype(float) * (rng.random((4, 1)) < 0.6)
    n = counted.sum(axis=0).astype(np.int64)
    small = RADII._replace(bonus_scale=float(rng.choice([0.01, 0.1, 1.0])))
    between_ends = between(*plausible.intervals(small, n, counted))
    rows = [plausible.fill(between_ends, rng.random(4))[:, 0] for _ in range(2)]
    apart = np.abs(rows[0] - rows[1]).sum() / 2.0
    assert apart <= plausible.total_variation(between_ends)[0] + 1e-12
    if n[0] > 1:
        from_counts = np.abs(rows[0] - counted[:, 0] / n[0]).sum() / 2.0
        within = radii.empirical_variation(small, n, np.zeros(4, int), counted[:, 0])[0]
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
