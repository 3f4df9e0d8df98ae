"""OptPess-LP (Liu, Zhou, Kalathil, Kumar, Tian 2021, "Learning policies with zero or bounded constraint violation").

`DOPE` planned on the empirical transitions:

    pi_t = argmax V_{r_up}(pi, p_hat)   subject to   V_{g_low,i}(pi, p_hat) >= alpha_i,
    beta  = c sqrt(L_r / n),  tv = a bound on the total variation between p_hat and p,  phi = beta + (H - h) tv,
    g_low = max(g_hat - beta, 0) - (H - h) tv,
    r_up  = min(r_hat + beta, 1) + (H - h) tv + (2 H / slack) phi,

and the safe baseline as long as that has no solution. The constants are those of `DOPE`, for the same reasons.

Guarantee with known thresholds (or the pessimistic stance): no violation in any episode, with probability 1 -
delta; regret of order sqrt(T), by a factor sqrt(S) weaker than `DOPE`'s.

Deviations.
1. The constants above, derived as D3 is. A pair without data leads nowhere, with all that remains as its error.
2. `replan` as in `OptCMDP`.
3. A learned start distribution (D5) is the counted one; the limits are tightened by ``H tv(t-1)``.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ...planning.process import best_plan
from ..radii import means, signal_radius
from .optimism import BaselinePlanner, empirical_model, start_variation, variation_ahead


class OptPessLP(BaselinePlanner):
    """`DOPE` on the empirical model: pessimistic about constraints; the baseline until a plan is safe.

    Examples:
        >>> import safespot as ss
        >>> problem, gentle = ss.problems.make("machine"), [[1, 0], [1, 0]]
        >>> learner = ss.learners.OptPessLP(
        ...     **problem.interface, episodes=500, thresholds=[1.0], baseline=gentle, slack=1.0, bonus_scale=0.1
        ... )
        >>> run = ss.learn(problem, learner)
        >>> print(run.values[-1] > ss.evaluate(problem.cmdp, gentle).value)
        True

    """

    name = "opt-pess-lp"

    def plan(self) -> dict[str, NDArray]:
        """Solve the pessimistic program."""
        radii, pooled = self.rates.radii, self.counts()
        beta, v_hat, drift = (
            signal_radius(radii, pooled.n),
            means(pooled),
            variation_ahead(self, pooled),
        )
        payoffs = np.maximum(v_hat - beta, 0.0) - drift
        payoffs[0] = np.minimum(v_hat[0] + beta, 1.0) + drift + self.price * (beta + drift)
        model = empirical_model(self, pooled, payoffs)
        return self.if_safe(
            best_plan(model, self.limits + self.interface.H * start_variation(self))
        )
