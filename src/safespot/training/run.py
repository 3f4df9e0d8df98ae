"""What a training gives back."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from numpy.typing import NDArray

from ..arrays import Episode, Float, Int, Policy
from ..evidence.meter import Evidence
from ..learners.learner import Learner


@dataclass(frozen=True, eq=False)
class Origin:
    """How a run began, so that one can go through it again: the same policies and episodes, bit for bit."""

    first: int  # the number of its first episode
    start: dict[str, NDArray] | None  # the learner's arrays before it; None: the learner was new
    player: Callable[
        [], Callable[[Learner], Episode]
    ]  # from the first episode on, each played by a learner


def origin_of(learner: Learner, player: Callable[[], Callable[[Learner], Episode]]) -> Origin:
    """Of a run that begins now."""
    start = None
    if learner.episode > 1:
        start = {name: array.copy() for name, array in learner.arrays().items()}
    return Origin(learner.episode, start, player)


@dataclass(frozen=True, eq=False)
class Run:
    """What `learn` returns, in the user's terms; every array has one row per recorded episode.

    Regret and violation are cumulative up to and including the episode. `track` says whether every episode was
    evaluated ("every") or only the recorded ones, with the trapezoidal rule between them ("grid"). `audit` has the
    columns of `safespot.training.lemma_audit` where it was "audit". `evidence` is what the episodes alone prove of the
    violation: bounds that a `SafetyMeter` gives without the truth.

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
    evidence: Evidence  # one row per recorded episode, counted from the run's first
    policy: Policy  # [H, S, A]: for the coming episode
    learner: Learner
    optimum: float  # for the thresholds of the last episode
    seed: int
    track: str
    seconds: float
    origin: Origin
    played: int  # how many episodes
    audit: dict[str, Float] = field(default_factory=dict)  # column -> [.], inside units

    @property
    def first(self) -> int:
        """The number of its first episode."""
        return self.origin.first

    def replay(self) -> Iterator[tuple[Policy, Episode]]:
        """Every episode once more, with the policy that played it; the policy's array changes with the next one."""
        learner = self.learner.anew()
        if self.origin.start is not None:
            learner.restore(self.origin.start)
        play = self.origin.player()
        for _ in range(self.played):
            episode = play(learner)
            yield learner.state.pi, episode
            learner.observe(episode)

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
