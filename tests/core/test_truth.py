"""Simulation and exact values against their plain reading."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import beta

import safespot as ss
from safespot import _core, reference
from safespot.arrays import InsideEpisode
from safespot.model.simulation import as_laws, draw_noise
from tests.core.support import Record
from tests.support import models
from tests.support.trails import example
from tests.support.training_cases import LAWS

NAMES = ["bernoulli", "beta", "gaussian", "deterministic"]


def bind(problem: ss.Problem) -> Any:
    return _core.Truth(problem.cmdp.model, as_laws(problem))


@given(models.valid(), st.integers(0, 2**32 - 1))
@settings(max_examples=60, deadline=None)
def test_values_are_those_of_backward_induction(arguments: Any, seed: int) -> None:
    cmdp = ss.CMDP(**arguments)
    t = models.to_inside(models.tables(arguments))
    policy = models.random_policy(t.mask, np.random.default_rng(seed))
    values = np.zeros(1 + cmdp.m)
    bind(ss.Problem(cmdp)).values(np.ascontiguousarray(policy), values)
    payoffs = np.concatenate([t.rewards[None], t.constraints])
    expected = reference.policy_values(t.transitions, payoffs, t.start, policy)
    np.testing.assert_allclose(values, expected, atol=1e-10)


@pytest.mark.parametrize(("states", "actions"), [(1, 1), (3, 2), (9, 4), (30, 3), (17, 9)])
@pytest.mark.parametrize("steps", [1, 4])
def test_values_of_larger_models(states: int, actions: int, steps: int) -> None:
    rng, H, m = np.random.default_rng(states), 4, 2
    P = rng.dirichlet(np.full(states, 0.1), (steps, states, actions))
    P[rng.random(P.shape[:3]) < 0.2] = np.eye(states)[0]
    payoffs = rng.random((1 + m, steps, states, actions))
    cmdp = ss.CMDP(
        P if steps > 1 else P[0], payoffs[0] if steps > 1 else payoffs[0, 0],
        payoffs[1:] if steps > 1 else payoffs[1:, 0], np.zeros((m, H)), rng.dirichlet(np.ones(states)),
    )  # fmt: skip
    policy = rng.dirichlet(np.full(actions, 0.3), (H, states))
    values, full = np.zeros(1 + m), np.broadcast_to(payoffs, (1 + m, H, states, actions))
    bind(ss.Problem(cmdp)).values(policy, values)
    start = cmdp.model.start
    everywhere = np.broadcast_to(P, (H, states, actions, states))
    np.testing.assert_allclose(
        values, reference.policy_values(everywhere, full, start, policy), atol=1e-10
    )


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("steps", [False, True])
@pytest.mark.parametrize("law", range(4))
def test_episodes_are_those_of_the_reference(law: int, steps: bool, sparse: bool) -> None:
    signals = ss.signals.Signals(LAWS[law], LAWS[(law + 1) % 4], LAWS[(law + 2) % 4])
    problem = example(signals, steps=steps, sparse=sparse, start=[0.3, 0.0, 0.6, 0.1])
    model, H, A, m = problem.cmdp.model, problem.cmdp.H, problem.cmdp.A, problem.cmdp.m
    noise = draw_noise(problem, ss.streams(4), 40)
    policy = np.random.default_rng(2).dirichlet(np.full(A, 0.5), (H, problem.cmdp.S))
    P, start = dense_rows(problem), model.start
    seen = empty_episode(H, m)
    for n in range(40):
        bind(problem).play(model.alpha, noise, n, policy, seen)
        s = reference.pick(start, noise.start[n])
        for h in range(H):
            k = h if model.payoffs.shape[1] > 1 else 0
            pair = s * A + reference.pick(policy[h, s], noise.actions[n, h])
            assert (seen.states[h], seen.pairs[h]) == (s, pair)
            r = observed(signals.rewards, model.payoffs[0, k, pair], noise.rewards[n, h])
            assert seen.rewards[h] == pytest.approx(r, abs=1e-10)
            for i in range(m):
                mean = model.payoffs[1 + i, k, pair]
                g = observed(signals.constraints, mean, noise.constraints[n, h, i])
                x = observed(signals.thresholds, model.alpha[i, h], noise.thresholds[n, h, i])
                assert seen.constraints[h, i] == pytest.approx(g, abs=1e-10)
                assert seen.thresholds[h, i] == pytest.approx(x, abs=1e-10)
            s = reference.pick(P[k if len(P) > 1 else 0, pair], noise.transitions[n, h])
        assert seen.states[H] == s


def observed(law: Any, mean: float, z: float) -> float:
    return reference.signal(NAMES[law.code], mean, z, law.parameter)


def dense_rows(problem: ss.Problem) -> Any:
    from safespot.model.transitions import as_matrices

    P = problem.cmdp.model.P
    return (
        P.dense if P.dense.size else np.stack([p.toarray() for p in as_matrices(P, problem.cmdp.S)])
    )


def empty_episode(H: int, m: int) -> InsideEpisode:
    return InsideEpisode(
        np.zeros(H + 1, np.int64), np.zeros(H, np.int64), np.zeros(H), np.zeros((H, m)), np.zeros((H, m))
    )  # fmt: skip


def test_beta_signals_are_quantiles() -> None:
    """Where the density is far from 0: there a quantile is known as well as its probability."""
    rng, cmdp = np.random.default_rng(0), ss.problems.make("bandit").cmdp
    for concentration in (0.5, 2.0, 30.0, 2000.0):
        law = ss.signals.Beta(concentration)
        truth = bind(ss.Problem(cmdp, ss.signals.Signals(law, law, law)))
        mean, z = rng.uniform(0.02, 0.98), rng.uniform(0.01, 0.99)
        noise = Record(
            start=np.zeros(1), actions=np.zeros((1, 1)), transitions=np.zeros((1, 1)), rewards=np.full((1, 1), 0.5),
            constraints=np.full((1, 1, 1), 0.5), thresholds=np.full((1, 1, 1), z),
        )  # fmt: skip
        seen = empty_episode(1, 1)
        truth.step(np.full((1, 1), mean), noise, 0, 0, 0, seen)
        expected = beta.ppf(z, concentration * mean, concentration * (1.0 - mean))
        assert seen.thresholds[0, 0] == pytest.approx(expected, rel=1e-9, abs=1e-12)
