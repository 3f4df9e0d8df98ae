"""The history of a learner in phases says what was played when, and agrees with what it certified."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import pytest

import safespot as ss
from safespot.learners import history


@pytest.fixture(scope="module")
def learner() -> ss.SpotEpochs:
    """One whose limit is easily kept, so that every trial proves it."""
    model = ss.CMDP([[[1.0], [1.0]]], [[0.2, 0.8]], [[[0.9, 0.8]]], [0.4], horizon=4)
    problem = ss.Problem(model)
    made = ss.SpotEpochs(**problem.interface)
    ss.learn(problem, made, episodes=1_000, seed=0)
    return made


def test_parts_follow_each_other_as_the_phases_do(learner: ss.SpotEpochs) -> None:
    parts = learner.history
    assert parts[0][:3] == (1, "first", 1)
    assert parts[1].first <= ss.SpotEpochs.recipe.first_phase + 1
    firsts = [part.first for part in parts]
    assert firsts == sorted(set(firsts))
    assert {part.kind for part in parts} >= {"first", "explore", "try"}
    for before, after in itertools.pairwise(parts):
        # A phase tries after it has explored, and the next phase begins with exploring.
        assert (after.phase, after.kind) in (
            (before.phase, "try"), (before.phase, "retreat"), (before.phase + 1, "explore"),
        )  # fmt: skip
        assert before.decided < after.first


def test_every_certificate_is_a_trial_that_kept(learner: ss.SpotEpochs) -> None:
    kept = [part for part in learner.history if part.verdict == "kept"]
    assert [part.decided for part in kept] == [c.episode for c in learner.certificates]
    assert kept
    for part in kept:
        assert part.decided >= part.first


def test_it_survives_a_file_and_goes_on_alike(learner: ss.SpotEpochs, tmp_path: Path) -> None:
    learner.save(tmp_path / "learner.safetensors")
    again = ss.SpotEpochs.load(tmp_path / "learner.safetensors")
    assert again.history == learner.history


@pytest.mark.parametrize(
    "wrong",
    [
        np.empty((0, 5), np.int64),
        np.zeros((1, 4), np.int64),
        np.zeros((1, 5)),
        np.array([[1, 9, 1, 0, 0]]),
        np.array([[1, 0, 1, 7, 0]]),
        np.array([[1, 0, 5, 0, 0], [2, 1, 5, 0, 0]]),
    ],
)
def test_a_damaged_history_is_noticed(wrong: np.ndarray) -> None:
    with pytest.raises(ss.errors.InvalidFile, match="history"):
        history.from_array(wrong)
