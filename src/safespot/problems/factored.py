"""Three states in a circle: every move pays and every move costs, and half of them are allowed.

The three-state chain of Zheng and Ratliff (2020), in the episodic form of Bura et al. (2022). Action 0 stays,
action 1 moves on, 0 to 1 to 2 to 0. Moving out of state s pays (s + 1)/3 and costs 1; staying is free. An
episode has H = 6 steps, and the cost is at most 3.

From state 0, k moves pay 1/3, 1, 2, 7/3, 3, 4 for k = 1 to 6. The best concave line through them is straight
from (0, 0) to (6, 4), so **V* = 2 and the multiplier is 2/3**; without a limit V* = 4. From state 1 the line
has slope 5/6 for two moves and then 2/3 for three; from state 2 it has slope 1 for one move and then 2/3 for
three. From a uniform start an average of 3 moves is 9 moves for three starts, best first: 1 + 2 · 5/6 + 6 · 2/3
= 20/3, so **V* = 20/9**, with multiplier 2/3 again. Staying keeps every limit: the margin is the limit.

The published problem has a known limit and no threshold signal. The signal is ours: each step one with mean
limit/6.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from ..model.cmdp import CMDP
from ..model.problem import Problem


def make(limit: float = 3.0, start: int | ArrayLike = 0) -> Problem:
    """Make the problem; `limit` is the number of moves allowed, `start` a state or a distribution over the three."""
    stay = np.eye(3)
    cmdp = CMDP(
        transitions=np.stack([stay, np.roll(stay, 1, axis=1)], axis=1),
        rewards=[[0.0, (s + 1) / 3] for s in range(3)],
        constraints=[[[0.0, 1.0]] * 3],
        thresholds=[limit],
        start=start,
        senses="<=",
        horizon=6,
        state_names=["first place", "second place", "third place"],
        action_names=["stay", "move on"],
        limit_names=["moves"],
        units={"constraints": ["an episode"]},
    )
    return Problem(cmdp)
