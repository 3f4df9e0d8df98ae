"""`safespot` on a slower disk, or without group commit: python -m tests.reliability.slow_service serve …

SYNC_DELAY    seconds that every sync takes more
ONE_EACH      if set, one sync for every request that waits, in the ledger and in the journal
"""

from __future__ import annotations

import asyncio
import os
import time

from safespot import files
from safespot.cli import main
from safespot.service import desk
from safespot.service.commits import Commits


class Slow(files.Disk):
    """Every sync takes longer, without the interpreter's lock, as a sync does."""

    def __init__(self, delay: float) -> None:
        self.delay = delay

    def sync_data(self, descriptor: int) -> None:
        time.sleep(self.delay)
        super().sync_data(descriptor)


def one_waiter(self: Commits) -> list[asyncio.Future[None]]:
    """What a sync is for without group commit."""
    waiters = self._waiters[:1]
    del self._waiters[:1]
    if self._waiters:
        self._wanted.set()
    return waiters


if __name__ == "__main__":
    if delay := float(os.environ.get("SYNC_DELAY", "0")):
        files.disk = Slow(delay)
    if os.environ.get("ONE_EACH"):
        Commits._next = one_waiter  # type: ignore[method-assign]
        desk.GROUP = 1
    main()
