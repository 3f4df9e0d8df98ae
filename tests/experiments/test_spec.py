"""A sweep as data: what a TOML file may say, and which runs it means."""

from __future__ import annotations

import copy
import re
from dataclasses import replace
from pathlib import Path
from typing import Any, Self

import pytest
from pydantic import model_validator

import safespot as ss
from safespot.experiments import as_spec, read_spec
from safespot.experiments.settings import make_learner, read_setting
from safespot.experiments.spec import (
    DriftSpec,
    LawSpec,
    LearnerSpec,
    ProblemSpec,
    SignalsSpec,
    Spec,
)
from safespot.learners.options import Options, option_record
from tests.support.sweeping import TINY, tiny

EXAMPLES = sorted((Path(__file__).parents[2] / "examples" / "sweeps").glob("*.toml"))

EVERYTHING = """
episodes = [1000, 2_000]
seeds = [3, 5]
record = 100
track = "grid"

[problem]
name = "random"
options = { states = 4, horizon = 3 }
grid.seed = [1, 2]
grid.signals = [{}, { rewards = { law = "beta", concentration = 5 } }]

[[learners]]
name = "spot"
options = { rho = "slater", thresholds = "known" }
grid.stance = ["pessimistic", 0.5]
grid.window = [1.0, 0.25]

[[learners]]
name = "spot"
anytime = true
options = { rho = "inf", policy_step = 0.1, dual_step = 0.1 }
"""


def test_every_combination_is_a_run(tmp_path: Path) -> None:
    (tmp_path / "sweep.toml").write_text(EVERYTHING)
    runs = read_spec(tmp_path / "sweep.toml").runs()
    assert len(runs) == 2 * 2 * 2 * (4 + 1) * 2  # episodes, problems, signals, learners, seeds
    assert len({run.id for run in runs}) == len(runs)
    assert {run.episodes for run in runs} == {1000, 2000}
    assert {run.seed for run in runs} == {3, 5}
    assert {run.problem_options["seed"] for run in runs} == {1, 2}
    assert {(run.record, run.track) for run in runs} == {(100, "grid")}
    assert {
        (run.learner_options.get("stance"), run.learner_options.get("window"))
        for run in runs
        if not run.anytime
    } == {(stance, window) for stance in ("pessimistic", 0.5) for window in (1.0, 0.25)}
    assert sum(run.signals.rewards is not None for run in runs) == len(runs) // 2


def test_several_problems_are_several_tables(tmp_path: Path) -> None:
    one = {"name": "random", "options": {"states": 3}, "grid": {"seed": [1, 2]}}
    spec = {**TINY, "problem": [one, {"name": "triage"}]}
    runs = as_spec(spec).runs()
    alone = [run.id for each in spec["problem"] for run in tiny(problem=each)]
    assert [run.id for run in runs] == alone
    assert [run.id for run in tiny(problem=[one])] == [run.id for run in tiny(problem=one)]
    with pytest.raises(ss.errors.InvalidOption, match=r"problem\.1\.nmae: unknown key"):
        as_spec({**TINY, "problem": [one, {"name": "triage", "nmae": 1}]})
    with pytest.raises(ss.errors.InvalidOption, match="problem: "):
        as_spec({**TINY, "problem": []})


def test_an_id_is_readable_and_depends_on_the_content_alone() -> None:
    (run, *_) = tiny(episodes=200)
    assert re.fullmatch(r"random-spot-200-seed0-[0-9a-f]{16}", run.id)
    # Written down once: another machine or version must find the same.
    assert run.id == "random-spot-200-seed0-4634519e00c0f65f"
    shuffled = copy.deepcopy(TINY)
    shuffled["episodes"] = 200
    shuffled["problem"]["options"] = {"horizon": 3, "actions": 2, "states": 3}
    shuffled["learners"][0]["grid"]["stance"] = [1, 0]
    others = as_spec(dict(reversed(shuffled.items()))).runs()
    assert run.id in {other.id for other in others}


@pytest.mark.parametrize(
    "change",
    [
        {"episodes": 61}, {"seed": 7}, {"record": "all"}, {"track": "grid"}, {"anytime": True},
        {"problem_options": {"states": 3, "actions": 2, "horizon": 3, "seed": 0}},
        {"learner_options": {"rho": "slater", "bonus_scale": 0.02, "stance": 0.0}},
        {"signals": SignalsSpec(rewards=LawSpec(law="gaussian"))}, {"problem": "randon"}, {"learner": "spit"},
    ],
    ids=str,
)  # fmt: skip
def test_every_part_of_the_content_counts(change: dict[str, Any]) -> None:
    (run, *_) = tiny()
    assert replace(run, **change).id != run.id


