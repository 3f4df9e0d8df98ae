"""A store of results: a folder of files that are whole or absent.

    store.json                                what this folder is
    runs/<id>.parquet                         the results of a finished run, a row per recorded episode
    runs/<id>.json                            what the run was, and where it comes from
    runs/<id>.safetensors                     its last policy [H,S,A], unless that has too many entries to keep
    checkpoints/<id>.<0|1>.safetensors        an unfinished run, two generations
    claims/<id>                               a lock, while a sweep of this host is at work on it

A run is finished when its Parquet file exists. See docs/store.md.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from .. import files
from ..arrays import Policy
from ..errors import InvalidFile, MissingPackage, SafespotError, UnknownName
from .locks import Claims
from .parquet import Columns, Encoder
from .spec import RunSpec

if TYPE_CHECKING:
    import duckdb
    import pandas

FORMAT = 1
POLICY_ENTRIES = 250_000  # up to which a policy is kept: 2 MB
ABOUT = {
    "run": "VARCHAR", "problem": "VARCHAR", "problem_options": "JSON", "signals": "JSON",
    "learner": "VARCHAR", "learner_options": "JSON", "anytime": "BOOLEAN", "episodes": "BIGINT",
    "seed": "BIGINT", "record": "JSON", "track": "VARCHAR", "optimum": "DOUBLE", "limits": "DOUBLE[]",
    "rho": "DOUBLE", "certificate": "JSON", "seconds": "DOUBLE", "provenance": "JSON",
}  # fmt: skip


@dataclass(frozen=True, eq=False)
class FinishedRun:
    """A run that has come to its end."""

    run: RunSpec
    columns: Columns
    policy: Policy | None  # for the coming episode; None: too large to be kept
    facts: dict[str, Any]  # the optimum, the limits, rho
    seconds: float  # of learning
    provenance: dict[str, Any]


class Store:
    """The results in a folder; `Store.create` makes it where there is none.

    Examples:
        >>> import safespot as ss
        >>> study = {
        ...     "episodes": 200, "seeds": 3, "problem": {"name": "machine"},
        ...     "learners": [{"name": "uniform"}, {"name": "spot", "options": {"slack": 1, "bonus_scale": 0.01}}],
        ... }
        >>> store = ss.sweep(study, "results", workers=1, progress=False).store
        >>> store.query("select learner, count(*) from runs group by learner order by learner").fetchall()
        [('spot', 3), ('uniform', 3)]
        >>> len(ss.Store("results").finished())
        6

    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        try:
            about = json.loads((self.path / "store.json").read_text())
            found = about["store"]
        except (OSError, ValueError, KeyError, TypeError):
            raise InvalidFile(
                f"{path} is not a store of results: it has no store.json. Give a folder that `sweep` wrote."
            ) from None
        if found != FORMAT:
            raise InvalidFile(
                f"{path} is a store of format {found}; this safespot reads {FORMAT}. Upgrade safespot."
            )

    @classmethod
    def create(cls, path: str | Path) -> Store:
        """The store in that folder, which is made, unless it is one."""
        folder = Path(path)
        if set(str(folder.resolve())) & set("*?["):
            raise InvalidFile(
                f"{folder.resolve()} has *, ? or [ in it, which DuckDB reads as a pattern."
            )
        if folder.exists() and not (folder / "store.json").exists() and any(folder.iterdir()):
            raise InvalidFile(
                f"{path} is neither empty nor a store; give a new folder, or an existing store."
            )
        try:
            for part in ("runs", "checkpoints", "claims"):
                (folder / part).mkdir(parents=True, exist_ok=True)
        except OSError as problem:
            raise InvalidFile(f"cannot make {path}: {problem.strerror}.") from None
        if not (folder / "store.json").exists():
            files.replace(folder / "store.json", json.dumps({"store": FORMAT}).encode() + b"\n")
        return cls(folder)

    # What is there

    def finished(self) -> set[str]:
        """The ids of the finished runs."""
        return {path.stem for path in (self.path / "runs").glob("*.parquet")}

    def is_finished(self, run: str) -> bool:
        """Whether a run is finished."""
        return self._file(run, "parquet").exists()

    def about(self, run: str) -> dict[str, Any]:
        """What a finished run was, and where it comes from."""
        try:
            about: dict[str, Any] = json.loads(self._file(run, "json").read_text())
        except OSError:
            raise UnknownName(f"{self.path} has no finished run {run!r}.") from None
        return about

    def policy(self, run: str) -> Policy | None:
        """The policy ``[H,S,A]`` that a finished run ended with; None: it was too large to be kept."""
        self.about(run)
        path = self._file(run, "safetensors")
        return files.read_arrays(path, "policy")[0]["policy"] if path.exists() else None

    def columns(self, runs: Sequence[str]) -> dict[str, Columns]:
        """The results of some finished runs, run -> column -> values; NaN where a run does not have a column."""
        import duckdb

        if not runs:
            return {}
        files = [str(self._file(run, "parquet")) for run in runs]
        try:
            found = duckdb.execute(
                "from read_parquet($files, union_by_name = true) order by run, episode",
                {"files": files},
            ).fetchnumpy()
        except duckdb.Error as problem:
            raise InvalidFile(f"cannot read results of {self.path}: {problem}") from None
        return by_run(found)

    def query(self, sql: str, parameters: Sequence[Any] | None = None) -> duckdb.DuckDBPyRelation:
        """DuckDB's answer to a query over the views `results` and `runs`.

        It is read where and how you like: ``.fetchall()``, ``.fetchnumpy()``, ``.df()``, ``.pl()``, ``.arrow()``.
        """
        import duckdb

        if not self.finished():
            raise InvalidFile(f"{self.path} has no finished run yet.")
        try:
            answer = self._connect().sql(sql, params=parameters)
        except duckdb.Error as problem:
            raise SafespotError(f"DuckDB cannot run the statement: {problem}") from None
        if answer is None:
            raise SafespotError(
                "the statement returned no rows; expected a query, such as `select * from runs`."
            )
        return answer

    def frame(self) -> pandas.DataFrame:
        """Every row with what its run was: an option is a column named ``learner.stance`` or ``problem.states``."""
        try:
            import pandas
        except ImportError:
            raise MissingPackage(
                "frame() gives a pandas DataFrame: `pip install pandas`, or use query(…).fetchnumpy()."
            ) from None
        rows = self.query("select * from results order by run, episode").df()
        about = pandas.DataFrame([_flat(run) for run in self.runs()])
        return rows.merge(about, on="run", how="left", validate="many_to_one")

    def runs(self) -> Iterator[dict[str, Any]]:
        """What each finished run was, in the order of their ids."""
        return (self.about(run) for run in sorted(self.finished()))

    # What a sweep does

    def commit(self, outcomes: Sequence[FinishedRun], encoder: Encoder) -> None:
        """Make runs finished: first what they are and what they ended with, then their results."""
        if not outcomes:
            return
        encoded = encoder({outcome.run.id: outcome.columns for outcome in outcomes})
        about = {
            outcome.run.id: {
                "run": outcome.run.id,
                **outcome.run.content,
                **outcome.facts,
                "seconds": outcome.seconds,
                "provenance": outcome.provenance,
            }
            for outcome in outcomes
        }
        policies = {
            outcome.run.id: files.pack(
                "policy", {"policy": outcome.policy}, {"run": outcome.run.id}
            )
            for outcome in outcomes
            if outcome.policy is not None
        }
        files.replace_all(
            {self._file(run, "safetensors"): data for run, data in policies.items()}
            | {
                self._file(run, "json"): json.dumps(what).encode() + b"\n"
                for run, what in about.items()
            }
        )
        files.replace_all({self._file(run, "parquet"): data for run, data in encoded.items()})

    def tidy(self) -> None:
        """Take away what killed sweeps left behind: half-written files, and checkpoints of finished runs."""
        claims = Claims(self.claims)
        left = [
            *(self.path / "runs").glob(".*.tmp"),
            *self.checkpoints.glob(".*.tmp"),
            *self.checkpoints.glob("*.safetensors"),
            *self.claims.iterdir(),
        ]
        for path in left:
            run = path.name.removeprefix(".").partition(".")[0]
            if not claims.take(run):
                continue  # another sweep is at work on it
            if path.suffix == ".tmp" or self.is_finished(run):
                files.disk.remove(path)
            claims.release(run)

    @property
    def checkpoints(self) -> Path:
        """Where unfinished runs are kept."""
        return self.path / "checkpoints"

    @property
    def claims(self) -> Path:
        """Where sweeps say what they are at work on."""
        return self.path / "claims"

    def _file(self, run: str, kind: str) -> Path:
        return self.path / "runs" / f"{run}.{kind}"

    def _connect(self) -> duckdb.DuckDBPyConnection:
        """A DuckDB with both views; a new one each time, since new files may bring new columns."""
        import duckdb

        folder = str((self.path / "runs").resolve()).replace("'", "''")
        columns = ", ".join(f"{name}: '{kind}'" for name, kind in ABOUT.items())
        connection = duckdb.connect(":memory:")
        connection.execute(
            f"create view results as from read_parquet('{folder}/*.parquet', union_by_name = true)"
        )
        connection.execute(
            f"create view runs as from read_json('{folder}/*.json', columns = {{{columns}}}) "
            "where run in (select distinct run from results)"
        )
        return connection


def _flat(about: dict[str, Any]) -> dict[str, Any]:
    """What a run was in one row."""
    names = ("run", "problem", "learner", "seed", "episodes", "anytime", "optimum", "rho")
    row = {name: about[name] for name in names}
    for part in ("problem", "learner"):
        row.update({f"{part}.{k}": v for k, v in about[f"{part}_options"].items()})
    if about["signals"]:
        row["signals"] = json.dumps(about["signals"], sort_keys=True)
    row.update({f"limit_{i}": limit for i, limit in enumerate(about["limits"])})
    return row


def by_run(found: Mapping[str, NDArray]) -> dict[str, Columns]:
    """Rows in the order of their runs, taken apart: run -> column -> values; NaN where there is none."""
    names = np.asarray(found["run"], dtype=str)
    filled = {
        k: np.ma.filled(np.ma.asarray(v, np.float64), np.nan)
        for k, v in found.items()
        if k != "run"
    }
    starts = np.flatnonzero(np.r_[True, names[1:] != names[:-1]])
    ends = np.r_[starts[1:], len(names)]
    return {
        str(names[a]): {k: v[a:b] for k, v in filled.items()}
        for a, b in zip(starts, ends, strict=True)
    }
