"""The report says what the store holds, the region is what policies can achieve, and the page works in a browser."""

from __future__ import annotations

import csv
import io
import json
import math
import re
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import safespot as ss
from safespot.arrays import Float
from safespot.experiments import Store, as_spec
from safespot.experiments import worker as work
from safespot.experiments.summary import Estimate
from safespot.report import findings, page, results, tables, terminal, write_figures, write_report
from safespot.report import text as words
from safespot.report.region import Region
from safespot.report.vega import bundle
from tests.support.browsing import Tab
from tests.support.sweeping import sweep_inline

SPOT = {"rho": "slater", "bonus_scale": 0.01, "threshold_scale": 0.1}
STANCES = ["pessimistic", 0.5, "optimistic"]
EPISODES = 3_000


def made(path: Path, **spec: Any) -> Store:
    learners = [{"name": "spot", "options": SPOT, "grid": {"stance": STANCES}}]
    whole = {"episodes": EPISODES, "seeds": 3, "learners": learners, **spec}
    return sweep_inline(path, as_spec(whole).runs())


@pytest.fixture(scope="session")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    """Three stances on the machine: one limit, an upper one, in units of its own."""
    return made(tmp_path_factory.mktemp("report") / "store", problem={"name": "machine"})


@pytest.fixture(scope="session")
def study(store: Store) -> findings.Study:
    (only,) = findings.read(store)
    return only


@pytest.fixture(scope="session")
def path(store: Store) -> Path:
    return write_report(store)


@pytest.fixture(scope="session")
def several(tmp_path_factory: pytest.TempPathFactory) -> Store:
    """Two problems in one store: two limits with two learners and one seed, and a limit that moves."""
    folder = tmp_path_factory.mktemp("report") / "several"
    learners = [
        {"name": "spot", "options": SPOT},
        {"name": "spot", "options": {**SPOT, "thresholds": "known"}},
    ]
    made(folder, problem={"name": "triage"}, learners=learners, seeds=1, episodes=500)
    drift = {"thresholds": [1.5], "first": 100, "last": 300}
    options = {"states": 3, "actions": 2, "horizon": 3}
    random = {"name": "random", "options": options, "signals": {"drift": drift}}
    return made(folder, problem=random, learners=learners[:1], seeds=2, episodes=500)


@pytest.fixture(scope="session")
def several_path(several: Store) -> Path:
    return write_report(several)


def embedded(path: Path) -> Any:
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', path.read_text())
    assert found is not None
    return json.loads(found[1])


# --- What is read


def test_curves_are_the_means_of_the_store(store: Store, study: findings.Study) -> None:
    table, columns = tables.curves(study), ("regret", "strong_violation", "threshold_upper_0")
    means = ", ".join(f"avg({column})" for column in columns)
    rows = store.query(
        f"select learner_options->>'stance', episode, {means} from results join runs using (run) group by all"
    ).fetchall()
    want = {(stance, episode): values for stance, episode, *values in rows}
    assert len(table["group"]) > 200
    for k, (group, episode) in enumerate(zip(table["group"], table["episode"], strict=True)):
        values = want[str(STANCES[group]), episode]
        assert [table[column][k] for column in columns] == pytest.approx(values, rel=1e-5)
    assert table["episode"][-1] == EPISODES


def test_bands() -> None:
    alone = findings.band(np.array([[1.0, 2.0]]))
    assert alone.mean.tolist() == [1.0, 2.0]
    assert np.isnan(alone.low).all()
    assert np.isnan(alone.high).all()
    values = np.random.default_rng(1).normal(5.0, 1.0, (40, 1))
    mean, low, high = findings.band(values)
    assert low < mean < high
    # A 95 % interval of a mean is about 4 standard errors wide.
    assert (high - low)[0] == pytest.approx(3.92 / math.sqrt(40), rel=0.25)


def test_early_and_late(study: findings.Study) -> None:
    episodes = np.arange(1, 101)
    cumulative = np.minimum(episodes, 25)[None].astype(
        float
    )  # one an episode for a quarter, then nothing
    line = findings.Line(
        "x", study.lines[0].summary, (), None, "", episodes, {"sum": cumulative, "level": episodes[None].astype(float)}
    )  # fmt: skip
    assert line.rate("sum", late=False).mean == pytest.approx(1.0)
    assert line.rate("sum", late=True).mean == 0.0
    assert line.late("level").mean == pytest.approx(87.5)


