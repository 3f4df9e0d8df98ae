"""HTTP: who asks, what is asked, and an answer in JSON.

The requests that are made at every step are handled here, as plain ASGI: routing, validation and documentation by a
framework cost several times the decision itself. All others go to `app`, after the same checks of who asks.

An error is ``{"error": {"code": …, "message": …}}``: a word for programs and a sentence for people, never a traceback.
"""

from __future__ import annotations

import json
import logging
import re
import time
from bisect import bisect_left
from collections import Counter
from collections.abc import Awaitable, Callable, MutableMapping
from pathlib import Path
from typing import Any

from .desk import Desk
from .refused import Refused
from .tokens import ADMINISTER, ANYBODY, DECIDE, FILE, READ, Token, hashed, read_tokens

log = logging.getLogger("safespot.service")

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]


def _no_constant(name: str) -> float:
    raise ValueError(name)


_encode = json.JSONEncoder(separators=(",", ":"), allow_nan=False).encode
_decode = json.JSONDecoder(parse_constant=_no_constant).decode

LARGEST = 2**16  # bytes of a body
KEY = 200  # characters of an idempotency key
EPISODE = re.compile(r"/episodes/([0-9a-f]{32})/(decisions|outcomes|end|expire)")
RIGHTS = {"decisions": DECIDE, "outcomes": DECIDE, "end": DECIDE, "expire": ADMINISTER}
PUBLIC = {"/", "/health"}  # say nothing of anybody
LOCAL = {"127.0.0.1", "localhost", "[::1]", "::1"}
BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0)  # seconds
FAILED = "the service failed; its log says why."
RELOAD = 1.0  # seconds between two looks at the tokens


class Service:
    """The ASGI application."""

    def __init__(self, desk: Desk, rest: Callable[[Service], App]) -> None:
        self.desk = desk
        self.answers: Counter[tuple[str, int]] = Counter()  # by route and status
        self.times = [0] * (len(BUCKETS) + 1)  # of decisions, by bucket
        self.seconds = 0.0
        self._guarded = False  # whether tokens are asked for
        self._tokens: dict[str, Token] = {}  # by their hashes
        self._stamp: Any = None
        self._load_tokens()
        self._rest = rest(self)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request."""
        if scope["type"] == "lifespan":
            await self._lifespan(receive, send)
            return
        if scope["type"] != "http":  # a web socket: there is none
            return
        begun = time.perf_counter()
        try:
            headers = dict(scope["headers"])
            who = self._who(scope["path"], headers)
            scope["state"] = {"who": who}
            if scope["method"] == "POST" and scope["path"].startswith("/episodes"):
                route, status, answer = await self._post(scope["path"], headers, receive, who)
            else:
                await self._read(scope, receive, send)
                return
        except Refused as refused:
            route = _route(scope["path"])
            status, answer = refused.status, as_error(refused.code, refused.message)
        except Exception:
            log.exception("a request failed")
            route, status = _route(scope["path"]), 500
            answer = as_error("internal", FAILED)
        self.answers[route, status] += 1
        if route == "decisions":
            took = time.perf_counter() - begun
            self.times[bisect_left(BUCKETS, took)] += 1
            self.seconds += took
        await respond(send, status, answer)

    async def _read(self, scope: Scope, receive: Receive, send: Send) -> None:
        """A request that changes nothing; where it fails, the framework has answered before it raises."""
        try:
            await self._rest(scope, receive, send)
        except Exception:
            log.exception("a request failed")

    async def _post(
        self, path: str, headers: dict[bytes, bytes], receive: Receive, who: Token
    ) -> tuple[str, int, dict[str, Any]]:
        """A request that changes something: its route, the status and the answer."""
        desk = self.desk
        if path == "/episodes":
            check_right(who, DECIDE)
            key = headers.get(b"idempotency-key", b"").decode("latin-1").strip()
            if not 0 < len(key) <= KEY:
                raise Refused(
                    400,
                    "key",
                    f"give the header Idempotency-Key, of 1 to {KEY} characters: another one for every episode, and "
                    "the same one where a request is repeated.",
                )
            await body_of(headers, receive)
            begun = await desk.start(key, who.name)
            return "episodes", 201, {
                "episode": begun.id, "steps": desk.rules.known.H, "policy": begun.digest,
                "expires_after": desk.settings.expire_after,
            }  # fmt: skip
        found = EPISODE.fullmatch(path)
        if found is None:
            raise Refused(404, "unknown", "there is nothing at this address.")
        name, what = found[1], found[2]
        check_right(who, RIGHTS[what])
        body = await body_of(headers, receive)
        if what == "decisions":
            episode, step, action = desk.decide(name, body, who.name)
            answer = {"step": step, "action": action, "policy": episode.digest}
            if desk.rules.names.actions:
                answer["name"] = desk.rules.names.actions[action]
            return what, 200, answer
        if what == "outcomes":
            return what, 200, {"step": desk.outcome(name, body, who.name)}
        if what == "end":
            await desk.end(name, body, who.name)
            return what, 200, {"episode": name, "status": "ended"}
        await desk.expire(name, who.name)
        return what, 200, {"episode": name, "status": "expired"}

    def _who(self, path: str, headers: dict[bytes, bytes]) -> Token:
        """Whose token it is; anybody's where there are none."""
        if not self._guarded:
            host = headers.get(b"host", b"").decode("latin-1").rsplit(":", 1)[0]
            # Without tokens a page of another site must not reach it by a name that leads here.
            if host not in LOCAL or b"origin" in headers:
                _check_origin(host, headers)
            return ANYBODY
        kind, _, token = headers.get(b"authorization", b"").decode("latin-1").partition(" ")
        found = self._tokens.get(hashed(token.strip())) if kind.lower() == "bearer" else None
        if found is None:
            if path in PUBLIC:
                return Token("nobody", "", (), 0.0, "")
            raise Refused(401, "token", "give a valid token: Authorization: Bearer …")
        return found

    def _load_tokens(self) -> None:
        """Read the tokens where they have changed."""
        stamp = _stamp(Path(self.desk.durable.folder, FILE))
        if stamp == self._stamp:
            return
        found = read_tokens(self.desk.durable.folder)
        # Where all were revoked, nobody may, rather than everybody.
        self._guarded = bool(found) or self._guarded
        self._tokens = {each.sha256: each for each in found if each.revoked is None}
        self._stamp = stamp

    async def _lifespan(self, receive: Receive, send: Send) -> None:
        import asyncio

        await receive()
        await self.desk.run()

        async def look() -> None:
            told = ""
            while True:
                await asyncio.sleep(RELOAD)
                try:
                    self._load_tokens()
                    told = ""
                except Exception as exc:  # whatever it is, the tokens of before stay valid
                    if str(exc) != told:  # not every second
                        log.error("%s The tokens read before it stay in force.", exc)
                    told = str(exc)

        looking = asyncio.create_task(look())
        await send({"type": "lifespan.startup.complete"})
        await receive()
        looking.cancel()
        await self.desk.close()
        await send({"type": "lifespan.shutdown.complete"})


