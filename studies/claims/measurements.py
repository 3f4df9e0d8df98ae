"""What judges look at: the runs of the shipped sweeps, read from a store."""

from __future__ import annotations

import functools
import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np

from safespot.arrays import Float
from safespot.experiments import RunSpec, Store
from safespot.experiments.settings import Setting, read_setting
from safespot.model.cmdp import CMDP
from safespot.model.oracle import Slater

from .sizes import Size

K = TypeVar("K")
STANCES = {0.0: "pessimistic", 1.0: "optimistic"}


@dataclass(frozen=True, eq=False)
class Trace:
    """One run. Regret and violation are in inside units; all else is as the store has it."""

    run: RunSpec
    rho: float  # inf: the learner has none
    columns: Mapping[str, Float]
    facts: Mapping[str, Any] = field(
        default_factory=dict
    )  # what the store says of it beside the columns

    def __getitem__(self, column: str) -> Float:
        return self.columns[column]

    def last(self, column: str) -> float:
        """A column at the end of the run."""
        return float(self.columns[column][-1])

    def option(self, name: str, default: Any = None) -> Any:
        """An option of its learner."""
        return self.run.learner_options.get(name, default)

    @property
    def cmdp(self) -> CMDP:
        """The true model."""
        return self._setting.problem.cmdp

    @property
    def slater(self) -> Slater:
        """The safest policy of the true model."""
        return self._setting.slater

    @property
    def problem(self) -> str:
        """What a reader calls its problem."""
        c = self.cmdp
        return f"{self.run.problem}, S={c.S} A={c.A} H={c.H} m={c.m}"

    @functools.cached_property
    def _setting(self) -> Setting:
        return read_setting(self.run.setting)


@dataclass(frozen=True, eq=False)
class Measurements:
    """The traces of each sweep, in the order of its runs."""

    size: Size
    traces: Mapping[str, tuple[Trace, ...]]

    def __getitem__(self, sweep: str) -> tuple[Trace, ...]:
        return self.traces[sweep]


def read_measurements(store: Store, runs: Mapping[str, list[RunSpec]], size: Size) -> Measurements:
    """Read the finished ones among the runs of each sweep; each run is read once."""
    every = {run.id: run for each in runs.values() for run in each if store.is_finished(run.id)}
    columns = store.columns(list(every))
    for name in every:
        if (audit := store.path / "audits" / f"{name}.npz").exists():
            with np.load(audit) as arrays:
                columns[name] |= {f"audit_{key}": array for key, array in arrays.items()}
    traces = {name: _trace(run, store.about(name), columns[name]) for name, run in every.items()}
    return Measurements(
        size,
        {
            sweep: tuple(traces[run.id] for run in each if run.id in traces)
            for sweep, each in runs.items()
        },
    )


def _trace(run: RunSpec, about: Mapping[str, Any], columns: dict[str, Float]) -> Trace:
    units = read_setting(run.setting).problem.cmdp.units
    scales = np.abs(units.constraints.scale)
    inside = {"regret": columns["regret"] / units.reward.scale}
    for metric in ("violation", "strong_violation"):
        inside[metric] = np.max(
            [columns[f"{metric}_{i}"] / scale for i, scale in enumerate(scales)], axis=0
        )
    rho = math.inf if about["rho"] is None else float(about["rho"])
    return Trace(run, rho, {**columns, **inside}, about)


def grouped(traces: Iterable[Trace], key: Callable[[Trace], K]) -> dict[K, list[Trace]]:
    """Traces by a key, in the order in which keys come first; of each key in the order of seeds."""
    found: dict[K, list[Trace]] = defaultdict(list)
    for trace in traces:
        found[key(trace)].append(trace)
    return {k: sorted(each, key=lambda trace: trace.run.seed) for k, each in found.items()}
