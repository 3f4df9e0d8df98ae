"""Episodes over HTTP: what is answered, what is refused, and what is counted when."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
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


def run(test: Callable[[Client], Awaitable[None]], folder: Path, **settings: Any) -> None:
    async def work() -> None:
        async with serving(folder / "it", uniform(), **settings) as client:
            await test(client)

    asyncio.run(work())


def test_an_episode_from_start_to_end(tmp_path: Path) -> None:
    async def test(client: Client) -> None:
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

    run(test, tmp_path)


def test_every_request_may_be_repeated(tmp_path: Path) -> None:
    async def test(client: Client) -> None:
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

    run(test, tmp_path)


def test_what_contradicts_comes_out_of_order_or_is_missing_changes_nothing(tmp_path: Path) -> None:
    async def test(client: Client) -> None:
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

    run(test, tmp_path)


@pytest.mark.parametrize(
    ("what", "body"),
    [
        ("decisions", {"step": True, "state": 0}),
        ("decisions", {"step": 0.0, "state": 0}),
        ("decisions", {"step": 2, "state": 0}),
        ("decisions", {"step": -1, "state": 0}),
        ("decisions", {"step": 0, "state": 3}),
        ("decisions", {"step": 0, "state": "ill"}),
        ("decisions", {"step": 0, "state": True}),
        ("decisions", {"step": 0}),
        ("decisions", {"step": 0, "state": 0, "observation": {}}),
        ("decisions", {"step": 0, "observation": {"tumor": 1}}),
        ("outcomes", {"step": 0, "reward": 0.5}),
        ("outcomes", {**outcome(0), "reward": "0.5"}),
        ("outcomes", {**outcome(0), "reward": 1.5}),
        ("outcomes", {**outcome(0), "reward": 10**400}),
        ("outcomes", {**outcome(0), "constraints": [0.5, 0.5]}),
        ("outcomes", {**outcome(0), "constraints": 0.5}),
        ("outcomes", {**outcome(0), "constraints": [-0.1]}),
        ("outcomes", {**outcome(0), "thresholds": [None]}),
        ("end", {}),
        ("end", {"state": 9}),
        ("decisions", [0]),
    ],
)  # fmt: skip
def test_a_wrong_value_is_refused(what: str, body: Any, tmp_path: Path) -> None:
    async def test(client: Client) -> None:
        path = await client.start("a")
        status, answer = await client.post(f"{path}/{what}", body)
        assert (status, answer["error"]["code"]) == (422, "invalid")
        assert client.desk.open_episodes[0]["decided"] == 0

    run(test, tmp_path)


@pytest.mark.parametrize(
    "raw", [b"{", b"\xff", b"[" * 60_000, b'{"step": NaN, "state": 0}', b"1" * 5000]
)
def test_a_body_that_cannot_be_read_is_refused(raw: bytes, tmp_path: Path) -> None:
    async def test(client: Client) -> None:
        path = await client.start("a")
        status, answer = await client.ask("POST", f"{path}/decisions", raw=raw)
        assert (status, answer["error"]["code"]) == (400, "body")

    run(test, tmp_path)


def test_sizes_are_bounded(tmp_path: Path) -> None:
    async def test(client: Client) -> None:
        path = await client.start("a")
        large = b" " * (http.LARGEST + 1)
        assert (await client.ask("POST", f"{path}/decisions", raw=large))[0] == 413
        assert (await client.post("/episodes"))[0] == 400
        assert (await client.post("/episodes", idempotency_key="x" * 201))[0] == 400
        assert (await client.post(f"{path}/end", {"state": 0}, content_type="text/plain"))[0] == 415
        await client.start("b")
        status, answer = await client.post("/episodes", idempotency_key="c")
        assert (status, answer["error"]["code"]) == (429, "too-many")

    run(test, tmp_path, most_open=2)


def test_episodes_count_in_the_order_of_their_start(tmp_path: Path) -> None:
    async def test(client: Client) -> None:
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

    run(test, tmp_path)


def test_an_expired_episode_holds_nothing_back_and_counts_at_its_worst(tmp_path: Path) -> None:
    async def test(client: Client) -> None:
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

    run(test, tmp_path, expire_after=0.4)


def test_the_meter_takes_what_is_missing_at_its_worst_on_either_side(tmp_path: Path) -> None:
    """The same episodes with the missing step filled in by what is worst give the same bounds, side by side."""

    def bounds(*episodes: ss.Episode) -> tuple[float, float, float, float]:
        meter = uniform().make_meter()
        for episode in episodes:
            meter.observe(episode)
        lower, upper = meter.violation_bounds
        return float(lower[0]), float(upper[0]), *meter.reward_bounds

    def made(reward: float, constraint: float, threshold: float, **more: Any) -> ss.Episode:
        signals = ([0.5, reward], [[0.25], [constraint]], [[0.75], [threshold]])
        return ss.Episode(np.zeros(3, int), np.zeros(2, int), *map(np.array, signals), **more)

    known = [made(0.5, 0.5, 0.5)] * 30
    lost = [made(np.nan, np.nan, np.nan, unfinished=True)] * 10
    safest, worst = [made(1.0, 1.0, 0.0)] * 10, [made(0.0, 0.0, 1.0)] * 10
    found, best, least = bounds(*known, *lost), bounds(*known, *safest), bounds(*known, *worst)
    assert found[0] == pytest.approx(best[0])  # the least violation that it can have been
    assert found[1] == pytest.approx(least[1])
    assert found[2] == pytest.approx(least[2])
    assert found[3] == pytest.approx(best[3])


def test_ends_that_wait_share_their_syncs(tmp_path: Path) -> None:
    async def test(client: Client) -> None:
        paths = [await client.start(str(k)) for k in range(64)]
        for path in paths:
            await client.play(path)
        before = client.desk.counts["syncs"]
        await asyncio.gather(*(client.post(f"{path}/end", {"state": 2}) for path in paths))
        assert client.desk.counts["syncs"] - before <= 64 / 5
        await client.counted(64)
        assert client.desk.counts["groups"] <= 64 / 5

    run(test, tmp_path)


def test_an_episode_keeps_the_policy_of_its_start(tmp_path: Path) -> None:
    async def work() -> None:
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
            await abandoned(client)

    async def abandoned(client: Client) -> None:
        """An open episode finds the policy of its start again after a kill, though the learner has moved on."""
        path = await client.start("late")
        before = client.desk.current
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

    asyncio.run(work())


def test_after_a_kill_every_acknowledged_episode_is_there_once(tmp_path: Path) -> None:
    async def work() -> None:
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

    asyncio.run(work())


def test_the_ledger_goes_on_in_a_new_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("safespot.service.ledger.BYTES", 3000)

    async def work() -> None:
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

    asyncio.run(work())


def test_the_page_knows_what_was_before_it_was_opened(tmp_path: Path) -> None:
    async def work() -> None:
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

    asyncio.run(work())


def test_a_budget_is_spent_by_one_episode_at_a_time(tmp_path: Path) -> None:
    """A guard leaves room for one more episode at its worst; ten at once would take ten times as much."""

    def guard(baseline: Any) -> ss.Guard:
        return ss.Guard(uniform(), baseline=baseline, budget=5.0)

    async def work() -> None:
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

    asyncio.run(work())
    ss.open(tmp_path / "back", guard("hand-back")).close()
    with pytest.raises(ss.SafespotError, match="hands decisions back"):
        open_desk(tmp_path / "back", Settings())
