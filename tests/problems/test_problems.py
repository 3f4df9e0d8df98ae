"""The ready problems: the fractions of their docstrings, and draws that are the same everywhere."""

from __future__ import annotations

import hashlib
import importlib.util
from typing import Any

import numpy as np
import pytest

import safespot as ss


@pytest.mark.parametrize("name", ss.problems.names())
def test_every_problem_can_be_solved_and_played(name: str) -> None:
    if name == "icu-sepsis" and importlib.util.find_spec("icu_sepsis") is None:
        pytest.skip("its data are not installed: pip install 'safespot[icu]'")
    problem = ss.problems.make(name)
    assert isinstance(problem, ss.Problem)
    best, safest = ss.solve(problem.cmdp), ss.slater(problem.cmdp)
    assert best.gap <= 1e-8
    assert 0.0 < safest.margin < np.inf
    assert safest.value <= best.value + 1e-8
    assert best.multipliers.sum() > 0.0  # a limit binds, or there would be nothing to learn
    # Lemma F.2: rho bounds twice the multipliers, in inside units.
    units = problem.cmdp.units
    inside = best.multipliers * np.abs(units.constraints.scale) / units.reward.scale
    assert 2.0 * inside.sum() <= safest.rho + 1e-7
    episode = ss.play(problem, best.policy, ss.streams(0), 1)
    assert episode.constraints.shape == (problem.cmdp.H, problem.cmdp.m)


def test_bandit_by_hand() -> None:
    cmdp = ss.problems.make("bandit").cmdp
    best, safest = ss.solve(cmdp), ss.slater(cmdp)
    assert best.value == pytest.approx(7 / 10, abs=1e-8)
    assert best.multipliers == pytest.approx([3 / 5], abs=1e-8)
    assert best.policy[0, 0] == pytest.approx([1 / 2, 1 / 2], abs=1e-8)
    assert safest.margin == pytest.approx(1 / 2, abs=1e-8)
    assert safest.value == pytest.approx(2 / 5, abs=1e-8)
    assert safest.rho == pytest.approx(6 / 5, abs=1e-8)


def test_machine_by_hand() -> None:
    cmdp = ss.problems.make("machine").cmdp
    best, safest = ss.solve(cmdp), ss.slater(cmdp)
    assert best.value == pytest.approx(11, abs=1e-8)
    assert best.constraints == pytest.approx([1], abs=1e-8)
    assert best.multipliers == pytest.approx([3], abs=1e-8)
    assert safest.margin == pytest.approx(1, abs=1e-8)
    assert safest.value == pytest.approx(8, abs=1e-8)
    assert safest.rho == pytest.approx(12 / 5, abs=1e-8)


@pytest.mark.parametrize(
    ("budget", "value", "multiplier"),
    [
        (0.0, 8, None),  # at the edge any price of 3 or more is right
        (0.5, 9.5, 3),
        (2.0, 14, None),  # a kink: anything from 4/3 to 3
        (3.5, 16, 4 / 3),
        (4.25, 17, 4 / 3),
        (5.0, 18, None),
        (6.0, 18, 0),
        (8.0, 18, 0),
    ],
)
def test_machine_along_its_concave_line(
    budget: float, value: float, multiplier: float | None
) -> None:
    best = ss.solve(ss.problems.make("machine", budget=budget).cmdp)
    assert best.value == pytest.approx(value, abs=1e-8)
    assert best.constraints[0] <= budget + 1e-8
    if multiplier is not None:
        assert best.multipliers == pytest.approx([multiplier], abs=1e-8)


def test_machines_policies_have_the_stated_values() -> None:
    cmdp = ss.problems.make("machine").cmdp
    gentle, fast = [1.0, 0.0], [0.0, 1.0]
    for policy, earnings, strain in (
        ([[gentle, gentle], [gentle, gentle]], 8, 0),
        ([[gentle, gentle], [fast, gentle]], 14, 2),
        ([[fast, gentle], [fast, gentle]], 16, 3.5),
        ([[fast, fast], [fast, fast]], 18, 5),
    ):
        reached = ss.evaluate(cmdp, policy)
        assert reached.value == pytest.approx(earnings, abs=1e-12)
        assert reached.constraints == pytest.approx([strain], abs=1e-12)


@pytest.mark.parametrize("horizon", [1, 3, 10])
def test_triage_by_hand(horizon: int) -> None:
    cmdp = ss.problems.make("triage", horizon=horizon).cmdp
    best, safest = ss.solve(cmdp), ss.slater(cmdp)
    assert best.value == pytest.approx(43 * horizon / 50, abs=1e-8)
    assert best.multipliers == pytest.approx([1 / 5, 3 / 5], abs=1e-8)
    assert best.constraints == pytest.approx([3 * horizon / 5, 7 * horizon / 10], abs=1e-8)
    assert safest.margin == pytest.approx(3 * horizon / 10, abs=1e-8)
    assert safest.value == pytest.approx(23 * horizon / 50, abs=1e-7)
    assert safest.rho == pytest.approx(8 / 3, abs=1e-7)


def digest(problem: ss.Problem) -> str:
    """BLAKE2b over the drawn arrays; the thresholds are a matter of the oracle."""
    P = problem.cmdp.model.P
    rows = [P.dense] if P.dense.size else [P.starts, P.successors, P.probabilities]
    result = hashlib.blake2b(digest_size=16)
    for array in (*rows, problem.cmdp.rewards[0], problem.cmdp.constraints[:, 0]):
        result.update(np.ascontiguousarray(array).tobytes())
    return result.hexdigest()


