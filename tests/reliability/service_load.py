"""Clients of a decision service, many at once, which try again until they are answered: for kills, restarts and speed.

    python -m tests.reliability.service_load FOLDER [--clients 32] [--seconds 10]

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
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

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
    decisions_alone: bool = False  # nothing but decisions, of episodes that stay open
    seed: int = 0
    token: str = ""
    stop: bool = False
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
            if self.decisions_alone:
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
        if self.decisions_alone:
            return
        if await self.timed(connection, "end", f"{path}/end", {"state": 0}) is not None:
            self.acknowledged.append(begun["episode"])

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


def served(folder: Path, port: int, *more: str) -> subprocess.Popen[str]:
    """A service in a process of its own."""
    return python("-m", "safespot.cli", "serve", str(folder), "--port", str(port), *more)


async def answers(port: int, process: subprocess.Popen[str], longest: float = 300.0) -> None:
    """Wait until the service takes requests."""
    begun = time.monotonic()
    while time.monotonic() - begun < longest:
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


async def measure(
    folder: Path, clients: int, seconds: float, *, decisions_alone: bool
) -> dict[str, Any]:
    """How fast a service is, and what a request costs it."""
    port = free_port()
    process = served(folder, port, "--most-open", "1000000")
    await answers(port, process)
    load = Load(port, clients, decisions_alone, seed=random.randrange(10**9))
    work = asyncio.create_task(load.run())
    await asyncio.sleep(1.0)
    load.seconds.clear()
    begun, used = time.perf_counter(), processor_seconds(process.pid)
    await asyncio.sleep(seconds)
    took, used = time.perf_counter() - begun, processor_seconds(process.pid) - used
    times = {what: sorted(each) for what, each in load.seconds.items()}
    requests = sum(map(len, times.values()))
    load.stop = True
    await work
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics") as answer:
        lines = [line.split() for line in answer.read().decode().splitlines()]
    counts = {line[0]: float(line[1]) for line in lines if line[0] != "#"}
    process.send_signal(signal.SIGTERM)
    process.wait(30)
    return {
        "requests/s": round(requests / took),
        "decisions/s": round(len(times["decide"]) / took),
        "durable ends/s": round(len(times.get("end", ())) / took),
        "p99 of a decision, ms": round(1e3 * times["decide"][int(0.99 * len(times["decide"]))], 1),
        "processor microseconds a request": round(1e6 * used / requests),
        "requests a sync": counts["safespot_synced_total"] / counts["safespot_syncs_total"],
        "episodes a journal's sync": counts["safespot_counted_total"]
        / max(1.0, counts["safespot_groups_total"]),
        "load": os.getloadavg()[0],
        "wrong": load.wrong[:3],
    }


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="How fast a decision service is.")
    parser.add_argument("folder", type=Path, help="of a new durable learner that begins in state 0")
    parser.add_argument("--clients", type=int, default=32)
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--decisions-alone", action="store_true")
    given = parser.parse_args()
    found = asyncio.run(
        measure(given.folder, given.clients, given.seconds, decisions_alone=given.decisions_alone)
    )
    json.dump(found, sys.stdout, indent=2)
