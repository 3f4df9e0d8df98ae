"""How far an empirical model may be from the truth: the delta method, solved by hand."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import safespot as ss


def rows(**columns: Any) -> dict[str, Any]:
    """One step an episode, in state 0, unless said otherwise."""
    n = len(next(iter(columns.values())))
    plain = {
        "episode": range(n), "step": [0] * n, "state": [0] * n, "action": [0] * n, "reward": [0.0] * n,
        "constraint_0": [1.0] * n, "threshold_0": [0.5] * n, "next_state": [0] * n,
    }  # fmt: skip
    return {**plain, **columns}


@pytest.mark.parametrize("stationary", [True, False])
def test_means_of_signals(stationary: bool) -> None:
    table = rows(reward=[1.0] * 30 + [0.0] * 20, constraint_0=[1.0] * 15 + [0.0] * 35)
    model = ss.logs.empirical_model(ss.read_log(table), stationary=stationary)
    error, errors = model.standard_errors([[1.0]])
    assert error == pytest.approx(math.sqrt(0.6 * 0.4 / 50))
    assert errors == pytest.approx([math.sqrt(0.3 * 0.7 / 50)])
    larger = {"reward": 10.0, "constraint_0": 4.0}
    wide = {**table, **{name: [k * x for x in table[name]] for name, k in larger.items()}}
    ranges = {"reward": (0, 10), "constraints": [(0, 4)]}
    scaled = ss.logs.empirical_model(
        ss.read_log(wide, ranges=ranges, senses="<="), stationary=stationary
    )
    found = scaled.standard_errors([[1.0]])
    assert found[0] == pytest.approx(10.0 * error)
    assert found[1] == pytest.approx(4.0 * errors)


def test_transitions() -> None:
    """40 of 100 go to state 1, which pays 1; state 0 pays nothing: V = 0.4, and it is as sure as that share."""
    n, after = 100, [1] * 40 + [0] * 60
    table = {
        "episode": np.repeat(range(n), 2), "step": np.tile([0, 1], n),
        "state": np.ravel([[0, s] for s in after]), "next_state": np.ravel([[s, 0] for s in after]),
        "action": [0] * 2 * n, "reward": np.ravel([[0.0, float(s)] for s in after]),
        "constraint_0": [1.0] * 2 * n, "threshold_0": [0.5] * 2 * n,
    }  # fmt: skip
    model = ss.logs.empirical_model(ss.read_log(table, start=0))
    policy = np.ones((2, 1))
    assert ss.evaluate(model.cmdp, policy).value == pytest.approx(0.4)
    error, errors = model.standard_errors(policy)
    assert error == pytest.approx(math.sqrt(0.4 * 0.6 / n))
    assert errors == pytest.approx([0.0], abs=1e-8)  # the root of what rounding leaves


def test_starts() -> None:
    """A quarter of 80 episodes starts in state 1, which pays 1 for certain."""
    states = [1] * 20 + [0] * 60
    model = ss.logs.empirical_model(
        ss.read_log(rows(state=states, reward=[float(s) for s in states]))
    )
    error, _ = model.standard_errors([[1.0], [1.0]])
    assert error == pytest.approx(math.sqrt(0.25 * 0.75 / 80))
