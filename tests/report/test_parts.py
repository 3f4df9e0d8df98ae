"""The parts of a report: names, sentences, sets of policies, charts and tables say what the runs show."""

from __future__ import annotations

import json
import math
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import safespot as ss
from safespot.experiments import Store, as_spec
from safespot.experiments.settings import Setting
from safespot.experiments.summary import Estimate
from safespot.report import (
    charts,
    figures,
    findings,
    page,
    panels,
    results,
    sections,
    tables,
    terminal,
    write_figures,
)
from safespot.report import text as words
from safespot.report.region import Region, _cut
from safespot.report.vega import POWER, episodes
from tests.report.test_report import judged
from tests.support.sweeping import sweep_inline

EPISODES = 60


def made(path: Path, *learners: dict[str, Any], **spec: Any) -> Store:
    whole = {
        "episodes": EPISODES, "seeds": 2, "problem": {"name": "machine"}, "learners": list(learners), **spec,
    }  # fmt: skip
    return sweep_inline(path, as_spec(whole).runs())


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    """Three stances on the machine, and a learner without any."""
    spot = {
        "name": "spot", "options": {"rho": "slater", "bonus_scale": 0.01},
        "grid": {"stance": ["pessimistic", 0.5, "optimistic"]},
    }  # fmt: skip
    return made(tmp_path_factory.mktemp("parts") / "store", spot, {"name": "uniform"})


@pytest.fixture(scope="module")
def study(store: Store) -> findings.Study:
    (only,) = findings.read(store)
    return only


@pytest.fixture(scope="module")
def numbers(store: Store, study: findings.Study) -> dict[str, tables.Table]:
    return tables.every(study, store)


def of(study: findings.Study, *lines: int) -> findings.Study:
    """Some of its lines alone."""
    return replace(study, lines=tuple(study.lines[k] for k in lines))


def with_columns(line: findings.Line, **columns: Any) -> findings.Line:
    """The same line with columns of our own, one row for all seeds."""
    rows = {name: np.array([values] * 2, float) for name, values in columns.items()}
    return replace(line, columns={**line.columns, **rows})


# --- What is read


def test_a_learner_is_named_only_where_several_have_several_settings(
    study: findings.Study, tmp_path: Path
) -> None:
    names = [line.name for line in study.lines]
    assert names == ["pessimistic", "ξ = 0.5", "optimistic", "uniform"]
    two = {"grid": {"stance": [0.0, 1.0]}}
    epochs, spot = {"name": "spot-epochs"}, {"name": "spot", "options": {"rho": "slater"}}
    both = made(tmp_path / "s", {**epochs, **two}, {**spot, **two}, seeds=1)
    (found,) = findings.read(both)
    assert [line.name for line in found.lines] == [
        "spot-epochs, ξ = 0", "spot-epochs, ξ = 1", "spot, ξ = 0", "spot, ξ = 1",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("option", "value", "said"),
    [
        ("stance", 0.25, "ξ = 0.25"), ("stance", "optimistic", "optimistic"), ("learner", "dope", "dope"),
        ("thresholds", "known", "limits known"), ("episodes", 20_000, "20,000 episodes"),
        ("guard", {"baseline": [[0.5, 0.5]], "budget": [3.0]}, "budget [3.0]"), ("anytime", True, "anytime"),
        ("anytime", False, "not anytime"), ("bonus_scale", 0.1, "bonus scale 0.1"),
        ("bonus", "bernstein", "bonus bernstein"),
    ],
)  # fmt: skip
def test_options_are_said_in_a_word_where_they_have_one(option: str, value: Any, said: str) -> None:
    assert findings._said(option, value) == said


def test_a_band_has_all_seeds_in_it() -> None:
    mean, low, high = findings.band(np.array([[0.0], [1.0]]))
    assert (mean[0], low[0], high[0]) == (0.5, 0.0, 1.0)


def test_what_the_first_episode_cost_is_part_of_how_a_sum_began(study: findings.Study) -> None:
    line = study.lines[0]
    last = float(line.episodes[-1])
    flat = with_columns(line, regret=np.full(len(line.episodes), 5.0))
    assert flat.rate("regret", late=False).mean == pytest.approx(5.0 / (findings.PART * last))
    assert flat.rate("regret", late=True).mean == 0.0


def test_a_limit_counts_as_kept_within_a_share_of_its_own_range(study: findings.Study) -> None:
    cmdp = ss.CMDP(
        [[[1.0], [1.0]]],
        [[0.9, 1.0]],
        [[[3.0, 1.0]]],
        [2.0],
        horizon=1,
        constraint_ranges=(0.0, 4.0),
    )
    wide = replace(study, setting=Setting(ss.Problem(cmdp)))
    assert wide.hair(0) == pytest.approx(4.0 * findings.KEPT)


