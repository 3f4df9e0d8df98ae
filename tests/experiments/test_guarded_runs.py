"""Guards in sweeps, in the report and on the command line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
from typer.testing import CliRunner

import safespot as ss
from safespot import cli
from safespot.report import findings, guard, terminal
from safespot.report.text import number


def test_the_report_shows_budget_spent_and_who_played(tmp_path: Path, capsys: Any) -> None:
    """What the guard ends with is kept in the store; runs without one have no panel."""
    file = tmp_path / "safe.npy"
    np.save(file, np.array([[1.0, 0.0], [1.0, 0.0]]))
    run = ["run", "machine", "--learner", "uniform", "--episodes", "150", "--seeds", "1"]
    guarded = ["--budget", "20", "--baseline", str(file), "--out", str(tmp_path / "store")]
    told = CliRunner().invoke(cli.app, [*run, *guarded, "--json"], catch_exceptions=False)
    assert json.loads(told.stdout)["failed"] == {}
    store = ss.experiments.Store(tmp_path / "store")
    problem = ss.problems.make("machine")
    learner = ss.Uniform(**problem.interface, episodes=150)
    same = ss.Guard(learner, np.load(file), budget=20)
    ss.learn(problem, same, seed=0)
    found = [about["guard"] for about in store.runs()]
    assert {
        "budget": [20.0],
        "spent": [end.tolist() for end in same.spent],
        "share": same.share,
        "baseline_verdict": ["safe"],
    } in found
    (study,) = findings.read(store)
    panel = guard.section(study)
    assert "20.0" in panel
    assert f"learner {100 * same.share:.1f} %, baseline {100 * (1 - same.share):.1f} %" in panel
    page = (tmp_path / "store" / "report.html").read_text()
    assert panel in page
    terminal.print_study(study)
    said = " ".join(capsys.readouterr().out.split())
    low, high = (number(float(end[0])) for end in same.spent)
    assert "Guard of uniform: budget 20.0 of violation of strain over all episodes" in said
    assert f"spent {low} to {high}, as the episodes prove if the baseline keeps the limit" in said
    assert f"learner {100 * same.share:.1f} %" in said
    assert terminal.as_dict(study)["lines"][0]["guard"][0]["budget"] == [20.0]
    bare = findings.Study(study.name, study.setting, study.episodes, lines=())
    assert guard.section(bare) == ""
