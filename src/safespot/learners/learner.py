"""What every learner is: a policy to play, an episode to observe, and where the limits come from.

    learner.policy                 what to play in the coming episode
    learner.observe(episode)       what was seen in it
    learner.multipliers, .thresholds, .threshold_bounds, .episode, .act, .save, .load

The limits are one part that all learners share: known (``thresholds=``), or learned by the growing window with any
stance. So are the visit statistics, epochs of anytime use, and files. What a learner does with them is its own
file.
"""

from __future__ import annotations

import math
import re
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, Protocol, TypeVar, cast, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..arrays import Episode, Float, InsideEpisode, Int, Policy, as_count, as_policy, frozen
from ..display import Displayed
from ..errors import InUse, InvalidFile, InvalidModel, InvalidOption, SafespotError, warn
from ..evidence import deployment
from ..evidence.certificate import policy_digest
from ..evidence.differences import check_totals, declare
from ..evidence.doubts import Doubts
from ..evidence.interface import Interface, make_interface
from ..evidence.meter import SafetyMeter
from ..files import read_arrays, write_arrays
from ..spot.limits import has_room, window_has_room
from ..spot.optimism import Radii, make_radii
from ..spot.visits import (
    Statistics,
    Successors,
    check_statistics,
    empty_statistics,
    grow_statistics,
)
from ..syscalls import InterruptsDeferred
from .compiled_step import observe_episode
from .limits import empty_limits, grow_limits, limits_arrays, restored_limits
from .options import LARGEST, AnyOptions, DualOptions, Options, check_hints
from .signature import documented, signature_of

