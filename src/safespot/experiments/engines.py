"""Where runs are done: processes of this machine, or a Dask cluster.

An engine takes batches of runs and puts what happens into one queue: `Told` while a run goes on, `Done` when a batch
has ended, `Lost` when its worker has died under it. It keeps no state: the sweep decides what is retried.
"""

from __future__ import annotations

import contextlib
import itertools
import math
import multiprocessing
import os
import secrets
import signal
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from pathlib import Path
from queue import SimpleQueue
from typing import Any, NamedTuple, Protocol, TypeAlias

from ..errors import InvalidOption, MissingPackage, SafespotError
from ..syscalls import interrupts_held
from .spec import RunSpec
from .store import FinishedRun
from .worker import Failure, work

THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")


@dataclass(frozen=True, eq=False)
class Batch:
    """Runs that one worker does one after the other; tiny ones travel together."""

    runs: tuple[RunSpec, ...]


@dataclass(frozen=True)
class Told:
    """A run has come so far."""

    run: str
    episodes: int


@dataclass(frozen=True)
class Done:
    """A batch has ended: by itself, with an error that ends the sweep, or short because it was stopped."""

    batch: Batch
    outcomes: Sequence[FinishedRun | Failure]
    error: BaseException | None = None


@dataclass(frozen=True)
class Lost:
    """The worker of a batch has died."""

    batch: Batch
    why: str


Event: TypeAlias = Told | Done | Lost


class Engine(Protocol):
    """What a sweep asks of a place where runs are done."""

    events: SimpleQueue[Any]  # of `Event`; the sweep puts its own in there too

    @property
    def slots(self) -> int:
        """Batches that can go on at the same time."""

    def submit(self, batch: Batch) -> None:
        """Have a batch done; at most `slots` at a time."""

    def close(self) -> None:
        """Stop what still goes on, with a checkpoint where it can be had, and let the workers go."""


# Processes of this machine


class LocalEngine:
    """One process a slot, each with a pool of its own, so that one that dies takes no other with it."""

    def __init__(self, store: Path, workers: int) -> None:
        self.events: SimpleQueue[Any] = SimpleQueue()
        self.slots = workers
        self.store = store
        self.spawn = multiprocessing.get_context("spawn")
        self.idle = [self._worker() for _ in range(workers)]
        self.busy: dict[Batch, _Worker] = {}

    def submit(self, batch: Batch) -> None:
        """Have an idle process do it, or a new one where one has died."""
        worker = self.idle.pop() if self.idle else self._worker()
        try:
            future = worker.pool.submit(_local_work, batch.runs, self.store)
        except BrokenProcessPool:  # it died while it was idle
            worker = self._worker()
            future = worker.pool.submit(_local_work, batch.runs, self.store)
        self.busy[batch] = worker
        future.add_done_callback(lambda done: self._ended(batch, done))

    def _ended(self, batch: Batch, future: Future[list[FinishedRun | Failure]]) -> None:
        """In a thread of the pool."""
        worker, error = self.busy.pop(batch), future.exception()
        if isinstance(error, BrokenProcessPool):
            worker.pool.shutdown(wait=False)
            self.events.put(Lost(batch, "its process died"))
            return
        self.idle.append(worker)
        self.events.put(Done(batch, () if error else future.result(), error))

    def close(self) -> None:
        """Workers look for a word from here several times a second."""
        workers = [*self.idle, *self.busy.values()]
        for worker in workers:
            with contextlib.suppress(OSError):
                worker.link.send("stop")
        for worker in workers:
            worker.pool.shutdown(wait=True)

    def _worker(self) -> _Worker:
        ours, theirs = self.spawn.Pipe()
        pool = ProcessPoolExecutor(1, self.spawn, initializer=_start, initargs=(theirs,))
        with _born_as_worker():
            pool.submit(_ready)  # a process starts while this one has other things to do
        theirs.close()
        threading.Thread(target=self._listen, args=(ours,), daemon=True).start()
        return _Worker(pool, ours)

    def _listen(self, link: Connection) -> None:
        """A worker has a link of its own: one that dies while it speaks or listens cannot block another."""
        with contextlib.suppress(EOFError, OSError):
            while True:
                self.events.put(Told(*link.recv()))


class _Worker(NamedTuple):
    pool: ProcessPoolExecutor
    link: Connection


@contextlib.contextmanager
def _born_as_worker() -> Iterator[None]:
    """Processes started in here use one thread each, as there are as many as processors, and ignore SIGINT."""
    before = {name: os.environ.get(name) for name in THREADS}
    os.environ.update(dict.fromkeys(THREADS, "1"))
    try:
        with interrupts_held():
            yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


