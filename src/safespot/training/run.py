"""The result of a training: a run to read, draw, save, diagnose and repeat."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from .. import plotting
from ..arrays import Episode, Float, Int, Policy
from ..display import Displayed, curves
from ..errors import InvalidOption, MissingPackage, unknown
from ..evidence.certificate import Certificate
from ..evidence.meter import Evidence
from ..learners.learner import Learner
from ..learners.mixture import Mixture
from .diagnosis import Finding, diagnose
from .metering import EpisodeSums
from .origin import Origin
from .run_files import read_run, write_run
from .run_tables import KINDS, columns, curve_rows


@dataclass(frozen=True, eq=False, repr=False)
class Run(Displayed):
    """The result of `learn`, in the user's terms; every array has one row per recorded episode.

    Regret and violation are cumulative up to and including the episode. `track` says whether every episode was
    evaluated ("every") or only the recorded ones, with the trapezoidal rule between them ("grid"). `evidence` is what
    the episodes alone prove of the violation: bounds that a `SafetyMeter` gives without the truth.

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
    regret: Any  # [.]: floats; None where the optimum is unknown (in an environment)
    strong_regret: Any  # likewise
    violations: Float  # [., m]
    strong_violations: Float  # [., m]
    limits: Any  # [., m]: the true thresholds; None where they are unknown (in an environment)
    evidence: Evidence  # one row per recorded episode, counted from the run's first
    policy: Policy  # [H, S, A]: for the coming episode
    learner: Learner
    optimum: float  # for the thresholds of the last episode
    seed: int
    track: str
    seconds: float
    origin: Origin
    played: int  # how many episodes
    sums: EpisodeSums | None = None  # of its episodes; None: they were too many

    @property
    def first(self) -> int:
        """The number of its first episode."""
        return self.origin.first

    def replay(self) -> Iterator[tuple[Policy, Episode]]:
        """Yield every episode once more, with the policy that played it, whose array changes with the next one."""
        learner = self.learner.anew()
        if self.origin.start is not None:
            learner.restore(self.origin.start)
        play = self.origin.player()
        for _ in range(self.played):
            episode = play(learner)
            yield learner.state.pi, episode
            learner.observe(episode)

    def mixture(self, certificate: Certificate) -> Mixture:
        """Return the policies that a certificate of this run is about, to draw them as they were played."""
        return Mixture(certificate, self.replay, self.first, self.played)

    @property
    def violation(self) -> Float:
        """The largest over the constraints of the summed shortfalls (the paper), ``[.]``."""
        violation: Float = self.violations.max(axis=1)
        return violation

    @property
    def strong_violation(self) -> Float:
        """The largest over the constraints of the sums of positive shortfalls, ``[.]``."""
        violation: Float = self.strong_violations.max(axis=1)
        return violation

    @property
    def rooms(self) -> Float:
        """``[.,m]``: the room within each limit of the policies played, below 0: broken; whatever the sense.

        Where the limits are unknown, by the middle of their bounds.
        """
        lower, upper = self.threshold_bounds
        limits = (lower + upper) / 2.0 if self.limits is None else self.limits
        signs = np.sign(self.learner.interface.units.constraints.scale)
        rooms: Float = signs * (self.constraint_values - limits)
        return rooms

    @property
    def diagnosis(self) -> tuple[Finding, ...]:
        """The findings that keep the run from being good, each with the option that would change it."""
        return diagnose(self)

    def frame(self) -> Any:
        """Return a pandas DataFrame with a row per recorded episode; columns are named as those of a `Store`."""
        try:
            import pandas
        except ImportError:
            raise MissingPackage(
                "run.frame() needs the package pandas: pip install 'safespot[notebook]'."
            ) from None
        return pandas.DataFrame(columns(self))

    def plot(self, kind: str = "value") -> Any:
        """Draw an Altair chart over the episodes.

        `kind` is "value" (beside the optimum), "limits" (what was played beside its limits), "regret", "violation",
        "thresholds" (their bounds), "multipliers" or "evidence" (what the episodes alone prove of the violation).
        """
        if kind not in KINDS:
            raise InvalidOption(unknown("kind of plot", kind, KINDS))
        rows, title = curve_rows(self, kind)
        if not rows:
            raise InvalidOption(f"this run has nothing to draw of {kind!r}.")
        return plotting.curve_chart(rows, title)

    def save(self, path: str | Path) -> None:
        """Write the run and its learner to one file."""
        write_run(self, path)

    @classmethod
    def load(cls, path: str | Path) -> Run:
        """Read what `save` wrote; its episodes cannot be gone through again (`replay`, `mixture`)."""
        return read_run(cls, path)

    def _facts(self) -> dict[str, Any]:
        names = self.learner.interface.names
        facts: dict[str, Any] = {
            "learner": self.learner.name, "episodes": self.played, "seed": self.seed,
        }  # fmt: skip
        if len(self.episodes):
            best = "" if np.isnan(self.optimum) else f" of at most {self.optimum:.4g}"
            facts[names.reward] = f"{self.values[-1]:.4g}{best}"
            for i, room in enumerate(self.rooms[-1]):
                word = "within" if room >= 0.0 else "beyond"
                facts[names.quantity(i)] = (
                    f"{self.constraint_values[-1, i]:.4g}, {abs(room):.3g} {word} its limit"
                )
        return facts

    def _chart(self) -> str:
        lines = {"value": self.values}
        if not np.isnan(self.optimum):
            lines["optimum"] = np.full(len(self.episodes), self.optimum)
        return curves(self.episodes, lines)
