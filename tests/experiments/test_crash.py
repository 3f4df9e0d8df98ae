"""A store survives being killed and losing its power at any moment; and these tests can see one that does not."""

from __future__ import annotations

import itertools
import os
import random
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from safespot import files
from safespot.experiments import Store
from safespot.experiments import worker as work
from safespot.experiments.checkpoints import Checkpoint
from safespot.experiments.progress import Progress
from safespot.training import learn as training
from tests.reliability.disks import Killing, Log, Power, images, killed
from tests.support.sweeping import TINY, Heard, abouts, contents, leftovers, sweep_inline, tiny

ROOT = Path(__file__).parents[2]


@pytest.fixture
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    """A checkpoint after every chunk, and chunks of at most 16 episodes."""
    monkeypatch.setattr(work, "CHECKPOINT_SECONDS", 0.0)
    monkeypatch.setattr(work, "REPORT_SECONDS", 0.0)
    monkeypatch.setattr(training, "NOISE_NUMBERS", 16 * (1 + 3 * 5))


@pytest.fixture
def whole(tmp_path: Path) -> Path:
    """A store whose sweep was never interrupted."""
    sweep_inline(tmp_path / "whole", tiny())
    return tmp_path / "whole"


# --- Power loss


class Noting(Progress):
    """Notes in the log when the sweep says that a run is finished."""

    def __init__(self, log: Log) -> None:
        self.log = log

    def ended(self, run: str, total: int) -> None:
        self.log.append(("finished", run))


def damage(log: Log, results: dict[str, bytes]) -> str | None:
    """What a power failure can spoil, at some moment; None: nothing."""
    written = {entry[3] for entry in log if entry[0] == "put"}
    seen = 0
    for moment, image in images(log, random.Random(0)):
        seen += 1
        finished = [entry[1] for entry in log[:moment] if entry[0] == "finished"]
        there = {path.name: data for path, data in image.files.items()}
        for name, data in there.items():
            if name.endswith(".parquet") and data != results[name]:
                return f"moment {moment}: {name} is not whole"
            if name.endswith(".parquet") and name.replace(".parquet", ".json") not in there:
                return f"moment {moment}: nothing says what {name} is"
            if not name.endswith(".tmp") and data not in written:
                return f"moment {moment}: {name} is torn"
        for run in finished:
            if f"{run}.parquet" not in there:
                return f"moment {moment}: {run} was finished and is gone"
    assert seen > 1000
    return None


@pytest.mark.usefixtures("hasty")
def test_power_may_fail_at_any_moment(
    whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    power = Power()
    monkeypatch.setattr(files, "disk", power)
    store = sweep_inline(tmp_path / "store", tiny(), Noting(power.log))
    assert contents(store.path) == contents(whole)
    assert sum(entry[0] == "create" and ".safetensors" in entry[1].name for entry in power.log) > 8
    assert damage(power.log, contents(whole)) is None


# --- kill -9


def is_whole(store: Path, whole: Path) -> bool:
    """Whether all that a killed sweep left is right: finished runs byte for byte."""
    results = contents(whole)
    return all(data == results[name] for name, data in contents(store).items())


@pytest.mark.usefixtures("hasty")
def test_a_kill_at_each_write_sync_and_rename(whole: Path, tmp_path: Path) -> None:
    runs = tiny(seeds=1)[:1]
    want = {name: data for name, data in contents(whole).items() if name.startswith(runs[0].id)}
    assert len(want) == 1
    points = 0
    for number in itertools.count(1, 2):
        store = tmp_path / f"store{number}"
        Store.create(store)

        def sweep(store: Path = store, number: int = number) -> None:
            files.disk = Killing(number)
            sweep_inline(store, runs)

        died = killed(sweep)
        assert is_whole(store, whole), number
        points += died
        notes = Heard()
        sweep_inline(store, runs, notes)
        assert notes.notes == []  # no checkpoint was damaged
        assert contents(store) == want, number
        assert {name: abouts(whole)[name] for name in abouts(store)} == abouts(store)
        assert leftovers(store) == []
        if not died:
            break
    assert points > 15


@pytest.mark.usefixtures("hasty")
def test_random_kills_lose_nothing(whole: Path, tmp_path: Path) -> None:
    began = time.monotonic()
    assert not killed(lambda: sweep_inline(tmp_path / "timed", tiny()))
    took = time.monotonic() - began
    rng, kills = random.Random(1), 0
    for attempt in range(3):
        store, finished = tmp_path / f"store{attempt}", set[str]()
        Store.create(store)
        for _ in range(3):
            kills += killed(lambda: sweep_inline(store, tiny()), after=rng.uniform(0.0, took))  # noqa: B023
            assert is_whole(store, whole)
            assert finished <= contents(store).keys()
            finished = set(contents(store))
        sweep_inline(store, tiny())
        assert contents(store) == contents(whole)
    assert kills > 0


SWEEP = """
import sys
from safespot.experiments import sweep
from safespot.experiments import worker as work
work.CHECKPOINT_SECONDS = work.REPORT_SECONDS = 0.05  # workers import this file too
SPEC = {spec!r}
if __name__ == "__main__":
    sweep(SPEC, sys.argv[1], workers=2, progress=False)
"""


@pytest.fixture
def script(tmp_path: Path) -> Callable[[dict[str, Any], Path], subprocess.Popen[bytes]]:
    """Start a sweep of its own."""

    def start(spec: dict[str, Any], store: Path) -> subprocess.Popen[bytes]:
        path = tmp_path / "script.py"
        path.write_text(SWEEP.format(spec=spec))
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)])}
        return subprocess.Popen(
            [sys.executable, path, store], env=environment, stderr=subprocess.PIPE
        )

    return start


