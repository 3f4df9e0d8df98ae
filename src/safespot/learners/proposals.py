"""Proposals: the pessimistic plan with a margin that is tried next, or deployed.

    argmax V_r   subject to   V_g >= alpha_xi + (1 - 2 xi) margin + shown        in the model of the counts

The margin is what chance may do, so the stance may take it off:

- the standard error of V_g in the model (delta method, `planning.errors`),
- what its trial needs to prove it: ``deviation sqrt(2 ln(1/share) / length)``, with the deviation of the last trial.

What breaks have shown is added whatever the stance: by how much the last one fell short of what the model promised. And
after each further break in a row the room, the two together, is at least twice as wide, and wider by the margin.

Where no policy has the room it is halved, and halved again, and then the plan with the largest margin is tried. No
guarantee rests on a margin; what it is good for is that trials succeed.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from ..arrays import Float
from ..evidence.sequences import LARGEST
from ..evidence.trial import TrialRates
from ..planning.counted import Counted, Known
from ..planning.errors import standard_errors
from ..planning.process import Plan, best_plan, widest_plan
from .epoch_options import Recipe
from .phases import BREAKS, Memory, PhaseState


class MarginPlan(NamedTuple):
    """A plan to try."""

    plan: Plan
    room: Float  # [m]: that was wanted beyond alpha_xi
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
) -> MarginPlan:
    """Plan for `limits` ``[m]`` on the `side` 1 - 2 xi of them, with the margin `needs` ``[m]`` of the plan's trial.

    With `proof` a first proof is worth more than reward: where no policy has the margin, the plan with the largest one
    is tried, if that comes near.
    """
    t, memory = int(state.finished[0]), state.memory
    last = memory[Memory.ROOM] if state.clock[BREAKS] > 1 else None
    plan, room = plan_with_margin(
        model, known, t, limits, side, needs, recipe,
        shown=memory[Memory.ERROR], last=last, proof=proof,
    )  # fmt: skip
    values = standard_errors(model, known, plan.policy, t)[0]
    return MarginPlan(plan, room, values[1:] - (state.lower + state.upper) / 2.0)


def plan_with_margin(
    model: Counted,
    known: Known,
    episodes: int,
    limits: Float,
    side: float,
    needs: Float,
    recipe: Recipe,
    *,
    shown: Float | float = 0.0,
    last: Float | None = None,
    proof: bool = False,
) -> tuple[Plan, Float]:
    """Plan with a margin of `needs` ``[m]`` and the plan's standard errors, beside what breaks have `shown` ``[m]``.

    Returned with the room that was wanted; `last` ``[m]`` is that of the plan before, where it broke a limit too.
    """
    plan = best_plan(model.process, limits + side * needs + shown)
    errors = standard_errors(model, known, plan.policy, episodes)[1][1:]
    margin = needs + recipe.caution * errors
    room, columns = side * margin + shown, plan.columns
    if last is not None:
        room = np.maximum(room, np.maximum(2.0 * last, last + margin))
    wanted = room
    if proof and side > 0.0 and not best_plan(model.process, limits + room, columns).feasible:
        plan = widest_plan(model.process, limits, columns)
        values = standard_errors(model, known, plan.policy, episodes)[0][1:]
        if (values - limits >= recipe.hope * room).all():
            return plan, wanted
    for _ in range(recipe.halvings):
        plan = best_plan(model.process, limits + room, columns)
        if plan.feasible:
            return plan, wanted
        room = np.where(room > 0.0, room / 2.0, room)
    return widest_plan(model.process, limits, columns), wanted


def trial_needs(
    rates: TrialRates, state: PhaseState, hints: Float, length: int, recipe: Recipe, *, trial: bool
) -> Float:
    """Return the margin ``[m]`` beyond alpha_xi that a trial of `length` episodes needs to prove a proposal.

    With L what its proof and mixtures cost, its radius is ``sqrt(2 L) e`` with ``e^2 = Var(g) / n + Var(x) / (N + n)``
    (`epoch_trials`), of which the bound of the threshold covers a part; `hints` ``[m]`` is the standard deviation of x,
    0 where the trial goes without x. With `trial` it is to succeed also if it falls short of its mean by a standard
    error, and where events are rare: as the weight of the evidence is at most 0.9 parts of the range of Y, a trial of
    few episodes, or of a small spread, takes ``L / (n weight) + weight n e^2 / 2``.
    """
    n, seen = length, int(state.finished[0]) + length
    learned = len(rates.declared.alpha) == 0
    L = rates.kept_level + recipe.mixture * (1 + learned)
    error = np.sqrt(state.memory[Memory.SPREAD] ** 2 / n + learned * hints**2 / seen)
    radius = math.sqrt(2.0 * L) * error
    if trial:
        values, limits = rates.declared.values, rates.declared.limits
        w = (hints > 0.0) * learned * n / seen
        largest = LARGEST / (values[1] - values[0] + w * (limits[1] - limits[0]))
        weight = np.minimum(math.sqrt(2.0 * L) / np.maximum(n * error, 1e-12), largest)
        radius = L / (n * weight) + weight * n * error**2 / 2.0 + recipe.power * error
    covered = np.where(hints > 0.0, (state.upper - state.lower) / 2.0, 0.0)
    needed: Float = (radius - covered).clip(0.0)
    return needed
