"""OptCMDP-bonus (Efroni, Mannor, Pirotta 2020, "Exploration-exploitation in constrained MDPs").

`OptCMDP` with the empirical transitions, whose error a bonus on every payoff pays for:

    pi_t = argmax V_r(pi, p_hat)   subject to   V_{g_i}(pi, p_hat) >= alpha_i,
    v_bar = min(v_hat + c sqrt(L_r / n), 1) + (H - h) tv(n),

with tv a bound on the total variation between p_hat and p, at most 1, and H - h the steps after this one (1-based h).

Guarantee with known thresholds: strong regret and violation of order sqrt(T), by a factor sqrt(S) weaker than
`OptCMDP`.

Deviations.
1. Radii as D3, with `bonus_scale`: `radii.empirical_variation`. A pair without data gets all that
   remains and leads nowhere.
2. to 4. as in `OptCMDP` (`replan`, the first policy, no feasible plan).
5. A learned start distribution (D5) is the counted one; the limits give way by ``H tv(t-1)``.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ...planning.process import best_plan
from ..options import PlannerOptions
from ..planner import Planner
from ..radii import means, signal_radius
from .optimism import empirical_model, start_variation, variation_ahead


class OptCMDPBonus(Planner):
    """The optimistic program on the empirical model, with bonuses.

    Examples:
        >>> import safespot as ss
        >>> problem = ss.problems.make("machine")
        >>> learner = ss.learners.OptCMDPBonus(**problem.interface, episodes=500, thresholds=[1.0], bonus_scale=0.1)
        >>> run = ss.learn(problem, learner)
        >>> print(run.values[-1].round(1), run.constraint_values[-1].round(1))  # at best 11, at a strain of 1
        11.4 [1.1]

    """

    name = "opt-cmdp-bonus"
    options_type = PlannerOptions
    options: PlannerOptions

    def plan(self) -> dict[str, NDArray]:
        """Solve the program with bonuses."""
        radii, pooled = self.rates.radii, self.counts()
        payoffs = np.minimum(means(pooled) + signal_radius(radii, pooled.n), 1.0)
        model = empirical_model(self, pooled, payoffs + variation_ahead(self, pooled))
        plan = best_plan(model, self.limits - self.interface.H * start_variation(self))
        return {"pi": plan.policy, "lam": plan.multipliers}
