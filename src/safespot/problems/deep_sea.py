"""Dive for a treasure that only N moves to the right in a row reach, and move right on a budget.

The deep sea of bsuite (Osband et al. 2020). The states are the cells of an N x N grid, row by row from 0 at the upper
left, where a diver starts; each of the H = N steps sinks by one row. Action 0 moves left, action 1 right, by one
column within the edges. Moving right in the lower right corner finds the treasure, which pays 1; nothing else pays.
Every move to the right costs 1:

    V_r = P(find the treasure),   V_right = E(moves to the right) <= limit,   4N/5 by default.

**By hand:** the treasure takes a move to the right in every one of the N steps. So it is found with a probability of
at most E(moves to the right) / N, and at most 1: V* <= min(limit / N, 1). The policy that goes right with probability
limit / N in the first step, right ever after in the cells of the diagonal, and left in all others, reaches it. So
**V* = limit / N and the multiplier is 1 / N** as long as limit < N: 4/5 and 1/10 by default, for N = 20 4/5 and 1/20.
No other policy does: one that leaves the diagonal later has spent moves on nothing. Without a limit V* = 1. Going left
all the time has the largest margin, the limit, and the value 0.

What makes it hard: uniform play keeps the limit, with N/2 moves to the right, and finds the treasure with probability
2^-N, a thousandth for N = 10 and a millionth for N = 20; until then all that a move to the right shows is its cost.

Transitions, reward and size are bsuite's, but for two things: there a move to the right takes .01/N off the reward,
and which of the two actions is "right" is drawn for each cell. For learners with a table the names of actions matter
in ties only, which go to the lowest, "left". The limit and its signal are ours; the signal's mean is limit/N in each
step. The cells above the diagonal are never reached, and where the last step leads to does not count.
"""

from __future__ import annotations

import numpy as np
from scipy import sparse

from ..arrays import as_count
from ..errors import InvalidOption
from ..model.cmdp import CMDP
from ..model.problem import Problem


def make(size: int = 10, limit: float | None = None) -> Problem:
    """Make the problem; `size` is N, `limit` the moves to the right that are allowed (None: four fifths of N)."""
    N = as_count("size", size, least=1, error=InvalidOption)
    S = N * N
    row, column = np.divmod(np.arange(S), N)
    below = np.minimum(row + 1, N - 1) * N
    moved = column[:, None] + [-1, 1]  # [S,A]
    successors = below[:, None] + moved.clip(0, N - 1)
    rewards = np.zeros((S, 2))
    rewards[-1, 1] = 1.0
    cmdp = CMDP(
        sparse.csr_array((np.ones(2 * S), successors.ravel(), np.arange(2 * S + 1)), (2 * S, S)),
        rewards,
        constraints=[np.tile([0.0, 1.0], (S, 1))],
        thresholds=[4 * N / 5 if limit is None else limit],
        senses="<=",
        horizon=N,
        state_names=[f"row {y}, column {x}" for y, x in zip(row, column, strict=True)],
        action_names=["left", "right"],
        limit_names=["moves to the right"],
        units={"reward": "probability of the treasure", "constraints": ["a dive"]},
    )
    return Problem(cmdp)
