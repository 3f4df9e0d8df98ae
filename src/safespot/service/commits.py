"""Group commit: one sync of the ledger for all requests that wait when it begins."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor

from ..errors import SafespotError
from .ledger import Ledger
from .refused import Refused


class Commits:
    """The syncs of a ledger. A request that waits here was written before; when it is answered, it is on the disk."""

    def __init__(self, ledger: Ledger, counts: Counter[str]) -> None:
        self.ledger, self.counts = ledger, counts
        self.stopped = ""  # why nothing more is taken
        self.disk_is_full = (
            False  # which stopped it: what fits into the ledger's file can still be written
        )
        self._waiters: list[asyncio.Future[None]] = []
        self._thread = ThreadPoolExecutor(1, "sync")
        self._wanted = asyncio.Event()

    async def wait(self) -> None:
        """Wait until everything that was written so far is on the disk."""
        done = asyncio.get_running_loop().create_future()
        self._waiters.append(done)
        self._wanted.set()
        await done

    async def run(
        self, needed: Callable[[], Iterable[bytes]], stop: Callable[[Exception], None]
    ) -> None:
        """One sync after the other; `needed` gives the lines that a new file begins with, `stop` takes an error."""
        while True:
            await self._wanted.wait()
            self._wanted.clear()
            waiters = self._next()
            try:
                if self.ledger.full:
                    self.ledger.turn(needed())
                else:
                    loop = asyncio.get_running_loop()
                    await loop.run_in_executor(self._thread, self.ledger.sync)
            except (OSError, SafespotError) as problem:
                stop(problem)
            self.counts["syncs"] += 1
            self.counts["synced"] += len(waiters)
            for waiter in waiters:
                if not waiter.done():
                    self._answer(waiter)

    def ask_for_room(self) -> None:
        """Have the next file of the ledger begun soon, where this one is full."""
        if self.ledger.full:
            self._wanted.set()

    def stop(self, why: str, *, disk_is_full: bool = False) -> None:
        """Take nothing more, and tell all that wait."""
        self.stopped, self.disk_is_full = why, disk_is_full
        for waiter in self._waiters:
            if not waiter.done():
                self._answer(waiter)

    def _next(self) -> list[asyncio.Future[None]]:
        """Those that the coming sync is for."""
        waiters, self._waiters = self._waiters, []
        return waiters

    def _answer(self, waiter: asyncio.Future[None]) -> None:
        if self.stopped:
            waiter.set_exception(Refused(503, "stopped", self.stopped))
        else:
            waiter.set_result(None)

    def close(self) -> None:
        """End the thread."""
        self._thread.shutdown()
