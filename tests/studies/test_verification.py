"""Judges say what synthetic runs were made to show; a small verification runs from end to end, stops, and goes on."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from studies.claims import fresh, inference, pictures, sizes, verify, verifying
from studies.claims.inference import Interval
from studies.claims.measurements import Measurements, Trace, read_measurements
from studies.claims.sizes import Size, is_audited, shipped_runs
from studies.claims.verdicts import Judgment, Outcome, decide, table, together
from studies.claims.verifying import CLAIMS

import safespot as ss
from safespot import theory
from safespot.errors import InvalidOption
from safespot.experiments import RunSpec, Store
from safespot.experiments.progress import Progress
from safespot.experiments.settings import read_setting
from tests.support.sweeping import sweep_inline

HOLDS, FAILS, OPEN = Outcome.HOLDS, Outcome.FAILS, Outcome.OPEN
JUDGES = {claim.name: claim.judge for claim in CLAIMS}
Columns = dict[str, Any]


def synthetic(size: Size = Size.full, **made: Callable[[RunSpec, Any], Columns]) -> Measurements:
    """Traces of the shipped sweeps with columns of our own; a sweep's name is its keyword, - written _."""
    rng = np.random.default_rng(0)
    traces = {}
    for name, make in made.items():
        sweep = name.replace("_", "-")
        traces[sweep] = tuple(
            Trace(run, 2.0, {k: np.atleast_1d(v).astype(float) for k, v in make(run, rng).items()})
            for run in shipped_runs(sweep, size)
        )
    return Measurements(size, traces)


def outcomes(judgment: Judgment, saying: str = "") -> list[Outcome]:
    return [v.outcome for v in judgment.verdicts if saying in v.statement]


# --- The tests behind the verdicts


def test_shares_are_judged_by_clopper_and_pearson() -> None:
    found = inference.share(98, 100, 0.05)
    assert (found.low, found.high) == pytest.approx((0.92961, 0.99757), abs=1e-5)
    assert inference.share_at_least(2000, 2000, 0.95, 0.05) is HOLDS
    assert inference.share_at_least(20, 20, 0.95, 0.05) is OPEN  # 0.05^(1/20) = 0.86
    assert inference.share_at_least(1700, 2000, 0.95, 0.05) is FAILS
    assert math.isnan(inference.share(0, 0, 0.05).mean)


def test_means_slopes_and_limits() -> None:
    found = inference.mean([1.0, 2.0, 3.0], 0.05)
    assert found == pytest.approx((2.0, 2.0 - 2.48414, 2.0 + 2.48414), abs=1e-5)
    assert inference.mean([1.0], 0.05) == Interval(1.0, -math.inf, math.inf)
    assert inference.slope([1, 10, 100], [2, 20, 200]) == pytest.approx(1.0)
    assert math.isnan(inference.slope([1, 10], [0.0, 1.0]))
    assert inference.at_most([1.0, 1.1, 0.9], 2.0, 0.05) is HOLDS
    assert inference.at_most([3.0, 3.1, 2.9], 2.0, 0.05) is FAILS
    assert inference.at_most([1.0, 3.0], 2.0, 0.05) is OPEN
    assert inference.near(Interval(0.5, 0.49, 0.51), 0.5, 0.05) is HOLDS
    assert inference.near(Interval(0.7, 0.6, 0.8), 0.5, 0.05) is FAILS
    assert inference.near(Interval(0.5, 0.4, 0.6), 0.5, 0.05) is OPEN


def test_paired_steps_and_their_correction() -> None:
    assert inference.holm([0.01, 0.04, 0.03], 0.05) == [True, False, False]
    assert inference.holm([0.01, 0.02, 0.03], 0.05) == [True, True, True]
    low, high = list(np.arange(20.0)), [x + 0.1 * (1 + x) for x in range(20)]
    assert inference.larger(high, low) == pytest.approx(2.0**-20)
    assert inference.larger(low, low) == 1.0
    assert inference.larger([1.0, 2.0, 3.0, 4.0], [0.0, 1.0, 2.0, 3.0]) < 0.1  # ties
    assert inference.ordered([low, high], 0.05)[0] is HOLDS
    assert inference.ordered([high, low], 0.05)[0] is FAILS
    assert inference.ordered([low[:3], high[:3]], 0.05)[0] is OPEN


