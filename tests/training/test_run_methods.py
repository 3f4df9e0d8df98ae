"""What a run offers beside its arrays: frames, plots, files, the policy to deploy, a diagnosis."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import safespot as ss
from safespot.errors import InvalidOption
from safespot.training.run_tables import KINDS


@pytest.fixture(scope="module")
def run() -> ss.Run:
    problem = ss.problems.make("triage")
    return ss.learn(problem, ss.Uniform(**problem.interface, episodes=60), seed=3)


@pytest.fixture(scope="module")
def env_run() -> ss.Run:
    env = ss.gym.ProblemEnv("triage")
    return ss.learn(env, ss.Uniform(**ss.gym.env_interface(env), episodes=30), seed=3)


def test_a_frame_has_the_columns_of_a_store(run: ss.Run, env_run: ss.Run) -> None:
    frame = run.frame()
    assert frame["episode"].tolist() == run.episodes.tolist()
    assert np.array_equal(frame["violation_1"], run.violations[:, 1])
    assert "regret" in frame
    assert "regret" not in env_run.frame()  # nobody knows


def test_without_pandas_or_altair_somebody_says_so(
    run: ss.Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    for package, draw in (("pandas", run.frame), ("altair", run.plot)):
        monkeypatch.setitem(sys.modules, package, None)
        with pytest.raises(ss.errors.MissingPackage, match=r"pip install 'safespot\[notebook\]'"):
            draw()


@pytest.mark.parametrize("kind", KINDS)
def test_a_plot_shows_the_numbers_of_the_run_by_name(run: ss.Run, kind: str) -> None:
    chart = run.plot(kind).to_dict()
    rows = chart["data"]["values"] if "data" in chart else next(iter(chart["datasets"].values()))
    panels = {row["panel"] for row in rows}
    if kind in ("value", "regret"):
        assert panels == {"reward (days of full benefit)" if kind == "value" else "regret"}
        drawn = [row["y"] for row in rows if row["line"] in ("policies played", "regret")]
        assert drawn == (run.values if kind == "value" else run.regret).tolist()
    else:
        assert panels == {"days off the ward (days)", "days off intensive care (days)"}
    if kind == "limits":
        told = [row for row in rows if row["panel"].startswith("days off the ward")]
        assert [r["y"] for r in told if r["line"] == "limit"] == run.limits[:, 0].tolist()
        assert run.limits[0] == pytest.approx([1.8, 2.1])
        assert [r["low"] for r in told if "low" in r] == run.threshold_bounds[0][:, 0].tolist()
    if kind == "evidence":
        exact = [r["y"] for r in rows if r["line"] == "exact"]
        low = [r["low"] for r in rows if r["line"] == "proven"]
        high = [r["high"] for r in rows if r["line"] == "proven"]
        assert all(a <= b <= c for a, b, c in zip(low, exact, high, strict=True))


def test_what_cannot_be_drawn_is_refused(run: ss.Run, env_run: ss.Run) -> None:
    with pytest.raises(InvalidOption, match="did you mean `value`"):
        run.plot("values")
    with pytest.raises(InvalidOption, match="nothing to draw of 'regret'"):
        env_run.plot("regret")
    env_run.plot("limits")


@pytest.mark.parametrize("which", ["run", "env_run"])
def test_a_run_comes_back_from_its_file(
    which: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    made: ss.Run = request.getfixturevalue(which)
    made.save(tmp_path / "run")
    found = ss.Run.load(tmp_path / "run")
    for name, column in made.frame().items():
        assert np.array_equal(column, found.frame()[name]), name
    assert repr(found) == repr(made)
    assert np.array_equal(found.policy, made.policy)
    assert found.learner.episode == made.learner.episode
    assert (found.regret is None) == (made.regret is None)
    with pytest.raises(InvalidOption, match="cannot be gone through again"):
        next(found.replay())


# --- Diagnosis


def spot(problem: ss.Problem, **options: Any) -> ss.Run:
    given = {"episodes": 300, "slack": 1.0, **options}
    return ss.learn(problem, ss.Spot(**problem.interface, **given))


def told(run: ss.Run) -> dict[str, str]:
    return {finding.option: str(finding) for finding in run.diagnosis}


def test_the_papers_constants_are_diagnosed() -> None:
    found = told(spot(ss.problems.make("machine")))
    assert found.keys() == {"bonus_scale", "episodes", "policy_step"}
    assert "100 % of the pairs that were tried" in found["bonus_scale"]
    assert "No policy that was looked at kept the limit of strain." in found["episodes"]
    assert "0.0 % of its decisions" in found["policy_step"]


def test_thresholds_that_are_known_less_well_than_a_policy_keeps_them_are_diagnosed() -> None:
    inventory = ss.problems.make("inventory")
    run = spot(inventory)
    (lower, upper), names = run.threshold_bounds, inventory.cmdp.names
    assert (run.rooms.max(axis=0) > 0.0).all()
    expected = f"{names.limit(0)} is known within {(upper - lower)[-1, 0]:.3g};"
    assert expected in told(run)["threshold_scale"]
    assert "threshold_scale" not in told(spot(inventory, estimator="total"))


def test_a_multiplier_at_its_bound_is_diagnosed() -> None:
    machine = ss.problems.make("machine")
    options = {"bonus_scale": 0.001, "threshold_scale": 0.01, "policy_step": 0.001}
    run = spot(machine, slack=None, rho=0.01, dual_step=1.0, **options)
    assert "Raise rho, which is 0.01" in told(run)["rho"]
    free = spot(machine, slack=None, rho=1000.0, dual_step=0.01, **options)
    assert "rho" not in told(free)


def test_a_good_run_has_no_findings() -> None:
    machine = ss.problems.make("machine")
    best = ss.Fixed(**machine.interface, episodes=30, policy=ss.solve(machine.cmdp).policy)
    assert ss.learn(machine, best).diagnosis == ()
