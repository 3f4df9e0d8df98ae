"""The policy that made a log, where somebody knows it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from ..arrays import SUM_TOLERANCE, Episode, Float, Policy, as_policy
from ..errors import InvalidModel, InvalidOption
from .interface import Interface


def as_behaviour(
    behaviour: ArrayLike,
    known: Interface,
    episodes: Sequence[Episode],
    propensities: Float | None = None,
) -> Policy:
    """Return the policy ``[H,S,A]`` that is said to have made a log; raise where it cannot have.

    `propensities` ``[episodes, H]`` are those that the log has: another policy has others, and where one is missing
    somebody else acted. Steps of an unfinished episode of which no reward came say nothing.
    """
    try:
        policy = as_policy(behaviour, (known.H, known.S, known.A), known.mask)
    except InvalidModel as exc:
        raise InvalidOption(f"behaviour: {exc}") from None
    steps = np.arange(known.H)
    for number, episode in enumerate(episodes, 1):
        chances = policy[steps, episode.states[:-1], episode.actions]
        came = ~np.isnan(episode.rewards)
        never = (chances == 0.0) & came
        if never.any():
            step = int(never.argmax())
            raise InvalidOption(
                f"behaviour never takes action {episode.actions[step]} in state {episode.states[step]} at step {step}, "
                f"as episode {number} of the log does: it is not the policy that made the log. Leave it out to certify "
                "the practice."
            )
        if propensities is None:
            continue
        others = ~(np.abs(chances - propensities[number - 1]) <= SUM_TOLERANCE) & came
        if others.any():
            step = int(others.argmax())
            logged = propensities[number - 1, step]
            raise InvalidOption(
                f"behaviour takes the action of step {step} of episode {number} with probability {chances[step]:g}; "
                f"the log {'does not say with which' if np.isnan(logged) else f'says {logged:g}'}. So it is not the "
                "policy that made the log. Leave it out to certify the practice, or rename the column propensity "
                "(columns=) if you know better."
            )
    return policy
