"""The safety meter: bounds on the violation that was really played, from the episodes alone.

The paper's violation R_T = sum_t (alpha - V_g^{pi_t}) is observable up to noise: the difference D_t of an episode
(`differences`) has the mean V_g^{pi_t} - alpha given the past. `sequences.ChangingMeans` bounds the sum of these means
at all times at once. Nothing is assumed of the world but that signals lie in their declared ranges and that the mean
of an episode's threshold samples is the threshold: no model, no Markov property, no stationarity; policies may change
with every episode, in any way that looks only at the past, and thresholds may drift.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ..arrays import Episode, Float, InsideEpisode, Int, as_floats, frozen
from ..display import Displayed, curves
from ..errors import InvalidEpisode, InvalidFile, InvalidOption, SafespotError
from ..files import read_arrays, write_arrays
from ..kernels.jit import inlined, no_refcount
from ..signals.limits import Limits
from ..states import flatten, part, rebuild
from ..syscalls import InterruptsDeferred
from .differences import (
    DECLARED,
    Declared,
    check_totals,
    declare,
    derived,
    differences,
    reward_shares,
)
from .doubts import Doubts
from .interface import Interface, as_known, signals_inside
from .sequences import (
    ChangingMeans,
    changing_means,
    move_powers,
    observe_changing,
    sums_of_means,
    window_sum,
)

REWARD = 0.1  # the reward's part of delta: safety keeps the rest


class MeterState(NamedTuple):
    """What a meter remembers."""

    means: ChangingMeans  # [2m, .]: of the differences; rows 2i and 2i+1 are for the two sides of constraint i
    reward: Float  # [2, 4]: power sums (`sequences.move_powers`) of the reward and of 1 less it: it is never rare


class SafetyMeter(Displayed):
    """Bounds at all times on how much was violated so far, and on the reward.

    All of them hold at once, over all times, constraints and sides, with probability 1 - delta.

    Args:
        interface: what the episodes are made of, as ``problem.interface`` is.
        delta: what may be missed.
        limits: `Limit` records, where more is declared than the interface says: thresholds that are known, or ranges
            of totals. Bounds narrow with them.

    Examples:
        >>> import safespot as ss
        >>> problem, noise = ss.problems.make("machine"), ss.streams(seed=0)
        >>> meter = ss.SafetyMeter(problem.interface)
        >>> for t in range(1, 501):
        ...     meter.observe(ss.play(problem, [[0, 1], [0, 1]], noise, t))
        >>> lower, upper = meter.mean_bounds  # strain above its budget, an episode; in truth 4
        >>> print(meter.episodes, lower.round(1), upper.round(1))
        500 [3.5] [4.4]

    """

    def __init__(
        self,
        interface: Mapping[str, Any],
        delta: float = 0.05,
        limits: Limits = None,
    ) -> None:
        self.interface = as_known(interface, limits)
        self.delta = as_delta(delta)
        self.declared = declare(self.interface)
        self.state = meter_state(self.interface.m)
        self.doubts = Doubts()
        self._x = np.empty(2 * self.interface.m)

    def observe(self, episode: Episode) -> None:
        """Count one episode; an invalid one changes nothing."""
        inside = self.interface.check(episode)
        check_totals(self.declared, inside)
        with InterruptsDeferred():
            self.doubts.note(episode)
            meter_episode(self.declared, self.state, inside, self._x)

    def observe_signals(self, rewards: Float, constraints: Float, thresholds: Float) -> None:
        """Count the signals of many episodes: ``[n,H]``, ``[n,H,m]`` and ``[n,H,m]``; NaN: missing.

        What is in doubt of the episodes is for the caller to note.
        """
        units = self.interface.units
        r, g, x = (
            signals_inside(name, terms, as_floats(name, array, error=InvalidEpisode, missing=True))
            for name, terms, array in (
                ("reward", units.reward, rewards),
                ("constraint", units.constraints, constraints),
                ("threshold", units.constraints, thresholds),
            )
        )
        meter_episodes(self.declared, self.state, r, g, x, self._x)

    @property
    def episodes(self) -> int:
        """How many were counted."""
        return int(self.state.means.counted[0])

    @property
    def violation_bounds(self) -> tuple[Float, Float]:
        """(lower ``[m]``, upper ``[m]``) of the sum over all episodes so far of what each fell short of its limit.

        In the user's units: of alpha - V_g for ">=", of V_g - alpha for "<="; above 0 it is a violation.
        """
        return self._read().violation_bounds

    @property
    def mean_bounds(self) -> tuple[Float, Float]:
        """The same divided by the number of episodes; the whole range before the first."""
        if self.episodes == 0:
            least, width = self.declared.least, self.declared.width
            scale = np.abs(self.interface.units.constraints.scale)
            return frozen(-scale * (least + width)), frozen(-scale * least)
        return self._read().mean_bounds

    @property
    def reward_bounds(self) -> tuple[float, float]:
        """(lower, upper) of an episode's expected reward, on average over all episodes so far."""
        low, high = self._read().reward_bounds
        return float(low), float(high)

    def _read(self) -> Evidence:
        low = np.empty(2 + 2 * self.interface.m)
        read_meter(self.state, meter_levels(self.interface.m, self.delta), low)
        return as_evidence(self, np.array(self.episodes), low)

    def _facts(self) -> dict[str, Any]:
        low, high = self.mean_bounds
        names = self.interface.names
        violations = {
            f"violation of {names.limit(i)} an episode": f"{low[i]:.4g} to {high[i]:.4g}"
            for i in range(len(low))
        }
        return {
            "episodes": self.episodes,
            **violations,
            **confidence(self.delta, self._read().doubts),
        }

    # Files

    def save(self, path: str | Path) -> None:
        """Write everything to a file; `load` goes on as if nothing had happened."""
        write_arrays(path, "meter", *stored(self, delta=self.delta))

    @classmethod
    def load(cls, path: str | Path) -> SafetyMeter:
        """Read what `save` wrote; a damaged file is an `InvalidFile`."""
        arrays, about = read_arrays(path, "meter")
        try:
            meter = cls({**about["interface"], "action_mask": arrays["mask"]}, about["delta"])
            meter.declared, meter.doubts = restored(arrays, about, meter.interface)
            meter.state = check_meter(meter.state, part(arrays, "state"))
        except (SafespotError, KeyError, TypeError, ValueError) as problem:
            raise InvalidFile(f"{path} does not describe a SafetyMeter: {problem}") from None
        return meter


