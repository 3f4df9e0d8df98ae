"""Certificates from a trial: fresh episodes of one fixed policy.

The sums over an episode of rewards, constraints and threshold signals are independent from episode to episode and
lie in [0, H] inside, so their means are all that has to be bounded; no model is needed, and no union over policies.
With x the sums divided by H, each one-sided bound holds with probability 1 - share, and the shares add up to delta:

- After a number n of episodes fixed in advance, the empirical Bernstein bound of Maurer and Pontil (2009, Theorem 4),
  ``mean + sqrt(2 variance ln(2/share) / n) + 7 ln(2/share) / (3 (n - 1))``.
- At every n at once, so that one may look and stop at any time, the confidence sequence of Howard et al. (2021) with
  the predictable weights of Waudby-Smith and Ramdas (2023, Theorem 2):
  ``(sum lambda x + ln(1/share) + sum (x - mean before)^2 psi(lambda)) / sum lambda``, psi(l) = -ln(1 - l) - l.

Both are stated for the upper side; the lower one is the same for 1 - x. `docs/certificates.md` proves the second.
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
from ..evidence.certificate import Certificate, issue, more_episodes, policy_digest
from ..evidence.interface import Interface
from ..evidence.interface import make_interface as as_interface
from ..files import checksum
from ..kernels.jit import kernel
from ..model.cmdp import Model
from ..model.problem import Problem
from ..model.simulation import Laws, Noise, Streams, as_laws, draw_noise, play_kernel
from ..units import spread_thresholds

if TYPE_CHECKING:
    from ..gym.black_box import BlackBox

FIRST_LOOK = 64  # episodes before a trial that may stop looks for the first time
CHUNK = 2**12  # episodes played at once
MOST = 1e18  # episodes
STREAM = 6  # spawn keys (6, k): another noise than that of any training with the same seed

Sums = Callable[[int], Float]  # the next n episodes -> [n, 1+3m] in [0,1], see `episode_sums`


def certify_by_trial(
    source: Any,
    policy: ArrayLike,
    episodes: int,
    *,
    thresholds: ArrayLike | None = None,
    delta: float = 0.05,
    early: bool = False,
    seed: int = 0,
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
        early: stop as soon as every constraint is decided; the bounds hold at any time, and are a little wider.
        seed: of the noise, which differs from that of any training with the same seed.
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
    delta = _delta(delta)
    seed = as_count("seed", seed, least=0, most=None, error=InvalidOption)
    known, play = _open(source, interface, declarations, seed)
    pi = as_policy(policy, (known.H, known.S, known.A), known.mask)
    limits = None
    if thresholds is not None:
        given = as_floats("thresholds", thresholds, error=InvalidOption)
        limits = spread_thresholds(given, known.H, known.units, error=InvalidOption)[1].sum(axis=1)
    sums = play(pi)
    share = delta / statements(known.m, known=limits is not None)
    if early:
        x, low, high = _until_decided(sums, most, known.m, limits, known.H, share)
    else:
        x = sums(most)
        low, high = bernstein(x, share)
    return _certificate(known, pi, limits, delta, x, known.H * low, known.H * high, early=early)


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
    log = math.log(2.0 * statements(m, known=known) / _delta(delta))
    # A sample of n in [0,1] has a variance of at most n / (n - 1) / 4. So half the width is at most
    # b z + a z^2 with z = 1 / sqrt(n - 1), b = sd sqrt(2 log) and a = 7 log / 3: solved for z.
    a, b, c = 7.0 * log / 3.0, largest / span * math.sqrt(2.0 * log), width / (2.0 * span)
    root = 2.0 * c / (b + math.sqrt(b**2 + 4.0 * a * c))
    if root < MOST**-0.5:
        raise InvalidOption(
            f"a width of {width} takes more than {MOST:.0e} episodes where a sum can range over {span}; ask for a "
            "wider one."
        )
    return 1 + math.ceil(1.0 / root**2)


def statements(m: int, *, known: bool) -> int:
    """How many one-sided bounds hold at once: two for the reward, each value and each threshold that is not known."""
    return 2 * (1 + m) if known else 2 * (1 + 2 * m)


def bernstein(x: Float, share: float) -> tuple[Float, Float]:
    """Maurer and Pontil's bounds of the means of `x` ``[n,k]`` in [0,1], for one n fixed in advance."""
    n, log = len(x), math.log(2.0 / share)
    mean = x.mean(axis=0)
    radius = np.sqrt(2.0 * x.var(axis=0, ddof=1) * log / n) + 7.0 * log / (3.0 * (n - 1))
    return (mean - radius).clip(0.0), (mean + radius).clip(None, 1.0)


