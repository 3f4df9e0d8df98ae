"""A learner that survives: every acknowledged episode is on the disk.

    with ss.open("ward-7", ss.Spot(**interface, episodes=10_000, slack=2.0)) as learner:
        action = learner.act(step, state, rng)      as of any learner
        learner.observe(episode)                    returns when the episode is safe

An episode is checked, then written to a journal and synced, then learned. Opening the learner again takes the last
snapshot and learns the journal's episodes anew, which gives the same state bit for bit. The folder holds

    owner                      who has it open; locked while that process lives
    snapshot-<n>.safetensors   the learner after n episodes (`Learner.save`); the last two
    journal-<n>                the episodes from n on, until the next journal; all of them, for the audit

The first snapshot is the learner that was given. A snapshot is a shortcut: where the last one is damaged, the one
before it and two journals give the same.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import socket
import warnings
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np

from .. import files
from ..arrays import Episode, Float, Policy
from ..errors import InUse, InvalidEpisode, InvalidFile, InvalidOption, SolverError
from ..evidence.interface import Interface
from ..learners import Learner, load
from ..learners.options import AnyOptions
from . import journal

SNAPSHOTS = 2  # how many are kept


def open(path: str | Path, learner: Learner | None = None) -> DurableLearner:
    """The durable learner in a folder.

    Args:
        path: the folder; it is made where there is none, in a folder that exists.
        learner: where there is none yet, what to begin with; it is copied, not changed. Else it says again how
            the learner was made, and another configuration is an `InvalidOption`. None: whatever is there.

    One process at a time has it open; others get an `InUse`. Not on network file systems: their locks and syncs promise
    less.

    """
    if learner is not None and not isinstance(learner, Learner):
        raise InvalidOption(f"open takes a learner, got {type(learner).__name__}.")
    folder = Path(path)
    owner = _take(folder)
    try:
        return DurableLearner(folder, owner, learner)
    except OSError as problem:
        os.close(owner)
        raise InvalidFile(f"cannot open {folder}: {problem.strerror}.") from None
    except BaseException:
        os.close(owner)
        raise


class DurableLearner:
    """A learner whose every observed episode is on the disk; `open` makes it.

    `learner` is the learner itself, for whoever reads it (`certify`). What it observes past this one is not kept.
    """

    def __init__(self, folder: Path, owner: int, given: Learner | None) -> None:
        self.folder = folder
        self._owner = owner
        self._process = os.getpid()
        self._stopped = ""  # why it takes no more episodes
        for kind in ("snapshot", "journal"):
            for left in folder.glob(f".{kind}-*.tmp"):  # by a process that died
                files.disk.remove(left)
        if not journal.numbered(folder, "snapshot") and not journal.numbered(folder, "journal"):
            _begin(folder, given)
        # Names that a killed process gave may not be on the disk yet.
        files.disk.sync_folder(folder)
        damaged, self.learner = _last_snapshot(folder)
        if given is not None:
            _check_same(folder, self.learner, given)
        found = _replay(folder, self.learner)
        if found is None:  # it died between a snapshot and the journal after it
            found = self._new_journal()
        self._journal = journal.Writer(found)
        if damaged:
            try:
                self._compact(damaged)
            except BaseException:
                self._journal.close()
                raise

    # What a user reads

    @property
    def interface(self) -> Interface:
        """What the learner knows of the problem."""
        return self.learner.interface

    @property
    def options(self) -> AnyOptions:
        """The learner's options."""
        return self.learner.options

    @property
    def policy(self) -> Policy:
        """``[H,S,A]``: pi_t, for the coming episode."""
        return self.learner.policy

    @property
    def multipliers(self) -> Float:
        """``[m]``: lambda_t."""
        return self.learner.multipliers

    @property
    def thresholds(self) -> Float:
        """``[m]``: the episodic thresholds that the coming episode's update uses."""
        return self.learner.thresholds

    @property
    def threshold_bounds(self) -> tuple[Float, Float]:
        """(lower ``[m]``, upper ``[m]``) of the episodic thresholds."""
        return self.learner.threshold_bounds

    @property
    def episode(self) -> int:
        """t, the number of the coming episode, from 1: all before it are on the disk."""
        return self.learner.episode

    # What a user does

    def act(self, step: int, state: int, rng: np.random.Generator) -> int:
        """Draw an action of the coming episode's policy."""
        self._check_open()
        return self.learner.act(step, state, rng)

    def observe(self, episode: Episode) -> None:
        """Write the episode that was played down, and learn from it; an invalid one changes nothing.

        When this returns, the episode is on the disk. When it raises an error about a file, it is not, and the learner
        stops: open it again once the disk works.
        """
        self._check_open()
        learner = self.learner
        learner.interface.inside(episode)
        try:
            if not self._journal.left:
                self._compact()
            played = learner.state.pi[
                np.arange(learner.interface.H), episode.states[:-1], episode.actions
            ]
            self._journal.write(episode, played)
            learner.observe(episode)
        except SolverError:  # the episode is counted, and the next one tries to plan again
            raise
        except (
            BaseException
        ) as problem:  # Ctrl-C too may have come between the disk and the learner
            self._stopped = f"{type(problem).__name__}: {problem}"
            if not isinstance(problem, OSError):
                raise
            raise InvalidFile(
                f"cannot write to {self.folder}: {problem.strerror}. The episode is not recorded; those before it are. "
                "Open the learner again once the disk works."
            ) from None

    def save(self, path: str | Path) -> None:
        """A copy of the learner in a file of its own."""
        self.learner.save(path)

    def close(self) -> None:
        """Close and release the lock."""
        if self._owner >= 0:
            self._journal.close()
            os.close(self._owner)  # and with it goes the lock
            self._owner = -1

    def __enter__(self) -> DurableLearner:
        return self

    def __exit__(
        self, _: type[BaseException] | None, __: BaseException | None, ___: TracebackType | None
    ) -> None:
        self.close()

    # How it is kept

    def _check_open(self) -> None:
        if self._owner < 0:
            raise InvalidOption(f"{self.folder} is closed; open it again.")
        if self._stopped:
            raise InvalidFile(
                f"{self.folder} stopped after an error ({self._stopped}); open it again."
            )
        if os.getpid() != self._process:
            raise InUse(
                f"{self.folder} is open in process {self._process}, from which this one was forked."
            )

    def _compact(self, damaged: Sequence[Path] = ()) -> None:
        """A snapshot of now, an empty journal after it, and no more than two snapshots, none of them damaged."""
        now = _snapshot(self.folder, self.learner.episode - 1)
        self.learner.save(now)
        found = self._new_journal()
        self._journal.close()
        self._journal = journal.Writer(found)
        bad = set(damaged) - {now}
        good = [
            path for path in journal.numbered(self.folder, "snapshot").values() if path not in bad
        ]
        for old in (*bad, *good[:-SNAPSHOTS]):
            files.disk.remove(old)

    def _new_journal(self) -> journal.Journal:
        f, number = self.learner.interface, self.learner.episode - 1
        path = journal.place(self.folder, number)
        journal.create(path, f.H, f.m, number)
        return journal.read(path)


