"""The audit trail of a durable learner: what was seen and done, with what probability, under which policy."""

from __future__ import annotations

import contextlib
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from . import files, journal
from .errors import InvalidFile

FORMATS = {".parquet": "format parquet", ".csv": "format csv, header"}


def export_episodes(path: str | Path, to: str | Path) -> int:
    """Write every episode in the journals of a durable learner to a file; returns how many.

    One row a step, Parquet or CSV by the ending of `to`: `episode` (from 1), `step`, `state`, `action`, `reward`,
    `constraint_0` …, `threshold_0` … (NULL: no sample), `next_state`, the `probability` that the policy gave the
    action, and `policy_version`, the number of episodes that this policy had learned from.

    The learner may be open elsewhere.
    """
    import duckdb

    to = Path(to)
    if to.suffix not in FORMATS:
        raise InvalidFile(f"{to}: expected a name that ends in {' or '.join(sorted(FORMATS))}.")
    folder, episodes = Path(path), 0
    starts = list(journal.numbered(folder, "journal"))
    if not starts:
        raise InvalidFile(f"{folder} holds no durable learner: it has no journal.")
    temporary = to.with_name(f".{to.name}.tmp")
    try:
        with duckdb.connect(":memory:") as database:
            for found in journal.chain(folder, starts[0]):
                if not len(found.records):
                    continue
                steps = _columns(found.records)
                database.register("steps", steps)
                absent = ", ".join(
                    f"case when not isnan({name}) then {name} end as {name}"
                    for name in steps
                    if "threshold" in name
                )
                chosen = f"select * replace ({absent}) from steps"
                database.execute(f"create table if not exists trail as {chosen} limit 0")
                database.execute(f"insert into trail {chosen}")
                database.unregister("steps")
                episodes += len(found.records)
            if not episodes:
                raise InvalidFile(f"{folder} has no episodes yet.")
            quoted = str(temporary).replace("'", "''")
            database.execute(f"copy trail to '{quoted}' ({FORMATS[to.suffix]})")
        with temporary.open("rb") as file:
            files.disk.sync(file.fileno())
        files.disk.rename(temporary, to)
        files.disk.sync_folder(to.parent)
    except (OSError, duckdb.Error) as problem:
        with contextlib.suppress(OSError):
            files.disk.remove(temporary)
        raise InvalidFile(f"cannot write {to}: {problem}") from None
    return episodes


def _columns(records: NDArray) -> dict[str, NDArray]:
    """The steps of some records, a column each."""
    n, H, m = records["constraints"].shape
    columns = {
        "episode": np.repeat(records["number"].astype(np.int64) + 1, H),
        "step": np.tile(np.arange(H), n),
        "state": records["states"][:, :-1],
        "action": records["actions"],
        "reward": records["rewards"],
        **{f"constraint_{i}": records["constraints"][:, :, i] for i in range(m)},
        **{f"threshold_{i}": records["thresholds"][:, :, i] for i in range(m)},
        "next_state": records["states"][:, 1:],
        "probability": records["probabilities"],
        "policy_version": np.repeat(records["number"].astype(np.int64), H),
    }
    return {name: np.ascontiguousarray(column).reshape(-1) for name, column in columns.items()}
