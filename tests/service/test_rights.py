"""Who may ask for what, and what is told of the state."""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

import safespot as ss
from safespot.service.app import make_service
from safespot.service.desk import Settings, open_desk
from safespot.service.ledger import trail
from safespot.service.names import read_names
from safespot.service.refused import Refused
from safespot.service.server import bind, is_loopback, serve
from safespot.service.tokens import RIGHTS, add_token, check_learner, read_tokens, revoke_token
from safespot.syscalls import take_lock
from tests.support.serving import Client, serving, uniform

READS = ["/state.json", "/policy", "/certificate", "/evidence", "/episodes", "/metrics"]


async def test_rights_are_separate(tmp_path: Path) -> None:
    folder = tmp_path / "it"
    ss.open(folder, uniform()).close()
    tokens = {right: add_token(folder, right, [right]) for right in RIGHTS}
    assert all(token not in (folder / "tokens.json").read_text() for token in tokens.values())
    async with serving(folder) as client:
        assert (await client.get("/policy"))[0] == 401
        assert (await client.get("/health"))[0] == 200
        client.token = "x" + tokens["read"][1:]
        assert (await client.get("/policy"))[0] == 401
        client.token = tokens["read"]
        assert [(await client.get(path))[0] for path in READS] == [200] * len(READS)
        assert (await client.get("/audit"))[0] == 403
        assert (await client.post("/episodes", idempotency_key="a"))[0] == 403
        client.token = tokens["decide"]
        assert [(await client.get(path))[0] for path in READS] == [403] * len(READS)
        path = await client.whole("a")
        assert (await client.post(f"{path}/expire"))[0] == 403
        client.token = tokens["administer"]
        status, answer = await client.get("/audit")
        assert status == 200
        assert {line["by"] for line in answer["lines"]} == {"decide"}
        revoke_token(folder, "administer")
        client.service._load_tokens()
        assert (await client.get("/audit"))[0] == 401
        for name in ("decide", "read"):
            revoke_token(folder, name)
        client.service._load_tokens()
        assert (await client.get("/policy"))[0] == 401  # nobody, rather than everybody
    assert [line["what"] for line in trail(folder)] == [
        "start", "decide", "outcome", "decide", "outcome", "end"
    ]  # fmt: skip
    assert all(each.revoked_by for each in read_tokens(folder))


async def test_without_tokens_only_this_machine_is_answered(tmp_path: Path) -> None:
    async with serving(tmp_path / "it", uniform()) as client:
        assert (await client.get("/policy", host="127.0.0.1:8000"))[0] == 200
        assert (await client.get("/policy", host="evil.example:8000"))[0] == 403
        assert (await client.get("/policy", origin="http://evil.example"))[0] == 403
        assert (await client.get("/policy", origin="http://127.0.0.1:8000"))[0] == 200
        assert (await client.get("/nothing"))[0] == 404
        assert (await client.ask("DELETE", "/policy"))[0] == 405
    with pytest.raises(ss.SafespotError, match="listens to this"):
        serve(tmp_path / "it", "0.0.0.0", 0, Settings(), lambda desk: None)
    assert [is_loopback(host) for host in ("127.0.0.1", "::1", "localhost", "0.0.0.0", "x")] == [
        True, True, True, False, False
    ]  # fmt: skip


