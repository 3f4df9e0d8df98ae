"""The options of the learners: frozen records that pydantic checks. What every learner takes stands in one of them.

Each field has a type that says which values it takes; what concerns several fields is a `model_validator`. All errors
of a call are raised at once, as one `InvalidOption` whose `wrong` has a sentence for each option.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterable
from dataclasses import MISSING, Field, field, fields
from typing import Annotated, Any, Self, TypeVar, dataclass_transform

import numpy as np
from numpy.typing import ArrayLike
from pydantic import (
    BeforeValidator,
    ConfigDict,
    ValidationError,
    ValidationInfo,
    model_validator,
)
from pydantic.dataclasses import dataclass as pydantic_dataclass

from ..arrays import Episode, Float, Policy, as_count, as_floats, frozen
from ..errors import InvalidOption, unknown
from ..evidence.counter import as_delta

LARGEST = 1e100  # of scales, steps and bounds, so that no square of them overflows
STANCES = {"pessimistic": 0.0, "optimistic": 1.0}
REPLAN = {"never": 0, "always": 1, "doubling": 2}  # by which factor a count grows between two plans
CONFIG = ConfigDict(extra="forbid", arbitrary_types_allowed=True)

T = TypeVar("T")


# The values of options, by their types


def by(check: Callable[[str, Any], Any]) -> BeforeValidator:
    """Return what passes values through ``check(name of the option, value)``; None stays None."""

    def passed(value: Any, info: ValidationInfo) -> Any:
        return None if value is None else check(str(info.field_name), value)

    return BeforeValidator(passed)


def as_number(
    name: str, value: object, low: float = 0.0, high: float = LARGEST, *, open_low: bool = False
) -> float:
    """Return `value`, which must be a number between `low` and `high`; an open end excludes itself."""
    ends = f"{'(' if open_low else '['}{low:g}, {high:g}]"
    if isinstance(value, (bool, np.bool_)) or not isinstance(
        value, (int, float, np.integer, np.floating)
    ):
        raise InvalidOption(f"{name} must be a number in {ends}, got {value!r}.")
    try:
        x = float(value)
    except OverflowError:  # a whole number that no float can be
        x = math.inf if value > 0 else -math.inf
    if not (low < x if open_low else low <= x) or not x <= high:
        raise InvalidOption(f"{name} must be a number in {ends}, got {value}.")
    return x


def as_choice(name: str, value: object, choices: tuple[str, ...], more: str = "") -> str:
    """Return `value`, which must be one of the choices; `more` says what else there is."""
    if not isinstance(value, str) or value not in choices:
        raise InvalidOption(
            f"{name} must be {' or '.join(map(repr, choices))}{more}, got {value!r}."
        )
    return value


def as_flag(name: str, value: object) -> bool:
    """Return `value`, which must be True or False."""
    if not isinstance(value, bool):
        raise InvalidOption(f"{name} must be True or False, got {value!r}.")
    return value


def as_stance(name: str, value: object) -> str | float:
    """Return a stance by its word, or xi in [0,1]."""
    if isinstance(value, str):
        return as_choice(name, value, tuple(STANCES), " or a number in [0,1]")
    return as_number(name, value, 0.0, 1.0)


def nested(name: str, value: ArrayLike) -> Any:
    """Return an array as tuples, so that options stay frozen and can be written to a file."""
    return _tuples(as_floats(name, value, error=InvalidOption).tolist())


def _tuples(value: Any) -> Any:
    return tuple(_tuples(v) for v in value) if isinstance(value, list) else value


def _as_rho(name: str, value: object) -> float:
    rho = as_number(name, value, 0.0, math.inf, open_low=True)
    if LARGEST < rho < math.inf:
        raise InvalidOption(f"{name} must be at most {LARGEST:g}, or inf, got {rho:g}.")
    return rho


def _as_bonus_scale(name: str, value: object) -> str | float:
    if isinstance(value, str):
        return as_choice(name, value, ("auto",), " or a number, not negative")
    return as_number(name, value)


COUNT = by(lambda name, value: as_count(name, value, least=1, error=InvalidOption))
SCALE = by(as_number)  # a scale or a step, not negative
NUMBERS = by(nested)
Count = Annotated[int, COUNT]
Delta = Annotated[float, by(lambda name, value: as_delta(value))]
Flag = Annotated[bool, by(as_flag)]
Stance = Annotated[str | float, by(as_stance)]
Share = Annotated[float, by(functools.partial(as_number, high=1.0, open_low=True))]
Scale = Annotated[float, SCALE]
Scales = Annotated[Any, NUMBERS]  # a number, or one for each constraint
Array = Annotated[
    Policy, by(lambda name, value: frozen(as_floats(name, value, error=InvalidOption)))
]


def one_of(*choices: str) -> BeforeValidator:
    """Return what lets these words pass."""
    return by(functools.partial(as_choice, choices=choices))


# The records


@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(field,))
def option_record(record: type[T]) -> type[T]:
    """Make a frozen record of options whose fields are checked; for classes, as a decorator."""
    made: Any = pydantic_dataclass(frozen=True, kw_only=True, config=CONFIG)(record)
    check = made.__init__

    @functools.wraps(check)
    def construct(self: Any, **given: Any) -> None:
        try:
            check(self, **given)
        except ValidationError as exc:
            wrong = _wrong(made, exc)
            rest = {name: value for name, value in given.items() if name not in wrong}
            if len(rest) < len(given):  # what concerns several options is checked without these
                try:
                    made(**rest)
                except InvalidOption as more:
                    wrong = {**wrong, **more.wrong} if set(more.wrong) <= set(given) else wrong
            raise InvalidOption(" ".join(wrong.values()), wrong) from None

    made.__init__ = construct
    return made  # type: ignore[no-any-return]


def _wrong(record: type, exc: ValidationError) -> dict[str, str]:
    """Return what is wrong with each option of a call; "" has what concerns no single one."""
    wrong: dict[str, str] = {}
    missing = []
    for error in exc.errors(include_url=False):
        name = str(error["loc"][0]) if error["loc"] else ""
        if error["type"] == "missing":
            missing.append(name)
        elif error["type"] == "unexpected_keyword_argument":
            wrong[name] = unknown("option", name, [each.name for each in fields(record)])
        else:
            known = getattr(error.get("ctx", {}).get("error"), "wrong", None)
            wrong |= known or {name: error["msg"].removeprefix("Value error, ")}
    if missing:
        needed = " and ".join(f"`{name}`" for name in missing)
        it = "it" if len(missing) == 1 else "them"
        wrong[""] = f"missing {needed}: this learner needs {it}."
    return wrong


def is_required(given: Field[Any]) -> bool:
    """Return whether an option has no default."""
    return given.default is MISSING and given.default_factory is MISSING


@option_record
class AnyOptions:
    """Options of every learner: how long, where the limits come from, and how sure to be.

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

    episodes: Count | None
    thresholds: Scales = None
    stance: Stance = "pessimistic"
    window: Share = 1.0
    delta: Delta = 0.05
    independent_hints: Flag = False
    shared_threshold: Flag = False
    constraint_totals: Scales = None
    threshold_totals: Scales = None

    @property
    def xi(self) -> float:
        """The weight of the optimistic bound."""
        return STANCES[self.stance] if isinstance(self.stance, str) else float(self.stance)

    @property
    def declares_totals(self) -> bool:
        """True where an episode's totals are declared to lie in smaller ranges than those of H steps."""
        return self.constraint_totals is not None or self.threshold_totals is not None

    def between(self, lower: Float, upper: Float) -> Float:
        """Return ``alpha_xi = xi lower + (1 - xi) upper``: what the stance chooses between two bounds."""
        chosen: Float = self.xi * lower + (1.0 - self.xi) * upper
        return chosen


