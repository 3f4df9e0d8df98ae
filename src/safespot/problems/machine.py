"""A machine that wears: costs and a budget, in units of their own, two days.

States: 0 as new, 1 worn (for good). Actions: 0 gentle, 1 fast. Earnings lie in [0,10], strain in [0,4]:

| state  | gentle: earns, strains | fast: earns, strains | fast wears it with probability |
|--------|------------------------|----------------------|--------------------------------|
| as new | 4, 0                   | 10, 2                | 1/2                            |
| worn   | 2, 1                   | 6, 4                 |                                |

Maximize the earnings over two days subject to strain <= budget. Price the strain at lambda. On the second day
"fast" is worth it as new iff 6 >= 2 lambda, and worn iff 4 >= 3 lambda. On the first day, for
4/3 < lambda < 3, "gentle" leads to 4 + (10 - 2 lambda), "fast" to 10 - 2 lambda + ((10 - 2 lambda) + (2 - lambda))/2:
gentle wins, with (earnings, strain) = (14, 2) in total. For lambda > 3 both days are gentle, (8, 0); for
lambda < 4/3 everything is fast, (10 + (10 + 6)/2, 2 + (2 + 4)/2) = (18, 5). At lambda = 4/3 exactly the policy
"fast, and then fast only if as new", (16, 7/2), ties with both of its neighbors.

So the best earnings are the concave line through (0, 8), (2, 14) and (5, 18) with slopes 3 and 4/3. With the
default **budget 1: V* = 11, multiplier 3**. Always gentle has the largest **margin, 1**, and earns 8. Inside, earnings
are divided by 10 and strain by 4, so rho = 2 (3/10) / (1/4) = 12/5. At budget 7/2: V* = 16, multiplier 4/3, with
a tie.
"""

from __future__ import annotations

from ..model.cmdp import CMDP
from ..model.problem import Problem


def make(budget: float = 1.0) -> Problem:
    """Make the problem; `budget` is the strain allowed over the two days."""
    stay, worn = [1.0, 0.0], [0.0, 1.0]
    cmdp = CMDP(
        transitions=[[stay, [0.5, 0.5]], [worn, worn]],
        rewards=[[4.0, 10.0], [2.0, 6.0]],
        constraints=[[[0.0, 2.0], [1.0, 4.0]]],
        thresholds=[budget],
        senses="<=",
        reward_range=(0, 10),
        constraint_ranges=(0, 4),
        horizon=2,
        state_names=["as new", "worn"],
        action_names=["gentle", "fast"],
        limit_names=["strain"],
        units={"reward": "in two days", "constraints": ["in two days"]},
    )
    return Problem(cmdp)
