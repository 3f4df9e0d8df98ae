"""The store: what is in its files, how they are asked, and who may write to them."""

from __future__ import annotations

import hashlib
import json
import math
import shutil
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import safespot as ss
from safespot import files
from safespot.experiments import Store
from safespot.experiments.locks import Claims
from safespot.experiments.parquet import Encoder
from safespot.experiments.store import FinishedRun, answering
from safespot.experiments.worker import work
from safespot.training.run_tables import columns
from tests.support.sweeping import TINY, sweep_inline, tiny

PER_CONSTRAINT = (
    "constraint", "multiplier", "threshold", "threshold_lower", "threshold_upper", "violation",
    "strong_violation",
)  # fmt: skip
DOCS = Path(__file__).parents[2] / "docs"


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    return sweep_inline(tmp_path_factory.mktemp("store") / "store", tiny())


def test_a_run_holds_what_learn_returns(store: Store) -> None:
    run = tiny()[1]
    problem = ss.problems.make("random", **TINY["problem"]["options"])
    learner = ss.Spot(
        **problem.interface,
        episodes=60,
        rho=ss.slater(problem.cmdp).rho,
        bonus_scale=0.01,
        stance=0.0,
    )
    result = ss.learn(problem, learner, seed=1)
    found = store.query(
        "select * from results where run = ? order by episode", [run.id]
    ).fetchnumpy()
    assert set(found) == {"run", *columns(result)}
    for name, column in columns(result).items():
        assert np.asarray(found[name]).tobytes() == column.tobytes(), name
    lower, upper = result.threshold_bounds
    np.testing.assert_array_equal(found["threshold_lower_0"], lower[:, 0])
    np.testing.assert_array_equal(found["threshold_upper_0"], upper[:, 0])
    np.testing.assert_array_equal(found["regret"], result.regret)
    about = store.about(run.id)
    assert about["optimum"] == result.optimum
    assert about["limits"] == problem.cmdp.limits.tolist()
    assert about["rho"] == learner.rho
    assert (about["problem"], about["learner"], about["seed"]) == ("random", "spot", 1)
    assert about["seconds"] > 0.0
    provenance = about["provenance"]
    assert provenance["versions"]["safespot"] == ss.__version__
    assert provenance["versions"]["numpy"] == np.__version__
    assert provenance["began"] <= provenance["ended"]
    assert provenance["host"]


def test_the_page_names_every_column_and_every_key(store: Store) -> None:
    page = (DOCS / "store.md").read_text()
    for name, *_ in store.query("describe select * from results").fetchall():
        name = name.removesuffix("_0") + ("_i" if name.endswith("_0") else "")
        assert f"`{name}`" in page, name
    about = store.about(tiny()[0].id)
    for name in [*about, *about["provenance"]]:
        assert f"`{name}`" in page, name


def test_two_constraints_have_two_columns(tmp_path: Path) -> None:
    runs = [
        *tiny(problem={"name": "triage"}, seeds=1)[:1],
        *tiny(seeds=1)[:1],
    ]
    store = sweep_inline(tmp_path / "store", runs)
    for run in runs:
        rows = store.query("select * from results where run = ?", [run.id])
        found = {name for name, x in rows.fetchnumpy().items() if not np.ma.getmaskarray(x).all()}
        m = 2 if run.problem == "triage" else 1
        assert found >= {f"{name}_{i}" for name in PER_CONSTRAINT for i in range(m)}
        assert all(f"{name}_{m}" not in found for name in PER_CONSTRAINT)


def test_undefined_regret_is_null(tmp_path: Path) -> None:
    # No policy can have a constraint of 1 at each of the three steps.
    signals = {"drift": {"thresholds": [3.0], "first": 30}}
    runs = tiny(problem={**TINY["problem"], "signals": signals}, seeds=1)
    store = sweep_inline(tmp_path / "store", runs)
    rows = store.query("select episode, regret, violation from results").fetchall()
    assert all((regret is None) == (episode >= 30) for episode, regret, _ in rows)
    assert all(violation is not None for *_, violation in rows)
    assert store.about(runs[0].id)["optimum"] is None


def test_the_columns_of_some_runs(store: Store, tmp_path: Path) -> None:
    first, second = (run.id for run in tiny()[:2])
    found = store.columns([second, first])
    assert set(found) == {first, second}
    want = store.query(
        "select episode, regret from results where run = ? order by episode", [second]
    ).fetchnumpy()
    np.testing.assert_array_equal(found[second]["episode"], want["episode"])
    np.testing.assert_array_equal(found[second]["regret"], want["regret"])
    assert store.columns([]) == {}
    with pytest.raises(ss.errors.UnknownName, match="no finished run 'nobody'"):
        store.columns(["nobody"])


