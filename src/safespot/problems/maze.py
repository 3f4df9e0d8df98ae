"""Find the way through three halls: the long way round is free, the short cuts lead over hazards.

The states are the cells that are no wall, row by row; S is the start, G the goal, x a hazard, # wall. This is the map
with 60 states; the one with 200 has halls of 4 x 16 cells, and breaches of three hazards in its walls:

    S........
    .........
    ##xx####.
    .........
    .........
    .####xx##
    .........
    ........G

Actions: 0 up, 1 right, 2 down, 3 left. A move goes where it was meant to with probability 1 - slip, and to either side
with slip/2 each (slip is 1/10 by default); a wall stops it. The goal is for good. A step that begins at the goal pays
1, a step that begins on a hazard costs 1, and both go on:

    V_r = E(steps at the goal),   V_hazard = E(steps on hazards) <= limit,   1/2 by default.

So the **value is the number of steps that are left on arrival**, of H = 40 (60 states) or 80 (200 states).

**Without slips, by hand:** each wall has a door at one end and a breach near the other. Every way moves down by all
rows (7; 13). Through both doors it crosses all three halls (24; 45). Through one breach and one door it crosses one
hall, and goes to the nearest hazard and back (8 + 2 · 2; 15 + 2 · 3). Through both breaches it crosses one hall in all
(8; 15). A breach costs 1:

| states | both doors  | one breach | both breaches |
|-------:|------------:|-----------:|--------------:|
|     60 |    31 steps |         19 |            15 |
|    200 |    58 steps |         34 |            28 |

A step less is worth 1, so the best values are the concave line through (0, 9), (1, 21), (2, 25) with 60 states, and
(0, 22), (1, 46), (2, 52) with 200. At the default limit the best takes a short cut in half of the episodes: **V* = 15
with multiplier 12, and 34 with multiplier 24**.

**With slips of 1/10 (the default), certified:** **V* = 11.731083** of at most 23.519677, multiplier 11.894204 (60
states); **V* = 28.445145** of at most 49.320253, multiplier 23.274021 (200 states). Column generation and the linear
program over occupancy measures agree on both within 1e-8. A way round that cannot slip onto a hazard exists on both
maps, and is none longer: the margin is the limit. The best that never steps on one has the value 5.029577 (60) and
16.681380 (200).

What makes it hard: nothing is paid before the goal, which uniform play reaches so late and so seldom that its
value is .015744 (60 states) and .001833 (200 states).

Problem, limit and threshold signal are ours; the signal's mean is limit/H in each step.
"""

from __future__ import annotations

import numpy as np
from scipy import sparse

from ..arrays import as_count
from ..errors import InvalidOption
from ..model.cmdp import CMDP
from ..model.problem import Problem

MAPS = {
    60: """
        S........
        .........
        ##xx####.
        .........
        .........
        .####xx##
        .........
        ........G
    """,
    200: """
        S...............
        ................
        ................
        ................
        ###xxx#########.
        ................
        ................
        ................
        ................
        .#########xxx###
        ................
        ................
        ................
        ...............G
    """,
}
HORIZONS = {60: 40, 200: 80}
MOVES = ((-1, 0), (0, 1), (1, 0), (0, -1))  # up, right, down, left: turning is adding 1


def make(
    states: int = 60, slip: float = 0.1, horizon: int | None = None, limit: float = 0.5
) -> Problem:
    """Make the maze.

    Args:
        states: 60 or 200, which names the map.
        slip: the probability that a move goes to one of its sides.
        horizon: the number of steps; 40 with 60 states and 80 with 200 by default.
        limit: the expected number of steps on hazards that are allowed.

    """
    S = as_count("states", states, least=1, error=InvalidOption)
    if S not in MAPS:
        raise InvalidOption(f"states must be {' or '.join(map(str, MAPS))}, got {states}.")
    if not isinstance(slip, (int, float, np.integer, np.floating)) or not 0.0 <= slip <= 1.0:
        raise InvalidOption(f"slip must be a probability, a number in [0, 1], got {slip!r}.")
    H = as_count(
        "horizon", HORIZONS[S] if horizon is None else horizon, least=1, error=InvalidOption
    )
    cells = {
        (y, x): cell
        for y, row in enumerate(MAPS[S].split())
        for x, cell in enumerate(row)
        if cell != "#"
    }
    kinds = np.array(list(cells.values()))[:, None]  # [S,1]
    every = np.ones(len(MOVES))
    cmdp = CMDP(
        _transitions(cells, slip),
        rewards=(kinds == "G") * every,
        constraints=[(kinds == "x") * every],
        thresholds=[limit],
        start=int(np.argmax(kinds == "S")),
        senses="<=",
        horizon=H,
        state_names=[f"row {y}, column {x}" for y, x in cells],
        action_names=["up", "right", "down", "left"],
        limit_names=["hazards"],
        units={"reward": "steps at the goal", "constraints": ["steps an episode"]},
    )
    return Problem(cmdp)


def _transitions(cells: dict[tuple[int, int], str], slip: float) -> sparse.csr_array:
    """Return the rows ``[S*A, S]`` over the cells in their order."""
    numbers = {place: s for s, place in enumerate(cells)}
    targets = np.array(
        [
            [
                s if cells[y, x] == "G" else numbers.get((y + down, x + right), s)
                for down, right in MOVES
            ]
            for (y, x), s in numbers.items()
        ]
    )  # [S,A]: where a move leads to that does not slip
    chances = (1.0 - slip, slip / 2.0, slip / 2.0)  # ahead, and to either side
    leads = np.stack([np.roll(targets, turn, axis=1) for turn in (0, 1, -1)])  # [3,S,A]
    pairs = np.tile(np.arange(targets.size), len(chances))
    rows = sparse.coo_array(
        (np.repeat(chances, targets.size), (pairs, leads.ravel())), (targets.size, len(targets))
    ).tocsr()
    rows.eliminate_zeros()
    return rows
