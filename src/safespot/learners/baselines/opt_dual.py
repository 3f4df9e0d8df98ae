"""OptDual-CMDP (Efroni, Mannor, Pirotta 2020, "Exploration-exploitation in constrained MDPs").

    (pi_{t+1}, p_{t+1}) = argmax V_r(pi, p) + sum_i lambda_t,i V_{g_i}(pi, p)     over plausible p,
    lambda_{t+1} = clip(lambda_t + step (alpha - V_g(pi_{t+1}, p_{t+1})), 0, rho).

The primal is optimistic planning for the multipliers, by extended value iteration: its policies are deterministic,
and only their average approaches the constrained optimum.

Guarantee with known thresholds: *weak* regret and violation of order sqrt(T).

Deviations.
1. The radii are those of `learners.radii`, derived as D3 is; signals are clipped to [0,1].
2. Multipliers are projected to [0, rho] as SPOT's are; ``step = rho / sqrt(m H^2 T)`` unless given.
3. The first policy is uniform. Data up to and including episode t make the policy of t+1; the multipliers move with
   that policy's optimistic value, one step after it.
4. A learned start distribution has intervals too (D5). Anytime, multipliers start over with every epoch.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from ..limits import dual_bound
from ..options import DualOptions
from ..planner import Planner
from .optimism import optimistic_models
from .plausible_models import best_response


class OptDual(Planner):
    """A projected dual step; the primal is optimistic planning for the current multipliers.

    Examples:
        >>> import safespot as ss
        >>> problem = ss.problems.make("machine")
        >>> options = {"thresholds": [1.0], "slack": 1.0, "bonus_scale": 0.1}
        >>> learner = ss.learners.OptDual(**problem.interface, episodes=500, **options)
        >>> run = ss.learn(problem, learner)
        >>> print(run.multipliers[-1].round(1))  # a unit of strain is worth 3
        [3.1]

    """

    name = "opt-dual"
    options_type = DualOptions
    options: DualOptions

    def _derive(self) -> None:
        self.rho = dual_bound(self.interface, self.options)
        super()._derive()

    def begin_epoch(self) -> dict[str, NDArray]:
        """Return multipliers of 0."""
        return {"lam": np.zeros(self.interface.m)}

    @property
    def dual_step(self) -> float:
        """``1 / eta_lambda``."""
        f, given = self.interface, self.options.dual_step
        return self.rho / math.sqrt(f.m * f.H**2 * self.epoch.length) if given is None else given

    def plan(self) -> dict[str, NDArray]:
        """Respond to the multipliers, then move them."""
        lam = self.state.lam
        values, _, actions = best_response(optimistic_models(self), np.r_[1.0, lam])
        moved = lam + self.dual_step * (self.limits - values[1:])
        return {"pi": np.eye(self.interface.A)[actions], "lam": moved.clip(0.0, self.rho)}