# --- What is said

KEPT = "kept the limit of strain late in learning."


@pytest.mark.parametrize(
    ("outcome", "said"),
    [
        ((-1.0, -1.0, 0.5), [f"Pessimistic and ξ = 0.5 {KEPT}", "Optimistic broke it, by 0.50 in two days."]),
        ((-1.0, 0.25, 0.5), [f"Pessimistic {KEPT}", "Optimistic broke it the most, by 0.50 in two days."]),
        ((0.5, 0.25, 0.1), ["Pessimistic broke the limit of strain the most, by 0.50 in two days."]),
        ((-1.0, -1.0, -1.0), [f"Pessimistic, ξ = 0.5 and optimistic {KEPT}"]),
    ],
)  # fmt: skip
def test_the_short_verdict(
    study: findings.Study, outcome: tuple[float, ...], said: list[str]
) -> None:
    assert words.short_verdict(judged(of(study, 0, 1, 2), outcome)) == said


def test_more_reward_is_told_where_it_was_paid_for_with_a_limit(study: findings.Study) -> None:
    """The bold one earns half a unit more an episode than the careful one, or as much less."""
    careful, bold = study.lines[0], study.lines[2]
    episodes = careful.episodes.astype(float)
    for more in (0.5, -0.5):
        lines = (
            with_columns(careful, regret=1.0 * episodes),
            with_columns(bold, regret=(1.0 - more) * episodes),
        )
        text = " ".join(words.verdict(judged(replace(study, lines=lines), (-1.0, 0.25))))
        assert ("That brought up to 0.50 more reward (in two days)." in text) is (more > 0.0)
        assert text.startswith("Pessimistic kept the limit of strain on average")


def test_a_reward_is_a_share_of_the_best_where_both_are_positive(
    study: findings.Study, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert study.optimum(EPISODES) == pytest.approx(11.0)
    share = "5.50 (in two days), 50.0 % of what the best policy within the limits earns"
    assert words.earned(study, 5.5) == share
    beside = "−1.00 (in two days); the best policy within the limits earns 11.0"
    assert words.earned(study, -1.0) == beside
    assert words.earned(study, 0.5).startswith("0.500 (in two days), 4.5 % of")
    monkeypatch.setattr(findings.Study, "optimum", lambda *_: 0.5)
    assert "50.0 % of" in words.earned(study, 0.25)
    monkeypatch.setattr(findings.Study, "optimum", lambda *_: 0.0)
    assert words.earned(study, 0.25).endswith("the best policy within the limits earns 0")


def test_curves_are_alike_within_a_thousandth_of_what_they_span(study: findings.Study) -> None:
    first, second = study.lines[:2]
    curve = np.linspace(100.0, 200.0, len(first.episodes))
    for off, alike in ((0.09, True), (0.11, False), (-0.09, True), (-0.11, False)):
        both = (with_columns(first, value=curve), with_columns(second, value=curve + off))
        said = words.equal(replace(study, lines=both), ["value"])
        assert bool(said) is alike
    assert words.equal(of(study, 0), ["value"]) == []


def test_limits_without_names_are_numbered_where_there_are_several(study: findings.Study) -> None:
    for m, names in ((1, ["limit"]), (2, ["limit 1", "limit 2"])):
        problem = ss.problems.make("random", states=2, actions=2, horizon=2, constraints=m)
        bare = replace(study, setting=Setting(problem))
        assert [results._limit(bare, i) for i in range(m)] == names
        said = [words.limit_name(bare, i) for i in range(m)]
        assert said == (["the limit"] if m == 1 else names)
    assert words.limit_name(study, 0) == "the limit of strain"
    assert results._limit(study, 0) == "strain"


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (0.12345, "0.12"), (-1.26, "−1.3"), (4e-4, "0"), (-4e-4, "0"), (6e-4, "0.001"), (-0.0096, "−0.010"),
        (-0.0071, "−0.007"), (123.4, "123"), (2.0, "2"), (0.0123, "0.012"),
    ],
)  # fmt: skip
def test_small_tables_have_two_digits_and_three_decimals(value: float, said: str) -> None:
    assert results._brief(value) == said


