"""Whole runs: the core's loop against Numba's, at every level of vector instructions."""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np
import pytest

import safespot as ss
from safespot import _core
from safespot.spot import visits
from safespot.training.learn import Training
from safespot.training.learning import carry_on
from tests.core.support import CoreTraining
from tests.support.digest import state
from tests.support.trails import example, spot
from tests.support.training_cases import CASES

BETA = (
    "beta",
    "mixed laws",
    "units, beta, drift",
)  # whose quantiles have a logarithm of Gamma of their own
RESULTS = (
    "values", "constraint_values", "multipliers", "thresholds", "regret", "strong_regret", "violations",
    "strong_violations",
)  # fmt: skip


def run(kind: type[Training], name: str, level: str = "", track: str = "every") -> ss.Run:
    options, learners = CASES[name]
    problem = example(**options)
    training = kind(problem, spot(problem, 300, **learners), 300, 3, "log", track, keep_sums=True)
    training.level = level  # type: ignore[attr-defined]
    return carry_on(lambda: training, False)


def digest(run: ss.Run) -> str:
    numbers = hashlib.blake2b(digest_size=16)
    evidence = run.evidence
    assert evidence is not None
    assert run.sums is not None
    for array in (
        *(getattr(run, name) for name in RESULTS), *run.threshold_bounds, *state(run.learner)[:-1],
        *evidence.violation_bounds, *evidence.reward_bounds, *run.sums,
    ):  # fmt: skip
        numbers.update(array.tobytes())
    return numbers.hexdigest()


@pytest.mark.parametrize("dense", [2**22, 0])
@pytest.mark.parametrize("name", CASES)
def test_runs_are_those_of_the_loop_that_it_replaces(
    name: str, dense: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same bits, but for evidence (logarithms of the C library, not NumPy's) and beta signals: to 1e-12."""
    monkeypatch.setattr(visits, "DENSE", dense)
    old, new = run(Training, name), run(CoreTraining, name)
    assert old.evidence is not None
    assert new.evidence is not None
    for field in RESULTS:
        expected, actual = getattr(old, field), getattr(new, field)
        if name in BETA:
            np.testing.assert_allclose(actual, expected, rtol=1e-12, atol=1e-11)
        else:
            np.testing.assert_array_equal(actual, expected)
    for one, other in zip(state(old.learner), state(new.learner), strict=True):
        if name in BETA:
            np.testing.assert_allclose(other, one, rtol=1e-12, atol=1e-12)
        else:
            np.testing.assert_array_equal(other, one)
    for field in ("violation_bounds", "reward_bounds"):
        expected, actual = (np.array(getattr(r.evidence, field)) for r in (old, new))
        np.testing.assert_allclose(actual, expected, rtol=1e-12, atol=1e-11)
    assert old.sums is not None
    assert new.sums is not None
    np.testing.assert_allclose(
        new.sums.totals, old.sums.totals, atol=1e-12 if name in BETA else 0.0
    )
    np.testing.assert_array_equal(new.sums.moved, old.sums.moved)


@pytest.mark.parametrize("dense", [2**22, 0])
@pytest.mark.parametrize(
    "name", ["plain", "units, beta, drift", "bernstein", "sparse steps", "start"]
)
def test_all_levels_have_the_same_bits(
    name: str, dense: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(visits, "DENSE", dense)
    assert len({digest(run(CoreTraining, name, level)) for level in _core.levels}) == 1


@pytest.mark.parametrize(("states", "actions"), [(17, 2), (12, 5), (9, 11)])
def test_all_levels_have_the_same_bits_in_larger_problems(states: int, actions: int) -> None:
    problem = ss.problems.make("random", states=states, actions=actions, horizon=5, constraints=2)

    def play(level: str) -> str:
        training = CoreTraining(problem, spot(problem, 400), 400, 1, "log", "every", keep_sums=True)
        training.level = level
        return digest(carry_on(lambda: training, False))

    assert len({play(level) for level in _core.levels}) == 1


def test_values_are_taken_on_the_grid_alone_where_asked() -> None:
    old, new = (run(kind, "plain", track="grid") for kind in (Training, CoreTraining))
    np.testing.assert_array_equal(new.regret, old.regret)
    np.testing.assert_array_equal(new.values, old.values)


def test_an_episode_outside_what_was_declared_is_not_learned() -> None:
    problem = example()
    options: Any = {"estimator": "representative", "constraint_totals": [(0.0, 1.0), (0.0, 1.0)]}
    for kind in (Training, CoreTraining):
        learner = spot(problem, 300, **options)
        training = kind(problem, learner, 300, 3, "log", "every")
        with pytest.raises(ss.errors.InvalidEpisode, match="constraint_totals"):
            carry_on(lambda training=training: training, False)  # type: ignore[misc]
        assert learner.episode == learner.statistics.starts.sum() + 1
