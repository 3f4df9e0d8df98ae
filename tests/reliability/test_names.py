"""Hostile names of files and folders, over every reader and writer: a path names one file, whatever it looks like.

Beside every file lies a decoy: the file that would be read if the name were a pattern, or an address.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import safespot as ss
from safespot.data.model_files import read_cmdp
from safespot.experiments import read_spec
from safespot.experiments.summary import compare, groups, summarize
from tests.support.contract import Subject
from tests.support.sweeping import sweep_inline, tiny
from tests.support.trails import example

SPOT = Subject("spot", "masked")
FACE: Any = SPOT.make().interface
# A name -> what it would match as a pattern; None: nothing.
NAMES: dict[str, str | None] = {
    "x[1]": "x1", "x*": "xylophone", "x?": "xy", "[!a]": "b", "{x,y}": "x", "**": "deep", "episode=5": None,
    "run=other": None, "it's": None, 'x"y': None, "%41": "A", "new\nline": None, " x ": None, "ünï": None, "s3:": None,
    "-o": None, "x\\y": None, "#x?y=1": None,
}  # fmt: skip


@pytest.fixture(params=NAMES, ids=repr)
def places(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Where a file of an ending may lie, and where its decoy does: the name is a folder's, the file's, or both."""
    name, match = request.param, NAMES[request.param]
    monkeypatch.chdir(tmp_path)  # relative paths are attacked too

    def find(ending: str) -> list[tuple[Path, Path | None]]:
        here = [Path(name, f"file{ending}"), Path(f"{name}{ending}"), Path(name, f"{name}{ending}")]
        decoys = [None if match is None else Path(str(path).replace(name, match)) for path in here]
        both = list(zip(here, decoys, strict=True))
        both += [(tmp_path / path, None if d is None else tmp_path / d) for path, d in both[:1]]
        for path in [path for pair in both for path in pair if path is not None]:
            path.parent.mkdir(exist_ok=True)
        return both

    return find


@pytest.mark.parametrize("name", ["x\\[1]", "x\\*", "\\?", "a\\b[1]"])
@pytest.mark.parametrize("ending", [".csv", ".parquet"])
def test_a_name_that_cannot_be_quoted_is_refused_and_nothing_else_is_read(
    ending: str, name: str, tmp_path: Path
) -> None:
    """DuckDB takes a backslash for the end of a folder's name, in patterns alone."""
    path = tmp_path / f"{name}{ending}"
    ss.write_log(path, episodes(0))
    for decoy in ("x1", "x", "b1", "ab1"):
        ss.write_log(tmp_path / f"{decoy}{ending}", episodes(1))
    with pytest.raises(ss.errors.InvalidFile, match="has a backslash and one of"):
        ss.read_log(path, **FACE.arguments, action_mask=FACE.mask)


def episodes(seed: int) -> list[ss.Episode]:
    return [SPOT.episode(np.random.default_rng([seed, t])) for t in range(3)]


@pytest.mark.parametrize("ending", [".csv", ".parquet"])
def test_a_log_is_read_from_where_it_was_written(ending: str, places: Any) -> None:
    for path, decoy in places(ending)[1:]:
        if decoy is not None:
            ss.write_log(decoy, episodes(1))
        ss.write_log(path, episodes(0))
        arguments = {**FACE.arguments, "action_mask": FACE.mask}
        try:
            found = ss.read_log(path, **arguments)
        except ss.errors.InvalidFile as problem:  # refused is not misread
            assert "\\" in str(path) and "cannot read" in str(problem)  # noqa: PT017, PT018
            continue
        assert found.episodes == tuple(episodes(0)), path
        learner = SPOT.make()
        ss.logs.warm_start(learner, path)
        assert learner.episode == 4


ROUND_TRIPS: dict[str, tuple[Callable[[Path, int], object], Callable[[Path], Any]]] = {
    ".learner": (
        lambda path, seed: SPOT.run(SPOT.make(), seed, 2).save(path),
        lambda path: ss.learners.load(path).policy.tolist(),
    ),
    ".cmdp": (
        lambda path, seed: example(start=seed).cmdp.save(path),
        lambda path: repr(ss.CMDP.load(path).model.start),
    ),
    ".safetensors": (
        lambda path, seed: example(start=seed).cmdp.save(path),
        lambda path: repr(read_cmdp(path).model.start),
    ),
    ".npz": (
        lambda path, seed: np.savez(path, **_model(seed)),
        lambda path: float(ss.solve(read_cmdp(path)).value),
    ),
    ".toml": (
        lambda path, seed: path.write_text(f"episodes = {seed + 1}\nseeds = 1\n{SWEEP}"),
        lambda path: read_spec(path).episodes,
    ),
}
SWEEP = '[problem]\nname = "machine"\n[[learners]]\nname = "spot"\noptions = { rho = 1.0 }\n'


def _model(seed: int) -> dict[str, Any]:
    return {
        "transitions": np.ones((1, 1, 1)), "rewards": np.full((1, 1), 0.5 * seed), "constraints": np.ones((1, 1, 1)),
        "thresholds": np.ones(1), "horizon": np.array(1),
    }  # fmt: skip


@pytest.mark.parametrize("ending", ROUND_TRIPS)
def test_a_file_is_read_from_where_it_was_written(ending: str, places: Any) -> None:
    write, read = ROUND_TRIPS[ending]
    for path, decoy in places(ending):
        if decoy is not None:
            write(decoy, 1)
        write(path, 0)
        write(path.with_name("plain" + ending), 0)
        assert read(path) == read(path.with_name("plain" + ending))


