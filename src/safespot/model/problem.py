"""A problem: the true CMDP and how it is observed, all that is needed to play it."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..arrays import SUM_TOLERANCE, Float, as_floats, frozen
from ..display import Displayed
from ..errors import InvalidModel
from ..names import Names
from ..units import ROUNDING, spread_thresholds
from .cmdp import CMDP, steps_alike
from .signals import ByOutcome, Signals
from .transitions import average_over_successors


class Problem(Displayed):
    """A CMDP and how it is observed: all that is needed to play it.

    Args:
        cmdp: the truth.
        signals: the noise laws; Bernoulli for everything by default.

    Examples:
        >>> import safespot as ss
        >>> cmdp = ss.problems.make("machine").cmdp
        >>> hints = ss.signals.Gaussian(0.2)
        >>> problem = ss.Problem(cmdp, ss.signals.Signals(rewards=ss.signals.Deterministic(), thresholds=hints))
        >>> print(problem.interface["states"], problem.interface["senses"], problem.signals.thresholds)
        2 ('<=',) Gaussian(sd=0.2)

    """

    cmdp: CMDP
    signals: Signals
    target: Float  # [m, H]: where the thresholds drift to, inside
    stationary: bool  # p, r and g do not depend on the step
    outcomes: Float  # [m, S*A, S]: means of constraint signals given the next state, inside; empty: they do not depend

    def __init__(self, cmdp: CMDP, signals: Signals | None = None) -> None:
        if not isinstance(cmdp, CMDP):
            raise InvalidModel(f"a Problem needs a CMDP, got {type(cmdp).__name__}.")
        if not isinstance(signals, Signals | None):
            raise InvalidModel(f"signals must be a Signals, got {type(signals).__name__}.")
        signals = Signals() if signals is None else signals
        alpha = cmdp.model.alpha
        target = alpha
        if signals.drift is not None:
            _, target = spread_thresholds(
                as_floats("drift thresholds", signals.drift.thresholds), cmdp.H, cmdp.units
            )
        self.__dict__.update(
            cmdp=cmdp,
            signals=signals,
            target=target,
            stationary=steps_alike(cmdp.model),
            outcomes=_outcomes(cmdp, signals),
        )

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"a Problem is frozen; make a new one with another `{name}`.")

    def __deepcopy__(self, memo: object) -> Problem:
        return self  # frozen, and large: Gymnasium copies what environments are made of

    @property
    def interface(self) -> dict[str, Any]:
        """A learner's arguments: all that it may know."""
        cmdp = self.cmdp
        return {
            "states": cmdp.S,
            "actions": cmdp.A,
            "horizon": cmdp.H,
            "constraints": cmdp.m,
            "start": cmdp.start if isinstance(cmdp.start, int) else None,
            "action_mask": cmdp.actions,
            "senses": cmdp.senses,
            "ranges": cmdp.units.ranges,
            "stationary": self.stationary,
            **self.names.arguments,
        }

    @property
    def names(self) -> Names:
        """The names of states, actions and limits, and their units."""
        return self.cmdp.names

    def alpha(self, episode: int) -> Float:
        """Return the inside thresholds ``[m,H]`` of an episode (1-based), drift included."""
        now = self.cmdp.model.alpha
        drift = self.signals.drift
        if drift is None:
            return now
        moved: Float = now + drift.progress(episode) * (self.target - now)
        return frozen(moved)

    def __repr__(self) -> str:
        return f"<Problem {self.cmdp!r} {self.signals!r}>"

    def _facts(self) -> dict[str, Any]:
        return {**self.cmdp._facts(), "observed": repr(self.signals)}


def _outcomes(cmdp: CMDP, signals: Signals) -> Float:
    """Return the means of constraint signals by outcome, inside, whose average must be the CMDP's."""
    law, model, S, A, m = signals.constraints, cmdp.model, cmdp.S, cmdp.A, cmdp.m
    if not isinstance(law, ByOutcome):
        return frozen(np.empty((0, 0, 0)))
    if law.means.shape != (m, S, A, S) or model.payoffs.shape[1] > 1:
        raise InvalidModel(
            f"means by outcome have shape {law.means.shape}; expected {[m, S, A, S]}, of a CMDP whose steps are alike."
        )
    inside = cmdp.units.constraints.inside(np.moveaxis(law.means, 0, -1))  # [S,A,S,m]
    means = np.ascontiguousarray(np.moveaxis(inside, -1, 0)).reshape(m, S * A, S)
    average = np.stack([average_over_successors(model.P, each) for each in means])
    wrong = (np.abs(average - model.payoffs[1:, 0]) > SUM_TOLERANCE) & model.mask[0]
    if wrong.any() or (means < -ROUNDING).any() or (means > 1.0 + ROUNDING).any():
        raise InvalidModel(
            "means by outcome must lie in the declared ranges, and their average over the next states must be the "
            "CMDP's constraint of every state and action."
        )
    return frozen(means.clip(0.0, 1.0))
