"""Every learner: a policy to play, an episode to observe, a file, and what it proves on the way.

    learner.policy                 what to play in the coming episode
    learner.observe(episode)       what was seen in it
    learner.multipliers, .thresholds, .threshold_bounds, .episode, .act, .save, .load

`TabularLearner` is what learners on tables share, and `Guard` has one of them.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, Protocol, TypeVar, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .. import _core
from ..arrays import Episode, Float, Policy, as_count, frozen
from ..display import Displayed
from ..errors import InvalidOption
from ..evidence.meter import SafetyMeter
from ..signals.doubts import Doubts
from ..signals.interface import Interface
from ..signals.totals import Declared
from ..spot.visits import Statistics
from . import learner_files
from .doubling import Epoch, Lifetime
from .epoch_trials import Certified
from .history import Part
from .options import AnyOptions
from .policies import Checked

L = TypeVar("L", bound="Learner")


class Spending(NamedTuple):
    """What a guard has spent of its budget, in the user's units."""

    budget: Float  # [m]
    spent: tuple[Float, Float]  # lower, upper [m]
    share: float  # of the episodes that the learner's policy played
    baseline_verdict: tuple[str, ...]


class Proofs(NamedTuple):
    """What a learner proves as it goes, and what its guard spends."""

    tries: bool = False  # whether it tries policies, in phases, and certifies them
    history: tuple[Part, ...] = ()  # what was played when
    certificates: tuple[Certified, ...] = ()  # in the order of issue
    keeps_budget: bool = False  # whether it stops in time for one more episode at its worst
    spending: Spending | None = None  # None: there is no guard


@runtime_checkable
class OnlineLearner(Protocol):
    """What a learner and a durable one share: a policy to play, and an episode to observe."""

    @property
    def learner(self) -> Learner:
        """The learner itself."""

    @property
    def interface(self) -> Interface:
        """What it knows of the problem."""

    @property
    def policy(self) -> Policy:
        """``[H,S,A]``: for the coming episode."""

    @property
    def episode(self) -> int:
        """The number of the coming episode, from 1."""

    def act(self, step: int, state: int, rng: np.random.Generator) -> int | None:
        """Draw an action of the coming episode's policy; None: a guard hands the decision back."""

    def observe(self, episode: Episode, played: ArrayLike | str | None = None) -> None:
        """Learn from the episode that was played."""


