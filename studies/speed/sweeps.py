"""What a sweep costs beside its learning: tiny runs, runs of seconds, and the syncs of a store."""

from __future__ import annotations

import contextlib
import os
import resource
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

from safespot import files
from safespot.experiments import Store, as_spec, sweep
from safespot.experiments.parquet import Encoder
from safespot.experiments.worker import perform

from ..record import CHECKOUT, Benchmark, Row

PROCESSES = 2
MILLI = 1e3


def spec(episodes: int, seeds: int) -> dict[str, Any]:
    """Runs of a small problem that differ in their seeds."""
    return {
        "episodes": episodes,
        "seeds": seeds,
        "problem": {"name": "random", "options": {"states": 3, "actions": 2, "horizon": 3}},
        "learners": [{"name": "spot", "options": {"rho": "slater", "bonus_scale": 0.01}}],
    }


class Swept(NamedTuple):
    """What a whole sweep took, from the call to its return, its processes included."""

    wall: float
    processor: float  # of this process and its workers
    learning: float  # the part of it that was learning


def swept(episodes: int, seeds: int) -> Swept:
    """One sweep in two processes."""
    with folder() as out:
        began, before = time.perf_counter(), processor()
        done = sweep(spec(episodes, seeds), out, workers=PROCESSES, progress=False)
        took, used = time.perf_counter() - began, processor() - before
        assert len(done.finished) == seeds
        assert not done.failed
        sql = "select sum(cast(provenance->>'processor_seconds' as double)) from runs"
        learning = done.store.query(sql).fetchall()[0][0]
    return Swept(took, used, learning)


def processor() -> float:
    """Seconds of processor time of this process and those of its children that have ended."""
    uses = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(use.ru_utime + use.ru_stime for use in uses)


@contextlib.contextmanager
def folder() -> Iterator[Path]:
    """A place for a store, on the disk that the project is on."""
    with tempfile.TemporaryDirectory(dir=CHECKOUT, prefix=".sweep-") as path:
        yield Path(path) / "store"


def tiny_runs() -> list[Row]:
    """Everything but learning, the start of the processes included; kernels are compiled before."""
    swept(2_000, 4)
    runs, load = 1_000, os.getloadavg()[0]
    took = swept(2_000, runs)
    overhead = (took.processor - took.learning) / PROCESSES / runs
    return [
        Row(
            "tiny runs",
            f"overhead of a run of 2,000 episodes, S = 3, A = 2, H = 3; {runs:,} runs in two processes",
            MILLI * overhead,
            "ms",
            target="< 5 ms",
            reached=overhead < 0.005,
            note="processor time beside learning, over the two processors; learning is "
            f"{MILLI * took.learning / runs:.2g} ms a run, wall-clock time {MILLI * took.wall / runs:.2g} ms "
            f"at a load average of {load:.1f}",
        )
    ]


def long_runs() -> list[Row]:
    """From the call to its return, the start of the processes included."""
    runs = 30
    took = swept(5_000_000, runs)  # about three seconds each
    share = took.learning / took.processor
    return [
        Row(
            "long runs",
            f"share of the processors' time spent in learning, {runs} runs of "
            f"{took.learning / runs:.2g} s in two processes",
            100 * share,
            "%",
            target="≥ 95 %",
            reached=share >= 0.95,
        )
    ]


def syncs() -> list[Row]:
    """Writing finished runs, with and without syncs; one after the other and together."""
    runs = as_spec(spec(2_000, 64)).runs()
    outcomes = [perform(run, None, lambda run, episodes: True) for run in runs]

    def written(batch: int, disk: files.Disk) -> float:
        with folder() as out, mock.patch.object(files, "disk", disk):
            store, encoder = Store.create(out), Encoder()
            store.commit(outcomes[:1], encoder)
            began = time.perf_counter()
            for first in range(0, len(outcomes), batch):
                store.commit(outcomes[first : first + batch], encoder)
            took = time.perf_counter() - began
            encoder.close()
        return took / len(outcomes)

    together, alone = written(64, files.Disk()), written(1, files.Disk())
    unsynced = written(64, Unsynced())
    return [
        Row(
            "syncs",
            "making a run finished, 64 at a time, all synced; one at a time",
            MILLI * together,
            "ms",
            versus=MILLI * alone,
            note=f"wall-clock time; 64 at a time without any sync: {MILLI * unsynced:.2g} ms",
        )
    ]


class Unsynced(files.Disk):
    """A disk that does not wait."""

    def sync(self, descriptor: int) -> None:
        """Nothing."""


BENCHMARKS = (
    Benchmark("tiny runs", tiny_runs),
    Benchmark("long runs", long_runs),
    Benchmark("syncs", syncs),
)