@no_refcount
def meter_episode(declared: Declared, state: MeterState, episode: InsideEpisode, x: Float) -> None:
    """`meter_step` for an episode that comes alone."""
    meter_step(declared, state, episode, x)


@no_refcount
def meter_episodes(
    declared: Declared,
    state: MeterState,
    rewards: Float,
    constraints: Float,
    thresholds: Float,
    x: Float,
) -> None:
    """The same for many."""
    for n in range(rewards.shape[0]):
        count(declared, state, rewards[n], constraints[n], thresholds[n], x)


@inlined
def meter_step(declared: Declared, state: MeterState, episode: InsideEpisode, x: Float) -> None:
    """Count one episode; `x` ``[2m]`` is a buffer."""
    count(declared, state, episode.rewards, episode.constraints, episode.thresholds, x)


@inlined
def count(
    declared: Declared,
    state: MeterState,
    rewards: Float,
    constraints: Float,
    thresholds: Float,
    x: Float,
) -> None:
    """Count an episode's signals; the reward is guessed to be the mean so far."""
    low, high = reward_shares(declared, rewards)
    for side in range(2):
        share, powers = low if side == 0 else 1.0 - high, state.reward[side]
        guess = (0.5 + powers[0]) / (state.means.counted[0] + 1.0)
        move_powers(powers, share, share - guess, 1.0)
    differences(declared, constraints, thresholds, x)
    observe_changing(state.means, x)


@no_refcount
def read_meter(state: MeterState, levels: Float, low: Float) -> None:
    """``low`` ``[2+2m]``: bounds of sums, of the reward and of 1 less it, then of the differences."""
    for side in range(2):
        low[side] = window_sum(state.reward[side], levels[side], state.means.terms)
    sums_of_means(state.means, levels[2:], low[2:])


def meter_state(m: int) -> MeterState:
    """Nothing seen yet."""
    return MeterState(changing_means(2 * m), np.zeros((2, 4)))


@dataclass(frozen=True, eq=False, repr=False)
class Evidence(Displayed):
    """What a meter showed along the way, in the user's units; one row for each time that it was read.

    All bounds hold at once, over all times, constraints and sides, with probability 1 - delta; where `doubts` says what
    the data contradict, none of them is proven.

    Examples:
        >>> import safespot as ss
        >>> problem = ss.problems.make("machine")
        >>> learner = ss.Uniform(**problem.interface, episodes=500)
        >>> run = ss.learn(problem, learner, record=250)
        >>> lower, upper = run.evidence.mean_bounds
        >>> print(run.evidence.episodes, lower[:, 0].round(1), upper[:, 0].round(1))
        [  1 250 500] [-8.   0.5  0.8] [8.  1.9 1.7]

    """

    delta: float
    episodes: Int  # [.]: how many were counted
    violation_bounds: tuple[Float, Float]  # lower, upper [., m], as `SafetyMeter` has them
    reward_bounds: tuple[
        Float, Float
    ]  # lower, upper [.]: of an episode's expected reward, on average
    doubts: tuple[str, ...] = ()  # sentences: what was seen that contradicts what bounds assume

    @property
    def mean_bounds(self) -> tuple[Float, Float]:
        """(lower, upper) ``[.,m]`` of the violation divided by the number of episodes."""
        low, high = (end / self.episodes[..., None] for end in self.violation_bounds)
        return frozen(low), frozen(high)

    def _facts(self) -> dict[str, Any]:
        low, high = self.mean_bounds
        last = {}
        if self.episodes.ndim and len(self.episodes):
            last = {"violation an episode": f"{low[-1].round(4)} to {high[-1].round(4)}"}
        return {"readings": self.episodes.size, **last, **confidence(self.delta, self.doubts)}

    def _chart(self) -> str:
        if self.episodes.ndim == 0:
            return ""
        low, high = self.mean_bounds
        lines = {
            f"violation {i}, {end}": bounds[:, i]
            for i in range(low.shape[1])
            for end, bounds in (("at least", low), ("at most", high))
        }
        return curves(self.episodes, lines)


