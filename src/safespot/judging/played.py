"""Proofs of safety for the policies that were played, by the episodes alone.

The episodes from the s-th on, each played by its own policy, say something about "for every episode, draw one of these
policies at random": the mean of V_g - alpha over them, which `sequences.ChangingMeans` bounds with no model. Where
they were all played by one policy, that is the policy. A log says it of the practice that made it.

Later episodes are mostly better, and fewer. So there are several starts s, declared before anything is seen: the first
episode has half of delta, the 64 others (2^k and 3 2^(k-1) episodes later, k = 5 ... 36) share the other half. Each
bound holds at all times, so one may look as often as one likes.

Which policies were played depends on what was seen, and so does the side on which a verdict could be wrong: both sides
of a difference share what a start has.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from ..arrays import Bool, Float, Int, Policy
from ..data.logs import Log
from ..errors import InvalidOption
from ..evidence.certificate import Certificate, issue, policy_digest
from ..evidence.sequences import changing_means, observe_many_changing, sums_of_means
from ..evidence.trial import as_bounds, statement_levels
from ..files import checksum
from ..signals.doubts import Doubts
from ..signals.interface import as_known
from ..signals.limits import Limits
from ..signals.terms import Terms, interface_terms
from ..signals.totals import episode_sums, statements
from ..storage.durable import DurableLearner
from ..training.metering import MOST_SUMS
from ..training.run import Run

STARTS = tuple(sorted([*(2**k for k in range(5, 37)), *(3 * 2 ** (k - 1) for k in range(5, 37))]))


class Past(NamedTuple):
    """Episodes that were played."""

    terms: Terms
    numbers: Int  # [n]: those that the learner's own policies played
    sums: Float  # [n, 2+4m], see `episode_sums`
    moved: Bool  # [n+1]: whether the policy was another one than before; at last whether the coming one is
    policy: Policy | None  # [H, S, A]: the coming one; None: of a log, whose policies are unknown
    source: str  # what the episodes are called
    doubts: Doubts


class _Candidate(NamedTuple):
    """A start, and what the episodes from there on prove."""

    start: int  # the row
    low: Float  # lower bounds of the means of the statements
    room: Float  # [m]: the lower ends of the differences, inside

    @property
    def preference(self) -> tuple[bool, float]:
        """The sort key of mixtures: proven ones first, those of most episodes; then the others, by the least margin."""
        safe = bool((self.room >= 0.0).all())
        return safe, -float(self.start) if safe else float(self.room.min())


def judge_played(past: Past, delta: float) -> Certificate:
    """Return what is proven of the episodes from the start that proves most."""
    if len(past.numbers) == 0:
        raise InvalidOption("no episode was played yet: there is nothing to certify.")
    rows = np.ascontiguousarray(statements(past.terms.declared, past.sums))
    best = max(_candidates(past, rows, delta), key=lambda each: each.preference)
    rows, since = rows[best.start :], int(past.numbers[best.start])
    subject = _subject(past, best.start)
    return issue(
        past.terms,
        as_bounds(past.terms, best.low),
        delta,
        episodes=len(rows),
        basis=(
            f"It rests on {len(rows):,} {past.source}, from number {since:,} on, and speaks {ABOUT[subject]}. The "
            "bounds need no model and hold at every moment; the start is one of several that share delta."
        ),
        assumptions=_assumptions(past, subject),
        subject=subject,
        policy_digest=policy_digest(past.policy)
        if subject == "policy" and past.policy is not None
        else checksum({"statements": rows}, {"subject": subject}),
        data_digest=checksum({"statements": rows}, {"delta": delta, "start": best.start}),
        doubts=past.doubts.sentences(),
        since=since,
    )


def _subject(past: Past, start: int) -> str:
    """Return what the episodes from a row on are about; one policy is named only where it is the coming one, too."""
    if past.policy is None:
        return "practice"
    return "mixture" if past.moved[start + 1 :].any() else "policy"


# Where the episodes come from


def past_of_run(run: Run) -> Past:
    """Return the episodes of a run, whose sums it keeps."""
    if run.sums is None:
        raise InvalidOption(
            f"this run keeps no sums of its {run.played:,} episodes, so that nothing is left to certify; a run has "
            f"them up to {MOST_SUMS:,} episodes. Learn in shorter runs, or try its policy: certify(problem, policy)."
        )
    return Past(
        terms=run.learner.make_meter().terms,
        numbers=run.first + np.arange(run.played),
        sums=run.sums.totals,
        moved=run.sums.moved,
        policy=run.policy,
        source="episodes as they were played",
        doubts=run.learner.doubts,
    )


def past_of_durable(durable: DurableLearner) -> Past:
    """Return the episodes that a durable learner's own policies played, gone through again."""
    terms, known = durable.learner.make_meter().terms, durable.interface
    numbers, sums, moved = list[int](), list[Float](), list[bool]()
    last: Policy | None = None
    for number, (policy, episode) in enumerate(durable.replay(), durable.first):
        if policy is None:
            continue  # someone else's
        same = last is not None and np.array_equal(policy, last)
        last = last if same else policy.copy()
        numbers.append(number)
        sums.append(episode_sums(known.check(episode)))
        moved.append(not same)
    moved.append(last is None or not np.array_equal(durable.policy, last))
    return Past(
        terms=terms,
        numbers=np.array(numbers),
        sums=np.array(sums),
        moved=np.array(moved),
        policy=durable.policy,
        source="episodes as they were played",
        doubts=durable.learner.doubts,
    )


