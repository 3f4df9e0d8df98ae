"""A step as an environment shows it, and the signals that are found in it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..arrays import Float, Int, unmasked
from ..errors import InvalidEpisode, nearest

SIGNALS = ("rewards", "constraints", "thresholds")
TOTAL = "threshold_total"  # of info: a hint for the whole episode


class Step(NamedTuple):
    """A step as the environment shows it: the argument of functions for rewards and signals.

    Examples:
        >>> import safespot as ss
        >>> def speeding(step):
        ...     return float(step.info["speed"] > 50)
        >>> step = ss.gym.Step(state=0, action=1, next_state=3, reward=1.0, ended=False, info={"speed": 62})
        >>> speeding(step)  # as a BlackBox with constraints=speeding calls it
        1.0

    """

    state: Any  # the observation
    action: Any  # as the environment takes it
    next_state: Any
    reward: float
    ended: bool  # terminated, not truncated
    info: Mapping[str, Any]
    truncated: bool = False
    cost: Any = None  # the third of six elements, where there are six


class Shown(NamedTuple):
    """An episode as an environment shows it: rewards, m constraints and m thresholds (NaN: no sample), a row each."""

    states: Int  # [H+1]
    actions: Int  # [H]
    signals: Float  # [1+2m, H]
    steps: int  # that were played; the rest is padded
    hint_total: bool  # whether the thresholds are the shares of one hint


Found = Callable[[Step], Any]
Source = str | Found | None


def finder(source: Source) -> Found:
    """Return the function that finds a signal in a step: of a key of `info`, a function already, or the cost."""
    if source is None:
        return lambda step: step.cost
    if callable(source):
        return source

    def look(step: Step) -> Any:
        try:
            return step.info[source]
        except KeyError:
            hint = nearest(source, list(step.info)) or "."
            raise InvalidEpisode(
                f"info has no {source!r}{hint} It has {', '.join(map(repr, step.info)) or 'nothing'}."
            ) from None

    return look


def signals_of(by_kind: Sequence[Any], n: int, m: int) -> Float:
    """Return the rewards, constraints and thresholds of n steps, ``[1+2m, n]``; None is NaN."""
    try:
        rewards, *others = by_kind
        if m > 1:
            others = [row for values in others for row in zip(*values, strict=True)]
        return numbers([rewards, *others], (1 + 2 * m, n)).astype(np.float64, copy=False)
    except (TypeError, ValueError):  # another form, or samples are missing, or something is wrong
        parts = zip(SIGNALS, by_kind, (1, m, m), strict=True)
        return np.hstack([_one_by_one(*part) for part in parts]).T.copy()


def _one_by_one(key: str, values: list[Any], size: int) -> Float:
    """Return the signals of one kind that the steps showed, ``[n, size]``."""
    out = np.full((len(values), size), np.nan)
    for h, value in enumerate(values):
        if value is not None:
            try:
                out[h] = numbers(value, (size,))
            except (TypeError, ValueError):
                raise at(h, key, f"expected {size} number(s), got {value!r}.") from None
    return out


def numbers(value: Any, shape: tuple[int, ...]) -> NDArray:
    """Return real numbers in this shape; raise TypeError for texts and complex numbers."""
    array = unmasked(value)
    if array.dtype.kind not in "biuf":
        raise TypeError
    return array.reshape(shape)


def at(step: int, request: str, words: str) -> InvalidEpisode:
    """Return the error for a failure at a step, with the request to the environment that failed."""
    return InvalidEpisode(f"step {step}, {request}: {words}")
