"""How a sweep shows itself: a line per running run and one for all, or plain lines where nobody watches."""

from __future__ import annotations

import sys
import time
from collections import deque
from typing import Any, TextIO

LOG_SECONDS = 30.0  # between two lines in a log
MEMORY_SECONDS = 30.0  # over which a speed is measured


class Progress:
    """What a sweep tells whoever watches it, all of it from one thread; this one shows nothing."""

    def begin(self, runs: int, finished: int, episodes: int) -> None:
        """There are so many runs, so many of them finished; the others have so many episodes."""

    def told(self, run: str, done: int, total: int) -> None:
        """A run has done so many of its episodes."""

    def ended(self, run: str, total: int) -> None:
        """A run is finished, or given up."""

    def note(self, text: str) -> None:
        """Something a user should know."""

    def close(self) -> None:
        """The sweep ends."""


class Tally:
    """How far everything is, how fast it goes and when it ends."""

    def __init__(self, runs: int, finished: int, episodes: int) -> None:
        self.runs, self.finished, self.episodes = runs, finished, episodes
        self.over = 0  # episodes of runs that have ended
        self.running: dict[str, int] = {}
        self.marks = deque([(time.monotonic(), 0)])

    def told(self, run: str, done: int) -> None:
        """A run has come so far."""
        now = time.monotonic()
        if self.over == 0 and not self.running:  # compiling and starting workers is over
            self.marks = deque([(now, done)])
        self.running[run] = done
        if now - self.marks[-1][0] >= 0.2:
            self.marks.append((now, self.done))
            while now - self.marks[0][0] > MEMORY_SECONDS and len(self.marks) > 2:
                self.marks.popleft()

    def ended(self, run: str, total: int) -> None:
        """A run has ended."""
        self.running.pop(run, None)
        self.finished += 1
        self.over += total

    @property
    def done(self) -> int:
        """Episodes so far."""
        return self.over + sum(self.running.values())

    @property
    def speed(self) -> float:
        """Episodes a second, lately."""
        (first, before), now = self.marks[0], time.monotonic()
        return (self.done - before) / max(now - first, 1e-9)

    @property
    def line(self) -> str:
        """Everything in one line."""
        speed = self.speed
        left = duration((self.episodes - self.done) / speed) if speed > 0 else "unknown time"
        return (
            f"{self.finished:,} of {self.runs:,} runs, {self.done:,} of {self.episodes:,} episodes, "
            f"{speed:,.0f} a second, {left} left"
        )


class Lines(Progress):
    """For logs and pipes: a line when it begins, one every now and then, one when it ends."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self.stream = sys.stderr if stream is None else stream
        self.shown = time.monotonic()

    def begin(self, runs: int, finished: int, episodes: int) -> None:
        """Say what is to be done."""
        self.tally = Tally(runs, finished, episodes)
        self.note(f"{runs:,} runs, {finished:,} of them finished; {episodes:,} episodes to go")

    def told(self, run: str, done: int, total: int) -> None:
        """Say it now and then."""
        self.tally.told(run, done)
        if time.monotonic() - self.shown >= LOG_SECONDS:
            self.note(self.tally.line)

    def ended(self, run: str, total: int) -> None:
        """Count it."""
        self.tally.ended(run, total)

    def note(self, text: str) -> None:
        """Say it."""
        self.shown = time.monotonic()
        print(f"safespot: {text}", file=self.stream, flush=True)

    def close(self) -> None:
        """Say how far it came."""
        self.note(f"{self.tally.finished:,} of {self.tally.runs:,} runs finished")


class Bars(Progress):
    """For a terminal: a bar per running run and one for all."""

    def __init__(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, TaskProgressColumn, TextColumn
        from rich.progress import Progress as RichProgress

        self.rich = RichProgress(
            TextColumn("{task.description}"),
            BarColumn(),
            TaskProgressColumn(),
            TextColumn("{task.fields[speed]}"),
            console=Console(stderr=True),
            transient=True,
        )
        self.bars: dict[str, Any] = {}

    def begin(self, runs: int, finished: int, episodes: int) -> None:
        """Draw the bar for all."""
        self.tally = Tally(runs, finished, episodes)
        self.rich.start()
        self.all = self.rich.add_task("all", total=episodes, speed="")

    def told(self, run: str, done: int, total: int) -> None:
        """Move its bar and the one for all."""
        if run not in self.bars:
            self.bars[run] = (
                self.rich.add_task(run, total=total, speed=""),
                time.monotonic(),
                done,
            )
        bar, began, before = self.bars[run]
        speed = (done - before) / max(time.monotonic() - began, 1e-9)
        left = f", {duration((total - done) / speed)} left" if speed > 0 else ""
        self.rich.update(bar, completed=done, speed=f"{speed:,.0f} a second{left}")
        self.tally.told(run, done)
        self.rich.update(self.all, completed=self.tally.done, speed=self.tally.line)

    def ended(self, run: str, total: int) -> None:
        """Take its bar away."""
        if run in self.bars:
            self.rich.remove_task(self.bars.pop(run)[0])
        self.tally.ended(run, total)
        self.rich.update(self.all, completed=self.tally.done, speed=self.tally.line)

    def note(self, text: str) -> None:
        """Say it above the bars."""
        self.rich.console.print(text, markup=False, highlight=False)

    def close(self) -> None:
        """Leave one line."""
        self.rich.stop()
        self.note(f"{self.tally.finished:,} of {self.tally.runs:,} runs finished")


def as_progress(progress: bool | Progress) -> Progress:
    """True: whatever suits standard error; False: nothing."""
    if not isinstance(progress, bool):
        return progress
    if not progress:
        return Progress()
    return Bars() if sys.stderr.isatty() else Lines()


def duration(seconds: float) -> str:
    """Seconds as people say them."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    if seconds < 5400:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h"