@option_record
class Options(AnyOptions):
    """Options of learners whose bounds are the paper's: beside `AnyOptions`, their radii.

    Args:
        bonus_scale: c, of every radius but the thresholds'; 1 is what the theorems need, practice takes less.
        estimator: "representative" (the paper: the most visited pair of a step), "pooled" (all of them) or "total"
            (an episode's sum, whose bounds hold at full scale and pay nothing for states, actions and steps).
        threshold_scale: k; 1 is what the theorems need.
        clip_thresholds: whether threshold bounds are clipped to [0,1] per step (D2).

    """

    bonus_scale: Scale = 1.0
    estimator: Annotated[str, one_of("representative", "pooled", "total")] = "representative"
    threshold_scale: Scale = 1.0
    clip_thresholds: Flag = True

    @model_validator(mode="after")
    def _check_estimator(self) -> Self:
        if self.estimator != "total":
            for name in ("independent_hints", "shared_threshold"):
                if getattr(self, name):
                    what = f"{name} is for estimator='total', got estimator={self.estimator!r}."
                    raise InvalidOption(what, {name: what})
        elif self.threshold_scale != 1.0 or not self.clip_thresholds:
            raise InvalidOption(
                "estimator='total' needs no threshold_scale and no clip_thresholds: its bounds hold as they are."
            )
        return self


