"""A learner in a loop of one's own, which survives being killed: run it, kill it at any time, and run it again.

python examples/online_loop.py [--folder online] [--patients 500] [--gymnasium]

One `act` per step and one `observe` per episode; the learner knows the interface and nothing else. What happens between
them is yours: here a simulated ward, or with --gymnasium any Gymnasium environment.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import gymnasium
import numpy as np

import safespot as ss

STATES, DOSES, STEPS = 4, 3, 6  # of illness, 0 is well; none, half, full; days


class Day(NamedTuple):
    """What one day shows."""

    state: int  # the morning after
    reward: float  # 1 is full health
    cost: float  # how badly the dose was borne, 0 to 1
    threshold: float  # a noisy hint of how much may be borne a day


Act = Callable[[int, int], int]  # from the step and the state to the action


def main() -> None:
    """Go on from wherever the last process stopped."""
    parser = argparse.ArgumentParser(description="SPOT in a loop that survives.")
    parser.add_argument("--folder", type=Path, default=Path("online"))
    parser.add_argument("--patients", type=int, default=500)
    parser.add_argument("--gymnasium", action="store_true")
    given = parser.parse_args()
    learner = ss.Spot(
        states=STATES, actions=DOSES, horizon=STEPS, constraints=1, start=STATES - 1, senses="<=",
        episodes=10_000, slack=1.0, **ss.Spot.advised,
    )  # fmt: skip
    play = in_gymnasium if given.gymnasium else in_a_ward
    with ss.open(given.folder, learner) as durable:
        print(f"{durable.episode - 1} patients are on the disk.")
        for _ in range(given.patients):
            rng = np.random.default_rng([7, durable.episode])  # the noise of this patient
            draw = lambda step, state: durable.act(step, state, rng)  # noqa: E731, B023
            durable.observe(play(draw, rng))  # when this returns, nothing can take it away
        low, high = (float(bound[0]) for bound in durable.threshold_bounds)
        print(f"{durable.episode - 1} patients; the tolerance lies in [{low:.2f}, {high:.2f}].")
    trail = given.folder / "trail.parquet"
    print(f"{ss.logs.export_episodes(given.folder, trail)} episodes in {trail}.")


def in_a_ward(act: Act, rng: np.random.Generator) -> ss.Episode:
    """One patient, without any framework."""
    states, doses, days = [STATES - 1], [], []
    for step in range(STEPS):
        doses.append(act(step, states[-1]))
        days.append(one_day(states[-1], doses[-1], rng))
        states.append(days[-1].state)
    return ss.Episode(
        states=np.array(states),
        actions=np.array(doses),
        rewards=np.array([day.reward for day in days]),
        constraints=np.array([[day.cost] for day in days]),
        thresholds=np.array([[day.threshold] for day in days]),
    )


def in_gymnasium(act: Act, rng: np.random.Generator) -> ss.Episode:
    """The same patient as a Gymnasium environment."""
    env = Ward(rng)
    state, _ = env.reset()
    states, doses, rewards, constraints, thresholds = [state], [], [], [], []
    for step in range(STEPS):
        dose = act(step, state)
        state, reward, _, _, info = env.step(dose)
        states.append(state)
        doses.append(dose)
        rewards.append(reward)
        constraints.append(info["cost"])
        thresholds.append(info["threshold"])
    return ss.Episode(
        *(np.array(part) for part in (states, doses, rewards, constraints, thresholds))
    )


class Ward(gymnasium.Env[Any, Any]):
    """A patient a reset, a day a step."""

    observation_space = gymnasium.spaces.Discrete(STATES)
    action_space = gymnasium.spaces.Discrete(DOSES)

    def __init__(self, rng: np.random.Generator) -> None:
        self.rng, self.state = rng, STATES - 1

    def reset(self, **_: Any) -> tuple[int, dict[str, Any]]:
        """A new patient."""
        self.state = STATES - 1
        return self.state, {}

    def step(self, action: int) -> tuple[int, float, bool, bool, dict[str, Any]]:
        """A day."""
        day = one_day(self.state, action, self.rng)
        self.state = day.state
        info = {"cost": np.array([day.cost]), "threshold": np.array([day.threshold])}
        return day.state, day.reward, False, False, info


def one_day(state: int, dose: int, rng: np.random.Generator) -> Day:
    """What the world does; the learner never sees this."""
    better = rng.random() < (0.1, 0.4, 0.7)[dose]
    worse = rng.random() < 0.2
    after = min(max(state - better + worse, 0), STATES - 1)
    borne = rng.random() < (0.0, 0.3, 0.8)[dose]
    return Day(after, 1.0 - after / (STATES - 1), float(borne), float(rng.random() < 0.35))


if __name__ == "__main__":
    main()
