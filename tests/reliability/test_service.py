"""A decision service that is killed or restarted under load loses nothing, and an early acknowledgement is noticed."""

from __future__ import annotations

import asyncio
import signal
from pathlib import Path

import pytest

import safespot as ss
from safespot.service.ledger import Ledger, as_line
from tests.reliability.service_kills import damage, kills_at_each_step, learner, ordeal
from tests.reliability.service_power import Forgetful, Threaded, outages
from tests.support.serving import abandon, serving

pytest.importorskip("uvicorn")


def test_kills_under_load_lose_nothing(tmp_path: Path) -> None:
    found = asyncio.run(ordeal(tmp_path / "it", 4))
    assert (found.stops, found.wrong) == (4, [])


def test_a_kill_at_each_step_of_the_disk_loses_nothing(tmp_path: Path) -> None:
    found = asyncio.run(kills_at_each_step(tmp_path / "it", range(2, 60, 7)))
    assert (found.stops, found.wrong) == (9, [])


def test_failures_of_the_power_take_nothing_that_was_acknowledged() -> None:
    found = outages(Threaded, 100)
    assert found.images == 100
    assert found.wrong == []


def test_a_service_that_does_not_sync_is_noticed() -> None:
    assert outages(Forgetful, 30).wrong


@pytest.mark.slow
def test_200_kills_under_load_lose_nothing(tmp_path: Path) -> None:
    found = asyncio.run(ordeal(tmp_path / "it", 200))
    assert (found.stops, found.wrong) == (200, [])


def test_a_restart_under_load_loses_nothing(tmp_path: Path) -> None:
    found = asyncio.run(ordeal(tmp_path / "it", 3, how=signal.SIGTERM))
    assert (found.stops, found.wrong) == (3, [])


def test_an_episode_that_was_acknowledged_and_lost_is_noticed(tmp_path: Path) -> None:
    ss.open(tmp_path / "it", learner()).close()
    assert damage(tmp_path / "it", ["00" * 16]) == ["1 of 1 acknowledged episodes are lost"]


def test_an_answer_before_the_ledger_is_written_is_noticed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Broken on purpose: lines stay in memory, so a kill takes ends that were acknowledged."""

    async def work() -> list[str]:
        async with serving(tmp_path / "it", learner()) as client:
            with monkeypatch.context() as broken:
                broken.setattr(Ledger, "write", lambda self, event, last=False: as_line(event))
                await client.start("first")  # stays open, and holds the next one back
                ended = await client.start("second")
                for step in range(3):
                    await client.post(f"{ended}/decisions", {"step": step, "state": 0})
                    body = {"step": step, "reward": 0, "constraints": [0]}
                    await client.post(f"{ended}/outcomes", body)
                assert (await client.post(f"{ended}/end", {"state": 0}))[0] == 200
            await abandon(client)
        return damage(tmp_path / "it", [ended.rpartition("/")[2]])

    assert asyncio.run(work()) == ["1 of 1 acknowledged episodes are lost"]