def workers_of(process: int) -> list[int]:
    """The processes whose parent it is."""
    children = Path(f"/proc/{process}/task/{process}/children")
    return [int(number) for number in children.read_text().split()]


def alive(process: int) -> bool:
    status = Path(f"/proc/{process}/stat")
    return status.exists() and status.read_text().rsplit(")", 1)[1].split()[0] != "Z"


LONG = {**TINY, "episodes": 400_000, "seeds": 1}


def test_a_killed_sweep_takes_its_workers_along_and_goes_on(
    script: Callable[..., subprocess.Popen[bytes]], tmp_path: Path
) -> None:
    store = tmp_path / "store"
    process = script(LONG, store)
    folder = store / "checkpoints"
    deadline = time.monotonic() + 120
    while not (folder.exists() and len(list(folder.glob("*.safetensors"))) >= 2):
        assert time.monotonic() < deadline
        assert process.poll() is None, process.stderr and process.stderr.read()
        time.sleep(0.01)
    workers = workers_of(process.pid)
    assert len(workers) >= 2
    process.kill()
    process.communicate()
    deadline = time.monotonic() + 20
    while any(map(alive, workers)):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    left = list(folder.glob("*.safetensors"))
    assert left
    runs = tiny(episodes=400_000, seeds=1)
    sweep_inline(store, runs)
    resumed = [Store(store).about(run.id)["provenance"]["resumed_after"] for run in runs]
    assert max(resumed) > 0
    sweep_inline(tmp_path / "whole", runs)
    assert contents(store) == contents(tmp_path / "whole")
    assert leftovers(store) == []


# --- Damaged checkpoints


def checkpointed(tmp_path: Path) -> tuple[Store, Any, list[Path]]:
    """A run that was stopped after its second checkpoint."""
    store, (run, *_) = Store.create(tmp_path / "store"), tiny()
    (store.claims / run.id).touch()
    heard: list[int] = []

    def report(_: str, episodes: int) -> bool:
        heard.append(episodes)
        return len(heard) < 3

    with pytest.raises(work.Stopped):
        work.perform(run, store.path, report)
    (store.claims / run.id).unlink()
    paths = Checkpoint(store.checkpoints, run.id).paths
    assert all(path.exists() for path in paths)
    return store, run, paths


@pytest.mark.usefixtures("hasty")
@pytest.mark.parametrize("how", ["truncated", "flipped", "empty", "another's"])
@pytest.mark.parametrize("both", [False, True])
def test_a_damaged_checkpoint_is_reported_and_the_one_before_is_used(
    how: str, both: bool, whole: Path, tmp_path: Path
) -> None:
    store, run, paths = checkpointed(tmp_path)
    # Three checkpoints: the third lies in the file of the first.
    newest = paths[0]
    for path in paths if both else [newest]:
        data = bytearray(path.read_bytes())
        if how == "flipped":
            data[len(data) // 2] ^= 1
        elif how == "another's":
            arrays, about = files.read_arrays(path, "checkpoint")
            files.write_arrays(path, "checkpoint", arrays, {**about, "versions": {}})
            continue
        path.write_bytes(data[: {"truncated": len(data) - 9, "empty": 0}.get(how, len(data))])
    notes = Heard()
    sweep_inline(store.path, [run], notes)
    assert len(notes.notes) == (2 if both else 1)
    assert newest.name in notes.notes[0]
    resumed = store.about(run.id)["provenance"]["resumed_after"]
    assert resumed == (0 if both else 32)
    assert contents(store.path)[f"{run.id}.parquet"] == contents(whole)[f"{run.id}.parquet"]
    assert leftovers(store.path) == []


@pytest.mark.usefixtures("hasty")
def test_a_checkpoint_that_contradicts_itself_is_not_used(whole: Path, tmp_path: Path) -> None:
    store, run, (newest, _) = checkpointed(tmp_path)
    arrays, about = files.read_arrays(newest, "checkpoint")
    files.write_arrays(
        newest, "checkpoint", {**arrays, "learner.lam": arrays["learner.lam"] - 9}, about
    )
    notes = Heard()
    sweep_inline(store.path, [run], notes)
    assert "cannot be resumed" in notes.notes[0]
    assert contents(store.path)[f"{run.id}.parquet"] == contents(whole)[f"{run.id}.parquet"]
