"""Random commands, options and values: an answer, or an error in words; no traceback."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import safespot as ss
from safespot import cli
from safespot.experiments import sweeping
from tests.support.sweeping import Inline

NUMBERS = [
    "0", "1", "3", "-1", "0.5", "nan", "inf", "1e308", "5e-324", "9" * 400, "2**63", "9223372036854775808", "true", "x",
    "", " ", "[]", "[[1,2],[3]]", "{}", "[" * 2000, '"text"', "'", "1_000", "é", "\x7f", "slater", "known",
]  # fmt: skip
OPTIONS = [
    "states", "actions", "horizon", "seed", "successors", "name", "path", "size", "options", "senses", "thresholds",
    "start", "action_mask", "ranges", "rho", "slack", "stance", "window", "delta", "episodes", "baseline", "policy",
    "interface", "x", "", "self",
]  # fmt: skip
PROBLEMS = ["machine", "random", "triage", "inventory", "media", "nonsense", "", "file"]
EPISODES = ["5", "12", "0", "-1", "1.5", "x", "1e400", "9" * 400, "", "1k5", "nan", "0.001k", "1,0"]
COUNTS = ["1", "0", "-1", "x", "1.5", "9" * 30, ""]
LOG = (
    "episode,step,state,action,reward,constraint_0,threshold_0,next_state\n0,0,0,0,1.0,0.5,0.2,0\n"
)
MODEL = "transitions = [[[1.0]]]\nrewards = [[0.5]]\nconstraints = [[[0.5]]]\nthresholds = [0.5]\nhorizon = 2\n"
SWEEP = 'episodes = 5\nseeds = 1\n[problem]\nname = "machine"\n[[learners]]\nname = "spot"\noptions = { rho = 1.0 }\n'
FILES = {
    "log.csv": LOG, "bad.csv": "a,b\n1\n2,3,4\n", "empty.csv": "", "model.toml": MODEL, "sweep.toml": SWEEP,
    "bad.toml": MODEL.replace("0.5", "nan"), "wrong.toml": SWEEP.replace("machine", "nonsense"), "x[1]": "x",
    "bomb.toml": MODEL.replace("horizon = 2", "horizon = 99999999999"), "garbage.npz": "PK", "garbage.parquet": "PAR1",
}  # fmt: skip
PLACES = [*FILES, "absent.csv", "absent", "/dev/null", "x" * 400, "folder.csv"]


def command(rng: random.Random) -> list[str]:
    """Return a command, with as much that is wrong as right."""

    def some(flag: str, values: list[str], most: int = 1) -> list[str]:
        return [part for _ in range(rng.randint(0, most)) for part in (flag, rng.choice(values))]

    pairs = [f"{name}={rng.choice(NUMBERS)}" for name in rng.sample(OPTIONS, 8)]
    what = rng.choice(("problems", "solve", "run", "run", "sweep", "report", "odd"))
    if what == "odd":
        return rng.choice([[], ["x"], ["--version"], ["report"], ["--x"], ["run"], ["-h"]])
    more = ["--json"] * (rng.random() < 0.3)
    if what == "problems":
        return [what, rng.choice(PROBLEMS), *some("-o", pairs, 2), *more]
    if what == "report":
        return [what, rng.choice(["store", *PLACES]), *some("--figures", ["x"]), *more]
    out = some("--out", ["store", "fresh", "a=1/s", *PLACES]) or ["--out", "store"]
    if what == "sweep":
        return [what, rng.choice(PLACES), *out, *some("--engine", ["local", "x"]), *more]
    if what == "solve":
        return [what, rng.choice([*PROBLEMS, *PLACES]), *some("-o", pairs, 2), *some("--policy", PLACES)]  # fmt: skip
    learners = some("--learner", [*ss.learners.names(), "nonsense", ""])
    return [
        what, rng.choice(["machine", "machine", *PROBLEMS, *PLACES]), "--episodes", rng.choice(["5", *EPISODES]),
        "--seeds", rng.choice(["1", "1", "1", *COUNTS]), *out, *some("-l", pairs, 2), *learners, *more,
        *some("--stance", NUMBERS), *some("--workers", COUNTS),
    ]  # fmt: skip


def test_no_command_ends_in_a_traceback(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def engine(store: Path, workers: int) -> Any:
        return Inline(ss.experiments.Store(store))

    monkeypatch.setattr(sweeping, "LocalEngine", engine)  # sweeps are done here
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SAFESPOT_MEMORY", str(2**26))
    Path("folder.csv").mkdir()
    for name, text in FILES.items():
        Path(name).write_text(text)
    rng, codes = random.Random(0), set()
    for _ in range(150):
        words = command(rng)
        done = CliRunner().invoke(cli.app, words)
        codes.add(done.exit_code)
        if not isinstance(done.exception, SystemExit | None):
            assert isinstance(done.exception, ss.SafespotError), (words, done.exception)
            assert len(str(done.exception)) > 10, words
        assert done.exit_code in (0, 1, 2), words
    assert codes == {0, 1, 2}