def test_one_failure_is_enough_and_silence_is_no_success() -> None:
    assert together([HOLDS, HOLDS]) is HOLDS
    assert together([HOLDS, OPEN]) is OPEN
    assert together([OPEN, FAILS]) is FAILS
    assert together([]) is OPEN
    assert [decide(holds=h, fails=f) for h, f in ((True, False), (False, True), (False, False))] == [
        HOLDS, FAILS, OPEN,
    ]  # fmt: skip


# --- Judges on results that were made up


@pytest.mark.parametrize(
    ("broken", "size", "want"),
    [(0.0, Size.full, HOLDS), (0.2, Size.full, FAILS), (0.05, Size.quick, OPEN)],
)
def test_coverage(broken: float, size: Size, want: Outcome) -> None:
    def runs(run: RunSpec, rng: Any) -> Columns:
        return {"audit_threshold_ratio": 1.3 if rng.random() < broken else 0.2 * rng.random()}

    found = JUDGES["coverage"](synthetic(size, coverage=runs))
    assert outcomes(found) == [want]
    (only,) = found.tables
    assert len(only.rows) == 1 + 9
    assert float(only.rows[1][3].split()[0]) == pytest.approx(1.0 - broken, abs=0.05)


def root(run: RunSpec, rng: Any, exponent: float = 0.5, factor: float = 1.0) -> float:
    return float(factor * run.episodes**exponent * (1 + 0.01 * rng.standard_normal()))


def ordering(exponent: float = 0.5, violation: float = 1.0, radii: float = 1.0) -> Any:
    def runs(run: RunSpec, rng: Any) -> Columns:
        return {
            "regret": root(run, rng, exponent),
            "violation": root(run, rng, exponent, violation),
            "audit_zeta_sum": radii * math.sqrt(run.episodes),
            "audit_phi_sum": radii * math.sqrt(run.episodes),
            "audit_optimism_slack": 0.1, "audit_bonus_ratio": 0.2, "audit_mirror_sum": 1.0,
        }  # fmt: skip

    return runs


def test_orders() -> None:
    found = JUDGES["orders"](synthetic(orders=ordering()))
    assert outcomes(found) == [HOLDS] * 6
    steep = JUDGES["orders"](synthetic(orders=ordering(exponent=0.8, violation=1e-3)))
    assert outcomes(steep, "order √T") == [OPEN] * 4  # only a broken bound refutes an order
    above = JUDGES["orders"](synthetic(orders=ordering(violation=1e3)))
    assert outcomes(above, "order √T") == [HOLDS] * 4
    assert outcomes(above, "explicit bound") == [FAILS] * 2


def test_a_bound_above_what_can_happen_is_vacuous_and_no_pass() -> None:
    found = JUDGES["orders"](synthetic(orders=ordering(radii=1e6)))
    assert outcomes(found, "explicit bound") == [OPEN] * 2
    assert "840 of 840 bounds are vacuous" in found.verdicts[2].reason
    assert all("(vacuous)" in row[4] for row in found.tables[1].rows[1:])


def test_a_regret_below_zero_is_below_any_bound() -> None:
    def runs(run: RunSpec, rng: Any) -> Columns:
        return {**ordering()(run, rng), "regret": -root(run, rng)}

    found = JUDGES["orders"](synthetic(orders=runs))
    assert outcomes(found, "regret is of order") == [HOLDS] * 2
    assert "never above 0" in found.verdicts[0].reason

    def mixed(run: RunSpec, rng: Any) -> Columns:
        return {**ordering()(run, rng), "regret": root(run, rng) * rng.choice([-1, 1])}

    assert OPEN in outcomes(JUDGES["orders"](synthetic(orders=mixed)), "regret is of order")


