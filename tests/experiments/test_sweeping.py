"""A sweep in parts: what is checked and compiled before it, who is at work, and how it ends."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import safespot as ss
from safespot.experiments import Store, sweep, sweeping, worker
from safespot.experiments.engines import Batch, Done, Told
from safespot.experiments.progress import Progress
from safespot.experiments.spec import RunSpec
from safespot.experiments.store import FinishedRun
from safespot.experiments.sweeping import _Sweeping
from tests.support.sweeping import (
    TINY,
    Heard,
    Inline,
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


@pytest.mark.usefixtures("forks")
def test_what_failed_is_not_among_the_finished(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs, made = tiny(seeds=1), worker.make_learner  # type: ignore[attr-defined]

    def fails(run: RunSpec) -> Any:
        if run.id == runs[0].id:
            raise ss.Infeasible("no policy keeps this")
        return made(run)

    monkeypatch.setattr(sweeping, "_warm", lambda _: None)  # which would fail, too
    monkeypatch.setattr(worker, "make_learner", fails)
    swept = sweep(runs, tmp_path / "store", workers=1, progress=False)
    assert swept.finished == (runs[1].id,)
    assert swept.failed == {runs[0].id: "no policy keeps this"}


@pytest.mark.parametrize("workers", [None, 1, 9])
def test_there_are_no_more_workers_than_runs(
    workers: int | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[int] = []

    def engine(store: Path, workers: int) -> Inline:
        asked.append(workers)
        return Inline(Store(store))

    monkeypatch.setattr(sweeping, "LocalEngine", engine)
    monkeypatch.setattr(sweeping, "_processors", lambda: 3)
    sweep(tiny(), tmp_path / "store", workers=workers, progress=False)
    assert asked == [{None: 3, 1: 1, 9: 4}[workers]]


def test_what_is_shown_begins_with_what_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = tiny()
    sweep_inline(tmp_path / "store", runs[:1])
    monkeypatch.setattr(sweeping, "LocalEngine", lambda store, workers: Inline(Store(store)))
    swept = sweep(runs, tmp_path / "store", progress=(heard := Attentive()))
    assert heard.begun == [(4, 1, 3 * 60)]
    assert sorted(heard.over) == sorted(run.id for run in runs[1:])
    assert heard.closed == 1
    assert swept.finished == tuple(run.id for run in runs)


def test_dask_is_asked_where_it_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []

    def engine(store: Path, *given: Any) -> Inline:
        asked.append(given)
        return Inline(Store(store))

    monkeypatch.setattr(sweeping, "DaskEngine", engine)
    sweep(tiny(), tmp_path / "store", "dask", 2, "tcp://there:1", progress=False)
    assert asked == [(2, "tcp://there:1")]
    assert len(Store(tmp_path / "store").finished()) == 4


# --- Who is at work


class Slow(Inline):
    """Does a batch when it is asked to, and not before."""

    slots = 2

    def __init__(self, store: Store) -> None:
        super().__init__(store)
        self.given: list[Batch] = []
        self.closed = False

    def submit(self, batch: Batch) -> None:
        self.given.append(batch)

    def close(self) -> None:
        self.closed = True
        for batch in self.given:
            super().submit(batch)


def begun(tmp_path: Path, runs: list[RunSpec], shown: Progress | None = None) -> _Sweeping:
    store = Store.create(tmp_path / "store")
    return _Sweeping(store, Slow(store), shown or Progress(), runs)


def test_a_run_of_another_sweep_is_left_to_it(tmp_path: Path) -> None:
    runs, heard = tiny(), Heard()
    other, ours = begun(tmp_path, runs), begun(tmp_path, runs, heard)
    assert other.claims.take(runs[0].id)
    ours.speeds[runs[0].setting, runs[0].learner] = 0.0  # so short that they travel together
    batch = ours._next()
    assert batch is not None
    assert batch.runs == tuple(runs[1:])
    assert ours.others == [runs[0]]
    assert heard.over == []
    ours.claims.release_all()
    # The other sweep finishes it: then it is over here, and nobody else's.
    done = worker.work(runs[:1], None, lambda *_: True)
    other._hear(Done(Batch((runs[0],)), done))
    other.end()
    ours.pending.append(runs[0])
    assert ours._next() is None
    assert heard.over == [runs[0].id]
    assert ours.claims.held == {}
    ours.end()


def test_no_more_batches_are_given_than_there_are_slots(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ours = begun(tmp_path, tiny())
    engine: Any = ours.engine

    def late() -> None:
        time.sleep(0.05)
        assert len(engine.given) == 2
        engine.slots = 4
        while engine.given:
            Inline.submit(engine, engine.given.pop())
            time.sleep(0.02)

    helper = threading.Thread(target=late)
    helper.start()
    ours.until_done()
    helper.join()
    ours.end()
    assert ours.store.finished() == {run.id for run in tiny()}


def test_the_end_keeps_what_has_come_back_and_lets_go(tmp_path: Path) -> None:
    runs, heard = tiny(), Heard()
    ours = begun(tmp_path, runs, heard)
    batch = ours._next()
    assert batch is not None
    ours.engine.submit(batch)
    ours.end()
    assert isinstance(ours.engine, Slow)
    assert ours.engine.closed
    assert heard.over == [run.id for run in batch.runs]
    assert ours.store.finished() == set(heard.over)
    assert leftovers(ours.store.path) == []
    with pytest.raises(RuntimeError):  # its thread is gone
        ours.writer.submit(int)
    assert ours.encoder is not None
    assert not Path(ours.encoder.scratch.name).exists()


def test_an_error_at_the_end_takes_nothing_with_it(tmp_path: Path) -> None:
    """What has come back after it is kept, and the error that ended the sweep is not hidden by another."""
    runs = tiny()
    ours = begun(tmp_path, runs)
    assert ours.claims.take(runs[0].id)
    ours.engine.events.put(Done(Batch((runs[1],)), (), worker.Unsaved("no space left")))
    done = worker.work(runs[:1], None, lambda *_: True)
    ours.engine.events.put(Done(Batch((runs[0],)), done))
    ours.end()
    assert ours.store.finished() == {runs[0].id}


def test_whoever_is_not_at_work_on_a_run_is_not_heard(tmp_path: Path) -> None:
    runs, heard = tiny(), Heard()
    ours = begun(tmp_path, runs, heard)
    ours._hear(Told(runs[0].id, 10))
    assert heard.reports == []
    assert ours.claims.take(runs[0].id)
    ours._hear(Told(runs[0].id, 20))
    assert heard.reports == [(runs[0].id, 20)]
    ours.end()


def test_what_a_worker_noted_is_told(tmp_path: Path) -> None:
    runs, heard = tiny(), Heard()
    ours = begun(tmp_path, runs, heard)
    assert ours.claims.take(runs[0].id)
    (done,) = worker.work(runs[:1], None, lambda *_: True)
    assert isinstance(done, FinishedRun)
    noted = replace(done, provenance={**done.provenance, "notes": ["a checkpoint was damaged"]})
    ours._hear(Done(Batch((runs[0],)), (noted,)))
    ours.end()
    assert heard.notes == ["a checkpoint was damaged"]


def test_everything_is_compiled_before_the_first_run_begins(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[Any] = []

    class Engine(Inline):
        def __init__(self, store: Path, workers: int) -> None:
            super().__init__(Store(store))

        def submit(self, batch: Batch) -> None:
            said.append("a batch")
            super().submit(batch)

    monkeypatch.setattr(sweeping, "_warm", said.append)
    monkeypatch.setattr(sweeping, "LocalEngine", Engine)
    runs = tiny()
    sweep(runs, tmp_path / "store")
    assert said[0] == runs
    assert set(said[1:]) == {"a batch"}


@pytest.mark.parametrize("ending", [False, True])
def test_an_error_of_a_worker_ends_a_sweep_once(ending: bool, tmp_path: Path) -> None:
    ours = begun(tmp_path, tiny())
    problems = {
        worker.Unsaved("no space left"): (ss.DiskError, r"no space left.*are intact"),
        ZeroDivisionError("a bug"): (ss.SafespotError, "a worker failed: ZeroDivisionError"),
    }
    for error, (kind, says) in problems.items():
        done = Done(Batch(()), (), error)
        if ending:
            ours._hear(done, ending=True)
        else:
            with pytest.raises(kind, match=says):
                ours._hear(done)
    ours.end()


# --- Before it begins


def test_whatever_is_wrong_with_a_kind_of_run_is_said_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A problem that cannot be made hides nothing of a learner; seeds say the same."""
    runs = [
        RunSpec(
            problem="random",
            problem_options=options,
            signals=tiny()[0].signals,
            learner="spot",
            learner_options=learner,
            anytime=False,
            episodes=9,
            seed=seed,
            record="log",
            track="every",
        )
        for options, learner in (
            ({"states": -1}, {"rho": 1.0, "delta": 7.0}),
            ({"states": 3}, {"rho": 1.0, "stance": 7.0}),
            ({"states": -1}, {"rho": 1.0}),
        )
        for seed in (0, 1)
    ]
    with pytest.raises(ss.InvalidOption) as raised:
        sweeping._check(runs)
    first, *lines = str(raised.value).splitlines()
    assert first == "invalid configuration:"
    assert [
        ("states must be" in line, "delta must be" in line, "stance must be" in line)
        for line in lines
    ] == [
        (True, False, False),
        (False, True, False),
        (False, False, True),
        (True, False, False),
    ]
    sweeping._check(tiny())


