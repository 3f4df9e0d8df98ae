"""`propose`: from a log to the policy to try next.

The plan is the one that `SpotEpochs` would try: pessimistic, in the model of the log's counts, with a margin for what
the counts leave open and for what a trial needs to prove it (`learners.proposals`). It follows only what was done often
enough:

- an action that was never taken in a state stays out of it;
- one that was taken there in fewer than `cases` cases stays out too, unless it is what was done there most often.

Nothing of the policy is proven by that. What the log does prove is about the practice that made it (`certify`)
and about the limits; a trial of the policy proves the rest.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ..arrays import Float, Policy, as_count, frozen
from ..data.empirical import pool_log
from ..data.logs import Log
from ..errors import InvalidFile, InvalidOption
from ..evidence.certificate import Bounds, Certificate, issue, policy_digest
from ..evidence.counter import as_delta
from ..evidence.lengths import episodes_needed
from ..evidence.sequences import lower_bounds
from ..files import checksum
from ..learners.epoch_options import Recipe
from ..learners.options import AnyOptions
from ..learners.proposals import plan_with_margin
from ..learners.stationarity import contradictions_of
from ..planning.counted import Known, Pooled, count_model, imagine
from ..planning.errors import standard_errors
from ..planning.process import Plan
from ..signals.interface import Interface, make_interface
from ..signals.terms import interface_terms
from ..signals.totals import Declared, declare, episode_sums, statements
from . import reasons
from .certify import certify
from .reasons import Estimate, Followed, Seen

HOPELESS = 1e-3  # of a deviation: a room that takes a trial of millions of episodes
CASES = 10  # of an action in a state, from which on it is followed


@dataclass(frozen=True, eq=False)
class Proposal:
    """The policy to try next, what is proven of it, and why it is this one.

    Values are those of the model of the log's counts, in the user's units; their errors are standard errors by the
    delta method, and no bounds.

    Examples:
        >>> import safespot as ss
        >>> problem, noise = ss.problems.make("machine"), ss.streams(seed=0)
        >>> coin = [[0.5, 0.5], [0.5, 0.5]]
        >>> ss.write_log("past.csv", [ss.play(problem, coin, noise, t) for t in range(1, 501)])
        >>> proposal = ss.propose(ss.read_log("past.csv", **problem.interface))
        >>> print(proposal.certificate.verdict, proposal.practice.verdict)
        ('unknown',) ('unsafe',)
        >>> bool(ss.evaluate(problem.cmdp, proposal.policy).constraints[0] <= problem.cmdp.limits[0])
        True

    """

    policy: Policy  # [H, S, A]
    certificate: Certificate  # of this policy: "unknown" until it is tried, unless it is the one that made the log
    reasons: tuple[str, ...]  # sentences
    practice: Certificate  # what the log proves of what was done
    trial_episodes: (
        int | None
    )  # about how many a trial takes to prove it; None: more will not, as it stands
    reward: float
    reward_error: float
    room: Float  # [m]: by how much it keeps each limit, in the model; below 0: breaks it
    room_errors: Float  # [m]
    threshold_bounds: tuple[
        Float, Float
    ]  # (lower [m], upper [m]): where the log proves the limits to be

    def as_dict(self) -> dict[str, Any]:
        """Return plain numbers, texts and lists, ready for JSON."""
        return {
            "reasons": list(self.reasons),
            "trial_episodes": self.trial_episodes,
            "reward": self.reward,
            "reward_error": self.reward_error,
            "room": self.room.tolist(),
            "room_errors": self.room_errors.tolist(),
            "threshold_bounds": [end.tolist() for end in self.threshold_bounds],
            "certificate": self.certificate.as_dict(),
            "practice": self.practice.as_dict(),
            "policy": self.policy.tolist(),
        }

    def __str__(self) -> str:
        return "\n".join(self.reasons)


def propose(
    log: Log,
    behaviour: ArrayLike | None = None,
    *,
    trial: int | None = None,
    cases: int = CASES,
    stance: str | float = "pessimistic",
    delta: float = 0.05,
) -> Proposal:
    """Plan the policy to try next from a log, with a margin.

    Steps share their counts where the log was read with ``stationary=True`` and does not contradict it.

    Args:
        log: its episodes, and what was declared when it was read.
        behaviour: the policy ``[H,S,A]`` or ``[S,A]`` that made the log, where it is known exactly.
        trial: how many episodes its trial may take; by default as many as the log has. The shorter, the wider the
            margin must be.
        cases: an action is followed in a state from this many cases on, or where nothing was done more often.
        stance: "pessimistic" adds the margin, 0.5 has none, "optimistic" takes it off; or xi in [0,1].
        delta: the confidence of what is proven is 1 - delta, each.

    Examples:
        >>> import safespot as ss
        >>> problem, noise = ss.problems.make("machine"), ss.streams(seed=0)
        >>> coin = [[0.5, 0.5], [0.5, 0.5]]
        >>> ss.write_log("past.csv", [ss.play(problem, coin, noise, t) for t in range(1, 501)])
        >>> print(ss.propose(ss.read_log("past.csv", **problem.interface)).reasons[-1])
        Nothing is proven of this policy yet. If the world is as the model has it, a trial of about ...
        episodes would prove it.

    """
    if not isinstance(log, Log):
        raise InvalidOption(f"propose takes a log, as read_log gives it; got {type(log).__name__}.")
    delta, xi = as_delta(delta), AnyOptions(episodes=None, stance=stance).xi
    cases = as_count("cases", cases, least=1, error=InvalidOption)
    if not log.episodes:
        raise InvalidFile(f"there are no usable episodes to propose a policy from.\n{log}")
    length = as_count(
        "trial", len(log.episodes) if trial is None else trial, least=1, error=InvalidOption
    )
    f = make_interface(**log.interface)
    declared = declare(f)
    practice = certify(log, behaviour, delta=delta)
    seen = _look(log, f, declared, delta)
    odd = contradictions_of(pool_log(log, stationary=False), f.A)
    pooled = pool_log(log, f.stationary and not odd)
    followed = _followed(pooled, f, cases)
    recipe = Recipe()
    known = Known(np.zeros((1 + f.m, 1, f.S * f.A)), np.zeros(1 + f.m, np.bool_))
    imagined = imagine(f.H, f.m, recipe.pessimism, declared.values, best=False)
    model = count_model(pooled, imagined, known, followed.mask)
    # What a trial of the difference D needs (`sequences.FixedMeans`), beyond what the limit's upper end covers.
    radius = math.sqrt(2.0 * (math.log(f.m / delta) + recipe.mixture)) + recipe.power
    needs = (radius * seen.spread / math.sqrt(length) - (seen.upper - seen.lower) / 2.0).clip(0.0)
    limits = seen.lower * xi + seen.upper * (1.0 - xi)
    plan, _ = plan_with_margin(
        model, known, len(log.episodes), limits, 1.0 - 2.0 * xi, needs, recipe
    )
    values, errors = standard_errors(model, known, plan.policy, len(log.episodes))
    return _proposal(
        log,
        f,
        declared,
        delta,
        practice,
        seen,
        plan,
        values,
        errors,
        reasons.counted(f, odd, followed, cases),
    )


def proven_limits(log: Log, delta: float = 0.05) -> tuple[Float, Float]:
    """Return (lower ``[m]``, upper ``[m]``), the bounds of the limits that a log proves with confidence 1 - delta.

    A sample does not depend on who acts, so it needs no model; where limits are known, both ends are theirs. A log with
    doubts proves no more than what is declared.
    """
    f = make_interface(**log.interface)
    declared = declare(f)
    if log.doubts.sentences():
        least, most = declared.limits
        return f.units.bounds(least, most, f.H)
    seen = _look(log, f, declared, as_delta(delta))
    return f.units.bounds(seen.lower, seen.upper, f.H)


def _look(log: Log, f: Interface, declared: Declared, delta: float) -> Seen:
    totals = np.array([episode_sums(f.check(episode)) for episode in log.episodes])
    rows, m = statements(declared, totals), f.m
    # The two sums are one but for unfinished episodes, whose rewards and constraints count at their least.
    reward, _, value, _, under, over = np.split(totals, [1, 2, 2 + m, 2 + 2 * m, 2 + 3 * m], axis=1)
    lower, upper = least, most = declared.limits
    threshold = np.broadcast_to(least, value.shape)
    if not len(declared.alpha):
        threshold = (np.maximum(under, least) + np.minimum(over, most)) / 2.0
        proven = lower_bounds(rows[:, 2 + 4 * m :], np.full(2 * m, np.log(2.0 * m / delta)))
        lower = least + (most - least) * proven[0::2]
        upper = np.maximum(lower, most - (most - least) * proven[1::2])
    # Few episodes that are alike do not show that all are: one more lies a quarter of the range away (`sequences`).
    quarters = declared.width / 4.0, (most - least) / 4.0
    spread = [
        np.sqrt(x.var(axis=0) + quarter**2 / len(x))
        for x, quarter in zip((value - threshold, threshold), quarters, strict=True)
    ]
    difference: Float = (value - threshold).mean(axis=0)
    return Seen(lower, upper, float(reward.mean()), difference, *spread)


def _followed(pooled: Pooled, f: Interface, cases: int) -> Followed:
    n = pooled.n.reshape(-1, f.S, f.A)
    met = n.sum(axis=2, keepdims=True) > 0.0
    enough = n >= cases
    often = (n > 0.0) & (n == n.max(axis=2, keepdims=True))
    followed = np.where(enough.any(axis=2, keepdims=True), enough, often)
    declared = f.mask if (f.mask != f.mask[:1]).any() else f.mask[:1]
    mask = followed & declared
    mask = np.where(mask.any(axis=2, keepdims=True), mask, declared)  # unvisited: any action
    untried, rare = declared[: len(n)] & met & (n == 0.0), (n > 0.0) & ~followed
    return Followed(
        np.ascontiguousarray(mask.reshape(len(mask), -1)), int(untried.sum()), int(rare.sum())
    )


def _proposal(
    log: Log,
    f: Interface,
    declared: Declared,
    delta: float,
    practice: Certificate,
    seen: Seen,
    plan: Plan,
    values: Float,
    errors: Float,
    counted: tuple[str, ...],
) -> Proposal:
    """Return the proposal in the user's units, with its reasons and its certificate."""
    units, scale, n = f.units, np.abs(f.units.constraints.scale), len(log.episodes)
    middle = (seen.lower + seen.upper) / 2.0
    room = scale * (values[1:] - middle)
    room_errors = scale * np.sqrt(errors[1:] ** 2 + seen.threshold_spread**2 / n)
    worst = scale * (-declared.least).clip(0.0)
    takes = _trial_episodes(room, scale * seen.spread, worst, delta)
    policy = frozen(plan.policy)
    proven = units.bounds(seen.lower, seen.upper, f.H)
    certificate = practice
    if not certificate.covers(policy):
        certificate = _unproven(log, f, declared, delta, policy, proven, takes)
    estimate = Estimate(
        reward=float(units.reward.total_outside(values[0], f.H)),
        reward_error=float(errors[0] * units.reward.scale),
        room=room,
        room_errors=room_errors,
    )
    sentences = (
        reasons.episodes(log),
        *counted,
        *reasons.practice(log, f, practice, seen),
        *reasons.limits(log, f, declared, proven, delta),
        *reasons.planned(log, f, estimate, seen, plan),
        reasons.proof(certificate, takes),
    )
    return Proposal(
        policy, certificate, sentences, practice, takes, estimate.reward, estimate.reward_error,
        frozen(room), frozen(room_errors), proven,
    )  # fmt: skip


