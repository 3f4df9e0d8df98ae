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
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pytest

import safespot as ss
from safespot import files
from safespot.data.model_files import read_cmdp
from safespot.experiments import read_spec
from safespot.experiments.checkpoints import Checkpoint
from safespot.experiments.worker import begin, fresh
from safespot.storage import journal
from tests.support.contract import Subject
from tests.support.sweeping import sweep_inline, tiny
from tests.support.trails import example

SPOT = Subject("spot", "masked")
ROOM = 2**28  # bytes that a reader may take beyond what the process has
LIMITED = """
import resource, sys, numpy
from pathlib import Path
import safespot as ss
from safespot.data.model_files import read_cmdp
from safespot.experiments import read_spec
import duckdb, scipy.sparse
readers = {
    "cmdp": ss.CMDP.load, "learner": ss.learners.load, "certificate": ss.Certificate.load, "model": read_cmdp,
    "log": ss.read_log, "sweep": lambda path: read_spec(path).runs(),
    "store": lambda path: ss.experiments.Store(path).columns(sorted(ss.experiments.Store(path).finished())),
    "journal": lambda path: ss.open(path), "trail": lambda path: ss.logs.export_episodes(path, "out.csv"),
}
duckdb.sql("select 1").fetchall()
size = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (size + int(sys.argv[3]), resource.RLIM_INFINITY))
try:
    readers[sys.argv[1]](sys.argv[2])
except ss.SafespotError as problem:
    print("refused:", str(problem)[:300])
"""


def under_limit(reader: str, path: Path, room: int = ROOM) -> str:
    """What a reader says to a file, in a process that may not take much memory, nor time."""
    done = subprocess.run(
        [sys.executable, "-c", LIMITED, reader, str(path), str(room)], capture_output=True, text=True, timeout=120,
        cwd=path.parent, env={**os.environ, "NUMBA_DISABLE_JIT": "1", "PYTHONPATH": str(Path(ss.__file__).parents[1])},
    )  # fmt: skip
    assert done.stdout.startswith("refused: "), done.stderr[-2000:]
    return done.stdout.removeprefix("refused: ")


# --- Bombs


def _retold(path: Path, kind: str, change: Callable[[dict[str, Any]], None]) -> None:
    arrays, about = files.read_arrays(path, kind)
    change(about)
    files.write_arrays(path, kind, arrays, about)


def cmdp_bomb(path: Path) -> None:
    example().cmdp.save(path)
    arrays, about = files.read_arrays(path, "cmdp")
    arrays["thresholds"] = arrays["thresholds"].sum(axis=1)  # totals, spread over the steps
    files.write_arrays(path, "cmdp", arrays, {**about, "horizon": 10**10})


def learner_bomb(path: Path) -> None:
    SPOT.make().save(path)
    _retold(path, "learner", lambda about: about["arguments"].update(states=10**9))


def toml_bomb(path: Path) -> None:
    path.write_text(
        "transitions = [[[1.0]]]\nrewards = [[0.0]]\nconstraints = [[[0.0]]]\nthresholds = [0.0]\nhorizon = 10000000000"
    )


def npz_bomb(path: Path) -> None:
    """More than a gigabyte of zeros in a megabyte."""
    head = io.BytesIO()
    said = {"descr": "<f8", "fortran_order": False, "shape": (150_000_000,)}
    entry_of = zipfile.ZipInfo("rewards.npy")
    entry_of.compress_type = zipfile.ZIP_DEFLATED
    np.lib.format.write_array_header_1_0(head, said)
    with (
        zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive,
        archive.open(entry_of, "w", force_zip64=True) as entry,
    ):
        entry.write(head.getvalue())
        for _ in range(12):
            entry.write(bytes(10**8))


def lying_npz(path: Path) -> None:
    """An entry that says that it is small and is not."""
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("rewards.npy", bytes(2**29))
    data = content.getvalue()
    path.write_bytes(data.replace((2**29).to_bytes(4, "little"), (80).to_bytes(4, "little")))


