"""Mirror ascent, the dual step and the exponential, each against its formula."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from safespot.arrays import Float
from safespot.spot import updates


def exponentials(x: Float, n: int | None = None) -> Float:
    values = x.copy()
    updates.exponentials(values, len(x) if n is None else n)
    return values


def test_exponential_is_exact_to_the_last_places() -> None:
    rng = np.random.default_rng(0)
    x = -np.concatenate([
        np.linspace(0.0, 708.0, 200_001), np.geomspace(1e-300, 708.0, 100_001),
        708.0 * rng.random(200_000), math.log(2) * (np.arange(1, 1000) / 2),
    ])  # fmt: skip
    error = np.abs(exponentials(x) - np.exp(x)) / np.exp(x)
    assert error.max() <= 2 * 2.3e-16


def test_exponential_at_its_ends() -> None:
    x = np.array([0.0, -0.0, -708.0, np.nextafter(-708.0, -np.inf), -1000.0, -1e300, -np.inf])
    values = exponentials(x)
    assert values[:2].tolist() == [1.0, 1.0]
    assert values[2] == pytest.approx(math.exp(-708.0), rel=4.6e-16, abs=0.0)
    assert values[3:].tolist() == [0.0] * 4


def test_exponential_changes_only_what_it_is_asked_to() -> None:
    assert exponentials(np.array([0.0, -1.0, -2.0]), 1).tolist() == [1.0, -1.0, -2.0]


@given(
    st.integers(1, 3), st.integers(1, 4), st.integers(1, 5),
    st.sampled_from([0.0, 1e-4, 0.3, 5.0, 80.0]), st.integers(0, 2**32 - 1),
)  # fmt: skip
@settings(deadline=None, max_examples=60)
def test_mirror_ascent(H: int, S: int, A: int, eta: float, seed: int) -> None:
    rng = np.random.default_rng(seed)
    admissible = rng.random((H, S, A)) < 0.7
    admissible[..., 0] = True
    pi = np.where(admissible, 0.01 + rng.random((H, S, A)), 0.0)
    pi /= pi.sum(axis=2, keepdims=True)
    with np.errstate(divide="ignore"):
        logits = np.log(pi) - np.log(pi.max(axis=2, keepdims=True))
    Q = -3 * rng.random((H, S, A))
    first, last = sorted(rng.integers(0, H * S + 1, 2).tolist())
    new_logits, new_pi = logits.copy(), pi.copy()
    updates.mirror_ascent(
        new_logits.reshape(-1), new_pi.reshape(-1), Q.reshape(-1)[first * A :], eta, A, first, last,
        updates.workspace(H * S, A),
    )  # fmt: skip
    moving = np.zeros((H, S), bool)
    moving.reshape(-1)[first:last] = True
    weights = pi * np.exp(eta * Q)  # pi exp(eta Q) / sum
    expected = weights / weights.sum(axis=2, keepdims=True)
    assert_allclose(new_pi[moving], expected[moving], rtol=1e-12, atol=1e-300)
    assert (new_logits <= 0.0).all()
    assert (np.exp(new_logits[moving]).sum(axis=1) > 0.49).all()  # nothing underflows
    assert ((new_logits == -np.inf) == ~admissible).all()
    assert (new_pi[~admissible] == 0.0).all()
    np.testing.assert_array_equal(new_pi[~moving], pi[~moving])
    np.testing.assert_array_equal(new_logits[~moving], logits[~moving])


def test_softmax_of_the_given_rows() -> None:
    logits = np.array(
        [[0.0, 0.0, 0.0], [0.0, -1.0, -np.inf], [-2.0, 0.0, -800.0], [-9.0, -8.0, -9.0]]
    )
    pi = np.full((4, 3), 9.0)
    updates.softmax(logits.reshape(-1), pi.reshape(-1), 3, 1, 4, updates.workspace(3, 3))
    e = math.e
    assert (pi[0] == 9.0).all()
    assert_allclose(pi[1], [e / (1 + e), 1 / (1 + e), 0.0], rtol=1e-15)
    assert_allclose(pi[2], [1 / (1 + e**2), e**2 / (1 + e**2), 0.0], rtol=1e-15)
    assert_allclose(pi[3], np.array([1, e, 1]) / (2 + e), rtol=1e-15)
    assert logits[3].tolist() == [-1.0, 0.0, -1.0]  # lifted: its sum was below one half
    assert logits[2].tolist() == [-2.0, 0.0, -800.0]


def test_dual_step() -> None:
    lam = np.array([0.5, 0.5, 0.1, 1.9])
    alpha, values = np.array([2.0, 1.0, 0.0, 3.0]), np.array([1.5, 1.75, 3.0, 1.0])
    updates.dual_step(lam, alpha, values, 0.25, 2.0)
    # grows with the shortfall, shrinks with room, and stays in [0, rho]
    assert lam.tolist() == [0.625, 0.3125, 0.0, 2.0]


def test_dual_step_without_a_ceiling() -> None:
    lam = np.array([3.0])
    updates.dual_step(lam, np.array([2.0]), np.array([0.0]), 100.0, np.inf)
    assert lam.tolist() == [203.0]
