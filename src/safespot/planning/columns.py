"""Column generation: the best mixture of plans under constraints, from a pricing function alone.

    maximize  sum_j x_j v_j0   subject to  sum_j x_j v_ji >= b_i for all i,  x a distribution

over a set of plans that is far too large to list, given a way to find the plan that maximizes any
weighted sum of its values (for a CMDP, backward induction on r + lambda·g). A small master linear
program mixes the plans found so far, exactly (`simplex`); its duals lambda are the weights of the next
pricing. Every pricing also gives an upper bound, ``max_j v_j0 + lambda·(v_j - b)``, so the answer carries
a certified gap.

Nothing here knows what a plan is, or where its values come from.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, NamedTuple, TypeVar

import numpy as np

from ..arrays import Float
from ..errors import SolverError
from .simplex import Simplex

Plan = TypeVar("Plan")
TOLERANCE = 1e-10  # how far from the best a value may be, and from its threshold
NARROW = 1e-6  # with less room than this, rounding in the values of plans counts
ROUNDING = 1e-12  # and it is less than this
ITERATIONS = 10_000


class Column(NamedTuple, Generic[Plan]):
    """A plan and its values ``[1+m]``: the objective, then the constraints."""

    values: Float
    plan: Plan


Price = Callable[[Float], Column[Plan]]  # weights [1+m] -> the plan with the largest weighted sum


@dataclass(frozen=True)
class Mixture(Generic[Plan]):
    """A distribution over plans, with what it achieves and how far from the best it can be."""

    weights: Float  # [plans]
    plans: tuple[Plan, ...]
    values: Float  # [1+m]
    multipliers: Float  # [m]
    bound: float  # no mixture has a larger objective
    columns: tuple[Column[Plan], ...]  # every column that was priced, to start the next search


def best_mixture(
    price: Price[Plan], thresholds: Float, columns: tuple[Column[Plan], ...] = ()
) -> Mixture[Plan] | None:
    """Return the mixture with the largest objective that keeps every threshold; None: there is none.

    `columns` from an earlier search over the same plans are reused.
    """
    free = price(np.eye(1, 1 + len(thresholds))[0])
    if (free.values[1:] >= thresholds).all():
        zeros = np.zeros(len(thresholds))
        value = float(free.values[0])
        return Mixture(np.ones(1), (free.plan,), free.values, zeros, value, (free, *columns))
    size = _size(thresholds, free.values)
    widest = largest_margin(price, thresholds, (free, *columns), enough=NARROW * size)
    if widest.bound < -TOLERANCE * size:
        return None
    reach = float((widest.values[1:] - thresholds).min())
    # Where there is hardly any room, plans whose values differ by rounding alone must not lie on both sides of it.
    room = ROUNDING * size - min(reach, 0.0) if reach < NARROW * size else 0.0
    return _generate(price, thresholds - room, widest.columns, margin=False, enough=np.inf)


def largest_margin(
    price: Price[Plan],
    thresholds: Float,
    columns: tuple[Column[Plan], ...] = (),
    *,
    enough: float = np.inf,
) -> Mixture[Plan]:
    """Return the mixture that maximizes ``min_i (v_i - b_i)``; `bound` bounds that margin from above.

    The search ends early once that margin is known to be at least `enough`, or at most its negative.
    """
    m = len(thresholds)
    if not columns:
        columns = (price(np.r_[0.0, np.full(m, 1.0 / m)]),)
    return _generate(price, thresholds, columns, margin=True, enough=enough)


def _generate(
    price: Price[Plan],
    thresholds: Float,
    columns: tuple[Column[Plan], ...],
    *,
    margin: bool,
    enough: float,
) -> Mixture[Plan]:
    """Search for the largest common `margin`, or for the largest ``v_0`` within the thresholds."""
    objective = 0.0 if margin else 1.0
    near = (ROUNDING if margin else TOLERANCE) * _size(thresholds, columns[0].values)
    pool, seen = list(columns), {column.values.tobytes() for column in columns}
    master = Simplex([_entries(column, thresholds) for column in pool], margin=margin)
    bound, multipliers = np.inf, np.zeros(len(thresholds))
    for _ in range(ITERATIONS):
        value, x, duals = master.solve()
        weights = np.array([objective, *duals])
        column = price(weights)
        reached = float(weights @ column.values - weights[1:] @ thresholds)
        if reached < bound:
            bound, multipliers = reached, weights[1:]
        known = column.values.tobytes() in seen
        if known or bound - value <= near or value >= enough or bound <= -enough:
            break
        master.add(*_entries(column, thresholds))
        pool.append(column)
        seen.add(column.values.tobytes())
    else:
        raise SolverError(f"column generation did not converge within {ITERATIONS} columns.")
    active = [j for j, share in enumerate(x) if share > 0.0]
    shares = np.array([x[j] for j in active])
    shares /= shares.sum()
    values = shares @ np.array([pool[j].values for j in active])
    plans = tuple(pool[j].plan for j in active)
    return Mixture(shares, plans, values, multipliers, bound, tuple(pool))


def _entries(column: Column[Plan], thresholds: Float) -> tuple[float, list[float]]:
    """Return a column of the master program: its objective, and ``v - b``."""
    return float(column.values[0]), (column.values[1:] - thresholds).tolist()


def _size(*values: Float) -> float:
    """Return the largest absolute value, at least 1: tolerances are shares of it."""
    return max(1.0, *(float(np.abs(some).max()) for some in values))
