"""Certificates from a trial: fresh episodes of one fixed policy.

An episode's difference D, its constraint signals less its threshold samples, has the mean V_g - alpha: one statement
for each constraint and side, no model, and no union over policies. The bounds hold at every moment at once, so that a
trial may stop as soon as everything is decided (`evidence.statements`, `evidence.sequences.FixedMeans`).

Values, thresholds and the reward are bounded beside it, to be read. After a number n of episodes fixed in advance that
is by the empirical Bernstein bound of Maurer and Pontil (2009, Theorem 4), of sums scaled to [0,1],

    mean + sqrt(2 variance ln(2/share) / n) + 7 ln(2/share) / (3 (n - 1)),

whose width is known before any episode is played (`episodes_needed`); in a trial that may stop, by the same sequence.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from ..arrays import Episode, Float, InsideEpisode, Policy, as_count, as_floats, as_policy
from ..data.logs import Log
from ..errors import InvalidEpisode, InvalidOption
from ..evidence.behaviour import as_behaviour
from ..evidence.certificate import Certificate, policy_digest
from ..evidence.differences import Declared, declare
from ..evidence.doubts import Doubts
from ..evidence.interface import Interface
from ..evidence.interface import make_interface as as_interface
from ..evidence.meter import as_delta
from ..evidence.sequences import fixed_means, read_fixed, targets
from ..evidence.statements import (
    assumed_of_thresholds,
    certificate_of,
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

if TYPE_CHECKING:
    from ..gym.black_box import BlackBox

FIRST_LOOK = 64  # episodes before a trial that may stop looks for the first time
CHUNK = 2**12  # episodes played at once
MOST = 1e18  # episodes
STREAM = 6  # spawn keys (6, k): another noise than that of any training with the same seed

Sums = Callable[[int], Float]  # the next n episodes -> [n, 2+4m], see `episode_sums`


def certify_by_trial(
    source: Any,
    policy: ArrayLike,
    episodes: int,
    *,
    thresholds: ArrayLike | None = None,
    delta: float = 0.05,
    early: bool = False,
    seed: int = 0,
    constraint_totals: ArrayLike | None = None,
    threshold_totals: ArrayLike | None = None,
    interface: Mapping[str, Any] | None = None,
    **declarations: Any,
) -> Certificate:
    """What fresh episodes of one policy say about its safety.

    An action that the policy never takes is an `InvalidEpisode`. Signals that were cut off (`BlackBox(clip=True)`) and
    episodes that a log left out prove nothing about what they were: the certificate then says "unknown", and why.

    Args:
        source: a `Problem`; a `BlackBox`, or an environment with the declarations of one; or `Episode` records of
            this policy, together with their `interface`; or a `Log` of it.
        policy: ``[H,S,A]``, fixed before the trial.
        episodes: how many, at least 2. `episodes_needed` says how many are enough.
        thresholds: the limits where they are known, ``[m]`` or ``[m,H]``; None: they are seen in the trial.
        delta: the confidence is 1 - delta.
        early: stop as soon as every constraint is decided. `episodes` is then the number that the trial is sharpest
            for: plan for what it may take, not for the most that could be played.
        seed: of the noise, which differs from that of any training with the same seed.
        constraint_totals: (low, high), one for all constraints or one each: where an episode's total lies, if that is
            a smaller range than that of H steps. A trial decides sooner with it.
        threshold_totals: the same of an episode's threshold samples.
        interface: what the episodes are made of, as ``problem.interface`` is; only with `Episode` records.
        **declarations: of a `BlackBox`.

    Examples:
        >>> import safespot as ss
        >>> problem = ss.problems.make("machine")
        >>> gentle, fast = [[1, 0], [1, 0]], [[0, 1], [0, 1]]
        >>> ss.certify_by_trial(problem, gentle, episodes=1000).verdict
        ('safe',)
        >>> ss.certify_by_trial(problem, fast, episodes=1000, early=True).verdict
        ('unsafe',)

    """
    most = as_count("episodes", episodes, least=2, error=InvalidOption)
    delta = as_delta(delta)
    seed = as_count("seed", seed, least=0, most=None, error=InvalidOption)
    known, play, doubts = _open(source, interface, declarations, seed)
    pi = as_policy(policy, (known.H, known.S, known.A), known.mask)
    if thresholds is None and isinstance(source, Log):
        thresholds = source.thresholds
    declared = declare(known, thresholds, constraint_totals, threshold_totals)
    rows, low = _watched(play(pi), declared, known.H, most, delta, early)
    return _certificate(known, pi, declared, delta, rows, low, doubts, early=early)


def episodes_needed(
    width: float,
    span: float,
    *,
    deviation: float | None = None,
    constraints: int = 1,
    known: bool = False,
    delta: float = 0.05,
) -> int:
    """The episodes after which a trial's bounds are at most `width` apart, before any is played.

    A policy that keeps a limit with the room d is certified once the widths of its value and of its threshold
    together are at most d: ask for d / 2, or for d where the thresholds are known.

    Args:
        width: between the lower and the upper bound of an episode's expected sum.
        span: how far an episode's sum can range, in the same units: the horizon times the range of one step.
        deviation: the standard deviation of an episode's sum, if it is known; by default the largest possible, half
            the span, for which the promise always holds.
        constraints: m.
        known: whether the thresholds are.
        delta: the confidence is 1 - delta.

    Examples:
        >>> import safespot as ss
        >>> ss.episodes_needed(width=0.5, span=2)
        352
        >>> ss.episodes_needed(width=0.5, span=2, deviation=0.3, known=True)
        141

    """
    m = as_count("constraints", constraints, least=1, error=InvalidOption)
    largest = span / 2.0 if deviation is None else deviation
    as_floats("width, span and deviation", [width, span, largest], error=InvalidOption)
    if not (width > 0.0 and span > 0.0 and 0.0 <= largest <= span / 2.0):
        raise InvalidOption(
            f"width {width} and span {span} must be positive, and the deviation {largest} at most half the span."
        )
    shares = (
        2 * (1 + m) if known else 2 * (1 + 2 * m)
    )  # of the reward, values, and thresholds; two sides each
    log = math.log(2.0 * shares / as_delta(delta))
    # A sample of n in [0,1] has a variance of at most n / (n - 1) / 4. So half the width is at most
    # b z + a z^2 with z = 1 / sqrt(n - 1), b = sd sqrt(2 log) and a = 7 log / 3: solved for z.
    a, b, c = (
        7.0 * log / 3.0,
        largest / span * math.sqrt(2.0 * log),
        min(width / (2.0 * span), MOST),
    )
    root = 2.0 * c / (b + math.sqrt(b**2 + 4.0 * a * c))
    if root < MOST**-0.5:
        raise InvalidOption(
            f"a width of {width} takes more than {MOST:.0e} episodes where a sum can range over {span}; ask for a "
            "wider one."
        )
    return 1 + math.ceil(1.0 / root**2)


def bernstein(x: Float, share: Float | float) -> Float:
    """Maurer and Pontil's lower bounds of the means of `x` ``[n,k]`` in [0,1], for one n fixed in advance."""
    n, log = len(x), np.log(2.0 / share)
    radius = np.sqrt(2.0 * x.var(axis=0, ddof=1) * log / n) + 7.0 * log / (3.0 * (n - 1))
    low: Float = (x.mean(axis=0) - radius).clip(0.0)
    return low


