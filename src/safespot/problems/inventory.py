"""A shop's stock: order each day, earn from the demand that is met, within a budget for ordering and storing.

The inventory control problem of Bura et al. (2022). The state is the stock in the evening, 0 to 5, and is 0 at
first; action a orders a units, at most 5 - s. Then comes a demand d of 0 to 5 with probabilities .3 .2 .2 .2
.05 .05. If the stock s + a covers it, it is sold and earns 8d/100; if not, it earns nothing and the stock is
emptied: the demand is lost. The day costs ((4 + 2a) 1{a > 0} + s + a) / 19, a fixed and a unit price for
ordering, and storage. An episode is a week, H = 7, and its cost is at most 3.5.

The reward has two readings, both divided by their largest mean, .132, so that a day earns at most 1 on average:

- ``"textbook"``, the default: the expected revenue, sum over met d of P(d) 8d/100.
- ``"published"``: the code of the paper weights a met d by P(s + a - d | s, a) instead. They differ where the
  stock just covers d: ending with nothing then has the probability of every demand of d or more.

**V* = 6.135519** with multiplier 1.440038 (textbook) and **6.665322** with multiplier .921212 (published).
Without a limit both are 7, at a cost of 4.505263: order up to 5 every day. Never ordering costs nothing, so the
margin is the limit.

The published problem has a known limit and no threshold signal. The signal is ours: each step one with mean
limit/7.
"""

from __future__ import annotations

import numpy as np

from ..errors import InvalidOption
from ..model.cmdp import CMDP
from ..model.problem import Problem

SHELF, H = 5, 7
DEMAND = (0.3, 0.2, 0.2, 0.2, 0.05, 0.05)
REWARDS = ("textbook", "published")


def make(limit: float = 3.5, reward: str = "textbook") -> Problem:
    """Make the problem; `limit` is the cost allowed over the week, `reward` "textbook" or "published"."""
    if not isinstance(reward, str) or reward not in REWARDS:
        raise InvalidOption(f"reward must be {' or '.join(map(repr, REWARDS))}, got {reward!r}.")
    S = A = SHELF + 1
    s, a = np.indices((S, A))
    stock = s + a
    transitions, earned = np.zeros((S, A, S)), np.zeros((S, A))
    for d, p in enumerate(DEMAND):
        transitions[s, a, (stock - d).clip(0, SHELF)] += p
    for d, p in enumerate(DEMAND):
        left = (stock - d).clip(0, SHELF)
        weight = p if reward == "textbook" else transitions[s, a, left]
        earned += np.where(stock >= d, weight * 8 * d / 100, 0.0)
    admissible = stock <= SHELF
    earned[~admissible] = 0.0
    costs = ((4 + 2 * a) * (a > 0) + stock) / 19
    cmdp = CMDP(
        transitions,
        (earned / earned.max()).clip(0.0, 1.0),
        constraints=[np.where(admissible, costs, 0.0)],
        thresholds=[limit],
        senses="<=",
        actions=admissible,
        horizon=H,
        state_names=[f"stock {stock}" for stock in range(S)],
        action_names=[f"order {units}" for units in range(A)],
        limit_names=["cost"],
        units={"reward": "best days' revenue a week", "constraints": ["a week"]},
    )
    return Problem(cmdp)
