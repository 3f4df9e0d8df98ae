"""Connections with bounds: a request has so many bytes, head and all, and so much time to arrive.

uvicorn bounds neither: without this a client could keep a connection, and its memory, for ever with a request that
never ends.
"""

from __future__ import annotations

import asyncio

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

LARGEST = 2**20  # bytes of a request; of its body, `http.LARGEST`, which is answered in words
SLOWEST = 30.0  # seconds from its first byte to its last; the first one of a connection, from its beginning


class Connection(HttpToolsProtocol):
    """One client's connection."""

    _begun: float | None = None  # when the request that is arriving began; None: there is none
    _bytes = 0  # of it

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin to wait for the first request."""
        super().connection_made(transport)
        self._begun = self.loop.time()
        self._timer = self.loop.call_later(SLOWEST, self._look)

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop looking at it."""
        self._timer.cancel()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Some bytes of a request."""
        self._bytes += len(data)
        if self._bytes > LARGEST:
            self.transport.abort()
            return
        super().data_received(data)

    def on_message_begin(self) -> None:
        """The first byte of a request."""
        self._begun, self._bytes = self.loop.time(), 0
        super().on_message_begin()

    def on_message_complete(self) -> None:
        """The last one."""
        self._begun, self._bytes = None, 0
        super().on_message_complete()

    def _look(self) -> None:
        now = self.loop.time()
        if self._begun is not None and now - self._begun >= SLOWEST:
            self.transport.abort()
            return
        left = SLOWEST if self._begun is None else self._begun + SLOWEST - now
        self._timer = self.loop.call_later(max(left, 0.01), self._look)
