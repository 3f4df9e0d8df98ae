"""A few episodes by `learn` and by hand: short, since here the loop is looked at where it runs uncompiled, too."""

from __future__ import annotations

from typing import Any

import numpy as np

import safespot as ss


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
