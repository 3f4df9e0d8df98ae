"""`learn_env`: a learner in a Gymnasium environment, of which nothing is known but what it shows.

    while episodes remain:
        play the learner's policy   -> an episode
        observe it

No truth, so no exact values: the run holds what was realized. In a `ProblemEnv` the episodes are those of
`learn` with the same seed, and so the learner becomes the same, bit for bit.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from ..arrays import Episode, Float, Int, as_count, frozen
from ..errors import InvalidEpisode, InvalidOption
from ..evidence.interface import make_interface
from ..evidence.meter import meter_episode, read_meter
from ..gym.black_box import BlackBox, as_box
from ..learners.learner import Learner, OnlineLearner
from ..model.simulation import streams
from ..syscalls import InterruptsDeferred
from .learn import CHUNK_SECONDS, carry_on, check_episodes
from .metering import make_metering, shown
from .metrics import add_shortfalls, grid
from .origin import origin_of
from .recorded import Callback
from .run import Run


def learn_env(
    env: Any,
    learner: OnlineLearner,
    episodes: int | None = None,
    seed: int = 0,
    record: str | int = "log",
    progress: bool = False,
    callback: Callback | None = None,
    **declarations: Any,
) -> Run:
    """Let `learner` play an environment and learn from it.

    Args:
        env: a `BlackBox`, or an environment with the declarations of one. Horizon, senses and ranges are the
            learner's where they are not declared.
        learner: made with ``**env_interface(env, …)``, or a durable one; goes on from where it is, and is changed.
        episodes: how many; by default what remains of the learner's T.
        seed: of the first reset and of the actions. A learner that goes on draws new noise.
        record: "log" (32 episodes a decade), "all", or every k-th episode.
        progress: show a line on standard error, or a bar in a notebook.
        callback: called at every recorded episode with its `Recorded`; where it returns False, the run ends there.
        **declarations: of a `BlackBox`, where `env` is none.

    The run's `values` and `constraint_values` are the sums of the recorded episodes themselves, not
    expectations. `regret` is None, since the optimum is unknown, and `optimum` NaN. `violations` add up what
    each episode's own threshold signals ask for (the known thresholds, where the learner knows them) and its
    constraint signals fall short of; a step without a sample counts as the episode's other steps do.

    An environment that fails, or shows what cannot be, is an `InvalidEpisode` that names the episode, the step and what
    it was asked for. It leaves the learner after its last whole episode, as a KeyboardInterrupt does; the error's `run`
    holds the run so far, and the same call goes on. The episode that failed is then not counted: what is proven
    afterwards holds only if nothing that happened in it was the reason.

    Examples:
        >>> import safespot as ss
        >>> env = ss.gym.ProblemEnv("machine")
        >>> learner = ss.Spot(**ss.env_interface(env), episodes=500, slack=1.0)
        >>> run = ss.learn_env(env, learner, episodes=20)
        >>> print(learner.episode, run.values[-1], run.constraint_values[-1])
        21 10.0 [4.]

    """
    plain = learner.learner if isinstance(learner, OnlineLearner) else None
    if not isinstance(plain, Learner):
        raise InvalidOption(f"learn_env takes a learner, got {type(learner).__name__}.")
    box = _fitting(env, plain, declarations)
    make = functools.partial(EnvTraining, box, plain, learner.observe, episodes, seed, record)
    return carry_on(make, progress, callback)


class EnvTraining:
    """A run in the making: episodes played in the box, one by one, and observed.

    `observe` is the learner's, or that of the durable one around it.
    """

    def __init__(
        self,
        box: BlackBox,
        learner: Learner,
        observe: Callable[[Episode], None],
        episodes: int | None,
        seed: int,
        record: str | int,
    ) -> None:
        total, first = check_episodes(learner, episodes), learner.episode
        self.box, self.learner, self.observe = box, learner, observe
        self.seed = as_count("seed", seed, least=0, most=None, error=InvalidOption)
        self.env_seed: int | None = self.seed if first == 1 else _another(self.seed, first)
        self.rng = streams(self.env_seed).actions
        self.first, self.last = first, first + total - 1
        self.seconds = 0.0
        self.wanted = grid(record, first, self.last)
        self.episodes = kept = list[Episode]()  # an environment cannot be asked again
        self.origin = origin_of(learner, lambda: _player(kept, first))
        self.table: list[Float] = []  # of recorded episodes, [1+7m] each: see `rows`
        known = learner.options.thresholds is not None
        self.asked = np.where(known, learner.thresholds, np.nan)  # NaN: by each episode's samples
        self.senses = np.sign(learner.interface.units.constraints.scale)  # 1: at least
        self.sums = np.zeros((2, learner.interface.m))  # shortfalls, weak and strong
        self.meter = learner.make_meter(
            box.constraint_totals, None if known else box.threshold_totals
        )
        self.metering = make_metering(
            self.meter, len(self.wanted), checked=False
        )  # the box and the learner do

    @property
    def remaining(self) -> int:
        """How many episodes are still to be played."""
        return self.last - self.learner.episode + 1

    @property
    def recorded(self) -> Int:
        """The episodes to record, in order."""
        return self.wanted

    def advance(self, most: int | None = None) -> int:
        """Play for about `CHUNK_SECONDS`, at most so many episodes; returns how many."""
        began, before = time.perf_counter(), self.seconds
        first = self.learner.episode
        last = self.last if most is None else min(self.last, first + most - 1)
        for t in range(first, last + 1):
            self.episode(t)
            self.seconds = before + time.perf_counter() - began
            if self.seconds - before > CHUNK_SECONDS:
                break
        return self.learner.episode - first

    def episode(self, t: int) -> None:
        """Play episode t and learn from it; where it cannot be, nothing has happened."""
        learner = self.learner
        uniforms = self.rng.random(learner.interface.H)
        try:
            played = self.box.play(
                learner.state.pi, uniforms, self.env_seed
            )  # read, not kept: no copy
            with InterruptsDeferred():
                self._learn(played, t)
        except InvalidEpisode as problem:
            raise InvalidEpisode(f"episode {t}, {problem}") from problem.__cause__

    def _learn(self, played: Episode, t: int) -> None:
        """Learn from episode t, and count it in the run."""
        row = self._row(played) if t == self.wanted[len(self.table)] else None
        try:
            self.observe(played)
        finally:
            if self.learner.episode > t:  # also where a plan fails after it
                self._count(played, row)

    def _count(self, played: Episode, row: Float | None) -> None:
        """Count an episode that was learned from; `row`: what there is to record of it."""
        self.env_seed = None  # the environment goes on with the noise that it has
        self.episodes.append(played)
        add_shortfalls(played.constraints, played.thresholds, self.asked, self.senses, self.sums)
        metering, inside = self.metering, self.learner.interface.check(played)
        meter_episode(metering.declared, metering.state, inside, metering.x)
        self.meter.doubts.note(played)
        if row is not None:
            read_meter(metering.state, metering.levels, metering.rows[len(self.table)])
            self.table.append(np.concatenate([row, *self.sums]))

    def _row(self, played: Episode) -> Float:
        """What there is to record of an episode before it is learned from."""
        learner = self.learner
        sums = played.rewards.sum(keepdims=True), played.constraints.sum(axis=0)
        beliefs = learner.multipliers, learner.thresholds, *learner.threshold_bounds
        return np.concatenate([*sums, *beliefs])

    def rows(self, which: slice) -> dict[str, Any]:
        """What was recorded: the fields of a `Run` that have a row per recorded episode."""
        m, kept = self.learner.interface.m, self.table[which]
        n = len(kept)
        table = np.reshape(kept, (n, 1 + 7 * m))
        constraints, multipliers, thresholds, lower, upper, weak, strong = (
            frozen(part.copy()) for part in np.moveaxis(table[:, 1:].reshape(n, 7, m), 1, 0)
        )
        first = which.start or 0
        episodes = frozen(self.wanted[first : first + n].copy())
        return {
            "episodes": episodes,
            "values": frozen(table[:, 0].copy()),
            "constraint_values": constraints,
            "multipliers": multipliers,
            "thresholds": thresholds,
            "threshold_bounds": (lower, upper),
            "regret": None,
            "strong_regret": None,
            "violations": weak,
            "strong_violations": strong,
            "limits": None,
            "evidence": shown(self.metering, self.meter, episodes - self.first + 1, first),
        }

    def result(self) -> Run:
        """The run so far; what only the truth could tell is missing."""
        return Run(
            **self.rows(slice(0, len(self.table))),
            policy=self.learner.policy,
            learner=self.learner,
            optimum=float("nan"),
            seed=self.seed,
            track="realized",
            seconds=self.seconds,
            origin=self.origin,
            played=len(self.episodes),
            discretizer=self.box.discretizer,
        )


def _fitting(env: Any, learner: Learner, declarations: dict[str, Any]) -> BlackBox:
    """The environment as a box that fits the learner."""
    mine = learner.interface
    if not isinstance(env, BlackBox):
        said = {
            "horizon": mine.H,
            "senses": mine.units.senses,
            "reward_range": mine.units.reward_range,
            "constraint_ranges": mine.units.constraint_ranges,
        }
        declarations = said | declarations
    box = as_box(env, declarations)
    theirs = make_interface(**box.interface)
    if (mine.S, mine.A, mine.H, mine.m) != (theirs.S, theirs.A, theirs.H, theirs.m):
        raise InvalidOption(
            f"the learner is for S={mine.S}, A={mine.A}, H={mine.H}, m={mine.m}; the environment has "
            f"S={theirs.S}, A={theirs.A}, H={theirs.H}, m={theirs.m}. Make it with "
            "**env_interface(env, …) and the same declarations."
        )
    if mine.units != theirs.units:
        raise InvalidOption("the learner has other senses or ranges than the environment.")
    if (mine.mask & ~theirs.mask).any():
        raise InvalidOption("the learner may take actions that the environment does not admit.")
    if not box.shows_thresholds and learner.options.thresholds is None:
        raise InvalidOption(
            "the environment shows no thresholds, so they cannot be learned. Give thresholds= to the learner, or say "
            "where they are: thresholds=, a key of info or a function of a Step."
        )
    if box.shows_totals and learner.options.independent_hints:
        raise InvalidOption(
            "the environment shows its hints as info['threshold_total'], whose shares have one noise in common: make "
            "the learner without independent_hints."
        )
    return box


def _player(episodes: list[Episode], first: int) -> Callable[[Learner], Episode]:
    return lambda learner: episodes[learner.episode - first]


def _another(seed: int, episode: int) -> int:
    """A seed for a learner that goes on at `episode`."""
    return int(np.random.SeedSequence(seed, spawn_key=(episode,)).generate_state(1)[0])
