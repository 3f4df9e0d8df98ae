"""How a sweep shows itself, by a clock that the tests move."""

from __future__ import annotations

import io
from collections.abc import Callable

import pytest

from safespot.experiments.progress import Bars, Lines


@pytest.fixture
def wait(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    """Let time pass; it begins at 1000 s and stands still otherwise."""
    now = [1000.0]
    monkeypatch.setattr("safespot.experiments.progress.time.monotonic", lambda: now[0])

    def pass_by(seconds: float) -> None:
        now[0] += seconds

    return pass_by


def test_a_log_has_a_line_now_and_then(wait: Callable[[float], None]) -> None:
    stream = io.StringIO()
    lines = Lines(stream)
    lines.begin(2, 1, 600)
    wait(29)
    lines.told("a", 300, 600)
    wait(1)
    lines.told("a", 310, 600)
    wait(29.9)
    lines.told("a", 500, 600)
    lines.note("a worker was lost")  # which counts as a line
    wait(29)
    lines.told("a", 599, 600)
    lines.ended("a", 600)
    lines.close()
    assert stream.getvalue().splitlines() == [
        "safespot: 2 runs, 1 of them finished; 600 episodes to go",
        "safespot: 1 of 2 runs, 310 of 600 episodes, 10 a second, 29 s left",
        "safespot: a worker was lost",
        "safespot: 2 of 2 runs finished",
    ]


def test_bars_come_and_go(
    wait: Callable[[float], None], capsys: pytest.CaptureFixture[str]
) -> None:
    bars = Bars()
    bars.begin(2, 0, 600)
    bars.told("a", 100, 300)
    wait(2)
    bars.told("a", 200, 300)
    shown = {task.description: task for task in bars.rich.tasks}
    assert list(shown) == ["all", "a"]
    assert (shown["a"].completed, shown["a"].total) == (200, 300)
    assert shown["a"].fields["speed"] == "50 a second, 2 s left"
    assert (shown["all"].completed, shown["all"].total) == (200, 600)
    bars.ended("a", 300)
    bars.ended("b", 300)
    (left,) = bars.rich.tasks
    assert (left.description, left.completed) == ("all", 600)
    assert bars.rich.live.is_started
    bars.close()
    assert not bars.rich.live.is_started  # the terminal is as it was
    assert "2 of 2 runs finished" in capsys.readouterr().err
