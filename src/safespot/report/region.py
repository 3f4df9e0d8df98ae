"""What all policies together can achieve: the pairs (constraint i, reward) of every policy, and of those within limits.

Both sets are convex polygons (of occupancy measures, a linear image). Each is found through its support function, the
farthest point in a direction: backward induction gives it for all policies, column generation for those within limits.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ..arrays import Float, Int
from ..cmdp import CMDP
from ..columns import Column, best_mixture
from ..oracle import best_plan

PRECISION = 2e-3  # of the polygon's size: what an eye does not see
DEPTH = 5  # how often an edge is divided at most

Support = Callable[[Float], Float]  # direction [2] -> the farthest point [2]


class Region:
    """The achievable values of a CMDP; plans that were found once are used again."""

    def __init__(self, cmdp: CMDP) -> None:
        self.cmdp = cmdp
        self.known: dict[bytes, Column[Int]] = {}

    def achievable(self, i: int) -> Float:
        """The polygon ``[k, 2]`` of (constraint i, reward) that policies have, in the user's terms."""

        def support(direction: Float) -> Float:
            weights = np.zeros(1 + self.cmdp.m)
            weights[1 + i], weights[0] = direction
            return self._plan(weights).values[[1 + i, 0]]

        return self._outside(polygon(support), i)

    def feasible(self, i: int, limits: Float) -> Float:
        """The same of those that keep `limits` ``[m]``; empty where none does."""
        cmdp = self.cmdp
        inside = cmdp.units.constraints.total_inside(limits, cmdp.H).clip(0.0, cmdp.H)
        if best_mixture(self._plan, inside, tuple(self.known.values())) is None:
            return np.empty((0, 2))

        def support(direction: Float) -> Float:
            # The objective is a mixture of constraint and reward, so the reward itself becomes one
            # more constraint, which always holds.
            mixed = np.zeros(1 + cmdp.m)
            mixed[1 + i], mixed[0] = direction

            def seen(column: Column[Int]) -> Column[Int]:
                return Column(np.r_[mixed @ column.values, column.values], column.plan)

            found = best_mixture(
                lambda weights: seen(self._plan(weights[0] * mixed + weights[1:])),
                np.r_[0.0, inside],
                tuple(seen(column) for column in self.known.values()),
            )
            assert found is not None  # the limits can be kept
            return found.values[[2 + i, 1]]

        return self._outside(polygon(support), i)

    def _plan(self, weights: Float) -> Column[Int]:
        plan, values = best_plan(self.cmdp.model, weights)
        return self.known.setdefault(values.tobytes(), Column(values, plan))

    def _outside(self, points: Float, i: int) -> Float:
        units, H = self.cmdp.units, self.cmdp.H
        scale, offset = units.constraints.scale[i], units.constraints.offset[i]
        return np.column_stack(
            [H * offset + scale * points[:, 0], units.reward.total_outside(points[:, 1], H)]
        )


def polygon(support: Support) -> Float:
    """The corners ``[k, 2]`` of a convex set, counter-clockwise, as exact as an eye can see."""
    axes = np.array([[1.0, 0.0], [0.0, 1.0], [-1.0, 0.0], [0.0, -1.0]])
    corners = [support(axis) for axis in axes]
    size = max(float(np.ptp(corners, axis=0).max()), 1e-9)
    found: list[Float] = []
    for first, second in zip(corners, [*corners[1:], corners[0]], strict=True):
        found += [first, *_between(support, first, second, PRECISION * size, DEPTH)]
    kept = [p for p, q in zip(found, [found[-1], *found], strict=False) if np.abs(p - q).max() > 1e-9]
    return np.array(kept or found[:1])


def _between(
    support: Support, first: Float, second: Float, precision: float, depth: int
) -> list[Float]:
    """The corners between two that follow each other."""
    along = second - first
    length = float(np.hypot(*along))
    if depth == 0 or length <= precision:
        return []
    outward = np.array([along[1], -along[0]]) / length
    corner = support(outward)
    if outward @ (corner - first) <= precision:
        return []
    return [
        *_between(support, first, corner, precision, depth - 1),
        corner,
        *_between(support, corner, second, precision, depth - 1),
    ]


def top(points: Float) -> Float | None:
    """The corner with the largest reward: the optimum of a feasible set."""
    return None if len(points) == 0 else points[points[:, 1].argmax()]
