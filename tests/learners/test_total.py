"""``estimator="total"``: how far it knows the limits, and that compiled training is the loop written by hand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import safespot as ss
from safespot.learners.threshold_totals import observe_totals, total_rates, total_state
from tests.support.trails import example, same, spot

KINDS: dict[str, dict[str, Any]] = {
    "episodes": {},
    "steps": {"independent_hints": True},
    "shared": {"shared_threshold": True},
    "samples": {"independent_hints": True, "shared_threshold": True},
    "window": {"window": 0.3},
    "declared": {"constraint_totals": (0.0, 3.0)},
}


@pytest.mark.parametrize("kind", KINDS)
def test_training_is_play_and_observe(kind: str, tmp_path: Path) -> None:
    problem = example()
    options = {"estimator": "total", "threshold_scale": 1.0, **KINDS[kind]}
    compiled, plain = (spot(problem, 250, **options) for _ in range(2))
    ss.learn(problem, compiled, seed=2)
    streams = ss.streams(2)
    for t in range(1, 251):
        plain.observe(ss.play(problem, plain.policy, streams, t))
    same(compiled, plain, tmp_path)


@pytest.mark.parametrize("kind", KINDS)
def test_bounds_are_those_of_the_totals(kind: str) -> None:
    problem = example()
    learner = spot(problem, 250, estimator="total", threshold_scale=1.0, **KINDS[kind])
    f = learner.interface
    declared = {k: v for k, v in KINDS[kind].items() if k != "constraint_totals"}
    limits = np.array(learner.declared.limits)
    rates = total_rates(f.m, f.H, 0.05, planned=250, limits=limits, **declared)
    state, lower, upper = total_state(rates, f.H), limits[0].copy(), limits[1].copy()
    streams = ss.streams(2)
    for t in range(1, 61):  # as long as a window has room at first
        episode = ss.play(problem, learner.policy, streams, t)
        learner.observe(episode)
        observe_totals(rates, state, f.check(episode).thresholds, lower, upper)
        np.testing.assert_array_equal(learner.state.lower, lower)
        np.testing.assert_array_equal(learner.state.upper, upper)


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("spot", {"slack": 1.8, "bonus_scale": 0.01}),
        ("opt-cmdp-bonus", {"bonus_scale": 0.01}),
        ("uniform", {}),
    ],
)
def test_20000_episodes_of_dosing_know_the_tolerance_to_3_hundredths(
    name: str, options: dict[str, Any]
) -> None:
    problem = ss.problems.make("dosing")
    learner = ss.learners.make(
        name, problem.interface, episodes=20_000, estimator="total", **options
    )
    run = ss.learn(problem, learner, track="grid")
    (low,), (high,) = learner.threshold_bounds
    assert low <= 6.0 <= high
    assert high - low <= 0.06
    assert (run.threshold_bounds[0] <= 6.0).all()
    assert (run.threshold_bounds[1] >= 6.0).all()
