"""Every error is one of ours, and the built-in one that a Python programmer expects."""

from __future__ import annotations

import inspect

import pytest

import safespot as ss
from safespot import errors

KINDS: dict[type[Exception], type[Exception]] = {
    ss.InvalidModel: ValueError,
    ss.InvalidOption: ValueError,
    ss.InvalidEpisode: ValueError,
    ss.InvalidFile: ValueError,
    ss.DiskError: OSError,
    ss.InUse: RuntimeError,
    ss.UnknownName: KeyError,
    ss.MissingPackage: ImportError,
    ss.Infeasible: ValueError,
    ss.SolverError: RuntimeError,
}


@pytest.mark.parametrize(("kind", "builtin"), KINDS.items())
def test_an_error_is_ours_and_the_builtin(kind: type[Exception], builtin: type[Exception]) -> None:
    problem = kind("what went wrong")
    assert isinstance(problem, ss.SafespotError)
    assert isinstance(problem, builtin)
    assert str(problem) == "what went wrong"


def test_the_table_above_is_complete() -> None:
    classes = {kind for _, kind in inspect.getmembers(errors, inspect.isclass)}
    assert classes == {*KINDS, ss.SafespotError}


def test_an_unknown_name_shows_its_message_as_it_is() -> None:
    # KeyError would show its repr, with quotes.
    assert str(ss.UnknownName("there is no 'x'")) == "there is no 'x'"
    assert str(ss.UnknownName()) == ""


def test_infeasible_carries_the_constraint_and_its_best() -> None:
    alone = ss.Infeasible("no", constraint=2, best=0.25)
    assert (alone.constraint, alone.best) == (2, 0.25)
    together = ss.Infeasible("no")
    assert together.constraint is None
    assert together.best is None
