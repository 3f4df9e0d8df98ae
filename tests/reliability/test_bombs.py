"""Small files that ask for all memory, and flipped bits: refused, in every reader, under a limit of memory."""

from __future__ import annotations

import io
import json
import os
import random
import subprocess
import sys
import zipfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pytest

import safespot as ss
from safespot import files
from tests.support.contract import Subject
from tests.support.sweeping import sweep_inline, tiny
from tests.support.trails import example

SPOT = Subject("spot", "masked")
LIMITED = """
import json, resource, sys, numpy
from pathlib import Path
import safespot as ss
from safespot.data.model_files import read_cmdp
from safespot.experiments import read_spec
import duckdb, scipy.sparse
readers = {
    "cmdp": ss.CMDP.load, "learner": ss.learners.load, "model": read_cmdp, "log": ss.read_log,
    "sweep": lambda path: read_spec(path).runs(),
}
duckdb.sql("select 1").fetchall()
size = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (size + int(sys.argv[1]), resource.RLIM_INFINITY))
said = {}
for name, reader, path in json.loads(sys.argv[2]):
    try:
        readers[reader](path)
    except ss.SafespotError as problem:
        said[name] = str(problem)[:300]
    except BaseException as problem:
        said[name] = f"not refused: {problem!r}"
print(json.dumps(said))
"""


# --- Bombs


def cmdp_bomb(path: Path) -> None:
    example().cmdp.save(path)
    arrays, about = files.read_arrays(path, "cmdp")
    arrays["thresholds"] = arrays["thresholds"].sum(axis=1)  # totals, spread over the steps
    files.write_arrays(path, "cmdp", arrays, {**about, "horizon": 10**10})


def learner_bomb(path: Path, **sizes: int) -> None:
    SPOT.make().save(path)
    arrays, about = files.read_arrays(path, "learner")
    about["arguments"].update(sizes or {"states": 10**9})
    files.write_arrays(path, "learner", arrays, about)


def toml_bomb(path: Path) -> None:
    path.write_text(
        "transitions = [[[1.0]]]\nrewards = [[0.0]]\nconstraints = [[[0.0]]]\nthresholds = [0.0]\nhorizon = 10000000000"
    )


def npz_bomb(path: Path) -> None:
    """150 MB of zeros in some kilobytes."""
    head = io.BytesIO()
    said = {"descr": "<f8", "fortran_order": False, "shape": (18_750_000,)}
    entry_of = zipfile.ZipInfo("rewards.npy")
    entry_of.compress_type = zipfile.ZIP_DEFLATED
    np.lib.format.write_array_header_1_0(head, said)
    with (
        zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive,
        archive.open(entry_of, "w", force_zip64=True) as entry,
    ):
        entry.write(head.getvalue())
        for _ in range(15):
            entry.write(bytes(10**7))


def lying_npz(path: Path) -> None:
    """An entry that says that it is small and is not."""
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("rewards.npy", bytes(2**27))
    data = content.getvalue()
    path.write_bytes(data.replace((2**27).to_bytes(4, "little"), (80).to_bytes(4, "little")))


def parquet_bomb(path: Path) -> None:
    """Equal rows, 4 * 10^6 of them, in kilobytes."""
    columns = "0 as episode, 0 as step, 0 as state, 0 as action, 0 as next_state, 0.0 as reward, 0.0 as constraint_0"
    duckdb.execute(
        f"copy (select {columns}, 0.0 as threshold_0 from range(4000000)) to '{path}' "
        "(format parquet, row_group_size 4000000)"
    )


def seeds_bomb(path: Path) -> None:
    path.write_text(
        'episodes = 10\nseeds = 1000000000\n[problem]\nname = "machine"\n[[learners]]\nname = "spot"\n'
        "options = { rho = 1.0 }\n"
    )


def grid_bomb(path: Path) -> None:
    """A hundred choices each of twenty options: 10^40 runs."""
    each = ", ".join(f"o{k} = {list(range(100))}" for k in range(20))
    path.write_text(
        'episodes = 10\nseeds = 1\n[problem]\nname = "machine"\n[[learners]]\nname = "spot"\n'
        f"grid = {{ {each} }}\n"
    )


