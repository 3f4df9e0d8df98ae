"""A few episodes by `learn` and by hand: short, since here the loop is looked at where it runs uncompiled, too."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import safespot as ss
from tests.support.trails import by_hand, example, follows, same, spot
from tests.support.training_cases import noisy


@pytest.mark.parametrize(
    "law", [ss.signals.Gaussian(0.2), ss.signals.Bernoulli()], ids=["gaussian", "bernoulli"]
)
def test_signals_are_learned_from_as_their_units_round_them(law: Any, tmp_path: Path) -> None:
    problem = example(noisy(law), units=True)
    ours, theirs = (spot(problem, 12) for _ in range(2))
    trail = by_hand(problem, theirs, 12, seed=5)
    run = ss.learn(problem, ours, seed=5, record="all")
    same(ours, theirs, tmp_path)
    follows(run, trail)


def test_a_plan_is_made_after_the_very_episode_that_asks_for_it() -> None:
    """Within a chunk, too: the next episode is played by the new plan."""
    problem = ss.problems.make("machine")

    def make() -> Any:
        return ss.learners.OptDual(**problem.interface, episodes=10, slack=0.5)

    ours, theirs = make(), make()
    streams, policies = ss.streams(1), []
    for t in range(1, 11):
        policies.append(theirs.policy)
        theirs.observe(ss.play(problem, theirs.policy, streams, t))
    run = ss.learn(problem, ours, seed=1, record="all")
    np.testing.assert_array_equal(ours.policy, theirs.policy)
    values = [ss.evaluate(problem.cmdp, policy).value for policy in policies]
    np.testing.assert_allclose(run.values, values, rtol=1e-12)
    assert np.ptp(values) > 0.1
