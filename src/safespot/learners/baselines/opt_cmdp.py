"""OptCMDP (Efroni, Mannor, Pirotta 2020, "Exploration-exploitation in constrained MDPs").

    (pi_t, p_t) = argmax V_r(pi, p)   subject to   V_{g_i}(pi, p) >= alpha_i,

over policies and all plausible transitions p, with the largest plausible rewards and constraints. The paper's extended
linear program is solved by column generation (`plausible_models.optimistic_plan`).

Guarantee with known thresholds: the *strong* regret and violation are of order sqrt(T).

Deviations.
1. The radii are those of `learners.radii`, derived as D3 is, with `bonus_scale`; signals are clipped to [0,1].
2. With `replan="doubling"` a plan stands until the visits of some pair have doubled: H S A log T programs at most
   instead of T, for a constant factor in the bounds.
3. Before the first plan the policy is uniform: without data all plans are equal.
4. Where no plausible model keeps the limits (radii scaled down, or limits that are themselves pessimistic), the plan
   with the largest margin is played; `multipliers` then weigh the constraints against each other and sum to one.
5. A start distribution is one more row with intervals of its own (D5).
"""

from __future__ import annotations

from numpy.typing import NDArray

from ..options import PlannerOptions
from ..planner import Planner
from .optimism import optimistic_models
from .plausible_models import optimistic_plan


class OptCMDP(Planner):
    """The optimistic program over a confidence set of transitions.

    Examples:
        >>> import safespot as ss
        >>> problem = ss.problems.make("machine")
        >>> learner = ss.learners.OptCMDP(**problem.interface, episodes=500, thresholds=[1.0], bonus_scale=0.1)
        >>> run = ss.learn(problem, learner)
        >>> print(run.values[-1].round(1), run.constraint_values[-1].round(1))  # at best 11, at a strain of 1
        11.1 [1.]

    """

    name = "opt-cmdp"
    options_type = PlannerOptions
    options: PlannerOptions

    def plan(self) -> dict[str, NDArray]:
        """Solve the optimistic program."""
        plan = optimistic_plan(optimistic_models(self), self.limits)
        return {"pi": plan.policy, "lam": plan.multipliers}
