"""Trials of a policy on a source of episodes: a problem, an environment, a log, or records of episodes.

The trial itself is `evidence.trial.Trial`, which counts one after the other and stops as soon as everything is decided.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from ..arrays import Episode, Float, Policy, as_count, as_policy
from ..data.logs import Log
from ..errors import InvalidEpisode, InvalidOption
from ..evidence.certificate import Certificate
from ..evidence.sequences import STEADY
from ..evidence.trial import Trial
from ..kernels.jit import kernel
from ..model.cmdp import Model
from ..model.problem import Problem
from ..model.simulation import Laws, Noise, Streams, as_laws, draw_noise, play_kernel
from ..signals.behavior import as_behaviour
from ..signals.doubts import Doubts
from ..signals.interface import Interface, as_known
from ..signals.limits import Limits
from ..signals.totals import add_sums, episode_sums

if TYPE_CHECKING:
    from ..gym.black_box import BlackBox

CHUNK = 2**8  # episodes whose noise is drawn at once
STREAM = 6  # spawn keys (6, k): another noise than that of any training with the same seed


class Source(NamedTuple):
    """A source of the episodes of a trial."""

    interface: Interface
    policy: Policy  # [H, S, A]
    sums: Iterator[Float]  # of the sums [2+4m] of episodes, inside, one by one
    length: int | None  # how many there are; None: as many as are asked for
    doubts: Doubts  # of the episodes that were taken


def try_policy(
    source: Source,
    delta: float,
    episodes: int | None = None,
    most: int | None = None,
) -> Certificate:
    """Return the certificate that the source's episodes give its policy, as soon as they decide.

    Args:
        source: where the episodes come from.
        delta: the confidence is 1 - delta.
        episodes: the number that the trial is sharpest for; by default `STEADY`, or as many as there are.
        most: the largest number; by default `episodes`.

    """
    planned = source.length or min(STEADY, most or STEADY)
    if episodes is not None:
        planned = as_count("episodes", episodes, least=1, error=InvalidOption)
    most = planned if most is None else as_count("most", most, least=1, error=InvalidOption)
    trial = Trial(source.interface, delta, planned)
    trial.doubts = source.doubts
    for sums in itertools.islice(source.sums, most):
        if trial.count_sums(sums):
            break
    return trial.certificate(source.policy)


# Where the episodes come from


def open_source(
    source: Any, policy: ArrayLike, seed: int, limits: Limits, declarations: Mapping[str, Any]
) -> Source:
    """Return the episodes of `policy` in a problem, in an environment, in a log, or in records of episodes.

    `limits` say more of them than the source declares.
    """
    if isinstance(source, Problem | Log) and declarations:
        raise InvalidOption(
            f"unexpected {', '.join(sorted(declarations))}: a {type(source).__name__} declares everything itself."
        )
    if isinstance(source, Problem):
        if source.signals.drift is not None:
            raise InvalidOption(
                "the thresholds of this problem drift, and a certificate is about thresholds that do not. Take a "
                "Problem without drift whose CMDP has the thresholds of the moment (cmdp.with_thresholds)."
            )
        known = as_known(source.interface, limits)
        pi = _as_policy(policy, known)
        return Source(known, pi, _from_problem(source, pi, seed), None, Doubts())
    if isinstance(source, Log):
        known = as_known(source.interface, limits)
        pi = as_behaviour(policy, known, source.episodes, source.propensities)
        return _from_records(source.episodes, known, pi)
    if isinstance(source, Iterable):
        return _open_records(source, policy, limits, declarations)
    if "interface" in declarations:
        raise InvalidOption(
            "unexpected interface=: it goes with episodes, an environment declares its own."
        )
    from ..gym.black_box import BlackBox, as_box

    if isinstance(source, BlackBox):
        box, known = source, as_known(as_box(source, declarations).interface, limits)
    else:
        box = as_box(source, declarations if limits is None else {**declarations, "limits": limits})
        known = as_known(box.interface)
    pi = _as_policy(policy, known)
    return _from_records(_played(box, pi, seed), known, pi)


def _open_records(
    source: Iterable[Episode], policy: ArrayLike, limits: Limits, declarations: Mapping[str, Any]
) -> Source:
    """Return records of episodes that come with their interface."""
    if set(declarations) != {"interface"}:
        raise InvalidOption(
            "a trial over episodes needs interface= (problem.interface or env_interface(…)), and nothing else."
        )
    known = as_known(declarations["interface"], limits)
    pi = _as_policy(policy, known)
    return _from_records(source, known, pi)


def _from_records(source: Iterable[Episode], known: Interface, pi: Policy) -> Source:
    """Return the source of records, one by one; of a sequence the doubts of all records count from the beginning."""
    doubts = Doubts()
    sums = _sum_records(source, known, pi, doubts)
    if not isinstance(source, Sequence):
        return Source(known, pi, sums, None, doubts)
    return Source(known, pi, iter(list(sums)), len(source), doubts)


def _as_policy(policy: ArrayLike, known: Interface) -> Policy:
    return as_policy(policy, (known.H, known.S, known.A), known.mask)


def _from_problem(problem: Problem, pi: Policy, seed: int) -> Iterator[Float]:
    """Yield the sums of simulated episodes, which have streams of their own."""
    keys = ((STREAM, k) for k in range(len(Streams._fields)))
    streams = Streams(
        *(np.random.default_rng(np.random.SeedSequence(seed, spawn_key=key)) for key in keys)
    )
    model, laws, policy = problem.cmdp.model, as_laws(problem), np.array(pi)
    while True:
        sums = np.empty((CHUNK, 2 + 4 * problem.cmdp.m))
        play_sums(model, laws, draw_noise(problem, streams, CHUNK), policy, sums)
        yield from sums


@kernel
def play_sums(model: Model, laws: Laws, noise: Noise, pi: Float, sums: Float) -> None:
    """Write the sums ``[n,2+4m]`` of every episode of `noise`."""
    H, m = pi.shape[0], model.alpha.shape[0]
    states, pairs = np.zeros(H + 1, np.int64), np.zeros(H, np.int64)
    rewards, constraints, thresholds = np.zeros(H), np.zeros((H, m)), np.zeros((H, m))
    for n in range(sums.shape[0]):
        play_kernel(
            model, model.alpha, laws, noise, n, pi, states, pairs, rewards, constraints, thresholds
        )
        add_sums(rewards, constraints, thresholds, sums[n])


def _played(box: BlackBox, pi: Policy, seed: int) -> Iterator[Episode]:
    """Yield episodes of an environment, one after the other."""
    root = np.random.SeedSequence(seed, spawn_key=(STREAM,))
    rng, first = np.random.default_rng(root), int(root.generate_state(1)[0])
    H = box.interface["horizon"]
    yield box.play(pi, rng.random(H), first)
    while True:
        yield box.play(pi, rng.random(H))


def _sum_records(
    episodes: Iterable[Episode], known: Interface, pi: Policy, doubts: Doubts
) -> Iterator[Float]:
    """Yield the sums of each episode, checked to be one of this policy, and note its doubts."""
    steps = np.arange(known.H)
    for number, episode in zip(itertools.count(), episodes, strict=False):
        inside = known.check(episode)
        doubts.note(episode)
        chances = pi[steps, episode.states[:-1], episode.actions]
        never = (chances == 0.0) & ~np.isnan(episode.rewards)
        if never.any():
            h = int(never.argmax())
            raise InvalidEpisode(
                f"episode {number} takes action {episode.actions[h]} in state {episode.states[h]} at step {h}, which "
                "the policy never does. A trial counts episodes of this policy alone; give those."
            )
        yield episode_sums(inside)
