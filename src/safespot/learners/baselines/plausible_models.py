"""Plausible models: what the data leave open of a CMDP, and the best plan over all of it.

After n visits of a pair each transition probability lies in an interval, and so do the means of its signals. A plan
chooses a policy *and*, for every step and pair, a row of transitions within the intervals:

    maximize V_r   subject to   V_{g_i} >= limit_i,   over policies and rows.

As a linear program this has H S A S variables (the extended program). But the rows of different pairs do not depend
on each other and the same row serves the reward and every constraint, so for fixed multipliers the best response is
a backward induction in which each pair takes its best row: the states in falling order of value are filled from
their lower ends until the row sums to one. That is all that column generation needs; plans mix as
occupancy measures, and these are exact because the intervals are convex and nothing is truncated.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from ...arrays import Bool, Float, Int, Policy
from ...kernels.jit import inlined, kernel
from ...planning.columns import Column, best_mixture, largest_margin
from ...spot.optimism import Radii
from ...spot.visits import Statistics
from ..counts import write_counts

BLOCK = 2**13  # entries of an array that fits into a processor's nearest memory


class Models(NamedTuple):
    """All models within intervals of transitions, with signals that stand fixed."""

    payoffs: Float  # [1+m, H, S*A]: the reward, then the constraints
    lower: Float  # [H, S*A, S]
    upper: Float  # [H, S*A, S]
    start_lower: Float  # [S]: of the start distribution
    start_upper: Float  # [S]
    mask: Bool  # [H, S*A]


class Response(NamedTuple):
    """A deterministic policy and where it goes, in one of the models."""

    occupancy: Float  # [H, S, A]
    actions: Int  # [H, S]


class OptimisticPlan(NamedTuple):
    """The best plan over a set of models."""

    policy: Policy  # [H, S, A]
    multipliers: Float  # [m]
    values: Float  # [1+m], in the model that it chose
    feasible: bool  # if not: the plan with the largest margin


def optimistic_plan(models: Models, limits: Float) -> OptimisticPlan:
    """The plan with the largest reward that keeps the limits; where none does, the one with the largest margin.

    Where the mixture never goes its policy is the best response to its multipliers.
    """

    def price(weights: Float) -> Column[Response]:
        values, occupancy, actions = best_response(models, weights)
        return Column(values, Response(occupancy, actions))

    mixture = best_mixture(price, limits)
    feasible = mixture is not None
    if mixture is None:
        mixture = largest_margin(price, limits)
    response = price(np.r_[float(feasible), mixture.multipliers]).plan
    A = response.occupancy.shape[2]
    occupancy = np.zeros_like(response.occupancy)
    for weight, plan in zip(mixture.weights, mixture.plans, strict=True):
        occupancy += weight * plan.occupancy
    visits = occupancy.sum(axis=2, keepdims=True)
    elsewhere = np.eye(A)[response.actions]
    policy = np.where(visits > 0.0, occupancy / np.where(visits > 0.0, visits, 1.0), elsewhere)
    policy /= policy.sum(axis=2, keepdims=True)
    return OptimisticPlan(policy, mixture.multipliers, mixture.values, feasible)


@kernel
def best_response(models: Models, weights: Float) -> tuple[Float, Float, Int]:
    """Extended value iteration for a weighted sum of payoffs: (values ``[1+m]``, occupancy, actions).

    Among equal actions the lowest wins. The chosen rows, ``[H, S, S]``, are filled once more where the plan goes: to
    allocate them in every call took longer.
    """
    components, H, pairs = models.payoffs.shape
    S = models.lower.shape[2]
    A = pairs // S
    V, W = np.zeros((components, S)), np.zeros((components, S))
    U = np.zeros((H + 1, S))  # weights·V from each step on
    order = np.zeros((H + 1, S), np.int64)  # of falling U
    row, best_row = np.zeros(S), np.zeros(S)
    actions = np.zeros((H, S), np.int64)
    for h in range(H - 1, -1, -1):
        for s in range(S):
            best = -np.inf
            for a in range(A):
                pair = s * A + a
                if not models.mask[h, pair]:
                    continue
                value = 0.0
                for c in range(components):
                    value += weights[c] * models.payoffs[c, h, pair]
                if h < H - 1:
                    value += fill(
                        models.lower[h, pair], models.upper[h, pair], U[h + 1], order[h + 1], row
                    )
                if value > best:
                    best = value
                    actions[h, s] = a
                    best_row, row = row, best_row
            U[h, s] = best
            pair = s * A + actions[h, s]
            for c in range(components):
                W[c, s] = models.payoffs[c, h, pair]
                for k in range(S):
                    W[c, s] += best_row[k] * V[c, k]
        V, W = W, V
        order[h] = np.argsort(-U[h], kind="mergesort")
    fill(models.start_lower, models.start_upper, U[0], order[0], row)
    values, occupancy = np.zeros(components), np.zeros((H, S, A))
    for s in range(S):
        for c in range(components):
            values[c] += row[s] * V[c, s]
    for h in range(H):
        ahead = np.zeros(S)
        for s in range(S):
            occupancy[h, s, actions[h, s]] = row[s]
            if h == H - 1 or row[s] == 0.0:
                continue
            pair = s * A + actions[h, s]
            fill(models.lower[h, pair], models.upper[h, pair], U[h + 1], order[h + 1], best_row)
            for k in range(S):
                ahead[k] += row[s] * best_row[k]
        row = ahead
    return values, occupancy, actions


@inlined
def fill(lower: Float, upper: Float, U: Float, order: Int, row: Float) -> float:
    """The row within its intervals that has the largest ``sum_s row(s) U(s)``, written to `row`; that sum.

    What is left after the lower ends goes to the states in `order` of falling value, up to their upper ends. A row
    whose upper ends do not reach one (a pair without data, planned on counts alone) stays below it.
    """
    left, total = 1.0, 0.0
    for k in range(U.shape[0]):
        row[k] = lower[k]
        left -= lower[k]
        total += lower[k] * U[k]
    for j in range(U.shape[0]):
        if left <= 0.0:
            break
        k = order[j]
        more = min(upper[k] - lower[k], left)
        row[k] += more
        left -= more
        total += more * U[k]
    return total


def write_intervals(radii: Radii, statistics: Statistics, lower: Float, upper: Float) -> None:
    """The `intervals` of all transitions, written to ``[H, S*A, S]`` each."""
    for n, low, high in _blocks(statistics, lower, upper):
        low[:], high[:] = intervals(radii, n, low)


def write_empirical(radii: Radii, statistics: Statistics, rows: Float) -> Float:
    """The transitions as counted, written to ``[H, S*A, S]``, and how far the true rows can be off, ``[H, S*A]``."""
    apart = np.empty(statistics.n.shape)
    for n, row, off in _blocks(statistics, rows, apart):
        off[:] = empirical_variation(radii, n, row)
        row[:] = empirical(n, row)
    return apart


def _blocks(
    statistics: Statistics, first: Float, other: Float
) -> Iterator[tuple[Int, Float, Float]]:
    """Visits ``[B]``, counts of successors ``[B, S]`` (written to `first`) and the same part of `other`, by blocks.

    In blocks, since arrays of all pairs would be asked for from the system anew with every operation.
    """
    B = max(1, BLOCK // first.shape[2])
    for h, n in enumerate(statistics.n):
        write_counts(statistics.successors, h, first[h])
        for k in range(0, len(n), B):
            yield n[k : k + B], first[h, k : k + B], other[h, k : k + B]


def empirical(n: Int, counted: Float) -> Float:
    """``p_hat = count / n``; a row of zeros without data."""
    p_hat: Float = counted / np.maximum(n, 1)[..., None]
    return p_hat


def intervals(radii: Radii, n: Int, counted: Float) -> tuple[Float, Float]:
    """Where each transition probability lies, by the empirical Bernstein inequality of Maurer and Pontil.

    ``p_hat -/+ c (sqrt(2 p(1-p) l / (n-1)) + 7 l / (3 (n-1)))`` within [0,1], l = ln(10 S^2 A H T / delta). Two
    sides of S^2 A H T inequalities at confidence ``2 exp(-l)`` each leave 0.4 delta. All of [0,1] for n <= 1.
    """
    p = empirical(n, counted)
    left = np.maximum(n - 1, 1)[..., None]
    radius = np.sqrt(2.0 * p * (1.0 - p) * radii.L_b / left) + 7.0 * radii.L_b / (3.0 * left)
    radius = np.where(n[..., None] > 1, radii.bonus_scale * radius, 1.0)
    return (p - radius).clip(0.0), (p + radius).clip(None, 1.0)


def total_variation(lower: Float, upper: Float) -> Float:
    """How far two rows within the intervals can be apart: half of the widths, at most 1."""
    apart: Float = np.minimum((upper - lower).sum(axis=-1) / 2.0, 1.0)
    return apart


def empirical_variation(radii: Radii, n: Int, counted: Float) -> Float:
    """How far the true row can be from the counted one, at most 1: the smaller of two bounds; 1 without data.

    ``c sqrt((S + L_p) / n)`` (D3), and for n > 1 the sum of the Bernstein radii of the successors that were seen:
    the total variation is the sum of the positive parts of ``p_hat - p``.
    """
    radius = radii.bonus_scale * np.sqrt((radii.S + radii.L_p) / np.maximum(n, 1))
    seen = np.where(counted > 0.0, empirical(n, counted) - intervals(radii, n, counted)[0], 0.0)
    radius = np.where(n > 1, np.minimum(radius, seen.sum(axis=-1)), radius)
    return np.where(n > 0, radius.clip(None, 1.0), 1.0)


def signal_radius(radii: Radii, n: Int) -> Float:
    """``c sqrt(L_r / n)`` for the mean of a signal, at most 1; 1 without data."""
    radius = radii.bonus_scale * np.sqrt(radii.L_r / np.maximum(n, 1))
    return np.where(n > 0, radius.clip(None, 1.0), 1.0)


def means(statistics: Statistics) -> Float:
    """``[1+m, H, S*A]``: the mean reward and constraints; 0 without data."""
    v_hat: Float = statistics.sums / np.maximum(statistics.n, 1)
    return v_hat


def start_intervals(
    radii: Radii, start: int | None, starts: Int, *, exact: bool = False
) -> tuple[Float, Float]:
    """The same for the start: where it is known, a point; else one more row, after so many episodes (D5).

    `exact` plans on the counts alone.
    """
    if start is not None:
        point = np.eye(len(starts))[start]
        return point, point
    n, counted = starts.sum()[None], starts[None].astype(float)
    if exact:
        p_hat = empirical(n, counted)[0]
        return p_hat, p_hat
    lower, upper = intervals(radii, n, counted)
    return lower[0], upper[0]