BOMBS: dict[str, tuple[str, str, Callable[[Path], None]]] = {
    "CMDP": ("cmdp", "x", cmdp_bomb),
    "learner of many states": ("learner", "x", learner_bomb),
    "learner of long episodes": ("learner", "x", partial(learner_bomb, horizon=10**8)),
    "learner of many actions": ("learner", "x", partial(learner_bomb, actions=10**15)),
    "model.toml": ("model", "x.toml", toml_bomb),
    "model.npz": ("model", "x.npz", npz_bomb),
    "model.npz that lies": ("model", "x.npz", lying_npz),
    "log.parquet": ("log", "x.parquet", parquet_bomb),
    "sweep of many seeds": ("sweep", "x.toml", seeds_bomb),
    "sweep of many settings": ("sweep", "x.toml", grid_bomb),
}


def test_small_files_that_ask_for_all_memory_are_refused(tmp_path: Path) -> None:
    """By a process that may not take much memory, nor time."""
    asked = []
    for k, (name, (reader, file, make)) in enumerate(BOMBS.items()):
        path = tmp_path / f"{k}{file}"
        make(path)
        assert path.stat().st_size < 10**7
        asked.append((name, reader, str(path)))
    settings = {"NUMBA_DISABLE_JIT": "1", "SAFESPOT_MEMORY": str(2**26)}
    done = subprocess.run(
        [sys.executable, "-c", LIMITED, str(2**28), json.dumps(asked)], capture_output=True, text=True, timeout=300,
        env={**os.environ, **settings, "PYTHONPATH": str(Path(ss.__file__).parents[1])},
    )  # fmt: skip
    said = json.loads(done.stdout or "{}")
    assert [name for name in BOMBS if said.get(name, "not").startswith("not refused")] == []
    assert said.keys() == BOMBS.keys(), done.stderr[-2000:]


# --- Flipped bits


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[Path, Callable[[], Any]]]:
    """Every kind of file that is written and read again: where it is, and what reading it gives."""
    folder = tmp_path_factory.mktemp("written")
    with ss.open(folder / "durable", SPOT.make()) as durable:
        for t in range(3):
            durable.observe(SPOT.episode(np.random.default_rng(t)))
    store = sweep_inline(folder / "store", tiny(seeds=1))
    run = sorted(store.finished())[0]

    def reopen() -> str:
        with ss.open(folder / "durable") as again:
            return files.checksum(again.learner.arrays(), {})

    def ask() -> str:
        asked = ss.experiments.Store(store.path)
        return repr(
            (asked.query("from results order by run, episode").fetchall(), list(asked.runs()))
        )

    runs, snapshot = store.path / "runs", next((folder / "durable").glob("snapshot-*"))
    return {
        "snapshot": (snapshot, reopen),
        "identity": (folder / "durable" / "identity", reopen),
        "results": (runs / f"{run}.parquet", ask),
        "run": (runs / f"{run}.json", ask),
        "policy": (runs / f"{run}.safetensors", lambda: np.asarray(store.policy(run)).tolist()),
        "store": (store.path / "store.json", ask),
    }


KINDS = ("snapshot", "identity", "results", "run", "policy", "store")  # the others are fuzzed


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.filterwarnings(
    "ignore"
)  # of a torn end and a damaged snapshot: both are said, and right
def test_a_flipped_bit_is_refused_or_harmless(kind: str, written: Any) -> None:
    path, read = written[kind]
    before, data = read(), path.read_bytes()
    rng, refused, wrong = random.Random(kind), 0, []
    bits = range(8 * len(data)) if len(data) < 40 else sorted(rng.sample(range(8 * len(data)), 60))
    try:
        for bit in bits:
            mutant = bytearray(data)
            mutant[bit // 8] ^= 1 << (bit % 8)
            path.write_bytes(mutant)
            try:
                found = read()
            except ss.SafespotError:
                refused += 1
                continue
            if found != before:
                wrong.append(bit)
    finally:
        path.write_bytes(data)
    assert wrong == []
    assert refused > 0
    assert read() == before


def test_every_damage_to_a_run_is_a_typed_error(written: Any) -> None:
    path, ask = written["run"]
    data = path.read_bytes()
    about = json.loads(data)
    try:
        for content in (
            b"", b"{", b"[]", b"3", b"null", b"[" * 10**5, b"\xff", b'{"run": 3}', b"9" * 5000,
            json.dumps({**about, "seed": 1}).encode(),
            json.dumps({k: v for k, v in about.items() if k != "results_blake2b"}).encode(),
        ):  # fmt: skip
            path.write_bytes(content)
            with pytest.raises(ss.errors.InvalidFile, match="damaged"):
                ask()
    finally:
        path.write_bytes(data)
