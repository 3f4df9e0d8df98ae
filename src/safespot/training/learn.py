"""`learn`: the loop of play and observe, compiled where a problem is played.

    while episodes remain:                    in chunks, without the GIL
        values of the policy   -> metrics
        play                   -> an episode
        learner's step         -> the next policy

It calls the kernels that `play` and the learner's `observe` call, with the same random numbers, so it gives the same
bits as a loop of these two written by hand. Between chunks (`loop`) there is time for progress, Ctrl-C and
recording, and for the plans of learners that make them.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..arrays import Episode, Float, Int, frozen
from ..errors import InvalidEpisode, InvalidOption
from ..evidence.meter import check_meter
from ..learners.doubling import episodes_to_settle
from ..learners.learner import Learner, OnlineLearner
from ..model.problem import Problem
from ..model.signals import BETA
from ..model.simulation import (
    as_laws,
    draw_noise,
    empty_noise,
    play,
    set_stream_states,
    stream_states,
    streams_at,
)
from ..signals.interface import make_interface
from ..signals.totals import check_sums
from ..states import adopt, copy_into, flatten, part, rebuild
from ..syscalls import InterruptsDeferred
from .core_loop import CoreLoop
from .learning import CHUNK_SECONDS, Trainable, carry_on, check_fit
from .loop import Learning, Played, Playing, Truth, Watching, play_chunk
from .metering import compare_policies, kept_sums, make_metering, shown
from .metrics import ACCUMULATED, RECORDED, Optima, empty_record, empty_tracker
from .origin import origin_of
from .recorded import Callback
from .run import Run

NOISE_NUMBERS = 2**18  # random numbers drawn at once, at most: they stay in the cache


def learn(
    source: Any,
    learner: OnlineLearner,
    episodes: int | None = None,
    seed: int = 0,
    record: str | int = "log",
    track: str = "every",
    progress: bool = False,
    callback: Callback | None = None,
    **declarations: Any,
) -> Run:
    """Let `learner` play a problem or an environment and learn from it.

    Args:
        source: a `Problem`; a `BlackBox`; or an environment with the declarations of one: horizon, senses and ranges
            are the learner's where they are not declared. The learner sees only what it observes.
        learner: goes on from where it is, and is changed; in an environment it may be a durable one.
        episodes: how many; by default what remains of the learner's T.
        seed: names the noise. Episode t of a problem has the same noise whether or not the learner was stopped before
            it. In an environment it is that of the first reset and of the actions; a learner that goes on draws new
            noise.
        record: "log" (32 episodes a decade), "all", or every k-th episode.
        track: "every" evaluates the policy of every episode exactly; "grid" only the recorded ones, for models so
            large that evaluation costs more than learning. Nothing is evaluated in an environment.
        progress: show a line on standard error, or a bar in a notebook.
        callback: called at every recorded episode with its `Recorded`; where it returns False, the run ends there.
            `TensorBoard` and `MLflow` are ready ones.
        **declarations: of a `BlackBox`, where `source` is an environment.

    A KeyboardInterrupt leaves the learner after a whole episode, and so does any other error; its `run` holds the run
    so far, and the same call goes on. While the run is set up, kernels are compiled or a plan is made, an interrupt
    waits.

    **In an environment** nothing is known but what it shows. The run's `values` and `constraint_values` are then the
    sums of the recorded episodes themselves, not expectations; `regret` is None, since the optimum is unknown, and
    `optimum` NaN. `violations` add up what each episode's own threshold signals ask for (the known thresholds, where
    the learner knows them) and its constraint signals fall short of; a step without a sample counts as the episode's
    other steps do. An environment that fails, or shows what cannot be, is an `InvalidEpisode` that names the episode,
    the step and what it was asked for. The episode is dropped, and its failure may be the reason for which the others
    look well: the next episode that is learned says that one was `rejected` beside it, and nothing is certified from
    then on.

    Examples:
        >>> import safespot as ss
        >>> problem = ss.problems.make("machine")
        >>> learner = ss.Spot(
        ...     **problem.interface, episodes=2000, rho=2.4, bonus_scale=0.01, threshold_scale=0.1
        ... )
        >>> run = ss.learn(problem, learner, seed=0)
        >>> print(run.values[-1].round(1), run.constraint_values[-1].round(1))  # at best 11, at a strain of 1
        10.3 [0.9]

        >>> env = ss.gym.ProblemEnv("machine")
        >>> learner = ss.Spot(**ss.gym.env_interface(env), episodes=500, slack=1.0)
        >>> run = ss.learn(env, learner, episodes=20)
        >>> print(learner.episode, run.values[-1], run.constraint_values[-1])
        21 10.0 [4.]

    """
    plain = learner.learner if isinstance(learner, OnlineLearner) else None
    if not isinstance(plain, Learner):
        raise InvalidOption(f"learn takes a learner, got {type(learner).__name__}.")
    if track not in ("every", "grid"):
        raise InvalidOption(f"track must be 'every' or 'grid', got {track!r}.")
    make: Callable[[], Trainable]
    if not isinstance(source, Problem):
        from .learn_env import EnvTraining, fit_box  # Gymnasium takes its time

        box = fit_box(source, plain, declarations)
        make = functools.partial(EnvTraining, box, plain, learner.observe, episodes, seed, record)
    elif declarations or plain is not learner:
        extra = sorted(declarations) or type(learner).__name__
        raise InvalidOption(
            f"learn takes a Problem and a plain learner, and nothing else; got {extra}. A durable learner learns in "
            "an environment: ss.gym.ProblemEnv(problem)."
        )
    else:
        make = functools.partial(
            Training, source, plain, episodes, seed, record, track, keep_sums=True
        )
    return carry_on(make, progress, callback)


class Training(Trainable):
    """A run in a problem: the arguments of `learn`, played chunk by chunk.

    Between two chunks, `arrays` is all that a new one with the same arguments needs to go on (`restore`), but for the
    sums of episodes: `keep_sums` is for runs that are played in one go.
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
        *,
        keep_sums: bool = False,
    ) -> None:
        super().__init__(learner, episodes, seed, record)
        check_fit(learner, make_interface(**problem.interface), "problem")
        cmdp, first = problem.cmdp, self.first
        H, m, units = cmdp.H, cmdp.m, cmdp.units
        self.problem, self.track = problem, track
        self.origin = origin_of(learner, lambda: _player(problem, seed, first))
        self.record = empty_record(self.recorded, m)
        self.metering = make_metering(
            self.meter,
            len(self.recorded),
            checked=learner.options.declares_totals,
            sums=self.remaining if keep_sums else 0,
        )
        self.before = learner.state.pi.copy()  # the policy as the last step left it
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
        episodes = min(self.most, self.remaining)
        self.playing = Playing(
            truth=truth,
            noise=empty_noise(problem, episodes),
            # Without a drift, progress and optimum stay as they are.
            progress=np.zeros(episodes),
            optima=np.full(episodes, self.optima(np.array([1]))),
            played=played,
        )
        self.watching = Watching(track != "grid", self.tracker, self.record, self.metering)
        self.core = CoreLoop(self.playing, self.watching)
        # `play` draws Beta signals with Numba's gamma function, which is not the C library's.
        self.own_gamma = bool((truth.laws.codes == BETA).any())

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
        done = 0
        while done < n:
            with InterruptsDeferred():  # in a kernel, an interrupt could leave a SystemError
                compare_policies(self.metering, self.before, learner.state.pi)
                learner.make_room()
                done = self._play(done, n)
                self.before[:] = learner.state.pi
                learner.settle()
            if self.metering.checked:
                self._check_totals()

    def _play(self, first: int, last: int) -> int:
        """Play episodes `first` up to `last` of a chunk; returns the one that has to wait for the learner."""
        learner = self.learner
        if learner.core is not None and not self.own_gamma:
            return self.core.play(learner.core, first, last)
        learning = Learning(learner.rates, learner.state, learner.statistics, learner.window)
        return play_chunk(self.playing, self.watching, learning, first, last)

    def _check_totals(self) -> None:
        """Raise where the episode that was played last has other totals than were declared."""
        try:
            check_sums(self.metering.declared, self.metering.row)
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
        loaded = rebuild(state, part(arrays, "meter"))
        check_meter(loaded)
        adopt(state, loaded)
        copy_into(self.metering.rows[:written], arrays["rows"])
        states, seconds = stream_states(self.streams), np.array(self.seconds)
        copy_into(states, arrays["streams"])
        copy_into(seconds, arrays["seconds"])
        set_stream_states(self.streams, states)
        self.seconds = float(seconds)

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
        played = self.learner.episode - self.first
        compare_policies(self.metering, self.before, self.learner.state.pi)
        return Run(
            **self.rows(slice(0, rows)),
            policy=self.learner.policy,
            learner=self.learner,
            optimum=float(units.reward.total_outside(optimum, H)),
            seed=self.seed,
            track=self.track,
            seconds=self.seconds,
            origin=self.origin,
            played=played,
            sums=kept_sums(self.metering, played),
        )


def _player(problem: Problem, seed: int, first: int) -> Callable[[Learner], Episode]:
    """Plays the episodes of a training from its first on, one by one."""
    streams = streams_at(problem, seed, first)
    return lambda learner: play(problem, learner.state.pi, streams, learner.episode)
