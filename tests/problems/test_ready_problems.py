"""The problems of the literature and our own: every figure that their pages and docstrings state."""

from __future__ import annotations

import importlib.util
import re
import sys
import zipfile
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import safespot as ss
from safespot.problems import icu_sepsis

ICU = pytest.mark.skipif(
    importlib.util.find_spec("icu_sepsis") is None,
    reason="the data of icu-sepsis are not installed: pip install 'safespot[icu]'",
)


@pytest.mark.parametrize("name", ss.problems.names())
def test_a_problem_says_in_one_line_what_it_is(name: str) -> None:
    line = ss.problems.describe(name)
    assert 30 < len(line) <= 120
    assert line.endswith(".")


# name, options, value, multiplier, constraint; None where several are right
KNOWN: list[tuple[str, dict[str, Any], float, float | None, float | None]] = [
    ("media", {"limit": 10}, -5.393138, 0.0, None),
    ("media", {}, -6.746704, 0.495190, 5),
    ("media", {"limit": 1}, -8.983489, 0.587177, 1),
    ("inventory", {"limit": 7}, 7, 0.0, 4.505263),
    ("inventory", {}, 6.135519, 1.440038, 3.5),
    ("inventory", {"limit": 7, "reward": "published"}, 7, 0.0, 4.505263),
    ("inventory", {"reward": "published"}, 6.665322, 0.921212, 3.5),
    ("factored", {"limit": 6}, 4, None, 6),
    ("factored", {}, 2, 2 / 3, 3),
    ("factored", {"start": [1 / 3] * 3}, 20 / 9, 2 / 3, 3),
    ("queue", {"horizon": 2, "limit": 0}, 3 / 5, None, 0),
    ("queue", {"horizon": 2, "limit": 0.2}, 1, 2, 0.2),
    ("queue", {"horizon": 2, "limit": 1}, 6 / 5, 0.0, 0.3),
    ("queue", {"limit": 144}, 13.875022, 0.0, 45.955559),
    ("queue", {}, 12.367561, 0.111853, 24),
    ("grid", {"horizon": 3}, 0.0405 + 306 / 37 * 0.04775, 306 / 37, 0.05),
    ("grid", {"horizon": 3, "limit": 1}, 0.729, 0.0, None),
    ("grid", {"limit": 1}, 0.902274, 0.0, None),
    ("grid", {}, 0.570330, 306 / 37, 0.05),
]


@pytest.mark.parametrize(("name", "options", "value", "multiplier", "constraint"), KNOWN)
def test_known_answers(
    name: str,
    options: dict[str, Any],
    value: float,
    multiplier: float | None,
    constraint: float | None,
) -> None:
    best = ss.solve(ss.problems.make(name, **options).cmdp)
    assert best.value == pytest.approx(value, abs=6e-7)
    assert best.gap <= 1e-8
    if constraint is not None:
        assert best.constraints == pytest.approx([constraint], abs=6e-7)
    if multiplier is not None:
        assert best.multipliers == pytest.approx([multiplier], abs=6e-7)


@pytest.mark.parametrize(
    ("name", "margin"),
    [("media", 5), ("inventory", 3.5), ("factored", 3), ("queue", 24), ("grid", 0.05)],
)
def test_doing_nothing_keeps_every_limit(name: str, margin: float) -> None:
    assert ss.slater(ss.problems.make(name).cmdp).margin == pytest.approx(margin, abs=1e-7)


def test_the_safest_walk_over_the_grid() -> None:
    assert ss.slater(ss.problems.make("grid").cmdp).value == pytest.approx(0.057875, abs=6e-7)


def test_what_a_policy_does_to_the_buffer() -> None:
    cmdp = ss.problems.make("media").cmdp
    fast, slow = cmdp.transitions[0, 4, 0], cmdp.transitions[0, 4, 1]
    assert fast[[3, 4, 5]] == pytest.approx([0.08, 0.74, 0.18])
    assert slow[[3, 4, 5]] == pytest.approx([0.72, 0.26, 0.02])
    always = np.tile([1.0, 0.0], (10, 1))
    assert ss.evaluate(cmdp, always).constraints == pytest.approx([10])
    assert cmdp.reward_range == (-1, 0)  # a step pays no less than that of an empty buffer


def test_inventory_by_hand() -> None:
    book = ss.problems.make("inventory").cmdp
    theirs = ss.problems.make("inventory", reward="published").cmdp
    # One unit in stock: it is sold when one is asked for, and gone when one or more are.
    assert book.transitions[0, 0, 1, :2] == pytest.approx([0.7, 0.3])
    assert book.rewards[0, 0, 1] == pytest.approx(0.2 * 0.08 / 0.132)
    assert theirs.rewards[0, 0, 1] == pytest.approx(0.7 * 0.08 / 0.132)
    assert book.rewards.max() == theirs.rewards.max() == 1.0
    assert book.constraints[0, 0, 0, 5] == pytest.approx(1.0)
    assert book.constraints[0, 0, 3, 0] == pytest.approx(3 / 19)
    assert book.actions is not None
    assert book.actions.sum(axis=1).tolist() == [6, 5, 4, 3, 2, 1]


