"""What the command says of a log: what it is, what is proven, and what is not."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import safespot as ss
from safespot import cli

runner = CliRunner()
COIN = np.full((2, 2), 0.5)


@pytest.fixture
def log(tmp_path: Path) -> str:
    problem, noise = ss.problems.make("machine"), ss.streams(0)
    path = tmp_path / "log[1].csv"  # a name that DuckDB would take for a pattern
    ss.write_log(path, [ss.play(problem, COIN, noise, t) for t in range(1, 301)])
    return str(path)


# What the machine's interface says, as one writes it at the command.
OPTIONS = (
    "-o",
    'senses="<="',
    "-o",
    "ranges={reward=[0,10], constraints=[0,4]}",
    "-o",
    "stationary=true",
)


def said(*arguments: str) -> str:
    found = runner.invoke(cli.app, list(arguments), catch_exceptions=False)
    assert found.exit_code == 0, found.output
    return found.stdout


def answer(*arguments: str) -> Any:
    return json.loads(said(*arguments, "--json"))


def test_propose_says_what_is_proven_and_writes_the_policy(log: str, tmp_path: Path) -> None:
    out = tmp_path / "next.npy"
    text = said("propose", log, *OPTIONS, "--out", str(out))
    problem = ss.problems.make("machine")
    read = ss.read_log(log, **problem.interface)
    proposal = ss.propose(read)
    assert str(proposal) in text
    np.testing.assert_array_equal(np.load(out), proposal.policy)
    found = answer("propose", log, *OPTIONS)
    assert found["certificate"]["verdict"] == ["unknown"]
    assert found["trial_episodes"] == proposal.trial_episodes
    np.testing.assert_array_equal(found["policy"], proposal.policy)
    short = answer("propose", log, *OPTIONS, "--trial", "100", "--cases", "5", "--delta", "0.1")
    assert short["room"][0] > 0.0
    np.save(tmp_path / "coin.npy", COIN)
    known = answer("propose", log, *OPTIONS, "--behaviour", str(tmp_path / "coin.npy"))
    assert known["practice"]["subject"] == "policy"


def test_solve_says_in_every_line_what_it_is(log: str) -> None:
    lines = said("solve", log, *OPTIONS).splitlines()
    assert all("300 episodes" in line for line in lines)
    assert not any("certified" in line for line in lines)
    assert lines[0].startswith("optimum of the empirical model of 300 episodes: ")
    assert f"safespot propose {log}" in lines[-1]
    found = answer("solve", log, *OPTIONS)
    assert found["of"] == "the empirical model of 300 episodes"
    assert "gap" not in found
    problem = ss.problems.make("machine")
    (limit,) = found["limits"]
    low, high = limit["proven"]
    assert low <= problem.cmdp.limits[0] <= high
    model = ss.logs.empirical_model(ss.read_log(log, **problem.interface), stationary=True)
    solution = ss.solve(model.cmdp)
    error, errors = model.standard_errors(solution.policy)
    assert found["optimum"] == solution.value
    assert (found["standard_error"], limit["standard_error"]) == (error, errors[0])
    known = said("solve", log, *OPTIONS, "-o", "thresholds=[1]")
    assert "is given: 1" in known


def test_the_report_of_a_log_proves_nothing_from_simulated_episodes(
    log: str, tmp_path: Path
) -> None:
    """Neither meter nor trials of what was simulated in the model of the log."""
    store = tmp_path / "store"
    learners = ("--learner", "spot-epochs", "--episodes", "300", "--seeds", "1", "--workers", "1")
    text = said("run", log, *OPTIONS, *learners, "--out", str(store))
    assert "Nothing is proven of a policy" in text
    assert "certified" not in text.lower()
    assert "proven bounds" not in text
    page = (store / "report.html").read_text()
    for claim in ("What the episodes alone prove", "Exploring, trials and certificates"):
        assert claim not in page
    assert "<h1>log[1].csv</h1>" in page
