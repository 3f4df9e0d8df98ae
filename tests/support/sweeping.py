"""Sweeps without processes, for the tests of experiments."""

from __future__ import annotations

import json
import multiprocessing
from collections.abc import Callable
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import pytest

from safespot.experiments import Store, as_spec
from safespot.experiments.engines import Batch, Done, Told
from safespot.experiments.progress import Progress
from safespot.experiments.spec import RunSpec
from safespot.experiments.sweeping import _Sweeping
from safespot.experiments.worker import work

TINY: dict[str, Any] = {
    "episodes": 60,
    "seeds": 2,
    "problem": {"name": "random", "options": {"states": 3, "actions": 2, "horizon": 3}},
    "learners": [
        {
            "name": "spot",
            "options": {"rho": "slater", "bonus_scale": 0.01},
            "grid": {"stance": [0.0, 0.5]},
        }
    ],
}


def tiny(**changes: Any) -> list[RunSpec]:
    """A few runs of 60 episodes."""
    return as_spec({**TINY, **changes}).runs()


class Inline:
    """An engine without processes: a batch is done when it is submitted."""

    slots = 1

    def __init__(self, store: Store) -> None:
        self.events: SimpleQueue[Any] = SimpleQueue()
        self.store = store

    def report(self, run: str, episodes: int) -> bool:
        self.events.put(Told(run, episodes))
        return True

    def submit(self, batch: Batch) -> None:
        try:
            self.events.put(Done(batch, work(batch.runs, self.store.path, self.report)))
        except Exception as problem:
            self.events.put(Done(batch, (), problem))

    def close(self) -> None:
        pass


def sweep_inline(out: Path, runs: list[RunSpec], shown: Progress | None = None) -> Store:
    """What `sweep` does, in this process."""
    store = Store.create(out)
    store.tidy()
    done = store.finished()
    todo = [run for run in runs if run.id not in done]
    sweeping = _Sweeping(store, Inline(store), shown or Progress(), todo)
    try:
        sweeping.until_done()
    finally:
        sweeping.end()
    assert sweeping.failed == {}
    return store


def fork_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have workers be forks of this process, which need not import anything, and do what it would."""
    fork = multiprocessing.get_context("fork")
    monkeypatch.setattr(multiprocessing, "get_context", lambda _: fork)


def contents(store: Path) -> dict[str, bytes]:
    """The results of a store, byte for byte."""
    return {path.name: path.read_bytes() for path in sorted((store / "runs").glob("*.parquet"))}


def leftovers(store: Path) -> list[str]:
    """Files that a finished sweep should not leave behind."""
    wanted = {".parquet", ".json", ".safetensors"}
    return [
        str(path.relative_to(store))
        for path in store.rglob("*")
        if path.is_file()
        and not (path.suffix in wanted and path.parent.name in ("runs", store.name))
    ]


def abouts(store: Path) -> dict[str, Any]:
    """What the JSON files of a store say, without what differs from one time to the next."""
    found = {}
    for path in sorted((store / "runs").glob("*.json")):
        about = json.loads(path.read_text())
        for name in ("seconds", "provenance", "blake2b"):
            assert name in about
            del about[name]
        found[path.name] = about
    return found


class Heard(Progress):
    """Remembers what it is told, and may act on it once."""

    def __init__(self, act: Callable[[], object] | None = None) -> None:
        self.reports: list[tuple[str, int]] = []
        self.over: list[str] = []
        self.notes: list[str] = []
        self.act = act

    def told(self, run: str, done: int, total: int) -> None:
        self.reports.append((run, done))
        if self.act is not None and 0 < done < total:
            act, self.act = self.act, None
            act()

    def ended(self, run: str, total: int) -> None:
        self.over.append(run)

    def note(self, text: str) -> None:
        self.notes.append(text)