def test_long_runs_keep_their_order_and_their_bytes_in_any_company() -> None:
    import duckdb

    def made(rows: int, seed: int) -> dict[str, Any]:
        return {"episode": np.arange(rows), "value": np.random.default_rng(seed).random(rows)}

    long, short = made(300_000, 0), {f"short{k}": made(107, k) for k in range(150)}
    encoder = Encoder()
    together = encoder({**short, "long": long, "other": made(70_000, 1)})
    for name in ("long", "short0", "short149"):
        assert encoder({name: {**short, "long": long}[name]})[name] == together[name]
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "long.parquet").write_bytes(together["long"])
        found = duckdb.connect().execute(f"from '{folder}/long.parquet'").fetchnumpy()
    encoder.close()
    assert set(found["run"]) == {"long"}
    np.testing.assert_array_equal(found["episode"], long["episode"])
    np.testing.assert_array_equal(found["value"], long["value"])


def test_files_of_another_run_are_noticed(store: Store, tmp_path: Path) -> None:
    """Both fit together, but not their name; or only one of them is another's."""
    first, second = (run.id for run in tiny()[:2])
    for kinds in (("json", "parquet"), ("json",), ("parquet",)):
        copy = tmp_path / "-".join(kinds)
        shutil.copytree(store.path, copy)
        for kind in kinds:
            shutil.copy(copy / "runs" / f"{second}.{kind}", copy / "runs" / f"{first}.{kind}")
        with pytest.raises(ss.errors.InvalidFile, match="is damaged"):
            Store(copy).columns([first])
        assert list(Store(copy).columns([second])) == [second]


def test_policies_are_kept_where_there_are_any(tmp_path: Path) -> None:
    store, runs = Store.create(tmp_path / "store"), tiny()[:2]
    first, second = work(runs, None, lambda *_: True)
    assert isinstance(first, FinishedRun)
    assert isinstance(second, FinishedRun)
    encoder = Encoder()
    store.commit([first, replace(second, policies={})], encoder)
    encoder.close()
    np.testing.assert_array_equal(store.policy(runs[0].id), first.policies["policy"])
    assert store.policy(runs[0].id, "proposal") is None
    assert store.policy(runs[1].id) is None
    assert store.finished() == {run.id for run in runs}


def test_a_new_label_changes_nothing_else(store: Store, tmp_path: Path) -> None:
    shutil.copytree(store.path, tmp_path / "store")
    labeled, (run, *others) = Store(tmp_path / "store"), tiny()
    before = {path.name: path.read_bytes() for path in (labeled.path / "runs").iterdir()}
    labeled.relabel([replace(run, label="dice"), *others])
    after = {path.name: path.read_bytes() for path in (labeled.path / "runs").iterdir()}
    assert {name for name in before if before[name] != after[name]} == {f"{run.id}.json"}
    assert labeled.about(run.id) == {**store.about(run.id), "label": "dice"}
    labels = "select label from runs order by run = ? desc"
    assert labeled.query(labels, [run.id]).fetchall() == [("dice",), (None,), (None,), (None,)]


def test_what_is_no_number_is_not_written(tmp_path: Path) -> None:
    """JSON has no NaN, and whoever else reads the store could not read it."""
    store = Store.create(tmp_path / "store")
    (done,) = work(tiny()[:1], None, lambda *_: True)
    assert isinstance(done, FinishedRun)
    encoder = Encoder()
    with pytest.raises(ValueError, match="not JSON compliant"):
        store.commit([replace(done, facts={**done.facts, "optimum": math.nan})], encoder)
    encoder.close()
    assert list((store.path / "runs").iterdir()) == []


def test_runs_can_be_asked_for_their_options(store: Store) -> None:
    rows = store.query(
        "select learner_options->>'stance' as stance, count(*), max(regret) from results "
        "join runs using (run) where episode = episodes group by all order by stance"
    ).fetchall()
    assert [row[:2] for row in rows] == [("0.0", 2), ("0.5", 2)]
    assert store.query("select count(*) from runs").fetchall() == [(4,)]
    assert store.query("select distinct track, record from runs").fetchall() == [("every", '"log"')]


def test_a_frame_has_everything(store: Store) -> None:
    frame = store.frame()
    assert set(frame["learner.stance"]) == {0.0, 0.5}
    assert set(frame["problem.states"]) == {3}
    assert set(frame["seed"]) == {0, 1}
    assert len(frame) == store.query("select count(*) from results").fetchall()[0][0]
    assert (frame["limit_0"] > 0).all()


def test_new_runs_with_new_columns_are_seen(tmp_path: Path) -> None:
    store = sweep_inline(tmp_path / "store", tiny(seeds=1))
    before = store.query("from results")
    sweep_inline(tmp_path / "store", tiny(problem={"name": "triage"}, seeds=1))
    assert "violation_1" in store.query("from results").columns
    assert "violation_1" not in before.columns
    assert before.fetchall()


@pytest.mark.parametrize("sql", ["selec 1", "select nothing from results", ""])
def test_wrong_questions_are_our_errors(sql: str, store: Store) -> None:
    with pytest.raises(ss.SafespotError):
        store.query(sql)


