"""Clients of a decision service, many at once, which try again until they are answered: for kills, restarts and speed.

    python -m tests.reliability.service_load FOLDER [--what episodes|decisions|ends] [--clients 32] [--sync-delay 0.005]

They speak plain HTTP over their own connections, know nothing of safespot, and note what was acknowledged.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import random
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections import deque
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from safespot import files
from tests.support.processes import python

Answer = tuple[int, dict[str, Any]]


class Connection:
    """One client's connection; a request is repeated until it is answered."""

    def __init__(self, port: int, token: str = "") -> None:
        self.port = port
        self.more = f"authorization: Bearer {token}\r\n" if token else ""
        self.reader: asyncio.StreamReader | None = None
        self.writer: asyncio.StreamWriter | None = None

    async def post(self, path: str, body: Any = None, key: str = "") -> Answer:
        data = b"" if body is None else json.dumps(body).encode()
        kind = "content-type: application/json\r\n" if data else ""
        named = f"idempotency-key: {key}\r\n" if key else ""
        head = (
            f"POST {path} HTTP/1.1\r\nhost: 127.0.0.1:{self.port}\r\n{self.more}{kind}{named}"
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
    until: str = "end"  # what an episode's last request is: decide, outcome or end
    seed: int = 0
    token: str = ""
    stop: bool = False
    open: deque[str] = field(default_factory=deque)  # ids of episodes that only lack their end
    acknowledged: list[str] = field(default_factory=list)  # ids of ended episodes
    seconds: dict[str, list[float]] = field(default_factory=dict)
    wrong: list[str] = field(default_factory=list)
    answers: dict[int, int] = field(default_factory=dict)

    async def run(self) -> None:
        """Until `stop`."""
        await asyncio.gather(*(self.client(number) for number in range(self.clients)))

    async def client(self, number: int) -> None:
        connection = Connection(self.port, self.token)
        for k in range(10**9):
            if self.stop:
                break
            await self.episode(connection, f"{self.seed}-{number}-{k}")
        connection.close()

    async def episode(self, connection: Connection, key: str) -> None:
        rng = random.Random(key)
        begun = await self.timed(connection, "start", "/episodes", None, key)
        if begun is None:
            return
        path = f"/episodes/{begun['episode']}"
        for step in range(begun["steps"]):
            body: Any = {"step": step, "state": 0}
            decided = await self.timed(connection, "decide", f"{path}/decisions", body)
            if decided is None:
                return
            if self.until == "decide":
                continue
            reward, constraint, threshold = (rng.choice([0, 1]) for _ in range(3))
            body = {
                "step": step,
                "reward": reward,
                "constraints": [constraint],
                "thresholds": [threshold] if rng.random() < 0.9 else None,
            }
            if await self.timed(connection, "outcome", f"{path}/outcomes", body) is None:
                return
        if self.until == "end":
            await self.end(connection, begun["episode"])
        elif self.until == "outcome":
            self.open.append(begun["episode"])

    async def end(self, connection: Connection, episode: str) -> None:
        if (
            await self.timed(connection, "end", f"/episodes/{episode}/end", {"state": 0})
            is not None
        ):
            self.acknowledged.append(episode)

    async def end_all(self) -> None:
        """End every episode that waits for it."""

        async def client() -> None:
            connection = Connection(self.port, self.token)
            while self.open:
                await self.end(connection, self.open.popleft())
            connection.close()

        await asyncio.gather(*(client() for _ in range(self.clients)))

    async def timed(
        self, connection: Connection, what: str, path: str, body: Any, key: str = ""
    ) -> dict[str, Any] | None:
        begun = time.perf_counter()
        status, answer = await connection.post(path, body, key)
        self.seconds.setdefault(what, []).append(time.perf_counter() - begun)
        self.answers[status] = self.answers.get(status, 0) + 1
        if status >= 400:
            self.wrong.append(f"{path}: {status} {answer}")
            return None
        return answer


def free_port() -> int:
    """A port that nobody listens on now."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def served(
    folder: Path, port: int, *more: str, program: str = "safespot", **environment: str
) -> subprocess.Popen[str]:
    """A service in a process of its own."""
    return python("-m", program, "serve", str(folder), "--port", str(port), *more, **environment)


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


def processor_seconds(pid: int) -> float:
    """What a process has used so far, all threads of it."""
    fields_ = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields_[11]) + int(fields_[12])) / os.sysconf("SC_CLK_TCK")


def syncs_a_second(folder: Path, many: int = 200) -> float:
    """What the disk takes of lines that are synced one by one."""
    path = folder / "syncs"
    with path.open("w+b") as file:
        files.disk.fill(file, bytes(many * 200))
        files.disk.sync(file.fileno())
        begun = time.perf_counter()
        for k in range(many):
            files.disk.put(file, 200 * k, b"x" * 200)
        took = time.perf_counter() - begun
    path.unlink()
    return many / took


@contextlib.asynccontextmanager
async def service(folder: Path, delay: float, *, one_each: bool) -> AsyncIterator[tuple[int, int]]:
    """A service that is to be measured: its port and its process; see `slow_service`."""
    port = free_port()
    process = served(
        folder, port, "--most-open", "1000000", program="tests.reliability.slow_service",
        SYNC_DELAY=str(delay), ONE_EACH="1" if one_each else "",
    )  # fmt: skip
    await answers(port, process)
    try:
        yield port, process.pid
    finally:
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=60)


def service_counts(port: int) -> dict[str, float]:
    """What the service counts itself."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics") as answer:
        lines = [line.split() for line in answer.read().decode().splitlines()]
    return {line[0]: float(line[1]) for line in lines if line[0] != "#"}


