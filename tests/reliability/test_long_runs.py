"""Long runs, the quick form of `make test-reliability`."""

from __future__ import annotations

import numpy as np
import pytest

from tests.reliability.long_runs import beyond_32_bits, long_run


@pytest.mark.parametrize("window", [1.0, 0.5])
def test_memory_is_as_documented_and_nothing_drifts(window: float) -> None:
    found = long_run(100_000, window)
    assert found["episodes"] == 100_000
    assert found["counts"] == [100_000] * 3
    assert found["integers"] == {"int64"}
    assert found["row_error"] < 1e-12
    assert found["ring"] <= found["ring_at_most"]
    assert found["sums_error"] < 1e-6
    if window == 1.0:
        assert found["kept"] == found["kept_early"]
    else:
        assert found["window"] == 50_000


def test_counters_have_64_bits() -> None:
    learner = beyond_32_bits()
    assert learner.episode == 2**31 + 7
    assert (learner.statistics.n.sum(axis=1) == 2**31 + 6).all()
    assert learner.window.n.max() >= 2**31 - 1
    assert learner.window.span[0] == 2**31 + 6
    np.testing.assert_allclose(learner.policy.sum(axis=2), 1.0, rtol=0, atol=1e-12)
    lower, upper = learner.threshold_bounds
    assert (upper - lower < 0.01).all()
