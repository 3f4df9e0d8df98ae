"""Checkpoints as files: two generations, of one run and of these versions; and what a worker does when stopped."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import safespot as ss
from safespot import files
from safespot.experiments import checkpoints, worker
from safespot.experiments.checkpoints import KIND, Checkpoint, versions
from safespot.experiments.settings import read_setting
from safespot.experiments.store import FinishedRun
from tests.support.sweeping import tiny


def arrays(value: float) -> dict[str, Any]:
    return {"x": np.full(3, value)}


def found(folder: Path, run: str = "a") -> tuple[list[tuple[float, int]], list[str]]:
    """(content, episodes) of what can be resumed, and what is said of the rest."""
    notes: list[str] = []
    read = Checkpoint(folder, run).found(notes)
    return [(float(content["x"][0]), finished) for content, finished in read], notes


def test_two_generations_are_kept_and_the_furthest_is_first(tmp_path: Path) -> None:
    checkpoint = Checkpoint(tmp_path, "a")
    for finished in (10, 20, 30):
        checkpoint.save(arrays(finished / 10), finished)
    assert found(tmp_path) == ([(3.0, 30), (2.0, 20)], [])
    again = Checkpoint(tmp_path, "a")
    next(again.found([]))  # whoever goes on from it
    again.save(arrays(4.0), 40)  # writes over the older one
    assert found(tmp_path) == ([(4.0, 40), (3.0, 30)], [])
    again.drop()
    assert list(tmp_path.iterdir()) == []


def test_another_runs_and_other_versions_are_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Checkpoint(tmp_path, "a").save(arrays(1.0), 10)
    (tmp_path / "b.0.safetensors").write_bytes((tmp_path / "a.0.safetensors").read_bytes())
    usable, notes = found(tmp_path, "b")
    assert usable == []
    assert "b.0.safetensors is of run a" in notes[0]
    about = {"run": "c", "versions": versions()}
    files.write_arrays(tmp_path / "c.0.safetensors", KIND, arrays(1.0), about)
    usable, notes = found(tmp_path, "c")
    assert usable == []
    assert "does not say how many episodes" in notes[0]
    other = {**versions(), "numpy": "0.1"}
    monkeypatch.setattr(checkpoints, "versions", lambda: other)
    usable, notes = found(tmp_path)
    assert (usable, len(notes)) == ([], 1)


def test_a_worker_that_is_stopped_does_no_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker, "REPORT_SECONDS", 0.0)
    runs, told = tiny()[:2], []

    def stop(run: str, episodes: int) -> bool:
        told.append(run)
        return False

    assert worker.work(runs, None, stop) == []
    assert told == [runs[0].id]
    for folder in ("claims", "checkpoints"):
        (tmp_path / folder).mkdir()
    assert worker.work(runs, tmp_path, stop) == []
    assert list((tmp_path / "checkpoints").iterdir()) == []  # nobody has claimed it there
    (tmp_path / "claims" / runs[0].id).touch()
    assert worker.work(runs, tmp_path, stop) == []
    (left,) = (tmp_path / "checkpoints").iterdir()
    assert left.name == f"{runs[0].id}.0.safetensors"


def test_checkpoints_are_written_now_and_then(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker, "REPORT_SECONDS", 0.0)
    (run, *_) = tiny()
    for folder in ("claims", "checkpoints"):
        (tmp_path / folder).mkdir()
    (tmp_path / "claims" / run.id).touch()
    worker.work([run], tmp_path, lambda *_: True)
    assert list((tmp_path / "checkpoints").iterdir()) == []  # it took no 20 seconds
    monkeypatch.setattr(worker, "CHECKPOINT_SECONDS", 0.0)
    worker.work([run], tmp_path, lambda *_: True)
    assert list((tmp_path / "checkpoints").iterdir()) != []
    (again,) = worker.work([run], tmp_path, lambda *_: True)
    assert isinstance(again, FinishedRun)
    assert 0 < again.provenance["resumed_after"] <= run.episodes


def test_what_a_learner_in_phases_says_of_itself() -> None:
    """What it played until the last episode, and what it proposes; nothing is certified so soon."""
    (run,) = tiny(seeds=1, learners=[{"name": "spot-epochs"}])
    (made,) = worker.work([run], None, lambda *_: True)
    assert isinstance(made, FinishedRun)
    epochs = made.facts["epochs"]
    assert epochs[0]["first"] == 1
    assert epochs[-1]["last"] == run.episodes
    assert [part["first"] for part in epochs[1:]] == [part["last"] + 1 for part in epochs[:-1]]
    cmdp = read_setting(run.setting).problem.cmdp
    assert made.facts["proposal"]["value"] == ss.evaluate(cmdp, made.policies["proposal"]).value
    assert (made.facts["certified"], made.facts["certificates"]) == (None, [])
    assert set(made.policies) == {"policy", "proposal"}