def test_the_bound_is_that_of_the_theory() -> None:
    (first, *_) = synthetic(orders=ordering())["orders"]
    from studies.claims.orders import bounds

    T, c = first.run.episodes, first.cmdp
    want = theory.explicit_bound(
        c.A, c.H, c.m, T, 2.0, zeta_sum=math.sqrt(T), phi_sum=math.sqrt(T), xi=0.0
    )
    assert bounds(first) == pytest.approx((want.regret, want.violation))


def knowing(exponent: float, factor: float) -> Any:
    def runs(run: RunSpec, rng: Any) -> Columns:
        more = root(run, rng, exponent, factor) if run.learner == "spot" else 0.0
        sums = {metric: math.sqrt(run.episodes) + more for metric in ("regret", "violation")}
        return {**sums, "audit_zeta_sum": math.sqrt(run.episodes)}

    return runs


def test_known() -> None:
    found = JUDGES["known"](synthetic(orders=knowing(0.5, 0.1)))
    assert outcomes(found, "order √T") == [HOLDS] * 4
    # Where the bounds do not differ nothing more is allowed: pessimistic violation (m = 1), optimistic regret.
    assert outcomes(found, "bounds differ") == [HOLDS, FAILS, FAILS, HOLDS]
    found = JUDGES["known"](synthetic(orders=knowing(0.5, -0.1)))
    assert outcomes(found) == [HOLDS] * 8
    found = JUDGES["known"](synthetic(orders=knowing(1.0, 0.1)))
    assert outcomes(found, "order √T") == [OPEN] * 4
    assert outcomes(found, "bounds differ") == [FAILS] * 4


@pytest.mark.parametrize(
    ("sign", "size", "want"),
    [(1.0, Size.full, HOLDS), (-1.0, Size.full, FAILS), (0.001, Size.quick, OPEN)],
)
def test_tradeoff(sign: float, size: Size, want: Outcome) -> None:
    def runs(run: RunSpec, rng: Any) -> Columns:
        xi = run.learner_options["stance"]
        noise = 0.01 * rng.standard_normal(2)
        return {"violation": sign * xi + noise[0], "regret": -sign * xi + noise[1]}

    found = JUDGES["tradeoff"](synthetic(size, tradeoff=runs, tradeoff_practice=runs))
    assert outcomes(found) == [want] * 4


def estimating(power: float, better: float) -> Any:
    episodes = np.unique(np.logspace(0, 5, 120).round())

    def runs(run: RunSpec, rng: Any) -> Columns:
        n = episodes * (better if run.learner_options["estimator"] == "pooled" else 1.0)
        width, limit = 30.0 * n**power, read_setting(run.setting).problem.cmdp.limits[0]
        error = 0.5 * n**power * rng.standard_normal(len(n))
        return {
            "episode": episodes,
            "threshold_upper_0": limit + error + width,
            "threshold_lower_0": limit + error - width,
        }

    return runs


def test_consistency() -> None:
    found = JUDGES["consistency"](synthetic(consistency=estimating(-0.5, 3.0)))
    assert outcomes(found, "width") == outcomes(found, "error") == [HOLDS]
    assert outcomes(found, "pooling") == [FAILS]
    assert float(found.tables[0].rows[3][3].split()[0]) == pytest.approx(3.0, rel=0.1)
    other = JUDGES["consistency"](synthetic(consistency=estimating(-0.25, 0.5)))
    assert outcomes(other, "width") == outcomes(other, "error") == [FAILS]
    assert outcomes(
        JUDGES["consistency"](synthetic(consistency=estimating(-0.5, 0.9))), "pooling"
    ) == [HOLDS]


def forgetting(power: float) -> Any:
    episodes = np.unique(np.logspace(0, 6, 200).round())

    def runs(run: RunSpec, rng: Any) -> Columns:
        factor = (1.0 / run.learner_options["window"]) ** power * (
            1 + 0.001 * rng.standard_normal()
        )
        grown = factor * np.sqrt(episodes)
        names = ("audit_zeta_sum", "audit_window_sum", "regret", "violation")
        return {"episode": episodes, **dict.fromkeys(names, grown)}

    return runs


