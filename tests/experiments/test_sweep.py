"""Sweeps on both engines give the same bits, share a store, and outlive their workers."""

from __future__ import annotations

import errno
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import safespot as ss
from safespot import files
from safespot.experiments import Store, sweep
from safespot.experiments import worker as work
from safespot.experiments.progress import Progress
from safespot.experiments.sweeping import _Sweeping
from tests.support.sweeping import TINY, Heard, Inline, contents, leftovers, sweep_inline, tiny

ROOT = Path(__file__).parents[2]

# Long enough that workers tell of them, and different enough to matter.
LONG: dict[str, Any] = {
    **TINY,
    "episodes": 1_500_000,
    "learners": [
        {"name": "spot", "options": {"rho": "slater", "bonus_scale": 0.01, "window": 0.5}},
        {"name": "spot", "options": {"rho": "slater", "bonus_scale": 0.01, "thresholds": "known"}},
    ],
}


@pytest.fixture(scope="module")
def want(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """The results of LONG, done in this process."""
    store = tmp_path_factory.mktemp("want") / "store"
    sweep_inline(store, tiny(**LONG))
    return contents(store)


def children() -> list[int]:
    me = os.getpid()
    found = []
    for task in Path(f"/proc/{me}/task").iterdir():
        found += [int(n) for n in (task / "children").read_text().split()]
    return found


def kill_a_worker() -> None:
    """Kill a process of ours that learns."""
    for child in children():
        if b"spawn_main" in Path(f"/proc/{child}/cmdline").read_bytes():
            os.kill(child, signal.SIGKILL)
            return
    raise AssertionError("no worker")


def test_one_process_gives_the_same_bits(want: dict[str, bytes], tmp_path: Path) -> None:
    heard = Heard()
    swept = sweep(LONG, tmp_path / "store", workers=1, progress=heard)
    assert swept.failed == {}
    assert contents(tmp_path / "store") == want
    assert leftovers(tmp_path / "store") == []
    assert sorted(heard.over) == sorted(swept.finished) == sorted(name[:-8] for name in want)
    assert {run for run, _ in heard.reports} == set(swept.finished)
    assert swept.store.finished() == set(swept.finished)
    # Everything is there: nothing is begun, not even a process.
    again = sweep(LONG, tmp_path / "store", progress=(heard := Heard()))
    assert again.finished == swept.finished
    assert not heard.reports
    assert not heard.over


def test_two_processes_give_the_same_bits_though_one_is_killed(
    want: dict[str, bytes], tmp_path: Path
) -> None:
    heard = Heard(kill_a_worker)
    swept = sweep(LONG, tmp_path / "store", workers=2, progress=heard)
    assert heard.act is None  # it was killed
    assert swept.failed == {}
    assert contents(tmp_path / "store") == want
    assert leftovers(tmp_path / "store") == []


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[tuple[str, list[subprocess.Popen[bytes]]]]:
    """A Dask scheduler and two workers, as they would run on three machines: the address, and the processes."""
    pytest.importorskip("distributed")
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)])}
    options: dict[str, Any] = {"env": environment, "cwd": tmp_path, "stderr": subprocess.DEVNULL}
    address = tmp_path / "scheduler.json"
    common = ["--scheduler-file", str(address), "--no-dashboard"]
    scheduler, worker = "--port 0 --host 127.0.0.1", "--no-nanny --nthreads 1"
    parts = [("scheduler", scheduler), ("worker", worker), ("worker", worker)]
    processes = [
        subprocess.Popen(
            [sys.executable, "-m", f"distributed.cli.dask_{part}", *common, *more.split()],
            **options,
        )
        for part, more in parts
    ]
    try:
        deadline = time.monotonic() + 60
        while not address.exists():
            assert time.monotonic() < deadline
            time.sleep(0.05)
        yield json.loads(address.read_text())["address"], processes
    finally:
        for process in processes:
            process.kill()
            process.wait()


def test_dask_gives_the_same_bits_though_a_worker_is_killed(
    cluster: tuple[str, list[subprocess.Popen[bytes]]], want: dict[str, bytes], tmp_path: Path
) -> None:
    scheduler, (_, *workers) = cluster
    heard = Heard(workers[0].kill)
    swept = sweep(LONG, tmp_path / "store", "dask", scheduler=scheduler, progress=heard)
    assert heard.act is None
    assert workers[0].wait() == -signal.SIGKILL
    assert workers[1].poll() is None
    assert swept.failed == {}
    assert contents(tmp_path / "store") == want
    assert leftovers(tmp_path / "store") == []


