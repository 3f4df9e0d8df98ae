"""Episodes as the rows of a table, one a step, and files of them: Parquet or CSV.

Columns are `episode`, `step` (0 … H-1), `state`, `action`, `reward`, `constraint_0` …, `threshold_0` … (empty where the
step carried no sample), `next_state`, and what the episode says of itself (`MARKS`), the same in all of its rows:

    clipped       how many of its signals were cut off to their declared range
    rejected      how many episodes were left out beside it
    unfinished    1: it was given up; what never came is empty
    hint_total    1: its threshold samples are equal shares of one hint

Whoever writes may add more. Here alone they are written; `data.log_checks` reads them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..arrays import MARKS, Float
from ..errors import InvalidFile
from ..files import replace, scratch
from .tables import FORMATS, connect, target, writing

Columns = dict[str, Any]  # name -> [rows]


def step_columns(
    episode: NDArray,
    step: NDArray,
    state: NDArray,
    action: NDArray,
    reward: NDArray,
    constraints: Float,
    thresholds: Float,
    next_state: NDArray,
    marks: Mapping[str, NDArray],
) -> Columns:
    """The columns of some steps, from arrays ``[rows]`` and signals ``[rows,m]``."""
    m = constraints.shape[1]
    columns = {
        "episode": episode,
        "step": step,
        "state": state,
        "action": action,
        "reward": reward,
        **{f"constraint_{i}": constraints[:, i] for i in range(m)},
        **{f"threshold_{i}": thresholds[:, i] for i in range(m)},
        "next_state": next_state,
        **{name: marks[name].astype(np.int64) for name in MARKS},
    }
    return {name: np.ascontiguousarray(column) for name, column in columns.items()}


def write_rows(path: Path, tables: Iterable[Columns]) -> None:
    """Write tables with the same columns one behind the other, whole or not at all.

    What was not seen or is not known (NaN, a negative state or version, an empty text) is written as nothing.
    """
    check_ending(path)
    with writing(f"cannot write {path}"), scratch() as folder, connect() as database:
        for table in tables:
            database.register("steps", table)
            chosen = ", ".join(
                f"case when {known} then {name} end as {name}"
                if (known := _known(name)) is not None
                else name
                for name in table
            )
            database.execute(
                f"create table if not exists written as select {chosen} from steps limit 0"
            )
            database.execute(f"insert into written select {chosen} from steps")
        made = Path(folder, "rows")
        database.execute(f"copy written to {target(made)} ({FORMATS[path.suffix]})")
        replace(path, made.read_bytes(), private=True)


def _known(name: str) -> str | None:
    """Return the condition under which a value of a column is known; None: always."""
    if name.startswith(("reward", "constraint_", "threshold_", "propensity")):
        return f"not isnan({name})"
    if name in ("next_state", "policy_version"):
        return f"{name} >= 0"
    return "policy <> ''" if name == "policy" else None


def check_ending(path: Path) -> None:
    """Raise unless the name says how the file is written."""
    if path.suffix not in FORMATS:
        raise InvalidFile(f"{path}: expected a name that ends in {' or '.join(FORMATS)}.")
