"""The options of the learners: frozen, checked records. What every learner takes stands in one of them."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ..arrays import Episode, Policy, as_count, as_floats, frozen
from ..errors import InvalidOption
from ..evidence.meter import as_delta

LARGEST = 1e100  # of scales, steps and bounds, so that no square of them overflows
STANCES = {"pessimistic": 0.0, "optimistic": 1.0}
REPLAN = {"never": 0, "always": 1, "doubling": 2}  # by which factor a count grows between two plans


@dataclass(frozen=True, kw_only=True)
class AnyOptions:
    """What every learner takes: how long, where the limits come from, and how sure to be.

    Args:
        episodes: T, or None for anytime use (epochs of doubling length).
        thresholds: the limits where they are known, ``[m]`` or ``[m,H]``; None: they are learned.
        stance: "pessimistic", "optimistic", or xi in [0,1] between them.
        window: gamma in (0,1]: the share of the finished episodes that the threshold estimate looks at.
        delta: the confidence is 1 - delta.
        independent_hints: that the threshold samples of an episode's steps have noise of their own each.
        shared_threshold: that every threshold sample has the same mean, so that steps without one cost nothing.
        constraint_totals: (low, high), one for all constraints or one each: where an episode's total of constraint
            signals lies, if that is a smaller range than that of H steps. What is proven from play is sharper with it.
        threshold_totals: the same of an episode's threshold samples.

    """

    episodes: int | None
    thresholds: tuple[tuple[float, ...], ...] | tuple[float, ...] | None = None
    stance: str | float = "pessimistic"
    window: float = 1.0
    delta: float = 0.05
    independent_hints: bool = False
    shared_threshold: bool = False
    constraint_totals: tuple[tuple[float, ...], ...] | tuple[float, ...] | None = None
    threshold_totals: tuple[tuple[float, ...], ...] | tuple[float, ...] | None = None

    def __post_init__(self) -> None:
        if self.episodes is not None:
            self._set("episodes", as_count("episodes", self.episodes, least=1, error=InvalidOption))
        self._set("thresholds", nested("thresholds", self.thresholds))
        if isinstance(self.stance, str):
            _choice("stance", self.stance, tuple(STANCES), " or a number in [0,1]")
        else:
            self._set("stance", _number("stance", self.stance, 0.0, 1.0))
        self._set("window", _number("window", self.window, 0.0, 1.0, open_low=True))
        self._set("delta", as_delta(self.delta))
        for name in ("independent_hints", "shared_threshold"):
            self._set_flag(name)
        for name in ("constraint_totals", "threshold_totals"):
            self._set(name, nested(name, getattr(self, name)))

    def _set(self, name: str, value: Any) -> None:
        """Keep a number as Python's own, so that it can be written to a file."""
        object.__setattr__(self, name, value)

    def _set_flag(self, name: str) -> None:
        """True or False."""
        if not isinstance(getattr(self, name), bool):
            raise InvalidOption(f"{name} must be True or False, got {getattr(self, name)!r}.")

    @property
    def xi(self) -> float:
        """The weight of the optimistic bound."""
        return STANCES[self.stance] if isinstance(self.stance, str) else float(self.stance)


@dataclass(frozen=True, kw_only=True)
class Options(AnyOptions):
    """What learners take whose bounds are the paper's: beside `AnyOptions`, their radii.

    Args:
        bonus_scale: c, of every radius but the thresholds'; 1 is what the theorems need, practice takes less.
        estimator: "representative" (the paper: the most visited pair of a step), "pooled" (all of them) or "total"
            (an episode's sum, whose bounds hold at full scale and pay nothing for states, actions and steps).
        threshold_scale: k; 1 is what the theorems need.
        clip_thresholds: whether threshold bounds are clipped to [0,1] per step (D2).

    """

    bonus_scale: float = 1.0
    estimator: str = "representative"
    threshold_scale: float = 1.0
    clip_thresholds: bool = True

    def __post_init__(self) -> None:
        super().__post_init__()
        _choice("estimator", self.estimator, ("representative", "pooled", "total"))
        for name in ("bonus_scale", "threshold_scale"):
            self._set_step(name)
        self._set_flag("clip_thresholds")
        self._check_estimator()

    def _check_estimator(self) -> None:
        if self.estimator != "total":
            for name in ("independent_hints", "shared_threshold"):
                if getattr(self, name):
                    raise InvalidOption(
                        f"{name} is for estimator='total', got estimator={self.estimator!r}."
                    )
        elif self.threshold_scale != 1.0 or not self.clip_thresholds:
            raise InvalidOption(
                "estimator='total' needs no threshold_scale and no clip_thresholds: its bounds hold as they are."
            )

    def _set_step(self, name: str) -> None:
        """A scale or a step, not negative, where one is given."""
        if getattr(self, name) is not None:
            value = _number(name, getattr(self, name), 0.0, LARGEST)
            self._set(name, value)


