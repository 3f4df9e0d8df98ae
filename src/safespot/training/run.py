"""What a training gives back."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from ..arrays import Float, Int, Policy
from ..learners.learner import Learner


@dataclass(frozen=True, eq=False)
class Run:
    """What `learn` returns, in the user's terms; every array has one row per recorded episode.

    Regret and violation are cumulative up to and including the episode. `track` says whether every episode was
    evaluated ("every") or only the recorded ones, with the trapezoidal rule between them ("grid"). `audit` has the
    columns of `safespot.training.lemma_audit` where it was "audit".

    Examples:
        >>> import safespot as ss
        >>> problem = ss.problems.make("machine")
        >>> learner = ss.Spot(
        ...     **problem.interface, episodes=2000, rho=2.4, bonus_scale=0.01, threshold_scale=0.1
        ... )
        >>> run = ss.learn(problem, learner, record=1000)
        >>> print(run.episodes, run.values.round(1), run.constraint_values[:, 0].round(1))
        [   1 1000 2000] [13.3  9.3 10.3] [2.4 0.5 0.9]

    """

    episodes: Int  # [.], 1-based
    values: Float  # [.]: exact reward value of the policy played
    constraint_values: Float  # [., m]
    multipliers: Float  # [., m]
    thresholds: Float  # [., m]: in use
    threshold_bounds: tuple[Float, Float]  # lower, upper [., m]
    regret: Any  # [.]: floats; None where the optimum is unknown (`learn_env`)
    strong_regret: Any  # likewise
    violations: Float  # [., m]
    strong_violations: Float  # [., m]
    policy: Policy  # [H, S, A]: for the coming episode
    learner: Learner
    optimum: float  # for the thresholds of the last episode
    seed: int
    track: str
    seconds: float
    audit: dict[str, Float] = field(default_factory=dict)  # column -> [.], inside units

    @property
    def violation(self) -> Float:
        """``[.]``: the largest over the constraints of the summed shortfalls (the paper)."""
        violation: Float = self.violations.max(axis=1)
        return violation

    @property
    def strong_violation(self) -> Float:
        """``[.]``: the largest over the constraints of the sums of positive shortfalls."""
        violation: Float = self.strong_violations.max(axis=1)
        return violation
