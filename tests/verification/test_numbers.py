"""The numbers beside the verdicts: tables, figures and bounds are what their heads and formulas say."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from html import escape
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import safespot as ss
from safespot.experiments import RunSpec
from safespot.report.text import number
from safespot.verification import (
    assumption,
    document,
    duality,
    fresh,
    lemmas,
    orders,
    page,
    phases,
    pictures,
    practice,
    verify,
    verifying,
)
from safespot.verification.inference import mean, share
from safespot.verification.known import allowed
from safespot.verification.measurements import Measurements, Trace, grouped
from safespot.verification.sizes import Size
from safespot.verification.verdicts import ClaimTable, Figure, Judgment, Verdict
from safespot.verification.verifying import CLAIMS, Verification
from tests.verification.test_verification import (
    FAILS,
    HOLDS,
    JUDGES,
    OPEN,
    Columns,
    changing,
    estimating,
    forgetting,
    inline,
    knowing,
    leaving_room,
    longer,
    ordering,
    outcomes,
    practising,
    spoken,
    synthetic,
    tiny,
    tried,
)

__all__ = ["tiny"]  # a fixture

QUICK = Size.quick


def drawn(figure: Figure) -> list[dict[str, Any]]:
    """The points of a figure."""
    points: list[dict[str, Any]] = figure.chart["data"]["values"]
    return points


def rows(table: ClaimTable) -> list[tuple[str, ...]]:
    """All but the head."""
    return list(table.rows[1:])


# --- The tests behind the verdicts


def test_two_seeds_have_an_interval() -> None:
    reach = 12.706204736  # Student's, of one degree of freedom, times the error of their mean, 1
    assert mean([1.0, 3.0], 0.05) == pytest.approx((2.0, 2.0 - reach, 2.0 + reach))


@pytest.mark.parametrize(("power", "want"), [(-0.5, HOLDS), (-0.35, FAILS)])
def test_an_error_converges_at_rate_a_half_but_for_its_margin(power: float, want: Any) -> None:
    found = JUDGES["consistency"](synthetic(QUICK, consistency=estimating(power, 1.0)))
    assert outcomes(found, "error") == [want]


def test_a_width_is_judged_by_its_last_decade() -> None:
    """One that falls fast at first, and then no more, does not fall like the root."""

    def stalls(run: RunSpec, rng: Any) -> Columns:
        made = estimating(-0.5, 1.0)(run, rng)
        half = 30.0 * np.minimum(made["episode"], 10_000.0) ** -0.5
        half *= 1.0 + 0.001 * rng.standard_normal(len(half))
        return {**made, "threshold_upper_0": 1.0 + half, "threshold_lower_0": 1.0 - half}

    found = JUDGES["consistency"](synthetic(QUICK, consistency=stalls))
    assert outcomes(found, "width") == [FAILS]


def test_a_multiplier_at_exactly_the_share_that_counts_is_saturated() -> None:
    some = leaving_room(-2.0, 1.0, assumption.SATURATED)
    found = JUDGES["assumption"](synthetic(QUICK, assumption=some))
    assert outcomes(found, "(bonus × 0.01)") == [HOLDS]


def test_a_run_that_got_there_alone_of_its_seed_has_no_exponent() -> None:
    """The other seeds decide."""
    whole = leaving_room(-2.0, 1.0, 1.0)

    def runs(run: RunSpec, rng: Any) -> Columns:
        made: Columns = whole(run, rng)
        late = run.seed == 0 and run.problem_options["slack"] < 0.9
        return {**made, "audit_first_feasible": 0.0} if late else made

    (verdict,) = (
        each
        for each in JUDGES["assumption"](synthetic(assumption=runs)).verdicts
        if "power −2" in each.statement
    )
    assert verdict.outcome is HOLDS
    assert "over 19 seeds" in verdict.reason


def priced(lost: Sequence[float]) -> Measurements:
    """Runs of the sweep `evidence` whose proposals lost so much to those of the told learner, by seed."""

    def with_value(trace: Trace) -> Trace:
        told = trace.option("thresholds") is not None
        value = 1.0 - (0.0 if told else lost[trace.run.seed % len(lost)])
        facts = {**trace.facts, "proposal": {"value": value}}
        return Trace(trace.run, trace.rho, trace.columns, facts)

    made = spoken()
    return Measurements(made.size, {"evidence": tuple(map(with_value, made["evidence"]))})


@pytest.mark.parametrize(("errors", "want"), [(1.5, OPEN), (2.5, HOLDS), (-2.5, FAILS)])
def test_the_problems_of_a_verdict_share_its_level(errors: float, want: Any) -> None:
    """Two problems: 1.5 standard errors below the limit would be enough at level 0.1, and are not at 0.025."""
    n = 200
    spread = np.where(np.arange(n) % 2, 1e-3, -1e-3)
    error = spread.std(ddof=1) / math.sqrt(n)
    lost = phases.PRICE - errors * error + spread
    whole = {**tried(0.0).traces, **priced(lost).traces}

    def strong(run: RunSpec, rng: Any) -> Columns:
        return {"strong_violation": 1.0 + rng.random()}

    whole |= synthetic(phases=strong).traces
    found = JUDGES["epochs"](Measurements(Size.full, whole))
    assert outcomes(found, "costs the pessimistic proposal") == [want]


# --- Formulas of the paper and of the notes


def first_of(sweep: str, columns: Columns | None = None) -> Trace:
    return synthetic(QUICK, **{sweep: lambda run, rng: columns or {}})[sweep][0]


def test_what_the_order_hides_is_the_root_of_a_logarithm() -> None:
    trace = first_of("orders")
    c = trace.cmdp
    ref = math.sqrt(math.log(c.S * c.A * c.H * c.m * 1000 / 0.05))
    assert orders.logarithms(trace, 1000) == pytest.approx(ref)


def test_the_mirror_bound_is_that_of_its_lemma() -> None:
    """√(2H⁴(1+mρ)²T ln A)."""
    trace = next(t for t in synthetic(QUICK, orders=lambda *_: {})["orders"] if t.cmdp.H > 1)
    c, T, rho = trace.cmdp, trace.run.episodes, trace.rho
    ref = math.sqrt(2 * c.H**4 * (1 + c.m * rho) ** 2 * T * math.log(c.A))
    assert lemmas.mirror_bound(trace) == pytest.approx(ref)


def test_the_first_feasible_episode_is_expected_where_the_radii_fit_the_margin() -> None:
    """4 L (H/ξ)² S A, drawn beside the runs with the paper's bonus, and in every row."""
    found = JUDGES["assumption"](synthetic(QUICK, assumption=leaving_room(-2.0, 1.0, 1.0)))
    traces = synthetic(QUICK, assumption=lambda *_: {})["assumption"]
    ref = {}
    for trace in traces:
        c, margin = trace.cmdp, trace.slater.margin
        L = math.log(c.m * c.S * c.A * c.H * trace.run.episodes / 0.05)
        ref[margin] = 4.0 * L * (c.H / margin) ** 2 * c.S * c.A
        assert assumption.expected(trace) == pytest.approx(ref[margin])
    dashed = {point["x"]: point["y"] for point in drawn(found.figures[0]) if point["dashed"]}
    assert dashed == pytest.approx(ref)
    paper = [point for point in drawn(found.figures[0]) if point["series"] == "bonus × 1"]
    assert {point["x"] for point in paper} == set(ref)
    assert sum(point["dashed"] for point in drawn(found.figures[0])) == len(paper)


