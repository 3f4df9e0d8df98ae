"""`SpotEpochs` with a log: what it is worth where the policy that made it is known, and where it is not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import safespot as ss
from safespot.data.logs import columns
from safespot.learners import phases
from tests.support.contract import saved

EVEN = np.array([[0.5, 0.5]])


def coin(mean: float, limit: float) -> ss.Problem:
    """One state, two steps, two actions that differ in reward alone: every policy has V_g = 2 mean."""
    return ss.Problem(
        ss.CMDP(np.ones((1, 2, 1)), [[0.3, 0.7]], np.full((1, 1, 2), mean), [limit], horizon=2)
    )


def coins(problem: ss.Problem, n: int, seed: int = 3) -> ss.Log:
    streams = ss.streams(seed)
    policy = EVEN
    played = [ss.play(problem, policy, streams, t) for t in range(1, n + 1)]
    return ss.read_log(columns(played), **problem.interface)


def test_a_log_whose_policy_is_given_is_its_trial() -> None:
    problem = coin(0.8, 1.0)
    log = coins(problem, 400)
    learner = ss.SpotEpochs(**problem.interface, log=log, behaviour=EVEN)
    (made,) = learner.certificates
    assert made.certificate.verdict == ("safe",)
    assert made.episode <= 400
    assert made.policy.tolist() == [[[0.5, 0.5]]] * 2
    assert ss.SpotEpochs(**problem.interface, log=log).certificates == ()
    # It goes on after the log, in its second phase.
    assert learner.state.clock[phases.PHASE] == 2
    assert learner.episode == 401


def test_a_log_that_proves_its_policy_broken_leaves_no_baseline() -> None:
    problem = coin(0.2, 1.0)
    with pytest.warns(UserWarning, match="the baseline breaks a limit"):
        learner = ss.SpotEpochs(**problem.interface, log=coins(problem, 400), behaviour=EVEN)
    assert learner.certificates == ()
    assert learner.state.clock[phases.DISTRUSTED] == 1
    assert learner.episode == 401


def test_a_log_with_rejected_episodes_certifies_nothing() -> None:
    problem = coin(0.8, 1.0)
    table = columns(coins(problem, 400).episodes)
    table["action"][7] = 5
    torn = ss.read_log(table, **problem.interface)
    for log in (torn, torn.episodes):
        with pytest.warns(UserWarning, match="1 episodes were left out"):
            learner = ss.SpotEpochs(**problem.interface, log=log, behaviour=EVEN)
        assert learner.certificates == ()
        assert learner.doubts.rejected == 1


def test_one_hint_for_an_episode_is_none_for_each_of_its_steps() -> None:
    """A factor for each share of it would count its noise as often as there are steps."""
    table = {
        "episode": [0, 0], "step": [0, 1], "state": [0, 0], "action": [0, 0], "next_state": [0, 0],
        "reward": [0.0, 0.0], "constraint_0": [1.0, 1.0], "threshold_total_0": [1.5, 1.5],
    }  # fmt: skip
    log = ss.read_log(table, states=1, actions=1, horizon=2, constraints=1)
    assert ss.SpotEpochs(**log.interface, log=log).episode == 2
    with pytest.raises(ss.errors.InvalidOption, match="one hint for an episode"):
        ss.SpotEpochs(**log.interface, log=log, independent_hints=True)
    learner = ss.Spot(
        **log.interface, episodes=9, slack=1.0, estimator="total", independent_hints=True
    )
    with pytest.raises(ss.errors.InvalidOption, match="one hint for an episode"):
        ss.logs.warm_start(learner, table)
    assert learner.episode == 1


def test_a_learner_with_a_log_may_be_durable(tmp_path: Path) -> None:
    problem = coin(0.8, 1.0)
    learner = ss.SpotEpochs(**problem.interface, log=coins(problem, 200), behaviour=EVEN)
    streams = ss.streams(0)
    with ss.open(tmp_path / "ward", learner) as durable:
        for t in range(201, 300):
            durable.observe(ss.play(problem, durable.policy, streams, t))
        before = saved(durable.learner, tmp_path)
    with ss.open(tmp_path / "ward") as durable:
        assert saved(durable.learner, tmp_path) == before
        inner: Any = durable.learner
        assert inner.certificates


def test_a_behaviour_needs_its_log_and_must_have_made_it() -> None:
    problem = coin(0.8, 1.0)
    given: list[dict[str, Any]] = [{}, {"log": [], "baseline": EVEN}]
    for wrong in given:
        with pytest.raises(ss.errors.InvalidOption, match="goes with log= and without baseline="):
            ss.SpotEpochs(**problem.interface, behaviour=EVEN, **wrong)
    with pytest.raises(ss.errors.InvalidOption, match="behaviour never takes action 1"):
        ss.SpotEpochs(**problem.interface, log=coins(problem, 20), behaviour=[[1.0, 0.0]])
