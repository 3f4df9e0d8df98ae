"""What all policies together can achieve: the pairs (constraint i, reward) of every policy, and of those within limits.

The values of all policies are a convex polytope, whose corners are deterministic policies; backward induction finds
the farthest corner in any direction. With one constraint corners are found until an eye sees no more of them; with
more, directions are drawn as well. Limits cut the polytope; the best policy within them is the oracle's, so it is
exact.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.spatial import ConvexHull, QhullError

from ..arrays import Float
from ..errors import Infeasible
from ..model.cmdp import CMDP
from ..model.oracle import solve
from ..planning.process import best_response, plan_values

PRECISION = 5e-4  # of the polygon's size: what an eye does not see
DEPTH = 6  # how often an edge is divided at most
DIRECTIONS = 128  # that are drawn where there are several constraints


@dataclass(frozen=True, eq=False)
class Feasible:
    """The policies within some limits: for each constraint i a polygon of (constraint i, reward), and the optimum."""

    polygons: tuple[Float, ...]  # [m] of [k, 2]
    constraints: Float  # [m]: the optimum's
    reward: float


class Region:
    """The achievable values of a CMDP, inside: ``corners`` ``[k, 1+m]``."""

    def __init__(self, cmdp: CMDP) -> None:
        self.cmdp = cmdp
        found: list[Float] = []
        for i in range(cmdp.m):
            plane = np.zeros((2, 1 + cmdp.m))
            plane[0, 1 + i] = plane[1, 0] = 1.0
            found += _around(cmdp, plane)
        if cmdp.m > 1:
            drawn = np.random.default_rng(0).standard_normal((DIRECTIONS, 1 + cmdp.m))
            found += [_farthest(cmdp, weights) for weights in drawn]
        self.corners: Float = np.unique(np.array(found), axis=0)

    def achievable(self, i: int) -> Float:
        """The polygon ``[k, 2]`` of (constraint i, reward) that policies have, in the user's terms."""
        return self._outside(self.corners[:, [1 + i, 0]], i)

    def feasible(self, limits: Float) -> Feasible | None:
        """Those that keep `limits` ``[m]``, in the user's terms; None: there are none."""
        cmdp, terms = self.cmdp, self.cmdp.units.constraints
        inside = terms.total_inside(limits, cmdp.H).clip(0.0, cmdp.H)
        try:
            best = solve(cmdp.with_thresholds(terms.total_outside(inside, cmdp.H)))
        except Infeasible:
            return None
        reward = cmdp.units.reward.total_inside(best.value, cmdp.H)
        point = np.r_[reward, terms.total_inside(best.constraints, cmdp.H)]
        kept = self.corners
        for j in range(cmdp.m):
            if kept[:, 1 + j].min() < inside[j]:
                kept = _extreme(_cut(kept, 1 + j, inside[j]))
        kept = np.vstack([kept, point])
        polygons = tuple(self._outside(kept[:, [1 + i, 0]], i) for i in range(cmdp.m))
        return Feasible(polygons, best.constraints, best.value)

    def _outside(self, points: Float, i: int) -> Float:
        units, H = self.cmdp.units, self.cmdp.H
        x = H * units.constraints.offset[i] + units.constraints.scale[i] * points[:, 0]
        return hull(np.column_stack([x, units.reward.total_outside(points[:, 1], H)]))


def hull(points: Float) -> Float:
    """The corners ``[k, 2]`` of a cloud, in their order; of points on one line its two ends."""
    try:
        return points[ConvexHull(points).vertices]
    except QhullError:
        order = np.lexsort(points.T)
        return np.unique(points[order[[0, -1]]], axis=0)


def _farthest(cmdp: CMDP, weights: Float) -> Float:
    return plan_values(cmdp.process, best_response(cmdp.process, weights))


def _around(cmdp: CMDP, plane: Float) -> list[Float]:
    """The corners ``[1+m]`` that are seen when all is projected on a plane ``[2, 1+m]``."""
    axes = np.array([[1.0, 0.0], [0.0, 1.0], [-1.0, 0.0], [0.0, -1.0]])
    corners = [_farthest(cmdp, axis @ plane) for axis in axes]
    size = max(float(np.ptp(corners @ plane.T, axis=0).max()), 1e-9)
    found = list(corners)
    for first, second in zip(corners, [*corners[1:], corners[0]], strict=True):
        found += _between(cmdp, plane, first, second, PRECISION * size, DEPTH)
    return found


def _between(
    cmdp: CMDP, plane: Float, first: Float, second: Float, precision: float, depth: int
) -> list[Float]:
    """The corners between two that follow each other, counter-clockwise."""
    along = plane @ (second - first)
    length = float(np.hypot(*along))
    if depth == 0 or length <= precision:
        return []
    outward = np.array([along[1], -along[0]]) / length
    corner = _farthest(cmdp, outward @ plane)
    if outward @ plane @ (corner - first) <= precision:
        return []
    return [
        *_between(cmdp, plane, first, corner, precision, depth - 1),
        corner,
        *_between(cmdp, plane, corner, second, precision, depth - 1),
    ]


def _cut(points: Float, axis: int, limit: float) -> Float:
    """The part of a convex hull at or above a limit: its points there, and where lines between points cross it."""
    above = points[:, axis] >= limit
    high, low = points[above], points[~above]
    if not len(high) or not len(low):
        return high
    part = (high[:, None, axis] - limit) / (high[:, None, axis] - low[None, :, axis])
    crossings = high[:, None] + part[..., None] * (low[None] - high[:, None])
    return np.vstack([high, crossings.reshape(-1, points.shape[1])])


def _extreme(points: Float) -> Float:
    """The corners; beyond a plane about these: the farthest in many directions, since a hull would be slow there.

    Half of the directions lie in the planes that are drawn.
    """
    dimensions = points.shape[1]
    if dimensions == 2 and len(points):
        return hull(points)
    if len(points) <= 2 * DIRECTIONS:
        return points
    drawn = np.random.default_rng(0).standard_normal((2 * DIRECTIONS, dimensions))
    each = np.array_split(np.arange(DIRECTIONS), dimensions - 1)
    for i, rows in enumerate(each, 1):
        angles = np.linspace(0.0, 2.0 * np.pi, len(rows), endpoint=False)
        drawn[rows] = 0.0
        drawn[rows, i], drawn[rows, 0] = np.cos(angles), np.sin(angles)
    corners: Float = points[np.unique((points @ drawn.T).argmax(axis=0))]
    return corners
