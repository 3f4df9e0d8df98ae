"""Who is at work on a run: a lock per run, which the kernel releases when its process dies.

Several sweeps on one host can so share a store. Locks of one host mean nothing to another: sweeps on two hosts must not
share a store at the same time.
"""

from __future__ import annotations

import contextlib
from pathlib import Path

from ..files import failure
from ..syscalls import Lock, take_lock


def at_work(folder: Path) -> tuple[set[str], set[str]]:
    """The runs that sweeps are at work on, and those that sweeps have left: their process died, so nothing is locked.

    A folder that is not there has neither: copies of a store may come without what is empty. Whether a claim is locked
    can only be tried: a sweep that wants it at the same instant takes it a little later.
    """
    working, left = set(), set()
    for path in folder.iterdir() if folder.is_dir() else ():
        try:
            lock = take_lock(path)
        except FileNotFoundError:  # finished in between
            continue
        except OSError:  # another user's: nobody can tell
            lock = None
        if lock is None:
            working.add(path.name)
        else:
            left.add(path.name)
            lock.release()
    return working, left


class Claims:
    """The runs that this sweep is at work on; each is a locked, empty file."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.held: dict[str, Lock] = {}

    def take(self, run: str) -> bool:
        """Whether the run is now ours alone."""
        path = self.folder / run
        while True:
            try:
                lock = take_lock(path, create=True)
            except OSError as problem:
                raise failure(f"cannot lock {path}", problem) from None
            if lock is None:  # another process has it, or another sweep of this one
                return False
            if lock.is_at(path):  # whoever held it may have removed the file before we locked it
                self.held[run] = lock
                return True
            lock.release()

    def release(self, run: str) -> None:
        """Release the lock. The file is removed first, while it is still ours."""
        lock = self.held.pop(run)
        with contextlib.suppress(OSError):
            (self.folder / run).unlink()
        lock.release()

    def release_all(self) -> None:
        """Release every lock."""
        for run in list(self.held):
            self.release(run)
