"""The command, as a user and as a script meet it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import safespot as ss
from safespot import cli
from safespot.cli.application import WRONG_INPUT
from safespot.errors import SafespotError

runner = CliRunner()


def answer(*arguments: str) -> Any:
    """The JSON that a command answers with."""
    result = runner.invoke(cli.app, [*arguments, "--json"], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def command(*arguments: str, **options: Any) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "safespot", *arguments],
        capture_output=True, text=True, timeout=300, check=False, **options,
    )  # fmt: skip


@pytest.mark.parametrize("name", ["problems", "solve", "run", "sweep", "report", "watch"])
def test_every_subcommand_explains_itself_with_examples(name: str) -> None:
    text = runner.invoke(cli.app, [name, "--help"]).stdout
    assert "Examples:" in text
    assert f"  safespot {name}" in text
    assert "--json" in text


def test_help_needs_no_heavy_imports() -> None:
    heavy = ("numpy", "numba", "duckdb", "altair", "gymnasium", "rich")
    code = (
        "import sys; from safespot.cli import app\n"
        "try: app(['run', '--help'])\n"
        "except SystemExit: pass\n"
        f"sys.exit([m for m in {heavy!r} if m in sys.modules] or 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_the_list_of_problems() -> None:
    rows = answer("problems")
    assert [row["name"] for row in rows] == ss.problems.names()
    machine = next(row for row in rows if row["name"] == "machine")
    cmdp = ss.problems.make("machine").cmdp
    assert [machine[k] for k in "SAHm"] == [cmdp.S, cmdp.A, cmdp.H, cmdp.m]
    text = runner.invoke(cli.app, ["problems"]).stdout
    assert all(name in text for name in ss.problems.names())


def test_one_problem() -> None:
    found = answer("problems", "triage", "-o", "horizon=2")
    cmdp = ss.problems.make("triage", horizon=2).cmdp
    assert found["optimum"] == pytest.approx(43 * 2 / 50)
    assert found["unconstrained"] == pytest.approx(2.0)
    assert found["slater_margin"] == pytest.approx(3 * 2 / 10)
    assert found["rho"] == pytest.approx(8 / 3)
    assert [limit["limit"] for limit in found["limits"]] == cmdp.limits.tolist()
    text = runner.invoke(cli.app, ["problems", "triage"]).stdout
    assert "intensive" in text
    assert "rho = 2.667" in text


def test_solve(tmp_path: Path) -> None:
    found = answer("solve", "machine", "--policy", str(tmp_path / "best.npy"))
    cmdp = ss.problems.make("machine").cmdp
    assert found["optimum"] == ss.solve(cmdp).value
    best = ss.evaluate(cmdp, np.load(tmp_path / "best.npy"))
    assert best.value == pytest.approx(found["optimum"])
    cmdp.save(tmp_path / "own.safetensors")
    assert answer("solve", str(tmp_path / "own.safetensors")) == found


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["solve", "nothing"], "no file of that name either"),
        (["solve", "machin"], "unknown problem 'machin'; did you mean `machine`?"),
        (["solve", "nothing.npz"], "file not found"),
        (["solve", "machine", "-o", "wheels=4"], "wheels"),
        (["solve", "machine", "-o", "wheels"], "NAME=VALUE"),
        (["problems", "nothing"], "unknown problem"),
        (["run", "nothing"], "no file of that name either"),
        (["run", "nothing.csv"], "file not found"),
        (["run", "machin", "--episodes", "many"], "several things are wrong"),
        (["run", "machine", "--episodes", "many"], "200k"),
        (["run", "machine", "--stance", "bold", "--episodes", "9"], "stance"),
        (
            ["run", "machine", "--learner", "oracle", "--episodes", "9"],
            "unknown learner 'oracle'. Expected one of: dope,",
        ),
        (["sweep", "nothing.toml", "--out", "x"], "cannot read"),
        (["report", "nothing"], "not a store"),
    ],
)
def test_wrong_input(
    arguments: list[str], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    result = runner.invoke(cli.app, arguments)
    assert isinstance(result.exception, WRONG_INPUT)
    assert said in str(result.exception)
    assert not [path for path in tmp_path.iterdir() if path.name != "safespot-machine"]


def test_errors_on_one_screen_and_a_traceback_only_when_asked_for() -> None:
    quiet = command("solve", "nothing")
    assert quiet.returncode == 2
    assert quiet.stdout == ""
    assert len(quiet.stderr.splitlines()) == 1
    loud = command("--debug", "solve", "nothing")
    assert loud.returncode != 0
    assert "Traceback" in loud.stderr
    assert command("solve").returncode == 2  # a wrong call
    assert command("dance").returncode == 2


def test_a_failure_is_no_wrong_input(tmp_path: Path) -> None:
    """No policy keeps these limits: the call was right."""
    cmdp = ss.CMDP([[[1.0]]], [[1.0]], [[[0.25]]], [[0.5]])
    cmdp.save(tmp_path / "hopeless.safetensors")
    done = command("solve", str(tmp_path / "hopeless.safetensors"))
    assert done.returncode == 1
    assert "limit" in done.stderr


def test_run_takes_every_learner_with_what_it_needs_from_the_truth(tmp_path: Path) -> None:
    every = [part for name in ss.learners.names() for part in ("--learner", name)]
    found = answer(
        "run", "machine", *every, "--episodes", "30", "--seeds", "1", "--out", str(tmp_path / "s"),
        "--workers", "1",
    )  # fmt: skip
    assert found["failed"] == {}
    assert found["finished"] == 2 * len(ss.learners.names())  # limits learned, and limits known


def test_run_and_report(tmp_path: Path) -> None:
    out = tmp_path / "store"
    arguments = [
        "run", "machine", "--episodes", "300", "--seeds", "2", "--stance", "0", "--stance", "1",
        "--out", str(out), "--workers", "1",
    ]  # fmt: skip
    found = answer(*arguments)
    # Two stances, the learner that is told, SPOT and the uniform policy, two seeds each.
    assert found["finished"] == 10
    assert found["failed"] == {}
    assert Path(found["report"]) == out / "report.html"
    assert (out / "report.html").stat().st_size > 10_000
    (study,) = found["studies"]
    cmdp = ss.problems.make("machine").cmdp
    assert study["optimum"] == pytest.approx(ss.solve(cmdp).value)
    limit = {"name": "strain", "unit": "in two days", "sense": "<=", "limit": 1.0}
    assert study["limits"] == [limit]
    names = ["ξ = 0", "ξ = 1", "limits known", "spot", "uniform"]
    assert [line["name"] for line in study["lines"]] == names
    for line in study["lines"]:
        assert line["seeds"] == [0, 1]
        assert line["threshold_lower"][0] <= 1.0 <= line["threshold_upper"][0]
        assert line["reward"]["low"] <= line["reward"]["mean"] <= line["reward"]["high"]
    before = {path: path.read_bytes() for path in (out / "runs").iterdir()}
    assert answer(*arguments)["studies"] == found["studies"]  # nothing is done twice
    assert before == {path: path.read_bytes() for path in (out / "runs").iterdir()}
    text = runner.invoke(cli.app, arguments).stdout
    assert "ξ = 0" in text
    assert "report.html" in text
    (out / "report.html").unlink()
    assert answer("report", str(out))["written"] == [str(out / "report.html")]


def test_own_files_are_solved_and_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    problem = ss.problems.make("bandit")
    streams, uniform = ss.streams(0), np.full((problem.cmdp.H, problem.cmdp.S, problem.cmdp.A), 0.5)
    episodes = [ss.play(problem, uniform, streams, t) for t in range(1, 201)]
    path = tmp_path / "log.parquet"
    ss.write_log(path, episodes)
    solved = runner.invoke(cli.app, ["solve", str(path), "--json"], catch_exceptions=False)
    model = ss.logs.empirical_model(ss.read_log(path))
    assert json.loads(solved.stdout)["optimum"] == ss.solve(model.cmdp).value
    assert "200 of 200 episodes can be used" in solved.stderr

    monkeypatch.chdir(tmp_path)
    options = ["--learner", "spot", "--episodes", "30", "--seeds", "1", "--workers", "1"]
    arguments = ["run", "log.parquet", *options]
    found = answer(*arguments, "--out", "store")
    assert found["finished"] == 2
    (study,) = found["studies"]
    assert study["optimum"] == pytest.approx(ss.solve(model.cmdp).value)
    # What happened in the model of a log is said to have happened there, and proves nothing.
    assert study["of"] == "the empirical model of 200 episodes"
    assert all(line["certificates"] == [None] for line in study["lines"])
    (low,), (high,) = study["proven_limits"]
    assert low <= problem.cmdp.limits[0] <= high
    text = runner.invoke(cli.app, [*arguments, "--out", "store"], catch_exceptions=False).stdout
    assert "learned the empirical model of 200 episodes" in text
    for verb in (" kept ", " broke ", " earned "):
        assert all(
            "In the empirical model of 200 episodes: " in line
            for line in text.splitlines()
            if verb in line
        )
    assert "safespot propose" in text
    assert "proven safe" not in text
    page = Path("store/report.html").read_text()
    assert "In the empirical model of 200 episodes: " in page
    assert "May it be deployed?" not in page
    # The same content is the same run wherever it lies; another content is another run.
    names = {run.stem for run in Path("store/runs").glob("*.parquet")}
    path.rename(tmp_path / "moved.parquet")
    answer(*["run", "moved.parquet", *arguments[2:]], "--out", "store")
    assert {run.stem for run in Path("store/runs").glob("*.parquet")} == names
    ss.write_log(path, episodes[:150])
    answer(*arguments, "--out", "other")
    assert not names & {run.stem for run in Path("other/runs").glob("*.parquet")}

    problem.cmdp.save("own.safetensors")
    answer("run", "own.safetensors", *arguments[2:])
    (one, _) = sorted(Path("safespot-own/runs").glob("*.parquet"))
    assert one.name.startswith("file-spot-30-seed0-")


@pytest.mark.parametrize("part", ["safespot.cli", "typer"])
def test_ctrl_c_while_the_command_is_imported_ends_it_without_a_traceback(part: str) -> None:
    program = f"""
