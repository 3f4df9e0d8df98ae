"""The table of `dosing`: counts of patients treated at random.

Each patient is admitted and treated for 14 blocks, or until death. The first dose is drawn uniformly; after
it, the dose stays the same three times in four and is else drawn again. Runs of one dose matter because what
is hidden (normal and immune cells) remembers the doses before: with a new draw in every block, patients in a
state would all have a middling past, and the table would promise more of a full dose, and threaten worse
without any, than patients under steady treatment then get. Counted are the state on admission, the
transitions from each state under each dose, and the mean health in these blocks.

    python -m safespot.problems.dosing.table [FILE]

writes the table, by default over the one in the package. It takes about a minute. One generator serves
all patients one after the other, so the counts of the first patients are never above those of more.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np

from ...arrays import Float, Policy
from ...files import write_arrays
from . import BLOCKS, DEATH, DOSES, STATES, TABLE, CourseTable, state_of
from .tumor import admit, treat

PATIENTS, SEED = 200_000, 0
STAYS = 0.75  # how often a dose is the one before


class Block(NamedTuple):
    """A block of a course as the doctor sees it."""

    state: int
    action: int
    health: float  # the mean over the block
    after: int  # the state


def course(
    choose: Callable[[int, int], int], blocks: int, rng: np.random.Generator
) -> Iterator[Block]:
    """Yield a new patient's blocks, up to the one of death; ``choose(step, state)`` names the dose."""
    patient, body = admit(rng)
    state = state_of(body)
    for step in range(blocks):
        action = choose(step, state)
        body, health = treat(patient, body, DOSES[action], rng)
        after = state_of(body)
        yield Block(state, action, health, after)
        if after == DEATH:
            return
        state = after


def tabulate(patients: int = PATIENTS, seed: int = SEED) -> CourseTable:
    """Count the blocks of `patients` patients."""
    rng = np.random.default_rng(seed)
    A = len(DOSES)
    table = CourseTable(
        np.zeros(STATES, np.int64), np.zeros((STATES, A, STATES), np.int64), np.zeros((STATES, A))
    )
    for _ in range(patients):
        for step, block in enumerate(course(_wandering(rng), BLOCKS, rng)):
            table.admissions[block.state] += step == 0
            table.transitions[block.state, block.action, block.after] += 1
            table.health[block.state, block.action] += block.health
    return table


def _wandering(rng: np.random.Generator) -> Callable[[int, int], int]:
    """Return a chooser of random doses for one course: each is mostly the one before, else a new one."""
    fresh = (len(DOSES) * rng.random(BLOCKS)).astype(np.int64).tolist()
    stays = (rng.random(BLOCKS) < STAYS).tolist()
    doses: list[int] = fresh[:1]
    for new, stay in zip(fresh[1:], stays[1:], strict=True):
        doses.append(doses[-1] if stay else new)
    return lambda step, _: doses[step]


def rehearse(policy: Policy, patients: int, seed: int) -> Float:
    """Play `policy` ``[H,S,A]`` on simulated patients; return each one's health, cost and death, ``[patients, 3]``."""
    rng = np.random.default_rng(seed)
    H = len(policy)
    thresholds = policy.cumsum(axis=2)

    def choose(step: int, state: int) -> int:
        below = int(np.searchsorted(thresholds[step, state], rng.random(), side="right"))
        return min(below, len(DOSES) - 1)

    outcomes = np.zeros((patients, 3))
    for outcome in outcomes:
        lived = 0
        for block in course(choose, H, rng):
            outcome += (block.health, DOSES[block.action], block.after == DEATH)
            lived += 1
        outcome[1] += H - lived  # a dead patient costs full doses
    return outcomes


def main() -> None:
    """Write the table."""
    path = Path(sys.argv[1]) if len(sys.argv) > 1 else TABLE
    table = tabulate()
    write_arrays(path, "dosing table", table._asdict(), {"patients": PATIENTS, "seed": SEED})
    print(f"{path}: {table.transitions.sum():,} blocks of {PATIENTS:,} patients")


if __name__ == "__main__":
    main()
