"""`Limit`: what is declared of one limit and its signal, wherever signals are declared.

A learner's interface is a dict of plain values, in which every property of the limits has a key of its own
(`limit_arguments`); here those of one limit stand together.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from typing import Any, TypeAlias

from ..arrays import as_floats
from ..display import Displayed
from ..errors import InvalidOption
from ..units import Range, Sense

# Keys of an interface for what not every limit has; learners have options of these names.
EXTRAS = ("thresholds", "constraint_totals", "threshold_totals", "independent_hints", "shared_threshold")  # fmt: skip


@dataclass(frozen=True, repr=False)
class Limit(Displayed):
    """The declaration of a limit's signal; a default declares nothing.

    Args:
        name: of what is limited.
        sense: "<=" where an episode's total may be at most its threshold, ">=" where it must be at least that. By
            default "<=" for costs, and ">=" for all else.
        range: (low, high) of a step's signal, and of a step's hint; [0, 1] by default.
        total: (low, high) of an episode's total, where that is smaller than the range of all its steps together: at
            most one fall, say. Proofs then need fewer episodes, and an episode outside of it is an error.
        threshold: of an episode's total, or one for each step, where it is known; else it is learned from hints.
        hints: what a hint is about. "episode": the hints of an episode add up to one hint of the threshold; steps
            without one count at their worst (deviation D7). "step": each is a hint of its step's part, with noise of
            its own, whatever the steps before it showed; for `SpotEpochs` and learners with estimator="total".
        threshold_total: (low, high) of the sum of an episode's hints, as `total` is of its signals.
        shared_threshold: that all hints have the same mean, so that steps without one cost nothing; for the same
            learners.
        unit: of an episode's total.

    Examples:
        >>> import safespot as ss
        >>> dose = ss.Limit("dose", "<=", total=(0, 10), unit="full doses")
        >>> box = ss.gym.BlackBox(ss.gym.Clinic(), horizon=14, states=[[1.0], [0.3]], limits=dose)
        >>> box.interface["limit_names"], box.interface["constraint_totals"]
        (('dose',), ((0.0, 10.0),))

    """

    name: str = ""
    sense: Sense | None = None
    range: Range | None = None
    total: Range | None = None
    threshold: float | Sequence[float] | None = None
    hints: str = "episode"
    threshold_total: Range | None = None
    shared_threshold: bool = False
    unit: str = ""

    def __post_init__(self) -> None:
        for name, fits, expected in (
            ("name", isinstance(self.name, str), "a text"),
            ("unit", isinstance(self.unit, str), "a text"),
            ("sense", self.sense in (None, "<=", ">="), "'<=' or '>='"),
            ("hints", self.hints in ("episode", "step"), "about an 'episode' or a 'step'"),
            ("shared_threshold", isinstance(self.shared_threshold, bool), "True or False"),
        ):
            if not fits:
                raise InvalidOption(
                    f"{name} of a limit must be {expected}, got {getattr(self, name)!r}."
                )
        for name in ("range", "total", "threshold_total", "threshold"):
            value = getattr(self, name)
            if value is None:
                continue
            numbers = as_floats(f"{name} of a limit", value, error=InvalidOption)
            if name != "threshold" and (numbers.shape != (2,) or not numbers[0] < numbers[1]):
                raise InvalidOption(
                    f"{name} of a limit must be (low, high) with low < high, got {value!r}."
                )
            plain = numbers.tolist()
            object.__setattr__(self, name, tuple(plain) if numbers.ndim else plain)

    @property
    def declared(self) -> dict[str, Any]:
        """The fields that differ from their defaults, by name."""
        values = {each.name: (getattr(self, each.name), each.default) for each in fields(self)}
        return {name: value for name, (value, default) in values.items() if value != default}

    def _facts(self) -> dict[str, Any]:
        return self.declared


Limits: TypeAlias = Limit | str | Iterable[Limit | str] | None


def listed(limits: Limits) -> tuple[Limit, ...]:
    """Return the limits that are declared; a text is a name."""
    if limits is None or isinstance(limits, Limit | str):
        limits = () if limits is None else (limits,)
    each: list[Limit] = []
    for one in limits if isinstance(limits, Iterable) else (limits,):
        each.append(Limit(one) if isinstance(one, str) else one)
        if not isinstance(each[-1], Limit):
            raise InvalidOption(f"limits must be of ss.Limit, got {one!r}.")
    return tuple(each)


def as_limits(limits: Limits, m: int) -> tuple[Limit, ...]:
    """Return m limits: one that is not in a list serves all, and None declares nothing."""
    each = (Limit(),) if limits is None else listed(limits)
    if limits is None or isinstance(limits, Limit | str):
        each *= m
    if len(each) != m:
        raise InvalidOption(f"{len(each)} limits are declared; there are {m} constraints.")
    return each


def limit_arguments(limits: Sequence[Limit], horizon: int) -> dict[str, Any]:
    """Return the keys of an interface that declare its limits: of `EXTRAS`, those that are needed."""
    ranges = tuple(limit.range or (0.0, 1.0) for limit in limits)
    names = tuple(limit.name or f"constraint {i}" for i, limit in enumerate(limits))
    units = tuple(limit.unit for limit in limits)
    arguments: dict[str, Any] = {
        "senses": tuple(limit.sense or ">=" for limit in limits),
        "ranges": {"constraints": ranges},
        "limit_names": names if any(limit.name for limit in limits) else None,
        "units": {"constraints": units} if any(units) else {},
    }
    for key, field in zip(EXTRAS, ("threshold", "total", "threshold_total"), strict=False):
        each = [getattr(limit, field) for limit in limits]
        if field != "threshold" and any(each):
            steps = [(horizon * low, horizon * high) for low, high in ranges]
            each = [one or least for one, least in zip(each, steps, strict=True)]
        if None not in each:
            arguments[key] = tuple(each)
        elif any(one is not None for one in each):
            raise InvalidOption("threshold must be declared of all limits, or of none.")
    flags = [(limit.hints == "step", limit.shared_threshold) for limit in limits]
    if len(set(flags)) > 1:
        raise InvalidOption("hints and shared_threshold must be the same for all limits.")
    return arguments | {key: True for key, flag in zip(EXTRAS[3:], flags[0], strict=True) if flag}
