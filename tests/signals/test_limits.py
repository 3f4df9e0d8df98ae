"""What is declared of limits: checked, and the same wherever it is declared."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import safespot as ss

FACE: dict[str, Any] = {"states": 1, "actions": 2, "horizon": 4, "constraints": 2, "start": 0}
FALLS = ss.Limit("falls", "<=", total=(0, 1), threshold=0.05, unit="falls")
SLEEP = ss.Limit(">= 6 hours", ">=", range=(0, 12), threshold=24)
LOG = {
    "episode": [0] * 4, "step": range(4), "state": [0] * 4, "action": [0, 1, 0, 1], "reward": [0.5] * 4,
    "constraint_0": [0.0, 0.0, 1.0, 0.0], "constraint_1": [6.0] * 4, "next_state": [0] * 4,
}  # fmt: skip


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("name", 3), ("unit", None), ("sense", "<"), ("hints", "day"), ("shared_threshold", 1),
        ("range", (1, 0)), ("range", 1), ("total", (0, np.inf)), ("threshold_total", "few"),
        ("threshold", "low"), ("threshold", np.nan),
    ],
)  # fmt: skip
def test_what_no_limit_can_be_is_refused(field: str, value: Any) -> None:
    with pytest.raises(ss.errors.InvalidOption, match=field):
        ss.Limit(**{field: value})


@pytest.mark.parametrize("limits", [3, [3], [FALLS], [FALLS] * 3, [FALLS, ss.Limit()]])
def test_limits_must_be_those_of_the_constraints(limits: Any) -> None:
    with pytest.raises(ss.errors.InvalidOption, match=r"limits|threshold"):
        ss.SafetyMeter(FACE, more=limits)


def test_a_log_a_learner_and_a_meter_share_what_is_declared() -> None:
    log = ss.read_log(LOG, limits=[FALLS, SLEEP])
    assert len(log.episodes) == 1  # and no column of thresholds is needed
    learner = ss.SpotEpochs(**log.interface)
    assert learner.thresholds.tolist() == pytest.approx([0.05, 24.0])
    assert learner.interface.names.quantity(0) == "falls (falls)"
    by_log, by_limits = ss.SafetyMeter(log.interface), ss.SafetyMeter(FACE, more=[FALLS, SLEEP])
    for a, b, c in zip(
        learner.make_meter().terms.declared,
        by_log.terms.declared,
        by_limits.terms.declared,
        strict=True,
    ):
        np.testing.assert_array_equal(a, b)
        np.testing.assert_array_equal(b, c)
    # A total that is not declared is that of all steps.
    assert by_log.mean_bounds[1].tolist() == pytest.approx([1 - 0.05, 24.0])


def test_hints_reach_the_learner_and_are_the_same_for_all_limits() -> None:
    own = ss.Limit(range=(0, 12), hints="step", shared_threshold=True)
    log = ss.read_log(LOG | {"threshold_0": [0.5] * 4, "threshold_1": [6.0] * 4}, limits=own)
    options = ss.Spot(**log.interface, episodes=9, slack=1.0, estimator="total").options
    assert options.independent_hints
    assert options.shared_threshold
    with pytest.raises(ss.errors.InvalidOption, match="the same for all limits"):
        ss.read_log(LOG, thresholds=[1, 1], limits=[own, ss.Limit(range=(0, 12))])