def test_a_killed_scheduler_is_a_typed_error_and_the_sweep_goes_on(
    cluster: tuple[str, list[subprocess.Popen[bytes]]], want: dict[str, bytes], tmp_path: Path
) -> None:
    import dask

    address, (scheduler, *_) = cluster
    heard = Heard(scheduler.kill)
    with (
        dask.config.set({"distributed.comm.timeouts.connect": "5s"}),  # not thirty
        pytest.raises(ss.SafespotError, match="the Dask scheduler does not answer any more"),
    ):
        sweep(LONG, tmp_path / "store", "dask", scheduler=address, progress=heard)
    assert heard.act is None
    assert scheduler.wait() == -signal.SIGKILL
    assert sweep(LONG, tmp_path / "store", progress=False).failed == {}
    assert contents(tmp_path / "store") == want
    assert leftovers(tmp_path / "store") == []


# --- Two sweeps at once


def test_two_sweeps_share_the_work(tmp_path: Path) -> None:
    runs, store = tiny(seeds=60), tmp_path / "store"
    Store.create(store)
    sweep_inline(tmp_path / "alone", runs)
    start, children = time.monotonic() + 0.3, []
    for number in range(2):
        child = os.fork()
        if child == 0:
            time.sleep(start - time.monotonic())
            heard = Heard()
            sweep_inline(store, runs, heard)
            done = sorted({run for run, _ in heard.reports})
            (tmp_path / f"{number}.json").write_text(json.dumps(done))
            os._exit(0)
        children.append(child)
    assert [os.waitpid(child, 0)[1] for child in children] == [0, 0]
    first, second = (set(json.loads((tmp_path / f"{n}.json").read_text())) for n in range(2))
    assert first | second == {run.id for run in runs}
    assert not first & second  # never twice
    assert first
    assert second
    assert contents(store) == contents(tmp_path / "alone")
    assert leftovers(store) == []


# --- Whoever kills its worker


class Deadly(Inline):
    """An engine whose worker dies whenever it is to do a certain run."""

    def __init__(self, store: Store, run: str) -> None:
        super().__init__(store)
        self.run, self.batches = run, list[list[str]]()

    def submit(self, batch: Any) -> None:
        from safespot.experiments.engines import Lost

        names = [run.id for run in batch.runs]
        self.batches.append(names)
        if self.run in names:
            self.events.put(Lost(batch, "its process died"))
        else:
            super().submit(batch)


def test_the_guilty_run_fails_and_no_other(tmp_path: Path) -> None:
    runs, store = tiny(seeds=10), Store.create(tmp_path / "store")
    guilty = runs[7].id
    engine, heard = Deadly(store, guilty), Heard()
    sweeping = _Sweeping(store, engine, heard, runs)
    sweeping.until_done()
    sweeping.end()
    assert sweeping.failed == {guilty: "its process died, twice"}
    assert store.finished() == {run.id for run in runs} - {guilty}
    assert sorted(heard.over) == sorted(run.id for run in runs)  # it is over, too
    assert heard.notes == [f"{guilty} failed: its process died, twice"]
    with_it = [names for names in engine.batches if guilty in names]
    assert len(with_it) == 2
    assert len(with_it[0]) > 1  # tiny runs travel together
    assert with_it[1] == [guilty]


def test_workers_that_all_die_end_the_sweep(tmp_path: Path) -> None:
    class Plague(Deadly):
        def submit(self, batch: Any) -> None:
            self.run = batch.runs[0].id
            super().submit(batch)

    runs, store = tiny(seeds=40), Store.create(tmp_path / "store")
    sweeping = _Sweeping(store, plague := Plague(store, ""), Progress(), runs)
    with pytest.raises(ss.SafespotError, match="21 workers died one after the other"):
        sweeping.until_done()
    assert len(plague.batches) == 21
    sweeping.end()
    assert leftovers(store.path) == []