def test_nothing_is_expected_of_runs_with_another_bonus_than_the_papers() -> None:
    def late(run: RunSpec, rng: Any) -> Columns:
        made: Columns = leaving_room(-2.0, 1.0, 1.0)(run, rng)
        first = made["audit_first_feasible"] if run.learner_options["bonus_scale"] < 1.0 else 0.0
        return {**made, "audit_first_feasible": first}

    (figure,) = JUDGES["assumption"](synthetic(QUICK, assumption=late)).figures
    assert {point["series"] for point in drawn(figure)} == {"bonus × 0.01"}


def test_a_trial_of_one_episode_is_told_by_that_episode() -> None:
    trace = next(t for t in tried(0.25)["trials"] if t.cmdp.H == 2)
    T = trace.run.episodes
    parts = [
        {"kind": "explore", "first": 1, "last": T - 1},
        {"kind": "try", "first": T, "last": T},
    ]
    one = Trace(trace.run, trace.rho, trace.columns, {"epochs": parts})
    assert phases.trial_cost(one) == pytest.approx(0.25 * 2)


# --- Tables


def test_episodes_until_bounds_are_narrow_are_those_of_the_width() -> None:
    """A half width of 30/√n is at most w from n = (30/w)² on."""
    found = JUDGES["consistency"](synthetic(QUICK, consistency=estimating(-0.5, 1.0)))
    episodes = np.unique(np.logspace(0, 5, 120).round())
    for wanted, ours, theirs, ratio in rows(found.tables[0]):
        there = episodes[episodes >= (30.0 / float(wanted)) ** 2]
        ref = number(there[0]) if len(there) else "not reached"
        assert (ours, theirs) == (ref, ref)
        assert ratio.startswith("1.00") == bool(len(there))
    assert [float(row[0]) for row in rows(found.tables[0])] == [1.0, 0.5, 0.3, 0.2, 0.1, 0.05]


