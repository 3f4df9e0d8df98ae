"""A durable learner loses nothing that it acknowledged, whatever happens; and these ordeals can see one that does."""

from __future__ import annotations

from pathlib import Path

from tests.reliability import survival
from tests.reliability.disks import Power


def test_power_may_fail_at_any_moment() -> None:
    found = survival.outages(Power, 1_000)
    assert found.wrong == []
    assert found.images >= 1_000


def test_a_kill_at_each_write_sync_and_rename(tmp_path: Path) -> None:
    points, wrong = survival.kills_at_each_step(tmp_path, goal=4)
    assert wrong == []
    assert points > 40
