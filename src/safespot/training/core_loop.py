"""The loop of training in the compiled core, for learners that bring a step of its kind (`Learner.core`)."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np

from .. import _core
from ..arrays import Float
from ..evidence.sequences import ChangingMeans
from .loop import Playing, Watching

PARTS = {"drift": slice(2, 10), "product": slice(10, 18), "power": slice(18, 26)}


class CoreLoop:
    """Episodes of one run, bound to its arrays; it is bound again where the learner's have changed."""

    def __init__(self, playing: Playing, watching: Watching) -> None:
        self.playing, self.watching, self.metering = playing, watching, watching.metering
        truth, state = playing.truth, self.metering.state
        self.truth = _core.Truth(truth.model, truth.laws)
        self.rows = np.zeros((len(state.means.total), _core.ChangingMeans.width))
        record = SimpleNamespace(means=self.rows, reward=state.reward)
        self.meter = _core.Meter(self.metering.declared, record)
        self.spot: _core.Spot | None = None
        self.loop: _core.Loop | None = None

    def play(self, spot: _core.Spot, first: int, last: int) -> int:
        """Play a chunk's episodes `first` up to `last`; see `loop.play_chunk`."""
        if self.loop is None or spot is not self.spot:
            self.spot = spot
            self.loop = _core.Loop(
                self.truth, self.playing.truth, self.playing, self.watching, self.metering, self.meter, spot
            )  # fmt: skip
        means = self.metering.state.means
        to_rows(means, self.rows)
        done = self.loop.play(first, last)
        from_rows(self.rows, means)
        return done


def to_rows(means: ChangingMeans, rows: Float) -> None:
    """Write a meter's sequences as the core has them, a row ``[26]`` each."""
    rows[:, 0], rows[:, 1] = means.counted[0], means.total
    for name, part in PARTS.items():
        rows[:, part] = getattr(means, name)


def from_rows(rows: Float, means: Any) -> None:
    """Write the core's rows back."""
    means.counted[0], means.total[:] = rows[0, 0], rows[:, 1]
    for name, part in PARTS.items():
        getattr(means, name)[:] = rows[:, part]
