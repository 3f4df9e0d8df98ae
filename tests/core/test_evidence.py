"""Trials, budgets, hints and phases in the core, beside the kernels that learners still have."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import safespot as ss
from safespot import _core
from safespot.evidence.budget import charge_episode, empty_budget
from safespot.evidence.sequences import FixedMeans, fixed_means
from safespot.evidence.trial import OPEN, count_in_trial, no_prior
from safespot.learners.compiled_step import observe_episode
from safespot.learners.epoch_trials import threshold_prior, trial_rates
from safespot.learners.threshold_totals import (
    grow_totals,
    observe_totals,
    total_rates,
    total_state,
    totals_have_room,
)
from safespot.signals.interface import make_interface
from safespot.signals.totals import Declared, declare, state_totals
from tests.core.support import Record, copied, meter_rows

Array = Any
H = 4
PARTS = ("weight", "slope", "offset", "product", "power")


def fixed_rows(means: FixedMeans) -> Array:
    """Return the core's rows of sequences for means that do not change."""
    columns = [means.counted, means.total, means.squares, means.lower, means.due]
    return np.hstack([np.stack(columns, axis=1), *(getattr(means, name) for name in PARTS)])


def same(rows: Array, means: FixedMeans) -> None:
    np.testing.assert_allclose(rows, fixed_rows(means), rtol=1e-12, atol=1e-12)


def declared_as(m: int, **given: Any) -> Declared:
    names = ("thresholds", "constraint_totals", "threshold_totals")
    return declare(make_interface(1, 1, H, m), *(given.get(name) for name in names))


def sums(rng: np.random.Generator, n: int, m: int, missing: float = 0.2) -> Array:
    """Sums of episodes, some of whose signals are missing."""
    low = H * rng.random((n, 1 + 2 * m))
    gaps = (rng.random((n, 1 + 2 * m)) < missing) * (H - low) * rng.random((n, 1 + 2 * m))
    parts = [
        (low[:, s], (low + gaps)[:, s]) for s in (slice(1), slice(1, 1 + m), slice(1 + m, None))
    ]
    return np.hstack([end for pair in parts for end in pair])


@pytest.mark.parametrize(
    "options",
    [{}, {"independent_hints": True}, {"shared_threshold": True}, {"window": 0.4},
     {"independent_hints": True, "shared_threshold": True}],
)  # fmt: skip
def test_hints_tighten_the_thresholds(options: dict[str, Any]) -> None:
    m, rng = 2, np.random.default_rng(3)
    totals = np.array([[0.5, 0.0], [3.5, 4.0]]) if options in ({}, {"window": 0.4}) else None
    rates = total_rates(m, H, 0.1, planned=300, limits=totals, **options)
    old = total_state(rates, H)
    lower, upper = rates.limits.copy()

    def bind(state: Any, rows: Array) -> tuple[Any, Any]:
        record = Record(**{**state._asdict(), "means": rows, "bounds": np.zeros((2, m))})
        return record, _core.HintTotals(rates, record)

    new, core = bind(copied(old), fixed_rows(old.means))
    below, above = rates.limits.copy()
    for _ in range(300):
        hints = 0.25 + 0.5 * rng.random((H, m))
        hints[rng.random(H) < 0.2] = math.nan
        if not totals_have_room(old):
            assert not core.has_room
            old = grow_totals(old)
            new, core = bind(copied(old), new.means)
        observe_totals(rates, old, hints, lower, upper)
        core.observe(hints, below, above)
        np.testing.assert_allclose([below, above], [lower, upper], rtol=1e-11, atol=1e-11)
    same(new.means, old.means)
    for name in ("by_step", "samples", "powers", "ring", "span", "due"):
        np.testing.assert_allclose(getattr(new, name), getattr(old, name), rtol=1e-12, atol=1e-12)
    assert (lower > rates.limits[0]).all()
    assert (upper < rates.limits[1]).all()


@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("kind", ["alone", "joint", "apart"])
@pytest.mark.parametrize("eager", [True, False])
def test_trials(known: bool, kind: str, eager: bool) -> None:
    """Before any samples, with evidence about the thresholds from before, and against their bounds."""
    m, rng = 2, np.random.default_rng(4)
    declared = declared_as(m, **({"thresholds": [1.5, 2.0]} if known else {}))
    rates = trial_rates(declared, 0.1, 100)._replace(eager=eager)
    prior, ends = no_prior(m), np.array([[1.0, 1.5], [2.0, 2.5]])
    if kind == "joint" and not known:
        hints = total_rates(m, H, 0.05)
        state = total_state(hints, H)
        for _ in range(50):
            observe_totals(hints, state, rng.random((H, m)), *hints.limits.copy())
        prior = threshold_prior(hints, state, 50, 100)
    elif kind == "apart":
        prior.weight[:] = 0.0
    old = fixed_means(2 + 4 * m)
    rows, verdict, x = fixed_rows(old), OPEN, np.zeros(2 + 4 * m)
    core = _core.Trial(rates, rows, prior)
    for row in sums(rng, 120, m):
        told = core.observe(row, OPEN, ends[0], ends[1])
        verdict = count_in_trial(rates, old, prior, ends[0], ends[1], row, x)
        assert told == verdict
    same(rows, old)
    assert (old.lower[2:6] > 0.1).any()