def _watched(
    sums: Sums, declared: Declared, H: int, most: int, delta: float, early: bool
) -> tuple[Float, Float]:
    """The statements of the trial's episodes, and the lower bounds of their means."""
    level, weights = levels(declared, delta), targets(most)
    state, kept = fixed_means(len(level)), -declared.least / declared.width
    x = statements(declared, H, sums(min(FIRST_LOOK, most) if early else most))
    seen = watch(weights, state, x, level, kept, early)
    while seen == len(x) < most:
        more = statements(declared, H, sums(min(len(x), most - len(x))))
        seen += watch(weights, state, more, level, kept, early)
        x = np.concatenate([x, more])
    for r, of_row in enumerate(level):
        read_fixed(weights, state, r, of_row)
    low, x = state.lower, x[:seen]
    if not early:
        others = np.r_[0:2, 2 + 2 * len(kept) : len(level)]
        low[others] = bernstein(x[:, others], np.exp(-level[others]))
    return x, low


def _certificate(
    known: Interface,
    pi: Policy,
    declared: Declared,
    delta: float,
    x: Float,
    low: Float,
    doubts: Doubts,
    *,
    early: bool,
) -> Certificate:
    """The certificate of statements `x` with the lower bounds `low` of their means."""
    n = len(x)
    how = (
        "which hold at every moment, so that the trial could stop as soon as everything was decided"
        if early
        else "and, of values, thresholds and the reward, by the empirical Bernstein bound (Maurer and Pontil 2009) "
        "for a number of episodes fixed in advance"
    )
    return certificate_of(
        declared,
        known,
        low,
        n,
        delta,
        basis=(
            f"It rests on {n:,} fresh episodes of this one policy, on the differences of their constraint and "
            f"threshold signals, by confidence sequences, {how}."
        ),
        assumptions=(
            "the policy was fixed before the trial, and was played as it stands here in every episode",
            "the episodes are independent of each other, all of them were counted, and their law does not change",
            "every signal, and every total of an episode, lies in its declared range",
            assumed_of_thresholds(declared),
        ),
        subject="policy",
        policy_digest=policy_digest(pi),
        data_digest=checksum({"statements": x}, {"delta": delta, "early": early}),
        doubts=doubts.sentences(),
    )


# Where the episodes come from


