"""A disk that fills, is freed, and fills again: nothing that was acknowledged is lost, and work goes on."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import itertools
from collections.abc import Iterator
from pathlib import Path

import duckdb
import numpy as np
import pytest

import safespot as ss
from safespot import files
from safespot.storage import journal
from tests.reliability.disks import Failing, full
from tests.support.contract import Subject
from tests.support.serving import SIZES, Client, outcome, serving, uniform

pytest.importorskip("resource")
SPOT = Subject("spot", "masked")
MOST = 3000  # episodes until a full disk must have shown


@contextlib.contextmanager
def failing(after: int) -> Iterator[None]:
    """Fail whatever is done to the disk after so many things, for want of space."""
    before, files.disk = files.disk, Failing(after, errno.ENOSPC)
    try:
        yield
    finally:
        files.disk = before


# --- The durable learner


@pytest.mark.parametrize("after", [(k, 7 * k % 31) for k in range(0, 25, 2)])
def test_a_durable_learner(
    after: tuple[int, int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journal, "RECORDS", 4)  # snapshots and new journals come often
    folder, noise = tmp_path / "it", np.random.default_rng(0)
    there: list[ss.Episode] = []
    errors: list[ss.errors.DiskError] = []  # kept, with all that their frames hold
    ss.open(folder, SPOT.make()).close()
    for times in after:
        failed = False
        with ss.open(folder) as learner, failing(times):
            while not failed:
                episode = SPOT.episode(noise)
                try:
                    learner.observe(episode)
                except ss.errors.DiskError as exc:
                    errors.append(exc)
                    failed = True
                else:
                    there.append(episode)
        with ss.open(folder) as learner:
            assert learner.episode - 1 - len(there) in (0, 1)
            if learner.episode - 1 > len(there):  # it failed after the last one was written
                there.append(episode)
            for _ in range(9):
                there.append(SPOT.episode(noise))
                learner.observe(there[-1])
    with ss.open(folder) as learner:
        counted = [episode for _, episode in learner.replay()]
    for one, other in zip(counted, there, strict=True):
        np.testing.assert_array_equal(one.rewards, other.rewards)
        np.testing.assert_array_equal(one.actions, other.actions)


# --- The service


class Clients:
    """Clients that play one episode after the other; each episode has rewards of its own."""

    def __init__(self) -> None:
        self.numbers = itertools.count(1)
        self.ended: list[float] = []  # the rewards of episodes whose end was acknowledged
        self.begun: list[float] = []

    async def play(self, client: Client, episodes: int) -> int:
        """Play until something else than a success is answered, and return that; or so many episodes."""
        for _ in range(episodes):
            number = next(self.numbers)
            reward = number / 2**13
            status, answer = await client.post("/episodes", idempotency_key=str(number))
            if status != 201:
                return status
            self.begun.append(reward)
            path = f"/episodes/{answer['episode']}"
            for step in range(SIZES["horizon"]):
                asked = [("decisions", {"step": step, "state": step}), ("outcomes", outcome(step, reward))]  # fmt: skip
                for what, body in asked:
                    status, _ = await client.post(f"{path}/{what}", body)
                    if status != 200:
                        return status
            status, _ = await client.post(f"{path}/end", {"state": 2})
            if status != 200:
                return status
            self.ended.append(reward)
        return 200

    async def finish(self, folder: Path, episodes: int) -> None:
        """Expire what is open, once there is room, and play on."""
        async with serving(folder) as client:
            _, answer = await client.get("/episodes")
            for left in answer["episodes"]:
                if left["status"] == "open":
                    await client.post(f"/episodes/{left['episode']}/expire")
            assert await self.play(client, episodes) == 200
            await client.counted(len(self.ended))

    def check(self, folder: Path) -> None:
        """Every episode whose end was acknowledged was counted, once, in the order of their starts."""
        trail = folder.parent / "trail.parquet"
        ss.logs.export_episodes(folder, trail)
        question = f"select reward from '{trail}' where step = 0 order by episode"
        rows = duckdb.connect().execute(question).fetchall()
        there = [reward for (reward,) in rows if reward is not None]  # others were given up
        assert there == sorted(set(there))
        assert set(self.ended) <= set(there) <= set(self.begun)


def test_a_service_with_an_episode_that_holds_the_others_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While the disk is full, an administrator can expire that episode, and nothing else changes anything."""
    monkeypatch.setattr("safespot.service.ledger.BYTES", 2**18)  # what is held back fills it soon
    folder, clients = tmp_path / "it", Clients()

    async def work() -> None:
        ss.open(folder, uniform(episodes=10_000)).close()
        for key in ("first", "second"):
            async with serving(folder) as client:
                forgotten = await client.start(key)
                with full(folder):
                    assert await clients.play(client, MOST) == 503
                    assert (await client.get("/health"))[0] == 503
                    assert (await client.post("/episodes", idempotency_key="another"))[0] == 503
                    for _ in range(2):
                        answer = {"episode": forgotten[10:], "status": "expired"}
                        assert await client.post(f"{forgotten}/expire") == (200, answer)
        await clients.finish(folder, 20)

    asyncio.run(work())
    clients.check(folder)


@pytest.mark.parametrize("after", [(0, 0), (5, 4), (20, 16), (45, 5)])
def test_a_service_whose_disk_fills_at_any_moment(
    after: tuple[int, int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journal, "RECORDS", 4)
    folder, clients = tmp_path / "it", Clients()

    async def work() -> None:
        ss.open(folder, uniform(episodes=10_000)).close()
        for times in after:
            async with serving(folder) as client:
                assert await clients.play(client, 3) == 200
                with failing(times):
                    assert await clients.play(client, MOST) == 503
                    assert (await client.get("/health"))[0] == 503
        await clients.finish(folder, 5)

    asyncio.run(work())
    clients.check(folder)