async def test_a_failure_shows_no_traceback(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = await client.start("a")
    monkeypatch.setattr(client.desk, "decide", lambda *_: 1 / 0)
    monkeypatch.setattr("safespot.service.app._evidence", lambda _: 1 / 0)
    decided = await client.post(f"{path}/decisions", {"step": 0, "state": 0})
    for status, answer in (decided, await client.get("/evidence")):
        assert (status, answer["error"]["code"]) == (500, "internal")
        assert "Zero" not in json.dumps(answer)


async def test_what_is_told_of_the_state(client: Client) -> None:
    for k in range(3):
        await client.whole(str(k))
    await client.counted(3)
    _, evidence = await client.get("/evidence")
    assert evidence["episodes"] == 3
    (low,), (high,) = evidence["violation_bounds"]
    assert low <= 3 * 2 * 0.5 <= high  # 0.75 was asked for, 0.25 was there
    _, policy = await client.get("/policy")
    assert policy["probabilities"][0][0] == [0.5, 0.5]
    _, metrics = await client.get("/metrics")
    assert "safespot_counted_total 3" in metrics
    assert 'safespot_requests_total{route="decisions",status="200"} 6' in metrics
    status, page = await client.get("/")
    assert status == 200
    assert 'data-source="state.json"' in page
    _, state = await client.get("/state.json")
    assert (state["kind"], state["episodes"]) == ("learner", 3)
    assert "0 episodes are open, 0 held back." in state["said"]
    _, document = await client.get("/openapi.json")
    assert "/episodes/{episode}/decisions" in document["paths"]
    for item in document["paths"].values():
        for operation in item.values():
            assert "summary" in operation
            sent = operation.get("requestBody", {"content": {}})["content"]
            assert all("example" in each for each in sent.values())
        if "post" in item:
            (done,) = [r for code, r in item["post"]["responses"].items() if code < "3"]
            assert "example" in done["content"]["application/json"]
    sample = r'[a-z_]+({[a-z]+="[^"]*"(,[a-z]+="[^"]*")*})? [0-9.]+'
    for line in metrics.splitlines():
        assert re.fullmatch(rf"# (HELP|TYPE) [a-z_]+ .+|{sample}", line), line


async def test_states_actions_and_constraints_have_names(tmp_path: Path) -> None:
    folder = tmp_path / "it"
    learner = uniform(states=7)
    ss.open(folder, learner).close()
    (folder / "service.toml").write_text(
        'actions = ["less", "more"]\nconstraints = ["dose"]\n'
        "[observation]\ntumor = [0.2, 0.5]\ndrug = [0.25]\n"
    )
    names = read_names(folder, learner.interface)
    assert names.state({"observation": {"drug": 0.3, "tumor": 0.2}}, 7) == 3
    assert names.signals("constraints", {"dose": 2}, 1) == [2.0]
    for wrong in ({"tumor": 1}, {"tumor": 1, "drug": "x"}, 3):
        with pytest.raises(Refused):
            names.state({"observation": wrong}, 7)
    async with serving(folder) as client:
        path = await client.start("a")
        seen = {"observation": {"tumor": 0.6, "drug": 0.0}}
        status, answer = await client.post(f"{path}/decisions", {"step": 0, **seen})
        assert (status, answer["name"]) == (200, ["less", "more"][answer["action"]])
        body = {"step": 0, "reward": 1, "constraints": {"dose": 0.5}, "thresholds": None}
        assert (await client.post(f"{path}/outcomes", body))[0] == 200
    (folder / "service.toml").write_text('actions = ["less"]\n')
    with pytest.raises(ss.SafespotError, match="actions must be 2 different names"):
        read_names(folder, learner.interface)


def test_two_changes_of_tokens_at_once_are_refused(tmp_path: Path) -> None:
    ss.open(tmp_path / "it", uniform()).close()
    add_token(tmp_path / "it", "a", ["read"])
    held = take_lock(tmp_path / "it" / "tokens.lock")
    assert held is not None
    with pytest.raises(ss.SafespotError, match="another process is changing"):
        revoke_token(tmp_path / "it", "a")
    held.release()
    revoke_token(tmp_path / "it", "a")


def test_a_port_that_is_taken_or_no_address_at_all_is_said_so() -> None:
    (held,) = bind("127.0.0.1", 0)
    with held, pytest.raises(ss.errors.InUse, match=r"is taken already.*choose another: --port"):
        bind("127.0.0.1", held.getsockname()[1])
    with pytest.raises(ss.errors.InvalidOption, match=r"cannot listen on port 0 of 192\.0\.2\.1"):
        bind("192.0.2.1", 0)
    with pytest.raises(ss.errors.InvalidOption, match="'not an address' is no address"):
        bind("not an address", 0)


def test_tokens_are_those_of_a_learner_that_is_there(tmp_path: Path) -> None:
    folder = tmp_path / "it"
    ss.open(folder, uniform()).close()
    with pytest.raises(ss.errors.UnknownName, match=r"there is no token 'x': .* has none"):
        revoke_token(folder, "x")
    with pytest.raises(ss.errors.InvalidFile, match="no durable learner"):
        check_learner(tmp_path)


@contextlib.asynccontextmanager
async def living(folder: Path) -> AsyncIterator[Client]:
    """A service of a folder as a server runs it, from its startup to its shutdown."""
    service = make_service(open_desk(folder, Settings()))
    told: asyncio.Queue[dict[str, str]] = asyncio.Queue()
    answers: asyncio.Queue[Any] = asyncio.Queue()
    server = asyncio.create_task(service({"type": "lifespan"}, told.get, answers.put))
    await told.put({"type": "lifespan.startup"})
    assert (await answers.get())["type"] == "lifespan.startup.complete"
    try:
        yield Client(service)
    finally:
        await told.put({"type": "lifespan.shutdown"})
        await server


GOOD = {
    "name": "a", "sha256": "0" * 64, "rights": ["read"], "made": 1.0, "made_by": "root"
}  # fmt: skip


FAULTS: list[str | bytes | None] = [
    "[" * 100_000, "", "5", "[null]", json.dumps([{**GOOD, "sha256": ["x"]}]), json.dumps([{**GOOD, "name": {"a": 1}}]),
    json.dumps([{**GOOD, "rights": 5}]), json.dumps([{**GOOD, "rights": "read"}]), b"\xff\xfe", None,
]  # fmt: skip


@pytest.mark.parametrize("fault", FAULTS, ids=range(len(FAULTS)))
async def test_a_fault_of_the_file_of_tokens_does_not_end_the_watch(
    fault: str | bytes | None,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The last good tokens stay in force, the fault is logged, and a token that is revoked later is not taken."""
    monkeypatch.setattr("safespot.service.http.RELOAD", 0.02)
    folder = tmp_path / "it"
    ss.open(folder, uniform()).close()
    token, revoked = (add_token(folder, name, ["read"]) for name in "ab")
    path = folder / "tokens.json"
    before = path.read_bytes()
    async with living(folder) as client:
        client.token = revoked
        assert (await client.get("/policy"))[0] == 200
        path.unlink()
        if fault is None:
            path.mkdir()
        else:
            path.write_bytes(fault if isinstance(fault, bytes) else fault.encode())
        for _ in range(200):
            await asyncio.sleep(0.02)
            if any(record.levelname == "ERROR" for record in caplog.records):
                break
        else:
            pytest.fail("nothing is logged")
        await asyncio.sleep(0.2)
        assert len(caplog.records) < 5  # not at every look
        assert (await client.get("/policy"))[0] == 200
        if fault is None:
            path.rmdir()
        path.write_bytes(before)
        revoke_token(folder, "b")
        for _ in range(200):
            if (await client.get("/policy"))[0] == 401:
                break
            await asyncio.sleep(0.02)
        else:
            pytest.fail("a revoked token works")
        client.token = token
        assert (await client.get("/policy"))[0] == 200
