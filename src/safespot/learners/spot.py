"""SPOT, stochastic pessimistic-optimistic thresholding: Algorithm 2 of the paper.

A primal-dual learner for a CMDP whose limits are seen only through noise. `step.spot_step` is the algorithm, line by
line; `Spot` is the object around it: what goes in and comes out, epochs, and files.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..arrays import Episode, Float, Policy, as_count, as_floats, frozen
from ..errors import InvalidFile, InvalidOption, SafespotError
from ..estimators import (
    Statistics,
    Successors,
    Window,
    check_statistics,
    check_window,
    grow_statistics,
    grow_window,
    has_room,
    rebuild_tree,
    ring_has_room,
    statistics,
    window,
)
from ..files import read_arrays, write_arrays
from ..optimism import (
    radii,
    refresh_all,
    threshold_bounds,
)
from ..units import spread_thresholds
from ..updates import softmax, workspace
from .interface import interface
from .options import SpotOptions
from .step import Rates, Scratch, State, spot_step

FIRST_EPOCH = 1024  # episodes of the first epoch when T is unknown


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
            if not ring_has_room(self.window):
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
                softmax=workspace(f.H * f.S, f.A),
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
        write_arrays(path, "learner", self.arrays(), about)

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
            learner.restore(arrays)
        except (SafespotError, KeyError, TypeError, ValueError, AttributeError) as problem:
            raise InvalidFile(f"{path} does not describe a Spot learner: {problem}") from None
        return learner

    def arrays(self) -> dict[str, NDArray]:
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

    def restore(self, arrays: dict[str, NDArray]) -> None:
        """Go on from where `arrays` were taken; this learner must have the same interface and options."""
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


def _nested(name: str, value: ArrayLike | None) -> Any:
    """An array option as tuples, so that the options stay frozen and can be written to a file."""
    if value is None:
        return None
    return _tuples(as_floats(name, value, error=InvalidOption).tolist())


def _tuples(value: Any) -> Any:
    return tuple(_tuples(v) for v in value) if isinstance(value, list) else value
