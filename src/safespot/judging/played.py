"""`certify_played`: which of what was played is proven safe, by the episodes alone.

The episodes from the s-th on, each played by its own policy, say something about "draw one of these policies at random,
for every episode anew": the mean of V_g - alpha over them, which `sequences.ChangingMeans` bounds with no model. Where
they were all played by one policy, that is the policy. A log says it of the practice that made it.

Later episodes are mostly better, and fewer. So there are several starts s, declared before anything is seen: the first
episode has half of delta, the 64 others (2^k and 3 2^(k-1) episodes later, k = 5 ... 36) share the other half. Each
bound holds at all times, so one may look as often as one likes.

Which policies were played depends on what was seen, and so does the side on which a verdict could be wrong: unless it
is the behaviour that was given, both sides of a difference share what a start has.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..arrays import Bool, Episode, Float, Int, Policy, frozen
from ..data.logs import Log
from ..display import Displayed
from ..errors import InvalidOption
from ..evidence.behaviour import as_behaviour
from ..evidence.certificate import Certificate, policy_digest
from ..evidence.differences import Declared, declare
from ..evidence.doubts import Doubts
from ..evidence.interface import Interface, make_interface
from ..evidence.meter import as_delta
from ..evidence.sequences import PATIENCE, changing_means, observe_changing, sums_of_means
from ..evidence.statements import (
    certificate_of,
    episode_sums,
    levels,
    statements,
)
from ..files import checksum
from ..kernels.jit import no_refcount
from ..storage.durable import DurableLearner
from ..training.run import Run

STARTS = tuple(sorted([*(2**k for k in range(5, 37)), *(3 * 2 ** (k - 1) for k in range(5, 37))]))
DRAWN = 64  # policies of a mixture that are found at once

Replay = Callable[[], Iterator[tuple[Policy | None, Episode]]]  # None: someone else's policy


@dataclass(frozen=True, eq=False, repr=False)
class Mixture(Displayed):
    """Policies of past episodes. To deploy it, `sample` one for every episode; their average is another policy.

    Examples:
        >>> import numpy as np
        >>> import safespot as ss
        >>> problem = ss.problems.make("machine")
        >>> learner = ss.Spot(**problem.interface, episodes=200, rho=2.4, bonus_scale=0.01)
        >>> mixture = ss.certify_played(ss.learn(problem, learner)).mixture
        >>> mixture.sample(np.random.default_rng(0)).shape
        (2, 2, 2)

    """

    episodes: Int  # [n]: the numbers of the episodes that they were played in; each is as likely
    replay: Replay
    first: int  # the number of the first episode of a replay
    _drawn: list[Policy] = field(default_factory=list)

    def sample(self, rng: np.random.Generator) -> Policy:
        """One of the policies ``[H,S,A]``, as it was played.

        Policies are not kept: the episodes are gone through again, for several draws at once.
        """
        if not isinstance(rng, np.random.Generator):
            raise InvalidOption(
                f"rng must be a generator of random numbers, numpy.random.default_rng(…), got {rng!r}."
            )
        if not self._drawn:
            chosen = rng.choice(self.episodes, DRAWN)
            found: dict[int, Policy] = {}
            for number, (policy, _) in enumerate(self.replay(), self.first):
                if number in chosen and policy is not None:
                    found[number] = frozen(policy.copy())
                if number >= chosen.max():
                    break
            self._drawn.extend(found[int(number)] for number in chosen[::-1])
        return self._drawn.pop()


@dataclass(frozen=True, eq=False, repr=False)
class Certified(Displayed):
    """What of the episodes that were played is proven, and of which.

    Examples:
        >>> import safespot as ss
        >>> problem = ss.problems.make("machine")
        >>> learner = ss.Fixed(**problem.interface, episodes=500, policy=[[1, 0], [1, 0]])
        >>> found = ss.certify_played(ss.learn(problem, learner))
        >>> print(found.since, found.certificate.subject, found.certificate.covers(found.policy))
        1 policy True

    """

    certificate: Certificate
    since: int  # the number of the first episode that it rests on
    policy: Policy | None  # [H, S, A]: where one policy played them all; to be deployed as it is
    mixture: Mixture | None  # else, where their policies are known

    def _facts(self) -> dict[str, Any]:
        return {
            "subject": self.certificate.subject,
            "since": self.since,
            **self.certificate._facts(),
        }

    def _chart(self) -> str:
        return self.certificate._chart()

    def __str__(self) -> str:
        return f"Of the episodes from number {self.since} on:\n\n{self.certificate}"


def certify_played(
    source: Run | Log | DurableLearner,
    delta: float = 0.05,
    behaviour: ArrayLike | None = None,
    *,
    thresholds: ArrayLike | None = None,
    constraint_totals: ArrayLike | None = None,
    threshold_totals: ArrayLike | None = None,
) -> Certified:
    """Which of what was played is proven safe.

    Args:
        source: a run, a durable learner, or a log.
        delta: the confidence is 1 - delta.
        behaviour: of a log, the policy ``[H,S,A]`` or ``[S,A]`` that made it, exactly; without it the certificate is
            about the practice that did. A policy estimated from the log needs a trial of its own.
        thresholds: of a log, the limits where they are known, ``[m]`` or ``[m,H]``, by default those that it was
            read with; a learner's are its own.
        constraint_totals: of a log, as for `SafetyMeter`.
        threshold_totals: likewise.

    Examples:
        >>> import safespot as ss
        >>> problem = ss.problems.make("machine")
        >>> learner = ss.Fixed(**problem.interface, episodes=500, policy=[[1, 0], [1, 0]])
        >>> ss.certify_played(ss.learn(problem, learner)).certificate.verdict
        ('safe',)

    """
    delta = as_delta(delta)
    given = (thresholds, constraint_totals, threshold_totals)
    past = _past(source, behaviour, given)
    seen = _gather(past)
    best = max(_candidates(past, seen, delta), key=_preference)
    policy = mixture = None
    if past.behaviour is not None:
        policy = past.behaviour
    elif past.practice is None:
        if seen.moved[best.start + 1 :].any():
            mixture = Mixture(seen.numbers[best.start :], past.replay, past.first)
        else:
            policy = seen.last
    made = _certificate(past, seen, best, delta, policy)
    return Certified(made, int(seen.numbers[best.start]), policy, mixture)


def first_proof(source: Run | Log | DurableLearner, delta: float = 0.05) -> int | None:
    """The number of the episode after which `certify_played` would first have said that everything is safe.

    It is looked for at counts that grow by one part in `PATIENCE`; None: it would not have said so yet.
    """
    past = _past(source, None, (None, None, None))
    if past.doubts.sentences():
        return None
    seen = _gather(past)
    kept = -past.declared.least / past.declared.width
    ends = []
    for start, share in _starts(len(seen.rows), as_delta(delta)):
        rows = np.ascontiguousarray(seen.rows[start:, 2 : 2 + 2 * past.known.m : 2])
        level = levels(past.declared, share, moving=past.moving)[
            2 : 2 + 2 * past.known.m : 2
        ].copy()
        counted = proven_after(
            changing_means(rows.shape[1]), rows, level, kept, np.empty(len(kept))
        )
        if counted:
            ends.append(int(seen.numbers[start + counted - 1]))
    return min(ends, default=None)


@no_refcount
def proven_after(state: Any, rows: Float, level: Float, kept: Float, low: Float) -> int:
    """After how many episodes the means of their differences ``[n,m]`` are proven to be at least `kept`; 0: never.

    `low` ``[m]`` is a buffer.
    """
    due = 1.0
    for n in range(rows.shape[0]):
        observe_changing(state, rows[n])
        if n + 1 < due:
            continue
        due = n + 1 + max(1.0, np.floor((n + 1) / PATIENCE))
        sums_of_means(state, level, low)
        safe = True
        for i in range(kept.shape[0]):
            safe &= low[i] >= kept[i] * (n + 1)
        if safe:
            return n + 1
    return 0


class _Past(NamedTuple):
    """Episodes that were played, as often as one wants to go through them."""

    known: Interface
    declared: Declared
    replay: Replay
    first: int  # the number of the first
    practice: str | None  # of a log, how many episodes of it there are, and were left out
    behaviour: Policy | None
    doubts: Doubts

    @property
    def moving(self) -> bool:
        """Whether policies may have changed with what was seen."""
        return self.behaviour is None


class _Seen(NamedTuple):
    """What one time through them shows."""

    numbers: Int  # [n]: of the episodes that the learner's own policies played
    rows: Float  # [n, .]: their statements
    moved: Bool  # [n]: whether the policy was another one than in the row before
    digests: NDArray[np.uint8]  # [n, 32]: of the policies; [0, 32] where they are unknown
    last: Policy | None


class _Candidate(NamedTuple):
    """A start, and what the episodes from there on prove."""

    start: int  # the row
    low: Float  # lower bounds of the means of the statements
    room: Float  # [m]: the lower ends of the differences, inside


def _preference(candidate: _Candidate) -> tuple[bool, float]:
    """What is proven safe comes first, and of that the most; else what is closest to it."""
    safe = bool((candidate.room >= 0.0).all())
    return safe, -float(candidate.start) if safe else float(candidate.room.min())


def _past(source: Any, behaviour: ArrayLike | None, given: tuple[Any, Any, Any]) -> _Past:
    if isinstance(source, Log):
        known = make_interface(**source.interface)
        if not source.episodes:
            raise InvalidOption(f"{source.source} has no episode that can be used.")
        thresholds, *totals = given
        declared = declare(known, source.thresholds if thresholds is None else thresholds, *totals)
        policy = None
        if behaviour is not None:
            policy = as_behaviour(behaviour, known, source.episodes, source.propensities)
        practice = f"{len(source.episodes):,} episodes of a log"
        if source.rejected:
            practice += f" ({len(source.rejected):,} others were rejected)"
        return _Past(
            known,
            declared,
            lambda: ((None, e) for e in source.episodes),
            1,
            practice,
            policy,
            source.doubts,
        )
    if behaviour is not None or any(each is not None for each in given):
        raise InvalidOption(
            "behaviour, thresholds and totals are for logs: a learner knows its policies, and was told the rest."
        )
    if not isinstance(source, Run | DurableLearner):
        raise InvalidOption(
            f"certify_played takes a Run, a Log or a durable learner, got {type(source).__name__}."
        )
    meter = source.learner.make_meter()
    doubts = source.learner.doubts
    return _Past(meter.interface, meter.declared, source.replay, source.first, None, None, doubts)


def _gather(past: _Past) -> _Seen:
    numbers, sums, moved, digests = [], [], [], []
    last: Policy | None = None
    digest = b""
    for number, (policy, episode) in enumerate(past.replay(), past.first):
        if policy is None and past.practice is None:
            continue  # played by someone else
        if policy is not None and (last is None or not np.array_equal(policy, last)):
            last = policy.copy()
            digest = bytes.fromhex(policy_digest(last))
            moved.append(True)
        else:
            moved.append(False)
        numbers.append(number)
        sums.append(episode_sums(past.known.check(episode)))
        digests.append(digest)
    if not numbers:
        raise InvalidOption("no episode was played yet: there is nothing to certify.")
    return _Seen(
        np.array(numbers),
        np.ascontiguousarray(statements(past.declared, past.known.H, np.array(sums))),
        np.array(moved),
        np.frombuffer(b"".join(digests), np.uint8).reshape(-1, 32),
        None if last is None else frozen(last),
    )


def _candidates(past: _Past, seen: _Seen, delta: float) -> Iterator[_Candidate]:
    """What the episodes from each start on prove, each with its share of delta."""
    n, m = len(seen.rows), past.known.m
    for start, share in _starts(n, delta):
        state, low = changing_means(seen.rows.shape[1]), np.empty(seen.rows.shape[1])
        watch_changing(state, seen.rows[start:])
        sums_of_means(state, levels(past.declared, share, moving=past.moving), low)
        low /= n - start
        room = past.declared.least + past.declared.width * low[2 : 2 + 2 * m : 2]
        yield _Candidate(start, low, room)


def _starts(n: int, delta: float) -> Iterator[tuple[int, float]]:
    """The rows at which n episodes may be begun with, each with its share of delta."""
    yield 0, delta / 2.0
    for start in STARTS:
        if start < n:
            yield start, delta / (2.0 * len(STARTS))


@no_refcount
def watch_changing(state: Any, rows: Float) -> None:
    """Count statements ``[n, .]`` of episodes whose policies may change."""
    for n in range(rows.shape[0]):
        observe_changing(state, rows[n])


def _certificate(
    past: _Past, seen: _Seen, best: _Candidate, delta: float, policy: Policy | None
) -> Certificate:
    rows = seen.rows[best.start :]
    if policy is not None:
        subject, digest = "policy", policy_digest(policy)
    elif past.practice is None:
        subject, digest = "mixture", checksum({"policies": seen.digests[best.start :]}, {})
    else:
        subject, digest = "practice", checksum({"statements": seen.rows}, {"practice": True})
    return certificate_of(
        past.declared,
        past.known,
        best.low,
        len(rows),
        delta,
        moving=past.moving,
        basis=_basis(past, subject, len(rows), int(seen.numbers[best.start])),
        assumptions=_assumptions(past, subject),
        subject=subject,
        policy_digest=digest,
        data_digest=checksum({"statements": rows}, {"delta": delta, "start": best.start}),
        doubts=past.doubts.sentences(),
    )


def _basis(past: _Past, subject: str, n: int, since: int) -> str:
    about = {
        "policy": "of the one policy that played them",
        "mixture": "of the mixture of their policies: draw one of these episodes at random, for every episode anew, "
        "and play its policy; an average of the policies is another policy, of which nothing is proven",
        "practice": "of the practice that made them, with whatever it knew beyond the log. It is no policy that could "
        "be played by others",
    }[subject]
    source = "episodes as they were played" if past.practice is None else f"of {past.practice}"
    return (
        f"It rests on {n:,} {source}, from number {since:,} on, and speaks {about}. The bounds need no model and "
        "hold at every moment; the start is one of several that share delta."
    )


def _assumptions(past: _Past, subject: str) -> tuple[str, ...]:
    limits = (
        "the thresholds are the ones that were given"
        if len(past.declared.alpha)
        else "the thresholds will be what they were on average over these episodes; a step without a sample counts as "
        "the worst in either direction"
    )
    whose = {
        "policy": "this policy, and no other, played these episodes"
        if past.practice is None
        else "the behaviour policy that was given, and no other, made the log",
        "mixture": "a policy is drawn anew for every episode, from all of these with the same probability",
        "practice": "the practice goes on as it was",
    }[subject]
    counted = "every episode counts, whatever came of it"
    if past.practice is not None:
        counted += (
            ", those that were left out of the log too: nothing that happened in them is the reason"
        )
    return (
        whose,
        counted,
        "every signal, and every total of an episode, lies in its declared range",
        "the process will be what it was on average over these episodes",
        limits,
    )
