"""Bounds of a policy's values in the model of a learner's data.

With the radii of the theorems (scale 1), ``phi`` of a pair bounds the error of its signals and of its transitions at
once. Backward from the last step,

    lower_h(s,a) = max( g_hat - phi + p_hat lower_{h+1}, 0 ),
    upper_h(s,a) = min( g_hat + phi + p_hat upper_{h+1}, remaining ),

enclose the value of any Markov policy, chosen from the same data or not, because the bound on the transitions holds
for every value function at once. A pair without data has the bounds 0 and `remaining`.

In terms of gaps to the cap, the upper bound is the same recursion as the lower one, on ``1 - g_hat - phi`` in place of
``g_hat - phi``. One evaluation does both.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from ..arrays import Float, Policy, as_policy
from ..errors import InvalidOption
from ..evidence.certificate import (
    Bounds,
    Certificate,
    issue,
    more_episodes,
    policy_digest,
)
from ..files import checksum
from ..learners.learner import Learner
from ..learners.pooling import pool
from ..learners.radii import bernstein, means
from ..learners.threshold_totals import HintTotals, bounds_at
from ..planning.counted import Pooled
from ..signals.terms import interface_terms
from ..spot.optimism import Radii, threshold_bounds

LEAST = math.log(20.0)  # ln(SAHT/delta) from which the radii are proven (D3)


class LearnedModel(NamedTuple):
    """Estimates from a learner's data in inside units, and bounds of their errors."""

    means: Float  # [1+m, H, S*A]: reward, then constraints; 0 where nothing was seen
    rows: tuple[
        Any, ...
    ]  # H sparse arrays [S*A, S]: transitions as counted; empty where nothing was seen
    phi: Float  # [H, S*A]: the error of a pair; infinite where too little was seen
    start: Float  # [S]: the start distribution, known or estimated
    phi_0: float  # the error of the start; 0 where it is known
    lower: Float  # [m]: of the thresholds
    upper: Float  # [m]


def judge_by_data(learner: Learner, policy: ArrayLike | None) -> Certificate:
    """Return what the learner's data say of `policy` ``[H,S,A]``; None: of its policy for the coming episode.

    It holds for every Markov policy at once, chosen from the same data or not, at every moment up to the learner's T.
    It uses the radii that are proven, never `bonus_scale` or `threshold_scale`.
    """
    evidence = gather(learner)
    f, finished = learner.interface, int(learner.state.finished[0])
    pi = learner.policy if policy is None else as_policy(policy, (f.H, f.S, f.A), f.mask)
    lower, upper, estimate, spread = _evaluate(learner, evidence, pi)
    half = (evidence.upper - evidence.lower) / 2.0
    gap = np.abs(estimate[1:] - evidence.lower - half) - spread.unexplored
    reward = [float(f.units.reward.total_outside(end[0], f.H)) for end in (lower, upper)]
    scale = np.abs(f.units.constraints.scale)
    bounds = Bounds(
        difference=(scale * (lower[1:] - evidence.upper), scale * (upper[1:] - evidence.lower)),
        value=f.units.bounds(lower[1:], upper[1:], f.H),
        threshold=f.units.bounds(evidence.lower, evidence.upper, f.H),
        reward=(reward[0], reward[1]),
    )
    return issue(
        interface_terms(f, learner.declared),
        bounds,
        learner.options.delta,
        episodes=finished,
        more=more_episodes(gap, spread.radii + half, finished),
        basis=(
            f"It rests on a model of the {finished:,} episodes that a learner has seen. The bounds hold for every "
            "policy at once, also for one chosen from these data, and so are wide; fresh episodes of this one decide "
            "sooner (a trial). Episodes beyond the learner's T need a learner with a larger one."
        ),
        assumptions=_assumptions(learner),
        subject="policy",
        policy_digest=policy_digest(pi),
        data_digest=_data_digest(learner),
        doubts=learner.doubts.sentences(model=True),
    )


def _data_digest(learner: Learner) -> str:
    """Return the digest of what a certificate of this learner rests on: its data, T and delta."""
    data = {k: v for k, v in learner.arrays().items() if k not in ("logits", "lam")}
    options = ("episodes", "delta", "thresholds")
    return checksum(data, {name: getattr(learner.options, name) for name in options})


