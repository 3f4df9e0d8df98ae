"""Models of counts: pooling, exact plans, values and their standard errors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import safespot as ss
from safespot.learners.pooling import pool
from safespot.planning import counted as pm
from safespot.planning import errors as model_errors
from safespot.planning import process as pp
from safespot.spot import visits

Array = Any
NOTHING = pm.Known(np.zeros((2, 1, 1)), np.zeros(2, bool))


@pytest.fixture(params=[True, False], ids=["dense", "lists"])
def layout(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if not request.param:
        monkeypatch.setattr(visits, "DENSE", 0)


def counted(stationary: bool, seed: int = 0) -> tuple[ss.Problem, Any, Array]:
    """A learner that has played at random, and its counts ``[H,S,A,S]`` by hand."""
    problem = ss.problems.make("random", states=4, actions=2, horizon=3, seed=seed)
    learner = ss.learners.make(
        "uniform", {**problem.interface, "stationary": stationary}, episodes=None
    )
    table = np.zeros((3, 4, 2, 4))
    streams = ss.streams(seed)
    for t in range(1, 201):
        e = ss.play(problem, learner.policy, streams, t)
        learner.observe(e)
        np.add.at(table, (np.arange(3), e.states[:-1], e.actions, e.states[1:]), 1.0)
    return problem, learner, table


@pytest.mark.usefixtures("layout")
@pytest.mark.parametrize("stationary", [True, False])
def test_counts_are_pooled(stationary: bool) -> None:
    _, learner, table = counted(stationary)
    pooled = pool(learner.statistics, learner.interface)
    expected = table.sum(axis=0, keepdims=True) if stationary else table
    found = np.zeros_like(expected).reshape(len(expected), 8, 4)
    for k in range(len(expected)):
        for row in range(8):
            entries = slice(pooled.first[k, row], pooled.first[k, row + 1])
            found[k, row, pooled.states[entries]] = pooled.counts[entries]
    np.testing.assert_array_equal(found.reshape(expected.shape), expected)
    np.testing.assert_array_equal(pooled.n, expected.sum(axis=3).reshape(-1, 8))
    np.testing.assert_allclose(
        pooled.sums.sum(axis=(1, 2)), learner.statistics.sums.sum(axis=(1, 2))
    )


def empirical(learner: Any, table: Array, stationary: bool, limit: float) -> ss.CMDP:
    """The model of the counts as a CMDP; pairs without data lead nowhere and pay nothing."""
    if stationary:
        table = table.sum(axis=0, keepdims=True)
    n = table.sum(axis=3)
    assert (n.sum(axis=0) > 0).all()
    sums = learner.statistics.sums.reshape(2, 3, 4, 2)
    sums = sums.sum(axis=1, keepdims=True) if stationary else sums
    steps = 3 // len(table)
    P = np.where(n[..., None] > 0, table / np.maximum(n, 1)[..., None], np.eye(4)[None, :, None])
    means = sums / np.maximum(n, 1)
    P, means = P.repeat(steps, axis=0), means.repeat(steps, axis=1)
    return ss.CMDP(P, means[0], means[1:], [limit])


@pytest.mark.usefixtures("layout")
@pytest.mark.parametrize("limit", [0.5, 1.4, 1.6])
def test_plans_without_imaginary_visits_are_the_optima_of_the_counts(limit: float) -> None:
    _, learner, table = counted(True)
    f = learner.interface
    cmdp = empirical(learner, table, True, limit)
    totals = np.array([[0.0], [3.0]])
    tiny = pm.imagine(f.H, f.m, 1e-9, totals, best=False)
    mask = np.ones((1, 8), bool)
    model = pm.count_model(pool(learner.statistics, f), tiny, NOTHING, mask)
    plan = pp.best_plan(model.process, np.array([limit]))
    best = ss.solve(cmdp)
    assert plan.feasible
    assert plan.values[0] == pytest.approx(best.value, abs=1e-6)
    np.testing.assert_allclose(plan.multipliers, best.multipliers, atol=1e-5)
    found = ss.evaluate(cmdp, plan.policy)
    assert found.value == pytest.approx(best.value, abs=1e-6)
    assert found.constraints[0] >= limit - 1e-6
    values, errors = model_errors.standard_errors(model, NOTHING, plan.policy, 200)
    np.testing.assert_allclose(values, plan.values, atol=1e-6)
    assert 0.0 < errors[0] < 0.5
    assert not pp.best_plan(model.process, np.array([2.9])).feasible


def test_imaginary_visits_pay_the_best_or_the_worst_of_what_is_left() -> None:
    """One pair, seen once: its value by hand."""
    cmdp = ss.CMDP(np.ones((1, 1, 1)), [[0.5]], [[[0.5]]], [0.1], horizon=3)
    problem = ss.Problem(
        cmdp,
        ss.signals.Signals(
            ss.signals.Deterministic(), ss.signals.Deterministic(), ss.signals.Deterministic()
        ),
    )
    learner = ss.learners.make("uniform", problem.interface, episodes=None)
    learner.observe(ss.play(problem, learner.policy, ss.streams(0), 1))
    f, mask = learner.interface, np.ones((1, 1), bool)
    pooled = pool(learner.statistics, f)
    for best, totals, ends in (
        (True, (0.0, 3.0), ([3, 2, 1], [3, 2, 1])),
        (True, (0.0, 1.2), ([3, 2, 1], [1.2, 1.2, 1])),
        (False, (0.0, 3.0), ([0, 0, 0], [0, 0, 0])),
        (False, (1.2, 3.0), ([0, 0, 0], [1.2, 0.2, 0])),
    ):
        imagined = pm.imagine(f.H, f.m, 0.5, np.array(totals)[:, None], best=best)
        model = pm.count_model(pooled, imagined, NOTHING, mask)
        value = np.zeros(2)
        for h in (2, 1, 0):
            value = (3 * 0.5 + 3 * value + 0.5 * np.array([end[h] for end in ends])) / 3.5
        np.testing.assert_allclose(pp.best_plan(model.process, np.array([-9.0])).values, value)
        known = pm.Known(np.full((2, 1, 1), 0.7), np.array([True, False]))
        model = pm.count_model(pooled, imagined, known, mask)
        reward = 0.0
        for h in (2, 1, 0):
            reward = 0.7 + (3 * reward + 0.5 * np.r_[ends[0], 0][h + 1]) / 3.5
        found = pp.best_plan(model.process, np.array([-9.0])).values
        np.testing.assert_allclose(found, [reward, value[1]])


def test_standard_errors_are_those_of_many_repetitions() -> None:
    """The spread of V_g in models counted from independent data, by the delta method and by repetition."""
    values, errors = [], []
    policy = np.full((3, 4, 2), 0.5)
    for seed in range(200):
        problem = ss.problems.make("random", states=4, actions=2, horizon=3, seed=0)
        learner = ss.learners.make("uniform", problem.interface, episodes=None)
        streams = ss.streams(seed)
        for t in range(1, 61):
            learner.observe(ss.play(problem, learner.policy, streams, t))
        imagined = pm.imagine(
            learner.interface.H, learner.interface.m, 1e-9, np.array([[0.0], [3.0]]), best=False
        )
        model = pm.count_model(
            pool(learner.statistics, learner.interface), imagined, NOTHING, np.ones((1, 8), bool)
        )
        value, error = model_errors.standard_errors(model, NOTHING, policy, 60)
        values.append(value[1])
        errors.append(error[0])
    assert np.mean(errors) == pytest.approx(np.std(values), rel=0.2)
