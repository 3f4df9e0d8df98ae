"""Limits that can only just be kept, or just not: nothing gives up, and no verdict is noise."""

from __future__ import annotations

import numpy as np
import pytest

import safespot as ss
from safespot.learners.baselines.plausible_models import (
    Models,
    best_response,
    between,
    optimistic_plan,
    plausible_rows,
    plausible_start,
)
from safespot.learners.pooling import pool
from safespot.learners.radii import means, signal_radius
from tests.support.edge_limits import run


def test_models_at_the_edge() -> None:
    tally = run(range(600))
    assert tally.problems == []
    assert 450 < tally.feasible < 570
    assert tally.exact > 80  # HiGHS' tolerances do not settle these


@pytest.mark.slow
def test_many_models_at_the_edge() -> None:
    assert run(range(600, 102_000)).problems == []


def early_models(seed: int) -> list[Models]:
    """What the first episodes say of a grid on which falling is to be rare, with and without optimism."""
    problem = ss.problems.make("grid", limit=0.015)
    learner = ss.Uniform(**problem.interface, episodes=1_000, bonus_scale=10.0 ** -(1 + seed % 4))
    noise, made = ss.streams(seed), []
    f = learner.interface
    mask, shape = f.mask.reshape(f.H, -1), (1 + f.m, f.H, f.S * f.A)
    for t in range(1, 41):
        learner.observe(ss.play(problem, learner.policy, noise, t))
        if t in (1, 2, 5, 10, 40):
            radii, pooled = learner.rates.radii, pool(learner.statistics, f)
            start = plausible_start(radii, f.start, learner.statistics.starts)
            v_hat = means(pooled)
            high = np.minimum(v_hat + signal_radius(radii, pooled.n), 1.0)
            shares = pooled.matrices(pooled.counts / pooled.n.ravel()[pooled.pairs])
            exact = tuple(between(each.toarray().T, each.toarray().T) for each in shares)
            made.append(Models(np.broadcast_to(v_hat, shape), exact, start, mask))
            rows = plausible_rows(radii, pooled)
            made.append(Models(np.broadcast_to(high, shape), rows, start, mask))
    return made


@pytest.mark.parametrize("seed", range(8))
def test_plans_on_the_first_episodes(seed: int) -> None:
    rng = np.random.default_rng(seed)
    given = float(ss.problems.make("grid", limit=0.015).cmdp.model.limits[0])
    for models in early_models(seed):
        largest = float(best_response(models, np.array([0.0, 1.0]))[0][1])
        near = [largest * (1.0 + sign * 10.0 ** rng.uniform(-12, -6)) for sign in (-1, 1)]
        for limit in (given, largest, *near):
            plan = optimistic_plan(models, np.array([limit]))
            size = max(1.0, abs(limit))
            assert plan.feasible == (largest >= limit - 1e-10 * size)
            weights = np.r_[float(plan.feasible), plan.multipliers]
            bound = best_response(models, weights)[0] @ weights - plan.multipliers @ [limit]
            if plan.feasible:  # optimal and safe, for a limit at most 2e-10 away
                assert plan.values[1] >= limit - 2e-10 * size
                assert bound - plan.values[0] <= 1e-9 + 2e-10 * size * plan.multipliers[0]
            else:
                assert plan.values[1] == pytest.approx(largest, abs=1e-12 * size)
                assert plan.multipliers == [1.0]
