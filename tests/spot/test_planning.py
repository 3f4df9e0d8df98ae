"""Truncated policy evaluation: the gaps of the kernels against values in plain NumPy."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from safespot.arrays import Bool, Float
from safespot.spot import optimism, planning, visits
from safespot.spot.visits import Statistics
from tests.spot.test_visits_and_window import visited
from tests.support.episodes import random_mask


def evaluated(statistics: Statistics, deficit: Float, pi: Float) -> tuple[Float, Float]:
    """Algorithm TPE as written: ``Q_v = min(v_bar + p_hat V_v, remaining)``, from dense counts."""
    H, S, A = pi.shape
    components = deficit.shape[0]
    n = statistics.n.reshape(H, S, A)
    Q, V = np.zeros((components, H, S, A)), np.zeros((components, S))
    for h in reversed(range(H)):
        counts = statistics.successors.dense[h].reshape(S, S, A)  # [s', s, a]
        p_hat = counts / np.maximum(n[h], 1)
        v_bar = 1.0 - deficit[:, h].reshape(components, S, A)
        Q[:, h] = np.minimum(v_bar + np.einsum("cz,zsa->csa", V, p_hat), H - h)
        V = np.einsum("sa,csa->cs", pi[h], Q[:, h])
    return Q, V


def evaluated_by_steps(
    statistics: Statistics, deficit: Float, weight: Float, pi: Float, lam: Float
) -> tuple[Float, Float]:
    """The same, one `evaluate_states` after the other."""
    H, S, A = pi.shape
    G, D, Q = np.zeros((len(deficit), S)), np.zeros((len(deficit), S * A)), np.zeros(S * A)
    values = np.zeros((len(deficit), H, S, A))
    for h in reversed(range(H)):
        planning.evaluate_states(
            statistics.successors, deficit, weight, pi[h].reshape(-1), lam, A, h, 0, S, G, D, Q, G
        )
        values[:, h] = H - h - D.reshape(-1, S, A)
    return values, H - G


def derived(statistics: Statistics, mask: Bool, scale: float) -> tuple[Float, Float]:
    H, S = statistics.known.shape
    pairs, components = statistics.n.shape[1], statistics.sums.shape[0]
    radii = optimism.make_radii(S, pairs // S, H, components - 1, 1000, 0.05, bonus_scale=scale)
    deficit, weight = np.zeros((components, H, pairs)), np.zeros((H, pairs))
    optimism.refresh_all(radii, statistics, mask, deficit, weight, np.zeros((H, S)))
    return deficit, weight


@given(
    st.integers(1, 5), st.integers(1, 3), st.integers(1, 4), st.integers(1, 3),
    st.sampled_from([0, 3, 60, 600]), st.sampled_from([0.0, 0.02, 0.1, 1.0]), st.booleans(),
    st.integers(0, 2**32 - 1),
)  # fmt: skip
@settings(deadline=None, max_examples=60)
def test_truncated_policy_evaluation(
    S: int, A: int, H: int, m: int, times: int, scale: float, dense: bool, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    counted = visited(visits.empty_statistics(H, S, A, m, dense=True), seed, times)
    given = visited(visits.empty_statistics(H, S, A, m, dense=dense), seed, times)
    mask = random_mask(rng, H, S, A)
    pi = np.where(mask, 0.01 + rng.random((H, S, A)), 0.0)
    pi /= pi.sum(axis=2, keepdims=True)
    lam = rng.random(m)
    deficit, weight = derived(given, mask.reshape(H, S * A), scale)
    Q, V = evaluated_by_steps(given, deficit, weight, pi, lam)
    Q_expected, V_expected = evaluated(counted, deficit, pi)
    np.testing.assert_allclose(Q, Q_expected, rtol=0, atol=1e-12)
    np.testing.assert_allclose(V, V_expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("dense", [True, False])
def test_some_states_of_one_step(dense: bool) -> None:
    H, S, A, m = 2, 6, 2, 2
    statistics = visited(visits.empty_statistics(H, S, A, m, dense=dense), 5, 6)
    counted = visited(visits.empty_statistics(H, S, A, m, dense=True), 5, 6)
    deficit, weight = derived(statistics, np.ones((H, S * A), bool), 0.02)
    pi, lam = np.full((H, S, A), 0.5), np.array([0.7, 0.2])
    Q_v, V = evaluated(counted, deficit, pi)
    ahead, D, Q = 1.0 - Q_v[:, 1] @ np.full(A, 0.5), np.zeros((1 + m, S * A)), np.zeros(S * A)
    combined = Q_v[0, 0] + np.tensordot(lam, Q_v[1:, 0], axes=1)  # Q_r + lambda . Q_g
    shared = 2 * (1 + lam.sum())
    moving = []
    lists = [(s, s + 1) for s in range(S)] + [(0, 4), (3, S)]
    for first, last in [(0, S)] if dense else lists:
        G = np.full((1 + m, S), 9.0)
        moves = planning.evaluate_states(
            statistics.successors, deficit, weight, pi[0].reshape(-1), lam, A, 0, first, last,
            ahead, D, Q, G,
        )  # fmt: skip
        np.testing.assert_allclose(
            shared + Q.reshape(S, A)[: last - first], combined[first:last], rtol=0, atol=1e-12
        )
        np.testing.assert_allclose(H - G[:, first:last], V[:, first:last], rtol=0, atol=1e-12)
        assert (G[:, :first] == 9.0).all()
        assert (G[:, last:] == 9.0).all()
        assert moves == (shared - combined[first:last] > 1e-12).any()
        moving.append(moves)
    assert any(moving)
    assert dense or not all(moving)


def test_each_kernel_of_a_step() -> None:
    rng = np.random.default_rng(0)
    H, S, A, m = 1, 3, 2, 2
    statistics = visited(visits.empty_statistics(H, S, A, m), 1, 50)
    _, weight = derived(statistics, np.ones((H, S * A), bool), 0.1)
    G, total = rng.random((1 + m, S)), np.full((1 + m, S * A), 9.0)
    planning.back_up(statistics.successors, A, 0, 0, S, G, total)
    np.testing.assert_allclose(total, G @ statistics.successors.dense[0], rtol=1e-14)
    part = np.full_like(total, 9.0)
    planning.back_up(statistics.successors, A, 0, 2, 3, G, part)  # state 2 alone
    np.testing.assert_allclose(part[:, :A], total[:, 2 * A :], rtol=1e-14)
    assert (part[:, A:] == 9.0).all()
    lists, some = (
        visited(visits.empty_statistics(H, S, A, m, dense=False), 1, 50),
        total * 0 + 9.0,
    )
    planning.back_up(lists.successors, A, 0, 1, 3, G, some)  # states 1 and 2
    np.testing.assert_allclose(some[:, : 2 * A], total[:, A:], rtol=1e-14)
    assert (some[:, 2 * A :] == 9.0).all()

    deficit, lam = rng.normal(size=(1 + m, H, S * A)), rng.random(m)
    D, Q = total[:, 1:].copy(), np.full(S * A, 9.0)
    assert planning.truncate(deficit, weight, lam, 0, 1, 4, D, Q)  # pairs 1 to 3 only
    gaps = np.maximum(deficit[:, 0] + total / statistics.n[0], 0.0)
    np.testing.assert_allclose(D[:, :3], gaps[:, 1:4], rtol=1e-14)
    np.testing.assert_array_equal(D[:, 3:], total[:, 4:])
    np.testing.assert_allclose(Q[:3], -(gaps[0] + lam @ gaps[1:])[1:4], rtol=1e-14)
    assert (Q[3:] == 9.0).all()
    assert not planning.truncate(np.full_like(deficit, -99.0), weight, lam, 0, 0, 6, total, Q)


def test_start_gap() -> None:
    G, gap = np.array([[0.5, 2.0], [0.25, 1.0]]), np.zeros(2)
    starts = np.array([3, 1])
    planning.start_gap(G, 1, starts, 4, 0.1, gap)
    assert gap.tolist() == [2.0, 1.0]  # a known start: no bonus
    planning.start_gap(G, 2, starts, 4, 0.1, gap)
    np.testing.assert_allclose(gap, [0.875 - 0.1, 0.4375 - 0.1], rtol=1e-15)  # D5
    planning.start_gap(G, 2, starts, 4, 0.5, gap)
    assert gap.tolist() == [0.375, 0.0]  # truncated at H
    planning.start_gap(G, 2, np.array([0, 0]), 0, 0.0, gap)
    assert gap.tolist() == [0.0, 0.0]  # H before the first episode
