"""A ward and an intensive unit: two limits, a start distribution, an action mask.

Each day one patient comes, mild (state 0) or severe (state 1) with probability 1/2 each. Actions: 0 wait,
1 ward, 2 intensive care, which only a severe patient may get. Benefits: mild 4/5 (wait), 1 (ward);
severe 0 (wait), 3/5 (ward), 1 (intensive). The ward may be used on at most 2/5 of the days and intensive care on
at most 3/10: g_0 = 1 - [ward], alpha_0 = 3/5 a day; g_1 = 1 - [intensive], alpha_1 = 7/10 a day.

On one day let x = P(mild, ward), y = P(severe, ward), z = P(severe, intensive). The benefit is
2/5 + x/5 + 3y/5 + z, subject to x <= 1/2, y + z <= 1/2, x + y <= 2/5 and z <= 3/10. Intensive care is worth most:
z = 3/10; then y = 1/5 fills the severe; then x = 1/5 fills the ward: **43/50 a day**. One more ward day goes to
x: **multiplier 1/5**. One more intensive day moves a severe patient out of the ward, and a mild one in:
1 - 3/5 + 1/5 = **3/5**. Days are alike and independent, and a day's best benefit is concave in what it may
use, so over H days **V* = 43 H / 50** with the same multipliers.

The largest common **margin is 3 H / 10**: it needs z = 0, and then x + y <= 1/10 a day. The best of these policies
takes y = 1/10 and has the value 23 H / 50. So rho = 2 (20/50) / (3/10) = 8/3.
"""

from __future__ import annotations

import numpy as np

from ..arrays import as_count
from ..errors import InvalidOption
from ..model.cmdp import CMDP
from ..model.problem import Problem


def make(horizon: int = 3) -> Problem:
    """Make the problem; `horizon` is the number of days."""
    horizon = as_count("horizon", horizon, least=1, error=InvalidOption)
    cmdp = CMDP(
        transitions=np.full((2, 3, 2), 0.5),
        rewards=[[0.8, 1.0, 0.0], [0.0, 0.6, 1.0]],
        constraints=[[[1.0, 0.0, 1.0]] * 2, [[1.0, 1.0, 0.0]] * 2],
        thresholds=np.tile([[0.6], [0.7]], (1, horizon)),
        start=[0.5, 0.5],
        actions=[[True, True, False], [True, True, True]],
        horizon=horizon,
        state_names=["mild", "severe"],
        action_names=["wait", "ward", "intensive care"],
        limit_names=["days off the ward", "days off intensive care"],
        units={"reward": "days of full benefit", "constraints": ["days", "days"]},
    )
    return Problem(cmdp)
