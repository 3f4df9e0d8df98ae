"""The trial of one policy that was fixed before its first episode, and the certificate that it may end in.

An episode's total of g has the mean V_g, that of its threshold samples x the mean alpha, and both may share their
noise. Episodes before the trial have shown the threshold too, N of them. With n episodes of the trial to come, the mean
of all N + n samples is the best guess of alpha, so the trial watches

    Y = sum_h (g_h - w x_h),    w = n / (N + n),    whose mean is V_g - w alpha,

and what is left of alpha, (1 - w) alpha, is bounded by the samples before it. The two are evidence about one number,
V_g - alpha, and are taken together (`evidence.joint`): squares of radii add up, not radii. Before any samples (w = 1)
Y is the difference D of `evidence.differences`; so it is where thresholds are known. Where hints are missing and
`shared_threshold` is declared, samples have no totals: then w = 0, and V_g is held against the bounds of alpha.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from ..arrays import Float, InsideEpisode, Policy, frozen
from ..evidence.certificate import Bounds, Certificate, issue, policy_digest
from ..evidence.differences import Declared, hinted, reward_shares, value_total
from ..evidence.doubts import Doubts
from ..evidence.interface import Interface
from ..evidence.joint import Evidence, evidence_of, least_sum
from ..evidence.meter import REWARD
from ..evidence.sequences import (
    LN2,
    PATIENCE,
    FixedMeans,
    Targets,
    crossing,
    fixed_means,
    observe_fixed,
    read_fixed,
    targets,
)
from ..evidence.totals import EPISODES, SAMPLES, STEPS, TotalRates, TotalState
from ..files import checksum
from ..kernels.jit import inlined, no_refcount

OPEN, KEPT, BROKEN, ISSUED = range(4)  # the verdict; ISSUED: kept, and the certificate is written


class TrialRates(NamedTuple):
    """What stays the same within a trial."""

    declared: Declared
    targets: Targets
    level: float  # ln(1/share) of the lower bound of one constraint
    break_level: float  # of the upper one
    value_level: float  # of each side of the reward and of V_g, which are only printed
    learned: bool  # whether the thresholds are


class Before(NamedTuple):
    """What the episodes before a trial showed of the thresholds; rows 2i and 2i+1 as in `TotalState`."""

    weight: Float  # [m]: w
    said: Float  # [2m, K]: the terms of the evidence
    slopes: Float  # [2m, K]
    limits: Float  # [2, m]: the range that the evidence is about


class Certified(NamedTuple):
    """A policy that was proven to keep every limit."""

    policy: Policy  # [H, S, A]
    certificate: Certificate
    episode: int  # the last one that the proof rests on


def trial_rates(declared: Declared, share: float, length: int, *, learned: bool) -> TrialRates:
    """A trial of about `length` episodes, whose verdict is false with probability `share` at most.

    "All are kept" is false where *one* limit is broken, and then that constraint's lower bound is wrong: each of the m
    lower bounds may have the whole share of that side. "Some is broken" needs one of m upper bounds to be wrong.
    """
    m = len(declared.least)
    return TrialRates(
        declared=declared,
        targets=targets(length),
        level=math.log(2.0 / ((1.0 - REWARD) * share)),
        break_level=math.log(2.0 * m / ((1.0 - REWARD) * share)),
        value_level=math.log(2.0 * (1 + m) / (REWARD * share)),
        learned=learned,
    )


def empty_trial(m: int) -> FixedMeans:
    """A trial before its first episode: rows reward, 1 - reward; then for each constraint Y, -Y, g, -g in [0,1]."""
    return fixed_means(2 + 4 * m)


def nothing_before(m: int) -> Before:
    """No episode before a trial: Y is D."""
    K = targets().rate.shape[0]
    return Before(np.ones(m), np.zeros((2 * m, K)), np.zeros((2 * m, K)), np.zeros((2, m)))


def look_back(rates: TotalRates, totals: TotalState, finished: int, length: int) -> Before:
    """What `finished` episodes showed of the thresholds, for a trial of `length` episodes that begins now."""
    m = rates.limits.shape[1]
    if rates.kind in (EPISODES, STEPS, SAMPLES) and (totals.means.counted > 0.0).all():
        found: Evidence = evidence_of(rates.targets, totals.means)
        whole = np.repeat([[0.0], [float(totals.by_step.shape[1])]], m, axis=1)
        limits = rates.limits if rates.kind == EPISODES else whole
        weight = np.full(m, length / (finished + length))
        return Before(weight, found.terms, found.slopes, limits.copy())
    made = nothing_before(m)
    if len(totals.samples):  # shared: there are no totals
        made.weight[:] = 0.0
    return made


@inlined
def watch_trial(
    rates: TrialRates,
    trial: FixedMeans,
    before: Before,
    verdict: int,
    lower: Float,
    upper: Float,
    episode: InsideEpisode,
) -> int:
    """Count an episode of the policy on trial; the verdict, as soon as there is one."""
    declared, targets = rates.declared, rates.targets
    worst, best = reward_shares(declared, episode.rewards)
    for side in range(2):  # a loop, so that what it calls is compiled once
        observe_fixed(targets, trial, side, worst if side == 0 else 1.0 - best)
    kept, broken = True, False
    for i in range(lower.shape[0]):
        row = 2 + 4 * i
        least_value, most_value = value_total(episode.constraints, i)
        under, over = hinted(declared, episode.thresholds, i)
        least, width = trial_range(declared, before.weight[i], i)
        w = before.weight[i]
        low = within((least_value - w * over - least) / width)
        high = within(1.0 - (most_value - w * under - least) / width)
        least, most = declared.values[0, i], declared.values[1, i]
        low_value = within((least_value - least) / (most - least))
        high_value = 1.0 - within((most_value - least) / (most - least))
        for side in range(4):
            x = low if side == 0 else high if side == 1 else low_value if side == 2 else high_value
            observe_fixed(targets, trial, row + side, x)
        if verdict == OPEN and trial.counted[row] >= trial.due[row]:
            read_trial(rates, trial, before, lower[i], upper[i], i)
            trial.due[row] = trial.counted[row] + max(
                1.0, math.floor(trial.counted[row] / PATIENCE)
            )
        low, high = trial_bounds(declared, trial.lower, i)
        kept &= low >= 0.0
        broken |= high < 0.0
    if verdict == OPEN:
        return BROKEN if broken else KEPT if kept else OPEN
    return verdict


@inlined
def within(x: float) -> float:
    """`x`, but for rounding in [0,1]."""
    return min(max(x, 0.0), 1.0)


@inlined
def trial_range(declared: Declared, w: float, i: int) -> tuple[float, float]:
    """The least that Y can be, and the width of its range."""
    values, limits = declared.values, declared.limits
    width = values[1, i] - values[0, i] + w * (limits[1, i] - limits[0, i])
    return values[0, i] - w * limits[1, i], width


@no_refcount
def read_trial(
    rates: TrialRates,
    trial: FixedMeans,
    before: Before,
    lower: float,
    upper: float,
    i: int,
) -> None:
    """Raise the bounds of V_g - alpha of constraint i to what the episodes so far prove, in parts of D's range.

    Below, ``V_g - alpha = mean of Y - (1 - w) alpha`` is least where Y's mean u is and the threshold's share v of its
    range, from above, is; and likewise above.
    """
    declared, w = rates.declared, before.weight[i]
    least, width = trial_range(declared, w, i)
    lowest, highest = before.limits[0, i], before.limits[1, i]
    rest = 1.0 - w
    for side in range(2):
        row, told = 2 + 4 * i + side, 2 * i + 1 - side
        level = rates.level if side == 0 else rates.break_level
        terms = trial.terms
        for k in range(terms.shape[0]):
            size = math.log(trial.product[row, k]) + LN2 * trial.power[row, k]
            terms[k] = rates.targets.log_prior[k] + size + trial.offset[row, k]
        if before.slopes[told, 0] > 0.0:
            found = least_sum(
                terms, trial.slope[row], width,
                before.said[told], before.slopes[told], rest * (highest - lowest), level,
            )  # fmt: skip
            alpha = highest if side == 0 else lowest
        else:
            found = width * max(crossing(terms, trial.slope[row], level), 0.0)
            alpha = upper if side == 0 else lower
        bound = least + found - rest * alpha if side == 0 else least + width - found - rest * alpha
        share = (bound - declared.least[i]) / declared.width[i]
        share = share if side == 0 else 1.0 - share
        trial.lower[row] = max(trial.lower[row], within(share))


@inlined
def trial_bounds(declared: Declared, bound: Float, i: int) -> tuple[float, float]:
    """The bounds of V_g - alpha of constraint i, inside, from those of a trial's rows."""
    row, least, width = 2 + 4 * i, declared.least[i], declared.width[i]
    return least + width * bound[row], least + width * (1.0 - bound[row + 1])