def test_a_folder_that_is_no_store_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ss.errors.InvalidFile, match="not a store"):
        Store(tmp_path / "nothing")
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.tex").touch()
    with pytest.raises(ss.errors.InvalidFile, match="neither empty nor a store"):
        Store.create(tmp_path / "mine")
    with pytest.raises(ss.errors.InvalidFile, match="is not a folder"):
        Store.create(tmp_path / "mine" / "thesis.tex")
    with pytest.raises(ss.errors.InvalidFile, match="cannot make"):
        Store.create(tmp_path / "mine" / "thesis.tex" / "store")
    (tmp_path / "new").mkdir()
    (tmp_path / "new" / "store.json").write_text(json.dumps({"store": 99}))
    with pytest.raises(ss.errors.InvalidFile, match="Upgrade"):
        Store.create(tmp_path / "new")
    (tmp_path / "new" / "store.json").write_text(json.dumps({"store": 1}))
    with pytest.raises(ss.errors.InvalidFile, match="an earlier version"):
        Store(tmp_path / "new")
    empty = Store.create(tmp_path / "empty")
    with pytest.raises(ss.errors.InvalidFile, match="no finished run yet"):
        empty.query("from results")
    with pytest.raises(ss.errors.UnknownName, match="no finished run 'x'"):
        empty.about("x")


# --- Claims


def test_a_claim_is_one_sweeps_alone(tmp_path: Path) -> None:
    first, second = Claims(tmp_path), Claims(tmp_path)
    assert first.take("a")
    assert not second.take("a")
    assert second.take("b")
    first.release("a")
    assert not (tmp_path / "a").exists()
    assert second.take("a")
    second.release_all()
    assert list(tmp_path.iterdir()) == []


def test_a_claim_on_a_removed_file_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # The holder removes the file between our open and our lock: what we have locked has no name any more.
    first, second = Claims(tmp_path), Claims(tmp_path)
    assert first.take("a")
    import fcntl

    lock, calls = fcntl.flock, [0]

    def late(descriptor: int, how: int) -> None:
        calls[0] += 1
        if calls[0] == 1:
            first.release("a")
        lock(descriptor, how)

    monkeypatch.setattr(fcntl, "flock", late)
    assert second.take("a")
    assert calls[0] == 2
    assert not first.take("a")
    second.release("a")


# --- Files


def test_one_of_several_that_fails_leaves_no_temporary_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Broken(files.Disk):
        def fill(self, file: Any, data: bytes) -> None:
            if data == b"7":
                raise OSError(28, "No space left on device")
            super().fill(file, data)

    monkeypatch.setattr(files, "disk", Broken())
    with pytest.raises(ss.errors.DiskError, match="No space left"):
        files.replace_all({tmp_path / f"{n}": b"%d" % n for n in range(20)})
    assert list(tmp_path.iterdir()) == []


def test_what_killed_sweeps_leave_is_taken_away_and_nothing_else(tmp_path: Path) -> None:
    """Half-written files, and checkpoints and claims of finished runs; not what another sweep is at work on."""
    store = sweep_inline(tmp_path / "store", tiny())
    done = sorted(store.finished())[0]
    runs, kept = store.path / "runs", sorted((store.path / "runs").iterdir())
    files_of = {
        "gone": [
            runs / ".0000.parquet.tmp", store.checkpoints / ".1111.safetensors.tmp",
            store.checkpoints / f"{done}.safetensors", store.claims / done, store.claims / "5555",
        ],
        "busy": [runs / ".2222.json.tmp", store.checkpoints / "2222.safetensors"],
        "to go on with": [store.checkpoints / "3333.safetensors"],
    }  # fmt: skip
    for path in (path for paths in files_of.values() for path in paths):
        path.write_bytes(b"x")
    others = Claims(store.claims)
    assert others.take("2222")
    store.tidy()
    left = {kind: [path.exists() for path in paths] for kind, paths in files_of.items()}
    assert left == {"gone": [False] * 5, "busy": [True] * 2, "to go on with": [True]}
    assert sorted(path for path in runs.iterdir() if path.name[0] != ".") == kept
    assert [path.name for path in store.claims.iterdir()] == ["2222"]  # and it is still theirs
    assert not Claims(store.claims).take("2222")
    others.release_all()
    store.tidy()
    assert not files_of["busy"][0].exists()
    assert files_of["busy"][1].exists()


def test_ctrl_c_in_the_midst_of_a_query_is_ctrl_c() -> None:
    """DuckDB makes a RuntimeError of it, which would end a command in a traceback.

    Raised by hand: whether DuckDB notices Ctrl-C within a query at all is a matter of chance.
    """
    with pytest.raises(KeyboardInterrupt), answering():
        raise RuntimeError("Query interrupted")
    with pytest.raises(RuntimeError, match="something else"), answering():
        raise RuntimeError("something else")


def test_a_run_is_described_with_a_checksum_of_all_that_it_says(tmp_path: Path) -> None:
    store = sweep_inline(tmp_path / "store", tiny(seeds=1))
    for path in (store.path / "runs").glob("*.json"):
        about = json.loads(path.read_text())
        said = about.pop("blake2b")
        plain = json.dumps(about, sort_keys=True, separators=(",", ":")).encode()
        assert said == hashlib.blake2b(plain, digest_size=32).hexdigest()