def changing(after: Callable[[float], float]) -> Any:
    episodes = np.arange(200, 300_001, 200)

    def runs(run: RunSpec, rng: Any) -> Columns:
        settled = 20_000 + after(run.learner_options["window"]) + 2000 * rng.random()
        estimate = np.where(episodes < settled, 1.87, 1.27)
        return {
            "episode": episodes,
            "threshold_upper_0": estimate + 0.1,
            "threshold_lower_0": estimate - 0.1,
        }

    return runs


def test_window() -> None:
    found = JUDGES["window"](
        synthetic(window=forgetting(0.4), drift=changing(lambda gamma: 200_000 * gamma))
    )
    assert outcomes(found) == [HOLDS] * 4
    assert found.tables[1].rows[1][2] == "20 of 20"
    found = JUDGES["window"](
        synthetic(window=forgetting(0.8), drift=changing(lambda gamma: 200_000 * (1 - gamma)))
    )
    assert outcomes(found) == [FAILS] * 4
    never = changing(lambda gamma: 290_000 * gamma)
    found = JUDGES["window"](synthetic(window=forgetting(0.4), drift=never))
    assert found.tables[1].rows[4][1:3] == ("–", "0 of 20")
    assert "not within this run for γ = 1" in found.verdicts[3].reason


def leaving_room(power: float, reached: float, max_deficit: float) -> Any:
    episodes = np.unique(np.logspace(0, 5, 120).round())

    def runs(run: RunSpec, rng: Any) -> Columns:
        first = 1000.0 * run.problem_options["slack"] ** power * (1 + 0.01 * rng.standard_normal())
        small = run.learner_options["bonus_scale"] < 1.0
        return {
            "episode": episodes,
            "multiplier_0": np.full(len(episodes), 2.0 * max_deficit if small else 0.0),
            "audit_first_feasible": first if rng.random() < reached else 0.0,
        }

    return runs


def test_assumption() -> None:
    found = JUDGES["assumption"](synthetic(assumption=leaving_room(-2.0, 1.0, 1.0)))
    assert [v.outcome for v in found.verdicts] == [FAILS, HOLDS, HOLDS, FAILS, HOLDS]
    found = JUDGES["assumption"](synthetic(assumption=leaving_room(-1.0, 0.9, 0.5)))
    assert [v.outcome for v in found.verdicts] == [FAILS, OPEN, FAILS, FAILS, FAILS]


@pytest.mark.parametrize(("slack", "want"), [(0.1, HOLDS), (-0.1, FAILS)])
def test_duality(slack: float, want: Outcome, monkeypatch: pytest.MonkeyPatch) -> None:
    from studies.claims import duality

    def runs(run: RunSpec, rng: Any) -> Columns:
        return {"audit_nested_slack": slack}

    monkeypatch.setitem(duality.MODELS, Size.full, 2)
    found = JUDGES["duality"](synthetic(coverage=runs, nested=runs))
    assert outcomes(found, "nested") == [want]
    assert outcomes(found, "Primal and dual") == [HOLDS]
    assert [row[2] for row in found.tables[1].rows[1:]] == ["6"] * 4  # two models, three shares
    monkeypatch.setattr(duality, "TOLERANCE", -1.0)
    assert outcomes(JUDGES["duality"](synthetic(coverage=runs, nested=runs)), "Primal") == [FAILS]


def test_lemmas() -> None:
    found = JUDGES["lemmas"](synthetic(window=forgetting(0.5), orders=ordering()))
    assert outcomes(found) == [HOLDS] * 4

    def worse(run: RunSpec, rng: Any) -> Columns:
        bad = {"audit_optimism_slack": -0.1, "audit_mirror_sum": 1e9}
        return {**ordering()(run, rng), **bad}

    found = JUDGES["lemmas"](synthetic(window=forgetting(0.9), orders=worse))
    assert outcomes(found) == [HOLDS, FAILS, FAILS, FAILS]


