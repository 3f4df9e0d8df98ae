"""The scripts of examples/ run, in seconds."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

import pytest

SCRIPTS = sorted((Path(__file__).parents[2] / "examples").glob("*.py"))
# What makes a script short that is long by default.
FEWER = {"dosing.py": ["--episodes", "300", "--seeds", "2", "--figure", "dosing.svg"]}


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.name)
def test_the_script_runs(
    script: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)  # what a script writes goes there
    monkeypatch.setattr(sys, "argv", [str(script), *FEWER.get(script.name, [])])
    runpy.run_path(str(script), run_name="__main__")
    assert capsys.readouterr().out, "a script shows something"
