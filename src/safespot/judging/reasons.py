"""Reasons for a proposal, a sentence each."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from ..arrays import Bool, Float, place
from ..data.logs import SHOWN, Log
from ..evidence.certificate import Certificate
from ..planning.process import Plan
from ..signals.interface import Interface
from ..signals.totals import Declared


class Seen(NamedTuple):
    """Statistics of the episodes in inside units; the thresholds in the middle of what missing samples leave open."""

    lower: Float  # [m]: proven bounds of the thresholds
    upper: Float  # [m]
    reward: float  # means over the episodes
    difference: Float  # [m]
    spread: Float  # [m]: standard deviations of an episode's D, and of its threshold
    threshold_spread: Float


class Followed(NamedTuple):
    """The actions that may be followed."""

    mask: Bool  # [K, S*A], K being 1 or H
    untried: int  # actions never taken, in visited states
    rare: int  # that were taken in too few cases


class Estimate(NamedTuple):
    """The model's estimates for the policy, in the user's units."""

    reward: float
    reward_error: float
    room: Float
    room_errors: Float


def called(log: Log, i: int) -> str:
    """Return the words for a limit: "limit 0", or "the limit on dose"."""
    name = log.constraint_names[i] if log.constraint_names else str(i)
    return f"limit {name}" if name.isdecimal() else f"the limit on {name}"


def episodes(log: Log) -> str:
    """Return the sentence on the number of episodes that were used."""
    total = len(log.episodes) + len(log.rejected)
    sentence = f"{len(log.episodes):,} of {total:,} episodes of {log.source} were used"
    if doubts := log.doubts.sentences():
        return f"{sentence}; {'; '.join(doubts)}, so nothing is proven."
    return f"{sentence}."


def counted(
    f: Interface, odd: Sequence[tuple[int, int]], followed: Followed, cases: int
) -> tuple[str, ...]:
    """Return the sentences on whether steps share their counts, and on the actions that are left out."""
    if f.stationary and not odd:
        steps = (
            "Nothing in the log contradicts that all steps are alike, so they share their counts."
        )
    elif odd:
        examples = "; ".join(place("sa", pair) for pair in odd[:SHOWN])
        steps = f"The steps of the log are not alike ({examples}), so each has its own counts."
    else:
        steps = (
            "Each step has its own counts. Nothing in the log contradicts that all steps are alike: read with "
            "stationary=True, they would share them."
        )
    return steps, _left_out(followed, cases)


def _left_out(followed: Followed, cases: int) -> str:
    """Return the sentence on the actions that are not followed in visited states."""
    untried, rare = followed.untried, followed.rare
    if not untried + rare:
        return "No action is left out in any state of the log."
    parts = [f"{untried:,} that nobody took there"] * bool(untried)
    parts += [f"{rare:,} taken in fewer than {cases:,} cases"] * bool(rare)
    return f"Choices (an action in a state) that are not followed: {' and '.join(parts)}."


def practice(log: Log, f: Interface, certificate: Certificate, seen: Seen) -> Iterator[str]:
    """Yield the sentences on each limit under the practice: its verdict and its margin."""
    words = {
        "safe": "proven to keep",
        "unsafe": "proven to break",
        "unknown": "not proven to keep or break",
    }
    for i, verdict in enumerate(certificate.verdict):
        low, high = (float(end[i]) for end in certificate.difference_bounds)
        mean = float(np.abs(f.units.constraints.scale[i]) * seen.difference[i])
        confidence, both = certificate.confidence, certificate.difference_confidence
        if certificate.doubts:
            yield f"What was done is {words[verdict]} {called(log, i)}: its room was {mean:.4g} on average."
            continue
        ends = f" (both ends with confidence {both:.3g})" if both < confidence else ""
        yield (
            f"What was done is {words[verdict]} {called(log, i)} (confidence {confidence:.3g}): its room was "
            f"{mean:.4g} on average, and lies in [{low:.4g}, {high:.4g}]{ends}."
        )


def limits(
    log: Log, f: Interface, declared: Declared, proven: tuple[Float, Float], delta: float
) -> Iterator[str]:
    """Yield the sentences on the limits: known, or between proven bounds."""
    for i in range(f.m):
        if len(declared.alpha):
            yield f"{called(log, i).capitalize()} is given: {proven[0][i]:.4g}."
        else:
            how = f"as the log proves (confidence {1.0 - delta:.3g})"
            if log.doubts.sentences():
                how = "by the episodes that were used, which prove nothing of the others"
            yield f"{called(log, i).capitalize()} lies in [{proven[0][i]:.4g}, {proven[1][i]:.4g}], {how}."


def planned(log: Log, f: Interface, estimate: Estimate, seen: Seen, plan: Plan) -> Iterator[str]:
    """Yield the sentences on the policy's estimates in the model of the log, with their standard errors."""
    did = float(f.units.reward.total_outside(seen.reward, f.H))
    if not plan.feasible:
        yield "No policy that follows what was done keeps every limit with a margin; this one comes closest."
    yield (
        f"In the model of these episodes the policy earns {estimate.reward:.4g} (standard error "
        f"{estimate.reward_error:.2g}); what was done earned {did:.4g}."
    )
    for i, (room, error) in enumerate(zip(estimate.room, estimate.room_errors, strict=True)):
        verb = "keeps" if room >= 0.0 else "breaks"
        yield (
            f"In the model of these episodes it {verb} {called(log, i)} by {abs(room):.4g}, with a standard error of "
            f"{error:.2g}."
        )


def proof(certificate: Certificate, takes: int | None) -> str:
    """Return the sentence on the proof of the policy, or on the trial that would prove it."""
    if certificate.safe.all():
        return "It is the policy that made the log, and proven to keep every limit."
    if takes is None:
        return "Nothing is proven of this policy, and in the model it keeps no margin that a trial could prove."
    return (
        f"Nothing is proven of this policy yet. If the world is as the model has it, a trial of about {takes:,} "
        f"episode{'s' * (takes != 1)} would prove it."
    )
