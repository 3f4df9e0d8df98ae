"""SPOT, stochastic pessimistic-optimistic thresholding: Algorithm 2 of the paper.

A primal-dual learner for a CMDP whose limits are seen only through noise. `step.spot_step` is the algorithm, line by
line; `Spot` is the object around it: what goes in and comes out, epochs, and files.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..arrays import Episode
from ..spot.optimism import refresh_all, threshold_bounds
from ..spot.step import Scratch, SpotRates, SpotState, spot_episode
from ..spot.updates import softmax, workspace
from .learner import Learner, epoch_at
from .options import SpotOptions


class Spot(Learner):
    """The learner. Its first arguments are ``problem.interface``, its options those of `SpotOptions`.

    `policy` is what to play in the coming episode; `observe` takes what was seen in it. Everything that goes in or
    comes out is in the user's senses and units; `rho` has none.
    """

    name = "spot"
    options_type = SpotOptions
    options: SpotOptions
    state: SpotState
    rates: SpotRates

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
        super().__init__(
            states, actions, horizon, constraints, start, action_mask, senses, ranges,
            episodes=episodes, rho=rho, slack=slack, thresholds=thresholds, stance=stance, window=window,
            delta=delta, bonus=bonus, bonus_scale=bonus_scale, estimator=estimator,
            threshold_scale=threshold_scale, clip_thresholds=clip_thresholds,
            policy_step=policy_step, dual_step=dual_step,
        )  # fmt: skip
        self.rho = self._rho(self.options)
        self._begin()

    # What a user does

    def observe(self, episode: Episode) -> None:
        """Learn from the episode that was played; an invalid one changes nothing."""
        inside = self.interface.inside(episode)
        self.make_room()
        spot_episode(self.rates, self.state, self.statistics, self.window, inside)
        self.settle()

    # What training does between chunks of compiled episodes

    def settle(self) -> None:
        """Begin the next epoch where one has just ended (anytime use)."""
        if self.options.episodes is None and self.episode > self.epoch.last:
            self._begin_epoch()

    # Beginnings

    def _begin(self) -> None:
        f = self.interface
        pairs = f.S * f.A
        mask = np.array(
            f.mask.reshape(f.H, pairs), order="C"
        )  # a copy: one type, whatever the mask
        self.state = SpotState(
            logits=np.where(f.mask, 0.0, -np.inf),
            pi=np.zeros((f.H, f.S, f.A)),
            lam=np.zeros(f.m),
            lower=np.zeros(f.m),
            upper=np.full(f.m, float(f.H)),
            finished=np.zeros(1, np.int64),
            mask=mask,
            deficit=np.zeros((1 + f.m, f.H, pairs)),
            weight=np.zeros((f.H, pairs)),
            max_deficit=np.zeros((f.H, f.S)),
            scratch=Scratch(
                G=np.zeros((1 + f.m, f.S)),
                G_now=np.zeros((1 + f.m, f.S)),
                D=np.zeros((1 + f.m, pairs)),
                Q=np.zeros(f.H * pairs),
                softmax=workspace(f.H * f.S, f.A),
                gap=np.zeros(1 + f.m),
                alpha=np.zeros(f.m),
                values=np.zeros(f.m),
            ),
        )
        limits = self._known_limits()
        if limits is not None:
            self.state.lower[:] = self.state.upper[:] = limits
        self._derive()

    def _begin_epoch(self) -> None:
        """A new epoch starts with logits and multipliers of 0; counts and window carry over."""
        self.state.logits[:] = np.where(self.interface.mask, 0.0, -np.inf)
        self.state.lam[:] = 0.0
        self._derive()

    def _derive(self) -> None:
        """All that follows from options, logits and counts."""
        f, o, state = self.interface, self.options, self.state
        now = epoch_at(self.episode, o.episodes)
        length = now.length
        eta = o.policy_step
        if eta is None:
            eta = math.sqrt(2.0 * math.log(f.A) / (f.H**2 * (1.0 + f.m * self.rho) ** 2 * length))
        step = self.rho / math.sqrt(f.m * f.H**2 * length) if o.dual_step is None else o.dual_step
        self.rates = SpotRates(
            radii=self._radii(now, bernstein=o.bonus == "bernstein"),
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
            self.rates.radii,
            self.statistics,
            state.mask,
            state.deficit,
            state.weight,
            state.max_deficit,
        )
        if self.rates.learned:
            threshold_bounds(self.rates.radii, self.window, state.lower, state.upper)
        self.epoch = now  # last, so that `settle` begins anew what was interrupted

    # Files

    def _carried(self) -> tuple[str, ...]:
        return "logits", "lam", "finished"

    def _plausible(self, carried: dict[str, NDArray]) -> bool:
        logits = carried["logits"]
        return bool(
            (logits <= 0.0).all()
            and (np.exp(logits).sum(axis=2) > 0.49).all()
            and ((logits == -np.inf) == ~self.interface.mask).all()
        )
