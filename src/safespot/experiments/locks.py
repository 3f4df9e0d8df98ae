"""Who is at work on a run: a lock per run, which the kernel releases when its process dies.

Several sweeps on one host can so share a store. Locks of one host mean nothing to another: sweeps on two hosts must not
share a store at the same time.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
from pathlib import Path


class Claims:
    """The runs that this sweep is at work on; each is a locked, empty file."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.held: dict[str, int] = {}

    def take(self, run: str) -> bool:
        """Whether the run is now ours alone."""
        path = self.folder / run
        while True:
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:  # another process, or another sweep of this one
                os.close(descriptor)
                return False
            # Whoever held it may have removed the file between our open and our lock.
            with contextlib.suppress(FileNotFoundError):
                if os.stat(path).st_ino == os.fstat(descriptor).st_ino:
                    self.held[run] = descriptor
                    return True
            os.close(descriptor)

    def release(self, run: str) -> None:
        """Close and release the lock. The file is removed first, while it is still ours."""
        descriptor = self.held.pop(run)
        with contextlib.suppress(OSError):
            (self.folder / run).unlink()
        os.close(descriptor)

    def release_all(self) -> None:
        """Release every lock."""
        for run in list(self.held):
            self.release(run)
