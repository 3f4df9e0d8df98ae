"""`learn`: the loop of play and observe, compiled.

    while episodes remain:                    in chunks, without the GIL
        values of the policy   -> metrics
        play                   -> an episode
        learner's step         -> the next policy

It calls the kernels that `play` and the learner's `observe` call, with the same random numbers, so it gives the same
bits as a loop of these two written by hand. Between chunks (`loop`) there is time for progress, Ctrl-C and
recording, and for the plans of learners that make them.
"""

from __future__ import annotations

import contextlib
import functools
import time
from collections.abc import Callable
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from ..arrays import Episode, Float, InsideEpisode, Int, as_count, frozen
from ..errors import InvalidEpisode, InvalidOption, SolverError
from ..evidence.differences import check_totals
from ..evidence.meter import check_meter
from ..learners.doubling import episodes_to_settle
from ..learners.learner import Learner
from ..model.problem import Problem
from ..model.simulation import (
    as_laws,
    draw_noise,
    empty_noise,
    play,
    set_stream_states,
    stream_states,
    streams_at,
)
from ..states import adopt, copy_into, flatten, part
from ..syscalls import InterruptsDeferred
from .loop import Learning, Played, Playing, Truth, Watching, play_chunk
from .metering import make_metering, shown
from .metrics import ACCUMULATED, RECORDED, Optima, empty_record, empty_tracker, grid
from .origin import origin_of
from .progress import Progress
from .recorded import Callback, recorded
from .run import Run

CHUNK_SECONDS = 0.1  # how long a chunk of compiled episodes takes, about
NOISE_NUMBERS = 2**18  # random numbers drawn at once, at most: they stay in the cache


def learn(
    problem: Problem,
    learner: Learner,
    episodes: int | None = None,
    seed: int = 0,
    record: str | int = "log",
    track: str = "every",
    progress: bool = False,
    callback: Callback | None = None,
) -> Run:
    """Let `learner` play `problem` and learn from it.

    Args:
        problem: the truth; the learner sees only what it observes.
        learner: goes on from where it is, and is changed.
        episodes: how many; by default what remains of the learner's T.
        seed: names the noise. Episode t has the same noise whether or not the learner was stopped before it.
        record: "log" (32 episodes a decade), "all", or every k-th episode.
        track: "every" evaluates the policy of every episode exactly; "grid" only the recorded ones, for models so
            large that evaluation costs more than learning.
        progress: show a line on standard error, or a bar in a notebook.
        callback: called at every recorded episode with its `Recorded`; where it returns False, the run ends there.
            `TensorBoard` and `MLflow` are ready ones.

    A KeyboardInterrupt leaves the learner after a whole episode, and so does any other error; its `run` holds the run
    so far. While the run is set up, kernels are compiled or a plan is made, an interrupt waits.

    Examples:
        >>> import safespot as ss
        >>> problem = ss.problems.make("machine")
        >>> learner = ss.Spot(
        ...     **problem.interface, episodes=2000, rho=2.4, bonus_scale=0.01, threshold_scale=0.1
        ... )
        >>> run = ss.learn(problem, learner, seed=0)
        >>> print(run.values[-1].round(1), run.constraint_values[-1].round(1))  # at best 11, at a strain of 1
        10.3 [0.9]

    """
    if not isinstance(problem, Problem) or not isinstance(learner, Learner):
        raise InvalidOption(
            f"learn takes a Problem and a learner, got {type(problem).__name__} and "
            f"{type(learner).__name__}."
        )
    make = functools.partial(Training, problem, learner, episodes, seed, record, track)
    return carry_on(make, progress, callback)


