"""OptPess-PrimalDual (Liu, Zhou, Kalathil, Kumar, Tian 2021, "Learning policies with zero or bounded constraint
violation").

A virtual queue of violations, held against limits that are tightened less and less:

    pi_{t+1}  = argmax eta_t V_r(pi, p) + sum_i q_t,i V_{g_i}(pi, p)     over plausible p,
    q_{t+1}   = max(q_t + alpha + epsilon_t - V_g(pi_{t+1}, p_{t+1}), 0),
    eta_t     = slack H sqrt(t),
    epsilon_t = min(slack / 2, k 5 H^2 sqrt(S^3 A) (ln(t / delta) + 1) / sqrt(t ln(t / delta))).

`multipliers` are ``q / eta``. It knows how much room a safe policy leaves, not the policy.

Guarantee with known thresholds: weak violation bounded by a constant, weak regret of order sqrt(T).

Deviations.
1. The primal is planned over the plausible models, untruncated (`plausible_models.best_response`), in place of
   truncated values with bonuses.
2. epsilon is at most half of the slack from the first episode on (the paper asks for it from some episode on);
   `tightening` scales it, since the constant of the paper leaves it at that bound for a very long time.
3. No quantity depends on T but the radii, so that anytime use resets nothing. The first policy is uniform.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from ..limits import inside_slack
from ..options import Options, Scale, Scales, option_record
from ..planner import Planner
from .optimism import optimistic_models
from .plausible_models import best_response


@option_record
class OptPessPrimalDualOptions(Options):
    """The options of `OptPessPrimalDual`: those of `Options`, and two more.

    Args:
        slack: how much room a safe policy leaves over an episode, in the constraints' units: one number or one per
            constraint.
        tightening: k, the scale of epsilon; 1 is what the theorem needs.

    """

    slack: Scales
    tightening: Scale = 1.0


class OptPessPrimalDual(Planner):
    """A dual step towards tightened limits; the primal is optimistic planning.

    Examples:
        >>> import safespot as ss
        >>> problem = ss.problems.make("machine")
        >>> learner = ss.learners.OptPessPrimalDual(
        ...     **problem.interface, episodes=500, thresholds=[1.0], slack=1.0, bonus_scale=0.1
        ... )
        >>> run = ss.learn(problem, learner)
        >>> print(run.violation[-1] < 0)  # on average the limit was kept
        True

    """

    name = "opt-pess-primal-dual"
    options_type = OptPessPrimalDualOptions
    options: OptPessPrimalDualOptions

    def _derive(self) -> None:
        self.slack = inside_slack(self.interface, self.options.slack)
        super()._derive()

    def epsilon(self, t: int) -> float:
        """Return the tightening of the limits at episode t."""
        f, log = self.interface, math.log(t / self.options.delta)
        paper = 5.0 * f.H**2 * math.sqrt(f.S**3 * f.A) * (log + 1.0) / math.sqrt(t * log)
        return min(self.slack / 2.0, self.options.tightening * paper)

    def plan(self) -> dict[str, NDArray]:
        """Respond to the queue, then move it."""
        f, lam, t = self.interface, self.state.lam, self.episode
        values, _, actions = best_response(optimistic_models(self), np.r_[1.0, lam])
        eta, ahead = (self.slack * f.H * math.sqrt(k) for k in (t, t + 1))
        queue = eta * lam + self.limits + self.epsilon(t) - values[1:]
        return {"pi": np.eye(f.A)[actions], "lam": np.maximum(queue, 0.0) / ahead}
