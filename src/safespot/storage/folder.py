"""The folder of a durable learner: whose it is, its snapshots, and what its journals say.

What the files are for stands in `durable`; `journal` reads and writes one of them.
"""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .. import files
from ..arrays import MARKS, Episode
from ..errors import InUse, InvalidEpisode, InvalidFile, InvalidOption, SolverError, warn
from ..evidence.meter import SafetyMeter
from ..learners import Learner, load
from ..syscalls import Lock, take_lock
from . import journal

SIGNALS = ("rewards", "constraints", "thresholds")  # what a meter counts


def take(folder: Path) -> Lock:
    """The folder, made where there is none, is ours while this lock is held."""
    if not folder.exists():
        files.disk.make_folder(folder)
    path = folder / "owner"
    owner = take_lock(path, create=True)
    if owner is None:
        with contextlib.suppress(OSError), path.open("rb") as file:
            who = file.read(1000).decode(errors="replace")
            raise InUse(f"{folder} is open already, by {who}. Close it there first.")
        raise InUse(f"{folder} is open already, by another process. Close it there first.")
    try:
        owner.file.truncate(0)
        owner.file.write(f"process {os.getpid()} on {socket.gethostname()}".encode())
    except BaseException:
        owner.release()
        raise
    return owner


def lock_last(folder: Path) -> Lock | None:
    """The last journal, for us alone; None: there is none. The file `owner` may have been removed under its owner."""
    before = list(journal.numbered(folder, "journal").values())
    if not before:
        return None
    lock = journal.lock(before[-1])
    if list(journal.numbered(folder, "journal").values())[-1:] != before[-1:]:
        lock.release()
        raise InUse(f"another process is writing to {folder}. Close the learner there first.")
    return lock


def begin(folder: Path, learner: Learner | None) -> None:
    """The first snapshot."""
    if learner is None:
        raise InvalidFile(f"there is no learner in {folder}; give one to begin with.")
    # A process that made the folder may have died before its name was on the disk.
    files.disk.sync_folder(folder.parent)
    learner.save(snapshot_at(folder, learner.episode - 1))


def snapshot_at(folder: Path, number: int) -> Path:
    """Where the snapshot after so many episodes is."""
    return folder / f"snapshot-{number:012d}.safetensors"


def last_snapshot(folder: Path) -> tuple[list[Path], Learner]:
    """The last snapshot that is whole and has its journal, and those after it that are not.

    A snapshot without a journal is what a process left that died between the two: the one before it is as good. It
    serves where no other does.
    """
    name, journals = journal.name_of(folder), journal.numbered(folder, "journal")
    bad: list[Path] = []
    problems = []
    alone: Learner | None = None
    for number, path in reversed(journal.numbered(folder, "snapshot").items()):
        follows = journal.read(journals[number], name).snapshot if number in journals else None
        try:
            learner = load(path)
            if learner.episode - 1 != number:
                raise InvalidFile(f"{path} holds a learner after {learner.episode - 1} episodes.")
            if follows is not None and follows.hex() != files.stored_checksum(path):
                raise InvalidFile(f"{path} is not the snapshot that {journals[number]} follows.")
        except files.OtherVersion:
            raise  # it is not damaged
        except InvalidFile as problem:
            bad.append(path)
            problems.append(str(problem))
            continue
        if follows is not None:
            break
        bad.append(path)
        alone = learner if alone is None else alone
    else:
        if alone is None:
            raise InvalidFile(f"{folder} has no whole snapshot. {' '.join(problems)}")
        bad, learner = (
            [path for path in bad if path != snapshot_at(folder, alone.episode - 1)],
            alone,
        )
    for text in problems:
        warn(f"{text} The snapshot before it and the journals are used instead.")
    return bad, learner


