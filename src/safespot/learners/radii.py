"""Confidence radii of a model of counts, of all pairs at once; `spot.optimism` has those of one pair, for the step."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..arrays import Float, Int
from ..planning.counted import Pooled
from ..spot.optimism import Radii


def bernstein(radii: Radii, n: Any, counted: Float) -> tuple[Float, Float]:
    """Return ``p_hat`` and its radius, by the empirical Bernstein inequality of Maurer and Pontil.

    ``c (sqrt(2 p(1-p) l / (n-1)) + 7 l / (3 (n-1)))``, l = ln(10 S^2 A H T / delta). Two sides of S^2 A H T
    inequalities at confidence ``2 exp(-l)`` each leave 0.4 delta. All of [0,1] for n <= 1.
    """
    p, left = counted / np.maximum(n, 1), np.maximum(n - 1, 1)
    radius = np.sqrt(p * (1.0 - p) * (2.0 * radii.L_b / left)) + 7.0 * radii.L_b / (3.0 * left)
    return p, np.where(n > 1, radii.bonus_scale * radius, 1.0)


def empirical_variation(radii: Radii, n: Float, rows: Int, counts: Float) -> Float:
    """Return how far true rows can be from the counted ones, ``[rows]``, at most 1: the smaller of two bounds.

    ``c sqrt((S + L_p) / n)`` (D3), and for n > 1 the sum of the Bernstein radii of the successors that were seen:
    the total variation is the sum of the positive parts of ``p_hat - p``. 1 without data. `rows` ``[entries]`` says
    which of the rows the `counts` belong to.
    """
    radius = radii.bonus_scale * np.sqrt((radii.S + radii.L_p) / np.maximum(n, 1))
    seen = np.bincount(rows, np.minimum(*bernstein(radii, n[rows], counts)), len(n))
    radius = np.where(n > 1, np.minimum(radius, seen), radius)
    return np.where(n > 0, np.minimum(radius, 1.0), 1.0)


def signal_radius(radii: Radii, n: Float) -> Float:
    """Return ``c sqrt(L_r / n)`` for the mean of a signal, at most 1; 1 without data."""
    radius = radii.bonus_scale * np.sqrt(radii.L_r / np.maximum(n, 1))
    return np.where(n > 0, np.minimum(radius, 1.0), 1.0)


def means(pooled: Pooled) -> Float:
    """Return the mean reward and constraints, ``[1+m, K, S*A]``; 0 without data."""
    v_hat: Float = pooled.sums / np.maximum(pooled.n, 1.0)
    return v_hat