def parquet_bomb(path: Path) -> None:
    """Equal rows, 4 * 10^7 of them, in kilobytes."""
    columns = "0 as episode, 0 as step, 0 as state, 0 as action, 0 as next_state, 0.0 as reward, 0.0 as constraint_0"
    duckdb.execute(
        f"copy (select {columns}, 0.0 as threshold_0 from range(40000000)) to '{path}' "
        "(format parquet, row_group_size 40000000)"
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
    "learner": ("learner", "x", learner_bomb),
    "model.toml": ("model", "x.toml", toml_bomb),
    "model.npz": ("model", "x.npz", npz_bomb),
    "model.npz that lies": ("model", "x.npz", lying_npz),
    "log.parquet": ("log", "x.parquet", parquet_bomb),
    "sweep of many seeds": ("sweep", "x.toml", seeds_bomb),
    "sweep of many settings": ("sweep", "x.toml", grid_bomb),
}


@pytest.mark.parametrize("name", BOMBS)
def test_a_small_file_that_asks_for_all_memory_is_refused(name: str, tmp_path: Path) -> None:
    reader, file, make = BOMBS[name]
    make(tmp_path / file)
    assert (tmp_path / file).stat().st_size < 10**7
    under_limit(reader, tmp_path / file, 2**29)


def test_who_means_it_may_say_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "x.toml"
    path.write_text(
        "transitions = [[[1.0]]]\nrewards = [[0.0]]\nconstraints = [[[0.0]]]\nthresholds = [0.0]\nhorizon = 1000"
    )
    monkeypatch.setenv("SAFESPOT_MEMORY", "15999")
    with pytest.raises(
        ss.errors.InvalidFile, match=r"x.toml asks for 16,000 bytes .* SAFESPOT_MEMORY to 16000"
    ):
        read_cmdp(path)
    monkeypatch.setenv("SAFESPOT_MEMORY", "16000")
    assert read_cmdp(path).H == 1000
    monkeypatch.setenv("SAFESPOT_MEMORY", "much")
    with pytest.raises(ss.errors.InvalidFile, match="whole number of bytes"):
        read_cmdp(path)


def test_a_number_that_no_array_can_hold_is_refused(tmp_path: Path) -> None:
    problem = ss.problems.make("machine")
    for count in (2**63, 10**30, 10**400):
        with pytest.raises(ss.errors.InvalidOption, match="at most"):
            ss.Spot(**problem.interface, episodes=count, rho=1.0)
        with pytest.raises(ss.errors.InvalidOption, match="at most"):
            ss.learn(problem, ss.Spot(**problem.interface, episodes=10, rho=1.0), record=count)
        spec = {
            "episodes": 10,
            "seeds": [count],
            "problem": {"name": "machine"},
            "learners": [{"name": "spot"}],
        }
        with pytest.raises(ss.errors.InvalidOption, match="seeds"):
            ss.experiments.as_spec(spec)
        with pytest.raises(ss.errors.InvalidOption, match="episodes"):
            ss.experiments.as_spec({**spec, "seeds": 1, "episodes": count})
    path = tmp_path / "x.toml"
    path.write_text(f"episodes = {'9' * 5000}\nseeds = 1")
    with pytest.raises(ss.errors.InvalidOption, match="is not TOML"):
        read_spec(path)


