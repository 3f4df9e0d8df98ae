"""Simulation: a policy played in a Problem gives an Episode.

Randomness has one stream per purpose, and every purpose draws a fixed amount per episode. So two
learners with the same seed meet the same noise, and playing in chunks gives the same episodes as
playing one by one.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..arrays import Episode, Float, Int, as_count
from ..errors import InvalidOption
from ..kernels.jit import inlined
from .cmdp import Model
from .problem import Problem
from .signals import fill_noise, signal
from .transitions import pick, successor


class Streams(NamedTuple):
    """Random generators, one per purpose.

    Examples:
        >>> import safespot as ss
        >>> noise = ss.streams(seed=0)
        >>> noise.thresholds.random() == ss.streams(seed=0).thresholds.random()
        True
        >>> noise.thresholds.random() == noise.rewards.random()
        False

    """

    start: np.random.Generator
    actions: np.random.Generator
    transitions: np.random.Generator
    rewards: np.random.Generator
    constraints: np.random.Generator
    thresholds: np.random.Generator


class Noise(NamedTuple):
    """The random numbers of n episodes."""

    start: Float  # [n]
    actions: Float  # [n, H]
    transitions: Float  # [n, H]
    rewards: Float  # [n, H]
    constraints: Float  # [n, H, m]
    thresholds: Float  # [n, H, m]


class Laws(NamedTuple):
    """The noise laws as kernels read them: (code, parameter) of rewards, constraints, thresholds."""

    codes: Int  # [3]
    parameters: Float  # [3]
    outcomes: Float  # [m, S*A, S]: means of constraints given the next state; empty: they do not depend on it


def streams(seed: int) -> Streams:
    """Return independent generators from one seed; purpose k has the explicit spawn key (k,).

    Examples:
        >>> import safespot as ss
        >>> problem, coin = ss.problems.make("machine"), [[0.5, 0.5], [0.5, 0.5]]
        >>> one, other = (ss.play(problem, coin, ss.streams(seed=7), episode=1) for _ in range(2))
        >>> one == other
        True

    """
    seed = as_count("seed", seed, least=0, most=None, error=InvalidOption)
    sequences = (np.random.SeedSequence(seed, spawn_key=(k,)) for k in range(len(Streams._fields)))
    return Streams(*(np.random.Generator(np.random.PCG64(sequence)) for sequence in sequences))


def stream_states(streams: Streams) -> NDArray[np.uint64]:
    """Return the states of the generators, ``[6, 6]``: state and increment in halves, and the spare 32 bits."""
    rows = []
    for stream in streams:
        now: Any = stream.bit_generator.state
        numbers = now["state"]["state"], now["state"]["inc"]
        halves = [half for x in numbers for half in (x >> 64, x & (2**64 - 1))]
        rows.append([*halves, now["has_uint32"], now["uinteger"]])
    return np.array(rows, np.uint64)


def set_stream_states(streams: Streams, states: NDArray[np.uint64]) -> None:
    """Put each generator where `stream_states` found it."""
    for stream, row in zip(streams, states.tolist(), strict=True):
        state_high, state_low, inc_high, inc_low, has_spare, spare = row
        stream.bit_generator.state = {
            "bit_generator": "PCG64",
            "state": {"state": (state_high << 64) + state_low, "inc": (inc_high << 64) + inc_low},
            "has_uint32": has_spare,
            "uinteger": spare,
        }


def empty_noise(problem: Problem, episodes: int) -> Noise:
    """Make the arrays for the random numbers of that many episodes."""
    n, H, m = episodes, problem.cmdp.H, problem.cmdp.m
    shapes = (n,), (n, H), (n, H), (n, H), (n, H, m), (n, H, m)
    return Noise(*(np.zeros(shape) for shape in shapes))


def draw_noise(
    problem: Problem, streams: Streams, episodes: int, noise: Noise | None = None
) -> Noise:
    """Draw the random numbers of the next `episodes` episodes, into `noise` where given; advances the streams."""
    laws = problem.signals
    noise = empty_noise(problem, episodes) if noise is None else noise
    for stream, numbers in zip(streams[:3], noise[:3], strict=True):
        stream.random(out=numbers[:episodes])
    for law, stream, numbers in zip(
        (laws.rewards, laws.constraints, laws.thresholds), streams[3:], noise[3:], strict=True
    ):
        fill_noise(law, stream, numbers[:episodes])
    return noise


def streams_at(problem: Problem, seed: int, episode: int) -> Streams:
    """Return the streams of `seed` before `episode`, as if the ones before had been played."""
    made = streams(seed)
    skipped = empty_noise(problem, min(episode, 2**12))
    for first in range(1, episode, 2**12):
        draw_noise(problem, made, min(2**12, episode - first), skipped)
    return made


def as_laws(problem: Problem) -> Laws:
    """Return the laws in the form that kernels read."""
    signals = problem.signals
    laws = (signals.rewards, signals.constraints, signals.thresholds)
    return Laws(
        np.array([law.code for law in laws], np.int64),
        np.array([law.parameter for law in laws]),
        problem.outcomes,
    )


def play(problem: Problem, policy: ArrayLike, streams: Streams, episode: int) -> Episode:
    """Play one episode of `policy` ``[H,S,A]``; `episode` (1-based) tells where a drift stands.

    The streams advance, so the next call gives the next episode of the same noise.

    Examples:
        >>> import safespot as ss
        >>> problem, noise = ss.problems.make("machine"), ss.streams(seed=0)
        >>> for t in (1, 2, 3):
        ...     episode = ss.play(problem, [[0, 1], [1, 0]], noise, t)
        ...     print(episode.states, episode.actions, episode.rewards)
        [0 1 1] [1 0] [10.  0.]
        [0 1 1] [1 0] [10.  0.]
        [0 0 0] [1 1] [10. 10.]

    """
    cmdp = problem.cmdp
    pi = cmdp.policy(policy)
    episode = as_count("episode", episode, least=0, error=InvalidOption)
    if not isinstance(streams, Streams):
        raise InvalidOption(f"streams must come from streams(seed), got {type(streams).__name__}.")
    H, m = cmdp.H, cmdp.m
    states, pairs = np.empty(H + 1, np.int64), np.empty(H, np.int64)
    rewards, constraints, thresholds = np.empty(H), np.empty((H, m)), np.empty((H, m))
    noise = draw_noise(problem, streams, 1)
    play_kernel(
        cmdp.model, problem.alpha(episode), as_laws(problem), noise, 0, pi,
        states, pairs, rewards, constraints, thresholds,
    )  # fmt: skip
    units = cmdp.units
    return Episode(
        states,
        pairs - states[:-1] * cmdp.A,
        units.reward.outside(rewards),
        units.constraints.outside(constraints),
        units.constraints.outside(thresholds),
    )


@inlined
def play_kernel(
    model: Model,
    alpha: Float,
    laws: Laws,
    noise: Noise,
    n: int,
    pi: Float,
    states: Int,
    pairs: Int,
    rewards: Float,
    constraints: Float,
    thresholds: Float,
) -> None:
    """Play episode n of `noise` under `pi` into the last five arrays, in inside units; `pairs` are s*A + a."""
    H, _, A = pi.shape
    s = pick(model.start, noise.start[n])
    for h in range(H):
        pair = s * A + pick(pi[h, s], noise.actions[n, h])
        states[h], pairs[h] = s, pair
        s = step_kernel(model, alpha, laws, noise, n, h, pair, rewards, constraints, thresholds)
    states[H] = s


@inlined
def step_kernel(
    model: Model,
    alpha: Float,
    laws: Laws,
    noise: Noise,
    n: int,
    h: int,
    row: int,
    rewards: Float,
    constraints: Float,
    thresholds: Float,
) -> int:
    """Play the pair `row` = s*A + a at step h of episode n: write its signals at h, and return the next state."""
    k = h if model.payoffs.shape[1] > 1 else 0
    after = successor(model.P, h, row, noise.transitions[n, h])
    by_outcome = laws.outcomes.shape[0] > 0
    rewards[h] = signal(
        laws.codes[0], laws.parameters[0], model.payoffs[0, k, row], noise.rewards[n, h]
    )
    for i in range(alpha.shape[0]):
        mean = laws.outcomes[i, row, after] if by_outcome else model.payoffs[1 + i, k, row]
        constraints[h, i] = signal(
            laws.codes[1], laws.parameters[1], mean, noise.constraints[n, h, i]
        )
        thresholds[h, i] = signal(
            laws.codes[2], laws.parameters[2], alpha[i, h], noise.thresholds[n, h, i]
        )
    return after
