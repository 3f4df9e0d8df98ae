"""Results as Parquet: the columns of a run, and their bytes.

The bytes depend on nothing but the columns and DuckDB's version, however many runs are encoded together.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from ..files import scratch
from ..storage.tables import connect, target, writing
from ..training.run_tables import Columns

LONG = 2**16  # rows, about half a row group


class Encoder:
    """Turns columns into the bytes of Parquet files; keeps one DuckDB for all of them."""

    def __init__(self) -> None:
        # One thread, so that rows keep their order and bytes do not depend on the machine.
        self.duckdb = connect(threads=1)
        self.scratch = scratch()

    def __call__(self, runs: Mapping[str, Columns]) -> dict[str, bytes]:
        """The bytes of each run, whose name becomes its first column.

        DuckDB takes a millisecond to read a set of arrays and one to plan a query, so runs with the same columns are
        read together and written by one prepared query. (Writing them all at once, as partitions, loses the order of
        rows.) Where a row group ends depends on where in the table a run begins, so a long run is read alone.
        """
        alike: dict[tuple[str, ...], list[str]] = defaultdict(list)
        for name, found in runs.items():
            alone = (name,) if len(found["episode"]) > LONG else ()
            alike[(*alone, *found)].append(name)
        encoded: dict[str, bytes] = {}
        for names in alike.values():
            encoded |= self._encode({name: runs[name] for name in names})
        return encoded

    def close(self) -> None:
        """Give back the memory and the scratch folder."""
        self.duckdb.close()
        self.scratch.cleanup()

    def _encode(self, runs: dict[str, Columns]) -> dict[str, bytes]:
        rows = [len(found["episode"]) for found in runs.values()]
        table = {"which": np.repeat(np.arange(len(runs)), rows)}
        for column in next(iter(runs.values())):
            table[column] = np.concatenate([found[column] for found in runs.values()])
        path = Path(self.scratch.name, "run.parquet")
        encoded = {}
        with writing(f"cannot encode results in {path}"):
            self.duckdb.register("arrays", table)
            self.duckdb.execute("create or replace temp table runs as from arrays")
            self.duckdb.unregister("arrays")
            self.duckdb.execute(
                "prepare write as copy (select $2::varchar as run, * exclude which from runs where which = $1) "
                f"to {target(path)} (format parquet, compression snappy, use_tmp_file false)"
            )
            for which, name in enumerate(runs):
                self.duckdb.execute(f"execute write({which}, '{name}')")
                encoded[name] = path.read_bytes()
            self.duckdb.execute("deallocate write")
        return encoded
