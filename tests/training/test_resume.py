"""A run that is kept between two chunks and gone on with elsewhere is the run that was never stopped."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import safespot as ss
from safespot.files import read_arrays, write_arrays
from safespot.training import learn as training
from tests.support.trails import example, same, spot
from tests.support.training_cases import CASES

ARRAYS = (
    "episodes", "values", "constraint_values", "multipliers", "thresholds", "regret", "strong_regret",
    "violations", "strong_violations", "policy",
)  # fmt: skip


def through_a_file(made: training.Training, path: Path) -> dict[str, Any]:
    write_arrays(path, "checkpoint", made.arrays(), {})
    return read_arrays(path, "checkpoint")[0]


TRACKED = [
    ("plain", "grid"),
    ("units, beta, drift", "grid"),
    *((case, "every") for case in (*CASES, "anytime")),
]


@pytest.mark.parametrize(("case", "track"), TRACKED)
def test_going_on_from_arrays_is_never_having_stopped(
    case: str, track: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(training, "NOISE_NUMBERS", 37 * (1 + 3 * 7))
    options, episodes = CASES.get(case, ({}, {"window": 0.5})), 200 if case in CASES else 1100
    problem = example(**options[0])

    def make() -> training.Training:
        learner = spot(problem, episodes if case in CASES else None, **options[1])
        return training.Training(problem, learner, episodes, 5, "log", track)

    whole = make()
    while whole.remaining:
        whole.advance()
    stopped, stops = make(), 0
    while stopped.remaining:
        stopped.advance()
        arrays = through_a_file(stopped, tmp_path / "checkpoint")
        stopped, stops = make(), stops + 1
        stopped.restore(arrays)
    assert stops > 5
    same(stopped.learner, whole.learner, tmp_path)
    got, want = stopped.result(), whole.result()
    for name in ARRAYS:
        assert getattr(got, name).tobytes() == getattr(want, name).tobytes(), name
    for a, b in zip(got.evidence.violation_bounds, want.evidence.violation_bounds, strict=True):
        assert a.tobytes() == b.tobytes()
    assert got.seconds > 0.0


def test_advancing_goes_no_further_than_asked() -> None:
    problem = example()
    made = training.Training(problem, spot(problem, 100), seed=1)
    assert made.advance(3) == 3
    assert made.remaining == 97
    while made.remaining:
        made.advance()
    assert made.advance() == 0


def test_arrays_of_a_learner_with_another_mask_are_refused() -> None:
    problem = ss.problems.make("machine")

    def begin() -> training.Training:
        learner = ss.Spot(**problem.interface, episodes=100, slack=0.5)
        return training.Training(problem, learner, seed=0)

    first = begin()
    first.advance(10)
    arrays = first.arrays()
    begin().restore(arrays)
    arrays["learner.mask"] = arrays["learner.mask"].copy()
    arrays["learner.mask"][0, 0, 0] ^= True
    with pytest.raises(ss.errors.InvalidFile, match="other actions are admissible"):
        begin().restore(arrays)


@pytest.mark.parametrize(
    ("name", "wrong"),
    [("product", 0.0), ("product", -1.0), ("counted", np.inf), ("counted", 1.5), ("total", 1e9)],
)
def test_a_meter_that_contradicts_itself_is_refused(name: str, wrong: float) -> None:
    problem = example()

    def begin() -> training.Training:
        return training.Training(problem, spot(problem, 100), seed=1)

    made = begin()
    made.advance(20)
    arrays = {key: array.copy() for key, array in made.arrays().items()}
    begin().restore(arrays)
    arrays[f"meter.means.{name}"][...] = wrong
    with pytest.raises(ss.errors.InvalidFile):
        begin().restore(arrays)