def test_every_learner_under_a_guard_has_a_row() -> None:
    traces = tuple(
        Trace(
            trace.run, 2.0, {"violation_0": np.array([1.0, 30.0, 3.0])}, {"guard": {"budget": [40.0], "share": 0.5}}
        )
        for trace in synthetic(QUICK, budget=lambda *_: {})["budget"]
    )  # fmt: skip
    found = JUDGES["budget"](Measurements(QUICK, {"budget": traces}))
    learners = {"fixed": "one that always plays the worst policy", "spot-epochs": "spot-epochs"}
    n = len(traces) // 2
    assert rows(found.tables[0]) == [
        (learners[who], str(n), str(share(n, n, 0.05)), "0.750", str(mean([0.5] * n, 0.05)))
        for who in dict.fromkeys(trace.run.learner for trace in traces)
    ]


def test_a_window_is_shown_beside_the_whole_with_95_percent_intervals() -> None:
    made = synthetic(QUICK, window=forgetting(0.4), drift=changing(lambda gamma: 20_000 * gamma))
    shown = rows(JUDGES["window"](made).tables[0])
    groups = grouped(made["window"], lambda t: (t.option("stance"), t.option("window")))
    smaller = sorted({gamma for _, gamma in groups if gamma < 1.0})
    ref = [
        (what, stance, f"{gamma:g}", *(str(mean([t.last(column) for t in groups[xi, g]], 0.05)) for g in (1.0, gamma)))
        for column, what in (("audit_zeta_sum", "summed radii Z"), ("regret", "regret"), ("violation", "violation"))
        for xi, stance in ((0.0, "pessimistic"), (1.0, "optimistic"))
        for gamma in smaller
    ]  # fmt: skip
    assert [row[:5] for row in shown] == ref


def test_a_learner_with_the_options_of_its_paper_has_its_bonus() -> None:
    trace = first_of("orders")
    assert trace.option("bonus_scale") is None
    assert practice.variant(trace) == practice.PAPER


def test_bonuses_are_shown_with_95_percent_intervals_and_what_held() -> None:
    made = synthetic(QUICK, practice=practising(0.5, 0.9))
    shown = rows(JUDGES["practice"](made).tables[0])
    paper = [t for t in made["practice"] if t.last("audit_bonus_ratio") == 0.2]
    for problem, theirs in grouped(paper, lambda t: t.problem).items():
        (row,) = [row for row in shown if row[:2] == ("the paper's", problem)]
        every = f"{len(theirs)} of {len(theirs)}"
        ends = [str(mean([t.last(m) for t in theirs], 0.05)) for m in ("regret", "violation")]
        assert row[2:] == (*ends, every, "0.200", every)


