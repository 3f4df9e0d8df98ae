"""`learn` gives the bits of a loop written by hand, and going on is never having stopped."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import safespot as ss
from safespot.training import learn as training
from tests.support.models import Arguments, valid
from tests.support.processes import ROOT, python
from tests.support.trails import (
    by_hand,
    example,
    follows,
    same,
    saved,
    spot,
)
from tests.support.training_cases import CASES, LAWS, LINEAR, learned, noisy

Options = dict[str, Any]
Array = Any


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


@pytest.mark.parametrize(("seconds", "numbers"), [(1e-9, 2**20), (1e9, 1), (1e9, 100)])
def test_chunks_do_not_matter(
    seconds: float, numbers: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    problem = example(noisy(LAWS[2], LINEAR), units=False, start=[0.5, 0.5, 0.0, 0.0])
    ours, theirs = (spot(problem, None, window=0.7) for _ in range(2))
    want = ss.learn(problem, theirs, 1100, seed=3)
    monkeypatch.setattr(training, "CHUNK_SECONDS", seconds)
    monkeypatch.setattr(training, "NOISE_NUMBERS", numbers)
    got = ss.learn(problem, ours, 1100, seed=3)
    same(ours, theirs, tmp_path)
    for name in ("episodes", "values", "multipliers", "regret", "strong_regret", "violations"):
        assert getattr(got, name).tobytes() == getattr(want, name).tobytes()


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


def test_going_on_far_into_the_noise(tmp_path: Path) -> None:
    """Noise is skipped in pieces of 4096 episodes; begin just before, at and after the end of one."""
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
from tests.support.trails import example
learner = ss.Spot.load(sys.argv[1])
ss.learn(example(units=True), learner, 700, seed=9)
ss.learn(example(units=True), learner, 200, seed=9)
learner.save(sys.argv[2])
"""


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
            str(ROOT / "tests" / "support" / "training_digest.py"),
            OMP_NUM_THREADS=n,
            OPENBLAS_NUM_THREADS=n,
        )
        for n in ("1", "2")
    ]
    at_once = [process.communicate(timeout=300) for process in both]
    alone = python(str(ROOT / "tests" / "support" / "training_digest.py")).communicate(timeout=300)
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
