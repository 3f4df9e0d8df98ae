"""What the runs of a sweep share: the problem as it is observed, and options that are taken from its truth."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import safespot as ss
from safespot.experiments import as_spec
from safespot.experiments.settings import (
    Setting,
    compared,
    from_truth,
    needs,
    read_setting,
)
from tests.support.sweeping import TINY, tiny


@pytest.mark.parametrize(
    ("name", "given", "found"),
    [
        ("spot", {}, {"rho": "slater"}),
        ("spot", {"rho": 2.0}, {"rho": 2.0}),
        ("spot", {"slack": 0.5}, {"slack": 0.5}),
        ("spot", {"delta": 0.1}, {"rho": "slater", "delta": 0.1}),
        ("dope", {}, {"baseline": "slater", "slack": "slater"}),
        ("dope", {"baseline": "optimal", "slack": 1.0}, {"baseline": "optimal", "slack": 1.0}),
        ("fixed", {}, {"policy": "optimal"}),
        ("spot-epochs", {}, {}),  # takes a baseline, and does without
        ("uniform", {}, {}),
    ],
)
def test_what_a_learner_cannot_do_without_is_taken_from_the_truth(
    name: str, given: dict[str, Any], found: dict[str, Any]
) -> None:
    assert needs(name, given) == found


def test_a_learner_is_compared_under_each_stance_and_with_limits_known() -> None:
    guard = {"budget": 20.0, "baseline": "slater"}
    assert compared(["uniform", "dope"], [0.0, 0.5], {"delta": 0.1, "guard": guard}) == [
        made
        for name, options in (
            ("uniform", {}),
            ("dope", {"baseline": "slater", "slack": "slater"}),
        )
        for all_of in [{**options, "delta": 0.1, "guard": guard}]
        for made in (
            {"name": name, "options": all_of, "grid": {"stance": [0.0, 0.5]}},
            {"name": name, "options": {**all_of, "thresholds": "known"}},
        )
    ]


@pytest.mark.parametrize(
    ("names", "given", "says"),
    [
        (["uniform"], {"bonus_scal": 1.0}, "unknown option 'bonus_scal'"),
        (["uniform"], {"episodes": 3}, "the number of episodes is the run's own"),
        ([], {"episodes": 3}, "the number of episodes is the run's own"),
        (["uniform"], {"guard": {"budget": 3}}, "the guard needs baseline"),
        (["uniform"], {"guard": {"budget": 3, "baseline": "slater", "bugdet": 3}}, "`budget`"),
        (["uniform"], {"guard": 20}, "a table of"),
        (["spot"], {"delta": 7.0}, "delta"),
    ],
)
def test_what_no_compared_learner_takes_is_refused(
    names: list[str], given: dict[str, Any], says: str
) -> None:
    with pytest.raises(ss.errors.InvalidOption, match=says):
        compared(names, [], given)


def test_words_are_taken_from_the_truth_and_all_else_stands_as_it_is() -> None:
    setting = read_setting(tiny()[0].setting)
    safest, best = ss.slater(setting.problem.cmdp), ss.solve(setting.problem.cmdp)
    words: list[tuple[str, str, Any]] = [
        ("rho", "inf", math.inf),
        ("rho", "slater", safest.rho),
        ("slack", "slater", safest.margins),
        ("thresholds", "known", setting.problem.cmdp.thresholds),
        *((name, "slater", safest.policy) for name in ("policy", "baseline")),
        *((name, "optimal", best.policy) for name in ("policy", "baseline")),
    ]
    for name, word, value in words:
        np.testing.assert_array_equal(from_truth(setting, name, word), value)
    for name, given in (("rho", 2.5), ("delta", 0.1), ("stance", "optimistic")):
        assert from_truth(setting, name, given) == given


@pytest.mark.parametrize(
    ("law", "found"),
    [
        ({"law": "bernoulli"}, ss.signals.Bernoulli()),
        ({"law": "deterministic"}, ss.signals.Deterministic()),
        ({"law": "beta"}, ss.signals.Beta()),
        ({"law": "beta", "concentration": 5.0}, ss.signals.Beta(5.0)),
        ({"law": "gaussian"}, ss.signals.Gaussian()),
        ({"law": "gaussian", "sd": 0.3}, ss.signals.Gaussian(0.3)),
    ],
    ids=str,
)
@pytest.mark.parametrize("of", ["rewards", "constraints", "thresholds"])
def test_a_law_is_the_one_that_is_named(law: dict[str, Any], found: Any, of: str) -> None:
    problem = {**TINY["problem"], "signals": {of: law}}
    signals = read_setting(tiny(problem=problem)[0].setting).problem.signals
    assert getattr(signals, of) == found
    own = read_setting(tiny()[0].setting).problem.signals
    for other in {"rewards", "constraints", "thresholds"} - {of}:
        assert getattr(signals, other) == getattr(own, other)
    assert signals.drift is None


def file_setting(path: Path, **options: Any) -> Setting:
    problem = {"name": "file", "options": {"path": str(path), **options}}
    return read_setting(as_spec({**TINY, "problem": problem}).runs()[0].setting)


def test_the_model_of_a_log_knows_its_log_and_a_model_has_none(tmp_path: Path) -> None:
    problem = ss.problems.make("bandit")
    problem.cmdp.save(tmp_path / "own.safetensors")
    own = file_setting(tmp_path / "own.safetensors")
    assert own.problem.cmdp == problem.cmdp
    assert own.log is None
    assert read_setting(tiny()[0].setting).log is None
    streams, uniform = ss.streams(0), np.full((problem.cmdp.H, problem.cmdp.S, problem.cmdp.A), 0.5)
    episodes = [ss.play(problem, uniform, streams, t) for t in range(1, 21)]
    ss.write_log(tmp_path / "log.csv", episodes)
    horizon: dict[str, Any] = {"horizon": problem.cmdp.H}
    logged = file_setting(tmp_path / "log.csv", **horizon)
    assert logged.log is not None
    assert len(logged.log.episodes) == 20
    model = ss.logs.empirical_model(ss.read_log(tmp_path / "log.csv", **horizon))
    assert logged.problem.cmdp == model.cmdp
