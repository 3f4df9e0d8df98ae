"""A durable learner loses nothing that it acknowledged, whatever happens; and these ordeals can see one that does."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from safespot.storage.durable import DurableLearner
from tests.reliability import survival
from tests.reliability.disks import InPlace, Power, Unnamed, Unsynced


def test_power_may_fail_at_any_moment() -> None:
    found = survival.outages(Power, 1_000)
    assert found.wrong == []
    assert found.images >= 1_000


@pytest.mark.parametrize("disk", [Unsynced, Unnamed, InPlace])
def test_a_disk_that_forgets_is_noticed(disk: Callable[[], Power]) -> None:
    assert survival.outages(disk, 1_000).wrong


def test_an_early_acknowledgement_is_noticed() -> None:
    assert survival.outages(Power, 1_000, observe=survival.hasty_observe).wrong


def test_a_kill_at_each_write_sync_and_rename(tmp_path: Path) -> None:
    points, wrong = survival.kills_at_each_step(tmp_path, goal=5)
    assert wrong == []
    assert points > 50


def test_these_kills_notice_an_early_acknowledgement(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(DurableLearner, "observe", survival.hasty_observe)
    _, wrong = survival.kills_at_each_step(tmp_path, goal=3)
    assert wrong


def test_random_kills_lose_nothing(tmp_path: Path) -> None:
    hits, wrong = survival.random_kills(tmp_path, 20)
    assert wrong == []
    assert hits == 20