def sequence(x: Float, share: float, planned: int) -> tuple[Float, Float]:
    """Bounds of the means of `x` ``[n,k]`` in [0,1] after each of the n episodes, valid all at once: ``[n,k]`` each.

    Row t depends on the first t episodes only. A sequence is sharp around the number of episodes that its weights are
    made for. So several of them, for `planned` episodes, a quarter, a sixteenth and so on, share the error probability.
    """
    targets = [float(planned)]
    while targets[-1] > 4 * FIRST_LOOK:
        targets.append(targets[-1] / 4.0)
    each = [_sequence(x, share / len(targets), target) for target in targets]
    low = np.max([low for low, _ in each], axis=0)
    high = np.min([high for _, high in each], axis=0)
    return low, np.maximum(low, high)


def _sequence(x: Float, share: float, target: float) -> tuple[Float, Float]:
    """The bounds for weights that make them sharpest after `target` episodes.

    Whatever the weights are, the bounds hold as long as each is chosen before its episode.
    """
    log = math.log(1.0 / share)
    t = np.arange(1, len(x) + 1)[:, None]
    mean = (0.5 + np.cumsum(x, axis=0)) / (t + 1)
    variance = (0.25 + np.cumsum((x - mean) ** 2, axis=0)) / (t + 1)
    mean, variance = _before(mean, 0.5), _before(variance, 0.25)
    weight = np.minimum(0.5, np.sqrt(2.0 * log / (variance * target)))
    price = np.cumsum((x - mean) ** 2 * (-np.log1p(-weight) - weight), axis=0)
    total = np.cumsum(weight, axis=0)
    center, radius = np.cumsum(weight * x, axis=0) / total, (log + price) / total
    return (center - radius).clip(0.0), (center + radius).clip(None, 1.0)


def _before(values: Float, first: float) -> Float:
    """What was known before each episode: the row above, and `first` before the first."""
    return np.concatenate([np.full((1, values.shape[1]), first), values[:-1]])


def _until_decided(
    sums: Sums, most: int, m: int, limits: Float | None, H: int, share: float
) -> tuple[Float, Float, Float]:
    """Play until every constraint is decided, at most `most` episodes: the sums, and the bounds after the last."""
    x = sums(min(FIRST_LOOK, most))
    while True:
        low, high = sequence(x, share, most)
        value, threshold, _ = _bounds(low, high, m, None if limits is None else limits / H)
        safe, unsafe = value[0] >= threshold[1], value[1] < threshold[0]
        decided = (safe | unsafe).all(axis=1)
        if decided.any() or len(x) == most:
            last = int(decided.argmax()) if decided.any() else most - 1
            return x[: last + 1], low[last], high[last]
        x = np.concatenate([x, sums(min(len(x), most - len(x)))])


def _bounds(
    low: Float, high: Float, m: int, limits: Float | None
) -> tuple[tuple[Float, Float], tuple[Float, Float], tuple[Float, Float]]:
    """(lower, upper) of the values ``[.,m]``, of the thresholds ``[.,m]`` and of the reward ``[.,1]``.

    The columns are those of `episode_sums`.
    """
    value = low[..., 1 : 1 + m], high[..., 1 : 1 + m]
    threshold = low[..., 1 + m : 1 + 2 * m], high[..., 1 + 2 * m :]
    if limits is not None:
        threshold = limits, limits
    return value, threshold, (low[..., :1], high[..., :1])


def _certificate(
    known: Interface,
    pi: Policy,
    limits: Float | None,
    delta: float,
    x: Float,
    low: Float,
    high: Float,
    *,
    early: bool,
) -> Certificate:
    """The certificate of sums `x` with the bounds `low` and `high` of their means times H."""
    units, H, m, n = known.units, known.H, known.m, len(x)
    value, threshold, reward = _bounds(low, high, m, limits)
    threshold = threshold[0], np.maximum(*threshold)  # the two sides may come from different sums
    middles = [(ends[0] + ends[1]) / 2.0 for ends in (value, threshold)]
    halves = [(ends[1] - ends[0]) / 2.0 for ends in (value, threshold)]
    how = (
        "a confidence sequence (Waudby-Smith and Ramdas 2023), which holds at every moment, so that the trial could "
        "stop as soon as everything was decided"
        if early
        else "the empirical Bernstein bound (Maurer and Pontil 2009) for a number of episodes fixed in advance"
    )
    shown = (
        "the thresholds are the ones that were given"
        if limits is not None
        else "the thresholds do not change over the episodes; a step without a sample counts as the worst in either "
        "direction"
    )
    return issue(
        more=more_episodes(np.abs(middles[0] - middles[1]), halves[0] + halves[1], n),
        value_bounds=units.bounds(*value, H),
        threshold_bounds=units.bounds(*threshold, H),
        reward_bounds=tuple(float(units.reward.total_outside(end[0], H)) for end in reward),
        senses=units.senses,
        confidence=1.0 - delta,
        episodes=n,
        basis=f"It rests on {n:,} fresh episodes of this one policy, by {how}.",
        assumptions=(
            "the policy was fixed before the trial, and was played as it stands here in every episode",
            "the episodes are independent of each other, all of them were counted, and their law does not change",
            "every signal lies in its declared range",
            shown,
        ),
        policy_digest=policy_digest(pi),
        data_digest=checksum({"sums": x}, {"delta": delta, "early": early}),
        doubts=known.doubts.sentences(),
    )


