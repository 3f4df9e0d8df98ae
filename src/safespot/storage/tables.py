"""Where DuckDB is given a path: the only place.

DuckDB reads a path as a pattern (``*``, ``?``, ``[``), takes a folder ``name=value`` for a column that replaces the
file's own, and other names for addresses of a network. Here a path is the name of one file, whatever it is.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from ..errors import DiskError, InvalidFile
from ..files import as_path, check_memory, failure

if TYPE_CHECKING:
    import duckdb

CSV = "all_varchar = true, header = true, nullstr = ['', 'NULL', 'NaN', 'nan', 'NA']"
INTERRUPTED = "Query interrupted"  # what DuckDB raises after Ctrl-C
PATTERN = "*?["  # letters that make a pattern of a name
FORMATS = {".csv": "format csv, header", ".parquet": "format parquet"}  # how a file is written


def connect(*, threads: int | None = None) -> duckdb.DuckDBPyConnection:
    """A database in memory."""
    import duckdb

    return duckdb.connect(":memory:", config={} if threads is None else {"threads": threads})


@contextlib.contextmanager
def interruptible() -> Iterator[None]:
    """Ctrl-C in the midst of a query is Ctrl-C; DuckDB makes a RuntimeError of it."""
    try:
        yield
    except RuntimeError as problem:
        if str(problem) == INTERRUPTED:
            raise KeyboardInterrupt from None
        raise


@contextlib.contextmanager
def writing(what: str) -> Iterator[None]:
    """What fails while DuckDB writes a file of its own, in our words; `what` begins the sentence."""
    import duckdb

    try:
        yield
    except OSError as problem:
        raise failure(what, problem) from None
    except (
        duckdb.IOException
    ) as problem:  # its file is a new one of ours: nobody asked for a wrong one
        said = re.search(r'"exception_message":"([^"]*)"', str(problem))
        raise DiskError(f"{what}: {said[1] if said else problem}") from None
    except duckdb.Error as problem:
        raise InvalidFile(f"{what}: {problem}") from None


def parquet(paths: Iterable[Path]) -> str:
    """The rows of Parquet files, for the FROM of a query; a column that only some have is NULL in the others."""
    return f"read_parquet({_names(paths)}, union_by_name = true, hive_partitioning = false)"


def csv(path: Path) -> str:
    """The rows of a CSV file as texts."""
    return f"read_csv({_names([path])}, {CSV}, hive_partitioning = false)"


def json(paths: Iterable[Path], columns: Mapping[str, str]) -> str:
    """The objects of JSON files, one each, with columns of these types."""
    types = ", ".join(f"{name}: '{kind}'" for name, kind in columns.items())
    return f"read_json({_names(paths)}, columns = {{{types}}}, hive_partitioning = false)"


def target(path: Path) -> str:
    """The name of a file to be written, for the TO of a COPY, which reads no patterns."""
    return _quoted(str(_plain(path)))


def check_rows(database: duckdb.DuckDBPyConnection, paths: Iterable[Path], columns: int) -> None:
    """Raise where Parquet files hold more than may be read into memory: a few bytes can say a billion equal rows."""
    every = list(paths)
    names = _names(every)
    found = database.execute(
        f"select coalesce(sum(num_rows), 0) from parquet_file_metadata({names})"
    ).fetchone()
    assert found is not None
    check_memory(every[0] if len(every) == 1 else every[0].parent, 8 * columns * int(found[0]))


def _names(paths: Iterable[Path]) -> str:
    """A list of files in SQL, with everything that has a meaning in a pattern taken as it stands."""
    return f"[{', '.join(_quoted(_escaped(str(_plain(path)))) for path in paths)}]"


def _escaped(name: str) -> str:
    r"""The pattern that matches this name alone.

    In a pattern, and only there, DuckDB takes a backslash for the end of a folder's name, and has no way to quote it.
    """
    if "\\" in name and any(letter in name for letter in PATTERN):
        raise InvalidFile(
            f"{name!r} has a backslash and one of {' '.join(PATTERN)} in its name, which DuckDB cannot open together. "
            "Rename it."
        )
    return "".join(f"[{letter}]" if letter in PATTERN else letter for letter in name)


def _plain(path: Path) -> Path:
    """An absolute path, which is no address and no home, in letters that DuckDB knows."""
    try:
        str(path).encode()
    except UnicodeEncodeError:
        raise InvalidFile(
            f"{str(path)!r} has a name that is not Unicode, which DuckDB cannot open."
        ) from None
    return as_path(path).absolute()


def _quoted(text: str) -> str:
    escaped = text.replace("'", "''")
    return f"'{escaped}'"
