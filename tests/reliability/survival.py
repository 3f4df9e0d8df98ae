"""What a durable learner must survive: kills, and failures of the power. Each ordeal says what it found.

A learner is fed known episodes, and every acknowledged one is noted outside of it. Whatever is left of its folder is
then opened as a user would: it must hold every acknowledged episode, at most one more, and be bit for bit the
learner that never stopped.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import os
import random
import shutil
import tempfile
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import safespot as ss
from safespot import files
from safespot.storage import journal
from safespot.storage.durable import DurableLearner
from tests.reliability.disks import Died, Dying, Killing, Power, images, killed
from tests.support.contract import Subject

SUBJECT = Subject("spot", "masked")
RECORDS = 3  # of a journal, so that there are many snapshots


@functools.cache
def episode(t: int) -> ss.Episode:
    """The t-th episode, from 1."""
    return SUBJECT.episode(np.random.default_rng([7, t]))


STEADY = SUBJECT.make()  # never stops
GIVEN = SUBJECT.make()  # says how the learner was made; nobody changes it
DIGESTS: list[str] = []  # of it, after 0, 1, 2, … episodes


def digest_after(n: int) -> str:
    """All bits of the learner that never stopped, after n episodes."""
    while len(DIGESTS) <= n:
        if DIGESTS:
            STEADY.observe(episode(len(DIGESTS)))
        DIGESTS.append(digest(STEADY))
    return DIGESTS[n]


def digest(learner: ss.Learner) -> str:
    return files.checksum(learner.arrays(), {})


@contextlib.contextmanager
def short_journals() -> Iterator[None]:
    before, journal.RECORDS = journal.RECORDS, RECORDS
    try:
        yield
    finally:
        journal.RECORDS = before


@contextlib.contextmanager
def on(disk: files.Disk) -> Iterator[None]:
    """Everything goes to that disk."""
    before, files.disk = files.disk, disk
    try:
        yield
    finally:
        files.disk = before


def damage(folder: Path, acknowledged: int, goal: int | None = None) -> str | None:
    """What is wrong with what is left of a learner; None: nothing. With `goal` it learns on until there."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a torn end is cut off with a warning
            found = ss.open(folder, GIVEN)
    except ss.SafespotError as problem:
        return f"it cannot be opened: {problem}"
    with found:
        finished = found.episode - 1
        if not acknowledged <= finished <= acknowledged + 1:
            return f"it has {finished} episodes; {acknowledged} were acknowledged"
        if digest(found.learner) != digest_after(finished):
            return f"after {finished} episodes it is not what it would be"
        if goal is not None:
            for t in range(found.episode, goal + 1):
                found.observe(episode(t))
            if digest(found.learner) != digest_after(goal):
                return "it went on otherwise"
    return None


# --- kill -9


class Acknowledged:
    """How many episodes were acknowledged, where a kill does not reach."""

    def __init__(self, path: Path) -> None:
        self.path = path
        path.write_bytes(bytes(8))

    def note(self, t: int) -> None:
        with self.path.open("r+b", buffering=0) as file:
            file.write(t.to_bytes(8, "little"))

    def count(self) -> int:
        return int.from_bytes(self.path.read_bytes(), "little")


def feed(folder: Path, note: Callable[[int], None], goal: int, sessions: int = 1) -> None:
    """Open the learner and let it observe up to `goal`, in several sessions."""
    for session in range(1, sessions + 1):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            learner = ss.open(folder, GIVEN)
        with learner:
            note(learner.episode - 1)  # whatever it shows must stay
            for t in range(learner.episode, goal * session // sessions + 1):
                learner.observe(episode(t))
                note(t)


def kills_at_each_step(folder: Path, goal: int = 7) -> tuple[int, list[str]]:
    """Killed before, within and after every write, sync, rename and removal: how many points, and what went wrong."""
    wrong: list[str] = []
    digest_after(goal)
    with short_journals():
        for number in itertools.count(1):
            here = folder / f"kill{number}"
            here.mkdir()
            acknowledged = Acknowledged(here / "count")

            def work(
                here: Path = here, number: int = number, note: Any = acknowledged.note
            ) -> None:
                files.disk = Killing(number)
                feed(here / "learner", note, goal, sessions=2)

            died = killed(work)
            found = damage(here / "learner", acknowledged.count(), goal)
            if found:
                wrong.append(f"kill {number}: {found}")
            shutil.rmtree(here)
            if not died:
                return number - 1, wrong
    raise AssertionError


# --- Power


@dataclass
class Outage:
    """What failures of the power did to a learner."""

    images: int  # different ones
    wrong: list[str]


def outages(
    disk: Callable[[], Power],
    least: int,
    seed: int = 0,
    observe: Callable[..., None] = DurableLearner.observe,
    goal: int = 8,
) -> Outage:
    """Lose the power at every moment, in many ways, until `least` different images were opened.

    In later rounds the process dies first, once at each step, and another one goes on before the power fails.
    """
    digest_after(goal + 1)
    rng, done, wrong = random.Random(seed), set[int](), list[str]()
    with tempfile.TemporaryDirectory(dir=_memory()) as name, short_journals():
        folder, deaths = Path(name, "learner"), 0
        while True:
            power = disk() if deaths == 0 else Dying(deaths - 1)
            with on(power):
                died = _live(folder, power, observe, goal)
            acknowledged = 0
            for moment, image in images(power.log, rng):
                if power.log[moment - 1][0] == "acknowledged":
                    acknowledged = power.log[moment - 1][1]
                content = {
                    path.name: data for path, data in image.files.items() if path.parent == folder
                }
                key = hash((acknowledged, frozenset(content.items())))
                if key in done:
                    continue
                done.add(key)
                left = Path(name, "left")
                shutil.rmtree(left, ignore_errors=True)
                left.mkdir()
                for file, data in content.items():
                    (left / file).write_bytes(data)
                found = damage(left, acknowledged, goal if len(done) % 20 == 0 else None)
                if found:
                    wrong.append(f"moment {moment} of {len(power.log)}, death {deaths}: {found}")
                if len(wrong) >= 5:
                    return Outage(len(done), wrong)
            shutil.rmtree(folder)
            if len(done) >= least or disk is not Power:
                return Outage(len(done), wrong)
            # Where there is no such step, begin again, with other random numbers.
            deaths = deaths + 1 if died or deaths == 0 else 0


def _live(folder: Path, power: Power, observe: Callable[..., None], goal: int) -> bool:
    """Two sessions, or three when one dies; what is acknowledged is noted among what the disk did."""
    died = False
    for last in (goal // 2, goal, goal):
        learner = None
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                learner = ss.open(folder, GIVEN)
            power.log.append(("acknowledged", learner.episode - 1))  # whatever it shows must stay
            for t in range(learner.episode, last + 1):
                observe(learner, episode(t))
                power.log.append(("acknowledged", t))
        except Died:
            assert isinstance(power, Dying)
            power.revive()
            died = True
        finally:
            if learner is not None:
                learner.close()
    return died


def _memory() -> str | None:
    """A folder in memory, where there is one: syncing is free there."""
    return "/dev/shm" if os.access("/dev/shm", os.W_OK) else None


OBSERVE = DurableLearner.observe


def hasty_observe(learner: DurableLearner, played: ss.Episode) -> None:
    """Broken on purpose: acknowledges at once, and writes the episode down when the next one comes."""
    waiting = learner.__dict__.pop("waiting", None)
    if waiting is not None:
        OBSERVE(learner, waiting)
    learner.__dict__["waiting"] = played