def test_the_draw_is_the_same_on_every_machine() -> None:
    assert digest(ss.problems.make("random")) == "803d3f46f7f6fe291b0ab82fe10bfae7"
    options: dict[str, Any] = {
        "states": 300, "actions": 12, "horizon": 4, "constraints": 3, "successors": 5, "seed": 17,
    }  # fmt: skip
    large = ss.problems.make("random", **options)
    assert large.cmdp.model.P.dense.size == 0
    assert digest(large) == "fbd9963f7ad4becf3b71270355ae3f23"
    assert digest(ss.problems.make("random", seed=1)) != digest(ss.problems.make("random"))


def test_a_random_models_rows_have_the_successors_asked_for() -> None:
    dense = ss.problems.make("random", states=9, successors=4).cmdp.transitions[0]
    assert ((dense > 0).sum(axis=2) == 4).all()
    rows = ss.problems.make("random", states=300, actions=12, successors=5).cmdp.transitions[0]
    assert (np.diff(rows.indptr) == 5).all()
    # Every state is drawn about as often: 18,000 draws over 300 states have a deviation of 7.7.
    counts = np.bincount(rows.indices, minlength=300)
    assert np.abs(counts - 60).max() < 5 * 7.7
    full = ss.problems.make("random", states=4).cmdp.transitions
    assert (full > 0).all()


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("slack", [0.2, None])
def test_the_slack_is_the_margin_and_the_limit_binds(seed: int, slack: float | None) -> None:
    cmdp = ss.problems.make("random", seed=seed, slack=slack).cmdp
    expected = 0.5 if slack is None else slack  # a tenth of the five steps
    assert ss.slater(cmdp).margin == pytest.approx(expected, abs=1e-8)
    best = ss.solve(cmdp)
    assert best.constraints == pytest.approx(cmdp.limits, abs=1e-8)
    assert best.multipliers[0] > 0.0


def test_with_several_constraints_the_slack_is_a_margin() -> None:
    for seed in range(4):
        cmdp = ss.problems.make("random", constraints=4, seed=seed, slack=0.2).cmdp
        assert ss.slater(cmdp).margin >= 0.2 - 1e-8


ICU_LIMITS: list[Any] = ["fluid", (), 3, ("fluid", "fluid"), (1, 2), ([],)]
WRONG: list[tuple[str, dict[str, Any], str]] = [
    ("random", {"states": 0}, "states must be at least 1"),
    ("random", {"actions": 2.0}, "actions must be a whole number"),
    ("random", {"successors": 7}, "more than the 6 states"),
    *(("random", {"slack": slack}, "slack must be") for slack in (-0.1, 5.1, np.nan, "some", [1.0])),
    ("random", {"seed": -1}, "seed must be at least 0"),
    ("random", {"color": 1}, "Expected one of: states, actions, horizon, constraints"),
    ("machine", {"budgets": 3}, "unknown option 'budgets'; did you mean `budget`"),
    *((name, {"horizon": 0}, "horizon must be at least 1") for name in ("triage", "queue", "maze", "icu-sepsis")),
    *((name, {"horizon": 2.5}, "horizon must be a whole number") for name in ("triage", "grid", "river-swim")),
    ("triage", {"horizon": None}, "horizon must be a whole number"),
    ("inventory", {"reward": "theirs"}, "'textbook' or 'published'"),
    ("media", {"horizon": 5}, "Expected one of: limit"),
    ("river-swim", {"states": 1}, "states must be at least 2"),
    ("deep-sea", {"size": 0}, "size must be at least 1"),
    ("maze", {"states": 61}, "states must be 60 or 200, got 61"),
    ("maze", {"states": [60]}, "states must be a whole number"),
    *(("maze", {"slip": slip}, "slip must be a probability") for slip in (-0.1, 1.5, np.nan, "icy")),
    *(("icu-sepsis", {"limits": limits}, "each once") for limits in ICU_LIMITS),
]  # fmt: skip


@pytest.mark.parametrize(("name", "options", "words"), WRONG)
def test_wrong_options_are_refused(name: str, options: dict[str, Any], words: str) -> None:
    with pytest.raises(ss.errors.InvalidOption, match=words):
        ss.problems.make(name, **options)


LIMITED = ["media", "inventory", "factored", "queue", "grid", "river-swim", "deep-sea", "maze", "machine"]  # fmt: skip


@pytest.mark.parametrize("name", LIMITED)
@pytest.mark.parametrize("limit", [-0.1, 1e4, np.nan, "x"])
def test_a_limit_outside_its_range_is_refused(name: str, limit: Any) -> None:
    with pytest.raises(ss.errors.InvalidModel, match="threshold"):
        ss.problems.make(name, **{"budget" if name == "machine" else "limit": limit})


def test_an_unknown_problem_is_refused_and_the_known_ones_are_named() -> None:
    with pytest.raises(ss.errors.UnknownName) as caught:
        ss.problems.make("icu")
    known = ", ".join(ss.problems.names())
    assert str(caught.value) == f"unknown problem 'icu'. Expected one of: {known}."