def test_columns_have_four_digits_of_their_largest_number() -> None:
    some = [Estimate(0.0, math.nan, math.nan, 1), Estimate(123.456, 120.0, 125.0, 3)]
    assert words.column(some) == [("0.0", ""), ("123.5", "120.0 to 125.0")]
    assert words.column([Estimate(0.0, math.nan, math.nan, 1)]) == [("0.000", "")]
    assert words.column([Estimate(12345.6, 1.0, 20000.0, 2)]) == [("12,346", "1 to 20,000")]
    assert words.listed(["a", "b"]) == "a and b"


def test_what_a_program_reads_has_what_was_certified(study: findings.Study) -> None:
    found = terminal.as_dict(study)
    for line, told in zip(study.lines, found["lines"], strict=True):
        assert told["certificates"] == [about.get("certificate") for about in line.abouts]
        assert told["name"] == line.name
    assert any(certificate for told in found["lines"] for certificate in told["certificates"])


@pytest.mark.parametrize("columns", [80, 60])
def test_a_screen_is_filled_with_what_keeps_runs_from_being_good(
    study: findings.Study, columns: int, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    """As many sentences as there is room for beside the table, whose rows have two lines on a narrow screen."""
    faults = [{"what": f"Fault {k}.", "option": f"o{k}", "advice": ""} for k in range(30)]
    first, second = (
        replace(line, abouts=tuple({**about, "diagnosis": each} for about in line.abouts))
        for line, each in ((study.lines[0], faults), (study.lines[3], []))
    )
    monkeypatch.setenv("COLUMNS", str(columns))
    terminal.print_study(replace(study, lines=(first, second)))
    lines = capsys.readouterr().out.splitlines()
    assert terminal.SCREEN - 2 <= len(lines) <= terminal.SCREEN


# --- Sets of policies


def test_every_limit_cuts_off_what_breaks_it() -> None:
    """Rewards are large whatever is done; only the second limit is between the two actions."""
    cmdp = ss.CMDP(
        [[[1.0], [1.0]]], [[0.9, 1.0]], [[[0.9, 0.9]], [[0.8, 0.2]]], [0.5, 0.5], horizon=1
    )
    found = Region(cmdp).feasible(cmdp.limits)
    assert found is not None
    assert found.polygons[1][:, 0].min() == pytest.approx(0.5)
    assert found.polygons[1][:, 0].max() == pytest.approx(0.8)
    assert found.reward == pytest.approx(0.95)


def test_a_limit_that_all_keep_or_none_cuts_off_nothing_or_all() -> None:
    points = np.array([[0.0, 1.0], [1.0, 0.0]])
    assert _cut(points, 0, -0.5).tolist() == points.tolist()
    assert _cut(points, 0, 0.0).tolist() == [[1.0, 0.0], [0.0, 1.0]][::-1]
    assert _cut(points, 0, 1.5).shape == (0, 2)
    assert _cut(points, 0, 0.5).tolist() == [[1.0, 0.0], [0.5, 0.5]]


def test_of_a_large_policy_the_states_that_are_visited_most_are_drawn(
    store: Store, study: findings.Study, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tables, "STATES", 1)
    table = tables.policies(study, store)
    assert set(table["state"]) == {0}  # as new, where the machine starts
    H, A = 2, 2
    assert len(table["probability"]) == len(study.lines) * H * A
    policy = store.policy(study.lines[0].group.runs[0])
    assert policy is not None
    np.testing.assert_allclose(table["probability"][: H * A], policy[:, 0].ravel(), atol=5e-4)


def test_as_many_states_of_a_policy_are_drawn_as_there_is_room_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of five the two that are visited most: the one where episodes begin, and the one where they go."""
    P = np.zeros((5, 2, 5))
    P[:, :, 3] = 1.0
    rewards, constraints = np.full((5, 2), 0.5), np.full((1, 5, 2), 0.5)
    cmdp = ss.CMDP(P, rewards, constraints, [0.5], horizon=4, start=1)
    cmdp.save(tmp_path / "own.safetensors")
    problem = {"name": "file", "options": {"path": str(tmp_path / "own.safetensors")}}
    store = made(tmp_path / "s", {"name": "uniform"}, problem=problem, seeds=1, episodes=5)
    monkeypatch.setattr(tables, "STATES", 2)
    (study,) = findings.read(store)
    assert set(tables.policies(study, store)["state"]) == {1, 3}


# --- Charts


def made_of(chart: dict[str, Any], *, text: str) -> list[dict[str, Any]]:
    """The layers in which something is said."""
    return [one for one in chart["layer"] if text in json.dumps(one, ensure_ascii=False)]


def test_there_is_a_chart_for_every_table_that_is_there(
    study: findings.Study, numbers: dict[str, tables.Table]
) -> None:
    usual = {
        "regret", "violation", "reward", "limit-0", "threshold-0", "multiplier-0", "evidence-0", "region-0",
        "closeup-0",
    }  # fmt: skip
    assert set(charts.charts(study, numbers)) == usual | {"frontier", "policy"}
    some = {name: table for name, table in numbers.items() if name in ("regions", "curves")}
    assert set(charts.charts(study, some)) == usual


@pytest.mark.parametrize("metric", ["regret", "violation"])
def test_the_root_meets_the_largest_sum_at_its_end(study: findings.Study, metric: str) -> None:
    """So that growth like √T is seen beside it; where nothing is positive there is none."""
    chart = charts._sum(study, metric)
    net, strong = (
        max(line.summary.final[name].mean for line in study.lines)
        for name in (metric, f"strong_{metric}")
    )
    found = re.search(r"\(counted == 'strong' \? (\S+) : (\S+)\) \* sqrt", json.dumps(chart))
    assert (found is not None) is (net > 0.0)
    if found is not None:
        ends = [math.sqrt(EPISODES) * float(rate) for rate in found.groups()]
        assert ends == pytest.approx([strong, net], rel=1e-5)


def test_a_close_up_has_room_around_all_optima_and_ends(
    study: findings.Study, numbers: dict[str, tables.Table]
) -> None:
    x, y = (
        charts.charts(study, numbers)["closeup-0"]["layer"][0]["encoding"][axis]["scale"]["domain"]
        for axis in "xy"
    )
    for line in study.lines:
        assert x[0] < study.late_constraint(line, 0).mean < x[1]
        assert y[0] < study.late_reward(line).mean < y[1]
    table = numbers["regions"]
    for name, constraint, reward in zip(
        table["set"], table["constraint"], table["reward"], strict=True
    ):
        if name.startswith("optimum"):
            assert x[0] < constraint < x[1]
            assert y[0] < reward < y[1]


def test_what_leaves_the_frame_of_a_close_up_is_cut_off(
    study: findings.Study, numbers: dict[str, tables.Table]
) -> None:
    """Sets and the way of a learner; all optima lie within it."""
    layers = charts.charts(study, numbers)["closeup-0"]["layer"]
    beyond = [one for one in layers if "optimum, " not in json.dumps(one["transform"])]
    assert len(beyond) == 4 + 4
    assert all(one["mark"].get("clip") for one in beyond)


def test_the_best_policy_under_each_limit_is_drawn(
    study: findings.Study, numbers: dict[str, tables.Table]
) -> None:
    chart = charts.charts(study, numbers)["region-0"]
    shapes = {
        name: made_of(chart, text=f"datum.set == 'optimum, {name}'")[0]["mark"]["shape"]
        for name in ("true", "optimistic", "pessimistic")
    }
    assert len(set(shapes.values())) == 3


def test_states_are_named_at_their_axis_where_names_are_short(
    study: findings.Study, numbers: dict[str, tables.Table], monkeypatch: pytest.MonkeyPatch
) -> None:
    names = [study.names.state(s) for s in range(2)]
    longest = max(map(len, names))
    panels_of = []
    for letters, said in ((longest, f"{json.dumps(names)}[datum.value]"), (longest - 1, None)):
        monkeypatch.setattr(charts, "STATE_LETTERS", letters)
        chart = charts._policy(study, numbers["policies"])
        assert chart["spec"]["encoding"]["y"]["axis"].get("labelExpr") == said
        panels_of.append(chart["usermeta"]["panel"])
    assert panels_of[0] - panels_of[1] == charts.STATE_LABEL  # room for them


def test_episodes_are_logarithmic_where_asked_for() -> None:
    assert episodes()["scale"] == {"nice": False}
    assert episodes(log=True)["scale"] == {"type": "log", "nice": False}
    # Of a logarithmic axis only the powers of ten are named.
    assert episodes(log=True)["axis"]["labelExpr"].startswith(f"{POWER} ? ")
    assert f"(scale == 'linear' || {POWER}) ? " in episodes()["axis"]["labelExpr"]


def test_epochs_have_room_for_the_longest_name() -> None:
    def room(*names: str) -> float:
        axis = panels.epochs(names)["layer"][0]["encoding"]["y"]["axis"]
        return float(axis["minExtent"])

    assert room("spot") < room("spot", "pessimistic") < room("x" * 80) == panels.LABEL
    assert room("pessimistic") >= 7 * len("pessimistic")  # pixels of a letter


def test_the_colors_of_many_lines_blend_over_gray() -> None:
    style = page._colors(9)
    light = dict(re.findall(r"--g(\d):(#[0-9a-f]{6})", style.partition("@media")[0]))
    assert light == {
        "0": "#0072b2", "1": "#2278a8", "2": "#457e9e", "3": "#688494", "4": "#8a8a8a",
        "5": "#9d7f68", "6": "#b07445", "7": "#c26922", "8": "#d55e00",
    }  # fmt: skip
    assert page._colors(2) == ".g0{background:var(--g0)}.g1{background:var(--g1)}"


# --- The page


def test_a_page_is_called_like_its_study_or_by_how_many_it_has(
    study: findings.Study, numbers: dict[str, tables.Table]
) -> None:
    for shown, title in (([study], "machine"), ([study, study], "2 studies")):
        text = page.render([(each, numbers) for each in shown])
        assert f"<title>safespot: {title}</title>" in text
        assert ('<select id="study">' in text) is (len(shown) > 1)


def test_a_page_has_its_notes_switches_facts_and_downloads(
    study: findings.Study, numbers: dict[str, tables.Table]
) -> None:
    text = sections.main(study, numbers, 0)
    assert "<small>best within limits 11.0</small>" in text
    assert "<small></small>" not in text
    assert '<input type="radio" name="scale" value="linear" checked>' in text
    assert '<input type="radio" name="scale" value="log">' in text
    assert "<h2>What was run</h2>" in text
    assert "<dt>Episodes</dt><dd>60</dd>" in text
    assert set(re.findall(r'<li><button type="button" data-table="(\w+)">', text)) == set(numbers)
    assert "too many for this page" not in text
    without = {name: table for name, table in numbers.items() if name != "runs"}
    assert "too many for this page" in sections.main(study, without, 0)


@pytest.mark.parametrize(("count", "columns"), [(1, 1), (2, 2), (3, 3), (4, 2), (5, 2)])
def test_charts_stand_in_rows_that_are_full_where_they_can_be(count: int, columns: int) -> None:
    text = sections._section("title", "says", ["<figure></figure>"] * count, "", "curves")
    assert f'<div class="grid n{columns}">' in text


def test_a_picture_of_a_region_is_told_by_its_optima(
    study: findings.Study, numbers: dict[str, tables.Table]
) -> None:
    text = sections._region(study, numbers["regions"])
    assert "optimum, true 11.0" in text
    (label,) = re.findall(r'data-chart="region-0"><div role="img" aria-label="([^"]*)"', text)
    # Of the truth, and of the line that is chosen first.
    assert label.count("optimum, true") == 1
    assert label.count("optimum, pessimistic") <= 1
    assert label.count("optimum, optimistic") == 1
    empty: tables.Table = {name: [] for name in numbers["regions"]}
    assert "No policy keeps the limits." in sections._region(study, empty)


def test_columns_are_headed_by_what_they_are_called(study: findings.Study) -> None:
    for column, said in (
        ("value", "reward (in two days)"), ("strong_violation", "strong violation"), ("constraint_0", "strain"),
        ("threshold_lower_0", "strain: threshold lower"),
    ):  # fmt: skip
        assert sections._heading(study, column) == said


# --- Figures for print


def test_figures_name_their_axes_and_their_optima(study: findings.Study, store: Store) -> None:
    written = {path.stem: path.read_text() for path in write_figures(store, "svg")}
    assert list(written) == ["regret", "violation", "thresholds", "region", "frontier"]
    for said in (
        "strain (in two days), ≤ limit",
        "reward (in two days)",
        "best policy under each limit",
    ):
        assert said in written["region"]
    for said in ("optimistic", "true", "pessimistic"):
        assert said in written["region"]
    assert "bounds of the limit of strain" in written["thresholds"]
    alone = [name for name, _ in figures._figures(of(study, 0, 3))]
    assert alone == ["regret", "violation", "thresholds", "region"]  # one stance is no choice


def test_bars_reach_to_both_ends_of_their_interval() -> None:
    reach = figures._reach(Estimate(2.0, 1.5, 3.0, 4))
    assert reach is not None
    assert reach.tolist() == [[0.5], [1.0]]
    assert figures._reach(Estimate(2.0, math.nan, math.nan, 1)) is None


def test_many_lines_of_a_figure_go_from_careful_to_bold(study: findings.Study) -> None:
    many = of(study, *[0, 1, 2, 3] * 2, 0)
    found = [color.upper() for _, color in figures._colored(many)]
    assert (found[0], found[-1]) == (figures.CAREFUL, figures.BOLD)
    assert len(set(found)) == len(found)
    assert [color for _, color in figures._colored(study)] == list(figures.COLORS[:4])
