"""The registration of a learner's step with the compiled loop of training.

A learner that moves in every episode brings a kernel along, registered for the type of its rates:

    @step_for(MyRates)
    def my_step(rates, state, statistics, window, episode):
        ...                    # what the episode changes, and the data that it adds
        return MOVED           # the policy has changed; STAYED; or DUE: `settle` has something to do

`learning_step` is that kernel, chosen when the loop is compiled (Numba's `overload` on the type of the rates), so that
the loop has no branch for it and compiled code can be kept on the disk. The same kernel serves `observe`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from ..arrays import InsideEpisode
from ..kernels.jit import inlined, no_refcount, overload_inlined
from ..kernels.sources import chosen_by
from ..spot.visits import Statistics
from ..spot.window import Window

F = TypeVar("F", bound=Callable)

STAYED, MOVED, DUE = 0, 1, 2  # what a step answers; False and True will do for the first two
_STEPS: dict[type, Callable] = {}


def step_for(rates: type) -> Callable[[F], F]:
    """Compile a function as the step of all learners whose `rates` have this type."""

    def compile_it(function: F) -> F:
        compiled = inlined(function)
        register(rates, compiled)
        return compiled

    return compile_it


def register(rates: type, step: Callable) -> None:
    """Say that an inlined kernel is the step of all learners whose `rates` have this type."""
    _STEPS[rates] = step
    chosen_by(rates, step)


def learning_step(
    rates: Any, state: Any, statistics: Statistics, window: Window, episode: InsideEpisode
) -> int:
    """Apply the step of the learner with these rates to one more episode; return its answer."""
    answer: int = _STEPS[type(rates)](rates, state, statistics, window, episode)
    return answer


@overload_inlined(learning_step)
def _learning_step(rates: Any, state: Any, statistics: Any, window: Any, episode: Any) -> Any:
    step = _STEPS[rates.instance_class]
    return lambda rates, state, statistics, window, episode: step(
        rates, state, statistics, window, episode
    )


@no_refcount
def observe_episode(
    rates: Any, state: Any, statistics: Statistics, window: Window, episode: InsideEpisode
) -> int:
    """Call `learning_step` for an episode that comes alone."""
    return learning_step(rates, state, statistics, window, episode)