def past_of_log(log: Log, limits: Limits = None) -> Past:
    """Return the episodes of a log; `limits` say more than it was read with."""
    known, n = as_known(log.interface, limits), len(log.episodes)
    if not n:
        raise InvalidOption(f"{log.source} has no episode that can be used.")
    source = f"of {n:,} episodes of a log"
    if log.rejected:
        source += f" ({len(log.rejected):,} others were rejected)"
    return Past(
        terms=interface_terms(known),
        numbers=np.arange(1, n + 1),
        sums=np.array([episode_sums(known.check(episode)) for episode in log.episodes]),
        moved=np.ones(n + 1, np.bool_),
        policy=None,
        source=source,
        doubts=log.doubts,
    )


# What they prove


def _candidates(past: Past, rows: Float, delta: float) -> Iterator[_Candidate]:
    """Yield what the episodes from each start on prove, each with its share of delta."""
    n, m, declared = len(rows), past.terms.m, past.terms.declared
    for start, share in starts(n, delta):
        state, low = changing_means(rows.shape[1]), np.empty(rows.shape[1])
        observe_many_changing(state, rows[start:])
        sums_of_means(state, statement_levels(declared, share, moving=True), low)
        low /= n - start
        room = declared.least + declared.width * low[2 : 2 + 2 * m : 2]
        yield _Candidate(start, low, room)


def starts(n: int, delta: float) -> Iterator[tuple[int, float]]:
    """Yield the rows at which n episodes may be begun with, each with its share of delta."""
    yield 0, delta / 2.0
    for start in STARTS:
        if start < n:
            yield start, delta / (2.0 * len(STARTS))


ABOUT = {
    "policy": "of the one policy that played them",
    "mixture": "of the mixture of their policies: draw one of these episodes at random, for every episode anew, and "
    "play its policy; an average of the policies is another policy, of which nothing is proven",
    "practice": "of the practice that made them, with whatever it knew beyond the log. It is no policy that could be "
    "played by others",
}


def _assumptions(past: Past, subject: str) -> tuple[str, ...]:
    limits = (
        "the thresholds are the ones that were given"
        if len(past.terms.declared.alpha)
        else "the thresholds will be what they were on average over these episodes; a step without a sample counts as "
        "the worst in either direction"
    )
    subjects = {
        "policy": "this policy, and no other, played these episodes",
        "mixture": "a policy is drawn anew for every episode, from all of these with the same probability",
        "practice": "the practice goes on as it was",
    }
    counted = "every episode counts, whatever came of it"
    if past.policy is None:
        counted += (
            ", those that were left out of the log too: nothing that happened in them is the reason"
        )
    return (
        subjects[subject],
        counted,
        "every signal, and every total of an episode, lies in its declared range",
        "the process will be what it was on average over these episodes",
        limits,
    )