def catch_up(folder: Path, learner: Learner) -> journal.Journal | None:
    """Learn from every episode after the snapshot; returns the last journal, None if there is none."""
    found = None
    f = learner.interface
    learner.lifetime.warned = True  # of these episodes, when they were played
    for found in journal.chain(folder, learner.episode - 1):
        learner.doubts.copy_from(found.doubts)
        if (found.H, found.m) != (f.H, f.m):
            raise InvalidFile(f"{found.path} holds episodes of another shape than the learner's.")
        for k in range(len(found.records)):
            try:
                with contextlib.suppress(SolverError):  # as `observe` left it
                    learner.observe(found.episode(k), found.played(k))
            except InvalidEpisode as problem:
                raise InvalidFile(
                    f"{found.path} holds an episode {found.first + k + 1} that does not fit the learner: {problem}"
                ) from None
        if found.lost is not None:
            warn(f"{found.path} has a torn end. Lost: {found.lost}.")
    learner.lifetime.warned = False
    return found


def restore_doubts(folder: Path, learner: Learner, given: Learner | None) -> None:
    """What is in doubt of a learner's data, where its snapshot has no journal yet."""
    doubts, journals = learner.doubts, journal.numbered(folder, "journal")
    if not journals:
        if given is not None:
            doubts.copy_from(given.doubts)
        return
    before = journal.read(journals[max(journals)])
    if before.next != learner.episode - 1:
        raise InvalidFile(
            f"{folder} has no whole snapshot that {before.path} follows or leads to. Restore it from a copy."
        )
    doubts.copy_from(before.doubts)
    doubts.add(doubted(before.records))


def earliest(folder: Path) -> tuple[int, Path | None]:
    """After how many episodes one can begin anew, and with which snapshot; None: with a new learner."""
    number = min(journal.numbered(folder, "journal"))
    snapshots = journal.numbered(folder, "snapshot")
    if number == 0:
        return 0, None
    if number not in snapshots:
        number = min(snapshots)
    return number, snapshots[number]


def metered(folder: Path, learner: Learner) -> SafetyMeter:
    """A meter that has counted every episode of the folder's journals."""
    meter = learner.make_meter()
    for found in journal.chain(folder, min(journal.numbered(folder, "journal"))):
        count_records(meter, found.records)
    return meter


def count_records(meter: SafetyMeter, records: NDArray) -> None:
    """Count the episodes of a journal's records."""
    if len(records):
        meter.observe_signals(*(records[name] for name in SIGNALS))
        meter.doubts.add(doubted(records))


def doubted(records: NDArray) -> dict[str, int]:
    """What is in doubt of the episodes of a journal's records, added up."""
    return {name: int(records[name].sum()) for name in MARKS}


def count_episodes(meter: SafetyMeter, episodes: Sequence[Episode]) -> None:
    """The same of episodes that were checked."""
    signals = (np.array([getattr(e, name) for e in episodes]) for name in SIGNALS)
    meter.observe_signals(*signals)
    for episode in episodes:
        meter.doubts.note(episode)


def check_same(folder: Path, kept: Learner, given: Learner) -> None:
    """Raise unless both were made with the same arguments."""
    ours, theirs = _configuration(kept), _configuration(given)
    different = [
        name
        for name in {**ours, **theirs}
        if name not in ours or name not in theirs or not np.array_equal(ours[name], theirs[name])
    ]
    if different:
        words = "; ".join(
            f"{name} is {_shown(ours.get(name))} there and {_shown(theirs.get(name))} here"
            for name in different
        )
        raise InvalidOption(
            f"the learner in {folder} has other options: {words}. Open it without a learner, or begin "
            "another one in another folder."
        )


def _configuration(learner: Learner) -> dict[str, Any]:
    """Return all that a learner was made with, but for names: they change nothing."""
    names, plain = learner.interface.names.arguments, learner.guarded
    own = {name: value for name, value in plain.arguments.items() if name not in names}
    if plain is not learner:
        own |= {f"guard's {name}": value for name, value in learner.arguments.items()}
    return {"learner": plain.name, **own}


def _shown(value: Any) -> str:
    return "an array" if isinstance(value, np.ndarray) else repr(value)