class Learner(Displayed, ABC):
    """A learner, or a guard around one.

    Everything that goes in or comes out is in the user's senses and units; `rho`, the bound of the multipliers, has
    none.

    Examples:
        >>> import safespot as ss
        >>> problem, noise = ss.problems.make("machine"), ss.streams(seed=0)
        >>> learner = ss.Spot(**problem.interface, episodes=500, slack=1.0)
        >>> for t in range(1, 4):
        ...     learner.observe(ss.play(problem, learner.policy, noise, t))
        >>> learner.episode
        4

    """

    name: ClassVar[str]  # what `learners.make` calls it
    interface: Interface
    options: AnyOptions
    declared: Declared  # where totals of episodes lie
    rho: float = math.inf
    hands_back: bool = False  # whether `act` may leave the decision to whoever asks: then there is no policy to play
    doubts: Doubts  # of all that it has observed
    lifetime: Lifetime
    # What the compiled loop of training works on.
    statistics: Statistics
    window: Any  # the threshold samples: `Window`, or `Totals` (`limits`)
    rates: Any  # what an epoch computes with: `radii`, whether limits are `learned`, and the learner's own
    state: Any  # what episodes change: `pi`, `lam`, `lower`, `upper`, `finished`, and the learner's own
    epoch: Epoch | None = None  # None: `settle` is due when a step says so

    @property
    def core(self) -> _core.Spot | None:
        """The learner's step in the compiled core; None where it is a kernel (`compiled_step`)."""
        return None

    # What a user reads

    @property
    def policy(self) -> Policy:
        """``[H,S,A]``: pi_t, for the coming episode."""
        return frozen(self.state.pi.copy())

    @property
    def multipliers(self) -> Float:
        """``[m]``: lambda_t, in reward units per constraint unit."""
        return frozen(self.interface.units.prices(self.state.lam))

    @property
    def thresholds(self) -> Float:
        """``[m]``: the episodic thresholds that the coming episode's update uses."""
        inside = self.options.between(self.state.lower, self.state.upper)
        return frozen(self.interface.units.constraints.total_outside(inside, self.interface.H))

    @property
    def threshold_bounds(self) -> tuple[Float, Float]:
        """(lower ``[m]``, upper ``[m]``) of the episodic thresholds."""
        units, H = self.interface.units, self.interface.H
        lower, upper = units.bounds(self.state.lower, self.state.upper, H)
        return frozen(lower), frozen(upper)

    @property
    def episode(self) -> int:
        """t, the number of the coming episode, from 1."""
        return int(self.state.finished[0]) + 1

    @property
    def learner(self) -> Learner:
        """The learner itself, as a durable one has it."""
        return self

    @property
    def guarded(self) -> Learner:
        """The learner itself, as a guard has it."""
        return self

    @property
    @abstractmethod
    def arguments(self) -> dict[str, Any]:
        """All that it was made with; of a guard, beside its learner."""

    @property
    def proposal(self) -> Float:
        """``[H,S,A]``: the plan to deploy now; unless a learner makes one, what it would play next."""
        return self.policy

    @property
    def certified(self) -> Certified | None:
        """The best policy that it has proven to keep every limit, with its certificate; None: it has proven none."""
        return None

    @property
    def proofs(self) -> Proofs:
        """What it proves as it goes, and what its guard spends."""
        return Proofs()

    def _facts(self) -> dict[str, Any]:
        f, (low, high) = self.interface, self.threshold_bounds
        bounds = {
            f.names.quantity(i): f"limit within {low[i]:.4g} to {high[i]:.4g}" for i in range(f.m)
        }
        sizes = {"states": f.S, "actions": f.A, "steps": f.H}
        return {"episode": self.episode, **sizes, **bounds}

    # What a user does

    def act(self, step: int, state: int, rng: np.random.Generator) -> int:
        """Draw an action of the coming episode's policy."""
        H, S = self.interface.H, self.interface.S
        step = as_count("step", step, least=0, error=InvalidOption)
        state = as_count("state", state, least=0, error=InvalidOption)
        if step >= H or state >= S:
            raise InvalidOption(f"step {step} and state {state}; there are {H} steps, {S} states.")
        if not isinstance(rng, np.random.Generator):
            raise InvalidOption(
                f"rng must be a generator of random numbers, numpy.random.default_rng(…), got {rng!r}."
            )
        row = self.state.pi[step, state]
        chosen = int(np.searchsorted(np.cumsum(row), rng.random(), side="right"))
        return min(chosen, int(np.flatnonzero(row)[-1]))

    @abstractmethod
    def observe(self, episode: Episode, played: ArrayLike | str | None = None) -> None:
        """Learn from the episode that was played; an invalid one changes nothing.

        `played` says by which policy, ``[H,S,A]`` or its digest (`policy_digest`), where it was not `policy`: a learner
        that tries a policy counts that policy's own episodes only. Counts and limits learn from all of them. Who plays
        has to be settled before anything of the episode is seen: one in which somebody else took over is the learner's
        own, and `unfinished` from there on.
        """

    @abstractmethod
    def check(self, episode: Episode, played: ArrayLike | str | None = None) -> Checked:
        """Check an episode, also against the totals that were declared, and who played it; it is not counted yet."""

    @abstractmethod
    def anew(self: L) -> L:
        """Return a learner that was made with the same arguments and has seen nothing yet."""

    def make_meter(self) -> SafetyMeter:
        """Return a meter for the episodes that this learner observes, with its thresholds, totals and delta."""
        f, o = self.interface, self.options
        names = ("thresholds", "constraint_totals", "threshold_totals")
        own = {name: getattr(o, name) for name in names}
        interface: dict[str, Any] = {**f.arguments, "action_mask": f.mask, **own}
        return SafetyMeter(interface, o.delta)

    # What training does between chunks of compiled episodes

    @abstractmethod
    def make_room(self) -> None:
        """Grow what is about to overflow, so that one more episode fits."""

    @abstractmethod
    def settle(self) -> None:
        """Do what is due between two episodes: begin an epoch, make a plan."""

    # Files

    @abstractmethod
    def arrays(self) -> dict[str, NDArray]:
        """Return the state: what cannot be derived."""

    @abstractmethod
    def restore(self, arrays: dict[str, NDArray]) -> None:
        """Go on from where `arrays` were taken; this learner must have been made with the same arguments."""

    def save(self, path: str | Path) -> None:
        """Write everything to a file; `load` goes on as if nothing had happened."""
        learner_files.write(self, path)

    @classmethod
    def load(cls: type[L], path: str | Path) -> L:
        """Read what `save` wrote; a damaged file is an `InvalidFile`."""
        learner: L = learner_files.read(path, cls)
        return learner
