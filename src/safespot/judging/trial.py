"""Trials: fresh episodes of one fixed policy, until its safety is decided.

An episode's difference D, its constraint signals less its threshold samples, has the mean V_g - alpha: one statement
for each constraint and side, no model, and no union over policies. The bounds hold at every moment at once, so that a
trial stops as soon as everything is decided (`evidence.statements`, `evidence.sequences.FixedMeans`). Values,
thresholds and the reward are bounded beside it by the same sequence, to be read.
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
from ..evidence.behaviour import as_behaviour
from ..evidence.certificate import Certificate, issue, policy_digest
from ..evidence.differences import Declared, declare
from ..evidence.doubts import Doubts
from ..evidence.interface import Interface, as_known
from ..evidence.sequences import STEADY, fixed_means, read_fixed, targets
from ..evidence.statements import (
    add_sums,
    as_bounds,
    assumed_of_thresholds,
    episode_sums,
    levels,
    statements,
    watch,
)
from ..files import checksum
from ..kernels.jit import kernel
from ..model.cmdp import Model
from ..model.problem import Problem
from ..model.simulation import Laws, Noise, Streams, as_laws, draw_noise, play_kernel
from ..signals.limits import Limits

if TYPE_CHECKING:
    from ..gym.black_box import BlackBox

FIRST_LOOK = 64  # episodes of compiled play before a trial looks for the first time
CHUNK = 2**12  # episodes played at once
STREAM = 6  # spawn keys (6, k): another noise than that of any training with the same seed


class Source(NamedTuple):
    """Where the episodes of a trial come from."""

    interface: Interface
    policy: Policy  # [H, S, A]
    batches: Iterator[Float]  # of the sums [n, 2+4m] of episodes, see `episode_sums`
    length: int | None  # how many there are; None: as many as are asked for
    doubts: Doubts  # of the episodes that were taken


def try_policy(
    source: Source,
    delta: float,
    episodes: int | None = None,
    most: int | None = None,
) -> Certificate:
    """Return what the source's episodes say of its policy's safety, as soon as it is decided.

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
    declared = declare(source.interface)
    x, low = _watch_until_decided(source, declared, planned, most, delta)
    return issue(
        source.interface,
        as_bounds(declared, source.interface, low),
        delta,
        episodes=len(x),
        difference_confidence=1.0 - 2.0 * delta,
        basis=(
            f"It rests on {len(x):,} fresh episodes of this one policy, on the differences of their constraint and "
            "threshold signals, by confidence sequences, which hold at every moment, so that the trial could stop as "
            "soon as everything was decided."
        ),
        assumptions=(
            "the policy was fixed before the trial, and was played as it stands here in every episode",
            "the episodes are independent of each other, all of them were counted, and their law does not change",
            "every signal, and every total of an episode, lies in its declared range",
            assumed_of_thresholds(declared),
        ),
        subject="policy",
        policy_digest=policy_digest(source.policy),
        data_digest=checksum({"statements": x}, {"delta": delta}),
        doubts=source.doubts.sentences(),
    )


def _watch_until_decided(
    source: Source, declared: Declared, planned: int, most: int, delta: float
) -> tuple[Float, Float]:
    """Return the statements of the episodes that were counted, and the lower bounds of their means."""
    level, weights = levels(declared, delta), targets(planned)
    state, kept = fixed_means(len(level)), -declared.least / declared.width
    counted = list[Float]()
    while (left := most - sum(map(len, counted))) > 0:
        sums = next(source.batches, None)
        if sums is None:
            break
        x = statements(declared, source.interface.H, sums[:left])
        counted.append(x[: watch(weights, state, x, level, kept, True)])
        low, above = state.lower[2 : 2 + 2 * len(kept)].reshape(-1, 2).T
        if ((low >= kept) | (above > 1.0 - kept)).all():
            break
    if not counted:
        raise InvalidOption("there are no episodes: a trial needs at least one.")
    for r, of_row in enumerate(level):
        read_fixed(weights, state, r, of_row)
    return np.concatenate(counted), state.lower


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
    """Records one by one; where all are there already, all count as far as doubts go: their order may be any."""
    doubts = Doubts()
    sums = _sum_records(source, known, pi, doubts)
    if not isinstance(source, Sequence):
        return Source(known, pi, (row[None] for row in sums), None, doubts)
    batches = [np.array(list(sums))] if source else []
    return Source(known, pi, iter(batches), len(source), doubts)


def _as_policy(policy: ArrayLike, known: Interface) -> Policy:
    return as_policy(policy, (known.H, known.S, known.A), known.mask)


def _from_problem(problem: Problem, pi: Policy, seed: int) -> Iterator[Float]:
    """Compiled play, with streams of its own; each batch is as long as all before it."""
    keys = ((STREAM, k) for k in range(len(Streams._fields)))
    streams = Streams(
        *(np.random.default_rng(np.random.SeedSequence(seed, spawn_key=key)) for key in keys)
    )
    model, laws, policy = problem.cmdp.model, as_laws(problem), np.array(pi)
    played = 0
    while True:
        n = min(played or FIRST_LOOK, CHUNK)
        sums = np.zeros((n, 2 + 4 * problem.cmdp.m))
        play_sums(model, laws, draw_noise(problem, streams, n), policy, sums)
        yield sums
        played += n


@kernel
def play_sums(model: Model, laws: Laws, noise: Noise, pi: Float, sums: Float) -> None:
    """Add up every episode of `noise` in a row ``[2+4m]``, as `evidence.statements.episode_sums` does."""
    H, m = pi.shape[0], model.alpha.shape[0]
    states, pairs = np.zeros(H + 1, np.int64), np.zeros(H, np.int64)
    rewards, constraints, thresholds = np.zeros(H), np.zeros((H, m)), np.zeros((H, m))
    for n in range(sums.shape[0]):
        play_kernel(
            model, model.alpha, laws, noise, n, pi, states, pairs, rewards, constraints, thresholds
        )
        add_sums(rewards, constraints, thresholds, sums[n])


def _played(box: BlackBox, pi: Policy, seed: int) -> Iterator[Episode]:
    """Episodes of an environment, one after the other."""
    root = np.random.SeedSequence(seed, spawn_key=(STREAM,))
    rng, first = np.random.default_rng(root), int(root.generate_state(1)[0])
    H = box.interface["horizon"]
    yield box.play(pi, rng.random(H), first)
    while True:
        yield box.play(pi, rng.random(H))


def _sum_records(
    episodes: Iterable[Episode], known: Interface, pi: Policy, doubts: Doubts
) -> Iterator[Float]:
    """Yield the sums of each episode, checked to be one of this policy, and note what is in doubt of it."""
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
