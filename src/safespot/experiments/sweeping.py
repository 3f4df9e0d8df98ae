"""`sweep`: from a spec to a store of results.

    while runs remain:
        give idle workers batches of runs that nobody else is at work on
        hear how far they are
        make finished what has come back

The same call again resumes where the last one ended, however it ended.
"""

from __future__ import annotations

import contextlib
import logging
import multiprocessing
import os
import reprlib
import signal
import threading
import time
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from queue import Empty
from typing import Any

from ..arrays import as_count
from ..display import Displayed
from ..errors import DiskError, InvalidFile, InvalidOption, SafespotError
from .checking import check_options
from .checkpoints import Checkpoint
from .engines import Batch, DaskEngine, Done, Engine, LocalEngine, Lost, Told
from .locks import Claims
from .parquet import Encoder
from .progress import Progress, as_progress
from .settings import make_learner, read_setting
from .spec import RunSpec, Spec, as_spec, read_spec
from .store import FinishedRun, Store
from .worker import Failure, Unsaved, fresh

log = logging.getLogger(__name__)

BATCH_SECONDS = 0.25  # of work that a batch of tiny runs takes, about
BATCH_RUNS = 64
WRITTEN = 256  # runs written at once, at most: what is not written yet is lost with this process
PATIENCE = 20  # workers that may die one after the other
HELP_SECONDS = 1.0  # of compiling, after which a second process compiles the other learners
LOOK_SECONDS = 0.2  # how often to look what other sweeps have left


@dataclass(frozen=True, repr=False)
class Swept(Displayed):
    """What a sweep has come to.

    Examples:
        >>> import safespot as ss
        >>> study = {
        ...     "episodes": 200, "seeds": 3, "problem": {"name": "machine"},
        ...     "learners": [{"name": "uniform"}, {"name": "spot", "options": {"slack": 1, "bonus_scale": 0.01}}],
        ... }
        >>> swept = ss.experiments.sweep(study, "results", workers=1, progress=False)
        >>> print(len(swept.finished), swept.failed)
        6 {}

    """

    store: Store
    finished: tuple[str, ...]  # ids
    failed: dict[str, str]  # id -> why

    def _facts(self) -> dict[str, Any]:
        return {
            "store": str(self.store.path), "finished": len(self.finished), "failed": len(self.failed),
        }  # fmt: skip


def sweep(
    spec: Spec | Mapping[str, Any] | str | Path | Sequence[RunSpec],
    out: str | Path,
    engine: str = "local",
    workers: int | None = None,
    scheduler: str | None = None,
    progress: bool | Progress = True,
) -> Swept:
    """Do all runs of a sweep that are not in the store yet.

    Args:
        spec: a TOML file, or its content, or the runs themselves.
        out: the folder of the store; it is made where it does not exist.
        engine: "local" (processes of this machine) or "dask".
        workers: how many; as many as there are processors by default.
        scheduler: the address of a Dask scheduler, "tcp://…"; without one, Dask runs on this machine.
        progress: whether to show lines on standard error, or an object that hears what happens.

    A run that fails is in `failed` and is tried again by the next call. Ctrl-C, or the death of this process
    at any moment, loses no finished run, and of the others only what they did since their last checkpoint.

    Examples:
        >>> import safespot as ss
        >>> study = {
        ...     "episodes": 200, "seeds": 3, "problem": {"name": "machine"},
        ...     "learners": [{"name": "uniform"}, {"name": "spot", "options": {"slack": 1, "bonus_scale": 0.01}}],
        ... }
        >>> swept = ss.experiments.sweep(study, "results", workers=1, progress=False)
        >>> len(swept.finished)  # two learners, three seeds; the same call again has nothing left to do
        6

    """
    if getattr(multiprocessing.current_process(), "_inheriting", False):
        raise SafespotError(
            "a script that calls sweep() must do so under `if __name__ == '__main__':`, since its "
            "worker processes import it."
        )
    if engine not in ("local", "dask"):
        raise InvalidOption(f"engine must be 'local' or 'dask', got {engine!r}.")
    if scheduler is not None and engine != "dask":
        raise InvalidOption("scheduler= needs engine='dask'.")
    if workers is not None:
        workers = as_count("workers", workers, least=1, error=InvalidOption)
    runs = _as_runs(spec)
    store = Store.create(out)
    store.tidy()
    done = store.finished()
    todo = [run for run in runs if run.id not in done]
    store.relabel(run for run in runs if run.id in done)
    _check(todo)
    shown = as_progress(progress)
    failed: dict[str, str] = {}
    if todo:
        place: Engine
        if engine == "dask":
            place = DaskEngine(store.path, workers, scheduler)
        else:
            place = LocalEngine(store.path, min(workers or _processors(), len(todo)))
        sweeping = _Sweeping(store, place, shown, todo)
        shown.begin(len(runs), len(runs) - len(todo), sum(run.episodes for run in todo))
        with _one_interrupt():
            try:
                _warm(todo)
                sweeping.until_done()
            finally:
                sweeping.end()
                shown.close()
        failed = sweeping.failed
    return Swept(store, tuple(run.id for run in runs if run.id not in failed), failed)


