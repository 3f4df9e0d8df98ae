"""`learn` is the loop of `play` and `observe`, bit for bit, however it is cut up; and its sums are right."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import safespot as ss
from safespot import estimators, loops, training
from safespot.learners import learner as learner_module
from safespot.learners import spot as spot_module
from tests.contract import readings
from tests.digest import state
from tests.models import Arguments, valid
from tests.reference import ReferenceSpot
from tests.trails import (
    OPTIONS,
    RANGES,
    REWARD_RANGE,
    SCALES,
    SENSES,
    Trail,
    by_hand,
    example,
    follows,
    same,
    saved,
    spot,
)

Options = dict[str, Any]
Array = Any
ROOT = Path(__file__).parents[1]
LAWS: list[Any] = [ss.Bernoulli(), ss.Beta(3.0), ss.Gaussian(0.2), ss.Deterministic()]
STEP = ss.Drift([0.9, 2.1], first=40)
LINEAR = ss.Drift([0.9, 2.1], first=20, last=36)
COSTLY = ss.Drift([10.5, 36.3], first=30, last=46)


def noisy(law: Any, drift: ss.Drift | None = None) -> ss.Signals:
    return ss.Signals(law, law, law, drift)


# name -> (the problem's options, the learner's)
CASES: dict[str, tuple[Options, Options]] = {
    "plain": ({}, {}),
    "steps": ({"steps": True, "alpha": 0.9}, {"stance": "optimistic"}),
    "sparse": ({"sparse": True}, {"stance": 0.3}),
    "sparse steps": ({"sparse": True, "steps": True}, {"policy_step": 0.1}),
    "beta": ({"signals": noisy(LAWS[1])}, {}),
    "gaussian": ({"signals": noisy(LAWS[2])}, {}),
    "deterministic": ({"signals": noisy(LAWS[3])}, {}),
    "mixed laws": ({"signals": ss.Signals(LAWS[2], LAWS[3], LAWS[1])}, {"window": 0.4}),
    "step drift": ({"signals": noisy(LAWS[0], STEP)}, {"window": 0.2}),
    "linear drift": ({"signals": noisy(LAWS[2], LINEAR)}, {"window": 0.2}),
    "units": ({"units": True}, {}),
    "units, beta, drift": ({"units": True, "signals": noisy(LAWS[1], COSTLY)}, {"window": 0.3}),
    "units, sparse, gaussian": (
        {"units": True, "sparse": True, "steps": True, "signals": noisy(LAWS[2]), "alpha": 0.9},
        {"stance": 0.7},
    ),
    "start": ({"start": [0.3, 0.0, 0.6, 0.1]}, {"dual_step": 0.2}),
    "another start": ({"start": 2}, {}),
    "mask": ({"mask": "states"}, {"slack": 0.5, "rho": None}),
    "mild mask": ({"mask": "states", "alpha": 0.2}, {}),
    "mask of steps": ({"mask": "steps", "steps": True, "start": [0.5, 0.5, 0.0, 0.0]}, {}),
    "growing ring": ({}, {"window": 0.9}),
    "short ring": ({}, {"window": 0.01}),
    "bernstein": ({}, {"bonus": "bernstein", "bonus_scale": 0.005}),
    "pooled": ({}, {"estimator": "pooled", "window": 0.5}),
    "known": ({}, {"thresholds": [2.5, 2.6]}),
    "known in units": ({"units": True}, {"thresholds": [2.5, 37.8]}),
    "unclipped": ({}, {"clip_thresholds": False, "threshold_scale": 1.0}),
    "one sided": ({}, {"rho": np.inf, "policy_step": 0.1, "dual_step": 0.1}),
}


@pytest.fixture(params=["dense", "pool"])
def layout(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Either layout of the successor counts, whatever the problem's size."""
    if request.param == "pool":
        monkeypatch.setattr(estimators, "DENSE", 0)
    return str(request.param)


def learned(problem: ss.Problem, learner: ss.Spot) -> bool:
    uniform = problem.cmdp.model.mask.reshape(-1, problem.cmdp.S, problem.cmdp.A)
    even = np.broadcast_to(uniform / uniform.sum(axis=2, keepdims=True), learner.policy.shape)
    return bool(np.abs(learner.policy - even).max() > 0.01)


# --- Bit for bit


