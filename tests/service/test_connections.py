"""Connections of clients: what arrives on them in parts, and that those who leave are forgotten."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from tests.service.test_attacks import listening
from tests.service.test_edges import run
from tests.support.serving import Client

server = pytest.importorskip("uvicorn.server")


def request(path: str, body: bytes, head: str = "") -> bytes:
    lines = f"POST {path} HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-length: {len(body)}\r\n{head}\r\n"
    return lines.encode() + body


async def answered(reader: asyncio.StreamReader) -> tuple[str, dict[str, object]]:
    """The first line of an answer, and what it brings."""
    head = (await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), 2.0)).decode().lower()
    length = int(head.partition("content-length: ")[2].split("\r\n")[0])
    return head.split("\r\n")[0], json.loads(await reader.readexactly(length))


def test_a_body_that_arrives_after_its_head_is_taken(tmp_path: Path) -> None:
    async def test(client: Client) -> None:
        async with listening(client) as port:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(request("/episodes", b"", "idempotency-key: a\r\n"))
            _, begun = await answered(reader)
            typed = "content-type: application/json\r\n"
            asked = request(
                f"/episodes/{begun['episode']}/decisions", b'{"step": 0, "state": 0}', typed
            )
            writer.write(asked[:-9])
            await asyncio.sleep(0.05)
            writer.write(asked[-9:])
            first, answer = await answered(reader)
            assert (first, answer["step"]) == ("http/1.1 200 ok", 0)
            writer.close()

    run(test, tmp_path)  # fmt: skip


def test_a_client_that_has_left_is_forgotten(tmp_path: Path) -> None:
    """Else the service would wait for it when it stops."""

    async def test(client: Client) -> None:
        state = server.ServerState()
        async with listening(client, state) as port:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(request("/episodes", b"", "idempotency-key: a\r\n"))
            await answered(reader)
            assert len(state.connections) == 1
            writer.close()
            for _ in range(100):
                await asyncio.sleep(0.01)
                if not state.connections:
                    return
            raise AssertionError("it is known still")

    run(test, tmp_path)