class _Sweeping:
    """The books of a sweep."""

    def __init__(self, store: Store, engine: Engine, shown: Progress, todo: list[RunSpec]) -> None:
        self.store, self.engine, self.shown = store, engine, shown
        self.claims = Claims(store.claims)
        self.pending = deque(todo)
        self.others: list[RunSpec] = []  # that other sweeps are at work on
        self.suspects: deque[RunSpec] = deque()  # their worker died; each is done again, alone
        self.lost: set[str] = set()  # all that have ever been suspects
        self.running: set[Batch] = set()
        self.back: list[FinishedRun] = []  # come back, not yet being written
        self.writing: Future[list[str]] | None = None
        self.failed: dict[str, str] = {}
        self.deaths = 0  # of workers since one has finished a run
        self.episodes = {run.id: run.episodes for run in todo}
        self.speeds: dict[tuple[str, str], float] = {}  # seconds an episode
        self.writer = ThreadPoolExecutor(1)
        self.encoder: Encoder | None = None

    def until_done(self) -> None:
        """Until nothing remains to be done, here or by other sweeps."""
        looked = time.monotonic()
        while self.pending or self.others or self.suspects or self.running or self.writing:
            if time.monotonic() - looked >= LOOK_SECONDS:
                self.pending.extend(self.others)
                self.others.clear()
                looked = time.monotonic()
            while len(self.running) < self.engine.slots and (batch := self._next()):
                self.running.add(batch)
                self.engine.submit(batch)
            with contextlib.suppress(Empty):
                self._hear(self.engine.events.get(timeout=LOOK_SECONDS))

    def end(self) -> None:
        """Keep what has come back, whatever happened, and let go of everything."""
        try:
            self.engine.close()
            while True:
                with contextlib.suppress(Empty):
                    while True:
                        self._hear(self.engine.events.get_nowait(), ending=True)
                if self.writing is None:
                    break
                self.writing.exception()
        finally:
            self.writer.shutdown()
            if self.encoder is not None:
                self.encoder.close()
            self.claims.release_all()

    def _next(self) -> Batch | None:
        """Suspects one by one; others together as long as they are short."""
        if self.suspects:
            return Batch((self.suspects.popleft(),))
        chosen: list[RunSpec] = []
        seconds = 0.0
        while self.pending and seconds < BATCH_SECONDS and len(chosen) < BATCH_RUNS:
            run = self.pending.popleft()
            if not self.claims.take(run.id):
                self.others.append(run)
                continue
            # Only now: another sweep may have finished it a moment ago.
            if self.store.is_finished(run.id):
                self._over(run.id)
                continue
            chosen.append(run)
            speed = self.speeds.get((run.setting, run.learner))
            seconds += BATCH_SECONDS if speed is None else speed * run.episodes
        return Batch(tuple(chosen)) if chosen else None

    def _hear(self, event: Any, ending: bool = False) -> None:
        if isinstance(event, Told):
            if event.run in self.claims.held:
                self.shown.told(event.run, event.episodes, self.episodes[event.run])
        elif isinstance(event, Future):
            self.writing = None
            self._written(event)
        else:
            self.running.discard(event.batch)
            if isinstance(event, Done):
                self._take(event, ending)
            elif not ending:
                self._lose(event)
        if self.back and self.writing is None:
            outcomes, self.back = self.back[:WRITTEN], self.back[WRITTEN:]
            self.writing = self.writer.submit(self._write, outcomes)
            self.writing.add_done_callback(self.engine.events.put)

    def _take(self, done: Done, ending: bool) -> None:
        if done.error is not None and not ending:
            if isinstance(done.error, Unsaved):
                raise DiskError(_full(str(done.error), self.store))
            raise SafespotError(f"a worker failed: {done.error!r}") from done.error
        for outcome in done.outcomes:
            run = outcome.run
            if isinstance(outcome, Failure):
                self.failed[run.id] = outcome.why
                self.shown.note(f"{run.id} failed: {outcome.why}")
                log.error("%s failed: %s", run.id, outcome.why)
                self._over(run.id)
                continue
            for note in outcome.provenance["notes"]:
                self.shown.note(note)
                log.warning("%s", note)
            self.deaths = 0
            self.speeds[run.setting, run.learner] = outcome.seconds / run.episodes
            self.back.append(outcome)

    def _lose(self, lost: Lost) -> None:
        """Whoever was with the worker is under suspicion; whoever was alone with it twice is guilty."""
        for run in lost.batch.runs:
            if run.id in self.lost and len(lost.batch.runs) == 1:
                self.failed[run.id] = f"{lost.why}, twice"
                self.shown.note(f"{run.id} failed: {lost.why}, twice")
                self._over(run.id)
            else:
                self.lost.add(run.id)
                self.suspects.append(run)
        log.warning("%d runs start again: %s", len(lost.batch.runs), lost.why)
        self.deaths += 1
        if self.deaths > PATIENCE:
            raise SafespotError(
                f"{self.deaths} workers died one after the other, and none finished a run: out of memory? "
                "Try fewer workers. What is finished stays."
            )

    def _write(self, outcomes: list[FinishedRun]) -> list[str]:
        """In the writer's thread, while workers go on."""
        if self.encoder is None:
            self.encoder = Encoder()
        self.store.commit(outcomes, self.encoder)
        for outcome in outcomes:
            Checkpoint(self.store.checkpoints, outcome.run.id).drop()
        return [outcome.run.id for outcome in outcomes]

    def _written(self, writing: Future[list[str]]) -> None:
        if isinstance(problem := writing.exception(), (DiskError, InvalidFile)):
            raise DiskError(_full(str(problem), self.store)) from None
        for run in writing.result():
            self._over(run)

    def _over(self, run: str) -> None:
        self.claims.release(run)
        self.shown.ended(run, self.episodes[run])


