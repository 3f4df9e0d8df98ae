"""Long runs: nothing locks, nothing overflows, rows stay distributions."""

from __future__ import annotations

import numba
import numpy as np

from safespot.arrays import Float
from safespot.spot import updates


@numba.njit
def favor(logits: Float, pi: Float, Q: Float, eta: float, rounds: int) -> None:
    work = np.zeros(Q.size + 3)
    for _ in range(rounds):
        updates.mirror_ascent(logits, pi, Q, eta, Q.size, 0, 1, work)


def test_no_action_is_ever_locked_out() -> None:
    """A million updates for one action, then a million for the other: the policy follows."""
    logits, pi = np.zeros(3), np.full(3, 1 / 3)
    first, second = np.array([0.0, -1.0, -0.5]), np.array([-1.0, 0.0, -0.5])
    favor(logits, pi, first, 1.0, 10**6)
    assert pi.tolist() == [1.0, 0.0, 0.0]  # as far as a double can tell
    assert np.isfinite(logits).all()
    favor(logits, pi, second, 1.0, 10**6 - 2)
    assert 0.6 < pi[0] < 0.7  # two steps behind
    favor(logits, pi, second, 1.0, 2)
    # level again, but for the rounding of a million sums; all three actions are back
    np.testing.assert_allclose(np.ptp(logits), 0.0, atol=1e-6)
    np.testing.assert_allclose(pi, 1 / 3, atol=1e-6)
    favor(logits, pi, second, 1.0, 800)
    assert pi[1] == 1.0
    assert abs(pi.sum() - 1.0) <= 1e-12


def test_rows_sum_to_one_after_many_small_steps() -> None:
    rng = np.random.default_rng(0)
    logits, pi = np.zeros(7), np.full(7, 1 / 7)
    for _ in range(50):
        favor(logits, pi, -rng.random(7), 1e-4, 20_000)
        assert np.isfinite(pi).all()
        assert abs(pi.sum() - 1.0) <= 1e-12
        assert -3.0 < logits.max() <= 0.0
    assert np.ptp(pi) > 0.01
