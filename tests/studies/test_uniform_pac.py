"""A published run with known thresholds, repeated: its first oscillation, the largest violation of the whole run."""

from __future__ import annotations

from pathlib import Path

import pytest
from studies.uniform_pac import repeat

INSTANCE = Path(__file__).parents[3] / "shared" / "data" / "uniform-pac" / "instance.npz"


@pytest.mark.slow
@pytest.mark.skipif(not INSTANCE.exists(), reason="the instance of the study is not here")
def test_the_first_oscillation_is_that_of_the_study() -> None:
    found = repeat(str(INSTANCE), 18_000)
    assert found.peak == pytest.approx(2.117, rel=0.02)
    assert found.peak_episode == pytest.approx(16_136, rel=0.02)
    assert found.weak_regret == pytest.approx(-found.weak_violation, rel=1e-3)  # since u = 1 - r