def practising(gain: float, ratio: float) -> Any:
    episodes = np.unique(np.logspace(0, 5, 120).round())

    def runs(run: RunSpec, rng: Any) -> Columns:
        paper = run.learner_options["bonus_scale"] == 1.0 and "bonus" not in run.learner_options
        level = (1.0 if paper else 1.0 - gain) * (1 + 0.001 * rng.standard_normal())
        return {
            "episode": episodes,
            "regret": episodes * level, "violation": episodes * level,
            "audit_bonus_ratio": 0.2 if paper else ratio, "audit_optimism_slack": 0.1,
        }  # fmt: skip

    return runs


def test_practice() -> None:
    found = JUDGES["practice"](synthetic(practice=practising(0.5, 0.9)))
    assert outcomes(found, "violates less") == outcomes(found, "success event") == [HOLDS] * 4
    found = JUDGES["practice"](synthetic(practice=practising(-0.5, 1.1)))
    assert outcomes(found, "violates less") == outcomes(found, "success event") == [FAILS] * 4


def said(run: RunSpec, _: Any, wrong: str = "", share: float = 0.0) -> tuple[Columns, Columns]:
    """Columns and facts of a run of the sweep `evidence`; a share of the seeds gets something wrong."""
    cmdp = read_setting(run.setting).problem.cmdp
    sign = np.where(np.array(cmdp.senses) == "<=", 1.0, -1.0)
    bad = wrong if run.seed < share * 200 else ""
    columns: Columns = {"episode": [10, 1000], "regret": [1, 2]}
    for i, limit in enumerate(cmdp.limits):
        low, high = (-5.0, 6.0) if bad != "meter" else (3.0, 6.0)
        columns |= {
            f"violation_{i}": [1, 2], f"strong_violation_{i}": [1, 2],
            f"evidence_violation_lower_{i}": [-50, low], f"evidence_violation_upper_{i}": [50, high],
            f"threshold_lower_{i}": [0, limit - 0.1 if bad != "totals" else limit + 0.1],
            f"threshold_upper_{i}": [limit + 1, limit + 0.2],
        }  # fmt: skip
    off = 0.3 * sign if bad == "certificates" else -0.3 * sign
    certificates = [
        {"episode": 300, "constraints": (cmdp.limits - 0.1 * sign).tolist()},
        {"episode": 900, "constraints": (cmdp.limits + off).tolist()},
    ]
    value = 0.99 if run.learner_options.get("thresholds") else 0.985
    if wrong == "price":
        value -= 0.1 * ("thresholds" not in run.learner_options)
    facts = {"certificates": certificates, "proposal": {"value": value}, "optimum": 1.0}
    return columns, facts


def spoken(**wrong: Any) -> Measurements:
    runs = shipped_runs("evidence", Size.full)
    made = [said(run, None, **wrong) for run in runs]
    return Measurements(
        Size.full,
        {
            "evidence": tuple(
                Trace(run, 2.0, {k: np.array(v, float) for k, v in columns.items()}, facts)
                for run, (columns, facts) in zip(runs, made, strict=True)
            )
        },
    )


