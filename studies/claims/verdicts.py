"""What a claim is, and what is said about it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .measurements import Measurements

DELTA = 0.05  # the learners' own, so that their guarantees hold with probability 95 %
LEVEL = 0.05  # that some test of a verdict errs; tests of one verdict share it


class Outcome(StrEnum):
    """What the runs say about a statement."""

    HOLDS = "holds"
    FAILS = "does not hold"
    OPEN = "not shown"


@dataclass(frozen=True)
class Verdict:
    """One statement, and whether the runs bear it out."""

    statement: str
    outcome: Outcome
    reason: str  # with the numbers
    test: str  # how it was decided, and at which level


@dataclass(frozen=True)
class ClaimTable:
    """Cells as they are read; the first row is the head."""

    title: str
    rows: tuple[tuple[str, ...], ...]


@dataclass(frozen=True)
class Figure:
    """A picture: a Vega-Lite chart, and what it shows."""

    name: str  # of its file
    says: str
    chart: dict[str, Any]


@dataclass(frozen=True)
class Judgment:
    """All that is said about a claim."""

    verdicts: tuple[Verdict, ...]
    tables: tuple[ClaimTable, ...] = ()
    figures: tuple[Figure, ...] = ()
    notes: tuple[str, ...] = ()  # what a reader should know beside the verdicts


@dataclass(frozen=True)
class Claim:
    """A claim of the paper or of the library, and how it is judged."""

    name: str
    title: str
    says: str  # in plain words
    place: str  # where it is stated
    sweeps: tuple[str, ...]  # the shipped sweeps whose runs it looks at
    judge: Callable[[Measurements], Judgment] = field(repr=False)


def decide(*, holds: bool, fails: bool) -> Outcome:
    """What two tests say, one for a statement and one against it."""
    return Outcome.HOLDS if holds else Outcome.FAILS if fails else Outcome.OPEN


def together(outcomes: Iterable[Outcome]) -> Outcome:
    """Of several tests: all must hold, and one that fails is enough."""
    found = set(outcomes)
    if Outcome.FAILS in found:
        return Outcome.FAILS
    return Outcome.HOLDS if found == {Outcome.HOLDS} else Outcome.OPEN


def table(title: str, head: Iterable[str], rows: Iterable[Iterable[object]]) -> ClaimTable:
    """A table of whatever can be said as text."""
    return ClaimTable(title, (tuple(head), *(tuple(str(cell) for cell in row) for row in rows)))