@dataclass(frozen=True, kw_only=True)
class DualOptions(Options):
    """What a learner with bounded multipliers takes beside `Options`.

    Args:
        rho: the bound of the multipliers (D4), or give `slack`; infinite needs the steps.
        slack: how much room a safe policy leaves over an episode, in the constraints' units: one number or one per
            constraint; gives ``rho = 2 H / slack``.
        dual_step: 1 / eta_lambda; the paper's by default.

    """

    rho: float | None = None
    slack: float | tuple[float, ...] | None = None
    dual_step: float | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if (self.rho is None) == (self.slack is None):
            raise InvalidOption(
                "give rho or slack, one of the two: slack= is how much room a safe policy leaves below a budget, or "
                "above a floor, over an episode, as far as you know."
            )
        self._set("slack", nested("slack", self.slack))
        self._set_step("dual_step")
        if self.rho is not None:
            self._set("rho", _number("rho", self.rho, 0.0, math.inf, open_low=True))
            if LARGEST < self.rho < math.inf:
                raise InvalidOption(f"rho must be at most {LARGEST:g}, or inf, got {self.rho:g}.")
            if math.isinf(self.rho) and self.dual_step is None:
                raise InvalidOption("rho = inf needs dual_step.")


@dataclass(frozen=True, kw_only=True)
class SpotOptions(DualOptions):
    """The options of `Spot`: those of `Options` and `DualOptions`, and two more.

    Examples:
        >>> import safespot as ss
        >>> learner = ss.Spot(**ss.problems.make("machine").interface, episodes=500, slack=1.0, stance=0.5)
        >>> learner.options == ss.SpotOptions(episodes=500, slack=1.0, stance=0.5)
        True
        >>> ss.SpotOptions(episodes=500, slack=1.0, stance="optimistic").xi
        1.0

    Args:
        bonus_scale: c, of every radius but the thresholds'; 1 is what the theorems need. "auto" is as large as lets
            pairs leave their cap at once (`theory.scale_to_leave_cap`), and takes both steps four times the paper's
            unless they are given.
        bonus: "hoeffding" (the paper) or "bernstein".
        policy_step: eta; the paper's by default.

    """

    bonus_scale: float | str = 1.0  # type: ignore[assignment]
    bonus: str = "hoeffding"
    policy_step: float | None = None

    def _set_step(self, name: str) -> None:
        if name == "bonus_scale" and isinstance(self.bonus_scale, str):
            _choice(name, self.bonus_scale, ("auto",), " or a number, not negative")
        else:
            super()._set_step(name)

    def __post_init__(self) -> None:
        super().__post_init__()
        _choice("bonus", self.bonus, ("hoeffding", "bernstein"))
        self._set_step("policy_step")
        if self.rho == math.inf and self.policy_step is None:
            raise InvalidOption("rho = inf needs policy_step and dual_step.")


@dataclass(frozen=True, kw_only=True)
class PlannerOptions(Options):
    """What a learner takes that solves a program: beside `Options`, when it does so.

    Args:
        replan: "doubling" (once the visits of some pair have doubled) or "always" (after every episode).

    """

    replan: str = "doubling"

    def __post_init__(self) -> None:
        super().__post_init__()
        _choice("replan", self.replan, ("doubling", "always"))


@dataclass(frozen=True, kw_only=True)
class BaselineOptions(PlannerOptions):
    """What a learner takes that leans on a policy known to be safe.

    Args:
        baseline: that policy, ``[H,S,A]`` or ``[S,A]``.
        slack: how much room it leaves over an episode at least, in the constraints' units: one number or one per
            constraint.

    """

    baseline: Policy = field(compare=False, repr=False)
    slack: float | tuple[float, ...]

    def __post_init__(self) -> None:
        super().__post_init__()
        self._set("baseline", frozen(as_floats("baseline", self.baseline, error=InvalidOption)))
        self._set("slack", nested("slack", self.slack))


def nested(name: str, value: ArrayLike | None) -> Any:
    """An array option as tuples, so that the options stay frozen and can be written to a file."""
    if value is None:
        return None
    return _tuples(as_floats(name, value, error=InvalidOption).tolist())


def _tuples(value: Any) -> Any:
    return tuple(_tuples(v) for v in value) if isinstance(value, list) else value


def _number(
    name: str,
    value: object,
    low: float,
    high: float,
    *,
    open_low: bool = False,
    open_high: bool = False,
) -> float:
    """`value`, which must be a number between `low` and `high` (open ends exclude themselves)."""
    ends = f"{'(' if open_low else '['}{low:g}, {high:g}{')' if open_high else ']'}"
    if isinstance(value, (bool, np.bool_)) or not isinstance(
        value, (int, float, np.integer, np.floating)
    ):
        raise InvalidOption(f"{name} must be a number in {ends}, got {value!r}.")
    try:
        x = float(value)
    except OverflowError:  # a whole number that no float can be
        x = math.inf if value > 0 else -math.inf
    above = x > low if open_low else x >= low
    under = x < high if open_high else x <= high
    if not (above and under):
        raise InvalidOption(f"{name} must be a number in {ends}, got {value}.")
    return x


def _choice(name: str, value: object, choices: tuple[str, ...], more: str = "") -> None:
    if not isinstance(value, str) or value not in choices:
        raise InvalidOption(
            f"{name} must be {' or '.join(map(repr, choices))}{more}, got {value!r}."
        )


def check_hints(episodes: Iterable[Episode], options: AnyOptions) -> None:
    """Raise where the hints of episodes cannot be what a learner was told that they are."""
    if options.independent_hints and any(episode.hint_total for episode in episodes):
        raise InvalidOption(
            "there is one hint for an episode, threshold_total, whose shares have one noise in common: make the "
            "learner without independent_hints."
        )