@pytest.mark.usefixtures("layout")
@pytest.mark.parametrize("case", CASES)
def test_learning_is_playing_and_observing(case: str, tmp_path: Path) -> None:
    problem = example(**CASES[case][0])
    ours, theirs = (spot(problem, 200, **CASES[case][1]) for _ in range(2))
    trail = by_hand(problem, theirs, 200, seed=5)
    run = ss.learn(problem, ours, seed=5, record="all")
    same(ours, theirs, tmp_path)
    follows(run, trail)
    assert run.policy.tobytes() == theirs.policy.tobytes()
    assert run.learner is ours
    assert run.seed == 5
    # The comparison is of learners that learn.
    assert learned(problem, ours)
    if case != "mild mask":
        assert len(np.unique(run.multipliers)) > 10
    other = spot(problem, 200, **CASES[case][1])
    ss.learn(problem, other, seed=6)
    assert saved(other, tmp_path) != saved(ours, tmp_path)


@pytest.mark.usefixtures("layout")
@pytest.mark.parametrize("gamma", [1.0, 0.3])
def test_anytime_learning_is_the_same_over_the_ends_of_epochs(gamma: float, tmp_path: Path) -> None:
    problem = example()
    ours, theirs = (spot(problem, None, window=gamma) for _ in range(2))
    trail = by_hand(problem, theirs, 3080, seed=1)
    run = ss.learn(problem, ours, 3080, seed=1, record="all")
    same(ours, theirs, tmp_path)
    follows(run, trail)
    # A new epoch begins with an even policy, and that is the one whose values are recorded.
    for first in (1, 1025, 3073):
        assert not run.multipliers[first - 1].any()
        assert run.values[first - 1] == run.values[0]
    assert run.multipliers[1023].any()
    assert run.values[1023] != run.values[0]


@pytest.mark.usefixtures("layout")
def test_an_end_of_an_epoch_at_the_end_of_a_call(tmp_path: Path) -> None:
    problem = example()
    ours, theirs = (spot(problem, None) for _ in range(2))
    by_hand(problem, theirs, 1024, seed=1)
    ss.learn(problem, ours, 1024, seed=1)
    same(ours, theirs, tmp_path)
    assert not ours.multipliers.any()
    assert not learned(problem, ours)


@given(valid(), st.integers(0, 2**32 - 1), st.sampled_from(LAWS), st.sampled_from([1.0, 0.4]))
@settings(max_examples=25)
def test_any_problem_gives_the_bits_of_the_loop_by_hand(
    tmp_path_factory: pytest.TempPathFactory,
    arguments: Arguments,
    seed: int,
    law: Any,
    gamma: float,
) -> None:
    problem = ss.Problem(ss.CMDP(**arguments), noisy(law))
    ours, theirs = (spot(problem, 60, window=gamma) for _ in range(2))
    trail = by_hand(problem, theirs, 60, seed)
    run = ss.learn(problem, ours, seed=seed, record="all")
    same(ours, theirs, tmp_path_factory.mktemp("any"))
    follows(run, trail)


