"""The actions of an environment by number, and the two habits of saying which are admissible.

A mask is ``info["action_mask"]``, as in Gymnasium's Taxi, or what ``env.action_masks()`` returns, as Stable-Baselines3
asks for it; an entry for each action, or, where actions are combinations, for each choice of each part.

What an action leads to must not depend on the policy that draws it, or it could not be learned. So one that is
inadmissible at the moment *is* the lowest admissible one there, and an episode keeps the one that was drawn, as it
does in environments where such actions do nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import reduce
from typing import Any

import numpy as np
from gymnasium import spaces

from ..arrays import Bool
from ..errors import InvalidEpisode, InvalidOption
from .discretizers import make_discretizer
from .steps import Step

MASK = "action_mask"  # of info


class Actions:
    """The numbered actions of an environment; `masked` where it says which are admissible."""

    def __init__(self, env: Any, *, masked: bool = True) -> None:
        space = getattr(env, "action_space", None)
        if space is None or isinstance(env, type):
            raise InvalidOption(
                f"expected a Gymnasium environment, got {env!r}. gymnasium.make(name) makes one."
            )
        try:
            self.count, _, self._value, self.parts, _ = make_discretizer(space)
        except InvalidOption:
            raise InvalidOption(
                f"the action space is {space}; expected Discrete, or a combination of finite choices: MultiDiscrete, "
                "MultiBinary, a Box of few whole numbers, a Tuple or Dict of them. Wrap the environment so that its "
                "actions are finite."
            ) from None
        self._env, self._space, self._masked = env, space, masked
        self._ask = _method(env, "action_masks") if masked else None

    def value(self, a: int) -> Any:
        """Return action a as the environment takes it."""
        assert self._value is not None  # a space's own numbering leads back
        return self._value(a)

    def take(self, observation: Any, a: int, info: Mapping[str, Any]) -> Step:
        """Take action a, after the environment showed `observation` and `info`."""
        _check_info("reset", info)  # that of a step was checked when it was taken
        action = self.value(self.admitted(a, info))
        answer = self._env.step(action)
        if len(answer) == 5:
            after, reward, ended, truncated, info = answer
            _check_info("step", info)
            return Step(observation, action, after, reward, ended, info, truncated)
        if len(answer) == 6:
            after, reward, cost, ended, truncated, info = answer
            _check_info("step", info)
            return Step(observation, action, after, reward, ended, info, truncated, cost)
        raise InvalidEpisode(
            f"the environment's step returned {len(answer)} elements; expected five, as Gymnasium's do, "
            "or six with the cost in third place."
        )

    def admitted(self, a: int, info: Mapping[str, Any]) -> int:
        """Return action a, or the lowest admissible one where the environment's mask, in `info`, does not admit a."""
        raw_mask = info.get(MASK) if self._masked else None
        if raw_mask is None and self._ask is not None:
            raw_mask = self._ask()
        if raw_mask is None:
            return a
        mask = admissible(self._space, raw_mask)
        if not mask.any():
            raise InvalidEpisode("the environment's mask admits no action.")
        return a if mask[a] else int(mask.argmax())


def admissible(space: Any, raw_mask: Any) -> Bool:
    """Return the mask over the numbers of all actions, from the mask that an environment shows."""
    if isinstance(space, spaces.Tuple | spaces.Dict):
        parts = space.items() if isinstance(space, spaces.Dict) else enumerate(space.spaces)
        return _combined([admissible(part, raw_mask[key]) for key, part in parts])
    if isinstance(space, spaces.MultiDiscrete):
        counts = np.ravel(space.nvec).tolist()
    elif isinstance(space, spaces.MultiBinary):
        counts = [2] * int(np.prod(space.shape))
    else:
        counts = [make_discretizer(space).states]
    entries = raw_mask if isinstance(raw_mask, tuple | list) and len(counts) > 1 else [raw_mask]
    flat = np.concatenate([np.ravel(np.asarray(entry)) for entry in entries])
    if flat.dtype.kind not in "biu" or flat.size != sum(counts) or (flat > 1).any():
        raise InvalidEpisode(
            f"the mask of {space} must have an entry 0 or 1 for each of {' + '.join(map(str, counts))} choices; got "
            f"{raw_mask!r}."
        )
    return _combined(np.split(flat.astype(np.bool_), np.cumsum(counts)[:-1]))


def _check_info(call: str, info: Any) -> None:
    """Raise unless an environment's `info` is a mapping."""
    if type(info) is not dict and not isinstance(info, Mapping):
        raise InvalidEpisode(
            f"the environment's {call} returned {info!r} as its info; expected a dict, which may be empty."
        )


def _combined(masks: list[Bool]) -> Bool:
    """Return the mask of combinations, the last part counting fastest."""
    return reduce(lambda a, b: np.logical_and.outer(a, b).ravel(), masks)


def _method(env: Any, name: str) -> Callable[[], Any] | None:
    """Return a method of an environment or of what it wraps."""
    if hasattr(
        env, "has_wrapper_attr"
    ):  # Gymnasium's wrappers do not pass on what they do not know
        method = env.get_wrapper_attr(name) if env.has_wrapper_attr(name) else None
    else:
        method = getattr(env, name, None)
    return method if callable(method) else None
