"""The beginning of a run, from which its episodes can be repeated."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from numpy.typing import NDArray

from ..arrays import Episode
from ..learners.learner import Learner


@dataclass(frozen=True, eq=False)
class Origin:
    """The beginning of a run, from which it can be repeated: the same policies and episodes, bit for bit."""

    first: int  # the number of its first episode
    start: dict[str, NDArray] | None  # the learner's arrays before it; None: the learner was new
    player: Callable[
        [], Callable[[Learner], Episode]
    ]  # from the first episode on, each played by a learner


def origin_of(learner: Learner, player: Callable[[], Callable[[Learner], Episode]]) -> Origin:
    """Return the origin of a run that begins now."""
    start = None
    if learner.episode > 1:
        start = {name: array.copy() for name, array in learner.arrays().items()}
    return Origin(learner.episode, start, player)
