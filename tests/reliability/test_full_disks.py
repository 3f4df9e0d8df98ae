"""A full disk behind every writer: one typed error, what was there stays, and the same call works later."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import safespot as ss
from tests.reliability.disks import room
from tests.support.contract import Subject
from tests.support.sweeping import sweep_inline, tiny
from tests.support.trails import example

pytest.importorskip("resource")
SPOT = Subject("spot", "masked")


def episodes() -> list[ss.Episode]:
    return [SPOT.episode(np.random.default_rng([5, t])) for t in range(50)]


@pytest.fixture(scope="module")
def run() -> ss.Run:
    problem = ss.problems.make("machine")
    return ss.learn(problem, ss.Uniform(**problem.interface, episodes=50))


@pytest.fixture(scope="module")
def durable(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("durable") / "it"
    with ss.open(folder, SPOT.make()) as learner:
        learner.observe(episodes()[0])
    return folder


WRITERS: dict[str, Callable[[Path, Any, Any], object]] = {
    "log.csv": lambda path, run, durable: ss.write_log(path, episodes()),
    "log.parquet": lambda path, run, durable: ss.write_log(path, episodes()),
    "trail.csv": lambda path, run, durable: ss.logs.export_episodes(durable, path),
    "trail.parquet": lambda path, run, durable: ss.logs.export_episodes(durable, path),
    "cmdp": lambda path, run, durable: example().cmdp.save(path),
    "learner": lambda path, run, durable: SPOT.make().save(path),
    "run": lambda path, run, durable: run.save(path),
    "meter": lambda path, run, durable: ss.SafetyMeter(example().interface).save(path),
    "folder": lambda path, run, durable: ss.open(path, SPOT.make()).close(),
    "store": lambda path, run, durable: sweep_inline(path, tiny(seeds=1)),
}


@pytest.mark.parametrize("size", [0, 10, 100])
@pytest.mark.parametrize("name", WRITERS)
def test_a_full_disk_is_a_disk_error_and_the_same_call_works_later(
    name: str, size: int, tmp_path: Path, run: ss.Run, durable: Path
) -> None:
    path = tmp_path / name
    with room(size), pytest.raises(ss.errors.DiskError) as told:
        WRITERS[name](path, run, durable)
    assert "exception_type" not in str(told.value)  # DuckDB's own envelope
    if path.is_file():
        pytest.fail("half a file is left")
    WRITERS[name](path, run, durable)
    assert path.exists()
