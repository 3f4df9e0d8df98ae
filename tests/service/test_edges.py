"""Requests at the edge of what is taken, what is told of them, and what a service finds when it is opened again."""

from __future__ import annotations

import asyncio
import hashlib
import json
import threading
from pathlib import Path
from typing import Any

import pytest

import safespot as ss
from safespot.service import connections, desk, http, ledger
from safespot.service.desk import Settings, open_desk
from safespot.service.names import Names
from safespot.service.refused import Refused
from tests.service.test_attacks import listening
from tests.support.serving import SIZES, Client, outcome, serving, uniform

# --- The document says what is taken


def schema(document: Any, path: str) -> Any:
    """Of the body that a request brings."""
    return document["paths"][path]["post"]["requestBody"]["content"]["application/json"]["schema"]


async def test_the_document_says_how_an_episode_begins_and_what_may_be_refused(
    client: Client,
) -> None:
    _, document = await client.get("/openapi.json")
    start = document["paths"]["/episodes"]["post"]
    (key,) = start["parameters"]
    assert (key["name"], key["in"], key["required"]) == ("Idempotency-Key", "header", True)
    assert (key["schema"]["minLength"], key["schema"]["maxLength"]) == (1, http.KEY)
    assert document["security"] == [{}, {"token": []}]  # with a token, or where there are none
    for path, item in document["paths"].items():
        for method, operation in item.items():
            codes = set(operation["responses"])
            assert codes >= {
                str(k) for k in (400, 401, 403, 404, 409, 410, 413, 415, 422, 429, 503)
            }
            last = path.rpartition("/")[2]
            wanted = method == "post" and last in ("decisions", "outcomes", "end")
            assert ("requestBody" in operation) is wanted
            done = {code for code in codes if code.startswith("2")}
            assert done == {"201" if (path, method) == ("/episodes", "post") else "200"}
    assert document == (await client.get("/openapi.json"))[1]


# --- Bodies and heads


def test_a_body_may_come_in_parts() -> None:
    parts = [b'{"step"', b": 0, ", b'"state": 2}']

    async def read(messages: list[dict[str, Any]]) -> Any:
        left = iter(messages)

        async def receive() -> Any:
            return next(left)

        return await http.body_of({b"content-type": b"application/json"}, receive)

    sent = [{"type": "http.request", "body": part, "more_body": True} for part in parts]
    last = {"type": "http.request"}  # neither a body nor more of it
    assert asyncio.run(read([*sent, last])) == {"step": 0, "state": 2}
    assert asyncio.run(read([last])) == {}
    with pytest.raises(Refused, match="ended early"):
        asyncio.run(read([*sent[:1], {"type": "http.disconnect"}]))


async def test_a_connection_that_is_idle_between_requests_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "SLOWEST", 0.2)
    async with serving(tmp_path / "it", uniform()) as client, listening(client) as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        for wait in (0.0, 0.5):
            await asyncio.sleep(wait)
            writer.write(b"GET /health HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n")
            head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), 5.0)
            assert head.startswith(b"HTTP/1.1 200")
            length = int(head.lower().partition(b"content-length: ")[2].split(b"\r\n")[0])
            assert json.loads(await reader.readexactly(length))["status"] == "ok"
        writer.write(b"GET /hea")  # and one that begins then is cut off in its turn
        assert await asyncio.wait_for(reader.read(), 5.0) == b""
        writer.close()


