"""Streaming media: keep a player's buffer from running dry with little use of the fast channel.

The media control problem of Bura et al. (2022). The state is the number of packets in the buffer, 0 to 9, and
the player starts with none. Action 0 uses the fast channel, which delivers with probability mu = 9/10 in a
step, action 1 the slow one, mu = 1/10; the player consumes a packet with probability 4/5. Both happen
independently, so the buffer grows by one with probability mu (1 - 4/5) and shrinks by one with probability (1 -
mu) 4/5, within its ends. A step that begins with an empty buffer costs 1, and a step on the fast channel uses 1
of the limit:

    minimize  E sum_h 1{s_h = 0}   subject to  E sum_h 1{a_h = 0} <= limit,   H = 10.

Rewards are minus the cost, in [-1,0], so the **value is minus the expected number of steps with an empty
buffer**. With the default **limit 5: V* = -6.746704**, multiplier .495190. Without a limit it is -5.393138, and
at limit 1 it is -8.983489. The slow channel alone keeps every limit: the margin is the limit.

The published problem has a known limit and no threshold signal. The signal is ours: each step one with mean
limit/10.
"""

from __future__ import annotations

import numpy as np

from ..model.cmdp import CMDP
from ..model.problem import Problem

S, H = 10, 10
DELIVERS = (0.9, 0.1)  # fast, slow
CONSUMES = 0.8


def make(limit: float = 5.0) -> Problem:
    """Make the problem; `limit` is the expected number of steps on the fast channel that are allowed."""
    transitions = np.zeros((S, 2, S))
    for a, mu in enumerate(DELIVERS):
        grows, shrinks = mu * (1.0 - CONSUMES), (1.0 - mu) * CONSUMES
        for s in range(S):
            transitions[s, a, min(s + 1, S - 1)] += grows
            transitions[s, a, max(s - 1, 0)] += shrinks
            transitions[s, a, s] += 1.0 - grows - shrinks
    rewards = np.zeros((S, 2))
    rewards[0] = -1.0
    cmdp = CMDP(
        transitions,
        rewards,
        constraints=[np.tile([1.0, 0.0], (S, 1))],
        thresholds=[limit],
        senses="<=",
        reward_range=(-1, 0),
        horizon=H,
        state_names=[f"{s} in the buffer" for s in range(S)],
        action_names=["fast channel", "slow channel"],
        limit_names=["use of the fast channel"],
        units={"reward": "minus steps with an empty buffer", "constraints": ["steps an episode"]},
    )
    return Problem(cmdp)
