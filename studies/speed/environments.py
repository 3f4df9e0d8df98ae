"""What `learn` costs beside the environment's own time and the learner's.

Clocks at the environment and at the learner, within one run: what is left of the whole is the loop, with the clocks
themselves: drawing actions, numbering states, finding and checking signals, padding, records.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from typing import Any

import gymnasium

import safespot as ss
from safespot.gym import warm_up
from safespot.training.learn_env import EnvTraining
from safespot.training.learning import carry_on

from ..record import Benchmark, Row

EPISODES = 2000
ROUNDS = 7
TARGET = 10.0  # µs a step


class Idle(gymnasium.Env[Any, Any]):
    """An environment that takes no time: whatever `learn` takes is its own."""

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
    nothing = ss.gym.Ending(reward=0, constraints=0)
    boxes = {
        "an environment that does nothing, S = 25, A = 5, H = 14": ss.gym.BlackBox(Idle(), horizon=14),
        "Gymnasium's FrozenLake, H = 20": ss.gym.BlackBox(
            lake, horizon=20, endings=nothing, limits=ss.Limit("falls", "<="), signals={
                "constraints": lambda step: step.next_state in (5, 7, 11, 12),
                "thresholds": lambda step: 0.05,
            },
        ),
        "Gymnasium's CartPole in 81 states, H = 50": ss.gym.BlackBox(
            cart, horizon=50, endings=ss.gym.Ending(reward=0, constraints=1), states=warm_up(cart, 3),
            limits=ss.Limit("off the middle", "<="), signals={
                "constraints": lambda step: abs(step.next_state[0]) > 1.0,
                "thresholds": lambda step: 0.1,
            },
        ),
    }  # fmt: skip
    return [row(name, box) for name, box in boxes.items()]


def row(name: str, box: ss.gym.BlackBox) -> Row:
    """The loop's share of a step. The least of several rounds, since what else the machine does only adds."""
    own, alone, learning, steps = min(measure(box) for _ in range(ROUNDS))
    return Row(
        "loop", f"what `learn` adds to a step of {name}", own, "µs",
        target="≤ 10 µs", reached=own <= TARGET,
        note=f"beside the environment's own {alone:.1f} and the learner's {learning:.1f}; "
        f"{steps / EPISODES:.1f} steps an episode, at a load average of {os.getloadavg()[0]:.1f}",
    )  # fmt: skip


def measure(box: ss.gym.BlackBox) -> tuple[float, float, float, int]:
    """Microseconds a step: the loop's, the environment's, the learner's; and how many steps there were."""
    learner = ss.Spot(**box.interface, episodes=EPISODES, slack=0.5, bonus_scale=0.01)
    env, observe, whole = box.env, Clock(learner.observe), Clock(carry_on)
    env.step, env.reset = step, reset = Clock(env.step), Clock(env.reset)
    try:
        whole(lambda: EnvTraining(box, learner, observe, EPISODES, 0, "log"), progress=False)
    finally:
        del env.step, env.reset  # the methods are seen again
    steps, alone = step.calls, step.spent + reset.spent
    unit = 1e3 * steps
    loop_alone = whole.spent - alone - observe.spent
    return loop_alone / unit, alone / unit, observe.spent / unit, steps


class Clock:
    """A function that knows how often it was called and how many nanoseconds it took."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function, self.calls, self.spent = function, 0, 0

    def __call__(self, *arguments: Any, **options: Any) -> Any:
        """Call it."""
        began = time.perf_counter_ns()
        answer = self.function(*arguments, **options)
        self.spent += time.perf_counter_ns() - began
        self.calls += 1
        return answer


BENCHMARKS = (Benchmark("loop", loop),)