def _trial_episodes(room: Float, deviation: Float, worst: Float, delta: float) -> int | None:
    """Estimate how many episodes prove all margins; None where one of them is next to nothing."""
    if not (room > HOPELESS * deviation).all():
        return None
    return max(
        episodes_needed(r, d, delta, constraints=len(room), worst=w)
        for r, d, w in zip(room.tolist(), deviation.tolist(), worst.tolist(), strict=True)
    )


def _unproven(
    log: Log,
    f: Interface,
    declared: Declared,
    delta: float,
    policy: Policy,
    thresholds: tuple[Float, Float],
    takes: int | None,
) -> Certificate:
    """Return the certificate of a policy that was never played: its values' whole ranges, and the limits' bounds."""
    scale, units = np.abs(f.units.constraints.scale), f.units
    ends = [float(units.reward.total_outside(x, f.H)) for x in (0.0, float(f.H))]
    bounds = Bounds(
        difference=(scale * declared.least, scale * (declared.least + declared.width)),
        value=units.bounds(declared.values[0], declared.values[1], f.H),
        threshold=thresholds,
        reward=(ends[0], ends[1]),
    )
    return issue(
        interface_terms(f, declared),
        bounds,
        delta,
        episodes=0,
        more=np.full(f.m, np.inf if takes is None else float(takes)),
        basis=(
            f"Nobody has played this policy: it was planned from {len(log.episodes):,} episodes of a log, which prove "
            "nothing about it. Its own episodes in a trial can."
        ),
        assumptions=(
            "every signal, and every total of an episode, lies in its declared range",
            "the thresholds do not change over the episodes of the log",
        ),
        subject="policy",
        policy_digest=policy_digest(policy),
        data_digest=checksum(
            {"limits": np.stack(thresholds)}, {"delta": delta, "log": len(log.episodes)}
        ),
        doubts=log.doubts.sentences(),
    )
