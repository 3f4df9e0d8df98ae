"""Exploring plans: optimistic in what they pay, careful with the limits.

A plan in the model of the counts with imaginary visits to the best that can be, plus a bonus: standard errors of
``L = V_r + sum_i lambda_i V_gi`` of every pair (`planning.errors`), all of it paid in *reward*, so that a pair that was
unlucky in its constraint is tried again and yet the plan keeps its limits in the model, with a margin of some standard
errors of V_g, which the stance may take off. What exploring episodes fell short by and have not made up for is added
whatever the stance.

How much of a phase explores follows from what such a plan promises beyond the best plan of the pessimistic model.
"""

from __future__ import annotations

from typing import NamedTuple

from ..arrays import Float
from ..planning.counted import Counted, Known
from ..planning.errors import standard_errors, with_bonus
from ..planning.process import Plan, best_plan
from .epoch_options import Recipe
from .phases import Memory, PhaseState


class Exploration(NamedTuple):
    """An exploring plan, and the share of a phase that it is worth, which counts where the phase begins."""

    plan: Plan
    share: float


def explore(
    model: Counted,
    known: Known,
    state: PhaseState,
    limits: Float,
    side: float,
    recipe: Recipe,
    *,
    sure: Counted | None = None,
) -> Exploration:
    """Plan to explore for `limits` ``[m]``, on the `side` 1 - 2 xi of them; the less is to learn, the less of it.

    What there is to learn is by how much its reward exceeds that of the best plan in a model that is `sure`. In the
    middle of a phase there is no such model, and the share is 0.
    """
    t, prices = int(state.finished[0]), state.memory[Memory.PRICE]
    hopeful = with_bonus(model, known, state.pi, prices, recipe.curiosity)
    margin = recipe.care * standard_errors(hopeful, known, state.pi, t)[1][1:]
    owed = state.memory[Memory.OWED] / recipe.repayment
    targets = limits + side * margin + owed
    plan = best_plan(hopeful.process, targets)
    if sure is None:
        return Exploration(plan, 0.0)
    best = float(best_plan(sure.process, targets).values[0])
    promised = (float(plan.values[0]) - best) / max(best, 1e-9)
    return Exploration(plan, min(recipe.exploring, recipe.eagerness * promised))
