"""`learn`: the loop of play and observe, compiled.

    while episodes remain:                    in chunks, without the GIL
        values of the policy   -> metrics
        play                   -> an episode
        learner's step         -> the next policy

It calls the kernels that `play` and `Spot.observe` call, with the same random numbers, so it gives the same bits as
a loop of these two written by hand. Between chunks there is time for progress, Ctrl-C and recording.
"""

from __future__ import annotations

import logging
import sys
import time
import warnings
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from .arrays import Float, Int, Policy, as_count, frozen
from .cmdp import Model
from .compilation import inner, lean
from .errors import InvalidOption
from .estimators import Statistics, Window, has_room
from .learners.interface import Inside
from .learners.spot import Spot
from .learners.step import Rates, State, spot_step
from .metrics import Optima, Record, accumulate, empty_record, grid, write_row
from .oracle import forward_values
from .signals import Problem
from .simulation import Laws, Noise, Streams, as_laws, draw_noise, empty_noise, play_kernel, streams

log = logging.getLogger(__name__)

CHUNK_SECONDS = 0.1  # how long a chunk of compiled episodes takes, about
NOISE_NUMBERS = 2**18  # random numbers drawn at once, at most: they stay in the cache


class Truth(NamedTuple):
    """What the loop knows of the problem and the learner does not."""

    model: Model
    target: Float  # [m, H]: where the thresholds drift to
    laws: Laws
    offsets: Float  # [1+m]: units of the reward and the constraints
    scales: Float  # [1+m]


class Played(NamedTuple):
    """Buffers for one episode, in inside units."""

    states: Int  # [H+1]
    actions: Int  # [H]
    pairs: Int  # [H]
    rewards: Float  # [H]
    constraints: Float  # [H, m]
    thresholds: Float  # [H, m]
    alpha: Float  # [m, H]: the thresholds of this episode


class Tracker(NamedTuple):
    """Exact values of the policy in play, and what has been accumulated."""

    values: Float  # [1+m]
    limits: Float  # [m]
    totals: Float  # [2, 1+m]
    last: Float  # [2]: the episode of the last accumulation, and its optimum
    before: Float  # [1+m]: the values there
    limits_before: Float  # [m]
    now: Float  # [S]
    after: Float  # [S]
    mass: Float  # [S*A]


@dataclass(frozen=True, eq=False)
class Run:
    """What `learn` returns, in the user's terms; every array has one row per recorded episode.

    Regret and violation are cumulative up to and including the episode. `track` says whether every episode was
    evaluated ("every") or only the recorded ones, with the trapezoidal rule between them ("grid").
    """

    episodes: Int  # [.], 1-based
    values: Float  # [.]: exact reward value of the policy played
    constraint_values: Float  # [., m]
    multipliers: Float  # [., m]
    thresholds: Float  # [., m]: in use
    threshold_bounds: tuple[Float, Float]  # lower, upper [., m]
    regret: Float  # [.]
    strong_regret: Float  # [.]
    violations: Float  # [., m]
    strong_violations: Float  # [., m]
    policy: Policy  # [H, S, A]: for the coming episode
    learner: Spot
    optimum: float  # for the thresholds of the last episode
    seed: int
    track: str
    seconds: float

    @property
    def violation(self) -> Float:
        """``[.]``: the largest over the constraints of the summed shortfalls (the paper)."""
        violation: Float = self.violations.max(axis=1)
        return violation

    @property
    def strong_violation(self) -> Float:
        """``[.]``: the largest over the constraints of the sums of positive shortfalls."""
        violation: Float = self.strong_violations.max(axis=1)
        return violation


