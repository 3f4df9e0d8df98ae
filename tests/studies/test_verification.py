"""Judges say what synthetic runs were made to show; a small verification runs from end to end, stops, and goes on."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from studies.claims import duality, fresh, inference, sizes, verify, verifying
from studies.claims.inference import Interval
from studies.claims.measurements import Measurements, Trace, read_measurements
from studies.claims.sizes import Size, is_audited, shipped_runs
from studies.claims.verdicts import Judgment, Outcome, decide, together
from studies.claims.verifying import CLAIMS

from safespot import theory
from safespot.experiments import RunSpec, Store
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


def test_the_bound_is_that_of_the_theory() -> None:
    (first, *_) = synthetic(orders=ordering())["orders"]
    from studies.claims.orders import bounds

    T, c = first.run.episodes, first.cmdp
    want = theory.explicit_bound(
        c.A, c.H, c.m, T, 2.0, zeta_sum=math.sqrt(T), phi_sum=math.sqrt(T), xi=0.0
    )
    assert bounds(first) == pytest.approx((want.regret, want.violation))


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
    monkeypatch.setitem(duality.MODELS, Size.quick, 2)
    monkeypatch.setitem(fresh.RUNS, Size.quick, 3)


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
