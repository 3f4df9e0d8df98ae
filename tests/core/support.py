"""The core bound to the arrays of a learner or a run, as Python's own rooms bind it."""

from __future__ import annotations

import itertools
from types import SimpleNamespace
from typing import Any

import numpy as np

import safespot as ss
from safespot import _core
from safespot.arrays import Bool, InsideEpisode
from safespot.spot.visits import empty_statistics, grow_statistics
from safespot.spot.window import grow_window, ring_has_room
from safespot.training.core_loop import from_rows, to_rows
from safespot.training.learn import Training
from tests.support.episodes import full_mask, random_episode

Array = Any
Record = SimpleNamespace


class Bound:
    """A copy of a learner's records, with the core in place of its step."""

    def __init__(self, learner: ss.Spot, level: str = "", *, dense: bool = True) -> None:
        f = learner.interface
        self.learner, self.level = learner, level
        self.state = copied(learner.state)
        self.statistics = empty_statistics(f.H, f.S, f.A, f.m, dense=dense)
        self.window = copied(learner.window)
        self.bind()
        self.core.derive()

    def bind(self) -> None:
        statistics, window = _core.Statistics(self.statistics), _core.Window(self.window)
        self.core = _core.Spot(self.learner.rates, self.state, statistics, window, self.level)

    def observe(self, episode: ss.Episode) -> int:
        inside = self.learner.check(episode).inside
        while not self.core.has_room:
            if ring_has_room(self.window):
                self.statistics = grow_statistics(self.statistics)
            else:
                self.window = grow_window(self.window)
            self.bind()
        return self.core.observe(inside)

    def arrays(self) -> dict[str, Array]:
        """All that a step changes, by name; not the buffers."""
        records = (self.state, self.statistics, self.statistics.successors, self.window)
        names = itertools.chain.from_iterable(record._asdict().items() for record in records)
        return {
            name: array
            for name, array in names
            if isinstance(array, np.ndarray) and not name.startswith("flat_")
        }


class CoreTraining(Training):
    """A run whose chunks the core plays."""

    level = ""

    def chunk(self, n: int) -> None:
        self.prepare(n)
        learner, metering = self.learner, self.metering
        p, truth, state = self.playing, self.playing.truth, metering.state
        done = 0
        while done < n:
            learner.make_room()
            rows = meter_rows(state.means)
            statistics, window = _core.Statistics(learner.statistics), _core.Window(learner.window)
            spot = _core.Spot(learner.rates, learner.state, statistics, window, self.level)
            meter = _core.Meter(metering.declared, Record(means=rows, reward=state.reward))
            watching = Record(tracker=self.tracker, record=self.record, every=self.track != "grid")
            loop = _core.Loop(
                _core.Truth(truth.model, truth.laws), truth, p, watching, metering, meter, spot
            )
            done = loop.play(done, n)
            from_rows(rows, state.means)
            learner.settle()
            if metering.checked:
                self._check_totals()

    def prepare(self, n: int) -> None:
        from safespot.model.simulation import draw_noise

        first = self.learner.episode
        draw_noise(self.problem, self.streams, n, self.playing.noise)
        drift = self.problem.signals.drift
        if drift is not None:
            self.playing.progress[:n] = [drift.progress(first + j) for j in range(n)]
            self.playing.optima[:n] = self.optima(np.arange(first, first + n))


def meter_rows(means: Any) -> Array:
    """Return the core's rows of a meter's sequences."""
    rows = np.zeros((len(means.total), _core.ChangingMeans.width))
    to_rows(means, rows)
    return rows


def copied(record: Any) -> Any:
    """Return a record like another one, with copies of its arrays."""
    if isinstance(record, np.ndarray):
        return record.copy()
    return record._make(map(copied, record)) if hasattr(record, "_make") else record


def wild_episodes(learner: ss.Spot, n: int, seed: int, **options: Any) -> list[ss.Episode]:
    """Episodes without a model behind them, from the learner's start, with steps without samples."""
    f, rng = learner.interface, np.random.default_rng(seed)
    mask: Bool = full_mask(f.mask, f.H, f.S, f.A)
    options = {"missing": 0.2, **options}
    return [random_episode(rng, mask, f.m, start=f.start, **options) for _ in range(n)]


def inside(episode: ss.Episode, A: int) -> InsideEpisode:
    """Return an episode in [0,1] as the core takes it."""
    e = episode
    return InsideEpisode(
        np.array(e.states), e.states[:-1] * A + e.actions, *map(np.array, (e.rewards, e.constraints, e.thresholds))
    )  # fmt: skip
