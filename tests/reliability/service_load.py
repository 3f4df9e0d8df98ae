"""Clients of a decision service, many at once, which try again until they are answered: for kills and restarts.

They speak plain HTTP over their own connections, know nothing of safespot, and note what was acknowledged.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
import socket
import subprocess
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.support.processes import python

Answer = tuple[int, dict[str, Any]]


class Connection:
    """One client's connection; a request is repeated until it is answered."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.reader: asyncio.StreamReader | None = None
        self.writer: asyncio.StreamWriter | None = None

    async def post(self, path: str, body: Any = None, key: str = "") -> Answer:
        data = b"" if body is None else json.dumps(body).encode()
        kind = "content-type: application/json\r\n" if data else ""
        named = f"idempotency-key: {key}\r\n" if key else ""
        head = (
            f"POST {path} HTTP/1.1\r\nhost: 127.0.0.1:{self.port}\r\n{kind}{named}"
            f"content-length: {len(data)}\r\n\r\n"
        )
        while True:
            try:
                return await self._once(head.encode() + data)
            except (OSError, EOFError, ValueError):
                self.close()
                await asyncio.sleep(0.02)

    async def _once(self, request: bytes) -> Answer:
        if self.writer is None:
            self.reader, self.writer = await asyncio.open_connection("127.0.0.1", self.port)
        assert self.reader is not None
        self.writer.write(request)
        head = await self.reader.readuntil(b"\r\n\r\n")
        length = int(head.lower().split(b"content-length:")[1].split(b"\r\n")[0])
        return int(head[9:12]), json.loads(await self.reader.readexactly(length))

    def close(self) -> None:
        if self.writer is not None:
            self.writer.close()
        self.reader = self.writer = None


@dataclass
class Load:
    """What some clients do and note; all signals are 0 or 1, and every state is 0."""

    port: int
    clients: int
    seed: int = 0
    stop: bool = False
    acknowledged: list[str] = field(default_factory=list)  # ids of ended episodes
    wrong: list[str] = field(default_factory=list)

    async def run(self) -> None:
        """Until `stop`."""
        await asyncio.gather(*(self.client(number) for number in range(self.clients)))

    async def client(self, number: int) -> None:
        connection = Connection(self.port)
        for k in range(10**9):
            if self.stop:
                break
            await self.episode(connection, f"{self.seed}-{number}-{k}")
        connection.close()

    async def episode(self, connection: Connection, key: str) -> None:
        rng = random.Random(key)
        begun = await self.ask(connection, "/episodes", None, key)
        if begun is None:
            return
        path = f"/episodes/{begun['episode']}"
        for step in range(begun["steps"]):
            body: Any = {"step": step, "state": 0}
            if await self.ask(connection, f"{path}/decisions", body) is None:
                return
            reward, constraint, threshold = (rng.choice([0, 1]) for _ in range(3))
            body = {
                "step": step,
                "reward": reward,
                "constraints": [constraint],
                "thresholds": [threshold] if rng.random() < 0.9 else None,
            }
            if await self.ask(connection, f"{path}/outcomes", body) is None:
                return
        if await self.ask(connection, f"{path}/end", {"state": 0}) is not None:
            self.acknowledged.append(begun["episode"])

    async def ask(
        self, connection: Connection, path: str, body: Any, key: str = ""
    ) -> dict[str, Any] | None:
        status, answer = await connection.post(path, body, key)
        if status >= 400:
            self.wrong.append(f"{path}: {status} {answer}")
            return None
        return answer


def free_port() -> int:
    """A port that nobody listens on now."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def served(folder: Path, port: int) -> subprocess.Popen[str]:
    """A service in a process of its own."""
    return python("-m", "safespot", "serve", str(folder), "--port", str(port))


async def answers(
    port: int, process: subprocess.Popen[str] | None = None, longest: float = 300.0
) -> None:
    """Wait until the service takes requests."""
    begun = time.monotonic()
    while time.monotonic() - begun < longest:
        if process is not None:
            assert process.poll() is None, process.stderr and process.stderr.read()
        with contextlib.suppress(OSError):
            _, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.close()
            return
        await asyncio.sleep(0.05)
    raise TimeoutError