def test_growth_has_a_row_for_each_problem_theorem_and_metric() -> None:
    made = longer(0.5)
    both = synthetic(QUICK, range=made, range_random=made)
    found = JUDGES["range"](both)
    problems = dict.fromkeys(t.problem for name in ("range", "range-random") for t in both[name])
    assert [row[:3] for row in rows(found.tables[0])] == [
        (problem, theorem, what)
        for theorem in orders.THEOREMS.values()
        for metric in orders.METRICS
        for what in (metric, f"{metric}, more than told")
        for problem in problems
    ]


def test_seeds_are_counted_problem_by_problem() -> None:
    made = longer(0.5)
    both = synthetic(range=made, range_random=made)
    reason = JUDGES["range"](both).verdicts[0].reason
    for name in ("range", "range-random"):
        seeds = {trace.run.seed for trace in both[name]}
        assert f"{both[name][0].problem}, {len(seeds)} seeds: exponent " in reason


def test_the_p_of_a_step_stands_in_the_row_of_the_stance_that_it_leads_to() -> None:
    """Violation rises and regret falls at the first step alone."""

    def runs(run: RunSpec, rng: Any) -> Columns:
        xi, noise = run.learner_options["stance"], 1e-3 * rng.standard_normal(2)
        return {"violation": min(xi, 0.25) + noise[0], "regret": 1.0 - min(xi, 0.25) + noise[1]}

    made = synthetic(tradeoff=runs, tradeoff_practice=runs)
    table = JUDGES["tradeoff"](made).tables[0]
    stances = [row for row in rows(table) if row[0] == rows(table)[0][0]]
    least = f"{2.0**-20:.1e}"  # of 20 seeds that all say the same
    for column in (3, 5):
        assert [row[column] for row in stances[:2]] == ["", least]
        assert all(float(row[column]) > 0.001 for row in stances[2:])


def test_what_bounds_allow_is_compared_run_by_run() -> None:
    made = synthetic(QUICK, orders=knowing(0.5, 0.1))
    verdict = JUDGES["known"](made).verdicts[1]  # the regret of the pessimistic stance
    longest = max(t.run.episodes for t in made["orders"])
    top = [t for t in made["orders"] if t.run.episodes == longest]
    told = {(t.problem, t.run.seed): t.last("regret") for t in top if t.run.learner != "spot"}
    ours = [t for t in top if t.run.learner == "spot" and t.option("stance") == 0.0]
    most = max(
        (t.last("regret") - told[t.problem, t.run.seed]) / allowed(t, "regret") for t in ours
    )
    assert f"the largest extra is {number(most)} of that" in verdict.reason