import sys
class Interrupted:
    def find_spec(self, name, path=None, target=None):
        if name == {part!r}:
            raise KeyboardInterrupt
sys.meta_path.insert(0, Interrupted())
from safespot.__main__ import main
main()
"""
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (ended.returncode, ended.stderr) == (130, "")


def test_ctrl_c_keeps_what_is_done_and_the_same_command_resumes(tmp_path: Path) -> None:
    arguments = [
        "run", "machine", "--learner", "spot", "--episodes", "300k", "--seeds", "1",
        "--out", str(tmp_path / "s"), "--workers", "1", "--json",
    ]  # fmt: skip
    process = subprocess.Popen(
        [sys.executable, "-m", "safespot", *arguments],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )  # fmt: skip
    claims = tmp_path / "s" / "claims"
    deadline = time.monotonic() + 120
    while not (claims.exists() and any(claims.iterdir())) and time.monotonic() < deadline:
        time.sleep(0.05)
    for _ in range(3):  # an impatient user
        os.kill(process.pid, signal.SIGINT)
        time.sleep(0.02)
    stdout, stderr = process.communicate(timeout=120)
    assert process.returncode == 130, stderr
    assert "resumes" in stderr
    assert "Traceback" not in stderr
    assert stdout == ""
    done = command(*arguments)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["finished"] == 2


@pytest.mark.parametrize(
    "arguments",
    [
        ["-l", "episodes=3"], ["-l", "name=x"], ["-l", "interface=3"], ["-l", f"delta={'9' * 400}"], ["-o", "name=x"],
        ["-o", "self=1"], ["-o", "x=1"], ["--out", "file"], ["--out", "file/below"], ["--episodes", "1e400"],
        ["--seeds", "99999999999"],
    ],
)  # fmt: skip
def test_what_cannot_be_is_a_typed_error(
    arguments: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("file").touch()
    words = ["run", "machine", "--episodes", "5", "--seeds", "1", "--workers", "1", *arguments]
    result = runner.invoke(cli.app, words)
    assert isinstance(result.exception, SafespotError), result.exception
    assert isinstance(result.exception, WRONG_INPUT)


def test_a_full_disk_behind_a_command_is_told_in_words() -> None:
    if not Path("/dev/full").exists():
        pytest.skip("there is no /dev/full")
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "safespot", "--version"], stdout=full, stderr=subprocess.PIPE, text=True
        )  # fmt: skip
    assert done.returncode == 1
    assert done.stderr.strip() == "safespot: No space left on device."
