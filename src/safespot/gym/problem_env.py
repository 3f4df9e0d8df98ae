"""A `Problem` as a Gymnasium environment.

`ProblemEnv` is the CMDP step by step. Besides state and reward, every step's `info` holds what a learner may
see, in the user's own senses and units:

- ``constraint``: the constraint signals, floats ``[m]``. Where every sense is ``<=`` the key is ``cost``
  instead. Where senses are mixed all of them stand under ``constraint``, in their order; `problem.cmdp.senses`
  tells them apart.
- ``threshold``: the threshold signals, floats ``[m]``.
- ``action``: the action that was taken.
- ``action_mask``: what is admissible next, int8 ``[A]``, as ``env.action_space.sample(mask)`` takes it. A reset
  shows it too.

An episode is *terminated* at its H-th step, and never truncated. Truncation says that the world would have gone
on, so that a learner bootstraps from the last state; where a horizon belongs to the problem nothing comes after
it. Absorbing states (deviation D7) are states like others: the episode goes on in them to H.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import gymnasium
import numpy as np
from gymnasium.envs.registration import EnvSpec
from numpy.typing import NDArray

from .. import problems
from ..arrays import as_count
from ..errors import InvalidOption
from ..model.problem import Problem
from ..model.simulation import Streams, as_laws, draw_noise, empty_noise, step_kernel, streams
from ..model.transitions import pick


class ProblemEnv(gymnasium.Env[Any, Any]):
    """A problem as a Gymnasium environment with discrete spaces.

    Args:
        problem: a `Problem`, or the name of a ready one.
        render_mode: "ansi" renders a line of text.
        options: of the ready problem.

    After ``reset(seed=k)`` the episodes are those of `play` with ``streams(k)``, as long as the same actions
    are taken; a drift counts its episodes from there.

    Gymnasium's spaces know no masks and its tools sample from whole spaces. So an inadmissible action is not an
    error: the lowest admissible one is taken in its place, and ``info["action"]`` says so.

    Examples:
        >>> import safespot as ss
        >>> env = ss.gym.ProblemEnv("machine", budget=2, render_mode="ansi")
        >>> state, info = env.reset(seed=0)
        >>> state, earned, over, _, info = env.step(1)
        >>> print(env.render())
        step 1 of 2: state 1, reward 10, cost [4.0], threshold [0.0]

    """

    metadata: dict[str, Any] = {"render_modes": ["ansi"], "render_fps": 4}  # noqa: RUF012

    def __init__(
        self, problem: Problem | str, render_mode: str | None = None, **options: Any
    ) -> None:
        arguments = {"problem": problem, **options}
        if isinstance(problem, str):
            problem = problems.make(problem, **options)
        elif options or not isinstance(problem, Problem):
            raise InvalidOption(
                "ProblemEnv takes a Problem, or the name of a ready one and its options; got "
                + ", ".join(f"{name}={value!r}" for name, value in arguments.items())
                + "."
            )
        if render_mode not in (None, *self.metadata["render_modes"]):
            raise InvalidOption(f"render_mode must be None or 'ansi', got {render_mode!r}.")
        cmdp = problem.cmdp
        H, S, A, m = cmdp.H, cmdp.S, cmdp.A, cmdp.m
        self.problem = problem
        self.render_mode = render_mode
        self.observation_space = gymnasium.spaces.Discrete(S)
        self.action_space = gymnasium.spaces.Discrete(A)
        # How to make it again; `gymnasium.make` puts its own in place of it.
        arguments["render_mode"] = render_mode
        self.spec = EnvSpec("safespot/problem-v0", "safespot.gym:ProblemEnv", kwargs=arguments)
        self._key = _signals_key(problem)
        self._mask = np.broadcast_to(cmdp.model.mask.reshape(-1, S, A), (H, S, A))
        self._laws = as_laws(problem)
        self._noise = empty_noise(problem, 1)
        self._signals = np.zeros(H), np.zeros((H, m)), np.zeros((H, m))  # of the episode, inside
        self._streams: Streams | None = None
        self._episode = 0
        self._step = H  # no episode is under way
        self._state = 0

    def reset(
        self, *, seed: int | None = None, options: Mapping[str, Any] | None = None
    ) -> tuple[int, dict[str, Any]]:
        """Begin the next episode; with a seed, the first episode of that noise."""
        super().reset(seed=seed)
        if seed is not None or self._streams is None:
            self._streams = streams(int(self.np_random.integers(2**63)) if seed is None else seed)
            self._episode = 0
        self._episode += 1
        draw_noise(self.problem, self._streams, 1, self._noise)
        self._alpha = self.problem.alpha(self._episode)
        self._state = int(pick(self.problem.cmdp.model.start, self._noise.start[0]))
        self._step = 0
        return self._state, {"action_mask": self._action_mask()}

    def step(self, action: int) -> tuple[int, float, bool, bool, dict[str, Any]]:
        """Take an action."""
        cmdp, h = self.problem.cmdp, self._step
        if h == cmdp.H:
            raise InvalidOption("the episode is over; call reset() first.")
        action = as_count("action", action, least=0, error=InvalidOption)
        if action >= cmdp.A:
            raise InvalidOption(f"action {action} is out of range; expected 0 to {cmdp.A - 1}.")
        admissible = self._mask[h, self._state]
        if not admissible[action]:
            action = int(admissible.argmax())
        row = self._state * cmdp.A + action
        self._state = int(
            step_kernel(cmdp.model, self._alpha, self._laws, self._noise, 0, h, row, *self._signals)
        )
        self._step = h + 1
        reward, constraints, thresholds = self._shown(h)
        info = {
            self._key: constraints,
            "threshold": thresholds,
            "action": action,
            "action_mask": self._action_mask(),
        }
        return self._state, reward, self._step == cmdp.H, False, info

    def render(self) -> str | None:
        """Return the step, the state and the last signals in a line."""
        if self.render_mode is None:
            return None
        line = f"step {self._step} of {self.problem.cmdp.H}: state {self._state}"
        if self._step == 0:
            return line
        reward, constraints, thresholds = self._shown(self._step - 1)
        return (
            f"{line}, reward {reward:g}, {self._key} {constraints.tolist()}, "
            f"threshold {thresholds.tolist()}"
        )

    def _shown(self, h: int) -> tuple[float, Any, Any]:
        """Return the signals of step h in the user's terms."""
        units = self.problem.cmdp.units
        rewards, constraints, thresholds = self._signals
        outside = units.constraints.outside
        return (
            float(units.reward.outside(rewards[h])),
            outside(constraints[h]),
            outside(thresholds[h]),
        )

    def _action_mask(self) -> NDArray[np.int8]:
        """Return the mask ``[A]`` of the coming step's admissible actions; after the last step, the last one's."""
        mask: NDArray[np.int8]
        mask = self._mask[min(self._step, len(self._mask) - 1), self._state].astype(np.int8)
        return mask


def _signals_key(problem: Problem) -> str:
    return "cost" if set(problem.cmdp.senses) == {"<="} else "constraint"