def check_right(who: Token, right: str) -> None:
    """Raise unless the token has that right."""
    if right not in who.rights:
        raise Refused(403, "right", f"this token may not {right}.")


def check_read(who: Token) -> None:
    """Raise unless the token may read."""
    check_right(who, READ)


async def body_of(headers: dict[bytes, bytes], receive: Receive) -> dict[str, Any]:
    """The JSON object that a request brings; nothing is an empty one."""
    parts: list[bytes] = []
    size = 0
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise Refused(400, "body", "the request ended early.")
        parts.append(message.get("body", b""))
        size += len(parts[-1])
        if size > LARGEST:
            raise Refused(413, "too-large", f"a body may have {LARGEST:,} bytes.")
        if not message.get("more_body", False):
            break
    data = b"".join(parts)
    if not data:
        return {}
    if not headers.get(b"content-type", b"").startswith(b"application/json"):
        raise Refused(415, "type", "the body must be JSON: Content-Type: application/json.")
    try:
        body = _decode(data.decode())
    except (ValueError, RecursionError):
        raise Refused(400, "body", "the body is not JSON.") from None
    if not isinstance(body, dict):
        raise Refused(422, "invalid", "the body must be a JSON object.")
    return body


async def respond(send: Send, status: int, answer: dict[str, Any]) -> None:
    """An answer in JSON."""
    data = _encode(answer).encode()
    headers = [
        (b"content-type", b"application/json"),
        (b"content-length", str(len(data)).encode()),
    ]
    if status == 401:
        headers.append((b"www-authenticate", b"Bearer"))
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": data})


def as_error(code: str, message: str) -> dict[str, Any]:
    """What a client is told."""
    return {"error": {"code": code, "message": message}}


def _check_origin(host: str, headers: dict[bytes, bytes]) -> None:
    origin = headers.get(b"origin", b"").decode("latin-1")
    same = origin in ("", f"http://{headers.get(b'host', b'').decode('latin-1')}")
    if host not in LOCAL or not same:
        raise Refused(
            403,
            "host",
            "without tokens this service answers its own machine only, by its own name.",
        )


def _stamp(path: Path) -> tuple[int, int] | None:
    """What changes when a file is replaced; None: there is none."""
    try:
        found = path.stat()
    except FileNotFoundError:
        return None
    return found.st_mtime_ns, found.st_ino


def _route(path: str) -> str:
    """The route of a path, for the counts: no path of a client's own making."""
    found = EPISODE.fullmatch(path)
    return found[2] if found else "episodes" if path == "/episodes" else "other"