# The folder


def _take(folder: Path) -> int:
    """The folder, made where there is none, is ours while this descriptor is open."""
    try:
        if not folder.exists():
            files.disk.make_folder(folder)
        owner = os.open(folder / "owner", os.O_RDWR | os.O_CREAT, 0o644)
    except OSError as problem:
        raise InvalidFile(f"cannot open {folder}: {problem.strerror}.") from None
    try:
        fcntl.flock(owner, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        who = os.pread(owner, 1000, 0).decode(errors="replace") or "another process"
        os.close(owner)
        raise InUse(f"{folder} is open already, by {who}. Close it there first.") from None
    os.ftruncate(owner, 0)
    os.pwrite(owner, f"process {os.getpid()} on {socket.gethostname()}".encode(), 0)
    return owner


def _begin(folder: Path, learner: Learner | None) -> None:
    """The first snapshot."""
    if learner is None:
        raise InvalidFile(f"there is no learner in {folder}; give one to begin with.")
    # A process that made the folder may have died before its name was on the disk.
    files.disk.sync_folder(folder.parent)
    learner.save(_snapshot(folder, learner.episode - 1))


def _snapshot(folder: Path, number: int) -> Path:
    return folder / f"snapshot-{number:012d}.safetensors"


def _last_snapshot(folder: Path) -> tuple[list[Path], Learner]:
    """The last whole snapshot, and the damaged ones after it, which are warned of."""
    damaged: list[Path] = []
    problems = []
    for number, path in reversed(journal.numbered(folder, "snapshot").items()):
        try:
            learner = load(path)
            if learner.episode - 1 != number:
                raise InvalidFile(f"{path} holds a learner after {learner.episode - 1} episodes.")
        except InvalidFile as problem:
            damaged.append(path)
            problems.append(str(problem))
            continue
        for text in problems:
            warnings.warn(
                f"{text} The snapshot before it and the journals are used instead.", stacklevel=5
            )
        return damaged, learner
    raise InvalidFile(f"{folder} has no whole snapshot. {' '.join(problems)}")


def _replay(folder: Path, learner: Learner) -> journal.Journal | None:
    """Learn from every episode after the snapshot; returns the last journal, None if there is none."""
    found = None
    for found in journal.chain(folder, learner.episode - 1):
        f = learner.interface
        if (found.H, found.m) != (f.H, f.m):
            raise InvalidFile(f"{found.path} holds episodes of another shape than the learner's.")
        for k in range(len(found.records)):
            try:
                with contextlib.suppress(SolverError):  # as `observe` left it
                    learner.observe(found.episode(k))
            except InvalidEpisode as problem:
                raise InvalidFile(
                    f"{found.path} holds an episode {found.first + k + 1} that does not fit the learner: {problem}"
                ) from None
        if found.lost is not None:
            warnings.warn(f"{found.path} has a torn end. Lost: {found.lost}.", stacklevel=5)
    return found


def _check_same(folder: Path, kept: Learner, given: Learner) -> None:
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
    f = learner.interface
    return {
        "learner": learner.name,
        **f.arguments,
        "action_mask": f.mask,
        **vars(learner.options),
    }


def _shown(value: Any) -> str:
    return "an array" if isinstance(value, np.ndarray) else repr(value)
