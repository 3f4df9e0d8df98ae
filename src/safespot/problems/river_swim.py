"""Swim up a river to a distant reward, with a limit on the strokes: the chain of Strehl and Littman.

The states are places along the river, from 0 at its mouth, where every episode starts, to S - 1 at its source.
Action 0 drifts one place down, for certain. Action 1 swims, against the current:

| from     | one down | stays | one up |
|----------|---------:|------:|-------:|
| mouth    |          |   2/5 |    3/5 |
| between  |     1/20 |   3/5 |   7/20 |
| source   |      2/5 |   3/5 |        |

Drifting at the mouth pays 1/200, swimming at the source pays 1, nothing else pays. A stroke costs 1:

    V_strokes = E(steps in which it swims) <= limit,   half of the H steps by default.

So the **value is the expected number of strokes at the source**, and 1/200 for each step of drifting at the mouth. What
makes it hard: the small reward is there at once, the large one only after many strokes that pay nothing, and each of
these counts against the limit. Uniform play has the value .043789, a fiftieth of the best.

**Two places and two steps, by hand:** never swimming pays 2/200. To swim, and to swim again if that led to the source,
pays 3/5 + 2/5 · 1/200 = .602 and takes 1 + 3/5 strokes. Any other stroke only costs. So **V* = .01 + .37 limit for
limits up to 8/5, multiplier .37**; at the default limit of 1, V* = .38.

**Six places and 20 steps (the default), certified:** within 10 strokes **V* = 2.017430, multiplier .182648**; without
a limit 3.397264, which takes 19.12. Column generation and the linear program over occupancy measures agree on it
within 1e-8. Never swimming keeps every limit: the margin is the limit, and the value of it is H/200.

The chain is that of A. L. Strehl and M. L. Littman (2008), with the probabilities, rewards and steps of the episodic
form of Osband, Russo and Van Roy (2013). The limit and its signal are ours; the signal's mean is limit/H in each step.
"""

from __future__ import annotations

import numpy as np

from ..arrays import as_count
from ..errors import InvalidOption
from ..model.cmdp import CMDP
from ..model.problem import Problem

MOUTH, BETWEEN, SOURCE = (0.0, 0.4, 0.6), (0.05, 0.6, 0.35), (0.4, 0.6, 0.0)  # down, stays, up
SMALL = 0.005  # of the largest reward


def make(states: int = 6, horizon: int = 20, limit: float | None = None) -> Problem:
    """Make the river.

    Args:
        states: places along the river, at least 2.
        horizon: the number of steps.
        limit: the expected number of strokes that are allowed; None is half of the steps.

    """
    S = as_count("states", states, least=2, error=InvalidOption)
    H = as_count("horizon", horizon, least=1, error=InvalidOption)
    transitions = np.zeros((S, 2, S))
    for s in range(S):
        transitions[s, 0, max(s - 1, 0)] = 1.0
        swim = MOUTH if s == 0 else SOURCE if s == S - 1 else BETWEEN
        for shift, p in zip((-1, 0, 1), swim, strict=True):
            if p > 0.0:
                transitions[s, 1, s + shift] = p
    rewards = np.zeros((S, 2))
    rewards[0, 0], rewards[S - 1, 1] = SMALL, 1.0
    cmdp = CMDP(
        transitions,
        rewards,
        constraints=[np.tile([0.0, 1.0], (S, 1))],
        thresholds=[H / 2 if limit is None else limit],
        senses="<=",
        horizon=H,
        state_names=["mouth", *(f"place {s}" for s in range(1, S - 1)), "source"],
        action_names=["drift", "swim"],
        limit_names=["strokes"],
        units={"reward": "strokes at the source", "constraints": ["an episode"]},
    )
    return Problem(cmdp)
