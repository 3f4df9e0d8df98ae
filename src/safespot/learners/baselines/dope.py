"""DOPE, doubly optimistic and pessimistic exploration (Bura, HasanzadeZonuzy, Kalathil, Shakkottai, Chamberland 2022).

Safe in every episode: optimistic about rewards and transitions, pessimistic about constraints, and the safe baseline
as long as no plan is safe for certain:

    (pi_t, p_t) = argmax V_{r_up}(pi, p)   subject to   V_{g_low,i}(pi, p) >= alpha_i   over plausible p,
    beta  = c sqrt(L_r / n),  tv = half the widths of the pair's intervals,  psi = beta + (H - h) tv,
    g_low = max(g_hat - beta, 0) - (H - h) tv,
    r_up  = min(r_hat + beta, 1) + (2 H / slack) psi.

Why these constants. Two plausible rows differ by tv at most, so the value of g_low in *any* plausible model is
below the true value: what is played is safe. For the true model it is above the true value less twice the sum of
psi. So the mixture of the optimal policy and a share kappa of the baseline is feasible once ``kappa slack >= 2
Psi``, with Psi the sum of psi along it; it loses at most kappa H of reward, which the bonus ``2 H / slack`` on psi
pays back: the plan's value is at least the optimum.

Guarantee with known thresholds (or the pessimistic stance): no violation in any episode, with probability 1 -
delta; regret of order sqrt(T). The baseline must keep the limits with `slack` to spare.

Deviations.
1. The radii and constants above, derived as D3 is, in place of the paper's; unknown rewards and constraints.
2. The paper plays the baseline for a fixed number of episodes; here as long as the pessimistic program has no solution.
3. `replan` as in `OptCMDP`.
4. A learned start distribution has intervals too (D5); the limits are tightened by ``H tv`` of it.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ..radii import means, signal_radius
from .optimism import BaselinePlanner, make_models, steps_after
from .plausible_models import optimistic_plan, total_variation


class DOPE(BaselinePlanner):
    """Plans pessimistic about constraints and optimistic about the rest; the baseline until a plan is safe.

    Examples:
        >>> import safespot as ss
        >>> problem, gentle = ss.problems.make("machine"), [[1, 0], [1, 0]]
        >>> learner = ss.learners.DOPE(**problem.interface, episodes=500, thresholds=[1.0], baseline=gentle, slack=1.0)
        >>> run = ss.learn(problem, learner)
        >>> print(run.strong_violation[-1])  # the limit was kept in every episode
        0.0

    """

    name = "dope"

    def plan(self) -> dict[str, NDArray]:
        """Solve the pessimistic program."""
        H, radii, pooled = self.interface.H, self.rates.radii, self.counts()
        beta, v_hat = signal_radius(radii, pooled.n), means(pooled)
        models = make_models(self, pooled, v_hat)
        drift = steps_after(H) * np.stack([total_variation(rows) for rows in models.rows])
        payoffs = np.maximum(v_hat - beta, 0.0) - drift
        payoffs[0] = np.minimum(v_hat[0] + beta, 1.0) + self.price * (beta + drift)
        limits = self.limits + H * total_variation(models.start)
        return self.if_safe(optimistic_plan(models._replace(payoffs=payoffs), limits))
