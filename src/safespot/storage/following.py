"""A durable learner as whoever looks on sees it: from its files alone, beside the process that has it open.

Nothing is locked and nothing is written. The last snapshot and the journals give the learner, bit for bit; episodes
that are written meanwhile are read by the next `update`.
"""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Iterator
from pathlib import Path

from .. import files
from ..arrays import Float
from ..errors import InvalidFile, SolverError
from ..evidence.meter import SafetyMeter
from . import journal
from .folder import count_records, last_snapshot

POINTS = 400  # of a curve, at most


class Curve:
    """A meter's bounds of the violation against episodes: every so many, the more there are the rarer."""

    def __init__(self) -> None:
        self.step = 1
        self.episodes: list[int] = []
        self.bounds: list[tuple[Float, Float]] = []

    def add(self, meter: SafetyMeter) -> None:
        """Read the meter."""
        self.episodes.append(meter.episodes)
        self.bounds.append(meter.violation_bounds)
        if len(self.episodes) > POINTS:
            self.episodes, self.bounds = self.episodes[1::2], self.bounds[1::2]
            self.step *= 2


class Metered:
    """A meter of the journals in a folder and its curve, as far as they were read."""

    def __init__(self, folder: Path, meter: SafetyMeter) -> None:
        self.folder, self.meter, self.curve = folder, meter, Curve()
        self._skipped = 0  # episodes before the first journal

    def unread(self) -> Iterator[journal.Journal]:
        """The last journal that begins before what is unread, and all after it."""
        journals = journal.numbered(self.folder, "journal")
        if not self.meter.episodes:  # until then the first one may still be to come
            self._skipped = min(journals, default=0)
        read = self._skipped + self.meter.episodes
        first = max((number for number in journals if number <= read), default=0)
        return (journal.read(path) for number, path in journals.items() if number >= first)

    def count(self, found: journal.Journal) -> None:
        """Count what is new in a journal."""
        new = found.records[max(0, self._skipped + self.meter.episodes - found.first) :]
        while len(new):
            some, new = new[: self.curve.step], new[self.curve.step :]
            count_records(self.meter, some)
            self.curve.add(self.meter)

    def update(self) -> None:
        """Count what was written since the last time."""
        for found in self.unread():
            self.count(found)


class Following:
    """The learner in a folder, its meter, and the curve of the meter, as far as its files were read.

    Examples:
        >>> import safespot as ss
        >>> from safespot.storage.following import Following
        >>> problem, noise = ss.problems.make("machine"), ss.streams(seed=0)
        >>> with ss.open("line-3", ss.SpotEpochs(**problem.interface)) as learner:
        ...     watched = Following("line-3")
        ...     learner.observe(ss.play(problem, learner.policy, noise, learner.episode))
        ...     watched.update()
        ...     print(watched.learner.episode, watched.meter.episodes)
        2 1

    """

    def __init__(self, folder: str | Path) -> None:
        self.folder = files.as_path(folder)
        if not journal.numbered(self.folder, "snapshot"):
            raise InvalidFile(f"there is no durable learner in {folder}.")
        _, self.learner = last_snapshot(self.folder)
        self._metered = Metered(self.folder, self.learner.make_meter())
        self.meter, self.curve = self._metered.meter, self._metered.curve
        self.update()

    def update(self) -> None:
        """Read what was written since the last time."""
        for found in self._metered.unread():
            self._read(found)

    def _read(self, found: journal.Journal) -> None:
        learner = self.learner
        if found.first >= learner.episode - 1:
            learner.doubts.copy_from(found.doubts)
        self._metered.count(found)
        # Its own process has told, whatever there was to tell.
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for k in range(max(0, learner.episode - 1 - found.first), len(found.records)):
                with contextlib.suppress(SolverError):  # as `observe` left it
                    learner.observe(found.episode(k), found.played(k))
