"""What clients do that nobody asked for: all at once, too much, too slowly, with other words, on a wrong clock."""

from __future__ import annotations

import asyncio
import contextlib
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import safespot as ss
from safespot.service import connections, desk, ledger
from safespot.service.app import make_service
from safespot.service.tokens import add_token
from tests.support.serving import Client, abandon, outcome, serving, uniform

uvicorn = pytest.importorskip("uvicorn")


async def test_two_clients_end_one_episode(client: Client) -> None:
    path = await client.start("a")
    await client.play(path)
    ends = [client.post(f"{path}/end", {"state": k % 2}) for k in range(20)]
    found = [status for status, _ in await asyncio.gather(*ends)]
    assert found == [200, 409] * 10  # the first says how it ended
    await client.counted(1)
    assert client.desk.durable.episode == 2


async def test_one_key_begins_one_episode_for_each_client(tmp_path: Path) -> None:
    folder = tmp_path / "it"
    ss.open(folder, uniform()).close()
    tokens = [add_token(folder, name, ["decide"]) for name in ("a", "b")]
    async with serving(folder) as client:
        found = []
        for token in tokens:
            client.token = token
            found.append(set(await asyncio.gather(*(client.start("key") for _ in range(20)))))
        assert [len(each) for each in found] == [1, 1]
        assert found[0] != found[1]
        assert client.desk.open == 2


async def test_what_is_forgiven_for_rounding_is_cut_off(tmp_path: Path) -> None:
    """Else an outcome could be taken that the learner refuses when it is too late to say so."""
    ranges = {"reward": (0.1, 0.7), "constraints": (-3.3, 1.7)}
    async with serving(tmp_path / "it", uniform(ranges=ranges)) as client:
        path = await client.start("a")
        for step in range(2):
            await client.post(f"{path}/decisions", {"step": step, "state": 0})
            body = {**outcome(step), "reward": 0.7 + 0.6e-9, "constraints": [-3.3 - 5e-9]}
            assert (await client.post(f"{path}/outcomes", body))[0] == 200
        assert (await client.post(f"{path}/end", {"state": 0}))[0] == 200
        await client.counted(1)
        ((_, episode),) = list(client.desk.durable.replay())
        np.testing.assert_array_equal(episode.rewards, [0.7, 0.7])
        np.testing.assert_array_equal(episode.constraints, [[-3.3], [-3.3]])


