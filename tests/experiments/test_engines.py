"""Engines without new interpreters: workers are forks of this process, or threads of it."""

from __future__ import annotations

import contextlib
import functools
import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import safespot as ss
from safespot.experiments import Store, engines, worker
from safespot.experiments.engines import Batch, DaskEngine, Done, LocalEngine, Lost, Told
from safespot.experiments.store import FinishedRun
from tests.support.sweeping import fork_workers, tiny

SECONDS = 20.0  # in which anything happens here, however busy the machine is


def heard(engine: LocalEngine | DaskEngine) -> tuple[list[Told], Any]:
    """What is told until a batch has ended, and how it has."""
    told: list[Told] = []
    while isinstance(event := engine.events.get(timeout=SECONDS), Told):
        told.append(event)
    return told, event


def until(holds: Callable[[], Any]) -> None:
    deadline = time.monotonic() + SECONDS
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.005)


def listening() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if "_listen" in thread.name]


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store.create(tmp_path / "store")


# --- Processes of this machine


@pytest.fixture
def forks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Workers are forks of this process, and tell of every chunk."""
    monkeypatch.setattr(worker, "REPORT_SECONDS", 0.0)
    fork_workers(monkeypatch)


@pytest.mark.usefixtures("forks")
def test_batches_come_back_from_processes_with_what_was_told(store: Store) -> None:
    runs = tiny()
    batches = {Batch(tuple(runs[:3])), Batch((runs[3],))}
    with contextlib.closing(LocalEngine(store.path, 2)) as engine:
        assert engine.slots == 2
        for batch in batches:
            engine.submit(batch)
        (told, first), (more, second) = heard(engine), heard(engine)
        assert {first.batch, second.batch} == batches
        for done in (first, second):
            assert isinstance(done, Done)
            assert done.error is None
            assert [outcome.run for outcome in done.outcomes] == list(done.batch.runs)
        assert len(engine.idle) == 2
        assert engine.busy == {}
        # Links and results are not the same way, so the last words may come later.
        ends = {(run.id, run.episodes) for run in runs}
        late = [*told, *more]
        while not ends <= {(each.run, each.episodes) for each in late}:
            late.append(engine.events.get(timeout=SECONDS))
    assert multiprocessing.active_children() == []
    until(lambda: not listening())  # nobody is left who could be heard


@pytest.mark.usefixtures("forks")
def test_a_worker_that_dies_loses_its_batch_and_another_takes_its_place(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    deadly, harmless = tiny()[:2]

    def work(runs: Any, store: Path, report: Any) -> Any:
        if deadly in runs:
            os._exit(9)
        return worker.work(runs, store, report)

    monkeypatch.setattr(engines, "work", work)
    with contextlib.closing(LocalEngine(store.path, 1)) as engine:
        engine.submit(batch := Batch((deadly,)))
        assert heard(engine) == ([], Lost(batch, "its process died"))
        assert (engine.idle, engine.busy) == ([], {})
        engine.submit(Batch((harmless,)))
        _, done = heard(engine)
        assert [outcome.run for outcome in done.outcomes] == [harmless]


@pytest.mark.usefixtures("forks")
def test_a_worker_that_died_while_it_was_idle_is_replaced(store: Store) -> None:
    with contextlib.closing(LocalEngine(store.path, 1)) as engine:
        pool = engine.idle[0].pool
        pool.submit(int).result(SECONDS)
        (process,) = pool._processes
        os.kill(process, signal.SIGKILL)
        until(lambda: pool._broken)
        engine.submit(Batch((run := tiny()[0],)))
        _, done = heard(engine)
        assert [outcome.run for outcome in done.outcomes] == [run]


@pytest.mark.usefixtures("forks")
def test_what_a_worker_raises_comes_with_its_batch(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: Any) -> None:
        raise worker.Unsaved("no space left")

    monkeypatch.setattr(engines, "work", full)
    with contextlib.closing(LocalEngine(store.path, 1)) as engine:
        engine.submit(batch := Batch((tiny()[0],)))
        _, done = heard(engine)
        assert (done.batch, done.outcomes) == (batch, ())
        assert isinstance(done.error, worker.Unsaved)
        assert len(engine.idle) == 1  # it is still good for others


@pytest.mark.usefixtures("forks")
def test_closing_stops_what_goes_on_with_a_checkpoint(store: Store) -> None:
    (run,) = tiny(episodes=5_000_000, seeds=1)[:1]
    (store.claims / run.id).touch()
    engine = LocalEngine(store.path, 1)
    engine.submit(batch := Batch((run,)))
    assert isinstance(engine.events.get(timeout=SECONDS), Told)
    engine.close()
    events = []
    while not engine.events.empty():
        events.append(engine.events.get())
    assert Done(batch, [], None) in events  # it had ended when the engine was closed
    assert multiprocessing.active_children() == []
    assert [path.name for path in store.checkpoints.iterdir()] == [f"{run.id}.0.safetensors"]


def test_a_worker_goes_on_until_it_is_told_to_stop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ours, theirs = multiprocessing.Pipe()
    monkeypatch.setattr(engines, "_link", theirs, raising=False)
    monkeypatch.setattr(worker, "REPORT_SECONDS", 0.0)
    runs = tiny()[:2]
    assert [outcome.run for outcome in engines._local_work(runs, tmp_path)] == runs
    told = []
    while ours.poll():
        told.append(ours.recv())
    assert [run for run, episodes in told if episodes == 60] == [
        run.id for run in runs for _ in range(2)
    ]
    ours.send("stop")
    assert engines._local_work(runs, tmp_path) == []


def alive(process: int) -> bool:
    status = Path(f"/proc/{process}/stat")
    return status.exists() and status.read_text().rsplit(")", 1)[1].split()[0] != "Z"


@pytest.mark.usefixtures("forks")
def test_workers_do_not_outlive_their_sweep(store: Store, tmp_path: Path) -> None:
    told = tmp_path / "told"
    sweep = os.fork()
    if sweep == 0:
        pool = LocalEngine(store.path, 1).idle[0].pool
        pool.submit(int).result(SECONDS)
        (tmp_path / "new").write_text(str(*pool._processes))
        (tmp_path / "new").rename(told)
        signal.pause()
    until(told.exists)
    process = int(told.read_text())
    os.kill(sweep, signal.SIGKILL)
    os.waitpid(sweep, 0)
    try:
        until(lambda: not alive(process))
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.kill(process, signal.SIGKILL)


def test_a_worker_ends_when_its_sweep_does(monkeypatch: pytest.MonkeyPatch) -> None:
    worker, sweep = multiprocessing.Pipe()
    parent = SimpleNamespace(sentinel=worker)
    ended: list[int] = []
    monkeypatch.setattr(multiprocessing, "parent_process", lambda: parent)
    monkeypatch.setattr(engines, "os", SimpleNamespace(_exit=ended.append))
    following = threading.Thread(target=engines._follow_parent)
    following.start()
    following.join(0.05)
    assert following.is_alive()
    sweep.close()
    following.join(SECONDS)
    assert ended == [1]


@pytest.mark.parametrize("before", [None, "7"])
def test_workers_are_born_with_one_thread_each(
    before: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in engines.THREADS:
        monkeypatch.setenv(name, "7")
        if before is None:
            monkeypatch.delenv(name)
    with engines._born_as_worker():
        assert {os.environ[name] for name in engines.THREADS} == {"1"}
    assert {os.environ.get(name) for name in engines.THREADS} == {before}


# --- Dask


@pytest.fixture
def dask(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Dask, whose workers are threads of this process."""
    distributed = pytest.importorskip("distributed")
    monkeypatch.setattr(worker, "REPORT_SECONDS", 0.0)
    # One of its threads lives as long as the process; a fork of it has none.
    monkeypatch.setattr(distributed.utils, "_offload_executor", ThreadPoolExecutor(1))
    return functools.partial(distributed.LocalCluster, processes=False, dashboard_address=None)