def test_two_ways_over_the_grid() -> None:
    cmdp = ss.problems.make("grid", horizon=3).cmdp
    right, down = np.eye(4)[1], np.eye(4)[2]
    for second, arrives, falls in ((right, 0.729, 0.0855), (down, 0.0405, 0.00225)):
        policy = np.tile(down, (3, 12, 1))
        policy[:, [0, 4, 8]] = np.eye(4)[
            3
        ]  # after a slip there is no time left: away from the pits
        policy[0, 8] = policy[2, 10] = right
        policy[1, 9] = second
        reached = ss.evaluate(cmdp, policy)
        assert reached.value == pytest.approx(arrives, abs=1e-12)
        assert reached.constraints == pytest.approx([falls], abs=1e-12)


def test_the_grids_cells() -> None:
    cmdp = ss.problems.make("grid").cmdp
    right = cmdp.transitions[0, 9, 1]  # from below the first pit
    assert right[[10, 5, 9]] == pytest.approx([0.9, 0.05, 0.05])
    assert cmdp.constraints[0, 0, 9] == pytest.approx([0.9, 0.05, 0, 0.05])
    assert cmdp.rewards[0, 10] == pytest.approx([0.05, 0.9, 0.05, 0])
    for ended in (5, 6, 11):  # pits and goal are for good, and count once
        assert (cmdp.transitions[0, ended, :, ended] == 1.0).all()
        assert not cmdp.rewards[0, ended].any()
        assert not cmdp.constraints[0, 0, ended].any()


TABLE = re.findall(
    r"^\| \[([\w-]+)\]\(#[\w-]+\) \| (\d+), (\d+), (\d+) \|[^|]+\| ([^|]+) \| ([^|]+) \| ([^|]+) \|$",
    (Path(__file__).parents[2] / "docs" / "problems.md").read_text(),
    re.MULTILINE,
)


def number(text: str) -> float:
    return float(Fraction(text.strip().replace("−", "-")))


def test_every_problem_has_a_section_and_a_row() -> None:
    page = (Path(__file__).parents[2] / "docs" / "problems.md").read_text()
    for name in ss.problems.names():
        assert f"\n## {name}\n" in page
        assert f"| [{name}](#{name}) |" in page
    assert len(TABLE) >= 9


@pytest.mark.parametrize("row", TABLE, ids=[row[0] for row in TABLE])
def test_the_table_of_problems_is_true(row: tuple[str, ...]) -> None:
    name, states, actions, horizon, value, multipliers, free = row
    if name == "icu-sepsis" and importlib.util.find_spec("icu_sepsis") is None:
        pytest.skip("its data are not installed: pip install 'safespot[icu]'")
    cmdp = ss.problems.make(name).cmdp
    assert (int(states), int(actions), int(horizon)) == (cmdp.S, cmdp.A, cmdp.H)
    best = ss.solve(cmdp)
    assert best.value == pytest.approx(number(value), abs=6e-7)
    assert best.multipliers == pytest.approx([number(m) for m in multipliers.split(",")], abs=5e-5)
    pairs = zip(cmdp.senses, cmdp.constraint_ranges, strict=True)
    loosest = [cmdp.H * (low if sense == ">=" else high) for sense, (low, high) in pairs]
    assert ss.solve(cmdp.with_thresholds(loosest)).value == pytest.approx(number(free), abs=6e-7)


# ICU-Sepsis.


@ICU
def test_the_benchmarks_own_baselines() -> None:
    """Published: random .78, expert .78, optimal .88, over at most 500 steps without a discount."""
    cmdp = ss.problems.make("icu-sepsis", horizon=500, limits={"fluid": 0.0}).cmdp
    assert (cmdp.S, cmdp.A) == (716, 25)
    assert cmdp.actions is not None
    assert cmdp.actions.sum() == 2241
    assert np.count_nonzero(cmdp.start) == 712
    uniform = cmdp.actions / cmdp.actions.sum(axis=1, keepdims=True)
    assert ss.evaluate(cmdp, uniform).value == pytest.approx(0.7801, abs=5e-5)
    assert ss.evaluate(cmdp, icu_sepsis.expert()).value == pytest.approx(0.7818, abs=5e-5)
    assert ss.solve(cmdp).value == pytest.approx(0.8751, abs=5e-5)


ICU_KNOWN: list[tuple[int, str, float, float, float]] = [
    (10, "fluid", 8.88940, 0.627875, 0.0463),
    (10, "sofa", 7.78172, 0.628263, 0.458),
    (20, "fluid", 18.41375, 0.776592, 0.0338),
]


