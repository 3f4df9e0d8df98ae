"""What a run's own episodes prove: the meter in the compiled loop, in environments, and what `replay` goes through."""

from __future__ import annotations

import contextlib
from typing import Any

import numpy as np
import pytest

import safespot as ss
from safespot.gym.problem_env import ProblemEnv
from tests.evidence.test_coverage import clopper_pearson
from tests.support.trails import example, spot


def by_hand(problem: ss.Problem, learner: ss.Learner, episodes: int, seed: int) -> tuple[Any, Any]:
    """A meter that counts a loop of play and observe, and its readings after every episode."""
    known = {"thresholds": learner.options.thresholds}
    meter = ss.SafetyMeter({**problem.interface, **known}, learner.options.delta)
    streams, readings = ss.streams(seed), []
    for t in range(1, episodes + 1):
        episode = ss.play(problem, learner.policy, streams, t)
        learner.observe(episode)
        meter.observe(episode)
        readings.append((meter.violation_bounds, meter.mean_bounds, meter.reward_bounds))
    return meter, readings


@pytest.mark.parametrize("options", [{}, {"thresholds": [1.0, 1.5]}, {"delta": 0.2, "window": 0.5}])
def test_a_run_carries_the_meter_of_its_episodes(options: dict[str, Any]) -> None:
    problem = example()
    run = ss.learn(problem, spot(problem, 300, **options), seed=3)
    _, readings = by_hand(problem, spot(problem, 300, **options), 300, 3)
    assert run.evidence.delta == options.get("delta", 0.05)
    np.testing.assert_array_equal(run.evidence.episodes, run.episodes)
    for row, t in enumerate(run.episodes):
        violation, mean, reward = readings[t - 1]
        for side in range(2):
            np.testing.assert_array_equal(run.evidence.violation_bounds[side][row], violation[side])
            np.testing.assert_array_equal(run.evidence.mean_bounds[side][row], mean[side])
            assert run.evidence.reward_bounds[side][row] == reward[side]


def test_the_violation_lies_within_the_bounds() -> None:
    """In all but a share delta of the runs, at every recorded moment."""
    problem, delta, wrong = (
        ss.problems.make("random", states=5, actions=3, horizon=4, seed=1),
        0.3,
        0,
    )
    for seed in range(30):
        learner = ss.Spot(
            **problem.interface, episodes=3_000, rho=2.0, bonus_scale=0.01, delta=delta
        )
        run = ss.learn(problem, learner, seed=seed)
        low, high = run.evidence.violation_bounds
        least, most = run.evidence.reward_bounds
        mean = run.optimum - run.regret / run.episodes
        held = (low <= run.violations) & (run.violations <= high)
        wrong += not (held.all() and ((least <= mean) & (mean <= most)).all())
        assert (high[-1] - low[-1] < 0.15 * 3_000).all()
    assert clopper_pearson(wrong, 30)[0] <= delta


def test_a_second_run_begins_to_count_anew() -> None:
    problem, learner = example(), None
    learner = spot(problem, 200)
    ss.learn(problem, learner, 120)
    run = ss.learn(problem, learner, 80)
    assert run.episodes[0] == 121
    assert run.evidence.episodes[[0, -1]].tolist() == [1, 80]
    assert (run.evidence.violation_bounds[0][-1] <= run.violations[-1]).all()


@pytest.mark.parametrize("before", [0, 40])
@pytest.mark.parametrize("place", ["problem", "environment"])
def test_a_replay_is_the_run(place: str, before: int) -> None:
    """The same policies and episodes once more, also of a learner that had seen some before, and has since."""
    problem = ss.problems.make("machine")
    learner = ss.Spot(**problem.interface, episodes=400, slack=0.5, policy_step=0.1, dual_step=0.1)
    if before:
        ss.learn(problem, learner, before, seed=9)
    if place == "problem":
        run = ss.learn(problem, learner, 100, seed=4)
    else:
        run = ss.learn(ProblemEnv(problem), learner, 100, seed=4)
    last = run.policy
    ss.learn(problem, learner, 50, seed=5)
    meter, final, count = learner.make_meter(), None, 0
    for policy, episode in run.replay():
        meter.observe(episode)
        final, count = policy, count + 1
    np.testing.assert_array_equal(final, last)  # the array goes on with its learner
    assert count == 100
    assert run.first == before + 1
    np.testing.assert_array_equal(meter.violation_bounds[0], run.evidence.violation_bounds[0][-1])


def test_totals_that_were_not_declared_so_end_the_run() -> None:
    """As `observe` refuses such an episode; the learner stays after its last whole one."""
    problem = example()

    def make() -> ss.Spot:
        return spot(problem, 300, threshold_totals=(0.0, 2.9))

    by_hand, streams = make(), ss.streams(3)
    with contextlib.suppress(ss.errors.InvalidEpisode):
        for t in range(1, 301):
            by_hand.observe(ss.play(problem, by_hand.policy, streams, t))
    assert by_hand.episode < 300
    learner = make()
    with pytest.raises(
        ss.errors.InvalidEpisode, match=f"episode {by_hand.episode}: .*threshold_totals"
    ) as stop:
        ss.learn(problem, learner, seed=3)
    assert learner.episode == by_hand.episode > 1
    np.testing.assert_array_equal(learner.policy, by_hand.policy)
    assert stop.value.run.played == learner.episode - 1  # type: ignore[attr-defined]
