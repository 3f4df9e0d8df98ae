"""What a learner may know of a problem, and the border that every observed episode crosses.

Nothing passes into a kernel unchecked: indices are in range, signals are in their declared ranges, and
everything is turned into inside units (sense ``>=``, [0,1]) here, and back again on the way out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ..arrays import (
    Bool,
    Episode,
    Float,
    InsideEpisode,
    as_count,
    first,
    frozen,
    place,
    unmasked,
)
from ..errors import InvalidEpisode, InvalidOption
from ..names import UNNAMED, Names, make_names
from ..units import ROUNDING, Affine, Units, units_of_interface


@dataclass(frozen=True, eq=False)
class Interface:
    """Sizes, start, admissible actions, senses and ranges of signals, names, and whether steps are alike."""

    S: int
    A: int
    H: int
    m: int
    start: int | None  # None: a distribution that is learned (D5)
    mask: Bool  # [H, S, A]
    units: Units
    stationary: bool = False  # p, r and g do not depend on the step
    names: Names = UNNAMED  # what people call all that

    @property
    def arguments(self) -> dict[str, Any]:
        """What it was made with, but for the mask; JSON can hold it."""
        return {
            "states": self.S, "actions": self.A, "horizon": self.H, "constraints": self.m,
            "start": self.start, "senses": self.units.senses, "ranges": self.units.ranges,
            "stationary": self.stationary, **self.names.arguments,
        }  # fmt: skip

    def check(self, episode: Episode) -> InsideEpisode:
        """Check an episode and bring it inside; an invalid one is an `InvalidEpisode`."""
        if not isinstance(episode, Episode):
            raise InvalidEpisode(f"observe takes an Episode, got {type(episode).__name__}.")
        H, m = episode.constraints.shape
        if (H, m) != (self.H, self.m):
            raise InvalidEpisode(
                f"the episode has {H} steps and {m} constraints; this learner has {self.H} steps and "
                f"{self.m} constraints."
            )
        for name, array, count in (
            ("state", episode.states, self.S),
            ("action", episode.actions, self.A),
        ):
            if (array >= count).any():
                step = int((array >= count).argmax())
                raise InvalidEpisode(
                    f"{name} {array[step]} at step {step} is out of range; expected 0 to {count - 1}."
                )
        states, steps = episode.states, np.arange(H)
        allowed = self.mask[steps, states[:-1], episode.actions]
        if not allowed.all():
            step = int(allowed.argmin())
            raise InvalidEpisode(
                f"action {episode.actions[step]} in state {states[step]} at step {step} is not "
                "admissible."
            )
        if self.start is not None and states[0] != self.start:
            raise InvalidEpisode(
                f"the episode starts in state {states[0]}; this learner expects state {self.start}. "
                "Make the learner with start=None to learn the start distribution."
            )
        return InsideEpisode(
            states=states,
            pairs=states[:-1] * self.A + episode.actions,
            rewards=signals_inside("reward", self.units.reward, episode.rewards),
            constraints=signals_inside("constraint", self.units.constraints, episode.constraints),
            thresholds=signals_inside("threshold", self.units.constraints, episode.thresholds),
        )


def make_interface(
    states: int,
    actions: int,
    horizon: int,
    constraints: int,
    start: int | None = 0,
    action_mask: ArrayLike | None = None,
    senses: str | Sequence[str] = ">=",
    ranges: Mapping[str, Any] | None = None,
    stationary: bool = False,
    state_names: Sequence[str] | None = None,
    action_names: Sequence[str] | None = None,
    limit_names: Sequence[str] | None = None,
    units: Mapping[str, Any] | None = None,
) -> Interface:
    """Check a learner's first arguments."""
    if not isinstance(stationary, bool | np.bool_):
        raise InvalidOption(
            f"stationary must be True or False: whether transitions, rewards and constraints are the same at every "
            f"step; got {stationary!r}."
        )
    S, A, H, m = (
        as_count(name, value, least=1, error=InvalidOption)
        for name, value in (
            ("states", states), ("actions", actions), ("horizon", horizon), ("constraints", constraints)
        )
    )  # fmt: skip
    if start is not None:
        start = as_count("start", start, least=0, error=InvalidOption)
        if start >= S:
            raise InvalidOption(f"start is state {start}; states are 0 to {S - 1}.")
    return Interface(
        S=S,
        A=A,
        H=H,
        m=m,
        start=start,
        mask=_mask(action_mask, (H, S, A)),
        units=units_of_interface(m, senses, ranges, error=InvalidOption),
        stationary=bool(stationary),
        names=make_names(
            (S, A, m), state_names, action_names, limit_names, units, error=InvalidOption
        ),
    )


def _mask(value: ArrayLike | None, shape: tuple[int, int, int]) -> Bool:
    if value is None:
        return np.broadcast_to(np.True_, shape)
    try:
        mask = unmasked(value)
    except ValueError as problem:  # ragged
        raise InvalidOption(f"action_mask must be an array of booleans; got {problem}.") from None
    if mask.dtype != np.bool_ or mask.shape not in (shape, shape[1:]):
        raise InvalidOption(
            f"action_mask has type {mask.dtype} and shape {mask.shape}; expected booleans [S,A] or "
            f"[H,S,A] with H, S, A = {list(shape)}."
        )
    full = np.broadcast_to(frozen(mask.copy()), shape)
    barren = ~np.asarray(full.any(axis=2))
    if barren.any():
        raise InvalidOption(f"action_mask allows no action at {place('hs', first(barren))}.")
    return full


def signals_inside(name: str, terms: Affine, outside: Float) -> Float:
    """Bring signals inside, of one episode or ``[n, …]`` of many; rounding is forgiven and cut off.

    What lies outside of its range is an `InvalidEpisode`.
    """
    inside = terms.inside(outside)
    wrong = (inside < -ROUNDING) | (inside > 1.0 + ROUNDING)
    if wrong.any():
        bad = first(wrong)
        axes = ("step",) if name == "reward" else ("step", "constraint")
        axes = ("episode", *axes)[-len(bad) :]
        where = ", ".join(f"{axis} {k}" for axis, k in zip(axes, bad, strict=True))
        raise InvalidEpisode(
            f"{name} signal at {where} is {outside[bad]}, outside its declared range. Declare the "
            "range that it has (ranges=), or rescale."
        )
    clipped: Float = np.ascontiguousarray(inside.clip(0.0, 1.0))
    return clipped