_link: Connection  # of a worker to the sweep


def _start(link: Connection) -> None:
    """In the worker: without a sweep there is nothing to do."""
    global _link
    _link = link
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # where it could not be blocked
    threading.Thread(target=_follow_parent, daemon=True).start()


def _follow_parent() -> None:
    parent = multiprocessing.parent_process()
    assert parent is not None
    wait([parent.sentinel])
    os._exit(1)


def _ready() -> None:
    """Nothing: to have a process is the point."""


def _local_work(runs: Sequence[RunSpec], store: Path) -> list[FinishedRun | Failure]:
    def report(run: str, episodes: int) -> bool:
        _link.send((run, episodes))
        return not _link.poll()

    return work(runs, store, report)


# Dask


class DaskEngine:
    """A Dask cluster. It may do a batch twice; that is harmless, since only the sweep writes results."""

    def __init__(self, store: Path, workers: int | None, scheduler: str | None) -> None:
        try:
            from distributed import Client, LocalCluster
        except ImportError:
            raise MissingPackage(
                'engine="dask" needs Dask: pip install "safespot[cluster]".'
            ) from None
        self.events: SimpleQueue[Any] = SimpleQueue()
        self.store = store.resolve()
        self.topic = f"safespot-{secrets.token_hex(8)}"
        self.numbers = itertools.count()
        self.cluster: Any = None
        if scheduler is None:
            with _born_as_worker():
                self.cluster = LocalCluster(
                    n_workers=workers, threads_per_worker=1, dashboard_address=None
                )
        try:
            self.client = Client(scheduler or self.cluster, timeout=30, set_as_default=False)
            self.client.wait_for_workers(1, timeout=60)
        except (OSError, TimeoutError, ValueError) as problem:
            raise InvalidOption(
                f"no Dask cluster answers at {scheduler}: {problem}. Start `dask scheduler`, and "
                "`dask worker` on each machine."
            ) from None
        self.client.subscribe_topic(self.topic, lambda event: self.events.put(Told(*event[1])))
        self.futures: dict[Batch, Any] = {}
        self.threads: int
        self.asked = -math.inf

    @property
    def slots(self) -> int:
        """As many as there are threads. Workers may come and go, but to ask takes a while."""
        if time.monotonic() - self.asked > 1.0:
            with _scheduler_answers():
                self.threads = max(1, sum(self.client.nthreads().values()))
            self.asked = time.monotonic()
        return self.threads

    def submit(self, batch: Batch) -> None:
        """Have some worker do it."""
        key = f"{self.topic}-{next(self.numbers)}"
        with _scheduler_answers():
            future = self.client.submit(
                _dask_work, batch.runs, self.store, self.topic, key=key, pure=False, retries=0
            )
        self.futures[batch] = future
        future.add_done_callback(lambda done: self._ended(batch, done))

    def _ended(self, batch: Batch, future: Any) -> None:
        from distributed import KilledWorker

        self.futures.pop(batch, None)
        if future.status == "finished":
            self.events.put(Done(batch, future.result()))
        elif future.status == "error" and not isinstance(future.exception(), KilledWorker):
            self.events.put(Done(batch, (), future.exception()))
        else:
            self.events.put(Lost(batch, "its Dask workers died"))

    def close(self) -> None:
        """Workers notice soon that nobody wants their work."""
        with contextlib.suppress(
            OSError, TimeoutError
        ):  # where the scheduler is gone, there is nobody to tell
            for future in list(self.futures.values()):
                future.cancel()
            self.client.close()
        if self.cluster is not None:
            self.cluster.close()


@contextlib.contextmanager
def _scheduler_answers() -> Iterator[None]:
    """Whatever Dask raises when its scheduler is gone is an OSError (its `CommClosedError` is one) or a timeout."""
    try:
        yield
    except (OSError, TimeoutError) as problem:
        raise SafespotError(
            f"the Dask scheduler does not answer any more ({problem}). What is finished stays; start the scheduler and "
            "the same sweep again: it goes on."
        ) from None


def _dask_work(runs: Sequence[RunSpec], store: Path, topic: str) -> list[FinishedRun | Failure]:
    from distributed import get_worker

    worker = get_worker()
    key = worker.get_current_task()

    def report(run: str, episodes: int) -> bool:
        worker.log_event(topic, (run, episodes))
        task = worker.state.tasks.get(key)
        # It is canceled (which Dask spells with two l), or its client is gone.
        return task is not None and task.state != "cancelled"

    return work(runs, store, report)
