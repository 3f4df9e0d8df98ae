"""Yardsticks: a policy that is given and one that knows nothing.

Both count what they see, so that it can be certified.
"""

from __future__ import annotations

from dataclasses import field
from typing import Any

from numpy.typing import NDArray

from ..arrays import Policy
from .options import Array, Options, option_record
from .planner import Planner
from .policies import given_policy


@option_record
class FixedOptions(Options):
    """The options of `Fixed`: those of `Options`, and one more.

    Args:
        policy: what is played, ``[H,S,A]`` or ``[S,A]``; ``solve(cmdp).policy``, for example.

    """

    policy: Array = field(compare=False, repr=False)


class Fixed(Planner):
    """Plays the policy that it was given. Its regret is linear, unless that policy is optimal.

    Examples:
        >>> import safespot as ss
        >>> problem = ss.problems.make("machine")
        >>> learner = ss.Fixed(**problem.interface, episodes=500, policy=[[1, 0], [1, 0]])
        >>> run = ss.learn(problem, learner)
        >>> print(run.regret[-1].round(6), run.violation[-1].round(6))  # safe, and 3 below the optimum each time
        1500.0 -500.0

    """

    name = "fixed"
    options_type = FixedOptions
    options: FixedOptions
    replan = "never"

    def first_policy(self) -> Policy:
        """Return the given policy."""
        return given_policy(self.interface, "policy", self.options.policy)

    def plan(self) -> dict[str, Any]:
        """Return no changes: the policy stays."""
        return {}


class Uniform(Planner):
    """Takes every admissible action with the same probability.

    Examples:
        >>> import safespot as ss
        >>> learner = ss.Uniform(**ss.problems.make("triage").interface, episodes=500)
        >>> print(learner.policy[0].round(2))
        [[0.5  0.5  0.  ]
         [0.33 0.33 0.33]]

    """

    name = "uniform"
    options_type = Options
    replan = "never"

    def plan(self) -> dict[str, NDArray]:
        """Return no changes: the policy stays."""
        return {}
