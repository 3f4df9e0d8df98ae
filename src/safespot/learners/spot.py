"""SPOT, stochastic pessimistic-optimistic thresholding: Algorithm 2 of the paper.

A primal-dual learner for a CMDP whose limits are seen only through noise. Each episode it

- takes the optimistic model and the chosen threshold from the episodes *before* the one being played (line 2),
- evaluates its policy in it, truncated (lines 3 and 4),
- moves the policy by mirror ascent and the multipliers by a projected step (lines 5 to 8),
- and only then adds the episode that was played to its statistics (line 9).

`spot_step` is that algorithm, line by line; `Spot` is the object around it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..arrays import Bool, Episode, Float, Int, Policy, as_count, as_floats, frozen
from ..compilation import inner
from ..errors import InvalidFile, InvalidOption, SafespotError
from ..estimators import (
    Statistics,
    Successors,
    Window,
    add_to_window,
    add_visit,
    check_statistics,
    check_window,
    grow_statistics,
    grow_window,
    has_room,
    rebuild_tree,
    statistics,
    window,
)
from ..files import read_arrays, write_arrays
from ..optimism import (
    Radii,
    radii,
    refresh_all,
    refresh_pair,
    threshold_bounds,
    transition_radius,
)
from ..planning import clear, evaluate_states, forget, hand_over, start_gap
from ..units import spread_thresholds
from ..updates import Work, dual_step, mirror_ascent, softmax
from .interface import Inside, interface
from .options import SpotOptions

FIRST_EPOCH = 1024  # episodes of the first epoch when T is unknown


class Rates(NamedTuple):
    """What the steps of one epoch compute with."""

    radii: Radii
    eta: float  # the step of the policy
    step: float  # the step of the multipliers, 1 / eta_lambda
    xi: float  # the stance
    rho: float  # the bound of the multipliers
    start: int  # -1: the start distribution is learned (D5)
    learned: bool  # whether the thresholds are learned


class Scratch(NamedTuple):
    """Buffers that a step works in; they carry nothing from one step to the next."""

    G: Float  # [1+m, S]
    G_now: Float  # [1+m, S], zero between steps
    D: Float  # [1+m, S*A]
    Q: Float  # [H, S*A]
    softmax: Work
    gap: Float  # [1+m]
    alpha: Float  # [m]
    values: Float  # [m]


class State(NamedTuple):
    """What a step changes, beside the statistics and the window."""

    logits: Float  # [H, S, A], at most 0; exp of them sums to at least one half
    pi: Policy  # [H, S, A]: the softmax of the logits
    lam: Float  # [m]
    lower: Float  # [m]: threshold bounds from the finished episodes, derived from the window
    upper: Float  # [m]
    finished: Int  # [1]: episodes
    mask: Bool  # [H, S*A]
    lack: Float  # [1+m, H, S*A]: 1 - v_bar, derived from the statistics
    weight: Float  # [H, S*A]: 1 / n, derived from the statistics
    peak: Float  # [H, S]: the largest lack among the actions of a state, derived
    scratch: Scratch


@inner
def spot_step(
    rates: Rates, state: State, statistics: Statistics, window: Window, episode: Inside
) -> bool:
    """Algorithm 2 for one episode t: from pi_t and the data before t to pi_{t+1}, then the data of t.

    Returns whether the policy has moved.
    """
    H = state.pi.shape[0]
    w = state.scratch
    # Line 2. The optimistic model is `lack` = 1 - v_bar; the threshold is chosen by the stance.
    for i in range(state.lam.shape[0]):
        w.alpha[i] = rates.xi * state.lower[i] + (1.0 - rates.xi) * state.upper[i]
    # Lines 3 to 6: truncated policy evaluation of pi_t, and mirror ascent to pi_{t+1}.
    if statistics.successors.dense.shape[0] > 0:
        moved = sweep_steps(rates.eta, state, statistics.successors)
    else:
        moved = sweep_states(rates.eta, state, statistics)
    # Lines 7 and 8: the dual step, with V_g at the start.
    t = state.finished[0]
    phi_0 = rates.radii.bonus_scale * transition_radius(rates.radii, max(1.0, float(t)))
    start_gap(w.G, rates.start, statistics.starts, t, phi_0, w.gap)
    for i in range(state.lam.shape[0]):
        w.values[i] = H - w.gap[1 + i]
    dual_step(state.lam, w.alpha, w.values, rates.step, rates.rho)
    # Line 9: the episode that was played under pi_t joins the data.
    statistics.starts[episode.states[0]] += 1
    for h in range(H):
        s, pair = episode.states[h], episode.pairs[h]
        reward, constraints = episode.rewards[h], episode.constraints[h]
        add_visit(statistics, h, s, pair, episode.states[h + 1], reward, constraints)
        refresh_pair(
            rates.radii, statistics, state.mask, h, pair, state.lack, state.weight, state.peak
        )
    state.finished[0] += 1
    if rates.learned:
        add_to_window(window, episode.pairs, episode.thresholds)
        threshold_bounds(rates.radii, window, state.lower, state.upper)
    return moved


@inner
def sweep_steps(eta: float, state: State, successors: Successors) -> bool:
    """Lines 3 to 6 for a small problem, all states of a step at once; returns whether the policy has moved.

    Mirror ascent runs over all steps from the first to the last at which some Q is below 0: elsewhere the same
    logits give the same policy.
    """
    H, S, A = state.pi.shape
    w = state.scratch
    pi = state.pi.reshape(H, S * A)
    first, last = H, 0
    clear(w.G)
    for h in range(H - 1, -1, -1):
        if evaluate_states(
            successors, state.lack, state.weight, pi[h], state.lam, h, 0, S, w.G, w.D, w.Q[h], w.G
        ):
            first, last = h, max(last, h + 1)
    if first < last:
        logits, policy, Q = (
            state.logits.reshape(H * S * A), state.pi.reshape(H * S * A), w.Q.reshape(H * S * A)
        )  # fmt: skip
        mirror_ascent(logits, policy, Q, eta, A, first * S, last * S, w.softmax)
    return bool(first < last)


@inner
def sweep_states(eta: float, state: State, statistics: Statistics) -> bool:
    """Lines 3 to 6 for a large problem, state by state, so that a row stays in the cache; the same results.

    Only states that were met at a step can be below their cap, and of these only the ones whose `peak` and the
    largest gap ahead allow it.
    """
    H, S, A = state.pi.shape
    w = state.scratch
    logits, pi = state.logits.reshape(H, S * A), state.pi.reshape(H, S * A)
    moved, most = False, 0.0
    forget(w.G, statistics.met[0], statistics.how_many[0])  # left from the last episode
    for h in range(H - 1, -1, -1):
        for j in range(statistics.how_many[h]):
            s = statistics.met[h, j]
            if state.peak[h, s] + most > 0.0 and evaluate_states(
                statistics.successors, state.lack, state.weight, pi[h], state.lam, h, s, s + 1,
                w.G, w.D, w.Q[0], w.G_now,
            ):  # fmt: skip
                mirror_ascent(logits[h], pi[h], w.Q[0], eta, A, s, s + 1, w.softmax)
                moved = True
        if h < H - 1:
            forget(w.G, statistics.met[h + 1], statistics.how_many[h + 1])
        most = hand_over(w.G_now, w.G, statistics.met[h], statistics.how_many[h])
    return moved


class Spot:
    """The learner. Its first arguments are ``problem.interface``, its options those of `SpotOptions`.

    `policy` is what to play in the coming episode; `observe` takes what was seen in it. Everything that goes in or
    comes out is in the user's senses and units; `rho` has none.
    """

    statistics: Statistics
    window: Window
    state: State
    rates: Rates
    epoch: Epoch

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
        *,
        episodes: int | None,
        rho: float | None = None,
        slack: float | Sequence[float] | None = None,
        thresholds: ArrayLike | None = None,
        stance: str | float = "pessimistic",
        window: float = 1.0,
        delta: float = 0.05,
        bonus: str = "hoeffding",
        bonus_scale: float = 1.0,
        estimator: str = "representative",
        threshold_scale: float = 1.0,
        clip_thresholds: bool = True,
        policy_step: float | None = None,
        dual_step: float | None = None,
    ) -> None:
        self.interface = interface(
            states, actions, horizon, constraints, start, action_mask, senses, ranges
        )
        self.options = SpotOptions(
            episodes=episodes,
            rho=rho,
            slack=_nested("slack", slack),
            thresholds=_nested("thresholds", thresholds),
            stance=stance,
            window=window,
            delta=delta,
            bonus=bonus,
            bonus_scale=bonus_scale,
            estimator=estimator,
            threshold_scale=threshold_scale,
            clip_thresholds=clip_thresholds,
            policy_step=policy_step,
            dual_step=dual_step,
        )
        self.rho = self._rho()
        self._begin()

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
        xi = self.options.xi
        inside = xi * self.state.lower + (1.0 - xi) * self.state.upper
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

    # What a user does

    def act(self, step: int, state: int, rng: np.random.Generator) -> int:
        """Draw an action of the coming episode's policy."""
        H, S = self.interface.H, self.interface.S
        step = as_count("step", step, least=0, error=InvalidOption)
        state = as_count("state", state, least=0, error=InvalidOption)
        if step >= H or state >= S:
            raise InvalidOption(f"step {step} and state {state}; there are {H} steps, {S} states.")
        row = self.state.pi[step, state]
        chosen = int(np.searchsorted(np.cumsum(row), rng.random(), side="right"))
        return min(chosen, int(np.flatnonzero(row)[-1]))

    def observe(self, episode: Episode) -> None:
        """Learn from the episode that was played; an invalid one changes nothing."""
        inside = self.interface.inside(episode)
        self.make_room()
        spot_step(self.rates, self.state, self.statistics, self.window, inside)
        self.settle()

    # What training does between chunks of compiled episodes

    def make_room(self) -> None:
        """Grow what is about to overflow, so that one more episode fits."""
        while not has_room(self.statistics, self.window):
            if not _window_has_room(self.window):
                self.window = grow_window(self.window)
            else:
                self.statistics = grow_statistics(self.statistics)

    def settle(self) -> None:
        """Begin the next epoch where one has just ended (anytime use)."""
        if self.options.episodes is None and self.episode > self.epoch.last:
            self._begin_epoch()

    @property
    def episodes_left(self) -> int | None:
        """How many episodes may run before `settle`; None: any number."""
        return None if self.options.episodes is not None else self.epoch.last - self.episode + 1

    # Beginnings

    def _rho(self) -> float:
        """D4: the bound of the multipliers; from `slack` it is 2 H / slack, slack brought inside."""
        if self.options.rho is not None:
            return float(self.options.rho)
        slack = np.asarray(self.options.slack, float)
        if slack.shape not in ((), (self.interface.m,)) or not (slack > 0.0).all():
            raise InvalidOption(
                f"slack must be a positive number, or one for each of the {self.interface.m} "
                f"constraints, got {self.options.slack}."
            )
        inside = slack / np.abs(self.interface.units.constraints.scale)
        return 2.0 * self.interface.H / float(inside.min())

    def _begin(self) -> None:
        f, o = self.interface, self.options
        pairs = f.S * f.A
        mask = np.array(
            f.mask.reshape(f.H, pairs), order="C"
        )  # a copy: one type, whatever the mask
        self.statistics = statistics(f.H, f.S, f.A, f.m)
        known = o.thresholds is not None
        self.window = window(
            f.H, 1 if known or o.estimator == "pooled" else pairs, f.m, 1.0 if known else o.window
        )
        self.state = State(
            logits=np.where(f.mask, 0.0, -np.inf),
            pi=np.zeros((f.H, f.S, f.A)),
            lam=np.zeros(f.m),
            lower=np.zeros(f.m),
            upper=np.full(f.m, float(f.H)),
            finished=np.zeros(1, np.int64),
            mask=mask,
            lack=np.zeros((1 + f.m, f.H, pairs)),
            weight=np.zeros((f.H, pairs)),
            peak=np.zeros((f.H, f.S)),
            scratch=Scratch(
                G=np.zeros((1 + f.m, f.S)),
                G_now=np.zeros((1 + f.m, f.S)),
                D=np.zeros((1 + f.m, pairs)),
                Q=np.zeros((f.H, pairs)),
                softmax=Work(np.zeros(f.H * pairs), np.zeros(f.H * pairs)),
                gap=np.zeros(1 + f.m),
                alpha=np.zeros(f.m),
                values=np.zeros(f.m),
            ),
        )
        if known:
            given = np.array(o.thresholds)
            _, inside = spread_thresholds(given, f.H, f.units, error=InvalidOption)
            self.state.lower[:] = self.state.upper[:] = inside.sum(axis=1)
        self._derive()

    def _begin_epoch(self) -> None:
        """A new epoch starts with logits and multipliers of 0; counts and window carry over."""
        self.state.logits[:] = np.where(self.interface.mask, 0.0, -np.inf)
        self.state.lam[:] = 0.0
        self._derive()

    def _derive(self) -> None:
        """All that follows from options, logits and counts."""
        f, o, state = self.interface, self.options, self.state
        now = epoch(self.episode, o.episodes)
        T, delta = now.last, o.delta
        if o.episodes is None:
            delta = delta / (now.number * (now.number + 1))
        length = now.length
        eta = o.policy_step
        if eta is None:
            eta = math.sqrt(2.0 * math.log(f.A) / (f.H**2 * (1.0 + f.m * self.rho) ** 2 * length))
        step = self.rho / math.sqrt(f.m * f.H**2 * length) if o.dual_step is None else o.dual_step
        self.rates = Rates(
            radii=radii(
                f.S, f.A, f.H, f.m, T, delta,
                bonus_scale=o.bonus_scale, threshold_scale=o.threshold_scale,
                bernstein=o.bonus == "bernstein", clip=o.clip_thresholds,
            ),
            eta=float(eta),
            step=float(step),
            xi=o.xi,
            rho=self.rho,
            start=-1 if f.start is None else f.start,
            learned=o.thresholds is None,
        )  # fmt: skip
        softmax(
            state.logits.reshape(-1), state.pi.reshape(-1), f.A, 0, f.H * f.S, state.scratch.softmax
        )
        refresh_all(
            self.rates.radii, self.statistics, state.mask, state.lack, state.weight, state.peak
        )
        if self.rates.learned:
            threshold_bounds(self.rates.radii, self.window, state.lower, state.upper)
        self.epoch = now  # last, so that `settle` begins anew what was interrupted

    # Files

    def save(self, path: str | Path) -> None:
        """Write everything to a file; `load` goes on as if nothing had happened."""
        f = self.interface
        about = {
            "learner": "spot",
            "interface": {
                "states": f.S, "actions": f.A, "horizon": f.H, "constraints": f.m,
                "start": f.start, "senses": f.units.senses, "ranges": f.units.ranges,
            },
            "options": {k: "inf" if v == math.inf else v for k, v in asdict(self.options).items()},
        }  # fmt: skip
        write_arrays(path, "learner", self._arrays(), about)

    @classmethod
    def load(cls, path: str | Path) -> Spot:
        """Read what `save` wrote; a damaged file is an `InvalidFile`."""
        arrays, about = read_arrays(path, "learner")
        try:
            if about["learner"] != "spot":
                raise InvalidFile(f"a learner of the kind {about['learner']!r}, not 'spot'")
            arguments: dict[str, Any] = {**about["interface"], "action_mask": arrays["mask"]}
            for name, value in about["options"].items():
                arguments[name] = math.inf if value == "inf" else value
            learner = cls(**arguments)
            learner._restore(arrays)
        except (SafespotError, KeyError, TypeError, ValueError, AttributeError) as problem:
            raise InvalidFile(f"{path} does not describe a Spot learner: {problem}") from None
        return learner

    def _arrays(self) -> dict[str, NDArray]:
        """The state: what cannot be derived."""
        state = self.state
        arrays = {"logits": state.logits, "lam": state.lam, "finished": state.finished}
        arrays["mask"] = np.ascontiguousarray(self.interface.mask)
        counts = self.statistics._asdict()
        successors = counts.pop("successors")
        arrays.update({f"statistics.{k}": v for k, v in counts.items()})
        arrays.update({f"successors.{k}": v for k, v in successors._asdict().items()})
        arrays.update({f"window.{k}": v for k, v in self.window._asdict().items() if k != "tree"})
        return arrays

    def _restore(self, arrays: dict[str, NDArray]) -> None:
        parts: dict[str, dict[str, NDArray]] = {"statistics": {}, "successors": {}, "window": {}}
        for name, array in arrays.items():
            kind, _, field = name.partition(".")
            if field:
                parts[kind][field] = array.copy()
        self.statistics = check_statistics(
            self.statistics,
            Statistics(**parts["statistics"], successors=Successors(**parts["successors"])),
        )
        self.window = check_window(self.window, Window(**parts["window"], tree=self.window.tree))
        rebuild_tree(self.window)
        f = self.interface
        finished, logits, lam = arrays["finished"], arrays["logits"], arrays["lam"]
        if (
            logits.shape != self.state.logits.shape
            or lam.shape != (f.m,)
            or finished.shape != (1,)
            or finished.dtype != np.int64
            or finished[0] != self.statistics.starts.sum()
            or not (np.exp(logits).sum(axis=2) > 0.49).all()
            or (logits > 0.0).any()
            or ((logits == -np.inf) != ~f.mask).any()
            or not ((lam >= 0.0) & (lam <= self.rho)).all()
        ):
            raise InvalidFile("logits, multipliers or the number of episodes contradict the rest")
        self.state.finished[:] = finished
        self.state.logits[:] = logits
        self.state.lam[:] = lam
        self._derive()


class Epoch(NamedTuple):
    """A stretch of episodes with the same step sizes; one for all where T is known."""

    number: int  # k, from 1
    length: int  # T_k
    last: int  # its last episode


def epoch(episode: int, episodes: int | None) -> Epoch:
    """The epoch of an episode: T where it is known, else lengths of 1024 * 2^(k-1)."""
    if episodes is not None:
        return Epoch(1, episodes, episodes)
    number, length, last = 1, FIRST_EPOCH, FIRST_EPOCH
    while episode > last:
        number, length = number + 1, 2 * length
        last += length
    return Epoch(number, length, last)


def _window_has_room(window: Window) -> bool:
    return len(window.pairs) == 0 or int(window.span[1]) < len(window.pairs)


def _nested(name: str, value: ArrayLike | None) -> Any:
    """An array option as tuples, so that the options stay frozen and can be written to a file."""
    if value is None:
        return None
    return _tuples(as_floats(name, value, error=InvalidOption).tolist())


def _tuples(value: Any) -> Any:
    return tuple(_tuples(v) for v in value) if isinstance(value, list) else value