def test_budgets() -> None:
    m, rng = 2, np.random.default_rng(5)
    declared, state, most = declared_as(m), empty_budget(m), np.array([6.0, 9.0])
    new = Record(means=meter_rows(state.means), spent=state.spent.copy())
    core, x = _core.Budget(declared, new, most, 3.0), np.zeros(2 + 2 * m)
    for n, row in enumerate(sums(rng, 80, m)):
        free = n % 3 == 0
        charge_episode(declared, state, 3.0, row, x, free)
        core.charge(x, free)
        np.testing.assert_allclose(new.spent, state.spent, rtol=1e-12, atol=1e-12)
        assert core.fits == bool((state.spent - declared.least <= most).all())
    np.testing.assert_allclose(new.means, meter_rows(state.means), rtol=1e-12)


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("machine", {}), ("machine", {"explore_budget": 60.0}), ("machine", {"thresholds": [4.0]}),
        ("random", {"window": 0.3}), ("random", {"constraint_totals": (0.0, 4.0)}),
    ],
)  # fmt: skip
def test_phases(name: str, options: dict[str, Any]) -> None:
    """Every episode of a learner in phases, from the state before it; phases and plans are Python's."""
    problem = ss.problems.make(name, **({"horizon": 4} if name == "random" else {}))
    learner: Any = ss.SpotEpochs(**problem.interface, **options)
    streams, rates = ss.streams(1), None
    for t in range(1, 400):
        inside = learner.check(ss.play(problem, learner.policy, streams, t)).inside
        learner.make_room()
        state, rates = learner.state, learner.rates
        exploring = Record(
            means=meter_rows(state.exploring.means), spent=state.exploring.spent.copy()
        )
        trial, hints = fixed_rows(state.trial), copied(state.totals)
        new = copied(state)
        statistics = copied(learner.statistics)
        kept = Record(
            **{**hints._asdict(), "means": fixed_rows(hints.means), "bounds": np.zeros((2, learner.interface.m))}
        )  # fmt: skip
        core = _core.Epochs(
            rates, new, _core.Statistics(statistics), _core.HintTotals(rates.totals, kept),
            _core.Trial(rates.trial, trial, new.prior),
            _core.Budget(rates.trial.declared, exploring, rates.budget, rates.budget_level),
        )  # fmt: skip
        answer = core.observe(inside)
        assert answer == observe_episode(rates, state, learner.statistics, learner.window, inside)
        same(trial, state.trial)
        same(kept.means, state.totals.means)
        np.testing.assert_allclose(exploring.means, meter_rows(state.exploring.means), rtol=1e-12)
        for field in ("lower", "upper", "finished", "clock", "visits", "memory"):
            array = getattr(state, field)
            np.testing.assert_allclose(getattr(new, field), array, rtol=1e-12, err_msg=field)
        for before, after in zip(statistics[:-1], learner.statistics[:-1], strict=True):
            np.testing.assert_array_equal(before, after)
        learner.settle()
    assert learner.state.clock[0] > 3


def test_what_is_no_state_is_refused() -> None:
    m = 1
    declared = declared_as(m)
    rates = trial_rates(declared, 0.1, 9)
    with pytest.raises(ValueError, match="rows"):
        _core.Trial(rates, np.zeros((5, _core.FixedMean.width)), no_prior(m))
    trial = _core.Trial(rates, np.zeros((6, _core.FixedMean.width)), no_prior(m))
    for verdict in (-1, 4):
        with pytest.raises(ValueError, match="verdict"):
            trial.observe(np.zeros(6), verdict, np.zeros(m), np.zeros(m))
    with pytest.raises(ValueError, match="most"):
        _core.Budget(declared, Record(means=np.zeros((2, 26)), spent=np.zeros(1)), np.zeros(2), 1.0)
    hints = total_rates(m, H, 0.1, window=0.5)
    state = total_state(hints, H)
    for place, value in ((0, -1), (1, 65), (2, 64), (2, -1)):
        span = np.zeros(3, np.int64)
        span[place] = value
        parts = {"means": fixed_rows(state.means), "bounds": np.zeros((2, m)), "span": span}
        record = Record(**{**state._asdict(), **parts})
        with pytest.raises(ValueError, match="window"):
            _core.HintTotals(hints, record)
    x = np.zeros(2 + 2 * m)
    state_totals(declared, np.ones(m), np.zeros(6), x)
    assert x.tolist() == [0.0, 1.0, 0.5, 0.5]
