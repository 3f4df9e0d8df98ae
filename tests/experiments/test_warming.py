"""`safespot warm`: everything that compiles is asked for once."""

from __future__ import annotations

import json
from typing import Any

import pytest
from typer.testing import CliRunner

import safespot as ss
from safespot import cli
from safespot.experiments import warming


def test_every_learner_and_the_judges_are_there() -> None:
    assert {*ss.learners.names(), warming.JUDGES} <= set(warming.chores())
    assert len(set(warming.chores())) == len(warming.chores())


def test_the_command_does_all_of_it_in_other_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NUMBA_DISABLE_JIT", "1")  # what is called matters here, not its code
    told = CliRunner().invoke(cli.app, ["warm", "--workers", "1", "--json"], catch_exceptions=False)
    assert told.exit_code == 0
    assert json.loads(told.stdout)["ready"] == warming.chores()
    assert "(1 of " in told.stderr


def test_a_chore_is_the_learner_of_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[str] = []
    make = ss.learners.make

    def noted(name: str, *given: Any, **options: Any) -> Any:
        made.append(name)
        return make(name, *given, **options)

    monkeypatch.setattr(ss.learners, "make", noted)
    for chore in ("uniform", "spot", "spot with totals"):
        warming.compile_for(chore)
    assert made == ["uniform", "spot", "spot"]
    with pytest.raises(ss.errors.UnknownName, match="unknown learner 'nobody'"):
        warming.compile_for("nobody")