def test_a_file_is_told_by_its_content(tmp_path: Path) -> None:
    def ids(path: Path, **options: Any) -> set[str]:
        chosen = {"name": "file", "options": {"path": str(path), **options}}
        return {run.id for run in as_spec({**TINY, "problem": chosen}).runs()}

    cmdp = ss.problems.make("bandit").cmdp
    first, same, other = (tmp_path / f"{name}.safetensors" for name in ("a", "b", "c"))
    cmdp.save(first)
    cmdp.save(same)
    cmdp.with_thresholds(0.5 * cmdp.limits).save(other)
    assert ids(first) == ids(same)
    assert not ids(first) & ids(other)
    run = as_spec({**TINY, "problem": {"name": "file", "options": {"path": str(first)}}}).runs()[0]
    assert read_setting(run.setting).problem.cmdp == cmdp
    read_setting.cache_clear()
    first.write_bytes(other.read_bytes())
    with pytest.raises(ss.errors.InvalidFile, match="has changed"):
        read_setting(run.setting)
    with pytest.raises(ss.errors.InvalidFile, match="cannot read"):
        ids(tmp_path / "nothing.npz")
    with pytest.raises(ss.errors.InvalidOption, match="needs the option path"):
        as_spec({**TINY, "problem": {"name": "file"}}).runs()


def test_one_number_has_one_spelling_and_a_repeated_run_is_one() -> None:
    spelt = [
        tiny(learners=[{"name": "spot", "options": {"rho": 2, "stance": x}}]) for x in (1, 1.0)
    ]
    assert [run.id for run in spelt[0]] == [run.id for run in spelt[1]]
    twice = tiny(
        learners=[{"name": "spot", "options": {"rho": 2}, "grid": {"stance": [1, 1.0, 0]}}]
    )
    assert len(twice) == 2 * 2


def test_all_errors_are_named_at_once_with_their_keys(tmp_path: Path) -> None:
    (tmp_path / "bad.toml").write_text(
        """
        episodes = 2000.0
        seeds = [1, -1, "a", true]
        recrod = 3
        track = "all"
        [problem]
        nmae = "random"
        options = { states = nan, born = 1979-05-27 }
        grid.seed = []
        grid.slack = 3
        grid.states = [-inf]
        signals.drift = { thresholds = ["a"], first = 0 }
        signals.rewards = { law = "gausian" }
        signals.constraints = { law = "bernoulli", sd = 0.1 }
        [[learners]]
        name = "../spot"
        options.rho = inf
        grid.stance = [nan]
        anytime = 1
        """
    )
    with pytest.raises(ss.errors.InvalidOption) as raised:
        read_spec(tmp_path / "bad.toml")
    first, *lines = str(raised.value).splitlines()
    assert "bad.toml is not a sweep file" in first
    (tmp_path / "none.toml").write_text("episodes = ")
    with pytest.raises(ss.errors.InvalidOption, match=r"none\.toml is not TOML"):
        read_spec(tmp_path / "none.toml")
    keys = [line.split(":")[0].strip() for line in lines]
    assert sorted(keys) == sorted(
        [
            "episodes", "seeds", "seeds.1", "seeds.2", "seeds.3", "recrod", "track", "problem.name",
            "problem.nmae", "problem.options.states", "problem.options.born", "problem.grid.seed",
            "problem.grid.slack", "problem.grid.states.0", "problem.signals.drift.thresholds.0",
            "problem.signals.drift.first", "problem.signals.rewards.law",
            "problem.signals.constraints", "learners.0.name", "learners.0.options.rho",
            "learners.0.grid.stance.0", "learners.0.anytime",
        ]
    )  # fmt: skip


