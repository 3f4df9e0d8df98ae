"""Column generation: the best mixture of plans under constraints, from a pricing function alone.

    maximize  sum_j x_j v_j0   subject to  sum_j x_j v_ji >= b_i for all i,  x a distribution

over a set of plans that is far too large to list, given a way to find the plan that maximizes any
weighted sum of its values (for a CMDP, backward induction on r + lambda·g). A small master linear
program mixes the plans found so far; its duals lambda are the weights of the next pricing. Every pricing
also gives an upper bound, ``max_j v_j0 + lambda·(v_j - b)``, so the answer carries a certified gap.

Nothing here knows what a plan is, or where its values come from.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np

from .arrays import Float
from .errors import SolverError

Plan = TypeVar("Plan")
TOLERANCE = 1e-10  # of HiGHS; with its defaults the master stalls at a gap of 3e-8
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
    """The mixture with the largest objective that keeps every threshold; None: there is none.

    `columns` from an earlier search over the same plans are reused.
    """
    free = price(np.eye(1, 1 + len(thresholds))[0])
    if (free.values[1:] >= thresholds).all():
        zeros = np.zeros(len(thresholds))
        value = float(free.values[0])
        return Mixture(np.ones(1), (free.plan,), free.values, zeros, value, (free, *columns))
    margin = largest_margin(price, thresholds, (free, *columns), enough=0.0)
    reach = float((margin.values[1:] - thresholds).min())
    if margin.bound < -_slack(thresholds):
        return None
    # At the very edge of feasibility rounding must not make the master infeasible.
    room = max(0.0, -reach)
    return _generate(price, thresholds - room, margin.columns, objective=1.0, enough=np.inf)


def largest_margin(
    price: Price[Plan],
    thresholds: Float,
    columns: tuple[Column[Plan], ...] = (),
    *,
    enough: float = np.inf,
) -> Mixture[Plan]:
    """The mixture that maximizes ``min_i (v_i - b_i)``; `bound` bounds that margin from above.

    The search ends early once a margin above `enough` is found, or is known to be out of reach.
    """
    m = len(thresholds)
    if not columns:
        columns = (price(np.r_[0.0, np.full(m, 1.0 / m)]),)
    return _generate(price, thresholds, columns, objective=0.0, enough=enough)


def _generate(
    price: Price[Plan],
    thresholds: Float,
    columns: tuple[Column[Plan], ...],
    *,
    objective: float,
    enough: float,
) -> Mixture[Plan]:
    """Both searches: `objective` 1 maximizes ``v_0`` within the thresholds, 0 the common margin."""
    master = _Master(len(thresholds), margin=objective == 0.0)
    for column in columns:
        master.add(column.values[0], column.values[1:] - thresholds)
    found, seen = list(columns), {column.values.tobytes() for column in columns}
    bound, multipliers = np.inf, np.zeros(len(thresholds))
    for _ in range(ITERATIONS):
        value, x, duals = master.solve()
        column = price(np.r_[objective, duals])
        reached = objective * column.values[0] + duals @ (column.values[1:] - thresholds)
        if reached < bound:
            bound, multipliers = float(reached), duals
        known = column.values.tobytes() in seen
        close = bound - value <= _slack(column.values)
        # Rounding alone may not say that a margin is out of reach.
        if known or close or value >= enough or bound < -enough - _slack(thresholds):
            break
        master.add(column.values[0], column.values[1:] - thresholds)
        found.append(column)
        seen.add(column.values.tobytes())
    else:
        raise SolverError(f"column generation did not converge within {ITERATIONS} columns.")
    active = np.flatnonzero(x > 0.0)
    weights = x[active] / x[active].sum()
    plans = tuple(found[j].plan for j in active)
    values = weights @ np.array([found[j].values for j in active])
    return Mixture(weights, plans, values, multipliers, bound, tuple(found))


def _slack(values: Float) -> float:
    """How close to zero counts as zero, for values of this size."""
    return TOLERANCE * max(1.0, float(np.abs(values).max()))


class _Master:
    """The small linear program over the columns found so far, warm from one solve to the next."""

    def __init__(self, m: int, *, margin: bool) -> None:
        import highspy

        self.m, self.margin = m, margin
        self.highs = highspy.Highs()
        for option, value in (
            ("output_flag", False),
            ("threads", 1),
            ("presolve", "off"),  # it would throw the basis away
            ("primal_feasibility_tolerance", TOLERANCE),
            ("dual_feasibility_tolerance", TOLERANCE),
        ):
            self.highs.setOptionValue(option, value)
        infinity = highspy.kHighsInf
        none = np.empty(0, np.int32), np.empty(0)
        for _ in range(m):
            self.highs.addRow(0.0, infinity, 0, *none)  # sum_j x_j (v_ji - b_i) [- margin] >= 0
        self.highs.addRow(1.0, 1.0, 0, *none)  # sum_j x_j = 1
        self.rows = np.arange(m + 1, dtype=np.int32)
        if margin:
            self.highs.addCol(-1.0, -infinity, infinity, m, self.rows[:m], np.full(m, -1.0))

    def add(self, objective: float, excess: Float) -> None:
        """One more column, with ``v - b`` for its constraints."""
        cost = 0.0 if self.margin else -objective
        self.highs.addCol(cost, 0.0, np.inf, self.m + 1, self.rows, np.r_[excess, 1.0])

    def solve(self) -> tuple[float, Float, Float]:
        """The best value, the weights of the columns and the duals of the constraints."""
        self.highs.run()
        status = self.highs.getModelStatus()
        if self.highs.modelStatusToString(status) != "Optimal":
            raise SolverError(
                f"HiGHS ended with '{self.highs.modelStatusToString(status)}' on a master program "
                f"of {self.highs.getNumCol()} columns."
            )
        solution: Any = self.highs.getSolution()
        x = np.array(solution.col_value).clip(0.0)[int(self.margin) :]
        duals = np.array(solution.row_dual)[: self.m].clip(0.0)
        if self.margin:  # the free margin makes them sum to one, but for rounding
            duals = duals / duals.sum()
        return -float(self.highs.getInfo().objective_function_value), x, duals