@contextlib.contextmanager
def _one_interrupt() -> Iterator[None]:
    """Ctrl-C stops what is in here; more of them must not stop the stopping, which would leave workers behind."""

    def stop(*_: Any) -> None:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        raise KeyboardInterrupt

    ours = (
        threading.current_thread() is threading.main_thread()
        and signal.getsignal(signal.SIGINT) is signal.default_int_handler
    )
    if ours:
        signal.signal(signal.SIGINT, stop)
    try:
        yield
    finally:
        if ours:
            signal.signal(signal.SIGINT, signal.default_int_handler)


def _as_runs(spec: Spec | Mapping[str, Any] | str | Path | Sequence[RunSpec]) -> list[RunSpec]:
    if isinstance(spec, Spec):
        return spec.runs()
    if isinstance(spec, Mapping):
        return as_spec(spec).runs()
    if isinstance(spec, (str, Path)):
        return read_spec(spec).runs()
    return list({run.id: run for run in spec}.values())


def _check(runs: Iterable[RunSpec]) -> None:
    """Make every learner once, so that everything that is wrong is said before anything begins."""
    wrong: dict[str, None] = {}
    seen = set()
    for run in runs:
        kind = replace(run, seed=0).id
        if kind in seen:
            continue
        seen.add(kind)
        try:
            make_learner(run)
        except SafespotError as problem:
            wrong.setdefault(f"  {run.problem}, {run.learner} {_shown(run)}: {problem}")
            with contextlib.suppress(SafespotError):  # it may hide what is wrong with the learner
                read_setting(run.setting)
                continue
            try:
                check_options(run.learner, run.learner_options, anytime=run.anytime)
            except SafespotError as other:
                wrong.setdefault(f"  {run.learner} {_shown(run)}: {other}")
    if wrong:
        raise InvalidOption("invalid configuration:\n" + "\n".join(wrong))


def _shown(run: RunSpec) -> str:
    """The options of a run's learner, without the numbers of a whole policy."""
    brief = reprlib.Repr()
    brief.maxlevel, brief.maxlist, brief.maxdict = 3, 4, 20
    return brief.repr(run.learner_options)


def _warm(runs: Iterable[RunSpec]) -> None:
    """Compile what the runs need, once, before every worker would: here and in a process beside, whoever is free."""
    kinds = list({(run.problem, run.learner, run.track): run for run in runs}.values())
    spawn = multiprocessing.get_context("spawn")
    begun = spawn.Value("i", 0)
    beside: list[Any] = []
    # Whatever is compiled already is loaded sooner than a process starts.
    helper = threading.Timer(
        HELP_SECONDS, lambda: beside.append(_start_compiling(spawn, kinds, begun))
    )
    if len(kinds) > 1 and _processors() > 1:
        helper.start()
    try:
        _compile(kinds, begun)
        helper.cancel()
        if helper.is_alive():
            helper.join()  # it is starting the process
        if beside:
            beside[0].join()
            _compile(kinds, spawn.Value("i", 0))  # what was compiled beside is read
    finally:
        helper.cancel()
        for process in beside:
            process.terminate()


def _start_compiling(spawn: Any, runs: Sequence[RunSpec], begun: Any) -> Any:
    process = spawn.Process(target=_compile_beside, args=(runs, begun), daemon=True)
    process.start()
    return process


def _compile_beside(runs: Sequence[RunSpec], begun: Any) -> None:
    """In a process of its own, which Ctrl-C leaves to the one that started it; what fails fails there, too."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with contextlib.suppress(Exception):
        _compile(runs, begun)


def _compile(runs: Sequence[RunSpec], begun: Any) -> None:
    """Those of the runs that nobody has `begun`, one after the other."""
    while True:
        with begun.get_lock():
            k = begun.value
            begun.value += 1
        if k >= len(runs):
            return
        fresh(replace(runs[k], episodes=1)).advance()


def _processors() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _full(problem: str, store: Store) -> str:
    return (
        f"{problem} All finished runs in {store.path} are intact. Free some space, then start the same "
        "sweep again: it resumes."
    )
