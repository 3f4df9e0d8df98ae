"""Terms of evidence: limits, the ranges of their totals, and how totals inside relate to the user's."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from ..arrays import Episode, Float, frozen
from ..errors import InvalidEpisode, InvalidOption
from ..names import Names, make_names
from ..units import ROUNDING, Range
from .interface import Interface, as_known
from .limits import Limit, Limits, listed
from .totals import Declared, Totals, check_sums, checked_sums, declare, make_declared


@dataclass(frozen=True, eq=False)
class Terms:
    """Limits, the ranges of their totals, and how totals inside relate to the user's."""

    limits: tuple[Limit, ...]
    names: Names
    declared: Declared
    offset: Float  # [1+m]: the reward's, then the limits'; outside = offset + unit * inside
    unit: Float  # [1+m]; infinite for a reward of which no range is declared
    reward: float  # the width of the reward's range, inside
    interface: Interface | None = None  # of learners on tables, whose episodes have steps

    @property
    def m(self) -> int:
        """The number of limits."""
        return len(self.declared.least)

    @property
    def senses(self) -> tuple[str, ...]:
        """The sense of each limit, "<=" or ">="."""
        return tuple(limit.sense or ">=" for limit in self.limits)

    @property
    def scale(self) -> Float:
        """The user's unit of each limit without its sign, ``[m]``."""
        return np.abs(self.unit[1:])

    def outside(self, low: Float, high: Float) -> tuple[Float, Float]:
        """Return an interval of the limits' totals ``[m]`` in the user's terms, lower end first."""
        ends = [self.offset[1:] + self.unit[1:] * end for end in (low, high)]
        return np.minimum(*ends), np.maximum(*ends)

    def reward_outside(self, low: Any, high: Any) -> tuple[Any, Any]:
        """Return an interval of the reward in the user's terms, from shares of its range."""
        if math.isinf(self.unit[0]):
            return np.full(np.shape(low), -np.inf), np.full(np.shape(high), np.inf)
        ends = [self.offset[0] + self.unit[0] * (self.reward * end) for end in (low, high)]
        return ends[0], np.maximum(*ends)

    def row(self, episode: Totals | Episode) -> Float:
        """Return an episode's sums ``[2+4m]``, inside; raise where they lie outside of what is declared."""
        if isinstance(episode, Episode):
            if self.interface is None:
                raise InvalidEpisode(
                    "these limits say nothing of steps: add up the episode, ss.Totals(costs, hints)."
                )
            return checked_sums(self.declared, self.interface.check(episode))
        if not isinstance(episode, Totals):
            raise InvalidEpisode(f"expected ss.Totals, got {type(episode).__name__}.")
        declared = self.declared
        low, high = _ends("costs", episode.costs, self, declared.values)
        under, over = _ends("hints", episode.hints, self, declared.limits)
        reward = np.array([0.0, self.reward])
        if np.isfinite(self.unit[0]) and not math.isnan(episode.reward):
            reward[:] = (episode.reward - self.offset[0]) / self.unit[0]
            if not -ROUNDING <= reward[0] / self.reward <= 1.0 + ROUNDING:
                raise InvalidEpisode(
                    f"a reward of {episode.reward:g} lies outside the range that was declared. Declare the range that "
                    "it has."
                )
        row = np.hstack([reward, low, high, under, over])
        check_sums(declared, row)
        return row


def _ends(name: str, totals: Float | None, terms: Terms, ends: Float) -> tuple[Float, Float]:
    """Return the least and the largest totals ``[m]``, inside; what is missing has those of its range."""
    if totals is None:
        return ends[0], ends[1]
    if totals.shape[-1] != terms.m:
        raise InvalidEpisode(
            f"{name} are {totals.shape[-1]} numbers; expected {terms.m}, one for each limit."
        )
    inside = np.atleast_2d((totals - terms.offset[1:]) / terms.unit[1:])
    low, high = inside.min(axis=0), inside.max(axis=0)
    missing = np.isnan(low)
    return np.where(missing, ends[0], low), np.where(missing, ends[1], high)


# Limits with the ranges of their totals; or an interface, as `problem.interface` is.
Declarations: TypeAlias = Interface | Mapping[str, Any] | Limit | Sequence[Limit | str]


def terms_of(limits: Declarations, more: Limits = None) -> Terms:
    """Return the terms of limits whose totals are declared, or of an interface, to which limits may add more."""
    if isinstance(limits, Mapping):
        return interface_terms(as_known(limits, more))
    if more is not None:
        raise InvalidOption("limits are given twice; declare all of them in one place.")
    if isinstance(limits, Interface):
        return interface_terms(limits)
    return limit_terms(listed(limits))


def limit_terms(limits: tuple[Limit, ...], reward: Range | None = None) -> Terms:
    """Return the terms of limits of episodes that nothing else is known of."""
    if not limits:
        raise InvalidOption("there are no limits; give ss.Limit(name, total=(low, high)).")
    for i, limit in enumerate(limits):
        if limit.total is None:
            raise InvalidOption(
                f"the total of limit {limit.name or i} is needed: the range of an episode's total, "
                "ss.Limit(name, total=(low, high))."
            )
        if limit.threshold is not None and np.ndim(limit.threshold):
            raise InvalidOption(
                f"the threshold of limit {limit.name or i} must be one number, of an episode's total."
            )
    known = [limit.threshold is not None for limit in limits]
    if any(known) and not all(known):
        raise InvalidOption("threshold must be declared of all limits, or of none.")
    cost = np.array([limit.sense == "<=" for limit in limits])
    ranges = np.array([limit.total for limit in limits])
    offset, unit = np.where(cost, ranges[:, 1], ranges[:, 0]), np.where(cost, -1.0, 1.0)
    values = np.stack([np.zeros(len(limits)), ranges[:, 1] - ranges[:, 0]])
    if all(known):
        alpha = (np.array([limit.threshold for limit in limits], float) - offset) / unit
        hints = np.stack([alpha, alpha])
    else:
        alpha = np.zeros(0)
        ends = (np.array([x.threshold_total or x.total for x in limits]) - offset[:, None]) / unit[
            :, None
        ]
        hints = np.stack([ends.min(axis=1), ends.max(axis=1)])
    low, high = (0.0, 1.0) if reward is None else reward
    named = [limit.name or f"limit {i}" for i, limit in enumerate(limits)]
    units = [limit.unit for limit in limits]
    return Terms(
        limits=limits,
        names=make_names(
            (1, 1, len(limits)),
            limit_names=named,
            units={"constraints": units} if any(units) else None,
            error=InvalidOption,
        ),
        declared=make_declared(high - low, alpha, values, hints, values[1]),
        offset=frozen(np.append(low, offset)),
        unit=frozen(np.append(math.inf if reward is None else 1.0, unit)),
        reward=high - low,
    )


def interface_terms(f: Interface, declared: Declared | None = None) -> Terms:
    """Return the terms of the episodes of learners on tables, by default with what the interface's limits declare."""
    reward, constraints = f.units.reward, f.units.constraints
    return Terms(
        limits=f.limits,
        names=f.names.of_limits,
        declared=declare(f) if declared is None else declared,
        offset=frozen(f.H * np.append(reward.offset, constraints.offset)),
        unit=frozen(np.append(reward.scale, constraints.scale)),
        reward=float(f.H),
        interface=f,
    )
