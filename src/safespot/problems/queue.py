"""A waiting room: admit as many customers as possible, but do not let them wait too long.

The state is the number of customers in the room, 0 to 6, none at first. In each step a customer comes with
probability 3/5; action 0 turns newcomers away, action 1 lets them in, which is impossible when the room is
full. Then a customer's service, if there is one, ends with probability 1/2. A customer let in pays 1, so the
reward of action 1 is 3/5. The cost of a step is the number of customers who are in the room when it begins, in
[0,6]; its sum over the episode, the time that all of them spend there, is at most `limit`. By default that is
one customer on average over 24 steps.

Every customer let in makes all later ones wait longer, unless the room empties in between, and nothing has to
be paid after the last step. So the best policy lets in while few are in the room, more freely towards the end,
and randomizes in one state of one step.

**In two steps, by hand:** only the first decision costs. Letting in with probability x pays 3x/5 now and leaves
3/5 · 1/2 · x = 3x/10 customers; the second step lets in for 3/5. So **V* = 3/5 + 2 limit for limits up to 3/10,
multiplier 2**.

**In 24 steps, certified:** **V* = 12.367561** of at most 13.875022 (which takes 45.955559), multiplier .111853.
Column generation and the linear program over occupancy measures agree on it within 1e-8. An empty room
keeps every limit: the margin is the limit.

Problem, limit and threshold signal are ours; the signal's mean is limit/H in each step.
"""

from __future__ import annotations

import numpy as np

from ..arrays import as_count
from ..errors import InvalidOption
from ..model.cmdp import CMDP
from ..model.problem import Problem

WAITING_ROOM = 6
COMES, SERVED = 0.6, 0.5


def make(horizon: int = 24, limit: float | None = None) -> Problem:
    """Make the problem; `limit` is the customers' total time in the room (None: one customer on average)."""
    H = as_count("horizon", horizon, least=1, error=InvalidOption)
    S = WAITING_ROOM + 1
    transitions = np.zeros((S, 2, S))
    for s in range(S):
        for a, comes in ((0, 0.0), (1, COMES if s < WAITING_ROOM else 0.0)):
            for present, p in ((s, 1.0 - comes), (min(s + 1, WAITING_ROOM), comes)):
                transitions[s, a, max(present - 1, 0)] += p * SERVED
                transitions[s, a, present] += p * (1.0 - SERVED)
    cmdp = CMDP(
        transitions,
        rewards=[[0.0, COMES if s < WAITING_ROOM else 0.0] for s in range(S)],
        constraints=[np.repeat(np.arange(S)[:, None], 2, axis=1)],
        thresholds=[H if limit is None else limit],
        senses="<=",
        actions=[[True, s < WAITING_ROOM] for s in range(S)],
        constraint_ranges=(0, WAITING_ROOM),
        horizon=H,
        state_names=[f"{s} in the room" for s in range(S)],
        action_names=["turn away", "let in"],
        limit_names=["time in the room"],
        units={"reward": "customers let in", "constraints": ["customer-steps an episode"]},
    )
    return Problem(cmdp)
