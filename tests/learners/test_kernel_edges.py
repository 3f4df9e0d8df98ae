"""Where an episode lies at an end of what was declared, or was played by another: the kernels of trials and guards."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import safespot as ss
from safespot.arrays import InsideEpisode
from safespot.evidence.budget import LOWER, UPPER
from safespot.evidence.trial import difference_interval
from safespot.learners import account as accounts
from safespot.learners.pooling import pool
from safespot.signals.interface import make_interface
from safespot.signals.totals import Declared, declare, difference_range
from safespot.spot import visits

Array = Any
H = 2
FACE: dict[str, Any] = {"states": 1, "actions": 2, "horizon": H, "constraints": 1}


def declared_as(**given: Any) -> Declared:
    names = ("thresholds", "constraint_totals", "threshold_totals")
    return declare(make_interface(1, 2, H, 1), *(given.get(name) for name in names))


def inside(g: float, x: float = 0.5) -> InsideEpisode:
    """An episode whose steps all have these signals."""
    return InsideEpisode(
        np.zeros(H + 1, np.int64), np.zeros(H, np.int64), np.ones(H), np.full((H, 1), g), np.full((H, 1), x)
    )  # fmt: skip


def outside(g: float, x: float = 0.5) -> ss.Episode:
    return ss.Episode(
        np.zeros(H + 1, int), np.zeros(H, int), np.ones(H), np.full((H, 1), g), np.full((H, 1), x)
    )


def test_a_baseline_that_can_just_reach_its_limit_is_not_yet_unsafe() -> None:
    """A limit of H: nothing can exceed it, so that the bound from above is 0 before anything is proven."""
    terms = accounts.make_config(declared_as(thresholds=[float(H)]), np.array([9.0]), 0.1, True)
    account = accounts.empty_account(1)
    account.turn[0] = accounts.BASELINE
    for _ in range(5):
        accounts.charge_alone(terms, account, inside(1.0))
    assert difference_interval(terms.trial.declared, account.trial.lower, 0)[1] == 0.0
    assert account.unsafe[0] == accounts.TRUSTED


def test_what_a_guard_says_of_its_baseline_misses_with_its_part_of_delta() -> None:
    terms = accounts.make_config(declared_as(), np.array([9.0]), 0.2, True)
    assert np.exp(-terms.trial.broken_level) == pytest.approx(accounts.TRIAL * 0.2)
    np.testing.assert_allclose(np.exp(-terms.level), UPPER * 0.2)
    assert sum((UPPER, LOWER, accounts.TRIAL)) == pytest.approx(1.0)


@pytest.mark.parametrize("w", [0.0, 0.25, 1.0])
def test_a_trial_lies_between_the_ends_of_what_was_declared(w: float) -> None:
    """Y = g - w x, with totals of g in [0.5, 1.5] and of x in [0.25, 2]."""
    declared = declared_as(constraint_totals=(0.5, 1.5), threshold_totals=(0.25, 2.0))
    least, width, scale = difference_range(declared, w, 0)
    assert scale == pytest.approx(1.0 / width)
    assert least == pytest.approx(0.5 - w * 2.0)
    assert least + width == pytest.approx(1.5 - w * 0.25)


@pytest.mark.parametrize("dense", [2**22, 0], ids=["dense", "lists"])
@pytest.mark.parametrize("stationary", [True, False])
def test_pooled_counts_hold_what_their_rows_point_at_and_no_more(
    stationary: bool, dense: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(visits, "DENSE", dense)
    learner = ss.Uniform(3, 2, 3, 1, episodes=50, stationary=stationary)
    for states in ([0, 1, 1, 2], [0, 1, 2, 0], [0, 2, 1, 1]):
        learner.observe(
            ss.Episode(
                np.array(states), np.zeros(3, int), np.ones(3), np.ones((3, 1)), np.ones((3, 1))
            )
        )
    pooled = pool(learner.statistics, learner.interface)
    assert pooled.first[0, 0] == 0
    assert len(pooled.states) == len(pooled.counts) == pooled.first[-1, -1]
    assert pooled.counts.sum() == 9
    assert (pooled.counts > 0).all()
