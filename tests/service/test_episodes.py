"""Episodes over HTTP: what is answered, what is refused, and what is counted when."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import safespot as ss
from safespot.service import http
from safespot.service.desk import Desk, Settings, open_desk
from safespot.storage import journal
from tests.support.serving import SIZES, Client, abandon, outcome, serving, uniform

H = SIZES["horizon"]


async def test_an_episode_from_start_to_end(client: Client) -> None:
    path = await client.start("a")
    actions = await client.play(path)
    assert (await client.post(f"{path}/end", {"state": 2}))[0] == 200
    await client.counted(1)
    ((policy, episode),) = list(client.desk.durable.replay())
    assert policy is not None  # the learner's own
    np.testing.assert_array_equal(episode.states, [0, 1, 2])
    np.testing.assert_array_equal(episode.actions, actions)
    np.testing.assert_array_equal(episode.rewards, [0.5] * H)
    np.testing.assert_array_equal(episode.constraints, [[0.25]] * H)
    np.testing.assert_array_equal(episode.thresholds, [[0.75]] * H)


async def test_every_request_may_be_repeated(client: Client) -> None:
    path = await client.start("a")
    assert await client.start("a") == path
    assert await client.start("b") != path
    first = await client.post(f"{path}/decisions", {"step": 0, "state": 1})
    for _ in range(20):  # a coin would show
        assert await client.post(f"{path}/decisions", {"step": 0, "state": 1}) == first
    for _ in range(2):
        assert await client.post(f"{path}/outcomes", outcome(0)) == (200, {"step": 0})
    await client.post(f"{path}/decisions", {"step": 1, "state": 1})
    await client.post(f"{path}/outcomes", outcome(1))
    for _ in range(2):
        assert (await client.post(f"{path}/end", {"state": 0}))[0] == 200
    await client.counted(1)
    assert (await client.post(f"{path}/end", {"state": 0}))[0] == 200
    assert client.desk.durable.episode == 2
    assert (await client.post("/episodes", idempotency_key="a"))[0] == 409


async def test_what_contradicts_comes_out_of_order_or_is_missing_changes_nothing(
    client: Client,
) -> None:
    path = await client.start("a")
    decisions, outcomes = f"{path}/decisions", f"{path}/outcomes"

    async def refused(where: str, body: Any, status: int, code: str, words: str) -> None:
        found, answer = await client.post(where, body)
        assert (found, answer["error"]["code"]) == (status, code), answer
        assert words in answer["error"]["message"]

    await refused(decisions, {"step": 1, "state": 0}, 409, "out-of-order", "step 0 is to be")
    await refused(outcomes, outcome(0), 409, "out-of-order", "not decided yet")
    await client.post(decisions, {"step": 0, "state": 0})
    await refused(decisions, {"step": 0, "state": 1}, 409, "contradiction", "in state 0, not 1")
    await client.post(outcomes, outcome(0))
    await refused(outcomes, outcome(0, 0.75), 409, "contradiction", "which stays")
    await refused(f"{path}/end", {"state": 0}, 409, "missing", "1 of 2 steps")
    await client.post(decisions, {"step": 1, "state": 0})
    await refused(f"{path}/end", {"state": 0}, 409, "missing", "steps are missing: 1")
    await client.post(outcomes, outcome(1))
    await client.post(f"{path}/end", {"state": 0})
    await refused(f"{path}/end", {"state": 1}, 409, "contradiction", "ended in state 0")
    unknown = f"/episodes/{'0' * 32}/end"
    await refused(unknown, {"state": 0}, 404, "unknown", "no such episode")
    await client.counted(1)
    ((_, episode),) = list(client.desk.durable.replay())
    np.testing.assert_array_equal(episode.rewards, [0.5, 0.5])
    await refused(outcomes, outcome(1), 409, "finished", "counted already")


WRONG: list[tuple[str, Any]] = [
    *(("decisions", {"step": step, "state": 0}) for step in (True, 0.0, 2, -1)),
    *(("decisions", {"step": 0, "state": state}) for state in (3, "ill", True)),
    ("decisions", {"step": 0}),
    ("decisions", {"step": 0, "state": 0, "observation": {}}),
    ("decisions", {"step": 0, "observation": {"tumor": 1}}),
    ("decisions", [0]),
    *(("outcomes", {k: v for k, v in outcome(0).items() if k != left_out}) for left_out in ("reward", "constraints")),
    *(("outcomes", {**outcome(0), "reward": reward}) for reward in ("0.5", 1.5, 10**400)),
    *(("outcomes", {**outcome(0), "constraints": g}) for g in ([0.5, 0.5], 0.5, [-0.1])),
    ("outcomes", {**outcome(0), "thresholds": [None]}),
    ("end", {}),
    ("end", {"state": 9}),
]  # fmt: skip
UNREADABLE = [b"{", b"\xff", b"[" * 60_000, b'{"step": NaN, "state": 0}', b"1" * 5000]


async def test_a_wrong_value_and_a_body_that_cannot_be_read_are_refused(client: Client) -> None:
    path = await client.start("a")
    for what, body in WRONG:
        status, answer = await client.post(f"{path}/{what}", body)
        assert (status, answer["error"]["code"]) == (422, "invalid"), body
    for raw in UNREADABLE:
        status, answer = await client.ask("POST", f"{path}/decisions", raw=raw)
        assert (status, answer["error"]["code"]) == (400, "body"), raw[:20]
    assert client.desk.open_episodes[0]["decided"] == 0


@pytest.mark.parametrize("client", [{"most_open": 2}], indirect=True)
async def test_sizes_are_bounded(client: Client) -> None:
    path = await client.start("a")
    large = b" " * (http.LARGEST + 1)
    assert (await client.ask("POST", f"{path}/decisions", raw=large))[0] == 413
    assert (await client.post("/episodes"))[0] == 400
    assert (await client.post("/episodes", idempotency_key="x" * 201))[0] == 400
    assert (await client.post(f"{path}/end", {"state": 0}, content_type="text/plain"))[0] == 415
    await client.start("b")
    status, answer = await client.post("/episodes", idempotency_key="c")
    assert (status, answer["error"]["code"]) == (429, "too-many")


async def test_episodes_count_in_the_order_of_their_start(client: Client) -> None:
    first, second = await client.start("a"), await client.start("b")
    await client.play(second, 0.25)
    await client.post(f"{second}/end", {"state": 2})
    await client.whole("c", 0.75)
    await asyncio.sleep(0.1)
    assert (client.desk.current.version, client.desk.held_back) == (0, 2)
    await client.play(first, 1.0)
    await client.post(f"{first}/end", {"state": 2})
    await client.counted(3)
    rewards = [episode.rewards[0] for _, episode in client.desk.durable.replay()]
    assert rewards == [1.0, 0.25, 0.75]


@pytest.mark.parametrize("client", [{"expire_after": 0.4}], indirect=True)
async def test_an_expired_episode_holds_nothing_back_and_counts_at_its_worst(
    client: Client,
) -> None:
    path = await client.start("a")
    await client.post(f"{path}/decisions", {"step": 0, "state": 1})
    await client.post(f"{path}/outcomes", outcome(0))
    await client.start("nothing was decided")
    later = await client.start("b")
    for _ in range(100):
        await client.play(later) if not client.desk._pending[later[10:]].states else None
        await asyncio.sleep(0.02)
        if client.desk.counts["expired"] == 3:
            break
    await client.counted(2)
    (_, lost), _ = list(client.desk.durable.replay())
    assert lost.unfinished
    np.testing.assert_array_equal(lost.constraints, [[0.25], [np.nan]])
    assert np.isnan(lost.rewards).all()  # where step 0 led to was never said
    status, answer = await client.post(f"{path}/end", {"state": 0})
    assert (status, answer["error"]["code"]) == (410, "expired")


async def test_an_episode_keeps_the_policy_of_its_start(tmp_path: Path) -> None:
    """Also after a kill, though the learner has moved on."""
    learner = ss.Spot(**SIZES, start=None, episodes=100, slack=0.5, bonus_scale=0.01)
    async with serving(tmp_path / "it", learner) as client:
        path = await client.start("early")
        digests = []
        for k in range(5):
            _, answer = await client.post("/episodes", idempotency_key=str(k))
            digests.append(answer["policy"])
            await client.play(f"/episodes/{answer['episode']}", 1.0)
            await client.post(f"/episodes/{answer['episode']}/end", {"state": 2})
        await client.play(path)
        await client.post(f"{path}/end", {"state": 2})
        await client.counted(6)
        assert client.desk.current.digest not in digests  # it has learned
        path, before = await client.start("late"), client.desk.current
        await client.start("later")
        await client.play(path)
        await client.post(f"{path}/end", {"state": 2})
        await client.counted(7)
        assert client.desk.current.digest != before.digest
        await abandon(client)
        desk = Desk(
            ss.open(client.desk.durable.folder), client.desk.rules.names, client.desk.settings
        )
        (left,) = desk._pending.values()
        np.testing.assert_array_equal(left.policy, before.policy)
        desk.ledger.close()
        desk.durable.close()


async def test_after_a_kill_every_acknowledged_episode_is_there_once(tmp_path: Path) -> None:
    async with serving(tmp_path / "it", uniform()) as client:
        first = await client.start("first")
        await client.play(first)
        for k in range(3):
            await client.whole(str(k), 0.25)  # held back by the first
        await abandon(client)
        async with serving(tmp_path / "it") as again:
            assert (again.desk.open, again.desk.held_back) == (1, 3)
            assert await again.start("first") == first
            status, _ = await again.post(f"{first}/end", {"state": 2})
            assert status == 200
            await again.counted(4)
        async with serving(tmp_path / "it") as last:
            assert last.desk.durable.episode == 5
            assert (await last.post(f"{first}/end", {"state": 2}))[0] == 200
            assert last.desk.held_back == last.desk.open == 0


async def test_the_ledger_goes_on_in_a_new_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("safespot.service.ledger.BYTES", 3000)
    async with serving(tmp_path / "it", uniform()) as client:
        first = await client.start("first")
        for k in range(20):
            await client.whole(str(k))
        assert len(journal.numbered(tmp_path / "it", "requests")) > 2
        await abandon(client)
        async with serving(tmp_path / "it") as again:
            assert (again.desk.open, again.desk.held_back) == (1, 20)
            await again.play(first)
            assert (await again.post(f"{first}/end", {"state": 2}))[0] == 200
            await again.counted(21)
            assert (await again.post("/episodes", idempotency_key="7"))[0] == 409


async def test_the_page_knows_what_was_before_it_was_opened(tmp_path: Path) -> None:
    async with serving(tmp_path / "it", uniform()) as client:
        for k in range(7):
            await client.whole(str(k))
    async with serving(tmp_path / "it") as again:
        await again.whole("last")
        await again.counted(8)
        _, state = await again.get("/state.json")
        assert [row["episode"] for row in state["curve"]] == list(range(1, 9))
        await again.start("open")
        _, state = await again.get("/state.json")
        assert "1 episode is open, 0 held back." in state["said"]


async def test_a_budget_is_spent_by_one_episode_at_a_time(tmp_path: Path) -> None:
    """A guard leaves room for one more episode at its worst; ten at once would take ten times as much."""

    def guard(baseline: Any) -> ss.Guard:
        return ss.Guard(uniform(), baseline=baseline, budget=5.0)

    async with serving(tmp_path / "it", guard(np.full((3, 2), 0.5))) as client:
        path = await client.start("a")
        status, answer = await client.post("/episodes", idempotency_key="b")
        assert (status, answer["error"]["code"]) == (429, "too-many")
        assert await client.start("a") == path
        await client.play(path)
        assert (await client.post(f"{path}/end", {"state": 2}))[0] == 200
        await client.counted(1)
        await asyncio.sleep(0.05)
        await client.start("b")
    ss.open(tmp_path / "back", guard("hand-back")).close()
    with pytest.raises(ss.SafespotError, match="hands decisions back"):
        open_desk(tmp_path / "back", Settings())
