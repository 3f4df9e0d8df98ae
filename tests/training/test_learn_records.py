"""What a run records and adds up, against plain NumPy and by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import safespot as ss
from tests.support.trails import (
    Trail,
    by_hand,
    example,
    spot,
)
from tests.support.training_cases import CASES, LAWS, Options, learned, noisy

Array = Any


# --- What is recorded


# --- Sums


def alpha(problem: ss.Problem, t: int) -> Array:
    """The thresholds ``[m,H]`` of an episode in the user's terms, by hand."""
    old, drift = problem.cmdp.thresholds, problem.signals.drift
    if drift is None:
        return old
    new = np.asarray(drift.thresholds, float)
    new = np.repeat(new[:, None] / problem.cmdp.H, problem.cmdp.H, axis=1) if new.ndim == 1 else new
    if drift.last is None:
        return old if t < drift.first else new
    share = min(max((t - drift.first) / (drift.last - drift.first), 0.0), 1.0)
    return old + share * (new - old)


def optimum(problem: ss.Problem, t: int) -> float:
    try:
        return ss.solve(problem.cmdp.with_thresholds(alpha(problem, t))).value
    except ss.errors.Infeasible:
        return float("nan")


def losses(problem: ss.Problem, trail: Trail) -> tuple[Array, Array]:
    """Gaps ``[T]`` and shortfalls ``[T,m]`` in the user's terms, every optimum solved anew."""
    T = len(trail.values)
    known: dict[bytes, float] = {}
    gaps, short = np.zeros(T), np.zeros((T, problem.cmdp.m))
    sign = np.where(np.array(problem.cmdp.senses) == ">=", 1.0, -1.0)
    for t in range(1, T + 1):
        now = alpha(problem, t)
        key = now.tobytes()
        known[key] = known[key] if key in known else optimum(problem, t)
        gaps[t - 1] = known[key] - trail.values[t - 1]
        short[t - 1] = sign * (now.sum(axis=1) - trail.constraints[t - 1])
    return gaps, short


def close(ours: Array, theirs: Array) -> None:
    np.testing.assert_allclose(ours, theirs, rtol=1e-9, atol=1e-9)


def sums_are(run: ss.Run, gaps: Array, short: Array) -> None:
    rows = run.episodes - 1
    close(run.regret, np.cumsum(gaps)[rows])
    close(run.strong_regret, np.cumsum(np.maximum(gaps, 0.0))[rows])
    weak, strong = np.cumsum(short, axis=0), np.cumsum(np.maximum(short, 0.0), axis=0)
    close(run.violations, weak[rows])
    close(run.strong_violations, strong[rows])
    close(run.violation, weak[rows].max(axis=1))
    close(run.strong_violation, strong[rows].max(axis=1))


@pytest.mark.parametrize(
    "case",
    ["plain", "units", "start", "mild mask", "step drift", "linear drift", "units, beta, drift"],
)
@pytest.mark.parametrize("record", ["all", "log", 7])
def test_the_sums_are_those_of_plain_numpy(case: str, record: Any) -> None:
    problem = example(**CASES[case][0])
    # As many points as optima are solved at: then nothing is interpolated.
    drift = problem.signals.drift
    if drift is not None and drift.last is not None:
        exact = ss.signals.Drift(drift.thresholds, drift.first, drift.first + 64)
        problem = ss.Problem(problem.cmdp, noisy(problem.signals.rewards, exact))
    options = {"policy_step": 0.3, **CASES[case][1]}
    trail = by_hand(problem, spot(problem, 150, **options), 150, seed=2)
    run = ss.learn(problem, spot(problem, 150, **options), seed=2, record=record)
    gaps, short = losses(problem, trail)
    sums_are(run, gaps, short)
    assert (run.strong_regret >= run.regret).all()
    assert (run.strong_violations >= run.violations).all()
    assert (run.strong_violation >= run.violation).all()
    assert run.optimum == pytest.approx(optimum(problem, 150), rel=1e-9)


def test_the_sums_have_both_signs() -> None:
    """The tests above would not tell a sum from a sum of positive parts otherwise."""
    problem = example()
    run = ss.learn(problem, spot(problem, 2000, policy_step=0.3), record="all")
    gaps = np.diff(run.regret)
    assert gaps.min() < 0.0 < gaps.max()
    short = np.diff(run.violations, axis=0)
    assert short.min() < 0.0 < short.max()


def trapezoids(episodes: Array, losses: Array) -> Array:
    """Cumulated sums where only some episodes are known and straight lines join them.

    The area under the lines, and half of each end that the area leaves out.
    """
    areas = np.diff(episodes) * (losses[1:] + losses[:-1]) / 2.0
    total = np.concatenate([[0.0], np.cumsum(areas)])
    return total + (losses + losses[0]) / 2.0


