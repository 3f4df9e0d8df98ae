"""The policy that made a log, where somebody knows it."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import ArrayLike

from ..arrays import Episode, Policy, as_policy
from ..errors import InvalidModel, InvalidOption
from .interface import Interface


def as_behaviour(behaviour: ArrayLike, known: Interface, episodes: Iterable[Episode]) -> Policy:
    """The policy ``[H,S,A]`` that is said to have made a log; raises where it cannot have."""
    try:
        policy = as_policy(behaviour, (known.H, known.S, known.A), known.mask)
    except InvalidModel as problem:
        raise InvalidOption(f"behaviour: {problem}") from None
    steps = np.arange(known.H)
    for number, episode in enumerate(episodes, 1):
        chances = policy[steps, episode.states[:-1], episode.actions]
        if not chances.all():
            step = int((chances == 0.0).argmax())
            raise InvalidOption(
                f"behaviour never takes action {episode.actions[step]} in state {episode.states[step]} at step {step}, "
                f"as episode {number} of the log does: it is not the policy that made the log. Leave it out to certify "
                "the practice."
            )
    return policy
