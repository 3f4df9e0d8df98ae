"""Every error is one of ours, and the built-in one that a Python programmer expects."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import safespot as ss
from safespot import errors

KINDS: dict[type[Exception], type[Exception]] = {
    ss.errors.InvalidModel: ValueError,
    ss.errors.InvalidOption: ValueError,
    ss.errors.InvalidEpisode: ValueError,
    ss.errors.InvalidFile: ValueError,
    ss.errors.DiskError: OSError,
    ss.errors.InUse: RuntimeError,
    ss.errors.UnknownName: KeyError,
    ss.errors.MissingPackage: ImportError,
    ss.errors.Infeasible: ValueError,
    ss.errors.SolverError: RuntimeError,
    ss.errors.UnsafeBaseline: UserWarning,
}


@pytest.mark.parametrize(("kind", "builtin"), KINDS.items())
def test_an_error_is_ours_and_the_builtin(kind: type[Exception], builtin: type[Exception]) -> None:
    problem = kind("what went wrong")
    assert isinstance(problem, ss.SafespotError)
    assert isinstance(problem, builtin)
    assert str(problem) == "what went wrong"


def test_the_table_above_is_complete() -> None:
    found = inspect.getmembers(errors, inspect.isclass)
    classes = {kind for _, kind in found if kind.__module__ == errors.__name__}
    assert classes == {*KINDS, ss.SafespotError}


def test_an_unknown_name_shows_its_message_as_it_is() -> None:
    # KeyError would show its repr, with quotes.
    assert str(ss.errors.UnknownName("unknown 'x'")) == "unknown 'x'"
    assert str(ss.errors.UnknownName()) == ""


@pytest.mark.parametrize(
    ("name", "names", "message"),
    [
        ("limt", ["limit", "reward"], "unknown key 'limt'; did you mean `limit`? Expected one of: limit, reward."),
        ("LIMIT", ["limit"], "unknown key 'LIMIT'; did you mean `limit`? Expected one of: limit."),
        ("color", ["limit"], "unknown key 'color'. Expected one of: limit."),
        (3, ["limit"], "unknown key 3. Expected one of: limit."),
        ("color", [], "unknown key 'color'. Expected no key."),
    ],
)  # fmt: skip
def test_an_unknown_name_is_answered_with_the_nearest(
    name: Any, names: list[str], message: str
) -> None:
    assert errors.unknown("key", name, names) == message


INTERFACE = {"states": 2, "actions": 2, "horizon": 2, "constraints": 1}


@pytest.mark.parametrize(
    ("misspelled", "near"),
    [
        (lambda: ss.problems.make("dosing", tolerence=3), "tolerance"),
        (lambda: ss.problems.make("inventry"), "inventory"),
        (lambda: ss.learners.make("opt-cdmp", INTERFACE, episodes=9), "opt-cmdp"),
        (lambda: ss.learners.make("spot", INTERFACE, episodes=9, policystep=1.0), "policy_step"),
    ],
)
def test_a_misspelled_name_is_corrected(misspelled: Callable[[], Any], near: str) -> None:
    with pytest.raises(ss.SafespotError, match=f"did you mean `{near}`"):
        misspelled()


def test_infeasible_carries_the_constraint_and_its_best() -> None:
    alone = ss.errors.Infeasible("no", constraint=2, best=0.25)
    assert (alone.constraint, alone.best) == (2, 0.25)
    together = ss.errors.Infeasible("no")
    assert together.constraint is None
    assert together.best is None


def _unsafe_baseline(folder: Path) -> None:
    problem, baseline = ss.problems.make("machine"), [[0, 1], [0, 1]]
    guard = ss.Guard(ss.Uniform(**problem.interface, episodes=300), baseline, 8.0)
    ss.learn(problem, guard)


def _beyond_the_plan_durably(folder: Path) -> None:
    problem, streams = ss.problems.make("machine"), ss.streams(0)
    with ss.open(folder / "it", ss.Uniform(**problem.interface, episodes=1)) as learner:
        for t in (1, 2):
            learner.observe(ss.play(problem, learner.policy, streams, t))


def _log_with_gaps(folder: Path) -> None:
    problem = ss.problems.make("bandit")
    seen: Any = [0, 0], [1], [1], [[1]], [[1]]
    ss.SpotEpochs(**problem.interface, log=[ss.Episode(*seen, rejected=2)])


@pytest.mark.parametrize("act", [_unsafe_baseline, _beyond_the_plan_durably, _log_with_gaps])
def test_a_warning_points_at_the_users_line(act: Callable[[Path], None], tmp_path: Path) -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        act(tmp_path)
    assert caught
    assert {each.filename for each in caught} == {__file__}
