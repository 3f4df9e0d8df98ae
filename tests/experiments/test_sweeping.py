"""A sweep in parts: what is checked and compiled before it, who is at work, and how it ends."""

from __future__ import annotations

import multiprocessing
from pathlib import Path
from typing import Any

import pytest

import safespot as ss
from safespot.experiments import sweep
from tests.support.sweeping import (
    TINY,
    Heard,
    contents,
    fork_workers,
    leftovers,
    sweep_inline,
    tiny,
)


@pytest.fixture
def forks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Workers are forks of this process."""
    fork_workers(monkeypatch)


class Attentive(Heard):
    """Also remembers how the sweep began and that it ended."""

    def __init__(self) -> None:
        super().__init__()
        self.begun: list[tuple[int, int, int]] = []
        self.closed = 0

    def begin(self, runs: int, finished: int, episodes: int) -> None:
        self.begun.append((runs, finished, episodes))

    def close(self) -> None:
        self.closed += 1


@pytest.mark.usefixtures("forks")
@pytest.mark.parametrize("form", ["dict", "spec", "file", "runs"])
def test_a_sweep_does_what_is_not_done_yet(form: str, tmp_path: Path) -> None:
    (tmp_path / "sweep.toml").write_text(
        """
        episodes = 60
        seeds = 2
        problem = { name = "random", options = { states = 3, actions = 2, horizon = 3 } }
        [[learners]]
        name = "spot"
        options = { rho = "slater", bonus_scale = 0.01 }
        grid.stance = [0.0, 0.5]
        """
    )
    runs = tiny()
    given: Any = {
        "dict": TINY,
        "spec": ss.experiments.as_spec(TINY),
        "file": tmp_path / "sweep.toml",
        "runs": [*runs, *runs],  # each is done once
    }[form]
    sweep_inline(tmp_path / "store", runs[:1])
    swept = sweep(given, tmp_path / "store", workers=2, progress=(heard := Attentive()))
    assert swept.finished == tuple(run.id for run in runs)
    assert swept.failed == {}
    assert heard.begun == [(4, 1, 3 * 60)]
    assert sorted(heard.over) == sorted(run.id for run in runs[1:])
    assert heard.closed == 1
    assert leftovers(tmp_path / "store") == []
    assert contents(tmp_path / "store") == contents(sweep_inline(tmp_path / "ref", runs).path)
    assert multiprocessing.active_children() == []
    again = sweep(given, tmp_path / "store", progress=(nothing := Attentive()))
    assert again.finished == swept.finished
    assert (nothing.begun, nothing.closed) == ([], 0)