def test_certificates_are_counted_where_they_are_judged(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(fresh.RUNS, Size.full, 1)
    made = spoken()
    found = JUDGES["evidence"](made)
    issued = f" {2 * len(made['evidence']):,} certificates."
    assert [v.reason.endswith(issued) for v in found.verdicts[:3]] == [False, False, True]


def test_duality_counts_the_problems_of_its_table(monkeypatch: pytest.MonkeyPatch) -> None:
    verdict, table = duality.strong_duality(1)
    solved = sum(int(row[2]) for row in rows(table))
    assert f"The largest gap of {solved} problems is " in verdict.reason
    monkeypatch.setattr(duality, "TOLERANCE", -1.0)
    assert duality.strong_duality(1)[0].outcome is FAILS


def test_a_gap_as_large_as_it_may_be_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    """Thresholds are moved by a quarter, a half and nine tenths of the Slater margin, to either side."""
    moved: list[ss.CMDP] = []

    def solved(cmdp: ss.CMDP, by: str) -> Any:
        moved.append(cmdp)
        return SimpleNamespace(value=1.0, gap=0.0)

    monkeypatch.setattr(duality, "solve", solved)
    monkeypatch.setattr(duality, "TOLERANCE", 0.0)
    verdict, _ = duality.strong_duality(1)
    assert verdict.outcome is HOLDS
    sizes = {"states": 4, "actions": 3, "horizon": 4, "seed": 0}
    cmdp = ss.problems.make("random", constraints=1, **sizes).cmdp
    margins = ss.slater(cmdp).margins
    for k, part in enumerate((0.25, 0.5, 0.9)):
        tighter, looser = (moved[2 * k + side * 6].limits for side in (0, 1))  # each solved twice
        assert tighter == pytest.approx(cmdp.limits + part * margins)
        assert looser == pytest.approx((cmdp.limits - part * margins).clip(0.0))


# --- Verdicts from fresh episodes


def test_a_trial_is_of_a_policy_on_its_limit_at_confidence_80_percent() -> None:
    (found,) = fresh.trials(1)
    assert found.truth == pytest.approx([0.0], abs=1e-9)
    assert found.certificate.confidence == pytest.approx(0.8)


def test_what_play_is_certified_for_is_the_room_that_its_policies_left() -> None:
    (found,) = fresh.plays(1)
    problem = ss.problems.make("machine")
    learner = ss.Spot(
        **problem.interface, episodes=400, rho=ss.slater(problem.cmdp).rho, bonus_scale=0.01
    )
    run = ss.learn(problem, learner, seed=0, record="all")
    since = ss.certify_played(run, delta=0.2).since
    ref = problem.cmdp.limits - run.constraint_values[since - 1 :].mean(axis=0)
    assert found.truth == pytest.approx(ref)


def test_what_is_left_of_a_lower_limit_is_what_lies_above_it() -> None:
    cmdp = ss.problems.make("triage").cmdp
    assert set(cmdp.senses) == {">="}
    assert fresh._difference(cmdp, cmdp.limits + 0.25) == pytest.approx([0.25] * cmdp.m)


def test_shares_of_fresh_episodes_are_shown_with_their_one_sided_intervals(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(fresh.RUNS, QUICK, 4)
    _, table = fresh.judge(QUICK)
    assert [row[1:3] for row in rows(table)] == [("4", str(share(4, 4, 0.1)))] * 2


# --- Figures


POINTS = [{"x": x, "y": 2.0 * x, "series": "a", "panel": p} for p in "pq" for x in (1.0, 1000.0)]


def scales(chart: dict[str, Any]) -> dict[str, Any]:
    layer = chart.get("spec", chart)["layer"][0]
    return {axis: layer["encoding"][axis]["scale"] for axis in "xy"}


def test_axes_are_logarithmic_where_asked_for() -> None:
    log, plain = {"type": "log", "nice": False}, {"zero": False}
    for log_x in (True, False):
        for log_y in (True, False):
            chart = pictures.lines(POINTS, "T", "metric", log_x=log_x, log_y=log_y)
            assert scales(chart) == {"x": log if log_x else plain, "y": log if log_y else plain}
    assert scales(pictures.dots(POINTS, "a", "b")) == {"x": plain, "y": plain}


def test_several_panels_stand_side_by_side_and_one_fills_the_width() -> None:
    one = pictures.lines(POINTS[:2], "T", "metric")
    two = pictures.lines(POINTS, "T", "metric")
    assert "facet" not in one
    assert two["facet"]["sort"] == ["p", "q"]
    assert (one["width"], two["columns"]) == (2 * pictures.WIDTH, 2)


@pytest.mark.parametrize(
    ("draw", "free"),
    [
        (pictures.lines, {}),
        (lambda *args: pictures.lines(*args, free_y=True), {"y": "independent"}),
        (pictures.dots, {"x": "independent", "y": "independent"}),
    ],
)
def test_panels_share_a_scale_unless_it_is_free(
    draw: Callable[..., dict[str, Any]], free: dict[str, str]
) -> None:
    assert draw(POINTS, "a", "b")["resolve"] == {"scale": free}


def test_the_marks_of_a_figure_are_not_read_aloud_one_by_one() -> None:
    """The figure around them says what they show."""
    for draw in (pictures.lines, pictures.dots):
        assert draw(POINTS, "a", "b")["config"]["aria"] is False


def test_dots_are_joined_in_their_order_and_lines_along_x() -> None:
    for draw, joined in ((pictures.dots, True), (pictures.lines, False)):
        first = draw(POINTS, "a", "b")["spec"]["layer"][0]
        assert ("order" in first["encoding"]) is joined


def test_growth_is_drawn_with_whiskers_and_a_scale_for_each_panel() -> None:
    made = synthetic(QUICK, orders=ordering())
    rate, against = JUDGES["orders"](made).figures
    extra = JUDGES["known"](synthetic(QUICK, orders=knowing(0.5, 0.1))).figures[0]
    ours = [trace for trace in made["orders"] if trace.run.learner == "spot"]
    each = {(t.problem, t.option("stance"), t.run.episodes) for t in ours}
    for figure in (rate, extra):
        assert len(drawn(figure)) == 2 * len(each)  # regret and violation
        assert figure.chart["resolve"] == {"scale": {"y": "independent"}}
        assert all(point["low"] < point["y"] < point["high"] for point in drawn(figure))
    assert against.chart["resolve"] == {"scale": {}}


def test_the_windows_sum_is_drawn_from_the_tenth_episode_to_the_last() -> None:
    made = synthetic(QUICK, window=forgetting(0.5), orders=ordering())
    (figure,) = JUDGES["lemmas"](made).figures
    x = sorted({point["x"] for point in drawn(figure)})
    assert x[0] >= 10.0
    assert x[-1] > 0.5 * made["window"][0]["episode"][-1]

    def from_ten(run: RunSpec, rng: Any) -> Columns:
        whole: Columns = forgetting(0.5)(run, rng)
        return {**whole, "episode": whole["episode"] + 9.0}

    (figure,) = JUDGES["lemmas"](synthetic(QUICK, window=from_ten, orders=ordering())).figures
    assert min(point["x"] for point in drawn(figure)) == 10.0


# --- The page and the document


@pytest.mark.usefixtures("tiny")
def test_what_was_judged_is_written_down(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Drawn by nothing: what draws has threads of its own."""

    class Renderer:
        @staticmethod
        def vegalite_to_svg(chart: dict[str, Any]) -> str:
            return f"<svg>{len(chart['data']['values'])} points</svg>"

    monkeypatch.setattr(pictures, "renderer", lambda: Renderer)
    monkeypatch.setattr(verifying, "sweep", inline)
    made = verify(tmp_path / "store", "quick", claims=["tradeoff"])
    text = (made.store.path / "verification.md").read_text()
    assert text == document.render(made)
    ((claim, judgment),) = made.judged
    for part in (claim.title, *(v.statement for v in judgment.verdicts)):
        assert part in text
        assert escape(part) in made.report.read_text()
    svg = (made.store.path / "figures" / "verify-tradeoff.svg").read_text()
    assert svg in made.report.read_text()
    assert f"{len(made.store.finished()):,}, " in text


def written(made: Verification, judgment: Judgment) -> Verification:
    return Verification(
        made.store, made.size, ((CLAIMS[0], judgment),), made.sweeps, made.failed, made.provenance,
        made.report,
    )  # fmt: skip


@pytest.fixture
def blank(tmp_path: Path) -> Verification:
    """One that has judged nothing."""
    provenance = {
        "runs": 0, "episodes": 0, "seconds": 0.0, "versions": [], "commits": [], "systems": [],
        "began": "", "ended": "",
    }  # fmt: skip
    store = ss.Store.create(tmp_path / "store")
    return Verification(store, QUICK, (), (), {}, provenance, store.path / "report.html")


def test_a_table_without_rows_has_a_head(blank: Verification) -> None:
    empty = ClaimTable("nothing", (("a", "b"),))
    text = document.render(written(blank, Judgment((), (empty,))))
    assert "**nothing**\n\n| a | b |\n| --- | --- |\n" in text


def test_a_claim_is_named_once_however_many_verdicts_it_has(blank: Verification) -> None:
    many = tuple(Verdict(f"statement {k}.", HOLDS, "reason", "test") for k in range(120))
    text = page.render(written(blank, Judgment(many)), {})
    summary = text.partition("</table>")[0]
    assert summary.count(f'<a href="#{CLAIMS[0].name}">') == 1
    assert [f"<td>statement {k}.</td>" in summary for k in range(120)] == [True] * 120
