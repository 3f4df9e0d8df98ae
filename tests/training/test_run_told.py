"""What is told of a run: its facts, the rows of its plots, the room within its limits, whether it is good."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import safespot as ss
from safespot.training.diagnosis import GOOD, diagnose
from safespot.training.recorded import Recorded
from safespot.training.run_tables import curve_rows
from tests.support.trails import example


@pytest.fixture(scope="module")
def run() -> ss.Run:
    problem = ss.problems.make("triage")
    learner = ss.Spot(**problem.interface, episodes=60, rho=2.0)
    return ss.learn(problem, learner, seed=3, record=20)


def played(run: ss.Run, values: float, rooms: Any) -> ss.Run:
    """The run with such a last policy: a share of the optimum, and its room within each limit."""
    assert run.limits is not None
    senses = np.sign(run.rooms / (run.constraint_values - run.limits))
    earned, found = run.values.copy(), run.constraint_values.copy()
    earned[-1] = values * run.optimum
    found[-1] = run.limits[-1] + senses[-1] * np.array(rooms)
    return replace(run, values=earned, constraint_values=found)


@pytest.mark.parametrize(
    ("values", "rooms", "good"),
    [
        (1.0, (0.0, 0.1), True),
        (GOOD + 0.001, (0.2, 0.1), True),
        (GOOD - 0.001, (0.2, 0.1), False),
        (1.0, (0.1, -0.1), False),
        (1.0, (-0.1, 0.1), False),
    ],
)
def test_a_run_is_good_by_its_last_policy(
    run: ss.Run, values: float, rooms: Any, good: bool
) -> None:
    findings = diagnose(played(run, values, rooms))
    assert (findings == ()) is good
    assert diagnose(run) != ()


def test_without_limits_the_room_is_measured_from_the_middle_of_their_bounds(run: ss.Run) -> None:
    assert run.limits is not None
    lower, upper = run.limits - 0.75, run.limits + 0.25
    blind = replace(run, limits=None, threshold_bounds=(lower, upper))
    middle = replace(run, limits=run.limits - 0.25)
    np.testing.assert_allclose(blind.rooms, middle.rooms, atol=1e-12)
    assert not np.allclose(blind.rooms, run.rooms)


def test_plots_have_a_line_for_each_way_of_counting(run: ss.Run) -> None:
    panel = run.learner.interface.names.quantity(1)

    def line(kind: str, name: str) -> list[float]:
        rows, _ = curve_rows(run, kind)
        return [row["y"] for row in rows if row["panel"] == panel and row["line"] == name]

    assert line("violation", "violation") == run.violations[:, 1].tolist()
    assert line("violation", "violations only") == run.strong_violations[:, 1].tolist()
    assert line("thresholds", "in use") == run.thresholds[:, 1].tolist()
    assert line("multipliers", "multiplier") == run.multipliers[:, 1].tolist()
    assert line("thresholds", "violation") == []


def test_a_callback_is_handed_both_ends_of_every_bound(run: ss.Run) -> None:
    seen: list[Recorded] = []
    problem = ss.problems.make("triage")
    learner = ss.Spot(**problem.interface, episodes=60, rho=2.0)
    ss.learn(problem, learner, seed=3, record=20, callback=seen.append)
    last, name = seen[-1], learner.interface.names.limit(0)
    scalars = last.scalars()
    for end, of_run in enumerate(run.threshold_bounds):
        which = ("threshold_lower", "threshold_upper")[end]
        assert scalars[f"{which}/{name}"] == last.threshold_bounds[end][0] == of_run[-1, 0]
    for end, which in enumerate(("violation_at_least", "violation_at_most")):
        assert scalars[f"{which}/{name}"] == last.violation_bounds[end][0]
    assert last.violation_bounds[0][0] < last.violation_bounds[1][0]
    facts = last._facts()
    assert list(facts) == ["episode", "value", "constraint_values", "regret", "violations"]
    assert facts["episode"] == 60


def test_the_seconds_of_a_run_are_those_that_it_took() -> None:
    problem, began = example(), time.perf_counter()
    run = ss.learn(problem, ss.Uniform(**problem.interface, episodes=50))
    env = ss.gym.ProblemEnv("triage")
    by_env = ss.learn(env, ss.Uniform(**ss.gym.env_interface(env), episodes=20))
    whole = time.perf_counter() - began
    assert run.seconds > 0.0
    assert by_env.seconds > 0.0
    assert run.seconds + by_env.seconds <= whole


def test_limits_that_drift_are_those_of_each_episode() -> None:
    steady = ss.problems.make("machine")
    drift = ss.signals.Drift(thresholds=[3.0], first=100, last=300)
    drifting = ss.Problem(steady.cmdp, ss.signals.Signals(drift=drift))
    for problem, expected in ((steady, [1.0] * 5), (drifting, [1.0, 1.0, 2.0, 3.0, 3.0])):
        learner = ss.Uniform(**problem.interface, episodes=400)
        run = ss.learn(problem, learner, record=100)
        assert run.episodes.tolist() == [1, 100, 200, 300, 400]
        assert run.limits is not None
        np.testing.assert_allclose(run.limits[:, 0], expected, rtol=1e-12)
