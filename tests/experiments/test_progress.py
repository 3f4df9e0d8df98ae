"""How a sweep shows itself, by a clock that the tests move."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable

import pytest

from safespot.experiments.progress import Bars, Lines, Progress, Tally, as_progress, duration


@pytest.fixture
def wait(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    """Let time pass; it begins at 1000 s and stands still otherwise."""
    now = [1000.0]
    monkeypatch.setattr("safespot.experiments.progress.time.monotonic", lambda: now[0])

    def pass_by(seconds: float) -> None:
        now[0] += seconds

    return pass_by


@pytest.mark.parametrize(
    ("seconds", "said"),
    [
        (0.2, "0 s"), (89.4, "89 s"), (90, "2 min"), (600, "10 min"), (5399, "90 min"), (5400, "1.5 h"),
        (36_000, "10.0 h"),
    ],
)  # fmt: skip
def test_durations_as_people_say_them(seconds: float, said: str) -> None:
    assert duration(seconds) == said


def test_speed_is_counted_from_the_first_word_of_a_run(wait: Callable[[float], None]) -> None:
    """What came before is compiling and starting workers."""
    tally = Tally(3, 1, 1000)
    wait(50)
    tally.told("a", 100)
    wait(2)
    tally.told("a", 300)
    assert (tally.done, tally.speed) == (300, 100.0)
    assert tally.line == "1 of 3 runs, 300 of 1,000 episodes, 100 a second, 7 s left"
    tally.told("b", 100)
    assert (tally.done, tally.speed) == (400, 150.0)
    tally.ended("a", 500)
    assert (tally.finished, tally.done) == (2, 600)
    tally.ended("c", 500)  # one that said nothing before
    assert (tally.finished, tally.done) == (3, 1100)


def test_a_speed_is_that_of_late(wait: Callable[[float], None]) -> None:
    tally = Tally(1, 0, 10_000)
    tally.told("a", 0)
    for k in range(1, 61):  # a hundred a second for a minute, then ten
        wait(1)
        tally.told("a", 100 * k)
    assert tally.speed == pytest.approx(100.0)
    for k in range(1, 61):
        wait(1)
        tally.told("a", 6000 + 10 * k)
    assert tally.speed == pytest.approx(10.0)
    assert len(tally.marks) == 31  # of the last thirty seconds


def test_a_speed_needs_two_marks_however_long_ago(wait: Callable[[float], None]) -> None:
    tally = Tally(1, 0, 10_000)
    tally.told("a", 0)
    wait(100)
    tally.told("a", 1000)
    assert len(tally.marks) == 2
    assert tally.speed == pytest.approx(10.0)
    wait(0.1)
    tally.told("a", 1001)  # too soon after the one before
    assert len(tally.marks) == 2


def test_nothing_is_promised_before_anything_moves(wait: Callable[[float], None]) -> None:
    tally = Tally(2, 0, 100)
    wait(5)
    assert tally.speed == 0.0
    tally.told("a", 0)
    assert tally.line == "0 of 2 runs, 0 of 100 episodes, 0 a second, unknown time left"


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


def test_whatever_suits(monkeypatch: pytest.MonkeyPatch) -> None:
    own = Progress()
    assert as_progress(own) is own
    assert type(as_progress(False)) is Progress
    for terminal, kind in ((True, Bars), (False, Lines)):
        monkeypatch.setattr(sys.stderr, "isatty", lambda terminal=terminal: terminal, raising=False)
        assert type(as_progress(True)) is kind
