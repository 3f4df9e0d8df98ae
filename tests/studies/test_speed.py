"""Benchmarks measure what they say; figures are looked at, not tested."""

from __future__ import annotations

import pytest
from studies.speed import environments

import safespot as ss


def test_the_clocks_of_an_environment_see_every_step(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(environments, "EPISODES", 20)
    box = ss.gym.BlackBox(environments.Idle(), horizon=14)
    loop, alone, learning, steps = environments.measure(box)
    assert steps == 14 * 20
    assert min(loop, alone, learning) > 0.0
    assert environments.measure(box)[3] == steps  # the clocks are gone again
