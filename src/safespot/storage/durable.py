"""A learner that survives: every acknowledged episode is on the disk.

    with ss.open("ward-7", ss.Spot(**interface, episodes=10_000, slack=2.0)) as learner:
        action = learner.act(step, state, rng)      as of any learner
        learner.observe(episode)                    returns when the episode is safe

An episode is checked, then written to a journal and synced, then learned. Opening the learner again takes the last
snapshot and learns the journal's episodes anew, which gives the same state bit for bit. The folder holds

    owner                      who has it open; locked while that process lives
    identity                   the learner's random name, which its journals carry
    snapshot-<n>.safetensors   the learner after n episodes (`Learner.save`); the last two
    journal-<n>                the episodes from n on, until the next journal; all of them, for the audit

The first snapshot is the learner that was given. A snapshot is a shortcut: where the last one is damaged, the one
before it and two journals give the same.

Each journal carries the checksum of the snapshot that it follows, too, so that what belongs to another learner is
noticed. One thread at a time observes; the journal that is being written is locked
itself, and is looked up under its name before an episode is acknowledged.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from .. import files
from ..arrays import Episode, Float, Policy
from ..display import Displayed
from ..errors import InUse, InvalidFile, InvalidOption, SolverError, warn
from ..evidence.certificate import Certificate, policy_digest
from ..evidence.meter import SafetyMeter
from ..learners import Learner, load
from ..learners.mixture import Mixture
from ..signals.interface import Interface
from ..syscalls import InterruptsDeferred, Lock
from . import journal
from .folder import (
    begin,
    catch_up,
    check_same,
    count_episodes,
    earliest,
    last_snapshot,
    lock_last,
    metered,
    restore_doubts,
    snapshot_at,
    take,
)

SNAPSHOTS = 2  # how many are kept


def open(path: str | Path, learner: Learner | None = None) -> DurableLearner:
    """The durable learner in a folder.

    Args:
        path: the folder; it is made where there is none, in a folder that exists.
        learner: where there is none yet, what to begin with; it is copied, not changed. Else it says again how
            the learner was made, and another configuration is an `InvalidOption`. None: whatever is there.

    One process at a time has it open; others get an `InUse`, and so does a process forked from it. Its threads may
    share it. Not on network file systems: their locks and syncs promise less.

    Examples:
        >>> import safespot as ss
        >>> problem, noise = ss.problems.make("machine"), ss.streams(seed=0)
        >>> with ss.open("line-3", ss.Spot(**problem.interface, episodes=500, slack=1.0)) as learner:
        ...     learner.observe(ss.play(problem, learner.policy, noise, learner.episode))
        >>> with ss.open("line-3") as learner:  # after a restart
        ...     print(learner.episode)
        2

    """
    if learner is not None and not isinstance(learner, Learner):
        raise InvalidOption(f"open takes a learner, got {type(learner).__name__}.")
    folder = files.as_path(path).absolute()  # the working directory may change
    for written in journal.numbered(folder, "journal").values():
        journal.check_format(written)
    with contextlib.ExitStack() as undo:
        try:
            owner = take(folder)
            undo.callback(owner.release)
            opened = DurableLearner(folder, owner, learner)
        except OSError as problem:
            raise files.failure(f"cannot open {folder}", problem) from None
        undo.pop_all()
    return opened


class DurableLearner(Displayed):
    """A learner whose every observed episode is on the disk; `open` makes it.

    `learner` is the learner itself, to be read: its options, multipliers and thresholds. What it observes past this one
    is not kept.

    Examples:
        >>> import numpy as np
        >>> import safespot as ss
        >>> problem = ss.problems.make("machine")
        >>> with ss.open("line-3", ss.Spot(**problem.interface, episodes=500, slack=1.0)) as learner:
        ...     action = learner.act(step=0, state=0, rng=np.random.default_rng(0))
        ...     learner.observe(ss.Episode([0, 0, 0], [action, 0], [10, 4], [[2], [0]], [[1], [0]]))
        ...     print(action, learner.episode)
        1 2

    """

    def __init__(self, folder: Path, owner: Lock, given: Learner | None) -> None:
        self.folder = folder
        self._owner = owner
        self._process = os.getpid()
        self._turn = threading.RLock()  # of the thread that reads or writes
        self._closed = False
        self._stopped = ""  # why it takes no more episodes
        self._meter: SafetyMeter | None = None  # made of the journals when it is asked for
        for kind in ("snapshot", "journal"):
            for left in folder.glob(f".{kind}-*.tmp"):  # by a process that died
                files.disk.remove(left)
        if not journal.numbered(folder, "snapshot") and not journal.numbered(folder, "journal"):
            begin(folder, given)
        if not journal.numbered(folder, "journal"):
            journal.name_of(folder, create=True)
        # Names that a killed process gave may not be on the disk yet.
        files.disk.sync_folder(folder)
        lock = lock_last(folder)
        with contextlib.ExitStack() as undo:
            if lock is not None:
                undo.callback(lock.release)
            bad, self.learner = last_snapshot(folder)
            if given is not None:
                check_same(folder, self.learner, given)
            found = catch_up(folder, self.learner)
            if found is None:  # it died between a snapshot and the journal after it
                restore_doubts(folder, self.learner, given)
                found, lock = self._new_journal()
                undo.callback(lock.release)
            assert lock is not None
            self._journal = journal.Writer(found, lock)
            if bad:
                self._compact(bad)
            undo.pop_all()

    def _facts(self) -> dict[str, Any]:
        return {"folder": str(self.folder), "learner": self.learner.name, **self.learner._facts()}

    # What a user reads

    @property
    def interface(self) -> Interface:
        """What the learner knows of the problem."""
        with self._alone():
            return self.learner.interface

    @property
    def policy(self) -> Policy:
        """``[H,S,A]``: pi_t, for the coming episode."""
        with self._alone():
            return self.learner.policy

    @property
    def threshold_bounds(self) -> tuple[Float, Float]:
        """(lower ``[m]``, upper ``[m]``) of the episodic thresholds."""
        with self._alone():
            return self.learner.threshold_bounds

    @property
    def episode(self) -> int:
        """t, the number of the coming episode, from 1: all before it are on the disk."""
        with self._alone():
            return self.learner.episode

    @property
    def meter(self) -> SafetyMeter:
        """What all episodes of the journals prove of the violation, without a model; it goes on with every episode."""
        with self._alone():
            self._check_open()
            if self._meter is None:
                self._meter = metered(self.folder, self.learner)
            return self._meter

    @property
    def first(self) -> int:
        """The number of the first episode that `replay` can go back to."""
        with self._alone():
            return earliest(self.folder)[0] + 1

    def replay(self) -> Iterator[tuple[Policy | None, Episode]]:
        """Every episode that is kept once more, with the learner's policy that played it; None: someone else's.

        The policy's array changes with the next one.
        """
        with self._alone():
            self._check_open()
            number, snapshot = earliest(self.folder)
            learner = self.learner.anew() if snapshot is None else load(snapshot)
        for found in journal.chain(self.folder, number):
            for k in range(len(found.records)):
                episode, played = found.episode(k), found.played(k)
                own = played is None or played == policy_digest(learner.state.pi)
                taken = np.arange(found.H), episode.states[:-1], episode.actions
                chances = found.records[k][
                    "probabilities"
                ]  # NaN: only the policy's digest was given
                if own and ((learner.state.pi[taken] != chances) & ~np.isnan(chances)).any():
                    raise InvalidFile(
                        f"{found.path}: episode {found.first + k + 1} was not played by the policy that this version "
                        "of safespot finds again. Go through it with the version that it was played with."
                    )
                yield (learner.state.pi if own else None), episode
                with contextlib.suppress(SolverError):  # as `observe` left it
                    learner.observe(episode, played)

    def mixture(self, certificate: Certificate) -> Mixture:
        """Return the policies that a certificate of what was played is about, to draw them as they were played."""
        return Mixture(certificate, self.replay, self.first, self.episode - self.first)

    # What a user does

    def act(self, step: int, state: int, rng: np.random.Generator) -> int:
        """Draw an action of the coming episode's policy."""
        with self._alone():
            self._check_open()
            return self.learner.act(step, state, rng)

    def observe(self, episode: Episode, played: ArrayLike | str | None = None) -> None:
        """Write the episode that was played down, and learn from it; an invalid one changes nothing.

        `played` says by which policy, ``[H,S,A]`` or its digest, where it was not `policy` (`Learner.observe`).
        When this returns, the episode is on the disk. When it raises an error about a file, it is not, and the learner
        stops: open it again once the disk works.
        """
        with self._alone():
            self._check_open()
            learner = self.learner
            _, policy, digest = learner.check(episode, played)
            pi = learner.state.pi if digest is None else policy  # None: only its digest is known
            taken = np.arange(learner.interface.H), episode.states[:-1], episode.actions
            chances = np.full(len(episode.actions), np.nan) if pi is None else pi[taken]
            self._record([journal.EpisodeRecord(episode, chances, digest)])

    def observe_group(self, records: Sequence[journal.EpisodeRecord]) -> None:
        """The same for several episodes, in this order, with one sync for all of them.

        Each says by the digest of its policy who played it, the learner's own too: a policy may have changed since.
        """
        with self._alone():
            self._check_open()
            for record in records:
                self.learner.check(record.episode, record.played)
            self._record(records)

    def _record(self, records: Sequence[journal.EpisodeRecord]) -> None:
        """Write checked episodes down, and learn from them."""
        failed: SolverError | None = None
        with (
            InterruptsDeferred(),  # an interrupt is no reason to stop
            self._stops_on_errors(
                " The episode is not recorded; those before it are, as far as their files are there. Open the learner "
                "again once the disk works."
            ),
        ):
            left = list(records)
            while left:
                if not self._journal.left:
                    self._compact()
                group, left = left[: self._journal.left], left[self._journal.left :]
                self._journal.write(group)
                if self._meter is not None:
                    count_episodes(self._meter, [record.episode for record in group])
                for record in group:
                    try:
                        self.learner.observe(record.episode, record.played)
                    except SolverError as problem:  # it is counted, and the next one plans again
                        failed = problem
            if failed is not None:
                raise failed

    def policies_after(self, numbers: Collection[int]) -> dict[int, Policy]:
        """The learner's policies after so many episodes each, found again from a snapshot and the journals."""
        with self._alone():
            self._check_open()
            found = {n: self.learner.policy for n in numbers if n == self.learner.episode - 1}
            missing = set(numbers) - set(found)
            if not missing:
                return found
            snapshots = journal.numbered(self.folder, "snapshot")
            before = [n for n in snapshots if n <= min(missing)]
            number, path = (before[-1], snapshots[before[-1]]) if before else earliest(self.folder)
            learner = self.learner.anew() if path is None else load(path)
            for one in journal.chain(self.folder, number):
                for k in range(len(one.records)):
                    if one.first + k in missing:
                        found[one.first + k] = learner.policy
                    with contextlib.suppress(SolverError):  # as `observe` left it
                        learner.observe(one.episode(k), one.played(k))
            return found

    def tickets_since(self, number: int) -> dict[bytes, int]:
        """The tickets of the episodes that were recorded after so many, with how many were before each."""
        with self._alone():
            starts = [n for n in journal.numbered(self.folder, "journal") if n <= number]
            found = journal.chain(self.folder, max(starts, default=number))
            return {
                record["ticket"].tobytes(): one.first + k
                for one in found
                for k, record in enumerate(one.records)
            }

    def save(self, path: str | Path) -> None:
        """A copy of the learner in a file of its own."""
        with self._alone():
            self.learner.save(path)

    def close(self) -> None:
        """Close the files and release the locks."""
        if os.getpid() != self._process:
            return  # they are the parent's
        with self._turn:
            self._closed = True
            self._journal.close()
            self._owner.release()

    def __enter__(self) -> DurableLearner:
        return self

    def __exit__(
        self, _: type[BaseException] | None, __: BaseException | None, ___: TracebackType | None
    ) -> None:
        self.close()

    # How it is kept

    @contextlib.contextmanager
    def _alone(self) -> Iterator[None]:
        """One thread at a time, and none of a forked process: its copy may be torn, and a lock held for ever."""
        if os.getpid() != self._process:
            raise InUse(
                f"{self.folder} is open in process {self._process}, from which this one was forked."
            )
        with self._turn:
            yield

    @contextlib.contextmanager
    def _stops_on_errors(self, more: str = "") -> Iterator[None]:
        """What goes wrong in here may have left the disk ahead of the learner, so nothing more is taken."""
        try:
            yield
        except SolverError:  # the episode is counted, and the next one tries to plan again
            raise
        except BaseException as problem:  # Ctrl-C too may have come between the two
            self._stopped = f"{type(problem).__name__}: {problem}"
            if not isinstance(problem, OSError):
                raise
            raise files.failure(f"cannot write to {self.folder}", problem, more) from None

    def _check_open(self) -> None:
        if self._closed:
            raise InvalidOption(f"{self.folder} is closed; open it again.")
        if self._stopped:
            raise InvalidFile(
                f"{self.folder} stopped after an error ({self._stopped}); open it again."
            )

    def _compact(self, damaged: Sequence[Path] = ()) -> None:
        """A snapshot of now, an empty journal after it, and no more than two snapshots, none of them damaged.

        None is removed before the new one was read back: where it cannot be, the others and the journals still give
        the learner.
        """
        now = snapshot_at(self.folder, self.learner.episode - 1)
        self.learner.save(now)
        found, lock = self._new_journal()
        try:
            writer = journal.Writer(found, lock)
        except BaseException:
            lock.release()  # else this process could not open the learner again
            raise
        self._journal.close()
        self._journal = writer
        try:
            load(now)
        except InvalidFile as problem:
            warn(
                f"{problem} The snapshots before it stay, and the learner is found again from these and the journals."
            )
            return
        bad = set(damaged) - {now}
        good = [
            path for path in journal.numbered(self.folder, "snapshot").values() if path not in bad
        ]
        for old in (*bad, *good[:-SNAPSHOTS]):
            files.disk.remove(old)

    def _new_journal(self) -> tuple[journal.Journal, Lock]:
        """An empty journal after the snapshot of now, locked."""
        f, number = self.learner.interface, self.learner.episode - 1
        path, snapshot = journal.place(self.folder, number), snapshot_at(self.folder, number)
        digest = bytes.fromhex(files.stored_checksum(snapshot))
        owner = journal.name_of(self.folder)
        journal.create(path, f.H, f.m, number, owner, digest, self.learner.doubts)
        return journal.read(path), journal.lock(path)
