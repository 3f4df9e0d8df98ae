"""The columns of a log, as people export them: renamed, with texts for states and actions, with costs.

Whatever the file calls them, the columns come out under the names of `storage.episode_table`, as numbers: NaN is
missing, infinity not a number, and the text of such a value is kept as it stands.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .. import files
from ..arrays import MARKS
from ..errors import InvalidFile, InvalidOption, SafespotError, nearest, unknown
from ..storage import tables
from ..storage.episode_table import Columns, check_ending

INDICES = ("step", "state", "action", "next_state")
PLAIN = ("episode", *INDICES, "reward")
PROPENSITY = "propensity"  # of the action that was taken; may be absent
OPTIONAL = (PROPENSITY, *MARKS)
SIGNALS = re.compile("(constraint|cost)_(.+)")
THRESHOLDS = ("threshold", "threshold_total")  # of a step, or of a whole episode

STATES, ACTIONS = ("state", "next_state"), ("action",)  # whose values have names

Names = tuple[str, ...]
Query = Callable[[Iterable[str]], dict[str, Any]]  # of the log: expressions in SQL -> columns


class LogTable(NamedTuple):
    """A log in numbers."""

    columns: Columns  # name -> [rows]: the episodes' numbers int64, the rest float64
    texts: dict[str, NDArray]  # the text of every value that is not a finite number, else None
    labels: dict[str, str]  # name -> what the log calls it
    constraints: Names  # [m]: what their columns are called after "constraint_" or "cost_"
    costs: tuple[
        bool, ...
    ]  # [m]: which of them are costs, whose limit is the most that they may be
    sampled: str | None  # "threshold", "threshold_total", or None: the log has none of them
    states: Names | None  # the names of states, where they are texts
    actions: Names | None

    def text(self, name: str, row: int) -> str:
        """Return a value as it stands in the log: a number, a text in quotes, or nothing."""
        text, names = self.texts[name][row], self.states if name in STATES else None
        names = self.actions if name in ACTIONS else names
        value = self.columns[name][row]
        if text is not None or np.isnan(value):
            return "" if text is None else repr(str(text))
        return f"{value:g}" if names is None else repr(names[int(value)])


def read_table(
    source: Any,
    name: str,
    columns: Mapping[str, str] | None,
    states: Sequence[str] | None,
    actions: Sequence[str] | None,
    *,
    limits_known: bool,
) -> LogTable:
    """Return the columns of a file, a mapping or a DataFrame.

    `columns` says what the log's names are called here; `states` and `actions` are their names in the order of their
    numbers, by default in that of the alphabet where a column holds texts. Without `limits_known` threshold columns
    must be there.
    """
    import duckdb

    try:
        with tables.interruptible(), tables.connect() as database:
            relation = _relation(source, database)
            described = database.execute(f"describe select * from {relation}").fetchall()
            there = _renamed([str(row[0]) for row in described], columns, name)
            constraints, costs = _constraints(there, name)
            sampled = _sampled(there, constraints, limits_known)
            labels = _labels(there, constraints, costs, sampled, name)
            if isinstance(source, str | Path) and Path(source).suffix == ".parquet":
                tables.check_rows(database, [Path(source)], len(labels))

            def query(parts: Iterable[str]) -> dict[str, Any]:
                return database.execute(f"select {', '.join(parts)} from {relation}").fetchnumpy()

            numbers, texts = _numbers(query, labels)
            _check_episodes(numbers["episode"], name)
            names = {
                keys: _name(query, keys, labels, own_names, numbers, texts)
                for keys, own_names in ((STATES, states), (ACTIONS, actions))
            }
    except SafespotError:
        raise
    except OSError as exc:
        raise files.failure(f"cannot read {name}", exc) from None
    # Ragged arrays are a ValueError, and what is no table at all whatever DuckDB makes of it.
    except (duckdb.Error, ValueError, TypeError, RuntimeError) as exc:
        raise InvalidFile(f"cannot read {name}: {str(exc).splitlines()[0]}") from None
    return LogTable(
        {key: np.asarray(column) for key, column in numbers.items()},
        texts, labels, constraints, costs, sampled, names[STATES], names[ACTIONS],
    )  # fmt: skip


def _relation(source: Any, database: Any) -> str:
    """Return the SQL expression of a source's rows, for the FROM of a query."""
    if not isinstance(source, str | Path):
        if isinstance(source, Mapping):
            source = {
                str(key): _objects(column) if np.ma.is_masked(column) else np.asarray(column)
                for key, column in source.items()
            }
        import duckdb

        try:
            database.register("log", source)
        except (TypeError, duckdb.Error):  # which name arguments and scans of DuckDB
            if isinstance(source, dict):  # its columns are wrong, and DuckDB says how
                raise
            raise InvalidFile(
                f"cannot read {type(source).__name__} as a log. Expected a .csv or .parquet file, a mapping of "
                "columns, or a pandas DataFrame."
            ) from None
        return "log"
    path = files.as_path(source)
    check_ending(path)
    if path.is_dir():
        raise InvalidFile(f"{path} is a folder; expected a file, .csv or .parquet.")
    if not path.is_file():
        raise InvalidFile(f"file not found: {path}.")
    if not path.stat().st_size:
        raise InvalidFile(f"{path} is empty.")
    return tables.csv(path) if path.suffix == ".csv" else tables.parquet([path])


