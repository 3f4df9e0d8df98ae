"""What the counts leave open, against the same formulas on whole arrays; and whether steps are alike, against SciPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import stats

from safespot.learners import stationarity
from safespot.planning import counted as pm
from safespot.planning import errors as me
from safespot.planning import process as pp

Array = Any
H, S, A, M = 3, 4, 2, 2
PAIRS = S * A


def table_of(K: int, seed: int) -> Array:
    """Counts ``[K, S*A, S]``: some pairs were never visited, some only once."""
    rng = np.random.default_rng(seed)
    table = rng.integers(0, 6, (K, PAIRS, S)) * (rng.random((K, PAIRS, S)) < 0.7)
    table[:, 0], table[:, 1] = 0, np.eye(S, dtype=int)[2]
    return table.astype(float)


def made(K: int, seed: int = 0, kappa: float = 0.75) -> tuple[pm.Counted, Array]:
    """A model of such counts, and the counts."""
    rng, table = np.random.default_rng(seed), table_of(K, seed)
    n = table.sum(axis=2)
    sums = n * rng.random((1 + M, K, PAIRS))
    ends = np.cumsum((table > 0.0).sum(axis=2))
    start = np.array([0.5, 0.25, 0.25, 0.0])
    pooled = pm.Pooled(
        n, sums, pm.row_starts(ends, K), np.nonzero(table)[2].astype(np.int32), table[table > 0.0], start
    )  # fmt: skip
    imagined = pm.Imagined(kappa, rng.random((1 + M, H + 1)))
    known = pm.Known(np.zeros((1 + M, 1, 1)), np.zeros(1 + M, bool))
    return pm.count_model(pooled, imagined, known, np.ones((1, PAIRS), bool)), table


def policy_of(seed: int) -> Array:
    """A policy that never takes some of its actions."""
    pi = np.random.default_rng(seed).random((H, S, A))
    pi[0, 0], pi[1, 2], pi[2, 1] = (1.0, 0.0), (0.0, 1.0), (1.0, 0.0)
    return pi / pi.sum(axis=2, keepdims=True)


def steps(array: Array, h: int) -> Array:
    return array[h if len(array) > 1 else 0]


def evaluated(model: pm.Counted, table: Array, pi: Array) -> tuple[Array, Array]:
    """Values ``[1+m, H+1, S]`` and occupancy ``[H, S*A]`` by products of matrices."""
    V, q = np.zeros((1 + M, H + 1, S)), np.zeros((H, PAIRS))
    for h in reversed(range(H)):
        w = steps(model.process.share, h)
        ahead = (
            np.einsum("rz,cz->cr", steps(table, h), V[:, h + 1])
            + model.process.imagined[:, h, None]
        )
        Q = np.stack([steps(each, h) for each in model.process.payoffs]) + w * ahead
        V[:, h] = (Q.reshape(1 + M, S, A) * pi[h]).sum(axis=2)
    now = model.pooled.start
    for h in range(H):
        q[h] = (now[:, None] * pi[h]).reshape(-1)
        now = (q[h] * steps(model.process.share, h)) @ steps(table, h)
    return V, q


@pytest.mark.parametrize("K", [1, H])
def test_a_policy_is_evaluated_in_the_model_of_the_counts(K: int) -> None:
    (model, table), pi = made(K), policy_of(1)
    V, q = pp.policy_values(model.process, pi), pp.policy_occupancy(model.process, pi)
    expected = evaluated(model, table, pi)
    np.testing.assert_allclose(V, expected[0], rtol=1e-12)
    np.testing.assert_allclose(q, expected[1], rtol=1e-12)


@pytest.mark.parametrize("K", [1, H])
@pytest.mark.parametrize("episodes", [0, 1, 50])
def test_standard_errors_are_those_of_the_delta_method(K: int, episodes: int) -> None:
    (model, table), pi = made(K, 3), policy_of(2)
    known = pm.Known(np.zeros((1 + M, 1, 1)), np.array([False, True, False]))
    values, errors = me.standard_errors(model, known, pi, episodes)
    V, q = evaluated(model, table, pi)
    start = model.pooled.start
    expected = V[:, 0] @ start
    np.testing.assert_allclose(values, expected, rtol=1e-12)
    squares = ((V[:, 0] - expected[:, None]) ** 2) @ start / max(episodes, 1)
    n = model.pooled.n
    for c in range(1 + M):
        for k in range(K):
            for row in range(PAIRS):
                if n[k, row] == 0.0:
                    continue
                p, mean = table[k, row] / n[k, row], model.pooled.sums[c, k, row] / n[k, row]
                at = range(H) if K == 1 else (k,)
                f = sum(q[h, row] * V[c, h + 1] for h in at)
                often = sum(q[h, row] for h in at)
                noise = 0.0 if known.components[c] else often**2 * mean * (1.0 - mean)
                squares[c] += (p @ f**2 - (p @ f) ** 2 + noise) / n[k, row]
    np.testing.assert_allclose(errors, np.sqrt(squares), rtol=1e-9)


@pytest.mark.parametrize("K", [1, H])
def test_a_bonus_is_paid_in_reward_and_is_no_more_than_what_may_come(K: int) -> None:
    (model, table), pi, lam = made(K, 5), policy_of(3), np.array([0.5, 2.0])
    known = pm.Known(np.zeros((1 + M, 1, 1)), np.array([False, False, True]))
    n, w = model.pooled.n, np.r_[1.0, lam]
    V, _ = evaluated(model, table, pi)
    L = np.einsum("c,chs->hs", w, V)
    means = model.pooled.sums / np.maximum(n, 1.0)
    noise = (w**2 * [1, 1, 0]) @ (means * (1.0 - means)).reshape(1 + M, -1)
    for scale in (0.5, 50.0):
        found = me.with_bonus(model, known, pi, lam, scale)
        assert found.process.payoffs.shape == (1 + M, H, PAIRS)
        for h in range(H):
            half = np.ptp(L[h + 1]) / 2.0
            for row in range(PAIRS):
                counts, visits = steps(table, h)[row], steps(n, h)[row]
                error = 0.0
                if visits:
                    apart = counts @ L[h + 1] ** 2 - (counts @ L[h + 1]) ** 2 / visits + half**2
                    of_signals = noise.reshape(K, PAIRS)[h if K > 1 else 0, row]
                    error = np.sqrt((apart / (visits + 1.0) + of_signals) / visits)
                paid = steps(model.process.payoffs[0], h)[row] + min(scale * error, H - h)
                assert found.process.payoffs[0, h, row] == pytest.approx(paid, rel=1e-9)
                for c in (1, 2):
                    assert (
                        found.process.payoffs[c, h, row] == steps(model.process.payoffs[c], h)[row]
                    )
        assert found.pooled is model.pooled


# Whether steps are alike


def differing(table: Array, means: Array) -> list[tuple[int, int]]:
    n = table.sum(axis=2)
    return stationarity.differing_steps(n, n * means, table, A)


def alike(visits: int = 400) -> tuple[Array, Array]:
    """Counts and means that are the same at every step, but for noise."""
    rng = np.random.default_rng(0)
    p = rng.dirichlet(np.full(S, 5.0), PAIRS)
    table = np.stack([[rng.multinomial(visits, each) for each in p] for _ in range(H)])
    return table.astype(float), np.clip(0.4 + 0.01 * rng.standard_normal((1 + M, H, PAIRS)), 0, 1)


def test_what_differs_at_one_step_is_found_the_clearest_first() -> None:
    table, means = alike()
    assert differing(table, means) == []
    moved, other = table.copy(), means.copy()
    moved[1, 3] = np.roll(table[1, 3], 1)  # state 1, action 1
    other[2, 0, 6] = 0.6  # state 3, action 0
    found = differing(moved, other)
    assert found == [(1, 1), (3, 0)]
    rare = moved.copy()
    rare[1, 3] = np.ceil(rare[1, 3] / 300.0)  # too few visits to say anything
    assert differing(rare, other) == [(3, 0)]


def test_the_statistics_are_those_of_pearson() -> None:
    table, _ = alike(200)
    cells = table[:, 2]
    assert (cells.sum(axis=0) > 15).all()
    found, freedom = stationarity._successors(cells, cells.sum(axis=1))
    expected = stats.chi2_contingency(cells, correction=False)
    assert found == pytest.approx(expected.statistic)
    assert freedom == expected.dof == (H - 1) * (S - 1)
    ones = np.array([90.0, 110.0, 70.0])
    both = np.stack([ones, 200.0 - ones], axis=1)
    found, freedom = stationarity._means(ones, np.full(3, 200.0))
    expected = stats.chi2_contingency(both, correction=False)
    assert found == pytest.approx(expected.statistic)
    assert freedom == expected.dof


def test_successors_and_signals_that_are_rare_say_nothing() -> None:
    cells = np.array([[60.0, 40.0, 0.0, 0.0], [40.0, 56.0, 3.0, 1.0]])
    found, freedom = stationarity._successors(cells, cells.sum(axis=1))
    # The two rare ones are one cell with too few for itself: it is left out, and what it holds is one more freedom.
    kept, n = cells[:, :2], 100.0
    expected = n * kept.sum(axis=0) / 200.0
    assert found == pytest.approx(((kept - expected) ** 2 / expected).sum())
    assert freedom == 2
    assert stationarity._successors(np.array([[50.0, 0.0], [50.0, 0.0]]), np.full(2, 50.0)) == (0.0, 0)  # fmt: skip
    assert stationarity._means(np.array([1.0, 2.0]), np.full(2, 100.0)) == (0.0, 0)
    assert stationarity._means(np.array([98.0, 99.0]), np.full(2, 100.0)) == (0.0, 0)


def test_pooled_counts_say_the_same() -> None:
    model, table = made(H, 1)
    pooled = model.pooled
    large = table * 40.0
    n = large.sum(axis=2)
    sums = n * 0.4 * np.ones((1 + M, 1, 1))
    scaled = pooled._replace(n=n, sums=sums, counts=pooled.counts * 40.0)
    found = stationarity.contradictions_of(scaled, A)
    assert found == stationarity.differing_steps(n, sums, large, A)
    assert len(found) > 3


# Plans in models of counts


@pytest.mark.parametrize("K", [1, H])
@pytest.mark.parametrize("masked", [False, True])
def test_the_best_response_is_that_of_backward_induction(K: int, masked: bool) -> None:
    """With masks of all steps or of each, against products of matrices; its values and where it goes likewise."""
    (model, table), rng = made(K, 7), np.random.default_rng(1)
    mask = np.ones((1, PAIRS), bool)
    if masked:
        mask = rng.random((H, PAIRS)) < 0.6
        mask[:, ::A] |= ~mask[:, 1::A]
    model = model._replace(process=model.process._replace(mask=mask))
    for weights in (np.array([1.0, 0.0, 0.0]), np.array([0.5, 1.0, 2.0])):
        pricing = pp.Pricing(model.process)
        column = pricing(weights)
        assert pricing(weights.copy()) is column  # it is found once
        V, plan = np.zeros(S), np.zeros((H, S), int)
        for h in reversed(range(H)):
            payoffs = weights @ np.stack([steps(each, h) for each in model.process.payoffs])
            ahead = steps(table, h) @ V + weights @ model.process.imagined[:, h]
            Q = np.where(steps(mask, h), payoffs + steps(model.process.share, h) * ahead, -np.inf)
            plan[h], V = Q.reshape(S, A).argmax(axis=1), Q.reshape(S, A).max(axis=1)
        np.testing.assert_array_equal(column.plan, plan)
        values, q = evaluated(model, table, np.eye(A)[plan])
        np.testing.assert_allclose(column.values, values[:, 0] @ model.pooled.start, rtol=1e-12)
        assert weights @ column.values == pytest.approx(V @ model.pooled.start)
        occupancy = pp.plan_occupancy(model.process, plan, 0.25)
        np.testing.assert_allclose(occupancy.reshape(H, PAIRS), 0.25 * q, rtol=1e-12)


@pytest.mark.parametrize("K", [1, H])
def test_plans_keep_their_limits_in_the_model_and_say_what_they_promise(K: int) -> None:
    model, table = made(K, 9)
    free = pp.best_plan(model.process, np.full(M, -9.0))
    limits = free.values[1:] + np.array([0.05, -1.0])
    plan = pp.best_plan(model.process, limits)
    assert plan.feasible
    assert (plan.values[1:] >= limits - 1e-9).all()
    assert plan.values[0] < free.values[0]
    assert plan.multipliers[0] > 0.0
    assert plan.multipliers[1] == pytest.approx(0.0, abs=1e-9)
    np.testing.assert_allclose(plan.policy.sum(axis=2), 1.0)
    values, q = evaluated(model, table, plan.policy)
    np.testing.assert_allclose(values[:, 0] @ model.pooled.start, plan.values, rtol=1e-9)
    none = pp.best_plan(model.process, np.full(M, 99.0))
    assert not none.feasible
    widest = pp.widest_plan(model.process, np.full(M, 99.0))
    np.testing.assert_allclose(none.values, widest.values)
    margins = [(each.values[1:]).min() for each in (widest, plan, free)]
    assert margins[0] >= max(margins) - 1e-9
    # Where a mixture never goes, the plan is its best response.
    nowhere = q.reshape(H, S, A).sum(axis=2) == 0.0
    response = pp.Pricing(model.process)(np.r_[1.0, plan.multipliers]).plan
    assert (plan.policy[nowhere] == np.eye(A)[response][nowhere]).all()
    entries = len(model.pooled.counts) // K
    assert plan.work % (H * (entries + PAIRS)) == 0
    assert plan.work > 0
    again = pp.best_plan(model.process, limits, plan.columns)
    np.testing.assert_allclose(again.values, plan.values, rtol=1e-9)
    assert again.work <= plan.work


@pytest.mark.parametrize(("K", "of_steps"), [(1, 1), (1, H), (H, H)])
def test_known_payoffs_are_paid_as_they_are(K: int, of_steps: int) -> None:
    """A known component pays its payoff at every visit, and an imaginary visit what follows it beside that."""
    model, _ = made(K, 2)
    pays = np.random.default_rng(0).random((1 + M, H + 1))
    known = pm.Known(
        np.random.default_rng(3).random((1 + M, of_steps, PAIRS)), np.array([True, False, True])
    )
    found = pm.count_model(model.pooled, pm.Imagined(0.75, pays), known, model.process.mask)
    weight = 1.0 / (model.pooled.n + 0.75)
    np.testing.assert_allclose(found.process.share, weight)
    for h in range(H):
        for c in range(1 + M):
            paid = steps(known.payoffs[c], h) if c != 1 else steps(model.pooled.sums[1] * weight, h)
            np.testing.assert_allclose(steps(found.process.payoffs[c], h), paid)
            assert found.process.imagined[c, h] == pytest.approx(
                0.75 * pays[c, h if c == 1 else h + 1]
            )
