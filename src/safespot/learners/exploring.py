"""Exploring plans: optimistic in what they pay, careful with the limits.

A plan in the model of the counts with imaginary visits to the best that can be, plus a bonus: standard errors of
``L = V_r + sum_i lambda_i V_gi`` of every pair (`model_errors.with_bonus`), all of it paid in *reward*, so that a pair
that was unlucky in its constraint is tried again and yet the plan keeps its limits in the model, with a margin of some
standard errors of V_g, which the stance may take off. What exploring episodes fell short by and have not made up for is
added whatever the stance.
"""

from __future__ import annotations

from typing import NamedTuple

from ..arrays import Float
from .epoch_options import Recipe
from .model_errors import standard_errors, with_bonus
from .phases import Memory, PhaseState
from .pooled_models import Counted, Known, Plan, best_plan


class Exploration(NamedTuple):
    """An exploring plan, and the share of a phase that it is worth."""

    plan: Plan
    share: float


def explore(
    model: Counted, known: Known, state: PhaseState, limits: Float, side: float, recipe: Recipe
) -> Exploration:
    """The exploring plan for `limits` ``[m]``, on the `side` 1 - 2 xi of them; the less is to learn, the less of it.

    What there is to learn is by how much the bonus raises the plan's reward.
    """
    t, prices = int(state.finished[0]), state.memory[Memory.PRICE]
    hopeful = with_bonus(model, known, state.pi, prices, recipe.curiosity)
    margin = recipe.care * standard_errors(hopeful, known, state.pi, t)[1][1:]
    owed = state.memory[Memory.OWED] / recipe.repayment
    plan = best_plan(hopeful, limits + side * margin + owed)
    value = standard_errors(model, known, plan.policy, t)[0][0]
    raised = (plan.values[0] - value) / max(float(value), 1e-9)
    return Exploration(plan, min(recipe.exploring, recipe.eagerness * raised))
