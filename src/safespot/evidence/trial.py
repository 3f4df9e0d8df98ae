"""Trials: the episodes of one policy that was fixed before them, until its safety is decided.

An episode's difference D, its constraint signals less its threshold samples, has the mean V_g - alpha: one statement
for each constraint and side, no model, and no union over policies. The bounds hold at every moment at once
(`sequences.FixedMeans`), so that a trial stops as soon as everything is decided. Where one policy was fixed before its
episodes, a verdict can be wrong on one side only, which that policy says. So each side has the whole share.

Episodes before the trial may have shown the threshold too, N of them. With n episodes of the trial to come, the mean of
all N + n samples is the best guess of alpha, so the trial watches

    Y = sum_h (g_h - w x_h),    w = n / (N + n),    whose mean is V_g - w alpha,

and what is left of alpha, (1 - w) alpha, is bounded by the samples before it (`ThresholdPrior`). The two are evidence
about one number, V_g - alpha, and are taken together (`joint`): squares of radii add up, not radii. Before any samples
w = 1, and Y is D.
"""

from __future__ import annotations

import hashlib
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..arrays import Float, as_count, frozen
from ..errors import InvalidFile, InvalidOption
from ..kernels.jit import inlined, no_refcount
from ..signals.limits import Limits
from ..signals.terms import Declarations, Terms
from ..signals.totals import Declared, check_sums, difference_range, state_totals, within
from .certificate import Bounds, Certificate, issue, policy_digest
from .counter import EpisodeCounter, as_delta, confidence
from .joint import least_sum
from .sequences import (
    STEADY,
    FixedMeans,
    Targets,
    crossing,
    fixed_means,
    is_due,
    log_terms,
    observe_fixed,
    read_fixed,
    targets,
)

# The verdict on all limits together; ISSUED: kept, and the certificate is written.
OPEN, KEPT, BROKEN, ISSUED = range(4)


class TrialRates(NamedTuple):
    """Constants of a trial."""

    declared: Declared
    targets: Targets
    kept_level: float  # ln(1/share) of the lower bound of one constraint's difference
    broken_level: float  # of the upper one
    printed_level: (
        float  # of each side of the reward, values and thresholds, which are only printed
    )
    eager: bool  # whether bounds are read after every episode, or at counts that grow geometrically


class ThresholdPrior(NamedTuple):
    """Evidence about the thresholds from before a trial; rows 2i and 2i+1 for the two sides of constraint i."""

    weight: Float  # [m]: w
    log_terms: Float  # [2m, K]: of the evidence
    slopes: Float  # [2m, K]; 0 where there is none
    limits: Float  # [2, m]: the range that the evidence is about


class TrialState(NamedTuple):
    """The statistics of a trial."""

    means: FixedMeans  # of the statements of `signals.totals.state_totals`
    digest: NDArray  # [32]: of all statements, one after the other


