"""Counts of what certificates assume not to happen, as episodes say it of themselves (`arrays.MARKS`)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from typing import Any

from ..arrays import LARGEST, Episode, as_count
from ..errors import InvalidFile
from .totals import Totals


@dataclass
class Doubts:
    """Sums of the marks of the episodes that a learner, a meter or an alarm has counted.

    Episodes carry their marks through every file, so that the sums are the same on either side.
    """

    clipped: int = 0  # signals that were cut off to their declared range
    rejected: int = 0  # episodes that were there and were left out
    unfinished: int = 0  # episodes that were given up: a model does not learn from all of them

    @classmethod
    def of(cls, episodes: Iterable[Episode]) -> Doubts:
        """Return the counts of some episodes."""
        doubts = cls()
        for episode in episodes:
            doubts.note(episode)
        return doubts

    @classmethod
    def read(cls, counts: Mapping[str, Any]) -> Doubts:
        """Return the counts in a file's description; what cannot be a count is an `InvalidFile`."""
        names = [field.name for field in fields(cls)]
        return cls(*(as_count(name, counts[name], least=0, error=InvalidFile) for name in names))

    def copy_from(self, other: Doubts) -> None:
        """Overwrite all counts with another's."""
        self.__dict__.update(vars(other))

    def note(self, episode: Episode | Totals) -> None:
        """Add the marks of an episode that is observed."""
        self.add({name: getattr(episode, name) for name in vars(self)})

    def add(self, counts: Mapping[str, int]) -> None:
        """Add to every count, as far as a file can hold it."""
        for name, before in vars(self).items():
            setattr(self, name, min(LARGEST, before + int(counts[name])))

    def sentences(self, *, model: bool = False) -> tuple[str, ...]:
        """Return why nothing can be proven from these data; empty if all can. `model`: from counts of them.

        Bounds of what was played count unfinished episodes at their worst; counts of a model cannot.
        """
        reasons = []
        if model and self.unfinished:
            reasons.append(
                f"{self.unfinished:,} episodes were given up, and what became of them is not in the model"
            )
        if self.clipped:
            reasons.append(
                f"{self.clipped:,} signals lay outside their declared range and were cut off to it, so that their true "
                "mean is not the one that was seen"
            )
        if self.rejected:
            reasons.append(
                f"{self.rejected:,} episodes were left out, and those that are left need not be like them"
            )
        return tuple(reasons)
