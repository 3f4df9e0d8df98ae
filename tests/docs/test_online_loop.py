"""The example of a loop of one's own: it goes on where it stopped, and both worlds are one."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

import pytest

import safespot as ss
from tests.reliability.survival import digest

EXAMPLE = Path(__file__).parents[2] / "examples" / "online_loop.py"


def run(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> None:
    monkeypatch.setattr(sys, "argv", ["online_loop.py", *arguments])
    runpy.run_path(str(EXAMPLE), run_name="__main__")


def test_the_example_goes_on_where_it_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    once, twice = tmp_path / "once", tmp_path / "twice"
    run(monkeypatch, "--folder", str(once), "--patients", "30", "--gymnasium")
    for _ in range(2):
        run(monkeypatch, "--folder", str(twice), "--patients", "15")
    assert "15 patients are on the disk." in capsys.readouterr().out
    with ss.open(once) as one, ss.open(twice) as two:
        assert one.episode == two.episode == 31
        assert digest(one.learner) == digest(two.learner)
