"""A decision service in this process, asked without a socket."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import safespot as ss
from safespot.service.app import make_service
from safespot.service.desk import Settings, open_desk
from safespot.service.http import Service
from safespot.service.server import warm_up

SIZES: dict[str, Any] = {"states": 3, "actions": 2, "horizon": 2, "constraints": 1}


def uniform(**more: Any) -> ss.Uniform:
    """A learner that compiles quickly."""
    return ss.Uniform(**{**SIZES, "start": None, "episodes": 1000, **more})


class Client:
    """Asks a service, and gives back status and answer."""

    def __init__(self, service: Service) -> None:
        self.service = service
        self.desk = service.desk
        self.token = ""
        self.headers: dict[str, str] = {}

    async def ask(
        self, method: str, path: str, body: Any = None, raw: bytes | None = None, **headers: str
    ) -> tuple[int, Any]:
        data = raw if raw is not None else b"" if body is None else json.dumps(body).encode()
        given = {"host": "127.0.0.1:8000", "content-type": "application/json", **self.headers}
        if self.token:
            given["authorization"] = f"Bearer {self.token}"
        given |= {name.replace("_", "-"): value for name, value in headers.items()}
        sent: list[Any] = []

        async def receive() -> Any:
            return {"type": "http.request", "body": data, "more_body": False}

        async def send(message: Any) -> None:
            sent.append(message)

        pairs = [(name.encode(), value.encode("latin-1")) for name, value in given.items() if value]
        scope = {
            "type": "http", "method": method, "path": path, "raw_path": path.encode(),
            "query_string": b"", "headers": pairs, "scheme": "http", "http_version": "1.1",
            "server": ("127.0.0.1", 8000), "client": ("127.0.0.1", 1), "root_path": "",
        }  # fmt: skip
        await self.service(scope, receive, send)
        answer = b"".join(message.get("body", b"") for message in sent[1:])
        kind = dict(sent[0]["headers"])[b"content-type"]
        return sent[0]["status"], json.loads(answer) if b"json" in kind else answer.decode()

    async def post(self, path: str, body: Any = None, **headers: str) -> tuple[int, Any]:
        return await self.ask("POST", path, body, None, **headers)

    async def get(self, path: str, **headers: str) -> tuple[int, Any]:
        return await self.ask("GET", path, None, None, **headers)

    async def start(self, key: str) -> str:
        status, answer = await self.post("/episodes", idempotency_key=key)
        assert status == 201, answer
        return f"/episodes/{answer['episode']}"

    async def play(self, path: str, reward: float = 0.5) -> list[int]:
        """All steps of an episode, without its end."""
        actions = []
        for step in range(SIZES["horizon"]):
            status, answer = await self.post(f"{path}/decisions", {"step": step, "state": step})
            assert status == 200, answer
            actions.append(answer["action"])
            status, answer = await self.post(f"{path}/outcomes", outcome(step, reward))
            assert status == 200, answer
        return actions

    async def whole(self, key: str, reward: float = 0.5) -> str:
        path = await self.start(key)
        await self.play(path, reward)
        status, answer = await self.post(f"{path}/end", {"state": 2})
        assert (status, answer["status"]) == (200, "ended")
        return path

    async def counted(self, episodes: int) -> None:
        """Wait until so many were counted."""
        for _ in range(2000):
            if self.desk.current.version >= episodes:
                return
            await asyncio.sleep(0.005)
        raise AssertionError(self.desk.current.version)


def outcome(step: int, reward: float = 0.5) -> dict[str, Any]:
    return {"step": step, "reward": reward, "constraints": [0.25], "thresholds": [0.75]}


@contextlib.asynccontextmanager
async def serving(
    folder: Path, learner: ss.Learner | None = None, **settings: Any
) -> AsyncIterator[Client]:
    """A service of a folder, closed at the end as SIGTERM would."""
    if learner is not None:
        ss.open(folder, learner).close()
    desk = open_desk(folder, Settings(**settings))
    warm_up(desk.durable.learner)  # nothing here waits for a compiler
    await desk.run()
    try:
        yield Client(make_service(desk))
    finally:
        await desk.close()


async def abandon(client: Client) -> None:
    """What a kill leaves: nothing is synced, learned or closed by us any more, but the locks go."""
    client.desk.commits.stopped = "killed"
    for task in client.desk._tasks:
        task.cancel()
    await asyncio.gather(*client.desk._tasks, return_exceptions=True)
    client.desk.commits.close()
    client.desk._thread.shutdown()
    client.desk.ledger.close()
    client.desk.durable.close()