@option_record
class DualOptions(Options):
    """Options of learners with bounded multipliers, beside `Options`.

    Args:
        rho: the bound of the multipliers (D4), or give `slack`; infinite needs the steps.
        slack: how much room a safe policy leaves over an episode, in the constraints' units: one number or one per
            constraint; gives ``rho = 2 H / slack``.
        dual_step: 1 / eta_lambda; the paper's by default.

    """

    rho: Annotated[float | None, by(_as_rho)] = None
    slack: Scales = None
    dual_step: Scale | None = None

    @model_validator(mode="after")
    def _check_rho(self) -> Self:
        if (self.rho is None) == (self.slack is None):
            raise InvalidOption(
                "give rho or slack, one of the two: slack= is how much room a safe policy leaves below a budget, or "
                "above a floor, over an episode, as far as you know."
            )
        if self.rho == math.inf and self.dual_step is None:
            raise InvalidOption("rho = inf needs dual_step.")
        return self


@option_record
class SpotOptions(DualOptions):
    """The options of `Spot`: those of `Options` and `DualOptions`, and two more.

    Examples:
        >>> import safespot as ss
        >>> learner = ss.Spot(**ss.problems.make("machine").interface, episodes=500, slack=1.0, stance=0.5)
        >>> learner.options == ss.learners.SpotOptions(episodes=500, slack=1.0, stance=0.5)
        True
        >>> ss.learners.SpotOptions(episodes=500, slack=1.0, stance="optimistic").xi
        1.0

    Args:
        bonus_scale: c, of every radius but the thresholds'; 1 is what the theorems need. "auto" is as large as lets
            pairs leave their cap at once (`theory.scale_to_leave_cap`), and takes both steps four times the paper's
            unless they are given.
        bonus: "hoeffding" (the paper) or "bernstein".
        policy_step: eta; the paper's by default.

    """

    bonus_scale: Annotated[float | str, by(_as_bonus_scale)] = 1.0  # type: ignore[assignment]
    bonus: Annotated[str, one_of("hoeffding", "bernstein")] = "hoeffding"
    policy_step: Scale | None = None

    @model_validator(mode="after")
    def _check_steps(self) -> Self:
        if self.rho == math.inf and self.policy_step is None:
            raise InvalidOption("rho = inf needs policy_step and dual_step.")
        return self


@option_record
class PlannerOptions(Options):
    """Options of learners that solve a program: beside `Options`, when they do so.

    Args:
        replan: "doubling" (once the visits of some pair have doubled) or "always" (after every episode).

    """

    replan: Annotated[str, one_of("doubling", "always")] = "doubling"


@option_record
class BaselineOptions(PlannerOptions):
    """Options of learners that lean on a policy known to be safe.

    Args:
        baseline: that policy, ``[H,S,A]`` or ``[S,A]``.
        slack: how much room it leaves over an episode at least, in the constraints' units: one number or one per
            constraint.

    """

    baseline: Array = field(compare=False, repr=False)
    slack: Scales


def check_hints(episodes: Iterable[Episode], options: AnyOptions) -> None:
    """Raise where the hints of episodes cannot be what a learner was told that they are."""
    if options.independent_hints and any(episode.hint_total for episode in episodes):
        raise InvalidOption(
            "there is one hint for an episode, threshold_total, whose shares have one noise in common: make the "
            "learner without independent_hints."
        )