def test_a_run_that_cannot_be_done_fails_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = tiny()
    made = work.make_learner  # type: ignore[attr-defined]

    def fails(run: Any) -> Any:
        if run.id == runs[1].id:
            raise ss.errors.Infeasible("no policy keeps this")
        if run.id == runs[2].id:
            raise ZeroDivisionError("a bug")
        return made(run)

    monkeypatch.setattr(work, "make_learner", fails)
    store, heard = Store.create(tmp_path / "store"), Heard()
    sweeping = _Sweeping(store, Inline(store), heard, runs)
    sweeping.until_done()
    sweeping.end()
    assert set(sweeping.failed) == {runs[1].id, runs[2].id}
    assert sweeping.failed[runs[1].id] == "no policy keeps this"
    assert "ZeroDivisionError: a bug" in sweeping.failed[runs[2].id]
    assert any("no policy keeps this" in note for note in heard.notes)
    assert store.finished() == {runs[0].id, runs[3].id}
    assert leftovers(store.path) == []


@pytest.mark.parametrize(
    "options",
    [{"engine": "ray"}, {"workers": 0}, {"workers": 1.5}, {"scheduler": "tcp://127.0.0.1:1"}],
    ids=str,
)
def test_wrong_calls_are_our_errors(options: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(ss.errors.InvalidOption):
        sweep(TINY, tmp_path / "store", progress=False, **options)


# --- A full disk


class Full(files.Disk):
    """Takes so many bytes and no more."""

    def __init__(self, room: int) -> None:
        self.room = room

    def fill(self, file: Any, data: bytes) -> None:
        super().fill(file, data[: self.room])
        if len(data) > self.room:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        self.room -= len(data)


@pytest.mark.parametrize(("room", "checkpoints"), [(0, True), (9_000, False), (18_000, True)])
def test_a_full_disk_leaves_everything_readable_and_says_so(
    room: int, checkpoints: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if checkpoints:
        monkeypatch.setattr(work, "CHECKPOINT_SECONDS", 0.0)
        monkeypatch.setattr(work, "REPORT_SECONDS", 0.0)
    runs = tiny()
    store = Store.create(tmp_path / "store")
    whole = sweep_inline(tmp_path / "whole", runs)
    with monkeypatch.context() as patch:
        patch.setattr(files, "disk", Full(room))
        with pytest.raises(ss.errors.DiskError, match=r"No space left on device\..*are intact"):
            sweep_inline(store.path, runs)
    kept = contents(store.path)
    assert len(kept) < len(runs)
    assert kept.items() <= contents(whole.path).items()
    assert not [name for name in leftovers(store.path) if name.endswith(".tmp")]
    sweep_inline(store.path, runs)
    assert contents(store.path) == contents(whole.path)


# --- Ctrl-C


SCRIPT = """
import signal, sys
from safespot.experiments import sweep
if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        sweep({spec!r}, sys.argv[1], workers=2)
    except KeyboardInterrupt:
        sys.exit(7)
"""


def test_ctrl_c_keeps_what_is_done(tmp_path: Path) -> None:
    spec = {**TINY, "episodes": 3_000_000, "seeds": 1}
    (tmp_path / "script.py").write_text(SCRIPT.format(spec=spec))
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)])}
    store = tmp_path / "store"
    process = subprocess.Popen(
        [sys.executable, tmp_path / "script.py", store],
        env=environment, stderr=subprocess.PIPE, text=True, start_new_session=True,
    )  # fmt: skip
    claims, deadline = store / "claims", time.monotonic() + 120
    while not (claims.exists() and any(claims.iterdir())):
        assert time.monotonic() < deadline
        time.sleep(0.02)
    time.sleep(1.5)
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does: the workers too
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 7, errors
    assert "2 runs, 0 of them finished; 6,000,000 episodes to go" in errors
    assert "0 of 2 runs finished" in errors
    assert "Traceback" not in errors
    saved = list((store / "checkpoints").glob("*.safetensors"))
    assert saved  # what a worker had done is kept
    assert not any(claims.iterdir())


def test_a_script_without_a_guard_is_told_so(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    import multiprocessing

    monkeypatch.setattr(multiprocessing.current_process(), "_inheriting", True, raising=False)
    with pytest.raises(ss.SafespotError, match="if __name__ == '__main__'"):
        sweep(TINY, tmp_path / "store")
