"""Options of `SpotEpochs`, and the constants of its recipe."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field
from typing import Any, NamedTuple

import numpy as np

from ..arrays import SUM_TOLERANCE, Float, Policy
from ..errors import InvalidOption
from ..planning.counted import Known
from ..signals.interface import Interface
from ..signals.totals import Declared
from .options import AnyOptions, Array, Count, Scales, option_record
from .policies import given_policy, uniform_policy


class Recipe(NamedTuple):
    """The constants of `SpotEpochs`, the same for every problem; `benchmarks.epochs` is how they were chosen."""

    first_phase: int = 64  # episodes
    exploring: float = 0.5  # the share of a phase that explores, at most
    eagerness: float = (
        0.5  # that share, in parts of what exploring promises beyond the best sure plan
    )
    optimism: float = 0.05  # imaginary visits of exploring plans
    curiosity: float = (
        4.0  # standard errors of a pair that are added to its reward in exploring plans
    )
    care: float = 1.0  # standard errors of V_g that are the margin of exploring plans
    repayment: float = 200.0  # episodes in which exploring makes up for what it fell short by
    patience: int = 100  # no new exploring plan before 1 / patience of all episodes
    work: int = (
        5_000  # transitions that a plan may read per step of the episodes until the next one
    )
    pessimism: float = 0.1  # imaginary visits of proposals
    caution: float = 1.0  # standard errors of V_g that are part of the margin of proposals
    mixture: float = 1.15  # what a mixture costs where its prior is largest, in ln(1/share)
    power: float = (
        1.0  # standard errors by which a trial may fall short of its mean and succeed still
    )
    hope: float = 0.5  # of a margin that no policy has: with so much of it a first proof is tried
    halvings: int = 10  # of a margin that no policy has


@option_record
class EpochsOptions(AnyOptions):
    """The options of `SpotEpochs`; every one of them has a default.

    Examples:
        >>> import safespot as ss
        >>> ss.learners.EpochsOptions(stance=0.5).xi
        0.5

    Args:
        episodes: T, if it is known; nothing depends on it.
        thresholds: the limits where they are known, ``[m]`` or ``[m,H]``; None: they are learned.
        stance: "pessimistic" adds the margin, "optimistic" takes it off, 0.5 has none; or xi in [0,1]. What breaks of
            limits have shown is added under all of them.
        window: gamma in (0,1]; below 1 thresholds may drift, and nothing is certified.
        delta: with probability 1 - delta no certificate is ever false.
        baseline: a policy ``[H,S,A]`` or ``[S,A]``, played first and where a trial has failed.
        known_rewards: rewards that are known and not measured, ``[S,A]`` or ``[H,S,A]``.
        known_constraints: the same of all constraints, ``[m,S,A]`` or ``[m,H,S,A]``.
        explore_budget: how much violation exploring may cost in all, a number or one for each constraint, in the
            user's units. It is kept with probability 1 - delta. The first 64 episodes and trials are no part of it; a
            `Guard` caps all that is played.

    """

    episodes: Count | None = None
    baseline: Array | None = field(default=None, compare=False, repr=False)
    known_rewards: Array | None = field(default=None, compare=False, repr=False)
    known_constraints: Array | None = field(default=None, compare=False, repr=False)
    explore_budget: Scales = None

    @property
    def side(self) -> float:
        """The side of the limits on which a margin lies: 1 above, -1 below."""
        return 1.0 - 2.0 * self.xi


def first_policy(f: Interface, baseline: Policy | None) -> Policy:
    """Return the baseline, or all admissible actions alike."""
    return uniform_policy(f) if baseline is None else given_policy(f, "baseline", baseline)


def known_payoffs(f: Interface, options: EpochsOptions) -> Known:
    """Return known rewards and constraints, inside."""
    rewards, constraints = options.known_rewards, options.known_constraints
    components = np.repeat([rewards is not None, constraints is not None], [1, f.m])
    steps = max(
        _steps("known_rewards", rewards, (), f), _steps("known_constraints", constraints, (f.m,), f)
    )
    payoffs = np.zeros((1 + f.m, steps, f.S * f.A))
    if rewards is not None:
        payoffs[0] = f.units.reward.inside(rewards).reshape(-1, f.S * f.A)
    if constraints is not None:
        inside = f.units.constraints.inside(np.moveaxis(constraints, 0, -1))
        payoffs[1:] = np.moveaxis(inside, -1, 0).reshape(f.m, -1, f.S * f.A)
    admissible = (f.mask if steps > 1 else f.mask.any(axis=0, keepdims=True)).reshape(steps, -1)
    outside = (np.abs(payoffs - 0.5) > 0.5 + SUM_TOLERANCE) & admissible
    if outside.any():
        raise InvalidOption(
            "known rewards or constraints lie outside the declared ranges; declare the ranges that they have."
        )
    return Known(payoffs.clip(0.0, 1.0), components)


def _steps(name: str, given: Float | None, shape: Sequence[int], f: Interface) -> int:
    """Return the number of steps of known payoffs: H where they depend on the step, else 1."""
    if given is None:
        return 1
    if given.shape not in ((*shape, f.S, f.A), (*shape, f.H, f.S, f.A)):
        raise InvalidOption(
            f"{name} have shape {given.shape}; expected {[*shape, f.S, f.A]} or "
            f"{[*shape, f.H, f.S, f.A]}."
        )
    return f.H if given.ndim == 3 + len(shape) else 1


def explore_budget(f: Interface, declared: Declared, given: Any) -> Float:
    """Return the budget ``[m]`` in inside units; empty without one."""
    if given is None:
        return np.empty(0)
    budget, scale = np.asarray(given, float), np.abs(f.units.constraints.scale)
    if budget.shape not in ((), (f.m,)) or (budget / scale < -declared.least).any():
        raise InvalidOption(
            f"explore_budget is {given}; expected a number, or one for each of the {f.m} "
            f"constraints, of at least {(-declared.least * scale).tolist()}: one episode can cost as much."
        )
    return np.asarray(np.broadcast_to(budget / scale, (f.m,)), np.float64).copy()