@pytest.mark.parametrize("days", [-10, 10])
@pytest.mark.parametrize("client", [{"expire_after": 1.5}], indirect=True)
async def test_a_clock_that_jumps_expires_nothing(
    client: Client, days: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = await client.start("a")
    now = time.time()
    monkeypatch.setattr("time.time", lambda: now + 86_400 * days)
    await client.play(path)  # the last request comes after the jump
    await asyncio.sleep(0.9)
    assert client.desk.open == 1
    monkeypatch.undo()  # and it jumps back
    await asyncio.sleep(0.4)
    assert client.desk.open == 1
    await asyncio.sleep(1.0)
    assert client.desk.open == 0  # it was silent for so long


@pytest.mark.parametrize("hours", [-25, 25])
async def test_a_clock_that_is_set_over_a_restart_expires_nothing(
    hours: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with serving(tmp_path / "it", uniform(), expire_after=3.0) as client:
        path = await client.start("a")
        await client.play(path)
        await abandon(client)
    now = time.time()
    monkeypatch.setattr("time.time", lambda: now + 3600 * hours)
    async with serving(tmp_path / "it", expire_after=3.0) as again:
        await asyncio.sleep(0.9)  # it looks every 0.75 seconds
        assert (await again.post(f"{path}/end", {"state": 2}))[0] == 200


async def test_silence_adds_up_over_restarts(tmp_path: Path) -> None:
    """Else a service that is restarted every night would keep forgotten episodes for ever."""
    async with serving(tmp_path / "it", uniform()) as client:
        path = await client.start("forgotten")
    for k in range(5):
        async with serving(tmp_path / "it", expire_after=2.0) as client:
            await asyncio.sleep(0.7)
            await client.whole(str(k))
            _, answer = await client.get("/episodes")
            statuses = {each["episode"]: each["status"] for each in answer["episodes"]}
            if statuses.get(path[10:]) != "open":
                return
    raise AssertionError("3.5 seconds without a request, and it is open still")


async def test_a_key_that_was_forgotten_names_another_episode(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(desk, "FINISHED", 2)
    async with serving(tmp_path / "it", uniform()) as client:
        for key in ("a", "b", "c"):
            await client.whole(key)
        await client.counted(3)
        assert (await client.post("/episodes", idempotency_key="c"))[0] == 409
        again = await client.start("a")  # forgotten
        await client.play(again)
        await abandon(client)
        async with serving(tmp_path / "it") as last:
            assert last.desk.open == 1
            assert (await last.post(f"{again}/end", {"state": 2}))[0] == 200
            await last.counted(4)


async def test_ids_are_no_paths(client: Client) -> None:
    zeros = "0" * 32
    for name in ("..", "../../identity", "%2e%2e", zeros[1:], zeros + "0", "A" * 32, zeros[1:] + "\n", "\0" * 32,
                 "é" * 32, zeros + "/..", ""):  # fmt: skip
        for what in ("decisions", "outcomes", "end", "expire"):
            status, answer = await client.post(f"/episodes/{name}/{what}", {"state": 0})
            assert (status, answer["error"]["code"]) == (404, "unknown"), name


async def test_tokens_that_cannot_be_read_leave_those_of_before(tmp_path: Path) -> None:
    folder = tmp_path / "it"
    ss.open(folder, uniform()).close()
    token = add_token(folder, "a", ["read"])
    async with serving(folder) as client:
        client.token = token
        (folder / "tokens.json").write_text("{")
        with pytest.raises(ss.SafespotError, match="is damaged"):
            client.service._load_tokens()
        assert (await client.get("/policy"))[0] == 200
        (folder / "tokens.json").unlink()
        client.service._load_tokens()
        assert (await client.get("/policy"))[0] == 401  # nobody, rather than everybody


async def test_the_newest_lines_of_the_trail_are_read_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("safespot.service.ledger.BYTES", 10_000)
    async with serving(tmp_path / "it", uniform()) as client:
        for k in range(30):
            await client.whole(str(k))
        whole = list(ledger.trail(tmp_path / "it"))
        assert len(whole) > 180
        for most in (1, 5, 100, 1000):
            assert ledger.newest(tmp_path / "it", most) == whole[-most:]


async def test_a_task_that_dies_stops_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else ends would be acknowledged for ever, and never counted."""
    async with serving(tmp_path / "it", uniform()) as client:
        monkeypatch.setattr(client.desk.durable, "observe_group", lambda _: 1 / 0)
        await client.whole("a")
        for _ in range(100):
            await asyncio.sleep(0.01)
            if client.desk.stopped:
                break
        assert (await client.get("/health"))[0] == 503
        assert (await client.post("/episodes", idempotency_key="b"))[0] == 503
    async with serving(tmp_path / "it") as again:
        await again.counted(1)  # what was acknowledged is there


@contextlib.asynccontextmanager
async def listening(client: Client, state: Any = None) -> Any:
    """The service on a socket of this process; `state` is what its server knows of its connections."""
    from uvicorn.server import ServerState

    config = uvicorn.Config(make_service(client.desk), log_level="critical", lifespan="off")
    config.load()
    loop, state = asyncio.get_running_loop(), state or ServerState()
    server = await loop.create_server(
        lambda: connections.Connection(config, state, {}, loop), "127.0.0.1", 0
    )
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()


async def said_to(port: int, said: bytes, more: bytes = b"") -> bytes:
    """All that is answered until the connection is closed; `more` is sent 64 times."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(said)
    try:
        for _ in range(64 if more else 0):
            writer.write(more)
            await writer.drain()
        return await asyncio.wait_for(reader.read(), 5.0)
    except ConnectionError:
        return b""
    finally:
        writer.close()


async def test_a_request_that_never_ends_is_cut_off(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "SLOWEST", 0.3)
    slow = [b"", b"GET /hea", b"GET /health HTTP/1.1\r\nhost: 127.0.0.1\r\nx", b"POST /episodes HTTP/1.1\r\n"
            b"host: 127.0.0.1\r\nidempotency-key: a\r\ncontent-length: 9\r\n\r\n{"]  # fmt: skip
    async with serving(tmp_path / "it", uniform()) as client, listening(client) as port:
        found = await asyncio.gather(*(said_to(port, said) for said in slow))
        assert found == [b""] * len(slow)
        assert client.desk.open == 0


async def test_a_head_without_end_is_cut_off(tmp_path: Path) -> None:
    head = b"GET /health HTTP/1.1\r\nhost: 127.0.0.1\r\nconnection: close\r\n"
    async with serving(tmp_path / "it", uniform()) as client, listening(client) as port:
        assert (await said_to(port, head + b"\r\n")).startswith(b"HTTP/1.1 200")
        assert await said_to(port, head + b"x: ", b"y" * 2**15) == b""
