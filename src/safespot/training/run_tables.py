"""A run as tables: the columns that files and frames have, and the rows that plots are drawn from."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ..arrays import Float

if TYPE_CHECKING:
    from .run import Run

Columns = dict[str, NDArray]
KINDS = ("value", "limits", "regret", "violation", "thresholds", "multipliers", "evidence")


def columns(run: Run) -> Columns:
    """Return a column for each quantity and constraint, with a row per recorded episode."""
    lower, upper = run.threshold_bounds
    least, most = run.evidence.violation_bounds
    table: Columns = {
        "episode": run.episodes,
        "value": run.values,
        "regret": run.regret,
        "strong_regret": run.strong_regret,
        "violation": run.violation,
        "strong_violation": run.strong_violation,
    }
    for name, each in (
        ("constraint", run.constraint_values),
        ("multiplier", run.multipliers),
        ("threshold", run.thresholds),
        ("threshold_lower", lower),
        ("threshold_upper", upper),
        ("violation", run.violations),
        ("strong_violation", run.strong_violations),
        ("evidence_violation_lower", least),
        ("evidence_violation_upper", most),
    ):
        for i in range(each.shape[1]):
            table[f"{name}_{i}"] = np.ascontiguousarray(each[:, i])
    return {name: values for name, values in table.items() if values is not None}


def curve_rows(run: Run, kind: str) -> tuple[list[dict[str, Any]], str]:
    """Return the rows that `plotting.curve_chart` draws, and the title of their axis."""
    names = run.learner.interface.names
    m = range(run.constraint_values.shape[1])
    rows: list[dict[str, Any]] = []

    def add(panel: str, line: str, y: Any = None, low: Any = None, high: Any = None) -> None:
        rows.extend(_rows(run, panel, line, y, low, high))

    if kind == "value":
        add(names.reward, "policies played", run.values)
        if not np.isnan(run.optimum):
            add(names.reward, "optimum", np.full(len(run.values), run.optimum))
        return rows, names.reward
    if kind == "regret":
        if run.regret is not None:
            add("regret", "regret", run.regret)
            add("regret", "losses only", run.strong_regret)
        return rows, "regret, summed"
    titles = {
        "limits": "an episode", "violation": "violation, summed", "thresholds": "threshold",
        "multipliers": "multiplier", "evidence": "violation an episode",
    }  # fmt: skip
    counted = (run.episodes - run.first + 1).astype(float)
    for i in m:
        panel = names.quantity(i)
        lower, upper = (end[:, i] for end in run.threshold_bounds)
        if kind == "limits":
            add(panel, "policies played", run.constraint_values[:, i])
            if run.limits is not None:
                add(panel, "limit", run.limits[:, i])
            add(panel, "bounds of the limit", low=lower, high=upper)
        elif kind == "violation":
            add(panel, "violation", run.violations[:, i])
            add(panel, "violations only", run.strong_violations[:, i])
        elif kind == "thresholds":
            add(panel, "in use", run.thresholds[:, i])
            add(panel, "bounds", low=lower, high=upper)
        elif kind == "multipliers":
            add(panel, "multiplier", run.multipliers[:, i])
        else:
            low, high = (end[:, i] for end in run.evidence.mean_bounds)
            add(
                panel,
                "exact" if run.limits is not None else "realized",
                run.violations[:, i] / counted,
            )
            add(panel, "proven", low=low, high=high)
    return rows, titles[kind]


def _rows(
    run: Run, panel: str, line: str, y: Float | None, low: Float | None, high: Float | None
) -> Iterator[dict[str, Any]]:
    for k, episode in enumerate(run.episodes.tolist()):
        row: dict[str, Any] = {"episode": episode, "panel": panel, "line": line}
        if y is not None:
            row["y"] = float(y[k])
        if low is not None and high is not None:
            row |= {"low": float(low[k]), "high": float(high[k])}
        yield row
