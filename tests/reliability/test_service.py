"""A decision service that is killed or restarted under load loses nothing, nor does one whose power fails."""

from __future__ import annotations

import asyncio
import signal
from pathlib import Path

import pytest

from tests.reliability.service_kills import ordeal
from tests.reliability.service_power import Threaded, outages

pytest.importorskip("uvicorn")


def test_kills_and_restarts_under_load_lose_nothing(tmp_path: Path) -> None:
    kill, end = signal.SIGKILL, signal.SIGTERM
    found = asyncio.run(ordeal(tmp_path / "it", [kill, end, kill, kill, end]))
    assert (found.stops, found.wrong) == (5, [])


def test_failures_of_the_power_take_nothing_that_was_acknowledged() -> None:
    found = outages(Threaded, 100)
    assert found.images == 100
    assert found.wrong == []