class Trainable(Protocol):
    """A run in the making, of any kind."""

    learner: Learner
    seconds: float

    @property
    def remaining(self) -> int:
        """How many episodes are still to be played."""

    @property
    def recorded(self) -> Int:
        """The episodes to record, in order."""

    def advance(self, most: int | None = None) -> int:
        """Play some of them, at most so many."""

    def rows(self, which: slice) -> dict[str, Any]:
        """What was recorded, in the user's terms: the fields of a `Run` that have a row per recorded episode."""

    def result(self) -> Run:
        """The run so far."""


def carry_on(
    make: Callable[[], Trainable], progress: bool, callback: Callback | None = None
) -> Run:
    """Make a run and play it; whatever ends it early leaves the run so far in the error's `run`."""
    if callback is not None and not callable(callback):
        raise InvalidOption(f"callback must be a function of a record, got {callback!r}.")
    training: Trainable | None = None
    try:
        with InterruptsDeferred():
            training = make()
        _play(training, progress, callback)
        return training.result()
    except BaseException as stop:
        if training is not None:
            with InterruptsDeferred():
                training.learner.lifetime.lent = False
                with contextlib.suppress(SolverError):  # the next episode plans again
                    training.learner.settle()
                stop.run = training.result()  # type: ignore[attr-defined]
        raise


def _play(training: Trainable, progress: bool, callback: Callback | None) -> None:
    """Play what remains, or until the callback says False."""
    total = training.remaining
    bar = Progress(total) if progress else None
    told = 0  # recorded episodes that the callback has seen
    try:
        while training.remaining:
            if callback is None:
                training.advance()
            else:
                training.advance(int(training.recorded[told]) - training.learner.episode + 1)
            if bar is not None:
                bar.show(total - training.remaining, training.seconds)
            if callback is not None and training.learner.episode > training.recorded[told]:
                told += 1
                row = recorded(training.learner, training.rows(slice(told - 1, told)))
                training.learner.lifetime.lent = True
                going = callback(row) is not False
                training.learner.lifetime.lent = False
                if not going:
                    break
    finally:
        if bar is not None:
            bar.close()