# Which columns


def _renamed(there: list[str], columns: Mapping[str, str] | None, name: str) -> dict[str, str]:
    """Return the log's label of each column by the name that is read here."""
    if columns is None:
        return {label: label for label in there}
    if not isinstance(columns, Mapping) or not all(
        isinstance(text, str) for pair in columns.items() for text in pair
    ):
        raise InvalidOption(
            f"columns must be a dict from the log's names to those that are read, such as "
            f'{{"patient": "episode"}}; got {columns!r}.'
        )
    for label, key in columns.items():
        if label not in there:
            hint = " Write the log's own name first." if key in there else ""
            raise InvalidOption(f"columns: {unknown('column', label, there)}{hint}")
        if key in there and key not in columns:
            raise InvalidOption(
                f"columns: {label!r} is to be read as {key!r}, which {name} has already. Rename that one too."
            )
    labels: dict[str, str] = {}
    for label in there:
        key = columns.get(label, label)
        if key in labels:
            raise InvalidOption(
                f"columns: {labels[key]!r} and {label!r} are both to be read as {key!r}."
            )
        labels[key] = label
    return labels


def _constraints(there: Mapping[str, str], name: str) -> tuple[Names, tuple[bool, ...]]:
    """Return the names of the constraints, numbers first and in their order, and which of them are costs."""
    is_cost: dict[str, bool] = {}
    for key in there:
        if match := SIGNALS.fullmatch(key):
            kind, called = match.groups()
            if called in is_cost:
                raise InvalidFile(
                    f"{name} has both constraint_{called} and cost_{called}; rename one of them (columns=)."
                )
            is_cost[called] = kind == "cost"
    place = {called: i for i, called in enumerate(is_cost)}
    order = sorted(is_cost, key=lambda c: (0, int(c)) if c.isdecimal() else (1, place[c]))
    return tuple(order), tuple(is_cost[called] for called in order)


def _sampled(there: Mapping[str, str], constraints: Names, limits_known: bool) -> str | None:
    """Return the first prefix of threshold columns that all constraints have; None where limits are known without."""
    for kind in THRESHOLDS:
        if constraints and all(f"{kind}_{called}" in there for called in constraints):
            return kind
    return None if limits_known else THRESHOLDS[0]


