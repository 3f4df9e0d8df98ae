"""The account of violation: what it is charged, and that it is never exceeded."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import safespot as ss
from safespot.errors import InvalidOption
from safespot.evidence.budget import UPPER

from . import reference as ref

LIMIT = ss.Limit("cost", "<=", total=(0, 2), threshold=0.5)


def test_what_is_spent_is_the_least_of_what_is_proven_and_what_it_can_be() -> None:
    rng, account, spent, x = (
        np.random.default_rng(0),
        ss.Budget(LIMIT, 40.0, 0.1),
        0.0,
        list[float](),
    )
    for n in range(200):
        cost, baseline = 2.0 * rng.random(), n % 3 == 0
        account.observe(ss.Totals([cost]), baseline=baseline)
        x.append((2.0 - cost) / 2.0)
        proven = n + 1 - ref.changing_sum(np.array(x), UPPER * 0.1)  # of cost / 2
        spent = min(2.0 * proven - 0.5 * (n + 1), spent + 1.5 * (not baseline))
        low, high = account.spent
        assert high[0] == pytest.approx(spent, rel=1e-8, abs=1e-8)
        assert low[0] <= high[0]
        assert account.may_play == (spent + 1.5 <= 40.0)
    assert account.episodes == 200


def test_the_budget_is_never_exceeded_however_bad_the_agent() -> None:
    """The expected violation of what was played, a hundred times over: with delta = 0.2 at most a fifth may fail."""
    rng, exceeded, shares = np.random.default_rng(1), 0, []
    for _ in range(100):
        account, violation, played = ss.Budget(LIMIT, 10.0, 0.2), 0.0, 0
        for _ in range(300):
            plays = account.may_play
            mean = 0.9 if plays else 0.4
            account.observe(ss.Totals([2.0 * (rng.random() < mean / 2.0)]), baseline=not plays)
            violation += mean - 0.5
            played += plays
            if violation > 10.0:
                exceeded += 1
                break
        shares.append(played)
    assert exceeded <= 20
    assert np.mean(shares) > 6  # a budget of 10 is at least so many episodes at 1.5


def test_it_goes_on_from_its_file(tmp_path: Path) -> None:
    account = ss.Budget(
        [LIMIT, LIMIT.__class__("falls", "<=", total=(0, 1), threshold=0.1)], [9, 5]
    )
    for n in range(5):
        account.observe(ss.Totals([n / 4, 0.0]))
    account.save(tmp_path / "budget")
    loaded = ss.Budget.load(tmp_path / "budget")
    for each in (account, loaded):
        each.observe(ss.Totals([2.0, 1.0]))
    np.testing.assert_array_equal(account.spent, loaded.spent)
    assert repr(account) == repr(loaded)


@pytest.mark.parametrize("budget", [1.0, [9.0, 9.0], -3.0, np.nan])
def test_a_budget_covers_at_least_one_episode(budget: float) -> None:
    with pytest.raises(InvalidOption, match="budget"):
        ss.Budget(LIMIT, budget)
