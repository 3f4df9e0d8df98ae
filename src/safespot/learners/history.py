"""The history of a learner in phases, part after part, with the verdicts of the trials."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ..arrays import Int
from ..errors import InvalidFile
from ..evidence.trial import BROKEN, KEPT
from . import phases

KINDS = ("first", "explore", "try", "retreat")  # by the number of the part in a clock
VERDICTS = ("open", "kept", "broken")
COLUMNS = 5


class Part(NamedTuple):
    """A part of a phase."""

    phase: int  # k, from 1
    kind: str  # "first": the baseline, or all actions alike; "explore", "try", or "retreat" after a proven break
    first: int  # the number of its first episode
    verdict: str  # of its trial: "open" (also where there was none), "kept" or "broken"
    decided: int  # the episode after which that was proven; 0: not proven


def begin(clock: Int, first: int) -> Part:
    """Return the part that a clock is in, beginning with that episode."""
    return Part(int(clock[phases.PHASE]), KINDS[clock[phases.PART]], first, VERDICTS[0], 0)


def goes_on(history: tuple[Part, ...], before: Int, after: Int, finished: int) -> tuple[Part, ...]:
    """Return the history after a decision, at the end of the episode `finished`, has moved the clock."""
    *earlier, now = history
    verdict = before[phases.VERDICT]
    if now.kind in ("first", "try") and verdict in (BROKEN, KEPT):
        now = now._replace(verdict=VERDICTS[verdict], decided=finished)
    same = (before[[phases.PHASE, phases.PART]] == after[[phases.PHASE, phases.PART]]).all()
    following = () if same else (begin(after, finished + 1),)
    return (*earlier, now, *following)


def table(history: tuple[Part, ...], finished: int) -> list[dict[str, Any]]:
    """Return the parts that have begun, each with its `last` episode so far, ready for JSON."""
    begun = [part for part in history if part.first <= finished]
    lasts = [part.first - 1 for part in begun[1:]] + [finished]
    return [{**part._asdict(), "last": last} for part, last in zip(begun, lasts, strict=False)]


def as_array(history: tuple[Part, ...]) -> Int:
    """Return the parts as rows ``[n, COLUMNS]`` of a file."""
    rows = [
        (p.phase, KINDS.index(p.kind), p.first, VERDICTS.index(p.verdict), p.decided)
        for p in history
    ]
    return np.array(rows, np.int64).reshape(-1, COLUMNS)


def from_array(rows: Int) -> tuple[Part, ...]:
    """Return the parts in rows of `as_array`; raise `InvalidFile` for other rows."""
    if (
        rows.dtype != np.int64
        or rows.ndim != 2
        or rows.shape[1] != COLUMNS
        or not len(rows)
        or (rows < 0).any()
        or (rows[:, 1] >= len(KINDS)).any()
        or (rows[:, 3] >= len(VERDICTS)).any()
        or (np.diff(rows[:, 2]) <= 0).any()
    ):
        raise InvalidFile("the learner's history of phases contradicts itself")
    return tuple(
        Part(int(k), KINDS[kind], int(first), VERDICTS[verdict], int(decided))
        for k, kind, first, verdict, decided in rows
    )