def slowest(times: list[float]) -> float:
    """The 99th percentile of sorted seconds, in milliseconds."""
    return round(1e3 * times[int(0.99 * len(times))], 1)


async def measure(
    folder: Path, what: str, clients: int, seconds: float, delay: float, *, one_each: bool
) -> dict[str, Any]:
    """How fast a service is, and what a request costs it."""
    disk = syncs_a_second(folder)
    until = {"episodes": "end", "decisions": "decide", "ends": "outcome"}[what]
    async with service(folder, delay, one_each=one_each) as (port, pid):
        load = Load(port, clients, until, seed=random.randrange(10**9))
        work = asyncio.create_task(load.run())
        await asyncio.sleep(seconds if what == "ends" else 1.0)
        if what == "ends":  # they were prepared until now
            load.stop = True
            await work
            work = asyncio.create_task(load.end_all())
        load.seconds.clear()
        before, begun, used = service_counts(port), time.perf_counter(), processor_seconds(pid)
        if what == "ends":
            await work
        else:
            await asyncio.sleep(seconds)
        took, used = time.perf_counter() - begun, processor_seconds(pid) - used
        times = {name: sorted(each) for name, each in load.seconds.items()}
        after = service_counts(port)
        load.stop = True
        await work
    requests = sum(map(len, times.values()))
    done = {
        name.split("_")[1]: after[name] - before[name] for name in after if name.endswith("_total")
    }
    return {
        **{f"{name} a second": round(len(each) / took) for name, each in times.items()},
        **{f"{name}, 99th percentile, ms": slowest(each) for name, each in times.items()},
        "requests": requests,
        "processor microseconds a request": round(1e6 * used / requests),
        "requests a sync": round(done["synced"] / max(1.0, done["syncs"]), 1),
        "episodes a journal's sync": round(done["counted"] / max(1.0, done["groups"]), 1),
        "the disk's syncs a second, one after the other": round(disk),
        "load": os.getloadavg()[0],
        "wrong": load.wrong[:3],
    }  # fmt: skip


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="How fast a decision service is.")
    parser.add_argument("folder", type=Path, help="of a new durable learner that begins in state 0")
    parser.add_argument("--what", choices=["episodes", "decisions", "ends"], default="episodes")
    parser.add_argument("--clients", type=int, default=32)
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument(
        "--sync-delay", type=float, default=0.0, help="seconds that every sync takes more"
    )
    parser.add_argument(
        "--one-each", action="store_true", help="one sync for every request, for comparison"
    )
    given = parser.parse_args()
    found = asyncio.run(
        measure(
            given.folder,
            given.what,
            given.clients,
            given.seconds,
            given.sync_delay,
            one_each=given.one_each,
        )
    )
    json.dump(found, sys.stdout, indent=2)
