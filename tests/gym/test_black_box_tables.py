"""Gymnasium's own taxi and frozen lake as black boxes are learned as their tables are.

Gymnasium draws its random numbers otherwise than we do. So its environments are handed ours: one number decides where
an episode starts, one a step where it leads. What a table's pair pays is an average over outcomes, which an environment
shows only in the long run; where outcomes differ the box is told the averages, and the table shows them without noise.
What is then left to differ is the loop itself, and nothing does. The limits are known to both learners: an
environment that has ended shows no more hints at them, a table does.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.envs.toy_text import FrozenLakeEnv, TaxiEnv

import safespot as ss

EXACT = ss.signals.Signals(
    ss.signals.Deterministic(), ss.signals.Deterministic(), ss.signals.Deterministic()
)
NOTHING = ss.gym.Ending(reward=0, constraints=0)


class Handed(gymnasium.Wrapper[Any, Any, Any, Any]):
    """A toy-text environment whose random numbers are handed to it: those of `ss.streams`.

    It shows no masks of actions: tables have every outcome.
    """

    def __init__(self, env: Any, horizon: int) -> None:
        super().__init__(env)
        self.horizon = horizon

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        if seed is not None:
            self.streams = ss.streams(seed)
        self.number = self.streams.start.random()
        self.env_seed = iter(self.streams.transitions.random(self.horizon).tolist())
        base: Any = self.unwrapped
        base.np_random = self
        state, info = self.env.reset()
        info.pop("action_mask", None)
        return state, info

    def step(self, action: Any) -> Any:
        base: Any = self.unwrapped
        outcomes = base.P[base.s][action]
        # Our tables list the successors in ascending order, an ended episode's last, each of them once.
        keys = [(ended, after) for _, after, _, ended in outcomes]
        chances: dict[Any, float] = defaultdict(float)
        for key, (p, *_) in zip(keys, outcomes, strict=True):
            chances[key] += p
        u, total, chosen = next(self.env_seed), 0.0, keys[0]
        for key in sorted(chances):
            total, chosen = total + chances[key], key
            if u < total:
                break
        which = keys.index(chosen)
        self.number = sum(p for p, *_ in outcomes[:which]) + outcomes[which][0] / 2.0
        *seen, info = self.env.step(action)
        info.pop("action_mask", None)
        return *seen, info

    def random(self) -> float:
        """What `Generator.random` is called for."""
        return self.number


def means(env: Any, payoff: Any) -> Any:
    """The average over the outcomes of each pair, ``[S,A]``."""
    table = [[env.P[s][a] for a in range(env.action_space.n)] for s in range(len(env.P))]
    return np.array(
        [[sum(p * payoff(*rest) for p, *rest in pair) for pair in row] for row in table]
    )


def curves(learner: ss.Spot, run: ss.Run) -> list[Any]:
    """All that a learner has come to, and how."""
    return [learner.policy, run.episodes, run.multipliers, run.thresholds]


@pytest.mark.parametrize("seed", range(2))
def test_gymnasiums_taxi_is_learned_as_its_table(seed: int) -> None:
    table = ss.problems.make("taxi", horizon=200, fuel=160)  # enough for some deliveries at random
    H, known = table.cmdp.H, table.cmdp.limits
    box = ss.gym.BlackBox(
        Handed(TaxiEnv(), H), horizon=H, limits=ss.Limit(sense="<="), endings=NOTHING,
        signals={"rewards": lambda step: step.ended, "constraints": lambda step: step.action < 4},
    )  # fmt: skip
    ours, theirs = (
        ss.Spot(**f, episodes=100, rho=2.0, bonus_scale=1e-7, policy_step=0.05, thresholds=known)
        for f in (box.interface, table.interface)
    )
    found = curves(ours, ss.learn(box, ours, seed=seed))
    for mine, other in zip(found, curves(theirs, ss.learn(table, theirs, seed=seed)), strict=True):
        np.testing.assert_array_equal(mine, other)
    np.testing.assert_array_equal(ours.statistics.n, theirs.statistics.n)
    np.testing.assert_array_equal(ours.statistics.sums, theirs.statistics.sums)
    assert ours.statistics.sums[0].sum() > 0  # passengers were delivered, so endings were met
    assert ours.policy.max() > 1 / 6 + 0.1  # and something was learned


@pytest.mark.parametrize("map_name", ["4x4", "8x8"])
@pytest.mark.parametrize("seed", range(3))
def test_gymnasiums_slippery_lake_is_learned_as_its_table(map_name: str, seed: int) -> None:
    made = ss.problems.make("frozen-lake", map_name=map_name)
    table, H, known = ss.Problem(made.cmdp, EXACT), made.cmdp.H, made.cmdp.limits
    lake: Any = FrozenLakeEnv(map_name=map_name)
    holes = np.ravel(lake.desc) == b"H"
    rewards = means(lake, lambda after, reward, ended: reward)
    falls = means(lake, lambda after, reward, ended: holes[after])
    box = ss.gym.BlackBox(
        Handed(lake, H), horizon=H, start=0, limits=ss.Limit(sense="<="), endings=NOTHING,
        signals={
            "rewards": lambda step: rewards[step.state, step.action],
            "constraints": lambda step: falls[step.state, step.action],
        },
    )  # fmt: skip
    ours, theirs = (
        ss.Spot(**f, episodes=150, rho=2.0, bonus_scale=0.001, policy_step=0.5, thresholds=known)
        for f in (box.interface, table.interface)
    )
    found = curves(ours, ss.learn(box, ours, seed=seed))
    for mine, other in zip(found, curves(theirs, ss.learn(table, theirs, seed=seed)), strict=True):
        np.testing.assert_allclose(mine, other, rtol=0, atol=1e-9)
    np.testing.assert_array_equal(ours.statistics.n, theirs.statistics.n)
    assert np.abs(ours.policy - ours.policy[0, 0, 0]).max() > 0.1
