"""How a step learns the limits: dispatched on the type of the record that holds the threshold samples.

The paper's is `Window`. Another one is registered with its two kernels, as `learners.threshold_totals.HintTotals` is;
they are chosen when the loop is compiled, so that the step stays the paper's, line by line.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..arrays import Float, InsideEpisode
from ..kernels.jit import inlined, overload_inlined
from ..kernels.sources import chosen_by
from .optimism import Radii, threshold_bounds
from .visits import Statistics, pool_has_room
from .window import Window, add_to_window, ring_has_room

_LEARN: dict[type, Callable] = {}
_ROOM: dict[type, Callable] = {}


def register(window: type, learn: Callable, room: Callable) -> None:
    """Say how a record of this type takes an episode, and when it has room for one; both inlined kernels."""
    _LEARN[window], _ROOM[window] = learn, room
    chosen_by(window, learn, room)


def learn_thresholds(
    window: Any, radii: Radii, episode: InsideEpisode, lower: Float, upper: Float
) -> None:
    """The episode's threshold samples join, and the bounds ``[m]`` of the thresholds follow."""
    _LEARN[type(window)](window, radii, episode, lower, upper)


def window_has_room(window: Any) -> bool:
    """Whether one more episode's samples fit."""
    return bool(_ROOM[type(window)](window))


@overload_inlined(learn_thresholds)
def _learn_thresholds(window: Any, radii: Any, episode: Any, lower: Any, upper: Any) -> Any:
    learn = _LEARN[window.instance_class]
    return lambda window, radii, episode, lower, upper: learn(window, radii, episode, lower, upper)


@overload_inlined(window_has_room)
def _window_has_room(window: Any) -> Any:
    room = _ROOM[window.instance_class]
    return lambda window: room(window)


@inlined
def has_room(statistics: Statistics, window: Any) -> bool:
    """Whether one more episode fits, whatever happens in it; if not, grow first."""
    return pool_has_room(statistics) and window_has_room(window)


@inlined
def learn_from_window(
    window: Window, radii: Radii, episode: InsideEpisode, lower: Float, upper: Float
) -> None:
    """The paper: the growing window, and Theorem 1."""
    add_to_window(window, episode.pairs, episode.thresholds)
    threshold_bounds(radii, window, lower, upper)


register(Window, learn_from_window, ring_has_room)
