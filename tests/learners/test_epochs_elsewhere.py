"""`SpotEpochs` wherever a learner goes: environments, sweeps, folders, logs, episodes that end early."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest

import safespot as ss
import safespot.gym
from safespot.learners import phases
from tests.support.contract import saved
from tests.support.sweeping import sweep_inline, tiny


def coin(mean: float, limit: float) -> ss.Problem:
    """One state, two actions that differ in reward alone, two steps: every policy has V_g = 2 mean."""
    cmdp = ss.CMDP(
        np.ones((1, 2, 1)), [[0.3, 0.7]], np.full((1, 1, 2), mean), [limit], horizon=2
    )  # fmt: skip
    return ss.Problem(cmdp)


def played(problem: ss.Problem, policy: Any, episodes: int, seed: int = 0) -> list[ss.Episode]:
    streams = ss.streams(seed)
    return [ss.play(problem, policy, streams, t) for t in range(1, episodes + 1)]


def test_an_environment_is_learned_as_its_table() -> None:
    problem, env = ss.problems.make("machine"), gymnasium.make("safespot/machine-v0")
    interface = ss.gym.env_interface(env)
    assert interface["stationary"] is True
    ours, theirs = ss.SpotEpochs(**interface), ss.SpotEpochs(**problem.interface)
    ss.learn(env, ours, 300, seed=3)
    ss.learn(problem, theirs, 300, seed=3)
    np.testing.assert_array_equal(ours.policy, theirs.policy)
    np.testing.assert_array_equal(ours.threshold_bounds, theirs.threshold_bounds)


def test_a_sweep_takes_it(tmp_path: Path) -> None:
    runs = tiny(learners=[{"name": "spot-epochs", "options": {"stance": 0.5}}], episodes=150)
    store = sweep_inline(tmp_path / "store", runs)
    assert len(store.finished()) == len(runs) == 2


@pytest.mark.parametrize("how", ["warm_start", "log", "durable"])
def test_the_past_is_counted_and_is_no_trial(how: str, tmp_path: Path) -> None:
    """Episodes with much room, played by somebody: nothing is certified of the learner's own policy."""
    problem = coin(0.95, 0.5)
    past = played(problem, [[1.0, 0.0]], 50)
    ss.write_log(tmp_path / "past.csv", past)
    if how == "log":
        learner = ss.SpotEpochs(**problem.interface, log=past)
    elif how == "warm_start":
        learner = ss.SpotEpochs(**problem.interface)
        ss.logs.warm_start(learner, tmp_path / "past.csv")
    else:
        with ss.open(tmp_path / "it", ss.SpotEpochs(**problem.interface)) as durable:
            ss.logs.warm_start(durable, tmp_path / "past.csv")
            before = saved(durable.learner, tmp_path)
        with ss.open(tmp_path / "it") as durable:
            assert saved(durable.learner, tmp_path) == before
            learner = durable.learner  # type: ignore[assignment]
    assert learner.statistics.n.sum() == 100
    assert learner.state.trial.counted[0] == 0
    assert not learner.certificates
    lower, upper = learner.threshold_bounds
    assert 0.0 < lower[0] < 0.5 < upper[0] < 2.0
    ss.learn(problem, learner, 100, seed=1)
    assert learner.certificates
    assert learner.certificates[0].certificate.episodes <= learner.certificates[0].episode - 50


def test_hints_that_are_missing_count_as_the_worst_unless_they_are_alike() -> None:
    """The second step shows no hint in every other episode: its threshold may have been anything."""
    problem = coin(0.75, 0.8)
    found = []
    for options in ({}, {"shared_threshold": True}):
        learner = ss.SpotEpochs(**problem.interface, **options)
        for t, episode in enumerate(played(problem, [[0.5, 0.5]], 400), start=1):
            thresholds = episode.thresholds.copy()
            if t % 2:
                thresholds[1] = np.nan
            learner.observe(replace(episode, thresholds=thresholds), played=learner.policy)
        lower, upper = learner.threshold_bounds
        assert lower[0] <= 0.8 <= upper[0]
        found.append((len(learner.certificates), float(upper[0] - lower[0])))
    assert found[0][1] > 0.5 > found[1][1]
    assert found[1][0] > 0


def test_a_trial_is_about_its_own_episodes_in_every_phase() -> None:
    """Others play in between; the certificate's episodes are those of the policy."""
    problem, streams = coin(0.8, 1.0), ss.streams(1)
    learner, other = ss.SpotEpochs(**problem.interface), np.array([[[1.0, 0.0]]] * 2)
    own = 0
    for t in range(1, 129):
        trying = learner.state.clock[phases.PART] in (phases.FIRST, phases.TRYING)
        mine = t % 2 == 0
        before = learner.state.trial.counted[0]
        policy = learner.policy if mine else other
        learner.observe(ss.play(problem, policy, streams, t), played=policy)
        own += mine and trying
        if t < 64:
            assert learner.state.trial.counted[0] == before + mine
    assert own > 0
