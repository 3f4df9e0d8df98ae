"""Runs in a Gymnasium environment, of which nothing is known but what it shows.

    while episodes remain:
        play the learner's policy   -> an episode
        observe it

No truth, so no exact values: the run holds what was realized. In a `ProblemEnv` the episodes are those of
`learn` with the same seed, and so the learner becomes the same, bit for bit.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from ..arrays import Episode, Float, frozen
from ..errors import InvalidEpisode, InvalidOption
from ..evidence.meter import read_meter
from ..gym.black_box import BlackBox, as_box
from ..learners.learner import Learner
from ..model.simulation import streams
from ..signals.interface import make_interface
from ..signals.totals import episode_sums
from ..syscalls import InterruptsDeferred
from .learning import CHUNK_SECONDS, Trainable, check_fit
from .metering import compare_policies, kept_sums, make_metering, shown
from .metrics import add_shortfalls
from .origin import origin_of
from .run import Run


class EnvTraining(Trainable):
    """A run in an environment: episodes played in the box, one by one, and observed.

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
        super().__init__(learner, episodes, seed, record)
        first, self.box, self.observe = self.first, box, observe
        self.env_seed: int | None = self.seed if first == 1 else _another(self.seed, first)
        self.rng = streams(self.env_seed).actions
        self.episodes = played = list[Episode]()  # an environment cannot be asked again
        self.origin = origin_of(learner, lambda: _player(played, first))
        self.table: list[Float] = []  # of recorded episodes, [1+7m] each: see `rows`
        known = learner.options.thresholds is not None
        self.limits = np.where(known, learner.thresholds, np.nan)  # NaN: by each episode's samples
        self.senses = np.sign(learner.interface.units.constraints.scale)  # 1: at least
        self.sums = np.zeros((2, learner.interface.m))  # shortfalls, weak and strong
        self.metering = make_metering(
            self.meter, len(self.recorded), checked=False, sums=self.remaining
        )  # the box and the learner do
        self.before = learner.state.pi.copy()  # the policy that played the last episode

    def advance(self, most: int | None = None) -> int:
        """Play for about `CHUNK_SECONDS`, at most `most` episodes; return their number."""
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
        compare_policies(self.metering, self.before, learner.state.pi)
        self.before[:] = learner.state.pi
        uniforms = self.rng.random(learner.interface.H)
        try:
            played = self.box.play(
                learner.state.pi, uniforms, self.env_seed
            )  # read, not kept: no copy
            with InterruptsDeferred():
                self._learn(played, t)
        except InvalidEpisode as exc:
            learner.lifetime.dropped += int(learner.episode == t)
            raise InvalidEpisode(f"episode {t}, {exc}") from exc.__cause__

    def _learn(self, played: Episode, t: int) -> None:
        """Learn from episode t, and count it in the run; it says how many were dropped before it."""
        if self.learner.lifetime.dropped:
            played = replace(played, rejected=played.rejected + self.learner.lifetime.dropped)
        row = self._row(played) if t == self.recorded[len(self.table)] else None
        try:
            self.observe(played)
        finally:
            if self.learner.episode > t:  # also where a plan fails after it
                self._count(played, row)

    def _count(self, played: Episode, row: Float | None) -> None:
        """Count an episode that was learned from; `row`: what there is to record of it."""
        self.learner.lifetime.dropped = 0
        self.env_seed = None  # the environment goes on with the noise that it has
        self.episodes.append(played)
        add_shortfalls(played.constraints, played.thresholds, self.limits, self.senses, self.sums)
        metering, inside = self.metering, self.learner.interface.check(played)
        sums = episode_sums(inside)
        if len(self.episodes) <= len(metering.sums.totals):
            metering.sums.totals[len(self.episodes) - 1] = sums
        self.meter.count_sums(sums[None])
        self.meter.doubts.note(played)
        if row is not None:
            read_meter(metering.state, metering.levels, metering.rows[len(self.table)])
            self.table.append(np.concatenate([row, *self.sums]))

    def _row(self, played: Episode) -> Float:
        """Return the numbers to record of an episode before it is learned from, but for the shortfalls."""
        learner = self.learner
        sums = played.rewards.sum(keepdims=True), played.constraints.sum(axis=0)
        beliefs = learner.multipliers, learner.thresholds, *learner.threshold_bounds
        return np.concatenate([*sums, *beliefs])

    def rows(self, which: slice) -> dict[str, Any]:
        """Return the fields of a `Run` that have a row per recorded episode, with the rows `which`."""
        m, records = self.learner.interface.m, self.table[which]
        n = len(records)
        table = np.reshape(records, (n, 1 + 7 * m))
        constraints, multipliers, thresholds, lower, upper, weak, strong = (
            frozen(part.copy()) for part in np.moveaxis(table[:, 1:].reshape(n, 7, m), 1, 0)
        )
        first = which.start or 0
        episodes = frozen(self.recorded[first : first + n].copy())
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
        """Return the run so far; what only the truth could tell is missing."""
        compare_policies(self.metering, self.before, self.learner.state.pi)
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
            sums=kept_sums(self.metering, len(self.episodes)),
        )


def fit_box(env: Any, learner: Learner, declarations: dict[str, Any]) -> BlackBox:
    """Return the environment as a box that fits the learner."""
    mine = learner.interface
    if not isinstance(env, BlackBox):
        own = {"horizon": mine.H, "senses": mine.units.senses}
        ranges = {**mine.units.ranges, **(declarations.get("ranges") or {})}
        declarations = {**own, **declarations, "ranges": ranges}
    box = as_box(env, declarations)
    check_fit(learner, make_interface(**box.interface), "environment")
    if not box.shows_thresholds and learner.options.thresholds is None:
        raise InvalidOption(
            "the environment shows no thresholds, so they cannot be learned. Declare the threshold of the limits, or "
            "say where hints are: signals={'thresholds': …}, a key of info or a function of a Step."
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
    """Return a seed for a learner that goes on at `episode`."""
    return int(np.random.SeedSequence(seed, spawn_key=(episode,)).generate_state(1)[0])
