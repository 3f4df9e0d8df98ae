"""A small server of the live page, for this machine alone: the standard library's, read-only.

GET /              the page
GET /state.json    the document that it shows
GET /report.html   of a store, the whole report as of now
"""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Iterator
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from ..errors import InvalidFile, SafespotError
from ..experiments import Store
from ..files import as_path
from ..storage.following import Following
from .live import learner_document, live_page, store_document
from .page import whole

HOST = "127.0.0.1"
HTML, JSON = "text/html; charset=utf-8", "application/json"


class Watched:
    """A store, or the folder of a durable learner, and the document of it.

    Examples:
        >>> import safespot as ss
        >>> from safespot.report.server import Watched
        >>> problem = ss.problems.make("machine")
        >>> ss.open("line-3", ss.SpotEpochs(**problem.interface)).close()
        >>> Watched("line-3").document()["said"]
        ['0 episodes.', 'No policy is certified yet.']

    """

    def __init__(self, place: str | Path) -> None:
        self.place = as_path(place)
        self._turn = threading.Lock()  # requests come in threads
        self._made: tuple[frozenset[str], dict[str, Any]] | None = (
            None  # of a store: for which runs
        )
        self.source: Store | Following
        if self._has_store():
            self.source = Store(self.place)
        elif self._has_learner():
            self.source = Following(self.place)
        else:
            raise InvalidFile(
                f"{place} is neither a store nor the folder of a durable learner; expected what `safespot run`, "
                "`safespot sweep` or `ss.open` wrote."
            )

    def document(self) -> dict[str, Any]:
        """Return what is known now; an `InvalidFile` where what was watched is gone."""
        with self._turn:
            self._check_there()
            if isinstance(self.source, Following):
                self.source.update()
                found = self.source
                return {
                    **learner_document(found.learner, found.meter, found.curve),
                    "title": self.place.absolute().name,
                }
            return store_document(self.source)

    def report(self) -> str | None:
        """Return the report of a store as of now; None: there is none."""
        with self._turn:
            self._check_there()
            if isinstance(self.source, Following) or not self.source.finished():
                return None
            return whole(self.source)

    def _has_store(self) -> bool:
        return (self.place / "store.json").exists()

    def _has_learner(self) -> bool:
        return any(self.place.glob("snapshot-*"))

    def _check_there(self) -> None:
        there = self._has_learner() if isinstance(self.source, Following) else self._has_store()
        if not there:
            raise InvalidFile(
                f"{self.place} was removed or renamed. Put it back, or watch it where it is now."
            )


class Server(ThreadingHTTPServer):
    """Answers about what is watched."""

    daemon_threads = True

    def __init__(self, watched: Watched, port: int) -> None:
        super().__init__((HOST, port), _Handler)
        self.watched = watched
        self.page = live_page("state.json", watched.place.absolute().name).encode()

    @property
    def address(self) -> str:
        """Where the page is."""
        return f"http://{HOST}:{self.server_address[1]}/"

    def until_interrupted(self) -> None:
        """Until Ctrl-C."""
        with contextlib.suppress(KeyboardInterrupt):
            self.serve_forever()


@contextlib.contextmanager
def serve(watched: Watched, port: int = 0) -> Iterator[Server]:
    """A server that is bound, and closed at the end; `serve_forever` answers."""
    try:
        server = Server(watched, port)
    except OSError as problem:
        raise InvalidFile(
            f"cannot listen on {HOST}:{port}: {problem.strerror}. Give another --port, or 0."
        ) from None
    try:
        yield server
    finally:
        server.server_close()


class _Handler(BaseHTTPRequestHandler):
    server: Server
    server_version, sys_version = "safespot", ""

    def do_GET(self) -> None:
        """The page, the document, the report."""
        # A page of another site may not ask, by a name that it lets point to this machine.
        if self.headers.get("Host", "").rpartition(":")[0] not in (HOST, "localhost"):
            self._answer(HTTPStatus.FORBIDDEN, b"only for this machine\n", "text/plain")
            return
        watched = self.server.watched
        try:
            if self.path == "/":
                self._answer(HTTPStatus.OK, self.server.page, HTML)
            elif self.path == "/state.json":
                text = json.dumps(watched.document(), allow_nan=False, default=float)
                self._answer(HTTPStatus.OK, text.encode(), JSON)
            elif self.path == "/report.html" and (page := watched.report()) is not None:
                self._answer(HTTPStatus.OK, page.encode(), HTML)
            else:
                self._answer(HTTPStatus.NOT_FOUND, b"not found\n", "text/plain")
        except (SafespotError, OSError) as problem:  # such as a file that is being replaced
            self._answer(HTTPStatus.SERVICE_UNAVAILABLE, f"{problem}\n".encode(), "text/plain")

    def log_message(self, *_: Any) -> None:
        """Nobody reads a line a second."""

    def _answer(self, status: HTTPStatus, body: bytes, kind: str) -> None:
        with contextlib.suppress(ConnectionError):  # the browser has gone on
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.send_header("Cache-Control", "no-store")
            self.end_headers()
            self.wfile.write(body)
