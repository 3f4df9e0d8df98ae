"""A slippery grid with pits: reach the goal in time, and keep the probability of falling small.

The states are the cells, row by row from 0 at the upper left to 11 at the lower right; S is the start, G the
goal, O a pit:

    . . . .
    . O O .
    S . . G

Actions: 0 up, 1 right, 2 down, 3 left. A move succeeds with probability 9/10 and slips to either side with
probability 1/20 each; a wall stops it. Goal and pits are for good. The reward of a step is the probability of
entering the goal in it, the cost that of entering a pit. So the **value is the probability of arriving within H
steps, and the limit is one on the probability of falling**. The bottom row is the short way, along the pits;
pushing down against the wall there is safe and still slips towards the goal now and then; the top row is a
detour of eight moves, also along the pits.

**In three steps, by hand:** there is only the way "right, right, right". Price a fall at lambda. Beside the
goal, "right" is worth w = 9/10 - lambda/20, and "down" 1/20. Before that, "right" is worth 9w/10 - lambda/20
and "down" w/20: a tie at **lambda = 306/37**, where w is still the larger. "Right" three times arrives with
probability .729 and falls with .9 · .05 + .81 · .05 = .0855; "right, down, right" has .0405 and .00225. At the
default limit .05 the best is a mixture of them, **V* = .0405 + 306/37 · (.05 - .00225) = .435405**.

**In ten steps (the default), certified:** **V* = .570330** of at most .902274, and the multiplier is again
306/37. Column generation and the linear program over occupancy measures agree on it within 1e-8. Never falling
is possible, so the margin is the limit; the best of the policies that never fall arrives with probability
.057875.

Problem, limit and threshold signal are ours; the signal's mean is limit/H in each step. What is observed of the cost is
the fall itself: an episode shows at most one (``constraint_totals=(0, 1)``).
"""

from __future__ import annotations

import numpy as np

from ..arrays import as_count
from ..errors import InvalidOption
from ..model.cmdp import CMDP
from ..model.problem import Problem
from ..model.signals import ByOutcome, Signals

MAP = ("....", ".OO.", "S..G")
MOVES = ((-1, 0), (0, 1), (1, 0), (0, -1))  # up, right, down, left: turning is adding 1
SLIP = 0.05  # to either side


def make(horizon: int = 10, limit: float = 0.05) -> Problem:
    """Make the problem; `limit` is the probability of falling that is allowed."""
    H = as_count("horizon", horizon, least=1, error=InvalidOption)
    height, width = len(MAP), len(MAP[0])
    cells = np.array(list("".join(MAP)))
    S, A = cells.size, len(MOVES)
    over = np.isin(cells, ("O", "G"))
    transitions = np.zeros((S, A, S))
    for s in range(S):
        for a in range(A):
            for turn, p in ((0, 1.0 - 2.0 * SLIP), (1, SLIP), (3, SLIP)):
                down, right = MOVES[(a + turn) % A]
                y = min(max(s // width + down, 0), height - 1)
                x = min(max(s % width + right, 0), width - 1)
                transitions[s, a, s if over[s] else y * width + x] += p
    entered = np.where(over[:, None, None], 0.0, transitions)
    cmdp = CMDP(
        transitions,
        rewards=entered[:, :, cells == "G"].sum(axis=2),
        constraints=[entered[:, :, cells == "O"].sum(axis=2)],
        thresholds=[limit],
        start=int(np.flatnonzero(cells == "S")[0]),
        senses="<=",
        horizon=H,
        state_names=[f"row {s // width}, column {s % width}" for s in range(S)],
        action_names=["up", "right", "down", "left"],
        limit_names=["falling"],
        units={"reward": "probability of arriving", "constraints": ["probability"]},
    )
    falls = (~over[:, None, None] & (cells == "O")) * np.ones((1, S, A, S))
    return Problem(cmdp, Signals(constraints=ByOutcome(falls)))
