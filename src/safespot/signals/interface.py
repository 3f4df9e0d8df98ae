"""A learner's knowledge of a problem, and the checks of every observed episode.

Nothing passes into a kernel unchecked: indices are in range, signals are in their declared ranges, and
everything is turned into inside units (sense ``>=``, [0,1]) here, and back again on the way out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ..arrays import (
    Bool,
    Episode,
    Float,
    InsideEpisode,
    as_count,
    as_floats,
    first,
    frozen,
    place,
    unmasked,
)
from ..errors import InvalidEpisode, InvalidOption, unknown
from ..names import UNNAMED, Names, make_names
from ..signals.limits import EXTRAS, Limit, Limits, as_limits, limit_arguments
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
    limits: tuple[Limit, ...] = ()  # [m]: what is declared of each

    @property
    def arguments(self) -> dict[str, Any]:
        """The arguments of `make_interface`, but for the mask; JSON can hold them."""
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
        signals = self.signals_inside(episode.rewards, episode.constraints, episode.thresholds)
        return InsideEpisode(states, states[:-1] * self.A + episode.actions, *signals)

    def signals_inside(
        self, rewards: Float, constraints: Float, thresholds: Float
    ) -> tuple[Float, Float, Float]:
        """Bring the signals of an episode inside, ``[H]``, ``[H,m]`` and ``[H,m]``, or those of many, ``[n,…]``."""
        return (
            _inside("reward", self.units.reward, rewards),
            _inside("constraint", self.units.constraints, constraints),
            _inside("threshold", self.units.constraints, thresholds),
        )


NAMES = ("state_names", "action_names", "limit_names", "units")
SIZES = ("states", "actions", "horizon", "constraints")
ARGUMENTS = (*SIZES, "start", "action_mask", "senses", "ranges", "stationary", *NAMES, *EXTRAS)


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
    **described: Any,
) -> Interface:
    """Check a learner's first arguments; `described`: `NAMES`, and what else is declared of limits (`EXTRAS`)."""
    for key in described:
        if key not in NAMES + EXTRAS:
            raise InvalidOption(f"interface: {unknown('key', key, ARGUMENTS)}")
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
    units = units_of_interface(m, senses, ranges, error=InvalidOption)
    texts = {key: described.pop(key, None) for key in NAMES}
    names = make_names((S, A, m), **texts, error=InvalidOption)
    return Interface(
        S=S,
        A=A,
        H=H,
        m=m,
        start=start,
        mask=_mask(action_mask, (H, S, A)),
        units=units,
        stationary=bool(stationary),
        names=names,
        limits=_limits(units, names, described),
    )


def with_limits(interface: Mapping[str, Any], limits: Limits) -> dict[str, Any]:
    """Return an interface in which counts what limits declare."""
    f = make_interface(**interface)
    pairs = zip(f.limits, as_limits(limits, f.m), strict=True)
    declared = limit_arguments([replace(own, **one.declared) for own, one in pairs], f.H)
    parts = {key: {**(interface.get(key) or {}), **declared[key]} for key in ("ranges", "units")}
    return {**interface, **declared, "ranges": parts["ranges"], "units": parts["units"] or None}


def as_known(interface: Mapping[str, Any], limits: Limits = None) -> Interface:
    """Return the interface of ``problem.interface``, with what limits declare."""
    try:
        return make_interface(**(interface if limits is None else with_limits(interface, limits)))
    except TypeError as exc:
        raise InvalidOption(
            f"interface must be what problem.interface or env_interface(…) is: {exc}."
        ) from None


def _limits(units: Units, names: Names, extras: Mapping[str, Any]) -> tuple[Limit, ...]:
    """Return the limits of an interface, one by one."""
    m = len(units.senses)
    thresholds, totals, hints = (_each(key, extras.get(key), m) for key in EXTRAS[:3])
    return tuple(
        Limit(
            name="" if names.limits is None else names.limits[i],
            sense=units.senses[i],
            range=units.constraint_ranges[i],
            total=totals[i],
            threshold=thresholds[i],
            hints="step" if extras.get("independent_hints") else "episode",
            threshold_total=hints[i],
            shared_threshold=bool(extras.get("shared_threshold")),
            unit=names.unit(i),
        )
        for i in range(m)
    )


def _each(name: str, value: ArrayLike | None, m: int) -> Any:
    """Return the declared values of each limit, or None for each; one range of totals serves all."""
    if value is None:
        return [None] * m
    each = as_floats(name, value, error=InvalidOption)
    if name != "thresholds" and each.shape == (2,):
        each = np.tile(each, (m, 1))
    if each.shape[:1] != (m,):
        raise InvalidOption(f"{name} must be one for each of the {m} constraints; got {value!r}.")
    return each


def _mask(value: ArrayLike | None, shape: tuple[int, int, int]) -> Bool:
    if value is None:
        return np.broadcast_to(np.True_, shape)
    try:
        mask = unmasked(value)
    except ValueError as exc:  # ragged
        raise InvalidOption(f"action_mask must be an array of booleans; got {exc}.") from None
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


def _inside(name: str, terms: Affine, outside: Float) -> Float:
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