# --- Flipped bits


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[Path, Callable[[], Any]]]:
    """Every kind of file that is written and read again: where it is, and what reading it gives."""
    folder = tmp_path_factory.mktemp("written")
    learner = SPOT.run(SPOT.make(), 1, 12)
    learner.save(folder / "learner")
    cmdp = example(units=True, mask="states").cmdp
    cmdp.save(folder / "cmdp")
    problem = ss.problems.make("machine")
    policy = ss.solve(problem.cmdp).policy
    ss.certify(problem, policy, episodes=50).save(folder / "certificate")
    with ss.open(folder / "durable", SPOT.make()) as durable:
        for t in range(3):
            durable.observe(SPOT.episode(np.random.default_rng(t)))
    store = sweep_inline(folder / "store", tiny(seeds=1))
    run = sorted(store.finished())[0]
    spec = tiny(seeds=1)[0]
    unfinished = ss.experiments.Store.create(folder / "unfinished")
    checkpoint, training = Checkpoint(unfinished.checkpoints, spec.id), fresh(spec)
    training.advance(20)
    checkpoint.save(training.arrays(), training.learner.episode - 1)

    def digest(arrays: Any) -> str:
        return files.checksum(arrays, {})

    def resume() -> str:
        found, notes = begin(spec, Checkpoint(unfinished.checkpoints, spec.id))
        if notes:
            raise ss.errors.InvalidFile(notes[0])
        return digest(found.arrays())

    def reopen() -> str:
        with ss.open(folder / "durable") as again:
            return digest(again.learner.arrays())

    def ask() -> str:
        asked = ss.experiments.Store(store.path)
        return repr(
            (asked.query("from results order by run, episode").fetchall(), list(asked.runs()))
        )

    runs, snapshot = store.path / "runs", next((folder / "durable").glob("snapshot-*"))
    return {
        "learner": (folder / "learner", lambda: digest(ss.learners.load(folder / "learner").arrays())),
        "CMDP": (folder / "cmdp", lambda: ss.CMDP.load(folder / "cmdp") == cmdp),
        "certificate": (folder / "certificate", lambda: ss.Certificate.load(folder / "certificate").as_dict()),
        "journal": (journal.place(folder / "durable", 0), reopen),
        "snapshot": (snapshot, reopen),
        "identity": (folder / "durable" / "identity", reopen),
        "results": (runs / f"{run}.parquet", ask),
        "run": (runs / f"{run}.json", ask),
        "policy": (runs / f"{run}.safetensors", lambda: np.asarray(store.policy(run)).tolist()),
        "store": (store.path / "store.json", ask),
        "checkpoint": (checkpoint.paths[0], resume),
    }  # fmt: skip


KINDS = (
    "learner", "CMDP", "certificate", "journal", "snapshot", "identity", "results", "run", "policy", "store",
    "checkpoint",
)  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.filterwarnings(
    "ignore"
)  # of a torn end and a damaged snapshot: both are said, and right
def test_a_flipped_bit_is_refused_or_harmless(kind: str, written: Any) -> None:
    path, read = written[kind]
    before, data = read(), path.read_bytes()
    rng, refused, wrong = random.Random(kind), 0, []
    bits = range(8 * len(data)) if len(data) < 40 else sorted(rng.sample(range(8 * len(data)), 150))
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
            if found != before and not (kind == "journal" and _is_last_record(bit // 8)):
                wrong.append(bit)
    finally:
        path.write_bytes(data)
    assert wrong == []
    assert refused > 0
    assert read() == before


def _is_last_record(byte: int) -> bool:
    """Damage there is what a crash leaves: it is cut off, with a warning."""
    f = SPOT.make().interface
    length = journal.record_length(f.H, f.m)
    return byte >= journal.HEAD.size + journal.CHECK + 2 * length


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


def test_results_under_another_name_are_noticed(written: Any, tmp_path: Path) -> None:
    """Both files of a run, whole, in the place of another run's."""
    import shutil

    store = shutil.copytree(written["store"][0].parent, tmp_path / "store")
    one, two = sorted(ss.experiments.Store(store).finished())[:2]
    for ending in ("json", "parquet"):
        shutil.copy(store / "runs" / f"{one}.{ending}", store / "runs" / f"{two}.{ending}")
    with pytest.raises(ss.errors.InvalidFile, match="damaged"):
        ss.experiments.Store(store).columns([two])