def value_spread(declared: Declared, trial: FixedMeans) -> Float:
    """The standard deviation ``[m]`` of an episode's total of g; infinite before two episodes."""
    n, width = trial.counted[2], declared.values[1] - declared.values[0]
    if n < 2.0:
        return np.full(len(width), math.inf)
    spread: Float = width * np.sqrt(trial.squares[4::4] / n)
    return spread


def hint_spread(rates: TotalRates, totals: TotalState, limits: Float) -> Float:
    """The same of an episode's threshold samples, which lie in `limits` ``[2,m]``; 0 where they have no totals."""
    width, counted = limits[1] - limits[0], totals.means.counted[::2]
    if len(totals.samples):
        return np.zeros(len(width))
    if len(counted) == 0 or (counted < 2.0).any():
        half: Float = width / 2.0
        return half
    if rates.kind != EPISODES:  # a number is a sample, of H in an episode
        width = np.sqrt(np.full(len(width), float(totals.by_step.shape[1])))
    spread: Float = width * np.sqrt(totals.means.squares[::2] / counted)
    return spread


def certify_trial(
    f: Interface,
    rates: TrialRates,
    trial: FixedMeans,
    pi: Policy,
    lower: Float,
    upper: Float,
    delta: float,
    episode: int,
    doubts: Doubts,
) -> Certified:
    """The certificate of a trial of `pi` that has just decided; `lower` and `upper` ``[m]`` bound the thresholds."""
    declared, n = rates.declared, int(trial.counted[0])
    for row in (0, 1, *(2 + 4 * i + j for i in range(f.m) for j in (2, 3))):
        read_fixed(rates.targets, trial, row, rates.value_level)
    bound, units, H = trial.lower, f.units, f.H
    least, width = declared.values[0], declared.values[1] - declared.values[0]
    values = least + width * bound[4::4], least + width * (1.0 - bound[5::4])
    differences = np.array([trial_bounds(declared, bound, i) for i in range(f.m)]).T
    if not rates.learned:
        values = lower + differences[0], lower + differences[1]
    scale = np.abs(units.constraints.scale)
    reward = [float(units.reward.total_outside(H * x, H)) for x in (bound[0], 1.0 - bound[1])]
    bounds = Bounds(
        difference=(scale * differences[0], scale * np.maximum(*differences)),
        value=units.bounds(values[0], np.maximum(*values), H),
        threshold=units.bounds(lower, upper, H),
        reward=(reward[0], max(reward)),
    )
    certificate = issue(
        f,
        bounds,
        delta,
        episodes=n,
        difference_confidence=1.0 - delta * (1.0 + (1.0 - REWARD) * (f.m - 1) / 4.0),
        basis=(
            f"It rests on {n:,} episodes of this one policy, which was fixed before them, and on what all episodes "
            "before showed of the thresholds, by confidence sequences, which hold at every moment. With this "
            "confidence every certificate that the learner ever issues is true."
        ),
        assumptions=(
            "the episodes are independent of each other, all of them were counted, and their law does not change",
            "every signal lies in its declared range",
            "the thresholds are the ones that were given"
            if not rates.learned
            else "the thresholds do not change over the episodes; a step without a sample counts as the worst in "
            "either direction, unless shared_threshold says that samples are alike",
        ),
        subject="policy",
        policy_digest=policy_digest(pi),
        doubts=doubts.sentences(),
        data_digest=checksum({k: v for k, v in trial._asdict().items() if k != "terms"}, {}),
    )  # fmt: skip
    return Certified(frozen(pi.copy()), certificate, episode)