def learn(
    problem: Problem,
    learner: Spot,
    episodes: int | None = None,
    seed: int = 0,
    record: str | int = "log",
    track: str = "every",
    progress: bool = False,
) -> Run:
    """Let `learner` play `problem` and learn from it.

    Args:
        problem: the truth; the learner sees only what it observes.
        learner: goes on from where it is, and is changed.
        episodes: how many; by default what remains of the learner's T.
        seed: names the luck. Episode t has the same luck whether or not the learner was stopped before it.
        record: "log" (32 episodes a decade), "all", or every k-th episode.
        track: "every" evaluates the policy of every episode exactly; "grid" only the recorded ones, for models so
            large that evaluation costs more than learning.
        progress: show a line on standard error.

    A KeyboardInterrupt leaves the learner after a whole episode; the error's `run` holds the run so far.

    """
    if not isinstance(problem, Problem) or not isinstance(learner, Spot):
        raise InvalidOption(
            f"learn takes a Problem and a learner, got {type(problem).__name__} and "
            f"{type(learner).__name__}."
        )
    total = check_episodes(learner, episodes)
    if track not in ("every", "grid"):
        raise InvalidOption(f"track must be 'every' or 'grid', got {track!r}.")
    _check_fit(problem, learner)
    first = learner.episode
    loop = _Loop(problem, learner, seed, grid(record, first, first + total - 1), track)
    started = time.perf_counter()
    try:
        loop.run(total, progress)
    except KeyboardInterrupt as interrupt:
        interrupt.run = loop.result(time.perf_counter() - started)  # type: ignore[attr-defined]
        raise
    return loop.result(time.perf_counter() - started)