class Trial(EpisodeCounter):
    """Counts the episodes of one policy, fixed before the first of them, until every limit is decided.

    With probability 1 - delta no verdict is false, whenever one stops.

    Args:
        limits: of the episodes: `Limit` records with the range of their totals; or ``problem.interface``.
        delta: the confidence is 1 - delta.
        episodes: the number that the trial is sharpest for, not the most that can be counted.
        more: beside an interface, `Limit` records where more is known than it declares.

    Examples:
        >>> import safespot as ss
        >>> dose = ss.Limit("dose", "<=", total=(0, 10), threshold=6.0)
        >>> trial = ss.Trial(dose)
        >>> while not trial.observe(ss.Totals([4.0 + trial.episodes % 3])):
        ...     pass
        >>> trial.verdict, trial.episodes
        (('safe',), 29)

    """

    kind = "trial"
    state: TrialState

    def __init__(
        self,
        limits: Declarations,
        delta: float = 0.05,
        episodes: int = STEADY,
        more: Limits = None,
    ) -> None:
        super().__init__(limits, more)
        self.delta = as_delta(delta)
        self.planned = as_count("episodes", episodes, least=1, error=InvalidOption)
        levels = statement_levels(self.terms.declared, self.delta)
        self._rates = TrialRates(
            self.terms.declared, targets(self.planned), levels[2], levels[2], levels[0], eager=True
        )
        self._prior = no_prior(self.terms.m)
        self._x = np.empty(len(levels))
        self.state = TrialState(fixed_means(len(levels)), np.zeros(32, np.uint8))

    def count_sums(self, sums: Float) -> bool:
        """Check and count the sums ``[2+4m]`` of an episode, inside; return whether every limit is decided."""
        check_sums(self.terms.declared, sums)
        return self._count(sums)

    def _count(self, sums: Float) -> bool:
        means, digest = self.state
        ends = np.zeros(self.terms.m)  # of thresholds; no prior asks for them
        count_in_trial(self._rates, means, self._prior, ends, ends, sums, self._x)
        chained = hashlib.blake2b(digest.tobytes() + self._x.tobytes(), digest_size=len(digest))
        digest[:] = np.frombuffer(chained.digest(), np.uint8)
        return self.decided

    @property
    def episodes(self) -> int:
        """The number of episodes counted."""
        return int(self.state.means.counted[0])

    @property
    def difference_bounds(self) -> tuple[Float, Float]:
        """(lower ``[m]``, upper ``[m]``) of the margin that each limit is kept with, in the user's units."""
        low, high = np.array(self._differences()) * self.terms.scale
        return frozen(low), frozen(np.maximum(low, high))

    @property
    def verdict(self) -> tuple[str, ...]:
        """The verdict ``[m]`` on each limit: "safe", "unsafe" or "unknown"."""
        if self.doubts.sentences():
            return ("unknown",) * self.terms.m
        return verdicts(*self._differences())

    @property
    def decided(self) -> bool:
        """True once the episodes decide every limit; where `doubts` are, a `verdict` may still be "unknown"."""
        return "unknown" not in verdicts(*self._differences())

    def _differences(self) -> tuple[Float, Float]:
        return difference_bounds(self.terms.declared, self.state.means)

    def certificate(self, policy_id: str | ArrayLike = "") -> Certificate:
        """Return what is proven so far of the policy with this name, or of this array."""
        if self.episodes == 0:
            raise InvalidOption("there are no episodes: a trial needs at least one.")
        return issue(
            self.terms,
            trial_bounds(self.terms, self._rates, self.state.means),
            self.delta,
            episodes=self.episodes,
            difference_confidence=1.0 - 2.0 * self.delta,
            basis=(
                f"It rests on {self.episodes:,} fresh episodes of this one policy, on the differences of their "
                "constraint and threshold signals, by confidence sequences, which hold at every moment, so that the "
                "trial could stop as soon as everything was decided."
            ),
            assumptions=(
                "the policy was fixed before the trial, and was played as it stands here in every episode",
                "the episodes are independent of each other, all of them were counted, and their law does not change",
                "every signal, and every total of an episode, lies in its declared range",
                thresholds_assumption(self.terms.declared),
            ),
            subject="policy",
            policy_digest=policy_digest(policy_id),
            data_digest=self.state.digest.tobytes().hex(),
            doubts=self.doubts.sentences(),
        )

    @property
    def options(self) -> dict[str, Any]:
        """The constructor's arguments but for the limits."""
        return {"delta": self.delta, "episodes": self.planned}

    def _facts(self) -> dict[str, Any]:
        low, high = self.difference_bounds
        names = self.terms.names
        margins = {
            f"margin of {names.limit(i)}": f"{low[i]:.4g} to {high[i]:.4g}, {verdict}"
            for i, verdict in enumerate(self.verdict)
        }
        return {
            "episodes": self.episodes, **margins, **confidence(self.delta, self.doubts.sentences())
        }  # fmt: skip

    def _check(self) -> None:
        check_trial(self.state.means)


def statement_levels(declared: Declared, delta: float, *, moving: bool = False) -> Float:
    """Return ln(1/share) of each statement (`signals.totals.state_totals`).

    Each side of a difference has delta / m: verdicts on a policy that was fixed before are right with probability
    1 - delta, both ends of the differences with 1 - 2 delta. Where policies may change with what was seen (`moving`),
    that may also decide which side is the wrong one, so the two divide it: then both ends hold with 1 - delta. All
    other bounds, which are only printed, hold at once with probability 1 - delta of their own.
    """
    m, known = len(declared.least), len(declared.alpha) > 0
    rows = 2 + (4 if known else 6) * m
    shares = np.full(rows, delta / (rows - 2 * m))
    shares[2 : 2 + 2 * m] = delta / (2 * m if moving else m)
    return frozen(-np.log(shares))


def no_prior(m: int) -> ThresholdPrior:
    """Return the evidence of no episodes: Y is D."""
    K = targets().rate.shape[0]
    return ThresholdPrior(np.ones(m), np.zeros((2 * m, K)), np.zeros((2 * m, K)), np.zeros((2, m)))


def thresholds_assumption(declared: Declared) -> str:
    """Return what is assumed of the thresholds, for a certificate."""
    if len(declared.alpha):
        return "the thresholds are the ones that were given"
    return (
        "the thresholds do not change over the episodes; a step without a sample counts as the worst in either "
        "direction"
    )


def verdicts(low: Float, high: Float) -> tuple[str, ...]:
    """Return "safe", "unsafe" or "unknown" for bounds ``[m]`` of V_g - alpha."""
    return tuple(
        "safe" if least >= 0.0 else "unsafe" if most < 0.0 else "unknown"
        for least, most in zip(low, high, strict=True)
    )


def difference_bounds(declared: Declared, trial: FixedMeans) -> tuple[Float, Float]:
    """Return (lower ``[m]``, upper ``[m]``) of V_g - alpha, inside."""
    ends = [difference_interval(declared, trial.lower, i) for i in range(len(declared.least))]
    low, high = np.array(ends).T
    return low, high


def trial_bounds(terms: Terms, rates: TrialRates, trial: FixedMeans) -> Bounds:
    """Return all that a trial proves; it reads the rows that are only printed."""
    m, rows = terms.m, len(trial.counted)
    for row in (0, 1, *range(2 + 2 * m, rows)):
        read_fixed(rates.targets, trial, row, rates.printed_level)
    return as_bounds(terms, trial.lower)


