"""The safety meter: bounds on the violation that was really played, from the episodes alone.

The paper's violation R_T = sum_t (alpha - V_g^{pi_t}) is observable up to noise: the difference D_t of an episode
(`differences`) has the mean V_g^{pi_t} - alpha given the past. `sequences.ChangingMeans` bounds the sum of these means
at all times at once. Nothing is assumed of the world but that signals lie in their declared ranges and that the mean
of an episode's threshold samples is the threshold: no model, no Markov property, no stationarity; policies may change
with every episode, in any way that looks only at the past, and thresholds may drift.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from ..arrays import Float, Int, frozen
from ..display import Displayed, curves
from ..errors import InvalidFile, InvalidOption
from ..kernels.jit import inlined, no_refcount
from ..signals.limits import Limits
from ..signals.terms import Declarations
from ..signals.totals import Declared, state_differences, sums_of_signals
from .counter import EpisodeCounter, as_delta, confidence
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
    """The sequences of a meter."""

    means: ChangingMeans  # [2m, .]: of the differences; rows 2i and 2i+1 are for the two sides of constraint i
    reward: Float  # [2, 4]: power sums (`sequences.move_powers`) of the reward and of 1 less it: it is never rare


class SafetyMeter(EpisodeCounter):
    """Bounds at all times on how much was violated so far, and on the reward.

    All of them hold at once, over all times, constraints and sides, with probability 1 - delta.

    Args:
        limits: of the episodes: `Limit` records with the range of their totals; or ``problem.interface``.
        delta: what may be missed.
        more: beside an interface, `Limit` records where more is known than it declares: thresholds, or ranges of
            totals. Bounds narrow with them.

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

    kind = "meter"
    state: MeterState

    def __init__(self, limits: Declarations, delta: float = 0.05, more: Limits = None) -> None:
        super().__init__(limits, more)
        self.delta = as_delta(delta)
        self.state = MeterState(changing_means(2 * self.terms.m), np.zeros((2, 4)))
        self._x = np.empty(2 + 2 * self.terms.m)

    def _count(self, sums: Float) -> None:
        self.count_sums(sums[None])

    def count_sums(self, sums: Float) -> None:
        """Count the sums ``[n,2+4m]`` of many episodes, inside; the caller notes their doubts."""
        meter_episodes(self.terms.declared, self.state, np.ascontiguousarray(sums), self._x)

    def observe_signals(self, rewards: Float, constraints: Float, thresholds: Float) -> None:
        """Count the signals ``[n,H]``, ``[n,H,m]``, ``[n,H,m]`` of many episodes, in the user's units; NaN: missing."""
        if self.terms.interface is None:
            raise InvalidOption("this meter knows no steps of episodes, only their totals.")
        self.count_sums(sums_of_signals(self.terms.interface, rewards, constraints, thresholds))

    @property
    def episodes(self) -> int:
        """The number of episodes counted."""
        return int(self.state.means.counted[0])

    @property
    def violation_bounds(self) -> tuple[Float, Float]:
        """(lower ``[m]``, upper ``[m]``) of the sum over all episodes so far of what each fell short of its limit.

        In the user's units: of alpha - V_g for ">=", of V_g - alpha for "<="; above 0 it is a violation.
        """
        return self._read().violation_bounds

    @property
    def mean_bounds(self) -> tuple[Float, Float]:
        """Bounds of the violation per episode, `violation_bounds` over `episodes`; the whole range before the first."""
        if self.episodes == 0:
            least, width = self.terms.declared.least, self.terms.declared.width
            scale = self.terms.scale
            return frozen(-scale * (least + width)), frozen(-scale * least)
        return self._read().mean_bounds

    @property
    def reward_bounds(self) -> tuple[float, float]:
        """(lower, upper) of an episode's expected reward, on average over all episodes so far."""
        low, high = self._read().reward_bounds
        return float(low), float(high)

    @property
    def options(self) -> dict[str, Any]:
        """The constructor's arguments but for the limits."""
        return {"delta": self.delta}

    def _read(self) -> Evidence:
        low = np.empty(2 + 2 * self.terms.m)
        read_meter(self.state, meter_levels(self.terms.m, self.delta), low)
        return as_evidence(self, np.array(self.episodes), low)

    def _facts(self) -> dict[str, Any]:
        low, high = self.mean_bounds
        names = self.terms.names
        violations = {
            f"violation of {names.limit(i)} an episode": f"{low[i]:.4g} to {high[i]:.4g}"
            for i in range(len(low))
        }
        return {
            "episodes": self.episodes,
            **violations,
            **confidence(self.delta, self._read().doubts),
        }

    def _check(self) -> None:
        check_meter(self.state)


@no_refcount
def meter_episodes(declared: Declared, state: MeterState, sums: Float, x: Float) -> None:
    """Count the sums ``[n,2+4m]`` of many episodes; `x` ``[2+2m]`` is a buffer."""
    for n in range(sums.shape[0]):
        meter_episode(declared, state, sums[n], x)


@inlined
def meter_episode(declared: Declared, state: MeterState, sums: Float, x: Float) -> None:
    """Count one episode; the reward is guessed to be the mean so far."""
    state_differences(declared, sums, x)
    for side in range(2):
        share, powers = x[0] if side == 0 else x[1], state.reward[side]
        guess = (0.5 + powers[0]) / (state.means.counted[0] + 1.0)
        move_powers(powers, share, share - guess, 1.0)
    observe_changing(state.means, x[2:])


@no_refcount
def read_meter(state: MeterState, levels: Float, low: Float) -> None:
    """Write the bounds of sums to ``low`` ``[2+2m]``: of the reward and of 1 less it, then of the differences."""
    for side in range(2):
        low[side] = window_sum(state.reward[side], levels[side], state.means.terms)
    sums_of_means(state.means, levels[2:], low[2:])


@dataclass(frozen=True, eq=False, repr=False)
class Evidence(Displayed):
    """The readings of a meter in the user's units; one row for each.

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


def meter_levels(m: int, delta: float) -> Float:
    """Return ln(1/share) of each bound, ``[2+2m]``: two of the reward, then two of each constraint."""
    shares = np.full(2 + 2 * m, (1.0 - REWARD) * delta / (2 * m))
    shares[:2] = REWARD * delta / 2
    return frozen(-np.log(shares))


def as_evidence(meter: SafetyMeter, n: Int, low: Float) -> Evidence:
    """Return the readings of a meter, from lower bounds ``[.,2+2m]`` of its sums after n ``[.]`` episodes."""
    terms, declared, seen = meter.terms, meter.terms.declared, np.maximum(n, 1)
    # Rows are bounds of sums in [0, n]; an upper one is n less the lower one of what is missing to 1.
    reward = terms.reward_outside(low[..., 0] / seen, 1.0 - low[..., 1] / seen)
    least, width, scale = declared.least, declared.width, terms.scale
    lower = n[..., None] * least + width * low[..., 2::2]
    upper = n[..., None] * (least + width) - width * low[..., 3::2]
    upper = np.maximum(upper, lower)
    return Evidence(
        delta=meter.delta,
        episodes=n,
        violation_bounds=(frozen(-scale * upper), frozen(-scale * lower)),
        reward_bounds=(frozen(reward[0]), frozen(reward[1])),
        doubts=meter.doubts.sentences(),
    )


def check_meter(state: MeterState) -> None:
    """Raise unless the state of a file can be that of a meter."""
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
