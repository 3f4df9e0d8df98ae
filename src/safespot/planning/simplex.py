"""The simplex method in exact arithmetic, for programs of few rows that gain a column at every solve.

    maximize  sum_j x_j c_j   subject to  sum_j x_j e_ji - t >= 0 for all i,  x a distribution,  t >= 0

or, with t free, maximize t, the common margin. Where limits can only just be kept the feasible set is 1e-12 wide and
bases are all but singular: in floating point a solver then gives up, or takes rounding for a verdict. Exact arithmetic
has no tolerances and always ends (Bland's rule), and with so few rows it takes less time than a call of a solver.

Numbers are integers, in units of ``1 / UNITS``. With D the determinant of the basis matrix B, ``D B^-1`` is an integer
matrix too, and the division in its update leaves no remainder (Edmonds 1967, "Systems of distinct representatives").
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import mul
from typing import NamedTuple

UNITS = 2**60  # numbers are rounded to 1e-18, far below the rounding errors that they come with


class Optimum(NamedTuple):
    """The best value over the columns so far."""

    value: float
    weights: list[float]  # [columns]
    duals: list[float]  # [m], >= 0: one for each e_i; where t is maximized they sum to one


class Simplex:
    """The program over its first columns ``(c, e)`` and those added later; a solve begins where the last one ended.

    With `margin` it is t that is maximized; without, some mixture of the first columns must have ``e >= 0``.
    """

    def __init__(self, columns: Sequence[tuple[float, Sequence[float]]], *, margin: bool) -> None:
        m = len(columns[0][1])
        self.m, self.margin = m, True
        # The variables are the surplus of each e_i, t, and the columns; the last row is sum_j x_j = 1.
        identity = [[int(i == j) for j in range(m + 1)] for i in range(m + 1)]
        self.columns = [[-x for x in row] for row in identity[:m]] + [[-1] * m + [0]]
        self.costs = [0] * m + [1]
        for column in columns:
            self.add(*column)
        # The basis of the surpluses and the first column, [-I e; 0 1], is its own inverse. Then t, which is free, takes
        # the place of the smallest surplus, and that makes the others nonnegative.
        first = self.columns[m + 1]
        self.basis, self.determinant = [*range(m), m + 1], 1
        self.inverse = [[*self.columns[i][:m], first[i]] for i in range(m)] + [identity[m]]
        self.prices = [0] * (m + 1)  # D c_B B^-1
        self._pivot(m, self._direction(m), first.index(min(first[:m])))
        if not margin:
            if self.solve().value < 0.0:
                raise ValueError("no mixture of the first columns has e >= 0")
            self.margin = False
            self.costs = [0] * (m + 1) + [_units(cost) for cost, _ in columns]
            basic = [self.costs[j] for j in self.basis]
            self.prices = [_dot(basic, entries) for entries in zip(*self.inverse, strict=True)]

    def add(self, cost: float, excess: Sequence[float]) -> None:
        """Append a column with this cost and these excesses."""
        self.costs.append(0 if self.margin else _units(cost))
        self.columns.append([*map(_units, excess), 1])

    def solve(self) -> Optimum:
        """Return the optimum over all columns so far."""
        while (entering := self._entering()) is not None:
            direction = self._direction(entering)
            self._pivot(entering, direction, self._leaving(direction))
        D, weights = self.determinant, [0.0] * (len(self.columns) - self.m - 1)
        for j, row in zip(self.basis, self.inverse, strict=True):
            if j > self.m:
                weights[j - self.m - 1] = row[-1] / D  # x_B = B^-1 (0, ..., 0, 1)
        *duals, value = self.prices
        return Optimum(value / (D * UNITS), weights, [-y / D for y in duals])

    def _entering(self) -> int | None:
        """Return the newest variable of positive reduced cost, ``c_j - c_B B^-1 a_j``; None at the optimum."""
        for j in range(len(self.columns) - 1, -1, -1):
            if self._reduced_cost(j) > 0:
                return j
        return None

    def _reduced_cost(self, j: int) -> int:
        return self.costs[j] * self.determinant - _dot(self.prices, self.columns[j])

    def _direction(self, entering: int) -> list[int]:
        """Return ``D B^-1 a_j``: what one unit of the entering variable takes from those of the basis."""
        return [_dot(row, self.columns[entering]) for row in self.inverse]

    def _leaving(self, direction: list[int]) -> int:
        """Return the row of the basis whose variable reaches zero first; of several, that of the newest."""
        best = -1
        for r, (j, d) in enumerate(zip(self.basis, direction, strict=True)):
            if d <= 0 or (self.margin and j == self.m):  # t is free
                continue
            later = self.inverse[r][-1] * direction[best] - self.inverse[best][-1] * d
            if best < 0 or later < 0 or (later == 0 and j > self.basis[best]):
                best = r
        return best

    def _pivot(self, entering: int, direction: list[int], leaving: int) -> None:
        """Exchange one variable of the basis, and bring ``D B^-1`` and the prices up to date."""
        D, pivot, fixed = self.determinant, direction[leaving], self.inverse[leaving]
        gain = self._reduced_cost(entering)
        self.prices = [(pivot * y + gain * x) // D for y, x in zip(self.prices, fixed, strict=True)]
        for r, d in enumerate(direction):
            if r != leaving:
                row = zip(self.inverse[r], fixed, strict=True)
                self.inverse[r] = [(pivot * y - d * x) // D for y, x in row]
        self.basis[leaving], self.determinant = entering, pivot


def _dot(x: Sequence[int], y: Sequence[int]) -> int:
    return sum(map(mul, x, y))


def _units(x: float) -> int:
    return round(float(x) * UNITS)
