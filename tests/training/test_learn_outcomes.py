"""States that rest at their cap, and that it learns."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import safespot as ss
from safespot.reference import ReferenceSpot
from tests.support.trails import (
    OPTIONS,
    by_hand,
    spot,
)

Options = dict[str, Any]
Array = Any


# --- The active set


@pytest.mark.usefixtures("layout")
@pytest.mark.parametrize("seed", [0])
def test_states_that_rest_at_their_cap_rest_rightly(seed: int) -> None:
    """The reference sweeps over every state in every episode; a learner leaves out what is at its cap."""
    drawn = ss.problems.make(
        "random", states=6, actions=2, horizon=4, constraints=2, successors=2, seed=seed
    ).cmdp
    cmdp = ss.CMDP(
        drawn.transitions, 0.8 + 0.2 * drawn.rewards, 0.8 + 0.2 * drawn.constraints,
        np.full(2, 3.7), start=[0.5, 0.1, 0.1, 0.1, 0.1, 0.1], horizon=4,
    )  # fmt: skip
    problem = ss.Problem(cmdp)
    episodes = by_hand(problem, ACTIVE(problem), 309, seed).episodes
    learner, reference = ACTIVE(problem), ACTIVE(problem, ReferenceSpot)
    capped = []
    for t, e in enumerate(episodes, start=1):
        Q, _ = reference._evaluate()
        cap = (4 - np.arange(4))[:, None, None] * (1 + reference.multipliers.sum())
        capped.append((np.abs(Q - cap) < 1e-12).all(axis=2))
        reference.observe(e.states, e.actions, e.rewards, e.constraints, e.thresholds)
        if t % 3 == 0:
            run = ss.learn(problem, learner, 3, seed=seed, record="all")
            assert np.abs(learner.policy - reference.policy).max() <= 1e-10
            assert np.abs(learner.multipliers - reference.multipliers).max() <= 1e-10
            for ours, theirs in zip(
                learner.threshold_bounds, reference.threshold_bounds, strict=True
            ):
                assert np.abs(ours - theirs).max() <= 1e-10
            assert run.episodes[-1] == t
    resting = np.array(capped)
    leaves = (resting[:-1] & ~resting[1:]).sum()
    enters = (~resting[:-1] & resting[1:]).sum()
    assert leaves > 20
    assert enters >= 3
    assert 0.02 < resting[20:].mean() < 0.9


def ACTIVE(problem: ss.Problem, kind: Any = ss.Spot) -> Any:  # noqa: N802
    known = ("states", "actions", "horizon", "constraints", "start", "action_mask")
    interface = {name: problem.interface[name] for name in known}
    return kind(**interface, episodes=400, **{**OPTIONS, "policy_step": 0.05})


# --- Learning


@pytest.mark.slow
@pytest.mark.parametrize("draw", [0, 1, 4])
def test_it_learns_to_keep_an_unknown_limit_and_to_earn_what_that_allows(draw: int) -> None:
    problem = ss.problems.make("random", states=3, actions=2, horizon=3, slack=0.2, seed=draw)
    best, limit = ss.solve(problem.cmdp), float(problem.cmdp.limits[0])
    assert best.multipliers[0] > 0.1  # the limit costs something
    options = {
        "bonus_scale": 0.003,
        "threshold_scale": 0.03,
        "policy_step": 0.01,
        "dual_step": 0.01,
    }
    options["rho"] = ss.slater(problem.cmdp).rho
    T, missed, lost = 100_000, [], []
    for seed in range(5):
        run = ss.learn(problem, spot(problem, T, **options), seed=seed, record=T // 10)
        assert run.episodes[-2] == T - T // 10
        missed.append(np.diff(run.strong_violation)[-1] / (T // 10) / limit)
        lost.append(np.diff(run.regret)[-1] / (T // 10) / best.value)
        # The even policy, with which it begins, is not like that.
        even = (
            (limit - run.constraint_values[0, 0]) / limit,
            (best.value - run.values[0]) / best.value,
        )
        assert max(even) > 0.05
    assert np.mean(missed) < 0.05
    assert abs(np.mean(lost)) < 0.05
