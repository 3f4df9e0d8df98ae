"""Yardsticks: a policy that is given and one that knows nothing.

Both count what they see, so that it can be certified.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from numpy.typing import NDArray

from ..arrays import Policy
from .options import Options
from .planner import Planner


@dataclass(frozen=True, kw_only=True)
class FixedOptions(Options):
    """The options of `Fixed`, checked.

    Args:
        policy: what is played, ``[H,S,A]`` or ``[S,A]``; ``solve(cmdp).policy``, for example.

    """

    policy: Policy = field(compare=False, repr=False)


class Fixed(Planner):
    """Plays the policy that it was given. Its regret is linear, unless that policy is optimal."""

    name = "fixed"
    options_type = FixedOptions
    options: FixedOptions
    replan = "never"

    def first_policy(self) -> Policy:
        """The given policy."""
        return self._given_policy("policy", self.options.policy)

    def plan(self) -> dict[str, Any]:
        """The same policy again."""
        return {}


class Uniform(Planner):
    """Takes every admissible action with the same probability."""

    name = "uniform"
    options_type = Options
    replan = "never"

    def plan(self) -> dict[str, NDArray]:
        """The same policy again."""
        return {}