def _labels(
    there: Mapping[str, str],
    constraints: Names,
    costs: Sequence[bool],
    sampled: str | None,
    name: str,
) -> dict[str, str]:
    """Return the labels of the columns to read, by their names from here on: constraints are counted."""
    wanted = {key: key for key in PLAIN}
    for i, (called, cost) in enumerate(zip(constraints, costs, strict=True)):
        wanted[f"constraint_{i}"] = f"{'cost' if cost else 'constraint'}_{called}"
    if not constraints:
        wanted["constraint_0"] = "constraint_0"
    if sampled is not None:
        wanted |= {f"threshold_{i}": f"{sampled}_{called}" for i, called in enumerate(constraints)}
    missing = [key for key in wanted.values() if key not in there]
    if missing:
        advice = " Columns of other names are read with columns=."
        if any(key.startswith("threshold") for key in missing):
            advice = (
                " Where the limits are known, give each ss.Limit its threshold. A log without threshold samples has "
                "their columns all the same, empty."
            )
        for key, label in there.items():
            if key != label and (hint := nearest(key, missing)):
                advice = f" columns= reads {label!r} as {key!r}{hint}"
        raise InvalidFile(
            f"{name} lacks the column{'s' * (len(missing) > 1)} {', '.join(missing)}; it has "
            f"{', '.join(there.values())}.{advice}"
        )
    wanted |= {key: key for key in OPTIONAL if key in there}
    return {key: there[called] for key, called in wanted.items()}


# Numbers and texts


def _numbers(query: Query, labels: Mapping[str, str]) -> tuple[Columns, dict[str, NDArray]]:
    """Return the numbers of every column, and the texts of entries that are no numbers."""
    parts = []
    for key, label in labels.items():
        column = _quoted(label)
        number = f"try_cast({column} as double)"
        if key == "episode":  # whole, or else the cast to a bigint would round it
            whole = f"{number} = floor({number})"
            parts.append(f"case when {whole} then try_cast({column} as bigint) end as episode")
            continue
        known = f"coalesce({number}, 'infinity')"
        parts.append(f"case when {column} is null then 'nan'::double else {known} end as {key}")
        finite = f"coalesce(isfinite({number}), false)"
        parts.append(f"case when not {finite} then cast({column} as varchar) end as text_{key}")
    arrays = query(parts)
    return (
        {key: arrays[key] for key in labels},
        {key: _objects(arrays[f"text_{key}"]) for key in labels if key != "episode"},
    )


def _name(
    query: Query,
    keys: tuple[str, ...],
    labels: Mapping[str, str],
    own_names: Sequence[str] | None,
    numbers: Columns,
    texts: dict[str, NDArray],
) -> Names | None:
    """Number the texts of some columns in place, and give their names.

    They are texts where names are given, or where most of what they hold is no number.
    """
    if own_names is None:
        words = sum(int(np.count_nonzero(texts[key] != None)) for key in keys)  # noqa: E711
        there = sum(int(np.count_nonzero(~np.isnan(numbers[key]))) for key in keys)
        if 2 * words <= there:
            return None
    arrays = query(f"cast({_quoted(labels[key])} as varchar) as {key}" for key in keys)
    columns = {key: _objects(arrays[key]) for key in keys}
    names = own_names
    if names is None:
        names = sorted({text for column in columns.values() for text in column} - {None})
    number = {name: float(i) for i, name in enumerate(names)} | {None: np.nan}
    for key, column in columns.items():
        numbers[key] = np.array([number.get(text, np.inf) for text in column])
        nothing: Any = None
        texts[key] = np.where(np.isinf(numbers[key]), column, nothing)
    return tuple(names)


def _quoted(label: str) -> str:
    """Return a column's name in SQL."""
    escaped = label.replace('"', '""')
    return f'"{escaped}"'


def _objects(column: Any) -> NDArray:
    """Return the texts of a column as objects; None where there is none."""
    nothing: Any = None
    texts: NDArray = np.where(
        np.ma.getmaskarray(column), nothing, np.ma.getdata(column).astype(object)
    )
    return texts


def _check_episodes(episodes: Any, name: str) -> None:
    unnumbered = np.ma.getmaskarray(episodes)
    if unnumbered.size == 0:
        raise InvalidFile(f"{name} has no rows.")
    if unnumbered.any():
        row = unnumbered.argmax()
        raise InvalidFile(f"{name}: row {row} (from 0) has an episode that is not a whole number.")