def test_a_durable_learner_and_its_trail_stay_where_they_are(places: Any) -> None:
    for path, decoy in places(".d")[2:]:
        for place, seed in ((decoy, 1), (path, 0)):
            if place is not None and not place.exists():
                with ss.open(place, SPOT.make()) as learner:
                    for episode in episodes(seed):
                        learner.observe(episode)
        with ss.open(path) as learner:
            assert learner.episode == 4
        trail = path.with_name("trail.csv")
        assert ss.logs.export_episodes(path, trail) == 3
        rewards = [line.split(",")[4] for line in trail.read_text().splitlines()[1:]]
        assert [float(x) for x in rewards] == np.concatenate(
            [e.rewards for e in episodes(0)]
        ).tolist()


@pytest.fixture(scope="module")
def stores(tmp_path_factory: pytest.TempPathFactory) -> list[ss.experiments.Store]:
    """Two stores of other runs."""
    folder = tmp_path_factory.mktemp("stores")
    return [
        sweep_inline(folder / "one", tiny()),
        sweep_inline(folder / "two", tiny(seeds=[7], episodes=40)),
    ]


def _answers(store: ss.experiments.Store) -> str:
    """Everything that can be asked of a store."""
    runs = sorted(store.finished())
    return repr(
        (
            runs,
            store.query("select run, max(regret), count(*) from results group by run order by run").fetchall(),
            store.query("select run, seed, episodes, learner_options from runs order by run").fetchall(),
            [(s.group.label, s.final, s.exponent) for s in summarize(store)],
            [(c.first.label, c.second.label, c.difference) for c in compare(store)],
            [group.runs for group in groups(store)],
            {run: {k: v.tolist() for k, v in found.items()} for run, found in store.columns(runs).items()},
            [np.asarray(store.policy(run)).tolist() for run in runs],
            store.frame().to_csv(),
        )
    )  # fmt: skip


def test_a_store_answers_from_its_own_files(
    stores: list[ss.experiments.Store], places: Any
) -> None:
    mine, other = stores
    expected = _answers(mine)
    for path, decoy in places("")[:1]:
        for place, store in ((decoy, other), (path, mine)):
            if place is not None:
                shutil.rmtree(place, ignore_errors=True)
                shutil.copytree(store.path, place)
        assert _answers(ss.experiments.Store(path)) == expected, path
        assert (
            ss.experiments.Store.create(path).finished() == mine.finished()
        )  # a sweep may go on there


def test_the_folder_for_scratch_may_have_any_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stores: list[ss.experiments.Store]
) -> None:
    import tempfile

    for name in ("x[1]", "reward=3", "it's", "x*"):
        (tmp_path / name).mkdir()
        monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / name))
        ss.write_log(tmp_path / "log.parquet", episodes(0))
        arguments = {**FACE.arguments, "action_mask": FACE.mask}
        assert ss.read_log(tmp_path / "log.parquet", **arguments).episodes == tuple(episodes(0))
        made = sweep_inline(tmp_path / name / "store", tiny())
        assert _answers(made) == _answers(stores[0])


BORDERS: dict[str, Callable[[Any], object]] = {
    "open": lambda path: ss.open(path, SPOT.make()),
    "export from": lambda path: ss.logs.export_episodes(path, "x.csv"),
    "export to": lambda path: ss.logs.export_episodes("there", path),
    "read_log": ss.read_log,
    "write_log": lambda path: ss.write_log(path, episodes(0)),
    "warm_start": lambda path: ss.logs.warm_start(SPOT.make(), path),
    "learner save": lambda path: SPOT.make().save(path),
    "learner load": ss.Spot.load,
    "load": ss.learners.load,
    "CMDP save": lambda path: example().cmdp.save(path),
    "CMDP load": ss.CMDP.load,
    "Certificate load": ss.Certificate.load,
    "read_cmdp": read_cmdp,
    "read_spec": read_spec,
    "Store": ss.experiments.Store,
    "Store.create": ss.experiments.Store.create,
    "sweep from": lambda path: ss.experiments.sweep(path, "out", progress=False),
    "sweep to": lambda path: ss.experiments.sweep(tiny(), path, progress=False),
}


@pytest.mark.parametrize("border", BORDERS)
@pytest.mark.parametrize(
    "path", ["\0", "x\0y.csv", "x\0y.toml", b"bytes", 3.5, "absent/" * 3 + "x.csv", "x" * 5000 + ".csv", "dir.csv"],
    ids=lambda path: repr(path)[:20],
)  # fmt: skip
def test_what_is_no_path_is_a_typed_error(
    border: str, path: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("dir.csv").mkdir()
    Path("dir.csv", "something").touch()
    if border.startswith("sweep") and (not isinstance(path, str) or path.startswith("absent")):
        pytest.skip("a sequence of runs may be given, and folders are made")
    try:
        BORDERS[border](path)
    except ss.SafespotError as problem:
        assert len(str(problem)) > 10  # noqa: PT017
    else:
        assert border in ("open", "Store.create")
        assert str(path).startswith("absent") or path == "dir.csv"


def test_no_name_in_json_is_taken_for_a_path(stores: list[ss.experiments.Store]) -> None:
    for name in ("../../x", "a/b", "", ".", "*"):
        with pytest.raises(ss.errors.UnknownName):
            stores[0].about(name)
        with pytest.raises(ss.errors.UnknownName):
            stores[0].columns([name])
    assert json.loads((stores[0].path / "store.json").read_text()) == {
        "store": 3,
        "safespot": ss.__version__,
    }


def test_a_folder_among_the_claims_is_a_typed_error(tmp_path: Path) -> None:
    store = ss.experiments.Store.create(tmp_path / "store")
    (store.claims / "folder").mkdir()
    with pytest.raises(ss.errors.InvalidFile, match=r"cannot lock .*folder: Is a directory"):
        store.tidy()