FIRST_EPOCH = 1024  # episodes of the first epoch when T is unknown
L = TypeVar("L", bound="Learner")
KNOWN: dict[str, type[Learner]] = {}  # every learner that has been imported, by its name


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
    """A learner. Its first arguments are ``problem.interface``, its options those of its `options_type`.

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
    options_type: ClassVar[type[AnyOptions]]
    interface: Interface
    options: AnyOptions
    rho: float = math.inf
    hands_back: bool = False  # whether `act` may leave the decision to whoever asks: then there is no policy to play
    statistics: Statistics
    window: Any  # the threshold samples: `Window`, or `Totals` (`limits`)
    rates: Any  # what an epoch computes with: `radii`, whether limits are `learned`, and the learner's own
    state: Any  # what episodes change: `pi`, `lam`, `lower`, `upper`, `finished`, and the learner's own
    epoch: Epoch
    doubts: Doubts  # of all that it has observed
    lent = False  # to a callback of its training, which may read it and no more; of a guard, its learner is
    told_beyond = False  # whether its user was told that episodes go beyond T

    def __init__(
        self,
        states: int,
        actions: int,
        horizon: int,
        constraints: int,
        start: int | None = 0,
        action_mask: ArrayLike | None = None,
        senses: str | Sequence[str] = ">=",
        ranges: Mapping[str, Any] | None = None,
        stationary: bool = False,
        state_names: Sequence[str] | None = None,
        action_names: Sequence[str] | None = None,
        limit_names: Sequence[str] | None = None,
        units: Mapping[str, Any] | None = None,
        **options: Any,
    ) -> None:
        self.interface = f = make_interface(
            states, actions, horizon, constraints, start, action_mask, senses, ranges, stationary,
            state_names, action_names, limit_names, units,
        )  # fmt: skip
        self.options = o = self.options_type(**options)
        self.statistics = empty_statistics(f.H, f.S, f.A, f.m)
        self.declared = declare(f, o.thresholds, o.constraint_totals, o.threshold_totals)
        self.window = self._empty_window()
        self.doubts = Doubts()

    def __init_subclass__(cls, **arguments: Any) -> None:
        """A learner is known by its name, and its signature is that of its options."""
        super().__init_subclass__(**arguments)
        if "name" in cls.__dict__:
            KNOWN[cls.name] = cls
        if hasattr(cls, "options_type"):
            cls.__signature__ = signature_of(cls.options_type)  # type: ignore[attr-defined]
            cls.__doc__ = documented(cls.__dict__.get("__doc__"), cls.options_type)

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
        return frozen(self.interface.units.constraints.total_outside(self.limits, self.interface.H))

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
    def configuration(self) -> dict[str, Any]:
        """All that it was made with, but for names: they change nothing."""
        f = self.interface
        given = {
            name: value for name, value in f.arguments.items() if name not in f.names.arguments
        }
        return {"learner": self.name, **given, "action_mask": f.mask, **vars(self.options)}

    @property
    def proposal(self) -> Float:
        """``[H,S,A]``: the plan to deploy now; unless a learner makes one, what it would play next."""
        return self.policy

    @property
    def certified(self) -> Any:
        """The best policy that it has proven to keep every limit, with its certificate; None: it has proven none."""
        return None

    @property
    def best_policy(self) -> deployment.Policy:
        """The policy to deploy: the certified one, else the proposed one; its `status` says which."""
        found, names = self.certified, self.interface.names
        if found is None:
            return deployment.Policy(self.proposal, names)
        return deployment.Policy(found.policy, names, found.certificate)

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

    def observe(self, episode: Episode, played: ArrayLike | str | None = None) -> None:
        """Learn from the episode that was played; an invalid one changes nothing.

        `played` says by which policy, ``[H,S,A]`` or its digest (`policy_digest`), where it was not `policy`: a learner
        that tries a policy counts that policy's own episodes only. Counts and limits learn from all of them. Who plays
        has to be settled before anything of the episode is seen: one in which somebody else took over is the learner's
        own, and `unfinished` from there on.
        """
        inside = self.check(episode)
        self.identify(played)
        with InterruptsDeferred():
            self.doubts.note(episode)
            self.make_room()
            observe_episode(self.rates, self.state, self.statistics, self.window, inside)
            self.settle()

    def anew(self: L) -> L:
        """A learner with the same interface and options that has seen nothing yet."""
        f = self.interface
        return type(self)(**f.arguments, action_mask=f.mask, **vars(self.options))

    def make_meter(
        self, constraint_totals: ArrayLike | None = None, threshold_totals: ArrayLike | None = None
    ) -> SafetyMeter:
        """A meter for the episodes that this learner observes, with its thresholds and delta.

        Totals are the learner's, unless others are given.
        """
        f, o = self.interface, self.options
        return SafetyMeter(
            {**f.arguments, "action_mask": f.mask},
            o.delta,
            o.thresholds,
            o.constraint_totals if constraint_totals is None else constraint_totals,
            o.threshold_totals if threshold_totals is None else threshold_totals,
        )

    @property
    def declares_totals(self) -> bool:
        """Whether an episode's totals are known to lie in smaller ranges than those of H steps."""
        o = self.options
        return o.constraint_totals is not None or o.threshold_totals is not None

    def check(self, episode: Episode) -> InsideEpisode:
        """Check an episode, also against the totals that were declared, and bring it inside; it is not counted yet."""
        self.check_not_lent()
        inside = self.interface.check(episode)
        check_hints([episode], self.options)
        if self.declares_totals:
            check_totals(self.declared, inside)
        if self.episodes_left == 0 and not self.told_beyond:
            self.warn_beyond("an episode goes")
        return inside

    def identify(self, played: ArrayLike | str | None) -> tuple[Policy | None, str | None]:
        """The policy that played an episode, where it is given, and its digest; None for both: the learner's own."""
        if played is None:
            return None, None
        if isinstance(played, str):
            if not re.fullmatch("[0-9a-f]{64}", played):
                raise InvalidOption(
                    f"played must be a policy [H,S,A] or its digest (policy_digest), got {played!r}."
                )
            return None, played
        f = self.interface
        try:
            policy = as_policy(played, (f.H, f.S, f.A), f.mask)
        except InvalidModel as problem:
            raise InvalidOption(f"played: {problem}") from None
        return policy, policy_digest(policy)

    # What training does between chunks of compiled episodes

    def check_not_lent(self) -> None:
        """Raise where a callback wants the learner to learn."""
        if self.guarded.lent:
            raise InUse(
                "the learner is being trained, and this is a callback of its training, which may read it and no more. "
                "Return False to end the training, and go on when `learn` has returned."
            )

    def make_room(self) -> None:
        """Grow what is about to overflow, so that one more episode fits."""
        while not has_room(self.statistics, self.window):
            if not window_has_room(self.window):
                self.window = grow_limits(self.window)
            else:
                self.statistics = grow_statistics(self.statistics)

    @abstractmethod
    def settle(self) -> None:
        """Do what is due between two episodes: begin an epoch, make a plan."""

    @property
    def episodes_to_settle(self) -> int | None:
        """How many episodes may run before `settle`; None: any number."""
        return None if self.options.episodes is not None else self.epoch.last - self.episode + 1

    @property
    def own_flag(self) -> Int:
        """``[1]``, read by the step: whether its own policy played the episode; here nothing depends on it."""
        return np.ones(1, np.int64)

    # T, where it was given

    @property
    def episodes_left(self) -> int | None:
        """How many episodes remain of T; None: anytime."""
        planned = self.options.episodes
        return None if planned is None else max(0, planned - self.episode + 1)

    def warn_beyond(self, what: str) -> None:
        """Warn that episodes go beyond T; `observe` alone does so only once."""
        self.told_beyond = True
        warn(
            f"{what} beyond the learner's T = {self.options.episodes} ({self.episodes_left} remain): its step "
            "sizes and radii were chosen for T."
        )

    # What learners build on

    @property
    def limits(self) -> Float:
        """``[m]``: alpha_xi, the thresholds in use, inside."""
        return self.between(self.state.lower, self.state.upper)

    def between(self, lower: Float, upper: Float) -> Float:
        """``alpha_xi = xi lower + (1 - xi) upper``: what the stance chooses between two bounds."""
        xi = self.options.xi
        chosen: Float = xi * lower + (1.0 - xi) * upper
        return chosen

    def _empty_window(self) -> Any:
        """Where the thresholds' samples are kept, before the first."""
        return empty_limits(self.interface, cast("Options", self.options), self.declared)

    def _known_limits(self) -> Float | None:
        """``[m]``: the thresholds that were given, inside; None: they are learned."""
        if self.options.thresholds is None:
            return None
        return self.declared.alpha

    def _slack(self, slack: float | tuple[float, ...] | None) -> float:
        """The room of a safe policy, inside: the smallest over the constraints."""
        given = np.asarray(slack, float)
        if given.shape not in ((), (self.interface.m,)) or not (given > 1.0 / LARGEST).all():
            raise InvalidOption(
                f"slack must be a positive number, or one for each of the {self.interface.m} "
                f"constraints, got {slack}."
            )
        return float((given / np.abs(self.interface.units.constraints.scale)).min())

    def _rho(self, options: DualOptions) -> float:
        """D4: the bound of the multipliers; from `slack` it is 2 H / slack, slack brought inside."""
        if options.rho is not None:
            return options.rho
        return 2.0 * self.interface.H / self._slack(options.slack)

    def _radii(self, now: Epoch, *, bernstein: bool = False) -> Radii:
        """The radii of an epoch; anytime, its share of delta is ``delta / (k (k+1))``."""
        f, o = self.interface, cast("Options", self.options)
        k = now.number
        delta = o.delta if o.episodes is not None else o.delta / (k * (k + 1))
        return make_radii(
            f.S, f.A, f.H, f.m, now.last, delta,
            bonus_scale=self._bonus_scale(now.last, delta), threshold_scale=o.threshold_scale,
            bernstein=bernstein, clip=o.clip_thresholds,
        )  # fmt: skip

    def _bonus_scale(self, T: int, delta: float) -> float:
        """Of T episodes at a confidence of 1 - delta."""
        return cast("Options", self.options).bonus_scale

    # Files

    def save(self, path: str | Path) -> None:
        """Write everything to a file; `load` goes on as if nothing had happened."""
        write_arrays(path, "learner", *self._stored())

    @classmethod
    def load(cls: type[L], path: str | Path) -> L:
        """Read what `save` wrote; a damaged file is an `InvalidFile`."""
        arrays, about = read_arrays(path, "learner")
        try:
            if about["learner"] != cls.name:
                raise InvalidFile(f"a learner of the kind {about['learner']!r}, not {cls.name!r}")
            return cls._from_stored(arrays, about)
        except (
            SafespotError,
            KeyError,
            TypeError,
            ValueError,
            AttributeError,
            IndexError,
            OverflowError,
        ) as problem:
            raise InvalidFile(
                f"{path} does not describe a {cls.__name__} learner: {problem}"
            ) from None

    def _stored(self) -> tuple[dict[str, NDArray], dict[str, Any]]:
        """What a file holds: arrays, and a description for JSON."""
        arrays, options = self.arrays(), {}
        for option in fields(self.options):
            value = getattr(self.options, option.name)
            if isinstance(value, np.ndarray):
                arrays[f"option.{option.name}"] = value
            else:
                options[option.name] = "inf" if value == math.inf else value
        return arrays, {
            "learner": self.name, "interface": self.interface.arguments, "options": options,
            **vars(self.doubts),
        }  # fmt: skip

    @classmethod
    def _from_stored(cls: type[L], arrays: dict[str, NDArray], about: Mapping[str, Any]) -> L:
        """The learner that `_stored` described."""
        _check_sizes(about["interface"], arrays)
        arguments: dict[str, Any] = {**about["interface"], "action_mask": arrays["mask"]}
        for name, value in about["options"].items():
            arguments[name] = math.inf if value == "inf" else value
        for name in [name for name in arrays if name.startswith("option.")]:
            arguments[name.removeprefix("option.")] = arrays.pop(name)
        learner = cls(**arguments)
        learner.restore(arrays)
        learner.doubts = Doubts.read(about)
        return learner

    def arrays(self) -> dict[str, NDArray]:
        """The state: what cannot be derived."""
        arrays: dict[str, NDArray] = {name: getattr(self.state, name) for name in self._carried()}
        arrays["mask"] = np.ascontiguousarray(self.interface.mask)
        counts = self.statistics._asdict()
        successors = counts.pop("successors")
        arrays.update({f"statistics.{k}": v for k, v in counts.items()})
        arrays.update({f"successors.{k}": v for k, v in successors._asdict().items()})
        arrays.update({f"window.{k}": v for k, v in limits_arrays(self.window).items()})
        return arrays

    def restore(self, arrays: dict[str, NDArray]) -> None:
        """Go on from where `arrays` were taken; this learner must have the same interface and options."""
        if not np.array_equal(arrays["mask"], self.interface.mask):
            raise InvalidFile("other actions are admissible there than for this learner")
        parts: dict[str, dict[str, NDArray]] = {"statistics": {}, "successors": {}, "window": {}}
        for name, array in arrays.items():
            kind, _, field = name.partition(".")
            if field:
                parts[kind][field] = array.copy()
        self.statistics = check_statistics(
            self.statistics,
            Statistics(**parts["statistics"], successors=Successors(**parts["successors"])),
        )
        self.window = restored_limits(self.window, parts["window"])
        carried = {name: arrays[name] for name in self._carried()}
        finished, lam = carried["finished"], carried["lam"]
        if (
            any(
                array.shape != getattr(self.state, name).shape
                or array.dtype != getattr(self.state, name).dtype
                for name, array in carried.items()
            )
            or finished[0] != self.statistics.starts.sum()
            or not ((lam >= 0.0) & (lam <= self.rho)).all()
            or not self._plausible(carried)
        ):
            raise InvalidFile("policy, multipliers or the number of episodes contradict the rest")
        for name, array in carried.items():
            getattr(self.state, name)[:] = array
        self._derive()

    @abstractmethod
    def _carried(self) -> tuple[str, ...]:
        """The fields of the state that are written to files; "lam" and "finished" are among them."""

    @abstractmethod
    def _plausible(self, carried: dict[str, NDArray]) -> bool:
        """Whether what a file holds of the state can be this learner's."""

    @abstractmethod
    def _derive(self) -> None:
        """All that follows from options, state and counts."""


def _check_sizes(said: dict[str, Any], arrays: dict[str, NDArray]) -> None:
    """Raise unless a file holds arrays of the size that it declares: nothing is allocated on its word alone."""
    S, A, H, m = (said[name] for name in ("states", "actions", "horizon", "constraints"))
    if arrays["mask"].shape != (H, S, A) or arrays["statistics.sums"].shape != (1 + m, H, S * A):
        raise InvalidFile(f"its arrays are not those of S={S}, A={A}, H={H}, m={m}")


class Epoch(NamedTuple):
    """A stretch of episodes with the same step sizes; one for all where T is known."""

    number: int  # k, from 1
    length: int  # T_k
    last: int  # its last episode


def epoch_at(episode: int, episodes: int | None) -> Epoch:
    """The epoch of an episode: T where it is known, else lengths of 1024 * 2^(k-1)."""
    if episodes is not None:
        return Epoch(1, episodes, episodes)
    number, length, last = 1, FIRST_EPOCH, FIRST_EPOCH
    while episode > last:
        number, length = number + 1, 2 * length
        last += length
    return Epoch(number, length, last)
