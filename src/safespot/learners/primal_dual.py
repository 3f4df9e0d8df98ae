"""Common parts of learners that move policy and multipliers in every episode: derived values, epochs, files."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

import numpy as np

from ..arrays import Int
from ..errors import InvalidFile
from ..spot.optimism import refresh_all
from ..spot.updates import softmax
from .doubling import Epoch, epoch_at, is_over
from .limits import derive_bounds, dual_bound, first_bounds
from .options import DualOptions
from .tabular import TabularLearner


class PrimalDual(TabularLearner):
    """A learner whose policy is the softmax of logits, and whose step is a kernel (`compiled_step`)."""

    options: DualOptions
    epoch: Epoch
    carried = ("logits", "lam", "finished")

    def __init__(self, *interface: Any, **options: Any) -> None:
        super().__init__(*interface, **options)
        self.rho = dual_bound(self.interface, self.options)
        self.state = self._empty_state()
        bounds = first_bounds(self.interface, self.options, self.declared)
        self.state.lower[:], self.state.upper[:] = bounds
        self._derive()

    @abstractmethod
    def _empty_state(self) -> Any:
        """Return the state before the first episode, all logits and multipliers 0; derived values may be anything."""

    @abstractmethod
    def _make_rates(self, now: Epoch) -> Any:
        """Return the constants of an epoch's steps."""

    def settle(self) -> None:
        """Begin the next epoch where one has just ended (anytime use)."""
        if is_over(self):
            self._begin_epoch()

    def _begin_epoch(self) -> None:
        """Begin a new epoch with logits and multipliers of 0; counts and window carry over."""
        self.state.logits[:] = np.where(self.interface.mask, 0.0, -np.inf)
        self.state.lam[:] = 0.0
        self._derive()

    def _derive(self) -> None:
        """Derive rates, policy, model and threshold bounds from options, logits and counts."""
        f, state = self.interface, self.state
        now = epoch_at(self.episode, self.options.episodes)
        self.rates = self._make_rates(now)
        if self.core is not None:
            self.core.derive()
        else:
            softmax(state.flat_logits, state.flat_pi, f.A, 0, f.H * f.S, state.scratch.softmax)
            self._derive_model()
            if self.rates.learned:
                derive_bounds(self.window, self.rates.radii, state.lower, state.upper)
        self.epoch = now  # last, so that `settle` repeats what was interrupted

    def _derive_model(self) -> None:
        """Derive the values of every pair that planning reads."""
        state = self.state
        refresh_all(
            self.rates.radii,
            self.statistics,
            state.mask,
            state.deficit,
            state.weight,
            state.max_deficit,
        )

    def _check_fields(self, fields: dict[str, Any], n: Int) -> None:
        logits = fields["logits"]
        if not (
            (logits <= 0.0).all()
            and (np.exp(logits).sum(axis=2) > 0.49).all()
            and ((logits == -np.inf) == ~self.interface.mask).all()
        ):
            raise InvalidFile("its logits are those of no policy")
