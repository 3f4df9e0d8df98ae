"""Who looks at every episode of the compiled loop beside the metrics: nobody, or an audit (`lemma_audit`).

An observer is a record, and its two kernels are registered for its type: what it does before an episode is played, and
what it does when the learner has made its step. They are chosen when the loop is compiled.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from ..kernels.jit import inlined, overload_inlined
from ..kernels.sources import chosen_by

_BEFORE: dict[type, Callable] = {}
_AFTER: dict[type, Callable] = {}


class Nobody(NamedTuple):
    """No observer."""


def register(observer: type, before: Callable, after: Callable) -> None:
    """Compile what an observer of this type does before and after an episode."""
    _BEFORE[observer], _AFTER[observer] = inlined(before), inlined(after)
    chosen_by(observer, before, after)


def look_before(observer: Any, rates: Any, policy: Any, window: Any, tracker: Any) -> None:
    """Before an episode is played; `policy` ``[H*S*A]`` is the one that is."""
    _BEFORE[type(observer)](observer, rates, policy, window, tracker)


def look_after(
    observer: Any,
    truth: Any,
    rates: Any,
    state: Any,
    statistics: Any,
    window: Any,
    played: Any,
    tracker: Any,
    row: Any,
    recorded: Any,
) -> None:
    """After the learner's step; `recorded`: the metrics have written the row of this number."""
    _AFTER[type(observer)](
        observer, truth, rates, state, statistics, window, played, tracker, row, recorded
    )


@overload_inlined(look_before)
def _look_before(observer: Any, rates: Any, policy: Any, window: Any, tracker: Any) -> Any:
    if observer.instance_class is Nobody:  # so that nothing is compiled for it
        return lambda observer, rates, policy, window, tracker: None
    look = _BEFORE[observer.instance_class]
    return lambda observer, rates, policy, window, tracker: look(
        observer, rates, policy, window, tracker
    )


@overload_inlined(look_after)
def _look_after(
    observer: Any,
    truth: Any,
    rates: Any,
    state: Any,
    statistics: Any,
    window: Any,
    played: Any,
    tracker: Any,
    row: Any,
    recorded: Any,
) -> Any:
    look = _AFTER[observer.instance_class]
    if observer.instance_class is Nobody:
        return (
            lambda observer, truth, rates, state, statistics, window, played, tracker, row, recorded: (
                None
            )
        )
    return (
        lambda observer, truth, rates, state, statistics, window, played, tracker, row, recorded: (
            look(observer, truth, rates, state, statistics, window, played, tracker, row, recorded)
        )
    )


def _nothing_before(observer: Any, rates: Any, policy: Any, window: Any, tracker: Any) -> None:
    pass


def _nothing_after(
    observer: Any,
    truth: Any,
    rates: Any,
    state: Any,
    statistics: Any,
    window: Any,
    played: Any,
    tracker: Any,
    row: Any,
    recorded: Any,
) -> None:
    pass


register(Nobody, _nothing_before, _nothing_after)
