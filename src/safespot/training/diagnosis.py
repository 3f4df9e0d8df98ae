"""Diagnoses of runs: shortcomings that can be seen, and the options that would change them.

- Pairs at their cap: with ``v_hat + phi >= 1`` in the reward and in every constraint a pair may still be perfect for
  all that the learner knows, and nothing drives it away from or towards that pair.
- A multiplier at its bound rho would be larger if it could: the limit is worth more than the learner may pay.
- Threshold bounds wider than the room of the safest policy that was played: a pessimist cannot tell it from an unsafe
  one.
- A limit that no recorded policy kept.
- A policy that is where it began.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ..arrays import Float
from ..learners.fixed import Fixed, Uniform
from ..learners.options import Options

if TYPE_CHECKING:
    from .run import Run

GOOD = 0.95  # share of the optimum that leaves nothing to be explained
CAPPED = 0.5  # share of the tried pairs at their cap that is worth a word
AT_BOUND = 0.999  # of rho
MOVED = 0.05  # mean distance of a policy from its beginning, in [0,1]
ROUNDING = 1e-9


@dataclass(frozen=True)
class Finding:
    """A shortcoming of a run, and the option that would change it.

    Examples:
        >>> import safespot as ss
        >>> problem = ss.problems.make("dosing")
        >>> learner = ss.Spot(**problem.interface, episodes=1000, slack=1.8)  # the paper's constants
        >>> for finding in ss.learn(problem, learner).diagnosis:
        ...     print(finding.option)
        bonus_scale
        episodes
        policy_step

    """

    what: str
    option: str
    advice: str

    def __str__(self) -> str:
        return f"{self.what} {self.advice}"


def diagnose(run: Run) -> tuple[Finding, ...]:
    """Return the findings that keep a run from being good; none if its last policy keeps the limits and earns 95 %."""
    fixed = isinstance(run.learner.guarded, Fixed | Uniform)  # which no option makes better
    if len(run.episodes) == 0 or fixed or _is_good(run):
        return ()
    return (*_capped(run), *_at_bound(run), *_wide(run), *_never_kept(run), *_unmoved(run))


def _is_good(run: Run) -> bool:
    """Return whether the last policy keeps every limit and earns `GOOD` of the optimum; False where that is unknown."""
    if math.isnan(run.optimum):
        return False
    keeps_limits = bool((run.rooms[-1] >= -ROUNDING).all())
    return keeps_limits and bool(run.values[-1] >= GOOD * run.optimum)


def _capped(run: Run) -> list[Finding]:
    deficit = getattr(run.learner.state, "deficit", None)
    if deficit is None:  # it plans in another way
        return []
    counts = run.learner.statistics.n  # [H, S*A]
    tried = counts > 0
    share = float((deficit.max(axis=0) <= 0.0)[tried].mean()) if tried.any() else 0.0
    if share < CAPPED:
        return []
    return [
        Finding(
            f"{100 * share:.0f} % of the pairs that were tried, {np.median(counts[tried]):,.0f} times in the median, "
            "are still at their cap: for all that the learner knows they are perfect.",
            "bonus_scale",
            'bonus_scale="auto" lets it learn sooner (a smaller number does, too). SpotEpochs needs none.',
        )
    ]


def _at_bound(run: Run) -> list[Finding]:
    learner, names = run.learner, run.learner.interface.names
    if math.isinf(learner.rho):
        return []
    return [
        Finding(
            f"The multiplier of {names.limit(i)} is at its bound: the limit is worth more than it may cost.",
            "rho",
            f"Raise rho, which is {learner.rho:.3g}, or state a smaller slack.",
        )
        for i in np.flatnonzero(learner.state.lam >= AT_BOUND * learner.rho).tolist()
    ]


def _wide(run: Run) -> list[Finding]:
    learner, names = run.learner, run.learner.interface.names
    if learner.options.thresholds is not None:
        return []
    width: Float = (run.threshold_bounds[1] - run.threshold_bounds[0])[-1]
    room = run.rooms.max(axis=0)
    option, advice = (
        "thresholds",
        "thresholds= states it where it is known; more episodes narrow it.",
    )
    if isinstance(learner.options, Options) and learner.options.estimator != "total":
        option = "threshold_scale"
        advice = (
            'estimator="total" has the narrowest bounds that hold, a smaller threshold_scale narrower ones that may '
            "not; thresholds= states the limit where it is known."
        )
    return [
        Finding(
            f"The threshold of {names.limit(i)} is known within {width[i]:.3g}; the safest policy that was played had "
            f"a room of {room[i]:.3g}.",
            option,
            advice,
        )
        for i in np.flatnonzero((width > room) & (room > 0.0)).tolist()
    ]


def _never_kept(run: Run) -> list[Finding]:
    """Find the limits that no recorded policy kept: bounds of any width would not help there."""
    learner, names = run.learner, run.learner.interface.names
    option, advice = "episodes", "It needs more episodes."
    if learner.options.xi > 0.0:
        option, advice = (
            "stance",
            'stance="pessimistic" plans with the stricter bound of the limit.',
        )
    return [
        Finding(f"No policy that was looked at kept the limit of {names.limit(i)}.", option, advice)
        for i in np.flatnonzero(run.rooms.max(axis=0) <= 0.0).tolist()
    ]


def _unmoved(run: Run) -> list[Finding]:
    learner, f = run.learner, run.learner.interface
    visits = learner.statistics.n.reshape(f.H, f.S, f.A).sum(axis=2)
    if not visits.any():
        return []
    apart = np.abs(learner.policy - learner.anew().policy).sum(axis=2) / 2.0
    moved = float((apart * visits).sum() / visits.sum())
    if moved >= MOVED:
        return []
    eta = getattr(learner.rates, "eta", None)
    finding = f"The policy has hardly moved: {100 * moved:.1f} % of its decisions are other than at first."
    if eta is None:
        return [Finding(finding, "episodes", "It needs more episodes.")]
    advice = f"policy_step is {eta:.2g}; one that is ten times as large moves sooner, and so do more episodes."
    return [Finding(finding, "policy_step", advice)]
