"""Your own environment in thirty lines: a heater that must not burn more than an allowance that it hardly knows.

python examples/own_environment.py
"""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

import safespot as ss


class Room(gymnasium.Env[Any, Any]):
    """A room in winter, an hour a step: heat it (0, 1 or 2), and stay near 20 degrees."""

    observation_space: Any = spaces.Box(0.0, 30.0, (1,), np.float64)
    action_space: Any = spaces.Discrete(3)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        """A cold morning."""
        super().reset(seed=seed)
        self.degrees = self.np_random.uniform(8.0, 14.0)
        return np.array([self.degrees]), {}

    def step(self, action: int) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Heat for an hour; `info` has what is limited, and a hint at the limit."""
        loss = 0.2 * (self.degrees - 2.0) + self.np_random.normal(0.0, 0.5)
        self.degrees = float(np.clip(self.degrees + 4.0 * action - loss, 0.0, 29.9))
        comfort = max(0.0, 1.0 - abs(self.degrees - 20.0) / 10.0)
        hint = np.clip(
            0.4 + self.np_random.normal(0.0, 0.1), 0.0, 1.0
        )  # of the allowance, per hour
        info = {"cost": action / 2, "threshold": hint}  # a share of the full heat
        return np.array([self.degrees]), comfort, False, False, info


def main(episodes: int = 3000) -> ss.Run:
    """Check the environment, learn in it, and tell what came of it."""
    box = ss.gym.BlackBox(Room(), horizon=12, states=10)  # ten bins of three degrees
    print("odd:", ss.gym.check_env(box) or "nothing")
    learner = ss.Spot(
        **box.interface, episodes=episodes, slack=3.0, bonus_scale=0.01, estimator="pooled",
        threshold_scale=0.3, policy_step=0.02, dual_step=0.02,
    )  # fmt: skip
    run = ss.learn(box, learner, seed=0, record="all")
    first, last = slice(episodes // 10), slice(-episodes // 10, None)
    for name, part in (("first", first), ("last", last)):
        comfort, heat = run.values[part].mean(), run.constraint_values[part, 0].mean()
        print(f"{name} tenth: comfort {comfort:.2f} of 12, heat {heat:.2f} hours")
    low, high = (bound[0] for bound in learner.threshold_bounds)
    print(f"allowance: between {low:.2f} and {high:.2f} hours of full heat; it is 4.8")
    return run


if __name__ == "__main__":
    main()