def gather(learner: Learner) -> LearnedModel:
    """Return a learner's estimates, with the radii of the theorems."""
    f, planned, finished = learner.interface, learner.options.episodes, learner.episode - 1
    if not isinstance(getattr(learner.rates, "radii", None), Radii):
        raise InvalidOption(
            f"{type(learner).__name__} has no radii that hold for every policy at once: its certificates come from its "
            "own trials (learner.certificates). Try a policy afresh, certify(problem, policy), or judge what was "
            "played, certify(run)."
        )
    if planned is not None and finished > planned:
        raise InvalidOption(
            f"the learner has seen {finished} episodes, more than its T = {planned}, for which alone its radii are "
            "proven. Let a learner with a larger T, or an anytime one, observe them; or try the policy afresh, "
            "certify(problem, policy)."
        )
    radii, statistics = proven(learner.rates.radii), learner.statistics
    pooled = pool(statistics, replace(f, stationary=False))
    start, phi_0 = np.zeros(f.S), 0.0
    if f.start is not None:
        start[f.start] = 1.0
    elif finished > 0:
        start = statistics.starts / finished
        phi_0 = f.H * math.sqrt((radii.S + radii.L_p) / finished)
    lower, upper = learner.state.lower.copy(), learner.state.upper.copy()
    if isinstance(learner.window, HintTotals):
        if learner.options.window < 1.0:
            raise InvalidOption(
                "bounds of a window's mean threshold, as estimator='total' has them with window < 1, certify nothing: "
                "the thresholds may drift. Judge what was played instead: certify(run), SafetyMeter."
            )
        # A fifth of delta, as every family of events has; two sides of each constraint.
        lower, upper = bounds_at(learner.window, math.log(10.0 * f.m / learner.options.delta))
    elif learner.options.thresholds is None:
        threshold_bounds(radii, learner.window, lower, upper)
    rows = pooled.matrices(pooled.counts / pooled.n.ravel()[pooled.pairs])
    phi = pair_errors(radii, pooled)
    return LearnedModel(means(pooled), rows, phi, start, phi_0, lower, upper)


def proven(radii: Radii) -> Radii:
    """Return the radii for which the theorems are proven, whatever the learner plays with.

    Both bounds on the transitions have their own share of delta (D3), so the smaller one may be taken. Where a problem
    is so small that the proof of D3 does not reach it, the radii are those of a smaller delta.
    """
    lift = max(0.0, LEAST - radii.L_p)
    return radii._replace(
        L_r=radii.L_r + lift, L_p=radii.L_p + lift, L_b=radii.L_b + lift,
        bonus_scale=1.0, threshold_scale=1.0, bernstein=True, clip=True,
    )  # fmt: skip


def pair_errors(radii: Radii, pooled: Pooled) -> Float:
    """Return phi ``[H, S*A]``; infinite for n <= 1.

    An error in a transition reaches as far as the values after it, which lie in [0, H - 1 - h].
    """
    n, pairs = pooled.n, pooled.pairs
    _, radius = bernstein(radii, n.ravel()[pairs], pooled.counts)
    sums = np.bincount(pairs, radius, n.size).reshape(n.shape)
    visits = np.maximum(n, 1.0)
    plain = radii.bonus_scale * np.sqrt((radii.S + radii.L_p) / visits)
    signal = radii.bonus_scale * np.sqrt(radii.L_r / visits)
    ahead = np.arange(len(n) - 1.0, -1.0, -1.0)[:, None]
    return np.where(n > 1.0, signal + ahead * np.minimum(plain, sums), np.inf)


class _Spread(NamedTuple):
    """The parts of the distance between a policy's bounds."""

    radii: float  # the errors that it meets on its way, added up
    unexplored: float  # what may hide where too little was seen


def _evaluate(
    learner: Learner, evidence: LearnedModel, pi: Policy
) -> tuple[Float, Float, Float, _Spread]:
    """Return lower and upper bounds of a policy's values, their plain estimates, ``[1+m]`` each, and the spread."""
    mean, phi = evidence.means, evidence.phi
    components, H, _ = mean.shape
    unseen = np.isinf(phi)
    remaining = np.arange(H, 0, -1.0)[:, None]
    deficit = np.concatenate(
        [
            1.0 - mean - phi,  # gaps of the upper bounds
            mean - phi,  # the lower bounds themselves
            mean,
            np.where(unseen, 0.0, phi)[None],
            np.where(unseen, remaining, 0.0)[None],
        ]
    )
    ahead = np.zeros((len(deficit), len(evidence.start)))
    for h in range(H - 1, -1, -1):
        D = np.maximum(deficit[:, h] + (evidence.rows[h] @ ahead.T).T, 0.0)
        ahead = (pi[h] * D.reshape(-1, *pi[h].shape)).sum(axis=2)
    at_start = (ahead * evidence.start).sum(axis=1)
    gap, low, guess, (radii, unexplored) = np.split(at_start, np.arange(1, 4) * components)
    # D5: the error of a learned start is one more step's.
    upper = H - (gap - evidence.phi_0).clip(0.0)
    lower = np.minimum((low - evidence.phi_0).clip(0.0), upper)  # rounding may not turn them round
    return lower, upper, guess, _Spread(float(radii) + evidence.phi_0, float(unexplored))


def _assumptions(learner: Learner) -> tuple[str, ...]:
    options = learner.options
    planned = (
        f"the learner sees at most {options.episodes:,} episodes in all, those before a warm start included"
        if options.episodes is not None
        else "every episode that the learner has ever seen is counted, those before a warm start included"
    )
    limits = (
        "the thresholds do not change over the episodes, and whether a step shows a threshold sample does not depend "
        "on what the sample would be"
        if options.thresholds is None
        else "the thresholds are the ones that were given"
    )
    return (
        "the next state, the reward and the signals depend on the past only through step, state and action",
        "every signal lies in its declared range, and its mean does not change over the episodes",
        limits,
        planned,
        "the policy is played as it stands here, in the same process that was learned from",
    )