async def test_requests_are_bounded_one_by_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Many small ones on one connection are more than one may be, and are answered."""
    monkeypatch.setattr(connections, "LARGEST", 300)
    ask = b"GET /health HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n"
    async with serving(tmp_path / "it", uniform()) as client, listening(client) as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        for _ in range(20):
            writer.write(ask)
            head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), 5.0)
            length = int(head.lower().partition(b"content-length: ")[2].split(b"\r\n")[0])
            await reader.readexactly(length)
        writer.write(ask[:-2] + b"x: " + b"y" * 400)
        assert await asyncio.wait_for(reader.read(), 5.0) == b""
        writer.close()


async def test_a_client_that_has_left_is_forgotten(client: Client) -> None:
    """Else the service would wait for it when it stops."""
    state = pytest.importorskip("uvicorn.server").ServerState()
    async with listening(client, state) as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"GET /health HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n")
        await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), 5.0)
        assert len(state.connections) == 1
        writer.close()
        for _ in range(200):
            await asyncio.sleep(0.01)
            if not state.connections:
                return
        raise AssertionError("it is known still")


# --- Episodes


async def test_numbers_at_the_end_of_their_range_are_taken_and_beyond_it_refused(
    tmp_path: Path,
) -> None:
    async with serving(
        tmp_path / "it", uniform(ranges={"reward": (-2.0, 5.0), "constraints": (0.0, 1.0)})
    ) as client:
        path = await client.start("a")
        await client.post(f"{path}/decisions", {"step": 0, "state": 0})
        for reward in (-2.0 - 1e-6, 5.0 + 1e-6, -10.0):
            status, answer = await client.post(f"{path}/outcomes", outcome(0, reward))
            assert (status, answer["error"]["code"]) == (422, "invalid")
            assert "range -2 to 5" in answer["error"]["message"]
        assert (await client.post(f"{path}/outcomes", outcome(0, 5.0)))[0] == 200


async def test_what_comes_after_the_end_comes_too_late(client: Client) -> None:
    first = await client.start("first")  # it holds the other back
    path = await client.whole("a")
    status, answer = await client.post(f"{path}/expire")
    assert (status, answer["error"]["code"]) == (409, "ended")
    await client.post(f"{first}/decisions", {"step": 0, "state": 0})
    assert await client.post(f"{first}/expire") == (
        200,
        {"episode": first[10:], "status": "expired"},
    )
    await client.counted(2)
    assert await client.post(f"{first}/expire") == (
        200,
        {"episode": first[10:], "status": "expired"},
    )
    for name, status, code in (
        (path, 409, "finished"),
        (f"/episodes/{'0' * 32}", 404, "unknown"),
    ):
        found, answer = await client.post(f"{name}/expire")
        assert (found, answer["error"]["code"]) == (status, code)
    assert (client.desk.open, client.desk.held_back) == (0, 0)
    counted = {
        name: client.desk.counts[name] for name in ("started", "ended", "expired", "counted")
    }
    assert counted == {"started": 2, "ended": 1, "expired": 1, "counted": 2}
    assert 1 <= client.desk.counts["groups"] <= 2


async def test_an_episode_that_has_expired_takes_nothing_more(client: Client) -> None:
    await client.start("first")  # it holds the other back
    path = await client.start("a")
    await client.post(f"{path}/decisions", {"step": 0, "state": 0})
    for _ in range(2):
        assert (await client.post(f"{path}/expire"))[0] == 200
    assert (client.desk.open, client.desk.held_back) == (1, 1)
    for what, body in (("outcomes", outcome(0)), ("decisions", {"step": 1, "state": 0})):
        status, answer = await client.post(f"{path}/{what}", body)
        assert (status, answer["error"]["code"]) == (410, "expired")


async def test_no_more_episodes_wait_than_may(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those that are open already may go on; an administrator can expire the one that holds the others back."""
    monkeypatch.setattr(desk, "HELD_BACK", 3_000)  # bytes
    async with serving(tmp_path / "it", uniform()) as client:
        first, other = await client.start("first"), await client.start("other")
        for k in range(100):
            status, answer = await client.post("/episodes", idempotency_key=str(k))
            if status != 201:
                break
            path = f"/episodes/{answer['episode']}"
            await client.play(path)
            assert (await client.post(f"{path}/end", {"state": 2}))[0] == 200
        assert (status, answer["error"]["code"]) == (429, "held-back")
        assert "/episodes" in answer["error"]["message"]  # where the one can be found
        assert 0 < k == client.desk.held_back
        await client.play(other)
        assert (await client.post(f"{other}/end", {"state": 2}))[0] == 200
        _, answer = await client.get("/episodes")
        assert answer["episodes"][0]["episode"] == first[10:]
        assert (await client.post(f"{first}/expire"))[0] == 200
        await client.counted(k + 1)
        await asyncio.sleep(0.05)
        await client.start("again")


