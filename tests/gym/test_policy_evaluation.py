"""`evaluate_policy`: the means of fresh episodes, and how sure they are."""

from __future__ import annotations

import numpy as np
import pytest

import safespot as ss
from safespot.errors import InvalidOption

GENTLE = np.tile([1.0, 0.0], (2, 2, 1))
FAST = np.tile([0.0, 1.0], (2, 2, 1))


def test_means_are_near_the_exact_values() -> None:
    env = ss.gym.ProblemEnv("machine")
    truth = ss.evaluate(ss.problems.make("machine").cmdp, FAST)
    found = ss.gym.evaluate_policy(env, FAST, episodes=600)
    assert abs(found.value - truth.value) < 4 * found.value_error
    assert abs(found.constraints[0] - truth.constraints[0]) < 4 * found.constraint_errors[0]
    assert found.rewards.shape == (600,)
    other = ss.gym.evaluate_policy(env, FAST, episodes=600, seed=1)
    assert not np.array_equal(other.rewards, found.rewards)


def test_one_episode_has_no_error() -> None:
    found = ss.gym.evaluate_policy(ss.gym.ProblemEnv("machine"), GENTLE, episodes=1)
    assert np.isnan(found.value_error)
    assert np.isnan(found.constraint_errors).all()
    with pytest.raises(InvalidOption, match="episodes"):
        ss.gym.evaluate_policy(ss.gym.ProblemEnv("machine"), GENTLE, episodes=0)


def test_errors_are_standard_errors_from_two_episodes_on() -> None:
    found = ss.gym.evaluate_policy(ss.gym.ProblemEnv("machine"), FAST, episodes=2, seed=3)
    first, second = found.rewards
    assert found.value_error == pytest.approx(abs(first - second) / 2)
    apart = np.abs(np.diff(found.constraint_sums, axis=0)[0])
    assert found.constraint_errors == pytest.approx(apart / 2)
    assert found.value_error + found.constraint_errors[0] > 0.0


def test_the_policys_own_horizon_serves() -> None:
    edges = [[0.5, 1.0, 1.5], [0.3]]
    died = ss.gym.Ending(reward=0, constraints=1)
    box = ss.gym.BlackBox(ss.gym.Clinic(), horizon=14, states=edges, endings=died)
    array = np.full((14, 9, 5), 0.2)
    array[:, 8] = [1, 0, 0, 0, 0]  # the absorbing state has one action
    ref = ss.gym.evaluate_policy(box, array, episodes=5)
    comp = ss.gym.evaluate_policy(ss.gym.Clinic(), array, episodes=5, states=edges, endings=died)
    assert np.array_equal(ref.rewards, comp.rewards)