def test_kept_agrees_with_the_store(store: Store, study: findings.Study) -> None:
    for line in study.lines:
        ends = store.query(
            "select avg(violation_0) filter (episode = 3000), "
            "regr_slope(violation_0, episode) filter (episode >= 2250) from results "
            "where run in (select unnest(?))",
            [list(line.group.runs)],
        ).fetchall()[0]
        found = study.shortfall(line, 0).mean
        assert found == pytest.approx(ends[1], abs=0.15)
        assert study.kept(line) == [found <= 1e-3 * 2 * 4]


@pytest.fixture(scope="module", params=["triage", "random"])
def recorded_apart(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The same runs twice: every episode recorded, and few of them; limits of both senses, and one that moves."""
    problem: dict[str, Any] = {"name": request.param}
    if request.param == "random":
        problem["options"] = {"states": 3, "actions": 2, "horizon": 3}
        problem["signals"] = {"drift": {"thresholds": [1.5], "first": 100, "last": 300}}
    folder = tmp_path_factory.mktemp("apart")
    return [
        findings.read(
            made(folder / str(record), problem=problem, episodes=400, record=record), 10**6
        )[0]
        for record in ("all", 100)
    ]


def test_the_table_averages_all_late_episodes_as_the_verdict_does(recorded_apart: Any) -> None:
    whole, few = recorded_apart
    differ = []
    for all_of_it, some in zip(whole.lines, few.lines, strict=True):
        late = all_of_it.episodes > 300
        for i in range(whole.m):
            want = all_of_it.columns[f"constraint_{i}"][:, late].mean()
            assert few.late_constraint(some, i).mean == pytest.approx(want, abs=1e-5)
            short = few.shortfall(some, i).mean
            if not few.drifts:  # what is shown is on the side of the limit that the verdict says
                beyond = few.late_constraint(some, i).mean - few.limits(400)[i]
                assert (beyond if few.senses[i] == "<=" else -beyond) == pytest.approx(short)
            differ.append(abs(some.late(f"constraint_{i}").mean - want))
        want = all_of_it.columns["value"][:, late].mean()
        assert few.late_reward(some).mean == pytest.approx(want, abs=1e-5)
    assert max(differ) > 1e-3  # recorded episodes alone would say something else
    for row, line in zip(results.rows(few), few.lines, strict=True):
        assert float(row[1].text) == pytest.approx(few.late_reward(line).mean, rel=1e-2)
        for i in range(few.m):
            shown = float(row[2 + i].text.replace("\N{MINUS SIGN}", "-"))
            assert shown == pytest.approx(few.late_constraint(line, i).mean, rel=1e-2)
    said = terminal.as_dict(few)["lines"]
    for told, line in zip(said, few.lines, strict=True):
        assert told["constraints"][0]["mean"] == few.late_constraint(line, 0).mean


def test_limits_and_optimum_move_with_a_drift(several: Store) -> None:
    studies = {study.name.split(",")[0]: study for study in findings.read(several)}
    moving, still = studies["random"], studies["triage"]
    assert moving.drifts
    assert moving.limits(500)[0] == pytest.approx(1.5)
    assert moving.limits(1)[0] != pytest.approx(1.5)
    table = tables.truth(moving)
    assert len(set(table["limit_0"])) > 10
    want = ss.solve(moving.problem.cmdp.with_thresholds([1.5])).value
    assert table["optimum"][-1] == pytest.approx(want, rel=1e-5)
    assert not still.drifts
    assert tables.truth(still)["limit_1"] == [2.1, 2.1]
    assert [line.name for line in still.lines] == ["spot", "limits known"]
    assert [line.xi for line in still.lines] == [0.0, None]


# --- What is said


class Fixed(findings.Study):
    """A study whose lines kept or broke what a test wants."""

    outcome: dict[str, float]

    def shortfall(self, line: findings.Line, i: int) -> Estimate:
        return Estimate(self.outcome[line.name], math.nan, math.nan, 1)


def judged(study: findings.Study, outcome: tuple[float, ...]) -> Fixed:
    fixed = Fixed(study.name, study.setting, study.episodes, study.lines)
    names = [line.name for line in study.lines]
    object.__setattr__(fixed, "outcome", dict(zip(names, outcome, strict=True)))
    return fixed


@pytest.mark.parametrize(
    ("outcome", "said"),
    [
        ((-1.0, -1.0, -1.0), "Pessimistic, ξ = 0.5 and optimistic kept the limit of strain"),
        ((-1.0, -1.0, 0.5), "Optimistic broke the limit of strain by 0.50 in two days."),
        ((-1.0, 0.2, 0.5), "ξ = 0.5 and optimistic did not: optimistic broke the limit of strain the most, by 0.50"),
        ((1.0, 0.2, 0.5), "The best in reward, "),
        ((1.0, 0.2, 0.5), "None kept the limit of strain on average over the last quarter of the episodes: pess"),
    ],
)  # fmt: skip
def test_the_verdict(study: findings.Study, outcome: tuple[float, ...], said: str) -> None:
    text = " ".join(words.verdict(judged(study, outcome)))
    assert said in text
    assert ("None kept the limit" in text) == (min(outcome) > 0.0)
    assert "kept the limit" in text
    assert ("did not" in text) == (
        sum(x > 0.0 for x in outcome) == 2
    )  # whoever did stands before it
    assert (" broke " in text) == (max(outcome) > 0.0)


# --- What can be achieved


def inside(polygon: Float, points: Float, room: float) -> bool:
    """Whether a convex polygon holds all points, but for some room."""
    edges = np.roll(polygon, -1, axis=0) - polygon
    gaps = points[:, None] - polygon[None]
    side = edges[None, :, 0] * gaps[..., 1] - edges[None, :, 1] * gaps[..., 0]
    return bool((side / np.hypot(*edges.T) >= -room).all())


def some_policies(cmdp: ss.CMDP, n: int, seed: int = 0) -> Iterator[ss.Evaluation]:
    rng = np.random.default_rng(seed)
    mask = np.broadcast_to(cmdp.model.mask.reshape(-1, cmdp.S, cmdp.A), (cmdp.H, cmdp.S, cmdp.A))
    for _ in range(n):
        weights = rng.gamma(0.15, size=mask.shape) * mask + 1e-9 * mask
        yield ss.evaluate(cmdp, weights / weights.sum(axis=2, keepdims=True))


def test_the_machine_has_the_region_of_its_derivation() -> None:
    region = Region(ss.problems.make("machine").cmdp)
    corners = region.achievable(0)
    for x, y in ((0, 8), (2, 14), (5, 18)):
        assert np.abs(corners - [x, y]).max(axis=1).min() < 1e-9
    found = region.feasible(np.array([1.0]))
    assert found is not None
    assert (found.constraints[0], found.reward) == pytest.approx((1.0, 11.0))
    assert found.polygons[0][:, 0].max() == pytest.approx(1.0)
    assert found.polygons[0][:, 1].max() == pytest.approx(11.0)
    assert region.feasible(np.array([-0.0])) is not None  # always gentle strains nothing


@pytest.mark.parametrize("constraints", [1, 2, 3])
def test_no_policy_lies_outside(constraints: int) -> None:
    cmdp = ss.problems.make("random", states=4, actions=3, horizon=3, constraints=constraints).cmdp
    region = Region(cmdp)
    found = region.feasible(cmdp.limits)
    assert found is not None
    assert found.reward == pytest.approx(ss.solve(cmdp).value)
    policies = list(some_policies(cmdp, 400))
    for i in range(constraints):
        points = np.array([[p.constraints[i], p.value] for p in policies])
        assert inside(region.achievable(i), points, 5e-3)
        kept = np.array([(p.constraints >= cmdp.limits).all() for p in policies])
        if kept.any():
            assert inside(found.polygons[i], points[kept], 0.05)
        # The sets lie within each other, and within the limit.
        assert inside(region.achievable(i), found.polygons[i], 5e-3)
        assert found.polygons[i][:, 0].min() >= cmdp.limits[i] - 1e-6


def test_limits_out_of_reach_leave_nothing() -> None:
    cmdp = ss.problems.make("random", states=3, actions=2, horizon=3).cmdp
    assert Region(cmdp).feasible(np.array([3.0])) is None
    assert Region(cmdp).feasible(np.array([99.0])) is None  # unclipped bounds go beyond the range


# --- The policy at the end


def test_the_policy_of_a_run_is_kept(store: Store, study: findings.Study) -> None:
    line = study.lines[1]
    policy = store.policy(line.group.runs[0])
    assert policy is not None
    assert policy.shape == (2, 2, 2)
    np.testing.assert_allclose(policy.sum(axis=2), 1.0)
    last = ss.evaluate(study.problem.cmdp, policy)
    # It is the policy of the coming episode, one small step after the last.
    assert last.value == pytest.approx(line.columns["value"][0, -1], abs=0.05)
    table = tables.policies(study, store)
    shown = [p for group, p in zip(table["group"], table["probability"], strict=True) if group == 1]
    np.testing.assert_allclose(np.reshape(shown, policy.shape), policy, atol=5e-4)


def test_a_policy_too_large_is_not_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(work, "POLICY_ENTRIES", 7)
    small = made(tmp_path / "store", problem={"name": "machine"}, seeds=1, episodes=20)
    assert [small.policy(run) for run in sorted(small.finished())] == [None] * 3
    text = write_report(small).read_text()
    assert "The policy at the end" not in text
    with pytest.raises(ss.errors.UnknownName, match="no finished run 'nobody'"):
        small.policy("nobody")


# --- The page


class Tags(HTMLParser):
    """Every tag of a page; complains where they do not nest."""

    VOID = frozenset({"meta", "link", "input", "br"})

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: list[tuple[str, dict[str, str | None]]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append((tag, dict(attrs)))
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


@pytest.mark.parametrize("which", ["path", "several_path"])
def test_the_page_is_whole_and_alone(which: str, request: pytest.FixtureRequest) -> None:
    text = request.getfixturevalue(which).read_text()
    assert len(text.encode()) <= 2_000_000
    tags = Tags()
    tags.feed(text)
    assert tags.open == []
    for tag, attributes in tags.seen:
        assert "src" not in attributes
        assert tag not in ("iframe", "object", "img")
        assert attributes.get("href", "data:,") == "data:,"
    assert "url(" not in page._part("page.css")
    assert "@import" not in page._part("page.css")
    alternatives = [a for tag, a in tags.seen if a.get("role") == "img"]
    assert len(alternatives) == sum(tag == "figure" for tag, _ in tags.seen) > 5
    assert all(len(a.get("aria-label") or "") > 20 for a in alternatives)


def test_every_figure_has_its_chart_and_every_chart_its_table(path: Path) -> None:
    (data,) = embedded(path)
    figures = set(re.findall(r'data-chart="([\w-]+)"', path.read_text()))
    assert figures == set(data["charts"])
    for spec in data["charts"].values():
        named = {
            part["name"]
            for part in _parts(spec, "data")
            if isinstance(part, dict) and "name" in part
        }
        assert named
        assert named <= set(data["tables"])
    for table in data["tables"].values():
        assert len({len(column) for column in table.values()}) == 1


def _parts(value: Any, key: str) -> Iterator[Any]:
    """Everything under a key, at any depth."""
    for each in (
        value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    ):
        yield from _parts(each, key)
    if isinstance(value, dict) and key in value:
        yield value[key]


def test_the_same_store_gives_the_same_page(store: Store, path: Path, tmp_path: Path) -> None:
    again = write_report(store.path, tmp_path / "other.html")
    assert again.read_bytes() == path.read_bytes()


def test_a_large_page_leaves_out_the_runs(
    store: Store, path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "runs" in embedded(path)[0]["tables"]
    monkeypatch.setattr(page, "LARGEST", path.stat().st_size - 1)
    smaller = write_report(store, tmp_path / "smaller.html")
    assert "runs" not in embedded(smaller)[0]["tables"]
    assert "runs/*.parquet" in smaller.read_text()
    assert len(embedded(smaller)[0]["tables"]["curves"]["group"]) == len(
        embedded(path)[0]["tables"]["curves"]["group"]
    )
    monkeypatch.setattr(page, "LARGEST", smaller.stat().st_size - 1)
    smallest = write_report(store, tmp_path / "smallest.html")
    assert smallest.stat().st_size < smaller.stat().st_size
    assert 0 < len(embedded(smallest)[0]["tables"]["curves"]["group"]) <= 3 * 82


def test_a_page_needs_no_package_of_an_extra(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "vl_convert", None)
    bundle.cache_clear()
    assert "vegaEmbed" in write_report(store, tmp_path / "page.html").read_text(encoding="utf-8")


# --- Figures for print


@pytest.mark.parametrize(("kind", "magic"), [("png", b"\x89PNG"), ("svg", b"<?xml")])
def test_figures(kind: str, magic: bytes, store: Store, tmp_path: Path) -> None:
    written = write_figures(store, kind, tmp_path / "a")
    names = ["regret", "violation", "thresholds", "region", "frontier"]
    assert [file.name for file in written] == [f"{name}.{kind}" for name in names]
    assert all(file.read_bytes().startswith(magic) for file in written)
    if kind == "svg":
        again = write_figures(store, kind, tmp_path / "b")
        assert [f.read_bytes() for f in again] == [f.read_bytes() for f in written]
        assert "pessimistic" in written[0].read_text()


def test_what_figures_need(store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ss.errors.InvalidOption, match="pdf, png, svg, got 'gif'"):
        write_figures(store, "gif")
    (tmp_path / "file").write_text("")
    with pytest.raises(ss.errors.InvalidFile, match="cannot make"):
        write_figures(store, "svg", tmp_path / "file" / "folder")
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(ss.SafespotError, match=r"pip install \"safespot\[report\]\""):
        write_figures(store, "svg")


# --- In a browser


@pytest.fixture
def tab(browser: Any, path: Path) -> Iterator[Tab]:
    opened = Tab(browser, path.resolve().as_uri())
    yield opened
    assert opened.wrong == []
    opened.context.close()


def test_every_chart_is_drawn(tab: Tab, path: Path) -> None:
    for chart in embedded(path)[0]["charts"]:
        assert len(tab.marks(chart)) > 3, chart
    assert tab.page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_scales_and_counts_are_switched(tab: Tab) -> None:
    tab.changes("regret", lambda: tab.page.locator("[name=scale][value=log]").check(force=True))
    assert {"1", "10", "100", "1k"} <= set(tab.marks("violation", "svg text"))
    tab.changes(
        "violation", lambda: tab.page.locator("[name=counted][value=strong]").check(force=True)
    )
    tab.changes("reward", lambda: tab.page.locator("[name=scale][value=linear]").check(force=True))
    # What was switched before the chart was drawn anew still holds.
    strong = tab.marks("violation")
    tab.changes(
        "violation", lambda: tab.page.locator("[name=counted][value=net]").check(force=True)
    )
    assert tab.marks("violation") != strong


def test_the_slider_goes_from_careful_to_bold(tab: Tab) -> None:
    slider, output = tab.page.locator("[name=picked]"), tab.page.locator("output")
    assert output.inner_text().startswith("pessimistic: regret ")
    slider.focus()
    tab.changes("frontier", lambda: tab.page.keyboard.press("ArrowRight"))
    assert output.inner_text().startswith("ξ = 0.5: regret ")
    tab.changes("frontier", lambda: tab.page.keyboard.press("End"))
    assert output.inner_text().startswith("optimistic: regret ")


def test_numbers_are_downloaded(tab: Tab, path: Path) -> None:
    numbers = embedded(path)[0]["tables"]
    for name, table in numbers.items():
        with tab.page.expect_download() as download:
            tab.page.locator(f".downloads [data-table={name}]").click()
        assert download.value.suggested_filename == f"{name}.csv"
        rows = list(csv.DictReader(io.StringIO(Path(download.value.path()).read_text())))
        assert len(rows) == len(next(iter(table.values())))
        assert list(rows[0]) == list(table)
        if "group" in table:
            assert {row["group"] for row in rows} <= {
                "pessimistic",
                "ξ = 0.5",
                "optimistic",
                "truth",
            }
        last = list(table)[-1]
        want = ["" if x is None else x for x in table[last]]
        assert [row[last] if row[last] == "" else float(row[last]) for row in rows] == want


def test_dark_light_and_paper(browser: Any, path: Path) -> None:
    seen = {}
    for scheme in ("light", "dark"):
        tab = Tab(browser, path.resolve().as_uri(), color_scheme=scheme)
        line = tab.page.locator("[data-chart=regret] svg path[stroke='var(--g0)']").first
        colors = "one => [getComputedStyle(document.documentElement).backgroundColor, getComputedStyle(one).stroke]"
        seen[scheme] = line.evaluate(colors)
        tab.page.emulate_media(media="print")
        assert line.evaluate(colors) == seen["light"]  # nobody prints on black
        assert not tab.page.locator(".controls").is_visible()
        assert tab.wrong == []
        tab.context.close()
    assert seen["light"] == ["rgb(255, 255, 255)", "rgb(0, 114, 178)"]
    assert seen["dark"] == ["rgb(20, 23, 27)", "rgb(86, 180, 233)"]


def test_one_study_at_a_time(browser: Any, several_path: Path) -> None:
    tab = Tab(browser, several_path.resolve().as_uri())
    heading = tab.page.locator("main:not([hidden]) h1")
    first = heading.inner_text()
    tab.page.locator("#study").select_option("1")
    assert heading.inner_text() != first
    tab.page.wait_for_selector("main:not([hidden]) [data-chart=regret] svg")
    tab.page.wait_for_timeout(500)
    for chart in embedded(several_path)[1]["charts"]:
        assert len(tab.marks(chart)) > 2, chart
    assert tab.wrong == []
    tab.context.close()


def test_nothing_in_the_data_can_end_the_script_or_begin_a_comment() -> None:
    from safespot.report.page import _json

    data = {"a": "</script><!--<script>", "b": ["<", "\u2028"]}
    text = _json(data)
    assert "<" not in text
    assert json.loads(text) == data