def confidence(delta: float, doubts: tuple[str, ...]) -> dict[str, Any]:
    """How sure bounds are, as it is shown."""
    return {"confidence": 1.0 - delta} if not doubts else {"not proven": "; ".join(doubts)}


def meter_levels(m: int, delta: float) -> Float:
    """``[2+2m]``: ln(1/share) of each bound; two of the reward, then two of each constraint."""
    shares = np.full(2 + 2 * m, (1.0 - REWARD) * delta / (2 * m))
    shares[:2] = REWARD * delta / 2
    return frozen(-np.log(shares))


def as_evidence(meter: SafetyMeter, n: Int, low: Float) -> Evidence:
    """Return the readings of a meter, from lower bounds ``[.,2+2m]`` of its sums after n ``[.]`` episodes."""
    declared, interface = meter.declared, meter.interface
    H, seen = interface.H, np.maximum(n, 1)
    # Rows are bounds of sums in [0, n]; an upper one is n less the lower one of what is missing to 1.
    ends = [low[..., 0] / seen, 1.0 - low[..., 1] / seen]
    first, second = (interface.units.reward.total_outside(H * end, H) for end in ends)
    least, width = declared.least, declared.width
    scale = np.abs(interface.units.constraints.scale)
    lower = n[..., None] * least + width * low[..., 2::2]
    upper = n[..., None] * (least + width) - width * low[..., 3::2]
    upper = np.maximum(upper, lower)
    return Evidence(
        delta=meter.delta,
        episodes=n,
        violation_bounds=(frozen(-scale * upper), frozen(-scale * lower)),
        reward_bounds=(frozen(first), frozen(np.maximum(first, second))),
        doubts=meter.doubts.sentences(),
    )


def as_delta(delta: float) -> float:
    """`delta` as a probability."""
    # Below that, 1 - delta cannot be told from 1.
    if isinstance(delta, bool) or not isinstance(delta, (int, float)) or not 1e-15 <= delta < 1.0:
        raise InvalidOption(f"delta must be a number from 1e-15 to 1, 1 excluded, got {delta!r}.")
    return float(delta)


def stored(counting: Any, **more: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return what a file of a meter or an alarm holds: arrays, and a description for JSON."""
    interface, declared = counting.interface, counting.declared
    arrays = flatten(counting.state, "state.")
    arrays |= {f"declared.{name}": getattr(declared, name) for name in DECLARED}
    arrays["mask"] = np.ascontiguousarray(interface.mask)
    doubts = dict(vars(counting.doubts))
    return arrays, {"interface": interface.arguments, "doubts": doubts, **more}


def restored(
    arrays: Mapping[str, Any], about: Mapping[str, Any], interface: Interface
) -> tuple[Declared, Doubts]:
    """Return what a file says was declared and is in doubt; `InvalidFile` where it cannot have been."""
    alpha, values, limits = (arrays[f"declared.{name}"] for name in DECLARED)
    m, H = interface.m, interface.H
    for array, shape in (
        (alpha, (m,) if len(alpha) else (0,)),
        (values, (2, m)),
        (limits, (2, m)),
    ):
        if (
            array.dtype != np.float64
            or array.shape != shape
            or not (np.abs(array - H / 2) <= H / 2).all()
        ):
            raise InvalidFile("the totals that it declares are none of these episodes")
    if (values[0] >= values[1]).any() or (limits[0] > limits[1]).any():
        raise InvalidFile("the totals that it declares are none of these episodes")
    return derived(H, alpha, values, limits), Doubts.read(about["doubts"])


def check_meter(fresh: MeterState, arrays: Mapping[str, Any]) -> MeterState:
    """Return the state that a file holds, if it can belong to a meter that began with `fresh`."""
    state: MeterState = rebuild(fresh, arrays)
    means, n, reward = state.means, state.means.counted[0], state.reward
    if not (
        n >= 0.0
        and n == np.floor(n)
        and (means.power == np.floor(means.power)).all()
        and ((means.total >= 0.0) & (means.total <= n)).all()
        and (np.abs(means.drift) <= n).all()
        and (np.abs(reward) <= n).all()
        and (reward[:, [0, 1, 3]] >= 0.0).all()
    ):
        raise InvalidFile("its numbers contradict each other")
    return state