@pytest.mark.parametrize("what", ["meter", "totals", "certificates"])
def test_what_play_proves(what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    judge = JUDGES["evidence"]
    monkeypatch.setitem(fresh.RUNS, Size.full, 1)
    assert outcomes(judge(spoken()))[:3] == [HOLDS] * 3
    assert outcomes(judge(spoken(wrong=what, share=0.1)))[:3] == [HOLDS] * 3  # delta is 0.2
    found = outcomes(judge(spoken(wrong=what, share=0.4)))[:3]
    assert found == [
        FAILS if name == what else HOLDS for name in ("meter", "totals", "certificates")
    ]


def test_trials_and_certificates_from_play(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(fresh.RUNS, Size.quick, 20)
    verdicts, _ = fresh.judge(Size.quick)
    assert [v.outcome for v in verdicts] == [HOLDS] * 2

    whole = ss.certify

    def careless(*args: Any, delta: float, **options: Any) -> Any:  # it decides at once
        return whole(*args, delta=0.999, **options)

    monkeypatch.setattr(fresh, "certify", careless)
    found = list(fresh.trials(40))
    assert not all(each.covers for each in found)
    assert all(each.false == (each.certificate.safe.all() and each.truth < -1e-9) for each in found)


def longer(exponent: float, more: float = 1.0) -> Any:
    """Sums that grow like T to a power and the root of the logarithm; the told learner's are smaller."""

    def runs(run: RunSpec, rng: Any) -> Columns:
        c = read_setting(run.setting).problem.cmdp
        logarithm = math.sqrt(math.log(c.S * c.A * c.H * c.m * run.episodes / 0.05))
        grown = root(run, rng, exponent) * logarithm
        sums = grown if run.learner == "spot" else (1.0 - more) * grown
        return {"regret": sums, "violation": sums}

    return runs


def test_growth_over_a_longer_range() -> None:
    def judged(**options: float) -> list[Outcome]:
        made = longer(**options)
        return outcomes(JUDGES["range"](synthetic(range=made, range_random=made)))

    assert judged(exponent=0.5) == [HOLDS] * 8  # on the edge of the rule of `orders`
    assert judged(exponent=0.6) == [OPEN] * 8
    assert judged(exponent=0.6, more=-0.1) == [OPEN, HOLDS] * 4  # the told learner has more


def test_epochs() -> None:
    def strong(run: RunSpec, rng: Any, growth: float = 0.5, spot: float = 9.0) -> Columns:
        more = spot if run.learner == "spot" else 1.0
        return {"strong_violation": more * run.episodes**growth * rng.uniform(0.99, 1.01)}

    def judged(wrong: str = "", short: float = 0.0, **options: float) -> list[Outcome]:
        phases = synthetic(phases=lambda run, rng: strong(run, rng, **options))
        both = {**phases.traces, **tried(short).traces, **spoken(wrong=wrong).traces}
        return outcomes(JUDGES["epochs"](Measurements(Size.full, both)))

    assert judged() == [HOLDS] * 4
    assert judged(growth=0.8) == [OPEN, HOLDS, HOLDS, HOLDS]
    assert judged(short=0.9) == [HOLDS, FAILS, HOLDS, HOLDS]
    assert judged(spot=0.5) == [HOLDS, HOLDS, FAILS, HOLDS]
    assert judged(wrong="price") == [HOLDS, HOLDS, HOLDS, FAILS]


def tried(short: float) -> Measurements:
    """Runs that are told the limits: half exploring, half one trial that falls short by a part of the horizon."""

    def with_parts(trace: Trace) -> Trace:
        T, c = trace.run.episodes, trace.cmdp
        off = (
            short * c.H * np.abs(c.units.constraints.scale)[0] * (1 if c.senses[0] == "<=" else -1)
        )
        parts = [
            {"kind": "explore", "first": 1, "last": T // 2},
            {"kind": "try", "first": T // 2 + 1, "last": T},
        ]
        columns = {
            **trace.columns,
            "episode": np.array([1.0, T]),
            "constraint_0": c.limits[0] + np.array([5.0 * off, off]),
        }
        return Trace(trace.run, trace.rho, columns, {"epochs": parts})

    made = synthetic(trials=lambda run, rng: {})
    return Measurements(made.size, {"trials": tuple(map(with_parts, made["trials"]))})


def test_what_trials_cost_is_counted_without_exploring() -> None:
    from studies.claims.phases import trial_cost

    trace = next(t for t in tried(0.25)["trials"] if t.cmdp.H == 2)
    T = trace.run.episodes
    assert trial_cost(trace) == pytest.approx(0.25 * 2 * (T - T // 2))
    unseen = Trace(trace.run, 2.0, {**trace.columns, "episode": np.array([1.0, 2.0])}, trace.facts)
    assert trial_cost(unseen) == 2 * (T - T // 2)  # what nobody has looked at counts as the worst


@pytest.mark.parametrize(("over", "want"), [(0, HOLDS), (150, HOLDS), (300, FAILS)])
def test_budget(over: int, want: Outcome) -> None:
    """A run counts as over its budget if it ever was, whatever it ended with."""
    runs = shipped_runs("budget", Size.full)
    traces = tuple(
        Trace(
            run,
            2.0,
            {"violation_0": np.array([1.0, 40.5 if run.seed < over else 40.0, 3.0])},
            {"guard": {"budget": [40.0], "share": 0.5}},
        )
        for run in runs
    )
    assert outcomes(JUDGES["budget"](Measurements(Size.full, {"budget": traces}))) == [want]


# --- What is run


def test_what_the_lemmas_speak_of_is_audited() -> None:
    audited = {n for claim in CLAIMS for n in claim.sweeps if is_audited(n)}
    assert audited == {"assumption", "coverage", "nested", "orders", "practice", "window"}


def test_the_full_size_is_what_was_promised() -> None:
    coverage = shipped_runs("coverage", Size.full)
    assert {run.learner_options["window"] for run in coverage} == {0.25, 0.5, 1.0}
    assert len({run.signals.thresholds.law for run in coverage if run.signals.thresholds}) == 3
    assert len(coverage) == 9 * 2000
    assert not any(
        {"bonus_scale", "threshold_scale", "delta"} & set(r.learner_options) for r in coverage
    )
    orders = shipped_runs("orders", Size.full)
    assert (min(r.episodes for r in orders), max(r.episodes for r in orders)) == (10**4, 10**7)
    assert len({run.setting for run in orders}) == 3
    assert {run.seed for run in orders} == set(range(20))
    drift = shipped_runs("drift", Size.full)
    assert {run.learner_options["window"] for run in drift} == {0.1, 0.25, 0.5, 1.0}
    assert len(shipped_runs("orders", Size.extended)) > len(orders)


# --- From end to end


@pytest.fixture
def tiny(monkeypatch: pytest.MonkeyPatch) -> None:
    """The shipped sweeps with a few short runs each, done in this process."""
    whole = sizes.shipped_runs

    def few(name: str, size: Size) -> list[RunSpec]:
        from dataclasses import replace

        lengths = {
            n: 15 * (k + 1) for k, n in enumerate(sorted({r.episodes for r in whole(name, size)}))
        }
        runs = [
            replace(run, episodes=lengths[run.episodes])
            for run in whole(name, size)
            if run.seed < 2
        ]
        if name == "drift":
            moved = runs[0].signals.model_copy(
                update={"drift": runs[0].signals.drift.model_copy(update={"first": 8})}  # type: ignore[union-attr]
            )
            runs = [replace(run, signals=moved, record=1) for run in runs]
        return runs

    monkeypatch.setattr(verifying, "shipped_runs", few)


def inline(runs: Sequence[RunSpec], out: Any, *rest: Any) -> Any:
    """`sweep` without processes."""
    from safespot.experiments.sweeping import Swept

    store = sweep_inline(Path(out), list({run.id: run for run in runs}.values()))
    return Swept(store, tuple(run.id for run in runs), {})


@pytest.mark.usefixtures("tiny")
def test_from_the_runs_to_the_document(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verifying, "sweep", inline)
    made = verify(tmp_path / "store", "quick")
    assert len(made.judged) == len(CLAIMS) == 14
    assert sum(made.counts.values()) == len(made.verdicts) > 25
    text = (tmp_path / "store" / "verification.md").read_text()
    for claim, judgment in made.judged:
        assert claim.title in text
        for verdict in judgment.verdicts:
            assert verdict.statement in text
            assert verdict.reason.split("[")[0] in text
        for figure in judgment.figures:
            drawn = (tmp_path / "store" / "figures" / f"{figure.name}.svg").read_text()
            assert drawn.startswith("<svg")
            assert f"figures/{figure.name}.svg" in text
    assert "A small version" in text

    # Again: nothing is run, and everything is as it was.
    monkeypatch.setattr(
        verifying, "sweep", lambda runs, out, *rest: inline(_finished(runs, made.store), out)
    )
    again = verify(tmp_path / "store", "quick")
    assert [v.reason for v in again.verdicts] == [v.reason for v in made.verdicts]


def _finished(runs: Sequence[RunSpec], store: Store) -> Sequence[RunSpec]:
    assert all(store.is_finished(run.id) for run in runs)
    return runs


@pytest.mark.usefixtures("tiny")
def test_it_goes_on_where_it_was_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Stop(Progress):
        def ended(self, run: str, total: int) -> None:
            raise KeyboardInterrupt

    def stopped(runs: Sequence[RunSpec], out: Any, *rest: Any) -> Any:
        sweep_inline(Path(out), list(runs), Stop())

    monkeypatch.setattr(verifying, "sweep", stopped)
    with pytest.raises(KeyboardInterrupt):
        verify(tmp_path / "store", "quick", claims=["tradeoff"])
    done = len(Store(tmp_path / "store").finished())
    assert 0 < done < 60
    monkeypatch.setattr(verifying, "sweep", inline)
    made = verify(tmp_path / "store", "quick", claims=["tradeoff"])
    assert len(made.store.finished()) == 60
    assert [claim.name for claim, _ in made.judged] == ["tradeoff"]


@pytest.mark.usefixtures("tiny")
def test_a_claim_whose_runs_failed_is_not_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from safespot.experiments.sweeping import Swept

    def half(runs: Sequence[RunSpec], out: Any, *rest: Any) -> Any:
        some = [run for run in runs if run.seed == 0]
        swept = inline(some, out)
        return Swept(swept.store, swept.finished, {r.id: "lost" for r in runs if r.seed == 1})

    monkeypatch.setattr(verifying, "sweep", half)
    made = verify(tmp_path / "store", "quick", claims=["tradeoff"])
    (only,) = made.verdicts
    assert only.outcome is OPEN
    assert "30 of its runs failed" in only.reason
    assert made.failed


def test_evidence_is_in_inside_units(tmp_path: Path) -> None:
    """The machine's earnings lie in [0,10], its strain in [0,4]."""
    from dataclasses import replace

    (run,) = [
        replace(run, episodes=50)
        for run in shipped_runs("tradeoff", Size.quick)
        if (run.problem, run.seed, run.learner_options["stance"]) == ("machine", 0, 1.0)
    ]
    store = sweep_inline(tmp_path / "store", [run])
    (trace,) = read_measurements(store, {"tradeoff": [run]}, Size.quick)["tradeoff"]
    rows = store.query("select regret, violation from results order by episode").fetchnumpy()
    np.testing.assert_allclose(trace["regret"], rows["regret"] / 10.0)
    np.testing.assert_allclose(trace["violation"], rows["violation"] / 4.0)


def test_pictures_are_the_same_whenever_they_are_drawn() -> None:
    points = [
        {"x": x, "y": y, "series": s} for s in "ab" for x, y in ((1, 1.0), (10, -2.0), (100, 3.0))
    ]
    chart = pictures.lines(points, "T", "metric")
    assert len(chart["data"]["values"]) == 4  # a logarithm has no place for what is not positive
    drawn = pictures.svg(chart)
    assert drawn == pictures.svg(chart)
    assert pictures.COLORS[0] in drawn


def test_tables_are_text() -> None:
    made = table("numbers", ["a", "b"], [[1, Interval(2.0, 1.0, 3.0)]])
    assert made.rows == (("a", "b"), ("1", "2.00 [1.00, 3.00]"))


def test_a_size_that_does_not_exist(tmp_path: Path) -> None:
    with pytest.raises(InvalidOption, match="quick, full, extended"):
        verify(tmp_path / "x", "huge")
