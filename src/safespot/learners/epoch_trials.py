"""The trials of `SpotEpochs`: their shares of delta, what was known of the thresholds before, and certificates."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from ..arrays import Float, Policy, frozen
from ..evidence.certificate import Certificate, issue, policy_digest
from ..evidence.joint import evidence_of
from ..evidence.meter import REWARD
from ..evidence.sequences import FixedMeans, fixed_means, targets
from ..evidence.trial import (
    ThresholdPrior,
    TrialRates,
    difference_bounds,
    no_prior,
    trial_bounds,
)
from ..files import checksum
from ..signals.doubts import Doubts
from ..signals.terms import Terms
from ..signals.totals import Declared
from .threshold_totals import EPISODES, SAMPLES, STEPS, TotalRates, TotalState

EARLY = 5  # the phases up to the sixth share half of what all trials may miss
KEPT_PART, BROKEN_PART = (
    0.8,
    0.1,
)  # of a trial's share, where thresholds are learned; the rest is for printed bounds


class Certified(NamedTuple):
    """A policy that was proven to keep every limit."""

    policy: Policy  # [H, S, A]
    certificate: Certificate
    episode: int  # the last one that the proof rests on


def phase_share(k: int, delta: float, *, learned: bool) -> float:
    """Return the share of delta of the trial in phase k, from 1.

    All of them add up to delta, or to half of it where thresholds are learned, whose bounds have the other half.
    """
    whole = delta / 2.0 if learned else delta
    return whole * (1 + EARLY) / ((k + EARLY) * (k + EARLY + 1))


def trial_rates(declared: Declared, share: float, length: int) -> TrialRates:
    """Return a trial of about `length` episodes, whose verdict is false with probability `share` at most.

    The policy is fixed before the trial, and either breaks a limit or keeps all. "All are kept" can only be false of
    the first kind, where one *lower* bound is then wrong; "some is broken" only of the second kind, where one of m
    upper bounds is. Which it is follows from the policy. Where thresholds are known, the trial's evidence is its own
    episodes', which do not know the past: so each lower bound has the whole share, and so have all upper ones together.

    Where thresholds are learned, what the past has shown of them is part of the evidence, and has chosen the policy,
    too: it may have chosen one that breaks the very limit of which it misleads. So lower and upper bounds divide the
    share, and m of either divide their part.
    """
    m, learned = len(declared.least), len(declared.alpha) == 0
    known = 1.0 - REWARD
    return TrialRates(
        declared=declared,
        targets=targets(length),
        kept_level=math.log(m / (KEPT_PART * share) if learned else 1.0 / (known * share)),
        broken_level=math.log(m / ((BROKEN_PART if learned else known) * share)),
        printed_level=math.log(2.0 * (1 + m) / (REWARD * share)),
        eager=False,
    )


def empty_trial(m: int) -> FixedMeans:
    """Return a trial before its first episode: of the reward, Y and the values."""
    return fixed_means(2 + 4 * m)


def threshold_prior(
    rates: TotalRates, totals: TotalState, finished: int, length: int
) -> ThresholdPrior:
    """Return what `finished` episodes showed of the thresholds, for a trial of `length` episodes that begins now."""
    m = rates.limits.shape[1]
    if rates.kind in (EPISODES, STEPS, SAMPLES) and (totals.means.counted > 0.0).all():
        evidence = evidence_of(rates.targets, totals.means)
        whole = np.repeat([[0.0], [float(totals.by_step.shape[1])]], m, axis=1)
        limits = rates.limits if rates.kind == EPISODES else whole
        weight = np.full(m, length / (finished + length))
        return ThresholdPrior(weight, evidence.terms, evidence.slopes, limits.copy())
    prior = no_prior(m)
    if len(
        totals.samples
    ):  # shared: there are no totals, and V_g is held against the bounds of alpha
        prior.weight[:] = 0.0
    return prior


def value_spread(declared: Declared, trial: FixedMeans) -> Float:
    """Return the standard deviation ``[m]`` of an episode's total of g; infinite before two episodes."""
    n, width = trial.counted[0], declared.values[1] - declared.values[0]
    if n < 2.0:
        return np.full(len(width), math.inf)
    spread: Float = width * np.sqrt(trial.squares[2 + 2 * len(width) :: 2] / n)
    return spread


def value_means(declared: Declared, trial: FixedMeans) -> Float:
    """Return the mean ``[m]`` of an episode's total of g over a trial."""
    rows = slice(2 + 2 * len(declared.least), None, 2)
    least, most = declared.values
    means: Float = least + (most - least) * (trial.total[rows] / trial.counted[rows])
    return means


def hint_spread(rates: TotalRates, totals: TotalState, limits: Float) -> Float:
    """Return the standard deviation ``[m]`` of an episode's hints, in `limits` ``[2,m]``; 0 if they have no totals."""
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
    terms: Terms,
    rates: TrialRates,
    trial: FixedMeans,
    pi: Policy,
    thresholds: tuple[Float, Float],
    delta: float,
    episode: int,
    doubts: Doubts,
) -> Certified:
    """Return the certificate of a trial of `pi` that has just decided; `thresholds` bound them, inside."""
    n, (lower, upper) = int(trial.counted[0]), thresholds
    bounds = trial_bounds(terms, rates, trial)
    learned = len(terms.declared.alpha) == 0
    if learned:
        bounds = bounds._replace(threshold=terms.outside(lower, upper))
    else:
        low, high = difference_bounds(terms.declared, trial)
        bounds = bounds._replace(value=terms.outside(lower + low, lower + high))
    certificate = issue(
        terms,
        bounds,
        delta,
        episodes=n,
        difference_confidence=1.0 - delta * (1.0 if learned else 1.0 + (1.0 - REWARD) * terms.m),
        basis=(
            f"It rests on {n:,} episodes of this one policy, which was fixed before them, and on what all episodes "
            "before showed of the thresholds, by confidence sequences, which hold at every moment. With this "
            "confidence every certificate that the learner ever issues is true."
        ),
        assumptions=(
            "the episodes are independent of each other, all of them were counted, and their law does not change",
            "every signal lies in its declared range",
            "the thresholds do not change over the episodes; a step without a sample counts as the worst in either "
            "direction, unless shared_threshold says that samples are alike"
            if learned
            else "the thresholds are the ones that were given",
        ),
        subject="policy",
        policy_digest=policy_digest(pi),
        doubts=doubts.sentences(),
        data_digest=checksum({k: v for k, v in trial._asdict().items() if k != "terms"}, {}),
    )
    return Certified(frozen(pi.copy()), certificate, episode)
