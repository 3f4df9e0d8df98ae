"""Bounds of a sum of two means from the evidence about both, multiplied rather than bounded apart.

A mixture of the product form (`sequences`) is evidence against "the mean is at most z":

    e(z) = sum_k exp(terms_k - slopes_k z),

which a true mean reaches 1/share with probability at most `share`. Where one of two sequences begins after the other
was read, its product with what was read is a supermartingale as well: with probability 1 - share the two means lie,
at all times, in the convex set ``log e_1(u) + log e_2(v) <= ln(1/share)``. The least ``w_1 u + w_2 v`` in that set is a
lower bound of the sum. Bounds apart, half the share each, would add up the two radii; here their squares add up.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from ..arrays import Float
from ..kernels.jit import inlined, no_refcount
from .sequences import FixedMeans, Targets, crossing, log_terms

HALVINGS = 40  # of the interval in which the least sum is looked for


class LogEvidence(NamedTuple):
    """Evidence of sequences when they were read: rows of ``log e(z) = log sum_k exp(terms_k - slopes_k z)``."""

    terms: Float  # [rows, K]
    slopes: Float  # [rows, K]


def evidence_of(targets: Targets, means: FixedMeans) -> LogEvidence:
    """Return the evidence of sequences as they stand."""
    terms = np.empty_like(means.product)
    for r in range(len(terms)):
        log_terms(targets, means, r)
        terms[r] = means.terms
    return LogEvidence(terms, means.slope.copy())


@inlined
def log_evidence(terms: Float, slopes: Float, z: float) -> tuple[float, float]:
    """Return ``log e(z)``, and its derivative in z, negated."""
    top, total, slope = -np.inf, 0.0, 0.0
    for k in range(terms.shape[0]):
        top = max(top, terms[k] - slopes[k] * z)
    for k in range(terms.shape[0]):
        part = math.exp(terms[k] - slopes[k] * z - top)
        total += part
        slope += slopes[k] * part
    return top + math.log(total), slope / total


@inlined
def least_first(
    terms: Float, slopes: Float, level: float, terms2: Float, slopes2: Float, v: float
) -> tuple[float, float]:
    """Return the least first mean in [0, inf) where the second is v, and its derivative in v."""
    said, falls = log_evidence(terms2, slopes2, v)
    u = crossing(terms, slopes, level - said)
    if u <= 0.0:
        return 0.0, 0.0
    return u, -falls / log_evidence(terms, slopes, u)[1]


@no_refcount
def least_sum(
    terms: Float,
    slopes: Float,
    weight: float,
    terms2: Float,
    slopes2: Float,
    weight2: float,
    level: float,
) -> float:
    """Return the least ``weight u + weight2 v``, u >= 0 and v in [0,1], with evidence about both of at most `level`.

    The least u falls in v, and the sum is convex in v: its derivative is bisected, and the tangent at the left end of
    what remains lies below the minimum.
    """
    low, high = 0.0, 1.0
    u, rise = least_first(terms, slopes, level, terms2, slopes2, low)
    if weight * rise + weight2 >= 0.0:
        return weight * u
    for _ in range(HALVINGS):
        middle = 0.5 * (low + high)
        there, steep = least_first(terms, slopes, level, terms2, slopes2, middle)
        if weight * steep + weight2 < 0.0:
            low, u, rise = middle, there, steep
        else:
            high = middle
    return weight * u + weight2 * low + (weight * rise + weight2) * (high - low)
