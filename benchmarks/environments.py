"""What `learn_env` costs beside the environment's own time and the learner's.

The same luck three times over: `learn_env`; the environment alone, given the same actions; a learner alone, given the
same episodes. What is left of the first is the loop: drawing actions, numbering states, finding and checking signals,
padding, records.
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from typing import Any

import gymnasium
import numpy as np

import safespot as ss
from safespot.gym import warm_up

from .record import Benchmark, Row

EPISODES = 2000
ROUNDS = 7
TARGET = 10.0  # µs a step


class Idle(gymnasium.Env[Any, Any]):
    """An environment that takes no time: whatever `learn_env` takes is its own."""

    observation_space: Any = gymnasium.spaces.Discrete(25)
    action_space: Any = gymnasium.spaces.Discrete(5)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[int, dict[str, Any]]:
        """The first state."""
        return 0, {}

    def step(self, action: int) -> tuple[int, float, bool, bool, dict[str, Any]]:
        """Five states, the action's."""
        return int(action), 0.5, False, False, {"cost": 0.25, "threshold": 0.5}


def loop() -> Sequence[Row]:
    """A step of several environments."""
    lake = gymnasium.make("FrozenLake-v1").unwrapped
    cart: Any = gymnasium.make("CartPole-v1", max_episode_steps=50).unwrapped
    nothing = ss.Ending(reward=0, constraints=0)
    boxes = {
        "an environment that does nothing, S = 25, A = 5, H = 14": ss.BlackBox(Idle(), horizon=14),
        "Gymnasium's FrozenLake, H = 20": ss.BlackBox(
            lake, horizon=20, endings=nothing, senses="<=", thresholds=lambda step: 0.05,
            constraints=lambda step: step.next_state in (5, 7, 11, 12),
        ),
        "Gymnasium's CartPole in 81 states, H = 50": ss.BlackBox(
            cart, horizon=50, endings=ss.Ending(reward=0, constraints=1), states=warm_up(cart, 3),
            senses="<=", constraints=lambda step: abs(step.next_state[0]) > 1.0,
            thresholds=lambda step: 0.1,
        ),
    }  # fmt: skip
    return [row(name, box) for name, box in boxes.items()]


def row(name: str, box: ss.BlackBox) -> Row:
    """The loop's share of a step. The least of several rounds, since what else the machine does only adds."""
    played = episodes(box)
    steps = sum(len(actions) for actions, _ in played)
    rounds = []
    for _ in range(ROUNDS):
        whole = seconds(lambda: ss.learn_env(box, learner(box), EPISODES))
        alone = seconds(lambda: bare(box, played))
        learning = seconds(lambda: observe(learner(box), played))
        rounds.append([1e6 * taken / steps for taken in (whole, alone, learning)])
    whole, alone, learning = (min(column) for column in zip(*rounds, strict=True))
    own = whole - alone - learning
    return Row(
        "loop", f"what `learn_env` adds to a step of {name}", own, "µs",
        target="≤ 10 µs", reached=own <= TARGET,
        note=f"of {whole:.1f} µs in all, the environment's own {alone:.1f}, the learner's {learning:.1f}; "
        f"{steps / EPISODES:.1f} steps an episode, at a load average of {os.getloadavg()[0]:.1f}",
    )  # fmt: skip


def learner(box: ss.BlackBox) -> ss.Spot:
    return ss.Spot(**box.interface, episodes=EPISODES, slack=0.5, bonus_scale=0.01)


def episodes(box: ss.BlackBox) -> list[tuple[list[int], ss.Episode]]:
    """The actions that `learn_env` takes with seed 0, up to an early end, and what it sees."""
    new, rng, found = learner(box), ss.streams(0).actions, []
    mask = box.interface["action_mask"]
    ends = [] if mask is None else np.flatnonzero(~mask[:, -1]).tolist()  # absorbing states
    for t in range(EPISODES):
        luck = rng.random(box.interface["horizon"])
        episode = box.play(new.policy, luck, 0 if t == 0 else None)
        new.observe(episode)
        lived = [s not in ends for s in episode.states[:-1].tolist()]
        found.append((episode.actions[: sum(lived)].tolist(), episode))
    return found


def bare(box: ss.BlackBox, played: list[tuple[list[int], ss.Episode]]) -> None:
    """The environment alone."""
    env = box.env
    for t, (actions, _) in enumerate(played):
        env.reset(seed=0 if t == 0 else None)
        for action in actions:
            env.step(action)


def observe(new: ss.Spot, played: list[tuple[list[int], ss.Episode]]) -> None:
    """The learner alone."""
    for _, episode in played:
        new.observe(episode)


def seconds(work: Any) -> float:
    """The processor time of a call."""
    begin = time.process_time()
    work()
    return time.process_time() - begin


BENCHMARKS = (Benchmark("loop", loop),)