def _open(
    source: Any, given: Mapping[str, Any] | None, declarations: Mapping[str, Any], seed: int
) -> tuple[Interface, Callable[[Policy], Sums], Doubts]:
    """Return what the episodes are made of, how to get them for a policy, and what is in doubt of them."""
    doubts = Doubts()
    if isinstance(source, Problem):
        extra = sorted(declarations) + (["interface"] if given is not None else [])
        if extra:
            raise InvalidOption(
                f"unexpected {', '.join(extra)}: a Problem declares everything itself."
            )
        if source.signals.drift is not None:
            raise InvalidOption(
                "the thresholds of this problem drift, and a certificate is about thresholds that do not. Take a "
                "Problem without drift whose CMDP has the thresholds of the moment (cmdp.with_thresholds)."
            )
        return as_interface(**source.interface), lambda pi: _from_problem(source, pi, seed), doubts
    if isinstance(source, Log):
        if given is not None or declarations:
            raise InvalidOption("a log has its interface already, and takes no declarations.")
        known = as_interface(**source.interface)

        def play(pi: Policy) -> Sums:
            as_behaviour(pi, known, source.episodes, source.propensities)
            return _from_episodes(iter(source.episodes), known, pi, Doubts())

        return known, play, source.doubts  # of all of them, however few decide
    if isinstance(source, Iterable):
        if given is None or declarations:
            raise InvalidOption(
                "a trial over episodes needs interface= (problem.interface or env_interface(…)), and nothing else."
            )
        try:
            known = as_interface(**given)
        except TypeError as problem:
            raise InvalidOption(f"interface: {problem}.") from None
        return known, lambda pi: _from_episodes(iter(source), known, pi, doubts), doubts
    if given is not None:
        raise InvalidOption(
            "unexpected interface=: it goes with episodes, an environment declares its own."
        )
    from ..gym.black_box import as_box

    box = as_box(source, declarations)
    known = as_interface(**box.interface)
    return known, lambda pi: _from_episodes(_played(box, pi, seed), known, pi, doubts), doubts


def _from_problem(problem: Problem, pi: Policy, seed: int) -> Sums:
    """Compiled play, with streams of its own."""
    keys = ((STREAM, k) for k in range(len(Streams._fields)))
    streams = Streams(
        *(np.random.default_rng(np.random.SeedSequence(seed, spawn_key=key)) for key in keys)
    )
    model, laws, policy = problem.cmdp.model, as_laws(problem), np.array(pi)

    def play(n: int) -> Float:
        sums = np.zeros((n, 2 + 4 * problem.cmdp.m))
        for first in range(0, n, CHUNK):
            part = sums[first : first + CHUNK]
            play_sums(model, laws, draw_noise(problem, streams, len(part)), policy, part)
        return sums

    return play


@kernel
def play_sums(model: Model, laws: Laws, noise: Noise, pi: Float, sums: Float) -> None:
    """The sums ``[2+4m]`` of every episode of `noise`, as in `evidence.statements.episode_sums`."""
    H, m = pi.shape[0], model.alpha.shape[0]
    states, pairs = np.zeros(H + 1, np.int64), np.zeros(H, np.int64)
    rewards, constraints, thresholds = np.zeros(H), np.zeros((H, m)), np.zeros((H, m))
    for n in range(sums.shape[0]):
        play_kernel(
            model, model.alpha, laws, noise, n, pi, states, pairs, rewards, constraints, thresholds
        )
        for h in range(H):
            for side in range(2):  # nothing is missing
                sums[n, side] += rewards[h]
                for i in range(m):
                    sums[n, 2 + side * m + i] += constraints[h, i]
                    sums[n, 2 + (2 + side) * m + i] += thresholds[h, i]


def _played(box: BlackBox, pi: Policy, seed: int) -> Iterator[Episode]:
    """Episodes of an environment, one after the other."""
    root = np.random.SeedSequence(seed, spawn_key=(STREAM,))
    rng, first = np.random.default_rng(root), int(root.generate_state(1)[0])
    H = box.interface["horizon"]
    yield box.play(pi, rng.random(H), first)
    while True:
        yield box.play(pi, rng.random(H))


def _from_episodes(
    episodes: Iterator[Episode], known: Interface, pi: Policy, doubts: Doubts
) -> Sums:
    numbers, steps = itertools.count(), np.arange(known.H)

    def checked(episode: Episode) -> InsideEpisode:
        number, inside = next(numbers), known.check(episode)
        doubts.note(episode)
        likely = pi[steps, episode.states[:-1], episode.actions]
        never = (likely == 0.0) & ~np.isnan(episode.rewards)
        if never.any():
            h = int(never.argmax())
            raise InvalidEpisode(
                f"episode {number} takes action {episode.actions[h]} in state {episode.states[h]} at step {h}, which "
                "the policy never does. A trial counts episodes of this policy alone; give those."
            )
        return inside

    def play(n: int) -> Float:
        rows = [episode_sums(checked(each)) for each in itertools.islice(episodes, n)]
        if len(rows) < n:
            raise InvalidOption(
                f"the episodes ended {n - len(rows)} before the trial did; give as many as it asks for."
            )
        return np.array(rows)

    return play
