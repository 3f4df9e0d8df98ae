"""What learners that plan over plausible models share: the models, a baseline to fall back on, and radii."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ...arrays import Float, Policy
from ..limits import inside_slack
from ..options import BaselineOptions
from ..planner import Planner
from ..policies import given_policy
from .plausible_models import (
    Models,
    OptimisticPlan,
    empirical_variation,
    means,
    signal_radius,
    start_intervals,
    write_intervals,
)


class BaselinePlanner(Planner):
    """A planner with a safe baseline, which it plays until a plan is safe for certain."""

    options_type = BaselineOptions
    options: BaselineOptions

    def first_policy(self) -> Policy:
        """The baseline."""
        return given_policy(self.interface, "baseline", self.options.baseline)

    def if_safe(self, plan: OptimisticPlan) -> dict[str, NDArray]:
        """What a plan replaces: where no policy is safe for certain, the baseline is played."""
        if not plan.feasible:
            return {"pi": np.array(self.first_policy()), "lam": np.zeros(self.interface.m)}
        return {"pi": plan.policy, "lam": plan.multipliers}

    def _derive(self) -> None:
        self.price = 2.0 * self.interface.H / inside_slack(self.interface, self.options.slack)
        super()._derive()


def optimistic_models(learner: Planner) -> Models:
    """All plausible transitions, with every signal as large as it may be: ``min(v_hat + c sqrt(L_r / n), 1)``."""
    f, radii, statistics = learner.interface, learner.rates.radii, learner.counts()
    n, lower, upper = statistics.n, learner.rows("lower"), learner.rows("upper")
    write_intervals(radii, statistics, lower, upper)
    return Models(
        np.minimum(means(statistics) + signal_radius(radii, n), 1.0),
        lower,
        upper,
        *start_intervals(radii, f.start, statistics.starts),
        np.array(f.mask.reshape(n.shape)),
    )


def steps_after(H: int) -> Float:
    """``[H, 1]``: how many steps follow each one."""
    return np.arange(H - 1.0, -1.0, -1.0)[:, None]


def start_variation(learner: Planner) -> float:
    """How far the counted start distribution can be from the true one; 0 where the start is known."""
    if learner.interface.start is not None:
        return 0.0
    starts = learner.statistics.starts
    n, counted = starts.sum()[None], starts[None].astype(float)
    return float(empirical_variation(learner.rates.radii, n, counted)[0])