def test_every_kind_of_learner_is_made_once_before_anything_begins(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made: list[RunSpec] = []
    monkeypatch.setattr(sweeping, "make_learner", made.append)
    runs = tiny(seeds=3)
    sweeping._check(runs)
    assert made == [run for run in runs if run.seed == 0]


class Beside:
    """A process that compiles beside this one."""

    def __init__(self) -> None:
        self.done: list[str] = []

    def join(self) -> None:
        self.done.append("joined")

    def terminate(self) -> None:
        self.done.append("terminated")


@pytest.fixture
def compiled(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The learners that are compiled, in this process."""
    found: list[str] = []

    class Training:
        def __init__(self, run: RunSpec) -> None:
            self.run = run

        def advance(self) -> None:
            assert self.run.episodes == 1
            found.append(self.run.learner)

    monkeypatch.setattr(sweeping, "fresh", Training)
    return found


KINDS = [{"name": "uniform"}, {"name": "spot", "options": {"rho": 1.0}}]


@pytest.mark.parametrize(
    ("learners", "processors", "helped"),
    [(KINDS, 2, True), (KINDS, 1, False), (KINDS[:1], 2, False)],
)
def test_a_second_process_compiles_where_there_is_something_for_it_to_do(
    learners: list[dict[str, Any]],
    processors: int,
    helped: bool,
    compiled: list[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    beside, started = Beside(), threading.Event()

    def start(spawn: Any, runs: list[RunSpec], begun: Any) -> Beside:
        with begun.get_lock():
            begun.value = len(runs)  # it takes all that is left
        started.set()
        return beside

    once = sweeping._compile

    def compile_late(runs: Any, begun: Any) -> None:
        started.wait(10.0 if helped else 0.05)
        once(runs, begun)

    monkeypatch.setattr(sweeping, "HELP_SECONDS", 0.0)
    monkeypatch.setattr(sweeping, "_processors", lambda: processors)
    monkeypatch.setattr(sweeping, "_start_compiling", start)
    monkeypatch.setattr(sweeping, "_compile", compile_late)
    sweeping._warm(tiny(learners=learners, seeds=2))
    assert started.is_set() == helped
    assert compiled == [each["name"] for each in learners]  # what was compiled beside is read
    assert beside.done == (["joined", "terminated"] if helped else [])


def test_no_process_is_started_once_everything_is_compiled(
    compiled: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[Any] = []
    monkeypatch.setattr(sweeping, "HELP_SECONDS", 0.05)
    monkeypatch.setattr(sweeping, "_processors", lambda: 2)
    monkeypatch.setattr(sweeping, "_start_compiling", lambda *given: started.append(given))
    sweeping._warm(tiny(learners=KINDS))
    time.sleep(0.1)
    assert compiled == ["uniform", "spot"]
    assert started == []


def test_what_one_process_has_begun_no_other_compiles(tmp_path: Path) -> None:
    fork = multiprocessing.get_context("fork")
    begun, runs = fork.Value("i", 0), tiny(learners=KINDS, seeds=1)
    process = sweeping._start_compiling(fork, runs, begun)
    process.join(20.0)
    assert process.exitcode == 0
    assert begun.value == len(runs) + 1


def test_every_processor_that_this_process_may_use_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 3, 5}, raising=False)
    monkeypatch.setattr(os, "cpu_count", lambda: 8)
    assert sweeping._processors() == 3
    monkeypatch.delattr(os, "sched_getaffinity")
    assert sweeping._processors() == 8
    monkeypatch.setattr(os, "cpu_count", lambda: None)
    assert sweeping._processors() == 1


# --- Ctrl-C


@pytest.fixture
def interrupts() -> Iterator[None]:
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("interrupts")
def test_the_first_ctrl_c_stops_and_no_other_stops_the_stopping() -> None:
    stopping = []

    def stop_twice() -> None:
        try:
            signal.raise_signal(signal.SIGINT)
        finally:
            signal.raise_signal(signal.SIGINT)
            stopping.append("to its end")

    with pytest.raises(KeyboardInterrupt), sweeping._one_interrupt():
        stop_twice()
    assert stopping == ["to its end"]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


@pytest.mark.usefixtures("interrupts")
@pytest.mark.parametrize("own", [signal.SIG_IGN, lambda *_: None], ids=["ignored", "a handler"])
def test_whoever_handles_ctrl_c_goes_on_doing_so(own: Any) -> None:
    signal.signal(signal.SIGINT, own)
    with sweeping._one_interrupt():
        assert signal.getsignal(signal.SIGINT) is own
    assert signal.getsignal(signal.SIGINT) is own


@pytest.mark.usefixtures("interrupts")
def test_a_thread_leaves_ctrl_c_alone() -> None:
    """Only the main thread may say what a signal does."""
    passed = []

    def elsewhere() -> None:
        with sweeping._one_interrupt():
            passed.append(signal.getsignal(signal.SIGINT))

    thread = threading.Thread(target=elsewhere)
    thread.start()
    thread.join()
    assert passed == [signal.default_int_handler]
