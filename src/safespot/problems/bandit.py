"""The smallest CMDP there is: one state, one step, a risky arm and a safe one.

The risky arm (action 0) pays 1 and is safe with probability 0; the safe arm (action 1) pays 2/5 and is
safe with probability 1. A policy plays the risky arm with probability p:

    V_r = p + 2/5 (1 - p),   V_g = 1 - p >= alpha = 1/2.

The reward grows with p, so the limit binds at p = 1/2: **V* = 7/10**. One unit of alpha costs one unit of p
and so 1 - 2/5: the **multiplier is 3/5**. The safe arm alone has the largest **margin, 1/2**, and the
value 2/5, so rho = 2 (7/10 - 2/5) / (1/2) = 6/5.
"""

from __future__ import annotations

from ..model.cmdp import CMDP
from ..model.problem import Problem


def make() -> Problem:
    """Make the problem; the risky arm is action 0, the safe one action 1."""
    cmdp = CMDP(
        transitions=[[[1.0], [1.0]]],
        rewards=[[1.0, 0.4]],
        constraints=[[[0.0, 1.0]]],
        thresholds=[0.5],
        horizon=1,
        state_names=["the arms"],
        action_names=["risky arm", "safe arm"],
        limit_names=["safety"],
        units={"reward": "a play", "constraints": ["probability"]},
    )
    return Problem(cmdp)
