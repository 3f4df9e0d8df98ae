"""A store of results: a folder of files that are whole or absent.

    store.json                                what this folder is
    runs/<id>.parquet                         the results of a finished run, a row per recorded episode
    runs/<id>.json                            what the run was, and where it comes from
    runs/<id>.safetensors                     its policies [H,S,A], unless they have too many entries to keep
    checkpoints/<id>.<0|1>.safetensors        an unfinished run, two generations
    claims/<id>                               a lock, while a sweep of this host is at work on it

A run is finished when its Parquet file exists. The JSON file carries the checksum of the Parquet file and its own;
both are compared before anything is read. See docs/store.md.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import weakref
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from .. import __version__, files
from ..arrays import Policy
from ..display import Displayed
from ..errors import InvalidFile, MissingPackage, SafespotError, UnknownName, unknown
from ..storage import tables
from ..training.run_tables import Columns
from .locks import Claims
from .parquet import Encoder
from .spec import RunSpec

if TYPE_CHECKING:
    import duckdb
    import pandas

FORMAT = 3
POLICIES = ("policy", "proposal", "certified")
POLICY_ENTRIES = 250_000  # up to which a policy is kept: 2 MB
ABOUT = {
    "run": "VARCHAR", "problem": "VARCHAR", "problem_options": "JSON", "signals": "JSON",
    "learner": "VARCHAR", "label": "VARCHAR", "learner_options": "JSON", "anytime": "BOOLEAN", "episodes": "BIGINT",
    "seed": "BIGINT", "record": "JSON", "track": "VARCHAR", "optimum": "DOUBLE", "limits": "DOUBLE[]",
    "rho": "DOUBLE", "certificate": "JSON", "epochs": "JSON", "proposal": "JSON", "certified": "JSON",
    "certificates": "JSON", "diagnosis": "JSON", "guard": "JSON", "seconds": "DOUBLE", "provenance": "JSON",
}  # fmt: skip


# Before version 1.5 of DuckDB an answer does not keep its database open. What is derived from an answer needs the
# database too: so a store keeps the last one.
_databases: weakref.WeakKeyDictionary[Any, Any] = weakref.WeakKeyDictionary()


@contextlib.contextmanager
def answering() -> Iterator[None]:
    """What DuckDB raises, also when an answer is fetched, in our words."""
    import duckdb

    try:
        with tables.interruptible():
            yield
    except duckdb.Error as problem:
        raise SafespotError(f"DuckDB cannot answer that: {problem}") from None


@dataclass(frozen=True, eq=False)
class FinishedRun:
    """A run that has come to its end."""

    run: RunSpec
    columns: Columns
    policies: dict[
        str, Policy
    ]  # by the names of `POLICIES`; none where they are too large to be kept
    facts: dict[str, Any]  # the optimum, the limits, rho, what was certified
    seconds: float  # of learning
    provenance: dict[str, Any]


class Store(Displayed):
    """The results in a folder; `Store.create` makes it where there is none.

    Examples:
        >>> import safespot as ss
        >>> study = {
        ...     "episodes": 200, "seeds": 3, "problem": {"name": "machine"},
        ...     "learners": [{"name": "uniform"}, {"name": "spot", "options": {"slack": 1, "bonus_scale": 0.01}}],
        ... }
        >>> store = ss.experiments.sweep(study, "results", workers=1, progress=False).store
        >>> store.query("select learner, count(*) from runs group by learner order by learner").fetchall()
        [('spot', 3), ('uniform', 3)]
        >>> len(ss.experiments.Store("results").finished())
        6

    """

    def __init__(self, path: str | Path) -> None:
        self.path = files.as_path(path)
        self._whole: dict[
            str, tuple[Any, ...]
        ] = {}  # run -> what its files looked like when they were checked
        self._asked: duckdb.DuckDBPyConnection | None = None
        try:
            about = json.loads((self.path / "store.json").read_text(encoding="utf-8"))
            found = about["store"]
        except (OSError, ValueError, KeyError, TypeError, RecursionError):
            raise InvalidFile(
                f"{path} is not a store of results: it has no store.json. Give a folder that `sweep` wrote."
            ) from None
        files.check_version(self.path, found, FORMAT, about.get("safespot"))

    @classmethod
    def create(cls, path: str | Path) -> Store:
        """The store in that folder, which is made, unless it is one."""
        folder = files.as_path(path)
        if folder.exists() and not folder.is_dir():
            raise InvalidFile(f"{path} is not a folder; give a new folder, or an existing store.")
        try:
            folder.mkdir(parents=True, exist_ok=True)
            if not (folder / "store.json").exists():
                # What a process left that died, or whose disk was full, while it made the store.
                begun = set(folder.glob(".store.json.*.tmp"))
                if set(folder.iterdir()) - begun:
                    raise InvalidFile(
                        f"{path} is neither empty nor a store; give a new folder, or an existing store."
                    )
                for left in begun:
                    files.disk.remove(left)
                # First: what has this file is a store, and the rest is made where it is missing.
                about = {"store": FORMAT, "safespot": __version__}
                files.replace(folder / "store.json", json.dumps(about).encode() + b"\n")
            store = cls(folder)
            for part in ("runs", "checkpoints", "claims"):
                (folder / part).mkdir(exist_ok=True)
        except OSError as problem:
            raise files.failure(f"cannot make {path}", problem) from None
        return store

    def _facts(self) -> dict[str, Any]:
        return {"path": str(self.path), "finished": len(self.finished())}

    # What is there

    def finished(self) -> set[str]:
        """The ids of the finished runs."""
        return {path.stem for path in (self.path / "runs").glob("*.parquet")}

    def is_finished(self, run: str) -> bool:
        """Whether a run is finished."""
        return self._file(run, "parquet").exists()

    def about(self, run: str) -> dict[str, Any]:
        """What a finished run was, and where it comes from."""
        if not isinstance(run, str) or not self._file(run, "json").is_file():
            raise UnknownName(f"{self.path} has no finished run {run!r}.")
        return _read_about(self._file(run, "json"))

    def policy(self, run: str, which: str = "policy") -> Policy | None:
        """A policy ``[H,S,A]`` of a finished run; None: there is none, or it was too large to be kept.

        `which` is the "policy" that it ended with, the "proposal" of a learner that has one, or the best one that was
        "certified".
        """
        self.about(run)
        if which not in POLICIES:
            raise UnknownName(unknown("policy", which, POLICIES))
        path = self._file(run, "safetensors")
        if not path.exists():
            return None
        arrays, about = files.read_arrays(path, "policy")
        if about.get("run") != run or "policy" not in arrays:
            raise InvalidFile(f"{path} holds the policies of another run.")
        return arrays.get(which)

    def columns(self, runs: Sequence[str], names: Sequence[str] = ()) -> dict[str, Columns]:
        """The results of some finished runs, run -> column -> values; NaN where a run does not have a column.

        With `names`, these columns and the episodes only.
        """
        import duckdb

        if not runs:
            return {}
        self._check(runs)
        paths = [self._file(run, "parquet") for run in runs]
        chosen = ", ".join(["run", "episode", *names]) if names else "*"
        question = f"select {chosen} from {tables.parquet(paths)} order by run, episode"
        try:
            with tables.interruptible(), tables.connect() as database:
                width = len(database.execute(f"describe {question}").fetchall())
                tables.check_rows(database, paths, width)
                found = database.execute(question).fetchnumpy()
        except duckdb.Error as problem:
            raise InvalidFile(f"cannot read results of {self.path}: {problem}") from None
        return by_run(found)

    def query(self, sql: str, parameters: Sequence[Any] | None = None) -> duckdb.DuckDBPyRelation:
        """DuckDB's answer to a query over the views `results` and `runs`.

        It is read where and how you like: ``.fetchall()``, ``.fetchnumpy()``, ``.df()``, ``.pl()``, ``.arrow()``.
        """
        finished = sorted(self.finished())
        if not finished:
            raise InvalidFile(f"{self.path} has no finished run yet.")
        self._check(finished)
        with answering():
            self._asked = database = self._connect(finished)
            answer = database.sql(sql, params=parameters)
        if answer is None:
            raise SafespotError(
                "the statement returned no rows; expected a query, such as `select * from runs`."
            )
        _databases[answer] = database
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
        about: dict[str, dict[str, Any]] = {
            outcome.run.id: {
                "run": outcome.run.id,
                **outcome.run.content,
                "label": outcome.run.label,
                **outcome.facts,
                "seconds": outcome.seconds,
                "provenance": outcome.provenance,
                "results_blake2b": _digest(encoded[outcome.run.id]),
            }
            for outcome in outcomes
        }
        policies = {
            outcome.run.id: files.pack("policy", dict(outcome.policies), {"run": outcome.run.id})
            for outcome in outcomes
            if outcome.policies
        }
        files.replace_all(
            {self._file(run, "safetensors"): data for run, data in policies.items()}
            | {self._file(run, "json"): _about_bytes(what) for run, what in about.items()}
        )
        files.replace_all({self._file(run, "parquet"): data for run, data in encoded.items()})

    def relabel(self, runs: Iterable[RunSpec]) -> None:
        """Call finished runs what these say; nothing else of them changes."""
        changed = {}
        for run in runs:
            about = self.about(run.id)
            if about.get("label") != run.label:
                changed[self._file(run.id, "json")] = _about_bytes({**about, "label": run.label})
        if changed:
            files.replace_all(changed)

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
            try:
                if path.suffix == ".tmp" or self.is_finished(run):
                    files.disk.remove(path)
            except OSError as problem:
                raise files.failure(f"cannot remove {path}", problem) from None
            finally:
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

    def _check(self, runs: Sequence[str]) -> None:
        """Raise unless the files of some runs are what was written; what has been found whole is not read again."""
        for run in runs:
            paths = [self._file(run, kind) for kind in ("json", "parquet")]
            try:
                looks = tuple(
                    (s.st_ino, s.st_size, s.st_mtime_ns) for s in (path.stat() for path in paths)
                )
            except OSError:
                raise UnknownName(f"{self.path} has no finished run {run!r}.") from None
            if self._whole.get(run) == looks:
                continue
            about, results = _read_about(paths[0]), files.read_bytes(paths[1])
            if about["run"] != run or about["results_blake2b"] != _digest(results):
                raise InvalidFile(
                    f"{paths[1]} is damaged: its checksum is not the one in {paths[0].name}. Restore both files from a "
                    "copy, or remove them and run the sweep again."
                )
            self._whole[run] = looks

    def _connect(self, runs: Sequence[str]) -> duckdb.DuckDBPyConnection:
        """A DuckDB with both views; a new one each time, since new files may bring new columns."""
        connection = tables.connect()
        results, abouts = ([self._file(run, kind) for run in runs] for kind in ("parquet", "json"))
        connection.execute(f"create view results as from {tables.parquet(results)}")
        connection.execute(f"create view runs as from {tables.json(abouts, ABOUT)}")
        return connection


def _about_bytes(about: Mapping[str, Any]) -> bytes:
    """What a run was, as a line of JSON with its own checksum."""
    return json.dumps({**about, "blake2b": _digest(_canonical(about))}).encode() + b"\n"


def _read_about(path: Path) -> dict[str, Any]:
    """What `_about_bytes` wrote; damage is an `InvalidFile`."""
    try:
        about = json.loads(files.read_bytes(path))
        expected = about.pop("blake2b")
        whole = _digest(_canonical(about)) == expected
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        whole = False
    if not whole:
        raise InvalidFile(
            f"{path} is damaged: its checksum does not fit. Restore it from a copy, or remove the files of this run "
            "and run the sweep again."
        )
    found: dict[str, Any] = about
    return found


def _canonical(about: Mapping[str, Any]) -> bytes:
    return json.dumps(about, sort_keys=True, separators=(",", ":"), allow_nan=False).encode()


def _digest(data: bytes) -> str:
    return hashlib.blake2b(data, digest_size=32).hexdigest()


def _flat(about: dict[str, Any]) -> dict[str, Any]:
    """What a run was in one row."""
    names = ("run", "problem", "learner", "seed", "episodes", "anytime", "optimum", "rho")
    row = {name: about[name] for name in names}
    for part in ("problem", "learner"):
        row.update({f"{part}.{k}": v for k, v in about[f"{part}_options"].items()})
    if about["signals"]:
        row["signals"] = json.dumps(about["signals"])
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