@pytest.mark.parametrize(("options", "most"), [({}, 2), ({"explore_budget": 5.0}, 1)])
async def test_a_learner_that_explores_on_a_budget_plays_one_episode_at_a_time(
    options: dict[str, Any], most: int, tmp_path: Path
) -> None:
    async with serving(tmp_path / "it", ss.SpotEpochs(**SIZES, start=0, **options)) as client:
        found = [(await client.post("/episodes", idempotency_key=key))[0] for key in "ab"]
        assert found == [201, 201 if most > 1 else 429]


async def test_a_disk_that_takes_no_line_stops_the_service(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    async with serving(tmp_path / "it", uniform()) as client:
        path = await client.start("a")
        with monkeypatch.context() as full:
            full.setattr("safespot.files.disk.fill", fails)
            status, answer = await client.post(f"{path}/decisions", {"step": 0, "state": 0})
        assert (status, answer["error"]["code"]) == (503, "stopped")
        assert "disk is full" in answer["error"]["message"]
        assert (await client.post(f"{path}/decisions", {"step": 0, "state": 0}))[0] == 503


# --- What is told


async def test_what_is_proven_of_a_policy_is_told(client: Client, tmp_path: Path) -> None:
    _, answer = await client.get("/certificate")
    assert (answer["certificates"], answer["certified"]) == (0, None)
    assert "`uniform` issues none by itself" in answer["note"]
    async with serving(tmp_path / "epochs", ss.SpotEpochs(**SIZES, start=0)) as epochs:
        ref = {"certificates": 0, "certified": None, "note": "nothing is proven yet."}
        assert await epochs.get("/certificate") == (200, ref)


async def test_evidence_and_policy_are_told_by_their_names(tmp_path: Path) -> None:
    folder = tmp_path / "it"
    ss.open(folder, uniform()).close()
    (folder / "service.toml").write_text(
        'states = ["well", "ill", "dead"]\nactions = ["less", "more"]\nconstraints = ["dose"]\n'
    )
    async with serving(folder) as client:
        assert (await client.get("/evidence"))[1]["constraints"] == ["dose"]
        assert (await client.get("/policy"))[1]["actions"] == ["less", "more"]
        path = await client.start("a")
        for state in ("dead", 2):  # the same state
            status, _ = await client.post(f"{path}/decisions", {"step": 0, "state": state})
            assert status == 200
        status, answer = await client.post(f"{path}/decisions", {"step": 1, "state": 3})
        assert status == 422
        assert "from 0 to 2, or one of well, ill, dead" in answer["error"]["message"]


# --- Names


def test_signals_are_a_list_or_are_named() -> None:
    names = Names(constraints=("dose", "cost"))
    assert names.signals("constraints", {"cost": 2, "dose": 1}, 2) == [1.0, 2.0]
    assert names.signals("constraints", [1, 2], 2) == [1.0, 2.0]
    for wrong in ([1], [1, 2, 3], {"dose": 1}, "12", 1.0, [1, True], [1, float("inf")]):
        with pytest.raises(Refused):
            names.signals("constraints", wrong, 2)


# --- The ledger


def line(event: dict[str, Any]) -> bytes:
    """As every version writes one: eight bytes of BLAKE2b as hexadecimal digits, then JSON."""
    text = json.dumps(event, separators=(",", ":")).encode()
    return hashlib.blake2b(text, digest_size=8).hexdigest().encode() + b" " + text + b"\n"


def opened(folder: Path) -> tuple[list[Any], int, int]:
    """The events of a folder's ledger, where it goes on, and how much of it was synced."""
    book = ledger.Ledger(folder)
    book.close()
    return book.events, book.end, book.synced


EVENTS = [{"what": "start", "episode": str(k)} for k in range(3)]


def test_a_ledger_is_read_as_it_was_written(tmp_path: Path) -> None:
    assert opened(tmp_path) == ([], 0, 0)
    place = tmp_path / "requests-000000000000"
    assert place.stat().st_mode & 0o077 == 0  # for nobody else
    assert place.stat().st_size >= ledger.BYTES
    data = b"".join(map(line, EVENTS))
    assert data == b"".join(map(ledger.as_line, EVENTS))
    place.write_bytes(data + bytes(100))
    (tmp_path / ".requests-000000000001.x.tmp").touch()  # by a process that died
    assert opened(tmp_path) == (EVENTS, len(data), len(data))
    assert [path.name for path in tmp_path.iterdir()] == [place.name]


def test_a_torn_end_is_cut_off_and_told(tmp_path: Path) -> None:
    place = tmp_path / "requests-000000000000"
    whole = b"".join(map(line, EVENTS[:2]))
    place.write_bytes(whole + line(EVENTS[2])[:-9] + bytes(100))
    with pytest.warns(UserWarning, match=f"from byte {len(whole)} on, which were not synced"):
        assert opened(tmp_path) == (EVENTS[:2], len(whole), len(whole))
    assert place.read_bytes().rstrip(b"\0") == whole  # and is not there the next time
    assert opened(tmp_path) == (EVENTS[:2], len(whole), len(whole))


def test_damage_of_what_was_synced_is_an_error(tmp_path: Path) -> None:
    lines = [line(event) for event in EVENTS]
    last = line({**EVENTS[2], "synced": len(lines[0] + lines[1])})
    torn = lines[0] + b"x" + lines[1][1:]
    place = tmp_path / "requests-000000000000"
    place.write_bytes(torn + last)
    with pytest.raises(ss.errors.InvalidFile, match=f"damaged at byte {len(lines[0])}"):
        ledger.Ledger(tmp_path)
    place.write_bytes(torn + line({**EVENTS[2], "synced": len(lines[0])}))
    with pytest.warns(UserWarning, match="torn end"):  # the second line was not on the disk yet
        assert opened(tmp_path)[0] == EVENTS[:1]


def test_a_ledger_has_one_writer_and_lets_go_of_files_that_are_full(tmp_path: Path) -> None:
    book = ledger.Ledger(tmp_path)
    with pytest.raises(ss.errors.InUse, match="another process is writing"):
        ledger.Ledger(tmp_path)
    before = book._lock
    book.turn([])
    assert before is not None
    assert before.file.closed
    book.close()
    ledger.Ledger(tmp_path).close()


# --- Tokens


# --- Opening


def test_a_folder_that_cannot_be_served_is_free_again(tmp_path: Path) -> None:
    ss.open(tmp_path, uniform()).close()
    (tmp_path / "service.toml").write_text("wheels = 4\n")
    for _ in range(2):
        with pytest.raises(ss.errors.InvalidFile, match="unknown entry 'wheels'"):
            open_desk(tmp_path, Settings())
    ss.open(tmp_path).close()


async def test_a_service_that_is_closed_leaves_no_thread(tmp_path: Path) -> None:
    before, known = set(threading.enumerate()), []
    async with serving(tmp_path / "it", uniform()) as client:
        await client.whole("a")
        await client.counted(1)
        known.append(client.desk)
        assert {"sync_0", "learner_0"} <= {each.name for each in threading.enumerate()}
    left = set(threading.enumerate()) - before
    assert not [each.name for each in left if each.name in ("sync_0", "learner_0")]