def test_a_wrong_problem_hides_nothing_of_a_learner(tmp_path: Path) -> None:
    (tmp_path / "bad.toml").write_text(
        """
        episode = 10
        episodes = 10
        seeds = 1
        [[problem]]
        name = "dosng"
        [[problem]]
        name = "random"
        options.stats = 3
        [[problem]]
        name = "random"
        options.states = -3
        [[learners]]
        name = "spot"
        options = { rho = "slter", policy_stp = 0.1, delta = 5 }
        grid.window = [1.0, 7.0]
        grid.stanc = [0]
        [[learners]]
        name = "spto"
        [[learners]]
        name = "dope"
        """
    )
    with pytest.raises(ss.errors.InvalidOption) as raised:
        read_spec(tmp_path / "bad.toml")
    said = dict(line.strip().split(": ", 1) for line in str(raised.value).splitlines()[1:])
    near = {
        "episode": "episodes", "problem.0.name": "dosing", "problem.1.options.stats": "states",
        "learners.0.options.rho": "slater", "learners.0.options.policy_stp": "policy_step",
        "learners.0.grid.stanc": "stance", "learners.1.name": "spot",
    }  # fmt: skip
    for key, name in near.items():
        assert f"did you mean `{name}`?" in said[key]
    assert "states must be at least 1" in said["problem.2"]
    assert "got 5" in said["learners.0.options.delta"]
    assert "got 7" in said["learners.0.grid.window"]
    assert "`baseline` and `slack`" in said["learners.2"]
    assert len(said) == len(near) + 4
    assert "__init__" not in str(raised.value)


def test_values_are_checked_together() -> None:
    hints: dict[str, Any] = {"rho": 1.0, "independent_hints": True, "delta": 7.0}
    with pytest.raises(ss.errors.InvalidOption) as raised:
        as_spec({**TINY, "learners": [{"name": "spot", "options": hints}]})
    keys = [line.split(":")[0].strip() for line in str(raised.value).splitlines()[1:]]
    assert keys == ["learners.0.options.delta", "learners.0.options.independent_hints"]
    fine = {**hints, "delta": 0.1, "estimator": "total"}
    assert as_spec({**TINY, "learners": [{"name": "spot", "options": fine}]})
    inf = {"rho": "inf", "policy_step": 0.1, "dual_step": 0.1}
    assert as_spec({**TINY, "learners": [{"name": "spot", "anytime": True, "options": inf}]})


@option_record
class PlannedOptions(Options):
    """What `Planned` takes."""

    @model_validator(mode="after")
    def _check_episodes(self) -> Self:
        if self.episodes is None:
            raise ValueError("this learner needs the number of episodes.")
        return self


class Planned(ss.Uniform):
    """A learner from outside that has to be told how many episodes there will be."""

    options_type = PlannedOptions


def test_whoever_needs_the_number_of_episodes_is_not_run_without_it() -> None:
    learner = {"name": f"{__name__}:Planned"}
    assert len(tiny(learners=[learner])) == 2
    with pytest.raises(ss.errors.InvalidOption, match=r"learners\.0: this learner needs the"):
        tiny(learners=[{**learner, "anytime": True}])


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_examples_are_sweeps_whose_learners_can_be_made(path: Path) -> None:
    runs = read_spec(path).runs()
    assert len(runs) >= 16
    for run in {str(run.learner_options): run for run in runs}.values():
        make_learner(run)


def test_the_page_describes_a_sweep_and_every_key_of_it(tmp_path: Path) -> None:
    page = (Path(__file__).parents[2] / "docs" / "experiments.md").read_text()
    (text,) = re.findall(r"```toml\n(.*?)```", page, re.S)
    (tmp_path / "sweep.toml").write_text(text)
    assert len(read_spec(tmp_path / "sweep.toml").runs()) == 2 * (3 + 1 + 1) * 8
    for model, prefix in ((Spec, ""), (ProblemSpec, "problem."), (LearnerSpec, "learners.")):
        for name in model.model_fields:
            if name not in ("problem", "learners"):
                assert f"`{prefix}{name}`" in page, name
    for name in (*SignalsSpec.model_fields, *LawSpec.model_fields, *DriftSpec.model_fields):
        assert f"`{name}`" in page, name


def test_a_sweep_of_more_runs_than_memory_holds_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    spec = as_spec({**TINY, "seeds": 1_000})
    monkeypatch.setenv("SAFESPOT_MEMORY", str(100_000))
    with pytest.raises(ss.SafespotError, match=r"the sweep.*SAFESPOT_MEMORY"):
        spec.runs()
    assert len(as_spec({**TINY, "seeds": 2}).runs()) == 4
