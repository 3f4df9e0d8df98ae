"""SPOT, stochastic pessimistic-optimistic thresholding: Algorithm 2 of the paper.

A primal-dual learner for a CMDP whose limits are seen only through noise. `spot.step.spot_step` is the algorithm, line
by line; `Spot` is the object around it: what goes in and comes out, epochs, and files.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, ClassVar

import numpy as np

from .. import _core
from ..arrays import InsideEpisode
from ..spot.step import Scratch, SpotRates, SpotState, spot_step
from ..spot.updates import workspace
from ..spot.window import Window
from .compiled_step import register
from .doubling import Epoch, epoch_radii
from .options import SpotOptions
from .primal_dual import PrimalDual

AUTO_STEPS = 4.0  # times the paper's: what suits the scale "auto"


class Spot(PrimalDual):
    """The paper's learner: mirror ascent on the policy, projected steps of the multipliers, learned limits.

    `policy` is what to play in the coming episode; `observe` takes what was seen in it. Everything that goes in or
    comes out is in the user's senses and units; `rho` has none.

    Examples:
        >>> import safespot as ss
        >>> problem = ss.problems.make("machine")
        >>> learner = ss.Spot(
        ...     **problem.interface, episodes=500, slack=1.0, bonus_scale=0.01, threshold_scale=0.1
        ... )
        >>> run = ss.learn(problem, learner)
        >>> lower, upper = learner.threshold_bounds  # the budget is 1, and only seen through noise
        >>> print(lower.round(2), upper.round(2))
        [0.73] [1.26]

    """

    name = "spot"
    options_type = SpotOptions
    # What to take unless the theorems are needed: docs/choosing.md, and what `safespot run` takes.
    advised: ClassVar[Mapping[str, Any]] = MappingProxyType(
        {"bonus_scale": "auto", "estimator": "total"}
    )
    options: SpotOptions
    state: SpotState
    rates: SpotRates

    _bound: tuple[tuple[Any, ...], _core.Spot] | None = None

    @property
    def core(self) -> _core.Spot | None:
        """The compiled step, bound to this learner's arrays; None where its limits are totals."""
        if not isinstance(self.window, Window):
            return None
        records = self.rates, self.state, self.statistics, self.window
        if self._bound is None or any(map(operator.is_not, records, self._bound[0])):
            statistics, window = _core.Statistics(self.statistics), _core.Window(self.window)
            self._bound = records, _core.Spot(self.rates, self.state, statistics, window)
        return self._bound[1]

    def __getstate__(self) -> dict[str, Any]:
        """All but what is bound to the arrays of this very learner."""
        return {name: value for name, value in vars(self).items() if name != "_bound"}

    def _step(self, episode: InsideEpisode) -> None:
        if self.core is None:
            super()._step(episode)
        else:
            self.core.observe(episode)

    def _empty_state(self) -> SpotState:
        f = self.interface
        pairs = f.S * f.A
        logits, pi = np.where(f.mask, 0.0, -np.inf), np.zeros((f.H, f.S, f.A))
        return SpotState(
            logits=logits,
            pi=pi,
            flat_logits=logits.reshape(-1),
            flat_pi=pi.reshape(-1),
            lam=np.zeros(f.m),
            lower=np.zeros(f.m),
            upper=np.full(f.m, float(f.H)),
            finished=np.zeros(1, np.int64),
            mask=np.array(f.mask.reshape(f.H, pairs), order="C"),  # one type, whatever the mask
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

    def _make_rates(self, now: Epoch) -> SpotRates:
        f, o, length = self.interface, self.options, now.length
        eta, step = o.policy_step, o.dual_step
        times = AUTO_STEPS if o.bonus_scale == "auto" else 1.0
        if eta is None:
            eta = times * math.sqrt(
                2.0 * math.log(f.A) / (f.H**2 * (1.0 + f.m * self.rho) ** 2 * length)
            )
        if step is None:
            step = times * self.rho / math.sqrt(f.m * f.H**2 * length)
        return SpotRates(
            radii=epoch_radii(f, o, now, bernstein=o.bonus == "bernstein"),
            eta=float(eta),
            step=float(step),
            xi=o.xi,
            rho=self.rho,
            start=f.S if f.start is None else f.start,
            learned=o.thresholds is None,
        )


register(SpotRates, spot_step)
