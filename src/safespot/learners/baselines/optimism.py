"""Models, radii and a baseline to fall back on, as learners that plan over plausible models share them."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ...arrays import Float, Policy
from ...planning.counted import Pooled
from ...planning.process import Plan, Process, make_process
from ..limits import inside_slack
from ..options import BaselineOptions
from ..planner import Planner
from ..policies import given_policy
from ..radii import empirical_variation, means, signal_radius
from .plausible_models import (
    Models,
    OptimisticPlan,
    plausible_rows,
    plausible_start,
)


class BaselinePlanner(Planner):
    """A planner with a safe baseline, which it plays until a plan is safe for certain."""

    options_type = BaselineOptions
    options: BaselineOptions

    def first_policy(self) -> Policy:
        """Return the baseline."""
        return given_policy(self.interface, "baseline", self.options.baseline)

    def if_safe(self, plan: OptimisticPlan | Plan) -> dict[str, NDArray]:
        """Return what a plan replaces: where no policy is safe for certain, the baseline is played."""
        if not plan.feasible:
            return {"pi": np.array(self.first_policy()), "lam": np.zeros(self.interface.m)}
        return {"pi": plan.policy, "lam": plan.multipliers}

    def _derive(self) -> None:
        self.price = 2.0 * self.interface.H / inside_slack(self.interface, self.options.slack)
        super()._derive()


def optimistic_models(learner: Planner) -> Models:
    """Return all plausible models, with every signal as large as it may be: ``min(v_hat + c sqrt(L_r / n), 1)``."""
    radii, pooled = learner.rates.radii, learner.counts()
    return make_models(
        learner, pooled, np.minimum(means(pooled) + signal_radius(radii, pooled.n), 1.0)
    )


def make_models(learner: Planner, pooled: Pooled, payoffs: Float) -> Models:
    """Return all plausible transitions and starts, with these payoffs ``[1+m, K or H, S*A]``."""
    f, radii = learner.interface, learner.rates.radii
    mask = f.mask.reshape(f.H, -1)
    return Models(
        np.broadcast_to(payoffs, (len(payoffs), *mask.shape)),
        plausible_rows(radii, pooled),
        plausible_start(radii, f.start, learner.statistics.starts),
        mask,
    )


def empirical_model(learner: Planner, pooled: Pooled, payoffs: Float) -> Process:
    """Return the transitions and starts as counted, with these payoffs; a pair without data leads nowhere."""
    f = learner.interface
    rows = pooled.matrices(pooled.counts / pooled.n.ravel()[pooled.pairs])
    nothing = np.zeros_like(pooled.n), np.zeros((len(payoffs), f.H))
    return make_process(rows, payoffs, pooled.start, f.mask.reshape(f.H, -1), *nothing)


def variation_ahead(learner: Planner, pooled: Pooled) -> Float:
    """Return ``(H - h) tv`` of the counted rows ``[H, S*A]``, H - h being the steps after this one (1-based h)."""
    tv = empirical_variation(learner.rates.radii, pooled.n.ravel(), pooled.pairs, pooled.counts)
    ahead: Float = steps_after(learner.interface.H) * tv.reshape(pooled.n.shape)
    return ahead


def steps_after(H: int) -> Float:
    """Return how many steps follow each one, ``[H, 1]``."""
    return np.arange(H - 1.0, -1.0, -1.0)[:, None]


def start_variation(learner: Planner) -> float:
    """Return how far the counted start distribution can be from the true one; 0 where the start is known."""
    if learner.interface.start is not None:
        return 0.0
    starts = learner.statistics.starts.astype(float)
    row = np.zeros(len(starts), np.int64)
    return float(empirical_variation(learner.rates.radii, starts.sum()[None], row, starts)[0])