# Where the episodes come from


def _open(
    source: Any, given: Mapping[str, Any] | None, declarations: Mapping[str, Any], seed: int
) -> tuple[Interface, Callable[[Policy], Sums]]:
    """What the episodes are made of, and how to get them for a policy."""
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
        return as_interface(**source.interface), lambda pi: _from_problem(source, pi, seed)
    if isinstance(source, Log):
        if given is not None or declarations:
            raise InvalidOption("a log has its interface already, and takes no declarations.")
        known = as_interface(**source.interface)
        known.doubts.rejected = len(source.rejected)
        return known, lambda pi: _from_episodes(iter(source.episodes), known, pi)
    if isinstance(source, Iterable):
        if given is None or declarations:
            raise InvalidOption(
                "a trial over episodes needs interface= (problem.interface or env_interface(…)), and nothing else."
            )
        try:
            known = as_interface(**given)
        except TypeError as problem:
            raise InvalidOption(f"interface: {problem}.") from None
        return known, lambda pi: _from_episodes(iter(source), known, pi)
    if given is not None:
        raise InvalidOption(
            "unexpected interface=: it goes with episodes, an environment declares its own."
        )
    from ..gym.black_box import as_box

    box = as_box(source, declarations)
    known = as_interface(**box.interface)
    return known, lambda pi: _from_episodes(_played(box, pi, seed), known, pi)


def _from_problem(problem: Problem, pi: Policy, seed: int) -> Sums:
    """Compiled play, with streams of its own."""
    keys = ((STREAM, k) for k in range(len(Streams._fields)))
    streams = Streams(
        *(np.random.default_rng(np.random.SeedSequence(seed, spawn_key=key)) for key in keys)
    )
    model, laws, policy = problem.cmdp.model, as_laws(problem.signals), np.array(pi)

    def play(n: int) -> Float:
        sums = np.zeros((n, 1 + 3 * problem.cmdp.m))
        for first in range(0, n, CHUNK):
            part = sums[first : first + CHUNK]
            play_sums(model, laws, draw_noise(problem, streams, len(part)), policy, part)
        return sums / problem.cmdp.H

    return play


@kernel
def play_sums(model: Model, laws: Laws, noise: Noise, pi: Float, sums: Float) -> None:
    """The sums ``[1+3m]`` of every episode of `noise`, as in `episode_sums` but for the division by H."""
    H, m = pi.shape[0], model.alpha.shape[0]
    states, pairs = np.zeros(H + 1, np.int64), np.zeros(H, np.int64)
    rewards, constraints, thresholds = np.zeros(H), np.zeros((H, m)), np.zeros((H, m))
    for n in range(sums.shape[0]):
        play_kernel(
            model, model.alpha, laws, noise, n, pi, states, pairs, rewards, constraints, thresholds
        )
        for h in range(H):
            sums[n, 0] += rewards[h]
            for i in range(m):
                sums[n, 1 + i] += constraints[h, i]
                sums[n, 1 + m + i] += thresholds[h, i]
                sums[n, 1 + 2 * m + i] += thresholds[h, i]


def _played(box: BlackBox, pi: Policy, seed: int) -> Iterator[Episode]:
    """Episodes of an environment, one after the other."""
    root = np.random.SeedSequence(seed, spawn_key=(STREAM,))
    rng, first = np.random.default_rng(root), int(root.generate_state(1)[0])
    H = box.interface["horizon"]
    yield box.play(pi, rng.random(H), first)
    while True:
        yield box.play(pi, rng.random(H))


def _from_episodes(episodes: Iterator[Episode], known: Interface, pi: Policy) -> Sums:
    numbers, steps = itertools.count(), np.arange(known.H)

    def checked(episode: Episode) -> InsideEpisode:
        number, inside = next(numbers), known.inside(episode)
        likely = pi[steps, episode.states[:-1], episode.actions]
        if not likely.all():
            h = int(likely.argmin())
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


def episode_sums(episode: InsideEpisode) -> Float:
    """``[1+3m]``, all in [0,1]: the sums over an episode divided by H, of rewards, constraints, and thresholds twice.

    A step without a threshold sample (D7) counts as 0 in the first of these, for the lower bound, and as 1 in the
    second.
    """
    thresholds = [np.nan_to_num(episode.thresholds, nan=worst).sum(axis=0) for worst in (0.0, 1.0)]
    totals = episode.rewards.sum(), episode.constraints.sum(axis=0), *thresholds
    sums: Float = np.hstack(totals) / len(episode.rewards)
    return sums.clip(0.0, 1.0)


def _delta(value: float) -> float:
    # Below that, 1 - delta cannot be told from 1.
    if not isinstance(value, (int, float)) or not 1e-15 <= value < 1.0:
        raise InvalidOption(f"delta must be a number from 1e-15 to 1, 1 excluded, got {value!r}.")
    return float(value)