@ICU
@pytest.mark.parametrize(("horizon", "name", "limit", "value", "multiplier"), ICU_KNOWN)
def test_icu_sepsis_with_a_limit(
    horizon: int, name: str, limit: float, value: float, multiplier: float
) -> None:
    """Stated and default limits: the defaults are what the stated ones were rounded from."""
    default = ss.problems.make("icu-sepsis", horizon=horizon, limits=(name,)).cmdp
    assert default.limits == pytest.approx([limit], abs=5e-6)
    stated = ss.problems.make("icu-sepsis", horizon=horizon, limits={name: limit}).cmdp
    for cmdp in (default, stated):
        best = ss.solve(cmdp)
        # The sofa limit was rounded by 5e-6, which its multiplier turns into 2e-6.
        assert best.value == pytest.approx(value, abs=1e-6 if cmdp is default else 3e-6)
        assert best.multipliers == pytest.approx([multiplier], abs=5e-4 * max(1, multiplier / 0.1))
        assert best.gap <= 1e-8


@ICU
@pytest.mark.parametrize(("horizon", "value"), [(10, 0.636392), (20, 0.792216)])
def test_icu_sepsis_without_a_limit(horizon: int, value: float) -> None:
    cmdp = ss.problems.make("icu-sepsis", horizon=horizon, limits={"sofa": 0.0}).cmdp
    assert ss.solve(cmdp).value == pytest.approx(value, abs=1e-6)


@ICU
def test_death_does_not_look_safe() -> None:
    names = ("sofa", "fluid", "vasopressor")
    cmdp = ss.problems.make("icu-sepsis", limits=dict.fromkeys(names, 1.0)).cmdp
    g = cmdp.constraints[:, 0]
    assert (g[0, icu_sepsis.DEATH] == 0.0).all()
    assert (g[0, icu_sepsis.SURVIVAL] == 1.0).all()
    assert (g[1:, icu_sepsis.DEATH : icu_sepsis.SURVIVAL + 1] == 1.0).all()
    assert g[1, 5, 17] == 0.25  # 17 is fluid 3, vasopressor 2
    assert g[2, 5, 17] == 0.5
    rows = cmdp.transitions[0]
    for ended in (icu_sepsis.DEATH, icu_sepsis.SURVIVAL):
        assert rows[[ended * 25]].toarray()[0, ended] == 1.0
        assert not cmdp.rewards[0, ended].any()
    assert rows[: icu_sepsis.DEATH * 25, [icu_sepsis.BEHIND]].nnz == 0


@ICU
def test_the_expert_stays_within_the_mask_and_keeps_what_it_had_there() -> None:
    data, policy = icu_sepsis.read(), icu_sepsis.expert()
    assert ((data.expert > 0.0) & ~data.actions).sum() == 7014
    assert not policy[~data.actions].any()
    assert policy.sum(axis=1) == pytest.approx(np.ones(716))
    assert (policy >= np.where(data.actions, data.expert, 0.0)).all()


@ICU
def test_the_benchmarks_package_is_not_imported_and_the_model_is_small() -> None:
    cmdp = ss.problems.make("icu-sepsis").cmdp
    assert not {"icu_sepsis", "gym"} & set(sys.modules)
    assert cmdp.model.P.dense.size == 0
    assert sum(array.nbytes for array in cmdp.model.P) < 2e6


@pytest.fixture
def unread() -> Iterator[None]:
    """Data that were read before are forgotten, before and after."""
    icu_sepsis.read.cache_clear()
    yield
    icu_sepsis.read.cache_clear()


@pytest.mark.usefixtures("unread")
def test_without_the_data_it_says_how_to_get_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ss.errors.MissingPackage, match=r"pip install 'safespot\[icu\]'"):
        ss.problems.make("icu-sepsis")


@pytest.mark.usefixtures("unread")
@pytest.mark.parametrize("damage", ["absent", "no zip", "other shape", "torn"])
def test_damaged_data_are_noticed(
    damage: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assets = tmp_path / "envs" / "assets"
    assets.mkdir(parents=True)
    if damage != "absent":
        (assets / "admissible_actions.txt").write_text("1 " * 716 + "\n" + "0\n" * 716)
        arrays = {
            "d_0": np.full(716, 1 / 716),
            "sofa_scores": np.zeros(716),
            "expert_policy": np.zeros((716, 25)),
            "tx_mat": np.zeros((2, 2, 2)),
        }
        np.savez(assets / "dynamics.npz", **arrays)  # type: ignore[arg-type]
    if damage == "no zip":
        (assets / "dynamics.npz").write_bytes(b"PK\x03\x04 and nothing else")
    if damage == "torn":
        with zipfile.ZipFile(assets / "dynamics.npz", "a") as archive:
            archive.writestr("other.npy", b"")
        whole = (assets / "dynamics.npz").read_bytes()
        (assets / "dynamics.npz").write_bytes(whole[: len(whole) // 2])
    spec = SimpleNamespace(submodule_search_locations=[str(tmp_path)])
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: spec)
    with pytest.raises(ss.errors.InvalidFile, match=r"does not hold the data of icu-sepsis"):
        ss.problems.make("icu-sepsis")
