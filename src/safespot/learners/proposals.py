"""Proposals: the pessimistic plan with a margin that is tried next, or deployed.

    argmax V_r   subject to   V_g >= alpha_xi + (1 - 2 xi) margin        in the model of the counts

The margin is the sum of

- the standard error of V_g in the model (delta method, `model_errors`),
- what its trial needs to prove it: ``deviation sqrt(2 ln(1/share) / length)``, with the deviation of the last trial,
- what the model was off by, as the last break showed; and after each further break in a row it is at least twice as
  wide.

Where no policy has that margin it is halved, and halved again, and then the plan with the largest margin is tried. No
guarantee rests on a margin; what it is good for is that trials succeed.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from ..arrays import Float
from .epoch_options import Recipe
from .epoch_trials import TrialRates
from .model_errors import standard_errors
from .phases import BREAKS, Memory, PhaseState
from .pooled_models import Counted, Known, Plan, best_plan, widest_plan


class Proposal(NamedTuple):
    """A plan to try."""

    plan: Plan
    margin: Float  # [m]: that was wanted
    promised: Float  # [m]: V_g - alpha as the model has it


def propose(
    model: Counted,
    known: Known,
    state: PhaseState,
    limits: Float,
    side: float,
    needs: Float,
    recipe: Recipe,
    *,
    proof: bool,
) -> Proposal:
    """The plan for `limits` ``[m]``, on the `side` 1 - 2 xi of them; `needs` ``[m]`` is what its trial needs.

    With `proof` a first proof is worth more than reward: where no policy has the margin, the plan with the largest one
    is tried, if that comes near.
    """
    t, memory = int(state.finished[0]), state.memory
    least = 2.0 * memory[Memory.MARGIN] if state.clock[BREAKS] > 1 else np.zeros(len(limits))
    plan, margin = plan_with_margin(
        model,
        known,
        t,
        limits,
        side,
        needs + memory[Memory.ERROR],
        recipe,
        least=least,
        proof=proof,
    )
    values = standard_errors(model, known, plan.policy, t)[0]
    return Proposal(plan, margin, values[1:] - (state.lower + state.upper) / 2.0)


def plan_with_margin(
    model: Counted,
    known: Known,
    episodes: int,
    limits: Float,
    side: float,
    margin: Float,
    recipe: Recipe,
    *,
    least: Float | float = 0.0,
    proof: bool = False,
) -> tuple[Plan, Float]:
    """The plan with `margin` ``[m]`` and its own standard errors, at least `least`; and the margin that was wanted."""
    plan = best_plan(model, limits + side * margin)
    errors = standard_errors(model, known, plan.policy, episodes)[1][1:]
    margin = wanted = np.maximum(margin + recipe.caution * errors, least)
    columns = plan.columns
    if proof and side > 0.0 and not best_plan(model, limits + side * margin, columns).feasible:
        plan = widest_plan(model, limits, columns)
        values = standard_errors(model, known, plan.policy, episodes)[0][1:]
        if (values - limits >= recipe.hope * side * margin).all():
            return plan, wanted
    for _ in range(recipe.halvings):
        plan = best_plan(model, limits + side * margin, columns)
        if plan.feasible:
            return plan, wanted
        margin = margin / 2.0
    return widest_plan(model, limits, columns), wanted


def trial_needs(
    rates: TrialRates, state: PhaseState, hints: Float, length: int, recipe: Recipe, *, trial: bool
) -> Float:
    """``[m]``: what a trial of `length` episodes that begins now needs to prove a proposal, beyond alpha_xi.

    Its radius is ``sqrt(2 l) sqrt(Var(g) / n + Var(x) / (N + n))`` (`epoch_trials`), of which the bound of the
    threshold covers a part; `hints` ``[m]`` is the standard deviation of x, 0 where the trial goes without x. With
    `trial` it is to succeed also if it falls short of its mean by a standard error.
    """
    power = recipe.power if trial else 0.0
    seen = int(state.finished[0]) + length
    error = np.sqrt(state.memory[Memory.SPREAD] ** 2 / length + rates.learned * hints**2 / seen)
    mixtures = recipe.mixture * (1 + rates.learned)
    radius = (math.sqrt(2.0 * (rates.level + mixtures)) + power) * error
    covered = np.where(hints > 0.0, (state.upper - state.lower) / 2.0, 0.0)
    needed: Float = (radius - covered).clip(0.0)
    return needed