class _Loop:
    """Everything that lives while `learn` runs."""

    def __init__(
        self, problem: Problem, learner: Spot, seed: int, episodes: Int, track: str
    ) -> None:
        cmdp = problem.cmdp
        H, m, S = cmdp.H, cmdp.m, cmdp.S
        units = cmdp.units
        self.problem, self.learner, self.seed, self.track = problem, learner, seed, track
        self.streams = streams_at(problem, seed, learner.episode)
        self.optima = Optima(problem)
        self.truth = Truth(
            model=cmdp.model,
            target=problem.target,
            laws=as_laws(problem.signals),
            offsets=np.r_[units.reward.offset, units.constraints.offset],
            scales=np.r_[units.reward.scale, units.constraints.scale],
        )
        self.played = Played(
            states=np.zeros(H + 1, np.int64),
            actions=np.zeros(H, np.int64),
            pairs=np.zeros(H, np.int64),
            rewards=np.zeros(H),
            constraints=np.zeros((H, m)),
            thresholds=np.zeros((H, m)),
            alpha=np.zeros((m, H)),
        )
        self.tracker = Tracker(
            values=np.zeros(1 + m),
            limits=np.zeros(m),
            totals=np.zeros((2, 1 + m)),
            last=np.array([learner.episode - 1.0, np.nan]),
            before=np.full(1 + m, np.nan),
            limits_before=np.zeros(m),
            now=np.zeros(S),
            after=np.zeros(S),
            mass=np.zeros(S * cmdp.A),
        )
        self.record = empty_record(episodes, m)
        self.most = max(1, NOISE_NUMBERS // (1 + H * (3 + 2 * m)))
        self.luck = empty_noise(problem, self.most)

    def run(self, total: int, progress: bool) -> None:
        """Play `total` episodes in chunks of about `CHUNK_SECONDS`."""
        learner = self.learner
        size, done, started = min(16, self.most), 0, time.perf_counter()
        try:
            while done < total:
                n = min(size, total - done, learner.episodes_left or total)
                began = time.perf_counter()
                self.chunk(n)
                learner.settle()
                done += n
                took = max(time.perf_counter() - began, 1e-6)
                size = max(1, min(self.most, 2 * n, int(n * CHUNK_SECONDS / took)))
                if progress:
                    _show(done, total, time.perf_counter() - started)
        finally:
            learner.settle()
            if progress:
                print(file=sys.stderr)

    def chunk(self, n: int) -> None:
        """Play n episodes, growing what the learner remembers in between where it must."""
        learner = self.learner
        first = learner.episode
        draw_noise(self.problem, self.streams, n, self.luck)
        drift = self.problem.signals.drift
        progress = np.zeros(n)
        if drift is not None:
            progress[:] = [drift.progress(first + j) for j in range(n)]
        optima = self.optima(np.arange(first, first + n))
        done = 0
        while done < n:
            learner.make_room()
            done = learn_chunk(
                self.truth, self.luck, progress, optima, done, n, self.track == "every",
                learner.rates, learner.state, learner.statistics, learner.window,
                self.played, self.tracker, self.record,
            )  # fmt: skip

    def result(self, seconds: float) -> Run:
        """The run so far, in the user's terms."""
        cmdp, record = self.problem.cmdp, self.record
        units, H = cmdp.units, cmdp.H
        rows = int(record.written[0])
        xi = self.learner.options.xi
        inside = xi * record.lower[:rows] + (1.0 - xi) * record.upper[:rows]
        weak, strong = np.moveaxis(record.sums[:rows], 1, 0)
        scale = np.abs(units.constraints.scale)
        last = int(record.episodes[rows - 1]) if rows else self.learner.episode
        optimum = float(self.optima(np.array([last]))[0])
        lower, upper = units.bounds(record.lower[:rows], record.upper[:rows], H)
        return Run(
            episodes=frozen(record.episodes[:rows].copy()),
            values=units.reward.total_outside(record.values[:rows, 0], H),
            constraint_values=units.constraints.total_outside(record.values[:rows, 1:], H),
            multipliers=units.prices(record.lam[:rows]),
            thresholds=units.constraints.total_outside(inside, H),
            threshold_bounds=(lower, upper),
            regret=weak[:, 0] * units.reward.scale,
            strong_regret=strong[:, 0] * units.reward.scale,
            violations=weak[:, 1:] * scale,
            strong_violations=strong[:, 1:] * scale,
            policy=self.learner.policy,
            learner=self.learner,
            optimum=float(units.reward.total_outside(optimum, H)),
            seed=self.seed,
            track=self.track,
            seconds=seconds,
        )


@lean
def learn_chunk(
    truth: Truth,
    luck: Noise,
    progress: Float,
    optima: Float,
    first: int,
    last: int,
    every: bool,
    rates: Rates,
    state: State,
    statistics: Statistics,
    window: Window,
    played: Played,
    tracker: Tracker,
    record: Record,
) -> int:
    """Episodes `first` up to `last` of the chunk; returns the one before which there was no room."""
    A = state.pi.shape[2]
    H, m = played.constraints.shape
    stale = True
    for n in range(first, last):
        if not has_room(statistics, window):
            return n
        t = state.finished[0] + 1
        for i in range(m):
            tracker.limits[i] = 0.0
            for h in range(H):
                alpha = truth.model.alpha[i, h]
                played.alpha[i, h] = alpha + progress[n] * (truth.target[i, h] - alpha)
                tracker.limits[i] += played.alpha[i, h]
        row = record.written[0]
        wanted = row < record.episodes.shape[0] and record.episodes[row] == t
        if every or wanted:
            if stale:
                forward_values(
                    truth.model, state.pi, tracker.now, tracker.after, tracker.mass, tracker.values
                )
            stale = False
            track(tracker, float(t), optima[n])
            if wanted:
                write_row(
                    record, tracker.values, state.lam, state.lower, state.upper, tracker.totals
                )
        play_kernel(
            truth.model, played.alpha, truth.laws, luck, n, state.pi,
            played.states, played.actions, played.rewards, played.constraints, played.thresholds,
        )  # fmt: skip
        for h in range(H):
            played.pairs[h] = played.states[h] * A + played.actions[h]
            played.rewards[h] = there_and_back(played.rewards[h], truth.offsets[0], truth.scales[0])
            for i in range(m):
                offset, scale = truth.offsets[1 + i], truth.scales[1 + i]
                played.constraints[h, i] = there_and_back(played.constraints[h, i], offset, scale)
                played.thresholds[h, i] = there_and_back(played.thresholds[h, i], offset, scale)
        episode = Inside(
            played.states, played.pairs, played.rewards, played.constraints, played.thresholds
        )
        stale |= spot_step(rates, state, statistics, window, episode)
    return last


@inner
def there_and_back(x: float, offset: float, scale: float) -> float:
    """A signal in the user's units and inside again, rounded as an observed one is."""
    if offset == 0.0 and scale == 1.0:
        return x
    return min(max(((offset + scale * x) - offset) / scale, 0.0), 1.0)


@inner
def track(tracker: Tracker, t: float, optimum: float) -> None:
    """Accumulate episode t; episodes since the last accumulation follow the trapezoidal rule."""
    skipped = t - tracker.last[0] - 1.0
    if skipped > 0.0:
        # sum over the skipped ones of a straight line between both ends
        accumulate(
            tracker.totals, tracker.last[1], tracker.limits_before, tracker.before, skipped / 2.0
        )
        accumulate(tracker.totals, optimum, tracker.limits, tracker.values, skipped / 2.0)
    accumulate(tracker.totals, optimum, tracker.limits, tracker.values, 1.0)
    tracker.last[0] = t
    tracker.last[1] = optimum
    for c in range(tracker.values.shape[0]):
        tracker.before[c] = tracker.values[c]
    for i in range(tracker.limits.shape[0]):
        tracker.limits_before[i] = tracker.limits[i]


def streams_at(problem: Problem, seed: int, episode: int) -> Streams:
    """The streams of `seed` as they stand before `episode`, as if the ones before had been played."""
    made = streams(seed)
    skipped = empty_noise(problem, min(episode, 2**12))
    for first in range(1, episode, 2**12):
        draw_noise(problem, made, min(2**12, episode - first), skipped)
    return made


def check_episodes(learner: Spot, episodes: int | None) -> int:
    """How many episodes to play: those asked for, or what remains of T."""
    planned = learner.options.episodes
    remaining = None if planned is None else planned - learner.episode + 1
    if episodes is None:
        if remaining is None:
            raise InvalidOption("say how many episodes: an anytime learner has no end of its own.")
        if remaining <= 0:
            raise InvalidOption(
                f"the learner has played all of its {planned} episodes; say how many more."
            )
        return remaining
    total = as_count("episodes", episodes, least=1, error=InvalidOption)
    if remaining is not None and total > remaining:
        warnings.warn(
            f"{total} episodes go beyond the learner's T = {planned} ({max(0, remaining)} remain): its "
            "step sizes and radii were chosen for T.",
            stacklevel=3,
        )
    return total


def _check_fit(problem: Problem, learner: Spot) -> None:
    mine, theirs = learner.interface, problem.cmdp
    if (mine.S, mine.A, mine.H, mine.m) != (theirs.S, theirs.A, theirs.H, theirs.m):
        raise InvalidOption(
            f"the learner is for S={mine.S}, A={mine.A}, H={mine.H}, m={mine.m}; the problem has "
            f"S={theirs.S}, A={theirs.A}, H={theirs.H}, m={theirs.m}. Make it with "
            "**problem.interface."
        )
    start = theirs.start if isinstance(theirs.start, int) else None
    if mine.start is not None and mine.start != start:
        raise InvalidOption("the learner expects another start state than the problem's.")
    if mine.units != theirs.units:
        raise InvalidOption("the learner has other senses or ranges than the problem.")
    mask = theirs.model.mask.reshape(-1, theirs.S, theirs.A)
    if (mine.mask & ~mask).any():
        raise InvalidOption("the learner may take actions that the problem does not admit.")


def _show(done: int, total: int, seconds: float) -> None:
    rate = done / max(seconds, 1e-9)
    left = (total - done) / rate
    line = f"\r{done:,} of {total:,} episodes, {rate:,.0f} a second, {left:,.0f} s left   "
    print(line, end="", file=sys.stderr, flush=True)
