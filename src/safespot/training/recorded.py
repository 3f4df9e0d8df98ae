"""The argument of a callback: a recorded episode of a run under way."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any

from ..arrays import Float
from ..display import Displayed
from ..learners.learner import Learner


@dataclass(frozen=True, eq=False, repr=False)
class Recorded(Displayed):
    """A recorded episode, in the user's terms; its numbers are a row of the `Run` that comes of it.

    Examples:
        >>> import safespot as ss
        >>> problem = ss.problems.make("machine")
        >>> def stop_early(record):
        ...     return record.value < 9.5  # False: enough
        >>> learner = ss.Spot(
        ...     **problem.interface, episodes=2000, rho=2.4, bonus_scale=0.01, threshold_scale=0.1
        ... )
        >>> run = ss.learn(problem, learner, record=100, callback=stop_early)
        >>> print(run.played, run.episodes[-1], bool(run.values[-1] >= 9.5))
        1 1 True

    """

    episode: int
    value: float
    constraint_values: Float  # [m]
    multipliers: Float  # [m]
    thresholds: Float  # [m]: in use
    threshold_bounds: tuple[Float, Float]  # lower, upper [m]
    regret: float | None  # cumulative; None where the optimum is unknown
    violations: Float  # [m]: cumulative
    violation_bounds: tuple[Float, Float]  # lower, upper [m]: what the episodes alone prove of it
    learner: Learner  # after the episode; read-only

    def scalars(self) -> dict[str, float]:
        """Return every number by its name, as trackers take them: "value", "regret", "constraint/strain", …"""
        names = self.learner.interface.names
        numbers = {"value": self.value}
        if self.regret is not None:
            numbers["regret"] = self.regret
        each = {
            "constraint": self.constraint_values, "multiplier": self.multipliers, "threshold": self.thresholds,
            "threshold_lower": self.threshold_bounds[0], "threshold_upper": self.threshold_bounds[1],
            "violation": self.violations,
            "violation_at_least": self.violation_bounds[0], "violation_at_most": self.violation_bounds[1],
        }  # fmt: skip
        for name, values in each.items():
            for i, value in enumerate(values.tolist()):
                numbers[f"{name}/{names.limit(i)}"] = value
        return numbers

    def _facts(self) -> dict[str, Any]:
        names = ("episode", "value", "constraint_values", "regret", "violations")
        return {f.name: getattr(self, f.name) for f in fields(self) if f.name in names}


Callback = Callable[[Recorded], object]


def recorded(learner: Learner, row: dict[str, Any]) -> Recorded:
    """Return the record of one row, as `Trainable.rows` gives it."""
    regret, evidence = row["regret"], row["evidence"]
    return Recorded(
        episode=int(row["episodes"][0]),
        value=float(row["values"][0]),
        constraint_values=row["constraint_values"][0],
        multipliers=row["multipliers"][0],
        thresholds=row["thresholds"][0],
        threshold_bounds=(row["threshold_bounds"][0][0], row["threshold_bounds"][1][0]),
        regret=None if regret is None else float(regret[0]),
        violations=row["violations"][0],
        violation_bounds=(evidence.violation_bounds[0][0], evidence.violation_bounds[1][0]),
        learner=learner,
    )
