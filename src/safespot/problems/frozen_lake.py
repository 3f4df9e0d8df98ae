"""Cross Gymnasium's slippery frozen lake, and fall in with at most a given probability.

The lake is Gymnasium's own ``FrozenLake-v1``, read from its table. States are its squares, counted row by row
from the upper left; one more state, the last, is where an ended episode waits. Actions: 0 left, 1 down, 2
right, 3 up. The ice is slippery: a step goes where it was meant to with probability 1/3, and to either side
with 1/3 each. Reaching the goal pays 1, stepping into a hole costs 1, and both end the episode:

    V_r = P(reach the goal within H steps),   V_cost = P(fall into a hole within H steps) <= limit.

After an ending nothing more is paid or counted: a fall has been counted in full when it happened. The limit and
its noisy signal (a 0 or 1 at every step, with mean limit / H) are our addition; Gymnasium's lake has none. An episode
shows at most one fall (``constraint_totals=(0, 1)``).

At the default limit of 1/20 (4x4: H = 20; 8x8: H = 40):

| map | best without a limit | best within it |
|-----|----------------------|----------------|
| 4x4 | 0.199133             | **0.196105**   |
| 8x8 | 0.120453             | **0.113072**   |

Staying away from the holes is possible for ever on both maps, so the margin of the safest policy is the whole limit.
"""

from __future__ import annotations

import numpy as np

from ..errors import InvalidOption
from ..model.outcome_tables import Ending, problem_from_table
from ..model.problem import Problem
from ..signals.limits import Limit

HORIZONS = {"4x4": 20, "8x8": 40}


def make(map_name: str = "4x4", horizon: int | None = None, limit: float = 0.05) -> Problem:
    """Make the lake.

    Args:
        map_name: "4x4" or "8x8".
        horizon: the number of steps; 20 on the small map and 40 on the large one by default.
        limit: the largest probability of a fall.

    """
    from gymnasium.envs.toy_text import FrozenLakeEnv  # heavy

    if not isinstance(map_name, str) or map_name not in HORIZONS:
        raise InvalidOption(f"map_name must be '4x4' or '8x8', got {map_name!r}.")
    lake = FrozenLakeEnv(map_name=map_name)
    squares, width = np.ravel(lake.desc), len(lake.desc[0])
    return problem_from_table(
        lake,
        horizon=HORIZONS[map_name] if horizon is None else horizon,
        constraints=lambda outcome: squares[outcome.next_state] == b"H",
        limits=Limit("falling", "<=", threshold=limit, unit="probability"),
        endings=Ending(reward=0, constraints=0),
        state_names=[f"row {s // width}, column {s % width}" for s in range(squares.size)],
        action_names=["left", "down", "right", "up"],
        units={"reward": "probability of arriving"},
        by_outcome=True,
    )
