"""Senses and units: the one affine map between the user's terms and the inside.

Inside, every constraint reads ``value >= threshold`` and every signal lies in [0,1]. Outside, a
user may state costs and budgets (``<=``) and any declared range. With ``outside = offset + scale *
inside`` a sense ``>=`` on a range [low, high] has offset low and scale high - low; a sense ``<=`` has
offset high and scale low - high, so that a small cost is a large inside value.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from .arrays import Error, Float, as_floats, check_range, frozen
from .errors import InvalidModel

LARGEST = 1e100  # end of a range, so that no sum over an episode overflows
ROUNDING = 1e-9  # of a range, for rounding: means and signals may lie outside by so much
Sense = str  # ">=" | "<="
Range = tuple[float, float]


class Affine(NamedTuple):
    """``outside = offset + scale * inside``, entry by entry along the last axis."""

    offset: Float
    scale: Float

    def inside(self, outside: Any) -> Any:
        """Convert per-step signals from the user's terms to [0,1]."""
        return (outside - self.offset) / self.scale

    def outside(self, inside: Any) -> Any:
        """Convert per-step signals from [0,1] to the user's terms."""
        return self.offset + self.scale * inside

    def total_inside(self, outside: Any, steps: int) -> Any:
        """Convert sums over an episode of `steps` steps from the user's terms to the inside."""
        return (outside - steps * self.offset) / self.scale

    def total_outside(self, inside: Any, steps: int) -> Any:
        """Convert sums over an episode of `steps` steps from the inside to the user's terms."""
        return steps * self.offset + self.scale * inside


@dataclass(frozen=True)
class Units:
    """The user's senses and ranges, and the two maps that follow from them."""

    senses: tuple[Sense, ...]  # [m]
    reward_range: Range
    constraint_ranges: tuple[Range, ...]  # [m]
    reward: Affine = field(compare=False)
    constraints: Affine = field(compare=False)  # [m]

    @property
    def ranges(self) -> dict[str, Any]:
        """The ranges as a learner's `ranges` argument takes them."""
        return {"reward": self.reward_range, "constraints": self.constraint_ranges}

    def prices(self, inside: Float) -> Float:
        """Return multipliers ``[m]`` in reward units per constraint unit; never negative."""
        prices: Float = inside * (self.reward.scale / np.abs(self.constraints.scale))
        return prices

    def bounds(self, low: Float, high: Float, steps: int) -> tuple[Float, Float]:
        """Return an interval of episode sums ``[m]`` in the user's terms, lower end first."""
        ends = [self.constraints.total_outside(end, steps) for end in (low, high)]
        return np.minimum(*ends), np.maximum(*ends)


def make_units(
    m: int,
    senses: Sense | Sequence[Sense] = ">=",
    reward_range: Sequence[float] = (0, 1),
    constraint_ranges: Sequence[float] | Sequence[Sequence[float]] | None = None,
    *,
    error: Error = InvalidModel,
) -> Units:
    """Check senses and ranges and derive the maps; one sense or range serves every constraint."""
    each = tuple(senses) if isinstance(senses, Iterable) else ()
    each = (senses,) * m if isinstance(senses, str) else each
    if len(each) != m or any(not isinstance(s, str) or s not in (">=", "<=") for s in each):
        raise error(
            f"senses must be '>=', '<=' or one of them for each of the {m} constraints, "
            f"got {senses!r}."
        )
    low, high = _range("reward_range", reward_range, error)
    if constraint_ranges is None:
        ranges = np.tile([0.0, 1.0], (m, 1))
    else:
        ranges = as_floats("constraint_ranges", constraint_ranges, error=error)
        ranges = np.tile(ranges, (m, 1)) if ranges.shape == (2,) else ranges
    if ranges.shape != (m, 2):
        raise error(
            f"constraint_ranges have shape {ranges.shape}; expected one (low, high) for all, or "
            f"one for each of the {m} constraints."
        )
    pairs = tuple(_range(f"constraint_ranges[{i}]", ranges[i], error) for i in range(m))
    costs = np.array([sense == "<=" for sense in each])
    lows, highs = ranges.T
    return Units(
        senses=each,
        reward_range=(low, high),
        constraint_ranges=pairs,
        reward=Affine(frozen(np.array(low)), frozen(np.array(high - low))),
        constraints=Affine(
            frozen(np.where(costs, highs, lows)),
            frozen(np.where(costs, -1.0, 1.0) * (highs - lows)),
        ),
    )


def units_of_interface(
    m: int, senses: Sense | Sequence[Sense], ranges: Mapping[str, Any] | None, *, error: Error
) -> Units:
    """Make the units of a learner's arguments; `ranges` has the keys "reward" and "constraints"."""
    ranges = {} if ranges is None else ranges
    if not isinstance(ranges, Mapping) or not set(ranges) <= {"reward", "constraints"}:
        raise error(f"ranges must be a dict with keys 'reward' and 'constraints', got {ranges!r}.")
    return make_units(
        m, senses, ranges.get("reward", (0, 1)), ranges.get("constraints"), error=error
    )


def spread_thresholds(
    thresholds: Float, H: int, terms: Units, *, error: Error = InvalidModel
) -> tuple[Float, Float]:
    """Return thresholds ``[m]`` or ``[m,H]`` as ``[m,H]``: in the user's terms, and inside."""
    m = len(terms.senses)
    if thresholds.shape == (m,):
        for i, (low, high) in enumerate(terms.constraint_ranges):
            room = ROUNDING * (high - low)
            if not low - room <= thresholds[i] / H <= high + room:
                raise error(
                    f"threshold of constraint {i} is {thresholds[i]:g} an episode; {H} steps of {low:g} to {high:g} "
                    f"each, its declared range, give {H * low:g} to {H * high:g}. Declare another, or rescale."
                )
        thresholds = np.repeat(thresholds[:, None] / H, H, axis=1)
    if thresholds.shape != (m, H):
        raise error(
            f"thresholds have shape {thresholds.shape}; expected per step [m,H] = {[m, H]}, or "
            f"episodic totals [m] = {[m]}."
        )
    for i in range(m):
        name, bounds = f"threshold of constraint {i}", terms.constraint_ranges[i]
        check_means(name, thresholds[i], bounds, "h", error=error)
    inside = terms.constraints.inside(thresholds.T).T.clip(0.0, 1.0)
    return frozen(thresholds), frozen(np.ascontiguousarray(inside))


def check_means(
    name: str, array: Float, bounds: Range, axes: str, *, error: Error = InvalidModel
) -> None:
    """Raise where means lie outside of the declared range, but for rounding."""
    low, high = bounds
    fix = "That is its declared range: declare another, or rescale."
    check_range(name, array, low, high, axes, fix=fix, room=ROUNDING * (high - low), error=error)


def _range(name: str, value: Sequence[float] | Float, error: Error) -> Range:
    array = as_floats(name, value, error=error)
    low, high = array.tolist() if array.shape == (2,) else (0.0, 0.0)
    if not low < high or max(-low, high) > LARGEST:
        raise error(
            f"{name} must be (low, high) with low < high, neither beyond {LARGEST:g}, got {value!r}."
        )
    return low, high
