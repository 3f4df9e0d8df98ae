"""Files and folders of an earlier version: each is refused as that, and nothing of them is read or written.

Those in `earlier` were made by the code before the formats of this one. A model's file has kept its format.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import safespot as ss
from safespot import files
from safespot.experiments.checkpoints import Checkpoint

EARLIER = Path(__file__).parent / "earlier"
STUDY = {
    "episodes": 5,
    "seeds": 1,
    "problem": {"name": "bandit"},
    "learners": [{"name": "uniform"}],
}


def uniform() -> ss.Uniform:
    return ss.Uniform(**ss.problems.make("bandit").interface, episodes=20)


READERS: dict[str, Callable[[Path], Any]] = {
    "learner.safetensors": ss.learners.load,
    "meter.safetensors": ss.SafetyMeter.load,
    "run.safetensors": ss.Run.load,
    "durable": ss.open,
    "store": ss.experiments.Store,
}
WRITERS: dict[str, Callable[[Path], Any]] = {
    "durable": lambda path: ss.open(path, uniform()),
    "store": lambda path: ss.experiments.sweep(STUDY, path, workers=1, progress=False),
}


def export(path: Path) -> int:
    return ss.logs.export_episodes(path, path / "x.csv")


def content(path: Path) -> dict[str, bytes]:
    paths = sorted(path.rglob("*")) if path.is_dir() else [path]
    return {each.name: each.read_bytes() for each in paths if each.is_file()}


@pytest.mark.parametrize(
    ("name", "use"), [*READERS.items(), *WRITERS.items(), ("durable", export)]
)  # fmt: skip
def test_it_is_refused_and_left_as_it_is(
    name: str, use: Callable[[Path], Any], tmp_path: Path
) -> None:
    copy = tmp_path / name
    (shutil.copytree if (EARLIER / name).is_dir() else shutil.copy)(EARLIER / name, copy)
    before = content(tmp_path)
    with pytest.raises(ss.errors.InvalidFile) as refused:
        use(copy)
    assert "an earlier version" in str(refused.value)
    assert f"this is safespot {ss.__version__}" in str(refused.value)
    assert content(tmp_path) == before


def test_a_models_file_is_read_as_before() -> None:
    assert ss.CMDP.load(EARLIER / "model.safetensors") == ss.problems.make("bandit").cmdp


def test_a_checkpoint_is_not_resumed(tmp_path: Path) -> None:
    shutil.copy(EARLIER / "checkpoint.safetensors", tmp_path / "run.0.safetensors")
    notes: list[str] = []
    assert not list(Checkpoint(tmp_path, "run").found(notes))
    assert "an earlier version" in notes[0]


def test_the_version_that_wrote_a_file_is_named(tmp_path: Path, monkeypatch: Any) -> None:
    with monkeypatch.context() as later:
        later.setitem(files.FORMATS, "learner", 99)
        later.setattr("safespot.files.__version__", "7.8.9")
        uniform().save(tmp_path / "learner")
    with pytest.raises(ss.errors.InvalidFile, match=r"safespot 7\.8\.9 in format 99.*Upgrade"):
        ss.learners.load(tmp_path / "learner")