@pytest.mark.usefixtures("layout")
@pytest.mark.parametrize("seconds", [1e-9, 1e9])
@pytest.mark.parametrize("numbers", [1, 100, 2**20])
def test_chunks_do_not_matter(
    seconds: float, numbers: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    problem = example(noisy(LAWS[2], LINEAR), units=False, start=[0.5, 0.5, 0.0, 0.0])
    ours, theirs = (spot(problem, None, window=0.7) for _ in range(2))
    want = ss.learn(problem, theirs, 1100, seed=3)
    sizes: list[int] = []
    chunk = training.Training.chunk

    def counted(loop: training.Training, n: int) -> None:
        sizes.append(n)
        chunk(loop, n)

    monkeypatch.setattr(training, "CHUNK_SECONDS", seconds)
    monkeypatch.setattr(training, "NOISE_NUMBERS", numbers)
    monkeypatch.setattr(training.Training, "chunk", counted)
    got = ss.learn(problem, ours, 1100, seed=3)
    same(ours, theirs, tmp_path)
    for name in ("episodes", "values", "multipliers", "regret", "strong_regret", "violations"):
        assert getattr(got, name).tobytes() == getattr(want, name).tobytes()
    # The chunks were as long as they were meant to be.
    assert sum(sizes) == 1100
    per_episode = 1 + 3 * (3 + 2 * 2)
    assert max(sizes) <= max(1, numbers // per_episode)
    if seconds < 1.0:
        assert set(sizes[1:]) == {1}
    elif numbers == 2**20:
        assert max(sizes) > 400


def test_a_horizon_so_long_that_few_episodes_fit_into_a_chunk(tmp_path: Path) -> None:
    steps = 4000  # 20,001 random numbers an episode
    cmdp = ss.CMDP([[[1.0], [1.0]]], [[1.0, 0.4]], [[[0.0, 1.0]]], [0.5 * steps], horizon=steps)
    problem = ss.Problem(cmdp)
    assert training.NOISE_NUMBERS // (1 + steps * 5) < 16
    ours, theirs = (spot(problem, 20) for _ in range(2))
    by_hand(problem, theirs, 20, seed=2)
    ss.learn(problem, ours, seed=2)
    same(ours, theirs, tmp_path)


# --- Going on


@pytest.mark.usefixtures("layout")
@pytest.mark.parametrize("parts", [(1, 199), (77, 123), (50, 1, 1, 60, 88)], ids=str)
@pytest.mark.parametrize("case", ["plain", "linear drift", "units, beta, drift", "growing ring"])
def test_going_on_is_never_having_stopped(
    case: str, parts: tuple[int, ...], tmp_path: Path
) -> None:
    problem = example(**CASES[case][0])
    learner, reloaded, whole = (spot(problem, 200, **CASES[case][1]) for _ in range(3))
    want = ss.learn(problem, whole, seed=9, record="all")
    values, lam = [], []
    for part in parts:
        run = ss.learn(problem, learner, part, seed=9, record="all")
        values.append(run.values)
        lam.append(run.multipliers)
        ss.learn(problem, reloaded, part, seed=9)
        reloaded.save(tmp_path / "between")
        reloaded = ss.Spot.load(tmp_path / "between")
    same(learner, whole, tmp_path)
    same(reloaded, whole, tmp_path)
    assert np.concatenate(values).tobytes() == want.values.tobytes()
    assert np.concatenate(lam).tobytes() == want.multipliers.tobytes()


def test_going_on_far_into_the_luck(tmp_path: Path) -> None:
    """Luck is skipped in pieces of 4096 episodes; begin just before, at and after the end of one."""
    problem = example(noisy(LAWS[2]))
    whole = spot(problem, None)
    ss.learn(problem, whole, 8300, seed=4)
    learner = spot(problem, None)
    for until in (4095, 4096, 4097, 8192, 8193, 8300):
        ss.learn(problem, learner, until - learner.episode + 1, seed=4)
    same(learner, whole, tmp_path)


GO_ON = """
import sys
import safespot as ss
from tests.trails import example
learner = ss.Spot.load(sys.argv[1])
ss.learn(example(units=True), learner, 700, seed=9)
ss.learn(example(units=True), learner, 200, seed=9)
learner.save(sys.argv[2])
"""


def python(*arguments: str, **environment: str) -> subprocess.Popen[str]:
    """A new Python that finds this package and these tests."""
    path = os.pathsep.join([str(Path(ss.__file__).parents[1]), str(ROOT)])
    return subprocess.Popen(
        [sys.executable, *arguments],
        env={**os.environ, "PYTHONPATH": path, **environment}, cwd=ROOT, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip


def test_going_on_in_another_process(tmp_path: Path) -> None:
    problem = example(units=True)
    learner, whole = (spot(problem, None, window=0.6) for _ in range(2))
    ss.learn(problem, learner, 300, seed=9)
    learner.save(tmp_path / "begun")
    process = python("-c", GO_ON, str(tmp_path / "begun"), str(tmp_path / "ended"))
    _, errors = process.communicate(timeout=300)
    assert process.returncode == 0, errors
    ss.learn(problem, whole, 1200, seed=9)
    same(ss.Spot.load(tmp_path / "ended"), whole, tmp_path)


def test_two_processes_and_threads_of_libraries_do_not_matter() -> None:
    both = [
        python(
            str(ROOT / "tests" / "training_digest.py"), OMP_NUM_THREADS=n, OPENBLAS_NUM_THREADS=n
        )
        for n in ("1", "2")
    ]
    at_once = [process.communicate(timeout=300) for process in both]
    alone = python(str(ROOT / "tests" / "training_digest.py")).communicate(timeout=300)
    assert [process.returncode for process in both] == [0, 0], at_once
    assert len(alone[0].split()) == 4
    assert at_once[0][0] == at_once[1][0] == alone[0]


def test_two_threads_at_once_give_what_one_gives(tmp_path: Path) -> None:
    cases = [example(units=True), example(sparse=True)]
    together, alone = ([spot(problem, None, window=0.5) for problem in cases] for _ in range(2))
    runs: list[ss.Run | None] = [None, None]
    gate = threading.Barrier(2)

    def work(k: int) -> None:
        gate.wait()
        runs[k] = ss.learn(cases[k], together[k], 20_000, seed=k)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for k in range(2):
        want, got = ss.learn(cases[k], alone[k], 20_000, seed=k), runs[k]
        assert got is not None
        same(together[k], alone[k], tmp_path)
        assert got.regret.tobytes() == want.regret.tobytes()
        assert got.violations.tobytes() == want.violations.tobytes()


# --- What is recorded


def log_grid(first: int, last: int) -> list[int]:
    """32 episodes a decade, by hand."""
    points = {round(10 ** (k / 32)) for k in range(32 * 12)}
    return sorted({first, last} | {t for t in points if first <= t <= last})


@pytest.mark.parametrize(
    ("record", "want"),
    [
        ("all", [*range(1, 151)]),
        ("log", log_grid(1, 150)),
        (1, [*range(1, 151)]),
        (40, [1, 40, 80, 120, 150]),
        (50, [1, 50, 100, 150]),
        (150, [1, 150]),
        (10**6, [1, 150]),
        (np.int64(60), [1, 60, 120, 150]),
    ],
    ids=str,
)
@pytest.mark.parametrize("track", ["every", "grid"])
def test_what_is_recorded(record: Any, want: list[int], track: str) -> None:
    problem = example(units=True)
    trail = by_hand(problem, spot(problem, 150), 150, seed=0)
    run = ss.learn(problem, spot(problem, 150), seed=0, record=record, track=track)
    assert run.episodes.tolist() == want
    assert run.track == track
    follows(run, trail)
    m = problem.cmdp.m
    for array in (run.values, run.regret, run.strong_regret, run.violation, run.strong_violation):
        assert array.shape == (len(want),)
    for array in (run.constraint_values, run.violations, run.strong_violations, run.multipliers):
        assert array.shape == (len(want), m)


@pytest.mark.parametrize(
    ("record", "want"),
    [("log", log_grid(71, 150)), ("all", [*range(71, 151)]), (40, [71, 80, 120, 150])],
)
def test_what_is_recorded_when_going_on(record: Any, want: list[int]) -> None:
    problem = example()
    trail = by_hand(problem, spot(problem, 150), 150, seed=0)
    learner = spot(problem, 150)
    ss.learn(problem, learner, 70, seed=0)
    run = ss.learn(problem, learner, seed=0, record=record)
    assert run.episodes.tolist() == want
    follows(run, trail)
    # Sums begin anew with every call.
    gaps = run.optimum - trail.values[70:]
    np.testing.assert_allclose(run.regret, np.cumsum(gaps)[run.episodes - 71], rtol=1e-9, atol=1e-9)


def test_one_episode_is_a_run() -> None:
    problem = example()
    run = ss.learn(problem, spot(problem, 10), 1)
    assert run.episodes.tolist() == [1]
    assert run.learner.episode == 2


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
    except ss.Infeasible:
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
        exact = ss.Drift(drift.thresholds, drift.first, drift.first + 64)
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


def test_costs_and_ranges_scale_the_sums() -> None:
    plain, costs = example(), example(units=True)
    assert costs.cmdp.senses == tuple(SENSES)
    assert costs.cmdp.reward_range == REWARD_RANGE
    assert costs.cmdp.constraint_ranges == tuple(RANGES)
    ours, theirs = (ss.learn(p, spot(p, 150), seed=1, record="all") for p in (costs, plain))
    reward, constraints = SCALES
    np.testing.assert_allclose(ours.policy, theirs.policy, rtol=0, atol=1e-12)
    close(ours.regret, reward * theirs.regret)
    close(ours.strong_regret, reward * theirs.strong_regret)
    close(ours.violations, constraints * theirs.violations)
    close(ours.strong_violations, constraints * theirs.strong_violations)
    close(ours.multipliers, theirs.multipliers * reward / constraints)
    close(ours.optimum, 3 * -2.0 + reward * theirs.optimum)
    lower, upper = ours.threshold_bounds
    assert (lower <= upper).all()
    assert (ours.strong_violations >= ours.violations).all()


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
        exact = ss.Drift(drift.thresholds, drift.first, drift.first + 64)
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
    problem = example(noisy(LAWS[0], ss.Drift([2.9, 2.9], 40, last)))
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
    problem = example(noisy(LAWS[0], ss.Drift([1.5, 1.5], 40)), alpha=0.9)
    run = ss.learn(problem, spot(problem, 80), record="all")
    assert np.isnan(run.regret).all()
    assert np.isfinite(run.violations).all()
    assert run.optimum == pytest.approx(optimum(problem, 80), rel=1e-9)
    late = spot(problem, 80)
    ss.learn(problem, late, 39)
    assert np.isfinite(ss.learn(problem, late).regret).all()


# --- By pencil: a learner whose bonus is huge never leaves the even policy


def still(problem: ss.Problem, **options: Any) -> ss.Run:
    learner = spot(problem, 1000, **{"bonus_scale": 1e9, **options})
    run = ss.learn(problem, learner, record=100)
    assert not learned(problem, learner)
    return run


@pytest.mark.parametrize(
    ("limit", "best"),
    [(0.25, 0.85), (0.5, 0.7), (0.8, 0.52)],  # risky with probability 1 - limit
)
def test_the_bandit_by_pencil(limit: float, best: float) -> None:
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


def test_the_triage_by_pencil() -> None:
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
def test_the_machine_by_pencil(options: Options) -> None:
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


# --- What may be asked for


def test_beyond_the_planned_end_it_warns_and_goes_on(tmp_path: Path) -> None:
    problem = example()
    ours, theirs = (spot(problem, 100) for _ in range(2))
    by_hand(problem, theirs, 130, seed=0)
    with pytest.warns(UserWarning, match=r"120 episodes go beyond the learner's T = 100 \(100 rem"):
        run = ss.learn(problem, ours, 120)
    assert run.episodes[-1] == 120
    with pytest.warns(UserWarning, match=r"T = 100 \(0 remain\)") as caught:
        ss.learn(problem, ours, 10)
    assert caught[0].filename == __file__  # it points at the caller
    same(ours, theirs, tmp_path)


def test_by_default_what_remains_is_played() -> None:
    problem = example()
    learner = spot(problem, 50)
    assert ss.learn(problem, learner, 20).episodes[-1] == 20
    assert ss.learn(problem, learner).episodes[[0, -1]].tolist() == [21, 50]
    with pytest.raises(ss.InvalidOption, match="all of its 50 episodes; say how many more"):
        ss.learn(problem, learner)
    with pytest.raises(ss.InvalidOption, match="say how many episodes"):
        ss.learn(problem, spot(problem, None))


BAD: list[Options] = [
    {"episodes": 0}, {"episodes": -3}, {"episodes": 2.0}, {"episodes": "3"}, {"episodes": True},
    {"record": "some"}, {"record": 0}, {"record": -1}, {"record": 1.5}, {"record": None},
    {"record": True}, {"record": ""},
    {"track": "all"}, {"track": None}, {"track": True}, {"track": 1},
    {"seed": -1}, {"seed": 0.5}, {"seed": None}, {"seed": "a"}, {"seed": True},
]  # fmt: skip


@pytest.mark.parametrize("options", BAD, ids=str)
def test_bad_options_are_refused_and_change_nothing(options: Options, tmp_path: Path) -> None:
    problem = example()
    learner, fresh = (spot(problem, 50) for _ in range(2))
    with pytest.raises(ss.InvalidOption) as raised:
        ss.learn(problem, learner, **options)
    assert next(iter(options)) in str(raised.value)
    same(learner, fresh, tmp_path)


MISFITS: list[tuple[Options, str]] = [
    ({"states": 5}, "S=5"), ({"actions": 2}, "A=2"), ({"horizon": 4}, "H=4"),
    ({"constraints": 1, "senses": ">=", "ranges": None}, "m=1"),
    ({"start": 1}, "start"), ({"senses": ["<=", ">="]}, "senses or ranges"),
    ({"ranges": {"reward": (0, 2), "constraints": (0, 1)}}, "senses or ranges"),
    ({"ranges": {"reward": (0, 1), "constraints": [(0, 1), (0, 2)]}}, "senses or ranges"),
    ({"action_mask": np.ones((4, 3), bool)}, "does not admit"),
]  # fmt: skip


@pytest.mark.parametrize(("changes", "message"), MISFITS, ids=str)
def test_a_learner_that_does_not_fit_is_refused(changes: Options, message: str) -> None:
    problem = example(mask="states")
    mask = problem.cmdp.actions
    assert mask is not None
    assert not mask.all()
    interface = {**problem.interface, **changes}
    if mask.shape != (interface["states"], interface["actions"]):
        interface["action_mask"] = None
    learner = ss.Spot(**interface, episodes=10, rho=1.0)
    with pytest.raises(ss.InvalidOption, match=message):
        ss.learn(problem, learner)
    assert learner.episode == 1


def test_a_fixed_start_does_not_fit_a_distribution_but_learning_it_fits_both() -> None:
    spread = example(start=[0.5, 0.5, 0.0, 0.0])
    with pytest.raises(ss.InvalidOption, match="start"):
        ss.learn(spread, ss.Spot(**{**spread.interface, "start": 0}, episodes=10, rho=1.0))
    fixed = example(start=1)
    learner = ss.Spot(**{**fixed.interface, "start": None}, episodes=10, rho=1.0)
    assert ss.learn(fixed, learner).learner.episode == 11


def test_a_learner_may_restrict_itself_further_than_the_problem(tmp_path: Path) -> None:
    problem = example()
    mask = np.ones((4, 3), bool)
    mask[:, 2] = False
    ours, theirs = (
        ss.Spot(**{**problem.interface, "action_mask": mask}, episodes=100, **OPTIONS)
        for _ in range(2)
    )
    by_hand(problem, theirs, 100, seed=0)
    ss.learn(problem, ours)
    same(ours, theirs, tmp_path)
    assert not ours.policy[..., 2].any()


@pytest.mark.parametrize("swap", ["cmdp", "name", "learner"])
def test_other_things_than_a_problem_and_a_learner_are_refused(swap: str) -> None:
    problem = example()
    learner: Any = spot(problem, 10)
    what: Any = {"cmdp": problem.cmdp, "name": "bandit", "learner": problem}[swap]
    learner = learner if swap != "learner" else "spot"
    with pytest.raises(ss.SafespotError, match="learn"):
        ss.learn(what, learner)


# --- Interrupts and progress


@pytest.fixture(params=["before", "after", "between"])
def interrupted(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    """Ctrl-C in the third chunk: before its compiled episodes, after them, or once all is done."""
    compiled, finished = loops.learn_chunk, training._show
    calls = [0]

    def around(chunk: Callable[..., Any], before: bool) -> Callable[..., Any]:
        def interrupting(*arguments: Any) -> Any:
            calls[0] += 1
            if calls[0] == 3 and before:
                raise KeyboardInterrupt
            result = chunk(*arguments)
            if calls[0] == 3:
                raise KeyboardInterrupt
            return result

        return interrupting

    if request.param == "between":
        monkeypatch.setattr(training, "_show", around(finished, False))
    else:
        monkeypatch.setattr(training, "learn_chunk", around(compiled, request.param == "before"))
    yield calls[0]
    assert calls[0] > 3


@pytest.mark.usefixtures("layout", "interrupted")
def test_an_interrupt_leaves_whole_episodes_and_the_run_so_far(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    problem = example(noisy(LAWS[2], LINEAR))
    theirs = spot(problem, 200)
    trail = by_hand(problem, theirs, 200, seed=4)
    ours = spot(problem, 200)
    with pytest.raises(KeyboardInterrupt) as raised:
        ss.learn(problem, ours, seed=4, record="all", progress=True)
    assert capsys.readouterr().err.endswith("\n")
    run = raised.value.run  # type: ignore[attr-defined]
    played = ours.episode - 1
    assert 0 < played < 200
    assert run.episodes.tolist() == [*range(1, played + 1)]
    assert run.learner is ours
    follows(run, trail)
    before = spot(problem, 200)
    by_hand(problem, before, played, seed=4)
    # Not `same`: room for the episode that was not played may have been made already.
    assert readings(ours) == readings(before)
    assert ours.statistics.n.tobytes() == before.statistics.n.tobytes()
    assert ours.statistics.sums.tobytes() == before.statistics.sums.tobytes()
    ss.learn(problem, ours, seed=4, progress=True)
    same(ours, theirs, tmp_path)


@pytest.mark.parametrize(
    ("module", "where"),
    [(spot_module, name) for name in ("softmax", "refresh_all", "threshold_bounds")]
    + [(learner_module, "radii")],
)
def test_an_interrupt_while_an_epoch_begins(
    module: Any, where: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    problem = example()
    theirs = spot(problem, None)
    ss.learn(problem, theirs, 1200, seed=4)
    ours = spot(problem, None)
    ss.learn(problem, ours, 1000, seed=4)
    original = getattr(module, where)
    calls = [0]

    def interrupting(*arguments: Any, **options: Any) -> Any:
        calls[0] += 1
        if calls[0] == 1:
            raise KeyboardInterrupt
        return original(*arguments, **options)

    with monkeypatch.context() as patched:
        patched.setattr(module, where, interrupting)
        with pytest.raises(KeyboardInterrupt):
            ss.learn(problem, ours, 200, seed=4)
    assert calls[0] > 1
    assert ours.episode == 1025
    ss.learn(problem, ours, 1200 - 1024, seed=4)
    same(ours, theirs, tmp_path)


INTERRUPTED = """
import signal, sys
# Where tests run in the background of a shell, a process is born with SIGINT ignored.
signal.signal(signal.SIGINT, signal.default_int_handler)
import safespot as ss
from tests.trails import example, spot
problem = example(sparse=True)
learner = spot(problem, None, window=0.5)
ss.learn(problem, learner, 100, seed=6)
print("learning", flush=True)
try:
    ss.learn(problem, learner, 10**9, seed=6)
except KeyboardInterrupt as interrupt:
    run = interrupt.run
    assert run.learner is learner
    assert 101 == run.episodes[0] <= run.episodes[-1] < learner.episode
    learner.save(sys.argv[1])
    print(learner.episode)
"""


def test_ctrl_c_in_the_middle_of_compiled_episodes(tmp_path: Path) -> None:
    process = python("-c", INTERRUPTED, str(tmp_path / "stopped"))
    assert process.stdout is not None
    assert process.stdout.readline() == "learning\n"
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(0.5)
    process.send_signal(signal.SIGINT)
    out, errors = process.communicate(timeout=120)
    assert process.returncode == 0, errors
    problem = example(sparse=True)
    whole = spot(problem, None, window=0.5)
    played = int(out) - 1
    assert played >= 100
    ss.learn(problem, whole, played, seed=6)
    stopped = ss.Spot.load(tmp_path / "stopped")
    same(stopped, whole, tmp_path)
    for learner in (stopped, whole):
        ss.learn(problem, learner, 500, seed=6)
    same(stopped, whole, tmp_path)


def test_progress_is_shown_and_changes_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    problem = example()
    quiet, loud = (spot(problem, 1500) for _ in range(2))
    want = ss.learn(problem, quiet)
    assert capsys.readouterr() == ("", "")
    got = ss.learn(problem, loud, progress=True)
    out, err = capsys.readouterr()
    assert out == ""
    lines = err.split("\r")
    assert lines[0] == ""
    done = [int(line.split(" of ")[0].replace(",", "")) for line in lines[1:]]
    assert done[0] == 16
    assert done == sorted(set(done))
    last = r"1,500 of 1,500 episodes, [\d,]+ a second, 0 s left +\n"
    assert re.fullmatch(last, lines[-1])
    same(quiet, loud, tmp_path)
    assert want.regret.tobytes() == got.regret.tobytes()
    assert want.seconds > 0.0


def test_a_run_cannot_be_changed() -> None:
    problem = example()
    run = ss.learn(problem, spot(problem, 20))
    with pytest.raises(AttributeError):
        run.seed = 3  # type: ignore[misc]


# --- Memory


def size(learner: ss.Spot) -> int:
    return sum(array.nbytes for array in state(learner))


def test_a_learner_that_forgets_nothing_does_not_grow() -> None:
    problem = ss.problems.make("bandit")
    learner = spot(problem, None)
    before = size(learner)
    ss.learn(problem, learner, 100_000)
    assert size(learner) == before


def test_a_window_is_as_large_as_what_it_holds() -> None:
    problem = ss.problems.make("bandit")
    learner = spot(problem, None, window=0.5)
    rest = size(learner) - learner.window.pairs.nbytes - learner.window.samples.nbytes
    for until in (100, 128, 129, 5000, 50_000):
        ss.learn(problem, learner, until - learner.episode + 1)
        held = until // 2
        assert learner.window.span[1] == held
        capacity = len(learner.window.pairs)
        assert len(learner.window.samples) == capacity
        assert held <= capacity <= max(64, 2 * (held + 1))
        ring = learner.window.pairs.nbytes + learner.window.samples.nbytes
        assert size(learner) == rest + ring


def test_a_pool_is_as_large_as_what_it_holds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(estimators, "DENSE", 0)
    problem = ss.problems.make("random", states=200, actions=5, horizon=5, successors=12)
    learner = spot(problem, 5000)
    for episodes in (1, 99, 1900, 3000):
        ss.learn(problem, learner, episodes)
        pool = learner.statistics.successors
        observed = int(pool.length.sum())
        assert learner.statistics.n.sum() == 5 * (learner.episode - 1)
        room, met = int(pool.room.sum()), int(learner.statistics.known.sum())
        assert observed <= room <= 2 * observed + estimators.FIRST_ROOM * met
        spare = learner.statistics.n.size  # that an episode may need at worst
        assert len(pool.states) == len(pool.counts) <= estimators.GROWTH * room + spare
    assert observed > 5000
    assert (pool.length > 4 * estimators.FIRST_ROOM).any()  # lists have moved thrice


# --- The active set


@pytest.mark.usefixtures("layout")
@pytest.mark.parametrize("seed", [0, 1])
def test_states_that_rest_at_their_cap_rest_rightly(seed: int) -> None:
    """The reference sweeps over every state in every episode; a learner leaves out what is at its cap."""
    drawn = ss.problems.make(
        "random", states=6, actions=2, horizon=4, constraints=2, successors=2, seed=seed
    ).cmdp
    cmdp = ss.CMDP(
        drawn.transitions, 0.8 + 0.2 * drawn.rewards, 0.8 + 0.2 * drawn.constraints,
        np.full(2, 3.7), start=[0.5, 0.1, 0.1, 0.1, 0.1, 0.1], horizon=4,
    )  # fmt: skip
    problem = ss.Problem(cmdp)
    episodes = by_hand(problem, ACTIVE(problem), 309, seed).episodes
    learner, twin = ACTIVE(problem), ACTIVE(problem, ReferenceSpot)
    capped = []
    for t, e in enumerate(episodes, start=1):
        Q, _ = twin._evaluate()
        cap = (4 - np.arange(4))[:, None, None] * (1 + twin.multipliers.sum())
        capped.append((np.abs(Q - cap) < 1e-12).all(axis=2))
        twin.observe(e.states, e.actions, e.rewards, e.constraints, e.thresholds)
        if t % 3 == 0:
            run = ss.learn(problem, learner, 3, seed=seed, record="all")
            assert np.abs(learner.policy - twin.policy).max() <= 1e-10
            assert np.abs(learner.multipliers - twin.multipliers).max() <= 1e-10
            for ours, theirs in zip(learner.threshold_bounds, twin.threshold_bounds, strict=True):
                assert np.abs(ours - theirs).max() <= 1e-10
            assert run.episodes[-1] == t
    resting = np.array(capped)
    leaves = (resting[:-1] & ~resting[1:]).sum()
    enters = (~resting[:-1] & resting[1:]).sum()
    assert leaves > 20
    assert enters >= 3
    assert 0.02 < resting[20:].mean() < 0.9


def ACTIVE(problem: ss.Problem, kind: Any = ss.Spot) -> Any:  # noqa: N802
    interface = problem.interface
    interface = {k: v for k, v in interface.items() if k not in ("senses", "ranges")}
    return kind(**interface, episodes=400, **{**OPTIONS, "policy_step": 0.05})


# --- Learning


@pytest.mark.slow
@pytest.mark.parametrize("draw", [0, 1, 4])
def test_it_learns_to_keep_an_unknown_limit_and_to_earn_what_that_allows(draw: int) -> None:
    problem = ss.problems.make("random", states=3, actions=2, horizon=3, slack=0.2, seed=draw)
    best, limit = ss.solve(problem.cmdp), float(problem.cmdp.limits[0])
    assert best.multipliers[0] > 0.1  # the limit costs something
    options = {
        "bonus_scale": 0.003,
        "threshold_scale": 0.03,
        "policy_step": 0.01,
        "dual_step": 0.01,
    }
    options["rho"] = ss.slater(problem.cmdp).rho
    T, missed, lost = 100_000, [], []
    for seed in range(5):
        run = ss.learn(problem, spot(problem, T, **options), seed=seed, record=T // 10)
        assert run.episodes[-2] == T - T // 10
        missed.append(np.diff(run.strong_violation)[-1] / (T // 10) / limit)
        lost.append(np.diff(run.regret)[-1] / (T // 10) / best.value)
        # The even policy, with which it begins, is not like that.
        even = (
            (limit - run.constraint_values[0, 0]) / limit,
            (best.value - run.values[0]) / best.value,
        )
        assert max(even) > 0.05
    assert np.mean(missed) < 0.05
    assert abs(np.mean(lost)) < 0.05