@pytest.mark.parametrize("case", ["plain", "units", "step drift", "linear drift"])
@pytest.mark.parametrize("record", ["log", 13])
def test_the_grid_is_integrated_by_the_trapezoidal_rule(case: str, record: Any) -> None:
    problem = example(**CASES[case][0])
    options = {"policy_step": 0.3, **CASES[case][1]}
    drift = problem.signals.drift
    if drift is not None and drift.last is not None:
        exact = ss.signals.Drift(drift.thresholds, drift.first, drift.first + 64)
        problem = ss.Problem(problem.cmdp, noisy(problem.signals.rewards, exact))
    trail = by_hand(problem, spot(problem, 150, **options), 150, seed=2)
    run = ss.learn(problem, spot(problem, 150, **options), seed=2, record=record, track="grid")
    assert run.track == "grid"
    assert run.episodes[-2] < 149  # something is skipped
    gaps, short = (x[run.episodes - 1] for x in losses(problem, trail))
    close(run.regret, trapezoids(run.episodes, gaps))
    close(run.strong_regret, trapezoids(run.episodes, np.maximum(gaps, 0.0)))
    for i in range(problem.cmdp.m):
        close(run.violations[:, i], trapezoids(run.episodes, short[:, i]))
        positive = np.maximum(short[:, i], 0.0)
        close(run.strong_violations[:, i], trapezoids(run.episodes, positive))


def test_all_of_the_grid_is_every_episode() -> None:
    problem = example()
    every, some = (
        ss.learn(problem, spot(problem, 100), record="all", track=track)
        for track in ("every", "grid")
    )
    for name in ("regret", "strong_regret", "violations", "strong_violations"):
        assert getattr(every, name).tobytes() == getattr(some, name).tobytes()


@pytest.mark.parametrize("last", [None, 104])
def test_regret_is_nan_while_nothing_keeps_the_limits(last: int | None) -> None:
    problem = example(noisy(LAWS[0], ss.signals.Drift([2.9, 2.9], 40, last)))
    trail = by_hand(problem, spot(problem, 150), 150, seed=2)
    run = ss.learn(problem, spot(problem, 150), seed=2, record="all")
    gaps, short = losses(problem, trail)
    assert np.isnan(gaps[-1])
    assert np.isfinite(gaps[:39]).all()
    first = int(np.isnan(gaps).argmax())
    assert first == 39 if last is None else 39 < first < 103
    assert np.isnan(run.regret[first:]).all()
    assert np.isnan(run.strong_regret[first:]).all()
    close(run.regret[:first], np.cumsum(gaps[:first]))
    close(run.violations, np.cumsum(short, axis=0))
    assert np.isfinite(run.strong_violation).all()
    assert np.isnan(run.optimum)


def test_limits_that_become_feasible_again_leave_the_sums_nan() -> None:
    """What is lost while there is no optimum is not known afterwards either."""
    problem = example(noisy(LAWS[0], ss.signals.Drift([1.5, 1.5], 40)), alpha=0.9)
    run = ss.learn(problem, spot(problem, 80), record="all")
    assert np.isnan(run.regret).all()
    assert np.isfinite(run.violations).all()
    assert run.optimum == pytest.approx(optimum(problem, 80), rel=1e-9)
    late = spot(problem, 80)
    ss.learn(problem, late, 39)
    assert np.isfinite(ss.learn(problem, late).regret).all()


# --- Worked by hand: a learner whose bonus is huge never leaves the even policy


def still(problem: ss.Problem, **options: Any) -> ss.Run:
    learner = spot(problem, 1000, **{"bonus_scale": 1e9, **options})
    run = ss.learn(problem, learner, record=100)
    assert not learned(problem, learner)
    return run


@pytest.mark.parametrize(
    ("limit", "best"),
    [(0.25, 0.85), (0.5, 0.7), (0.8, 0.52)],  # risky with probability 1 - limit
)
def test_the_bandit_worked_by_hand(limit: float, best: float) -> None:
    bandit = ss.problems.make("bandit")
    run = still(ss.Problem(bandit.cmdp.with_thresholds([limit])))
    T = run.episodes
    assert run.optimum == pytest.approx(best, abs=1e-9)
    close(run.values, 0.7)
    close(run.constraint_values[:, 0], 0.5)
    np.testing.assert_allclose(run.regret, T * (best - 0.7), rtol=1e-8, atol=1e-6)
    np.testing.assert_allclose(run.strong_regret, T * max(best - 0.7, 0.0), rtol=1e-8, atol=1e-6)
    close(run.violation, T * (limit - 0.5))
    close(run.strong_violation, T * max(limit - 0.5, 0.0))


def test_the_triage_worked_by_hand() -> None:
    run = still(ss.problems.make("triage"))
    T = run.episodes
    day = 0.5 * 0.9 + 0.5 * 1.6 / 3
    close(run.values, 3 * day)
    np.testing.assert_allclose(run.regret, 3 * T * (0.86 - day), rtol=1e-8)
    ward, intensive = 0.5 / 2 + 0.5 / 3, 0.5 / 3
    close(run.violations[:, 0], 3 * T * (ward - 0.4))
    close(run.violations[:, 1], 3 * T * (intensive - 0.3))
    close(run.violation, 3 * T * (ward - 0.4))
    close(run.strong_violations[:, 1], 0.0 * T)


@pytest.mark.parametrize("options", [{}, {"thresholds": [1.0]}, {"window": 0.5}])
def test_the_machine_worked_by_hand(options: Options) -> None:
    """Earns more than it may: the regret is negative, the strain beyond the budget positive."""
    run = still(ss.problems.make("machine"), **options)
    T = run.episodes
    close(run.values, 7 + 0.75 * 7 + 0.25 * 4)
    close(run.constraint_values[:, 0], 1 + 0.75 * 1 + 0.25 * 2.5)
    assert run.optimum == pytest.approx(11, abs=1e-8)
    np.testing.assert_allclose(run.regret, -2.25 * T, rtol=1e-8)
    assert (run.strong_regret == 0.0).all()
    close(run.violation, 1.375 * T)
    close(run.strong_violation, 1.375 * T)
