"""What durability costs: `observe` of a durable learner beside a plain one, a growing file, and SQLite."""

from __future__ import annotations

import os
import sqlite3
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

import safespot as ss
from safespot.storage import journal
from tests.support.contract import H, M, Subject

Times = dict[str, tuple[float, float]]  # what -> (median, 99th percentile), in milliseconds


def measure(episodes: int) -> Times:
    """Each way on the disk of the working folder, one record an episode."""
    subject = Subject("spot", "masked")
    rng = np.random.default_rng(0)
    seen = [subject.episode(rng) for _ in range(episodes)]
    data = bytes(journal.record_length(H, M))
    plain = subject.make()
    plain.observe(seen[0])  # not timed: kernels compile
    found = {"plain": timed(plain.observe, seen)}
    with tempfile.TemporaryDirectory(dir=".") as name:
        with ss.open(Path(name, "learner"), subject.make()) as learner:
            found["durable"] = timed(learner.observe, seen)
        began = time.perf_counter()
        ss.open(Path(name, "learner")).close()
        found["open"] = (1e3 * (time.perf_counter() - began),) * 2
        file = os.open(Path(name, "grows"), os.O_WRONLY | os.O_CREAT | os.O_APPEND)

        def append(_: object) -> None:
            os.write(file, data)
            os.fsync(file)

        found["file"] = timed(append, seen)
        os.close(file)
        database = sqlite3.connect(Path(name, "sqlite"), isolation_level=None)
        database.execute("pragma journal_mode = wal")
        database.execute("pragma synchronous = full")
        database.execute("create table episodes (number integer primary key, data blob)")
        found["sqlite"] = timed(
            lambda _: database.execute("insert into episodes (data) values (?)", (data,)), seen
        )
        database.close()
    return found


def timed(work: Callable[[ss.Episode], object], seen: list[ss.Episode]) -> tuple[float, float]:
    """The median and the 99th percentile of the calls."""
    times = []
    for episode in seen:
        began = time.perf_counter()
        work(episode)
        times.append(1e3 * (time.perf_counter() - began))
    median, slow = np.quantile(times, [0.5, 0.99])
    return float(median), float(slow)


def in_words(found: Times) -> str:
    """In one line."""
    names = {
        "plain": "`observe` of a plain learner",
        "durable": "of a durable one",
        "file": "a file that grows, with fsync",
        "sqlite": "SQLite's WAL, synchronous = full",
    }
    parts = [f"{names[k]} {found[k][0]:.2f} ms ({found[k][1]:.1f})" for k in names]
    return (
        f"median (99th percentile): {', '.join(parts)}; opening it again {found['open'][0]:.0f} ms"
    )