class Training:
    """A run in the making: the arguments of `learn`, played chunk by chunk.

    Between two chunks, `arrays` is all that a new one with the same arguments needs to go on (`restore`).
    """

    def __init__(
        self,
        problem: Problem,
        learner: Learner,
        episodes: int | None = None,
        seed: int = 0,
        record: str | int = "log",
        track: str = "every",
        optima: Optima | None = None,
    ) -> None:
        total = check_episodes(learner, episodes)
        if track not in ("every", "grid"):
            raise InvalidOption(f"track must be 'every' or 'grid', got {track!r}.")
        _check_fit(problem, learner)
        cmdp = problem.cmdp
        H, m, units = cmdp.H, cmdp.m, cmdp.units
        self.problem, self.learner, self.seed, self.track = problem, learner, seed, track
        self.first = first = learner.episode
        self.last = first + total - 1
        self.origin = origin_of(learner, lambda: _player(problem, seed, first))
        self.seconds = 0.0
        self.record = empty_record(grid(record, self.first, self.last), m)
        self.meter = learner.make_meter()
        self.metering = make_metering(
            self.meter, len(self.record.episodes), checked=learner.options.declares_totals
        )
        self.streams = streams_at(problem, seed, learner.episode)
        self.optima = Optima(problem) if optima is None else optima
        offsets = np.r_[units.reward.offset, units.constraints.offset]
        scales = np.r_[units.reward.scale, units.constraints.scale]
        truth = Truth(
            model=cmdp.model,
            target=problem.target,
            laws=as_laws(problem),
            offsets=offsets,
            scales=scales,
            scaled=bool(offsets.any() or (scales != 1.0).any()),
        )
        played = Played(
            states=np.zeros(H + 1, np.int64),
            pairs=np.zeros(H, np.int64),
            rewards=np.zeros(H),
            constraints=np.zeros((H, m)),
            thresholds=np.zeros((H, m)),
            alpha=np.zeros((m, H)),
            progress=np.full(1, np.nan),
        )
        self.tracker = empty_tracker(cmdp.S, cmdp.A, m, learner.episode - 1)
        self.most = max(1, NOISE_NUMBERS // (1 + H * (3 + 2 * m)))
        self.size = min(16, self.most)
        episodes = min(self.most, total)
        self.playing = Playing(
            truth=truth,
            noise=empty_noise(problem, episodes),
            # Without a drift, progress and optimum stay as they are.
            progress=np.zeros(episodes),
            optima=np.full(episodes, self.optima(np.array([1]))),
            played=played,
        )

    @property
    def remaining(self) -> int:
        """How many episodes are still to be played."""
        return self.last - self.learner.episode + 1

    def advance(self, most: int | None = None) -> int:
        """Play a chunk of about `CHUNK_SECONDS`, of at most `most` episodes; returns how many."""
        learner, began = self.learner, time.perf_counter()
        n = min(self.size, self.remaining if most is None else min(most, self.remaining))
        n = min(n, episodes_to_settle(learner) or n)
        self.chunk(n)
        took = max(time.perf_counter() - began, 1e-6)
        self.seconds += took
        self.size = max(1, min(self.most, 2 * n, int(n * CHUNK_SECONDS / took)))
        return n

    def chunk(self, n: int) -> None:
        """Play n episodes; in between, grow what the learner remembers where it must, and let it plan."""
        learner = self.learner
        first = learner.episode
        with InterruptsDeferred():
            draw_noise(self.problem, self.streams, n, self.playing.noise)
        drift = self.problem.signals.drift
        if drift is not None:
            self.playing.progress[:n] = [drift.progress(first + j) for j in range(n)]
            self.playing.optima[:n] = self.optima(np.arange(first, first + n))
        watching = Watching(self.track != "grid", self.tracker, self.record, self.metering)
        done = 0
        while done < n:
            with InterruptsDeferred():  # in a kernel, an interrupt could leave a SystemError
                learner.make_room()
                learning = Learning(
                    learner.rates, learner.state, learner.statistics, learner.window
                )
                done = play_chunk(self.playing, watching, learning, done, n)
                learner.settle()
            if self.metering.checked:
                self._check_totals()

    def _check_totals(self) -> None:
        """Raise where the episode that was played last has other totals than were declared."""
        played = self.playing.played
        seen = InsideEpisode(*(getattr(played, name) for name in InsideEpisode._fields))
        try:
            check_totals(self.metering.declared, seen)
        except InvalidEpisode as problem:
            raise InvalidEpisode(f"episode {self.learner.episode}: {problem}") from None

    def arrays(self) -> dict[str, NDArray]:
        """All that changes while it runs, between two chunks."""
        rows = int(self.record.written[0])
        return flatten(
            {
                "learner": self.learner.arrays(),
                "tracker": {name: getattr(self.tracker, name) for name in ACCUMULATED},
                "record": {name: getattr(self.record, name)[:rows] for name in RECORDED},
                "meter": self.metering.state,
                "rows": self.metering.rows[:rows],
                "streams": stream_states(self.streams),
                "seconds": np.array(self.seconds),
            }
        )

    def restore(self, arrays: dict[str, NDArray]) -> None:
        """Go on from where `arrays` were taken; this must be new, with the same arguments."""
        self.learner.restore(part(arrays, "learner"))
        for name in ACCUMULATED:
            copy_into(getattr(self.tracker, name), arrays[f"tracker.{name}"])
        written = len(arrays["record.values"])
        for name in RECORDED:
            copy_into(getattr(self.record, name)[:written], arrays[f"record.{name}"])
        self.record.written[0] = written
        state = self.metering.state
        adopt(state, check_meter(state, part(arrays, "meter")))
        copy_into(self.metering.rows[:written], arrays["rows"])
        states, seconds = stream_states(self.streams), np.array(self.seconds)
        copy_into(states, arrays["streams"])
        copy_into(seconds, arrays["seconds"])
        set_stream_states(self.streams, states)
        self.seconds = float(seconds)

    @property
    def recorded(self) -> Int:
        """The episodes to record, in order."""
        return self.record.episodes

    def rows(self, which: slice) -> dict[str, Any]:
        """What was recorded, in the user's terms: the fields of a `Run` that have a row per recorded episode."""
        record, units, H = self.record, self.problem.cmdp.units, self.problem.cmdp.H
        episodes, values = record.episodes[which].copy(), record.values[which]
        lower, upper = record.lower[which], record.upper[which]
        inside = self.learner.options.between(lower, upper)
        weak, strong = np.moveaxis(record.sums[which], 1, 0)
        scale = np.abs(units.constraints.scale)
        return {
            "episodes": frozen(episodes),
            "values": units.reward.total_outside(values[:, 0], H),
            "constraint_values": units.constraints.total_outside(values[:, 1:], H),
            "multipliers": units.prices(record.lam[which]),
            "thresholds": units.constraints.total_outside(inside, H),
            "threshold_bounds": units.bounds(lower, upper, H),
            "regret": weak[:, 0] * units.reward.scale,
            "strong_regret": strong[:, 0] * units.reward.scale,
            "violations": weak[:, 1:] * scale,
            "strong_violations": strong[:, 1:] * scale,
            "limits": self._limits(episodes),
            "evidence": shown(
                self.metering, self.meter, episodes - self.first + 1, which.start or 0
            ),
        }

    def _limits(self, episodes: Int) -> Float:
        """The true thresholds of some episodes, ``[.,m]``."""
        cmdp = self.problem.cmdp
        if self.problem.signals.drift is None:
            return np.tile(cmdp.limits, (len(episodes), 1))
        inside = [self.problem.alpha(int(t)).sum(axis=1) for t in episodes]
        limits: Float = cmdp.units.constraints.total_outside(
            np.reshape(inside, (len(episodes), cmdp.m)), cmdp.H
        )
        return limits

    def result(self) -> Run:
        """The run so far, in the user's terms."""
        units, H, record = self.problem.cmdp.units, self.problem.cmdp.H, self.record
        rows = int(record.written[0])
        last = int(record.episodes[rows - 1]) if rows else self.learner.episode
        optimum = float(self.optima(np.array([last]))[0])
        return Run(
            **self.rows(slice(0, rows)),
            policy=self.learner.policy,
            learner=self.learner,
            optimum=float(units.reward.total_outside(optimum, H)),
            seed=self.seed,
            track=self.track,
            seconds=self.seconds,
            origin=self.origin,
            played=self.learner.episode - self.first,
        )


def _player(problem: Problem, seed: int, first: int) -> Callable[[Learner], Episode]:
    """Plays the episodes of a training from its first on, one by one."""
    streams = streams_at(problem, seed, first)
    return lambda learner: play(problem, learner.state.pi, streams, learner.episode)


def check_episodes(learner: Learner, episodes: int | None) -> int:
    """How many episodes to play: those asked for, or what remains of T."""
    learner.lifetime.check_not_lent()
    if learner.hands_back:
        raise InvalidOption(
            "a guard with baseline='hand-back' gives the decision back to a practice, and there is none here: let it "
            "act and observe in a loop of your own, or give it a policy as baseline."
        )
    remaining = learner.lifetime.left(learner.episode)
    if episodes is None:
        if remaining is None:
            raise InvalidOption("say how many episodes: an anytime learner has no end of its own.")
        if remaining == 0:
            raise InvalidOption(
                f"the learner has played all of its {learner.options.episodes} episodes; say how many more."
            )
        return remaining
    total = as_count("episodes", episodes, least=1, error=InvalidOption)
    if remaining is not None and total > remaining:
        learner.lifetime.warn_beyond(f"{total} episodes go", learner.episode)
    return total


def _check_fit(problem: Problem, learner: Learner) -> None:
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