@pytest.fixture
def cluster(dask: Any, store: Store) -> Iterator[DaskEngine]:
    """An engine on a cluster of one worker with one thread."""
    with dask(n_workers=1, threads_per_worker=1) as there:
        engine = DaskEngine(store.path, None, there.scheduler_address)
        yield engine
        engine.close()


def test_batches_come_back_from_dask_with_what_was_told(cluster: DaskEngine) -> None:
    runs = tiny()[:2]
    assert cluster.slots == 1
    cluster.submit(batch := Batch(tuple(runs)))
    told, done = heard(cluster)
    assert (done.batch, done.error) == (batch, None)
    assert all(isinstance(outcome, FinishedRun) for outcome in done.outcomes)
    assert [outcome.run for outcome in done.outcomes] == runs
    assert cluster.futures == {}
    ends = {(run.id, run.episodes) for run in runs}
    while not ends <= {(each.run, each.episodes) for each in told}:
        told.append(cluster.events.get(timeout=SECONDS))


def test_what_a_dask_worker_raises_comes_with_its_batch_and_its_death_loses_it(
    cluster: DaskEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    from distributed import KilledWorker

    def fails(problem: Exception, *_: Any) -> None:
        raise problem

    batch = Batch((tiny()[0],))
    full, killed = (
        worker.Unsaved("no space left"),
        KilledWorker("task", SimpleNamespace(address="there"), 3),
    )
    monkeypatch.setattr(engines, "work", functools.partial(fails, full))
    cluster.submit(batch)
    _, done = heard(cluster)
    assert (done.batch, done.outcomes) == (batch, ())
    assert isinstance(done.error, worker.Unsaved)
    # As Dask does where the workers of a task have died under it.
    monkeypatch.setattr(engines, "work", functools.partial(fails, killed))
    cluster.submit(batch)
    assert heard(cluster) == ([], Lost(batch, "its Dask workers died"))


@pytest.mark.parametrize("how", ["it is canceled", "its client is gone"])
def test_a_dask_worker_goes_on_until_nobody_wants_its_work(
    how: str, cluster: DaskEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    stopped, went_on = threading.Event(), threading.Event()

    def work(runs: Any, store: Path, report: Any) -> list[Any]:
        deadline = time.monotonic() + SECONDS
        for episode in range(3):
            assert report("a", episode)
        went_on.set()
        while report("a", 9) and time.monotonic() < deadline:
            time.sleep(0.01)
        if time.monotonic() < deadline:
            stopped.set()
        return []

    monkeypatch.setattr(engines, "work", work)
    cluster.submit(Batch((tiny()[0],)))
    assert went_on.wait(SECONDS)
    assert not stopped.wait(0.1)
    if how == "its client is gone":
        cluster.client.close()
    else:
        with monkeypatch.context() as patch:
            patch.setattr(cluster.client, "close", lambda: None)  # which would do, too
            cluster.close()
    assert stopped.wait(SECONDS)


def test_without_a_scheduler_dask_runs_here_while_the_engine_does(
    dask: Any, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("distributed.LocalCluster", dask)
    engine = DaskEngine(store.path, 2, None)
    assert engine.slots == 2  # workers of one thread each
    assert engine.cluster.status.name == "running"
    engine.close()
    assert engine.cluster.status.name == "closed"


def test_a_scheduler_that_cannot_be_is_our_error(store: Store) -> None:
    pytest.importorskip("distributed")
    with pytest.raises(ss.InvalidOption, match="no Dask cluster answers at nowhere://x"):
        DaskEngine(store.path, None, "nowhere://x")


@pytest.mark.parametrize("problem", [OSError("closed"), TimeoutError("late")], ids=repr)
def test_a_scheduler_that_is_gone_is_our_error(problem: Exception) -> None:
    with (
        pytest.raises(ss.SafespotError, match="does not answer any more"),
        engines._scheduler_answers(),
    ):
        raise problem