def as_bounds(terms: Terms, low: Float) -> Bounds:
    """Return what lower bounds of statements (`signals.totals.state_totals`) prove of their means.

    Where there are no statements of thresholds, the declared ones stand.
    """
    m, declared = terms.m, terms.declared
    below, above = low[0::2], np.maximum(low[0::2], 1.0 - low[1::2])
    difference, value, threshold = (
        np.stack([below, above])[:, 1 + k * m : 1 + (k + 1) * m] for k in range(3)
    )
    lower, upper = terms.scale * (declared.least + declared.width * difference)
    least, most = declared.values
    limits = declared.limits
    if threshold.size:
        limits = limits[0] + (limits[1] - limits[0]) * threshold
    reward = terms.reward_outside(below[0], above[0])
    return Bounds(
        difference=(lower, upper),
        value=terms.outside(*(least + (most - least) * value)),
        threshold=terms.outside(*limits),
        reward=(float(reward[0]), float(reward[1])),
    )


def check_trial(trial: FixedMeans) -> None:
    """Raise unless the state of a file can be that of a trial."""
    n = trial.counted
    if not (
        (n == np.floor(n)).all()
        and (n == n[0]).all()
        and (trial.power == np.floor(trial.power)).all()
        and ((trial.total >= 0.0) & (trial.total <= n)).all()
        and (np.abs(trial.lower - 0.5) <= 0.5).all()
    ):
        raise InvalidFile("its numbers contradict each other")


# Kernels


@no_refcount
def count_in_trial(
    rates: TrialRates,
    trial: FixedMeans,
    prior: ThresholdPrior,
    lower: Float,
    upper: Float,
    sums: Float,
    x: Float,
) -> int:
    """Call `watch_trial` for an episode that comes alone."""
    return watch_trial(rates, trial, prior, OPEN, lower, upper, sums, x)


@inlined
def watch_trial(
    rates: TrialRates,
    trial: FixedMeans,
    prior: ThresholdPrior,
    verdict: int,
    lower: Float,
    upper: Float,
    sums: Float,
    x: Float,
) -> int:
    """Count an episode of sums ``[2+4m]``; return the verdict on all limits together, as soon as there is one.

    `lower` and `upper` ``[m]`` bound the thresholds where the prior says nothing of them; `x` is a buffer with a number
    for each row of the trial.
    """
    state_totals(rates.declared, prior.weight, sums, x)
    for r in range(x.shape[0]):
        observe_fixed(rates.targets, trial, r, x[r])
    if verdict != OPEN:
        return verdict
    kept, broken = True, False
    for i in range(lower.shape[0]):
        if rates.eager or is_due(trial, 2 + 2 * i):
            read_difference(rates, trial, prior, lower[i], upper[i], i)
        low, high = difference_interval(rates.declared, trial.lower, i)
        kept &= low >= 0.0
        broken |= high < 0.0
    return BROKEN if broken else KEPT if kept else OPEN


@no_refcount
def read_difference(
    rates: TrialRates,
    trial: FixedMeans,
    prior: ThresholdPrior,
    lower: float,
    upper: float,
    i: int,
) -> None:
    """Raise the bounds of V_g - alpha of constraint i to what the episodes so far prove, in parts of D's range.

    Below, ``V_g - alpha = mean of Y - (1 - w) alpha`` is least where Y's mean u is and the threshold's share v of its
    range, from above, is; and likewise above.
    """
    declared, w = rates.declared, prior.weight[i]
    for side in range(2):
        row, other = 2 + 2 * i + side, 2 * i + 1 - side
        level = rates.kept_level if side == 0 else rates.broken_level
        if w == 1.0:
            read_fixed(rates.targets, trial, row, level)
            continue
        least, width, _ = difference_range(declared, w, i)
        lowest, highest = prior.limits[0, i], prior.limits[1, i]
        rest = 1.0 - w
        log_terms(rates.targets, trial, row)
        if prior.slopes[other, 0] > 0.0:
            bound = least_sum(
                trial.terms, trial.slope[row], width,
                prior.log_terms[other], prior.slopes[other], rest * (highest - lowest), level,
            )  # fmt: skip
            alpha = highest if side == 0 else lowest
        else:
            bound = width * max(crossing(trial.terms, trial.slope[row], level), 0.0)
            alpha = upper if side == 0 else lower
        bound = least + bound - rest * alpha if side == 0 else least + width - bound - rest * alpha
        share = (bound - declared.least[i]) / declared.width[i]
        trial.lower[row] = max(trial.lower[row], within(share if side == 0 else 1.0 - share))


@inlined
def difference_interval(declared: Declared, bound: Float, i: int) -> tuple[float, float]:
    """Return the bounds of V_g - alpha of constraint i, inside, from those of a trial's rows."""
    row, least, width = 2 + 2 * i, declared.least[i], declared.width[i]
    return least + width * bound[row], least + width * (1.0 - bound[row + 1])
