"""Plausible models: what the data leave open of a CMDP, and the best plan over all of it.

After n visits of a pair each transition probability lies in an interval, and so do the means of its signals. A plan
chooses a policy *and*, for every step and pair, a row of transitions within the intervals:

    maximize V_r   subject to   V_{g_i} >= limit_i,   over policies and rows.

As a linear program this has H S A S variables (the extended program). But the rows of different pairs do not depend
on each other and the same row serves the reward and every constraint, so for fixed multipliers the best response is
a backward induction in which each pair takes its best row: the states in falling order of value are filled from
their lower ends until the row sums to one. That is all that column generation needs; plans mix as
occupancy measures, and these are exact because the intervals are convex and nothing is truncated.

It stays distinct from the induction of `planning.process`, whose rows do not depend on what follows them. Rows of one
step lie side by side, ``[S, pairs]``, and are filled all at once.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ...arrays import Bool, Float, Int, Policy
from ...planning.columns import Column, best_mixture, largest_margin
from ...planning.counted import Pooled
from ...planning.process import in_order, markov_policy
from ...spot.optimism import Radii
from ..radii import bernstein


class Intervals(NamedTuple):
    """Rows of transitions known up to an interval for each entry: all rows between the ends that sum to one."""

    lower: Float  # [S, pairs]
    room: Float  # [S, pairs]: how far upper ends lie above the lower ones
    left: Float  # [pairs]: what lower ends leave of one


class Models(NamedTuple):
    """All models within intervals of transitions, with signals that stand fixed."""

    payoffs: Float  # [1+m, H, S*A]: the reward, then the constraints
    rows: tuple[Intervals, ...]  # of H steps, or of one that serves all
    start: Intervals  # of a single pair: the start distribution
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
    """Return the plan with the largest reward that keeps the limits; without one, that with the largest margin.

    Where the mixture never goes its policy is the best response to its multipliers.
    """
    responses: dict[bytes, Column[Response]] = {}

    def price(weights: Float) -> Column[Response]:
        key = weights.tobytes()
        if key not in responses:
            values, occupancy, actions = best_response(models, weights)
            responses[key] = Column(values, Response(occupancy, actions))
        return responses[key]

    mixture = best_mixture(price, limits)
    feasible = mixture is not None
    if mixture is None:
        mixture = largest_margin(price, limits)
    elsewhere = price(np.r_[float(feasible), mixture.multipliers]).plan.actions
    pairs = zip(mixture.weights, mixture.plans, strict=True)
    occupancy = sum((weight * plan.occupancy for weight, plan in pairs), np.zeros(()))
    policy = markov_policy(occupancy, elsewhere)
    return OptimisticPlan(policy, mixture.multipliers, mixture.values, feasible)


def best_response(models: Models, weights: Float) -> tuple[Float, Float, Int]:
    """Return (values ``[1+m]``, occupancy, actions) of extended value iteration for a weighted sum of payoffs.

    Among equal actions the lowest wins.
    """
    components, H, pairs = models.payoffs.shape
    S = len(models.start.lower)
    first = np.arange(0, pairs, pairs // S)
    payoffs = (weights[:, None, None] * models.payoffs).sum(axis=0)
    payoffs = np.where(models.mask, payoffs, -np.inf)
    taken, chosen, V = np.empty((H, S), np.int64), np.empty((H, S, S)), np.zeros(S)
    for h in range(H - 1, -1, -1):
        Q = payoffs[h]
        if h < H - 1:
            rows = fill(models.rows[h if len(models.rows) > 1 else 0], V)
            Q = Q + (rows * V[:, None]).sum(axis=0)
        taken[h] = best = first + Q.reshape(S, -1).argmax(axis=1)
        V = Q[best]
        if h < H - 1:
            rows.take(best, axis=1, out=chosen[h], mode="clip")
    met, now = np.empty((H, S)), fill(models.start, V)[:, 0]
    for h in range(H):
        met[h] = now
        if h < H - 1:
            now = (chosen[h] * now).sum(axis=1)
    every = np.arange(H)[:, None]
    values = in_order((models.payoffs[:, every, taken] * met).reshape(components, -1))
    occupancy = np.zeros((H, pairs))
    occupancy[every, taken] = met
    return values, occupancy.reshape(H, S, -1), taken - first


def fill(rows: Intervals, V: Float) -> Float:
    """Return the rows within the intervals that have the largest ``sum_s row(s) V(s)``, ``[S, pairs]``.

    What is left after the lower ends goes to the states in falling order of V, up to their upper ends. A row whose
    upper ends do not reach one stays below it.
    """
    order = (-V).argsort(kind="stable")
    more = rows.room.take(order, axis=0)
    np.cumsum(more, axis=0, out=more)
    np.minimum(more, rows.left, out=more)
    filled = rows.lower.copy()
    filled[order[0]] += more[0]
    filled[order[1:]] += more[1:] - more[:-1]
    return filled


def between(lower: Float, upper: Float) -> Intervals:
    """Return the intervals with these ends, ``[S, pairs]``."""
    return Intervals(lower, upper - lower, np.maximum(1.0 - lower.sum(axis=0), 0.0))


def plausible_rows(radii: Radii, pooled: Pooled) -> tuple[Intervals, ...]:
    """Return the `intervals` of all transitions, for every step of the counts."""
    return tuple(
        between(*intervals(radii, n, counted.toarray().T))
        for n, counted in zip(pooled.n, pooled.matrices(pooled.counts), strict=True)
    )


def plausible_start(radii: Radii, start: int | None, starts: Int) -> Intervals:
    """Return the intervals of the start: a point where it is known, else one more row, of all episodes (D5)."""
    if start is not None:
        point = np.eye(len(starts))[:, start, None]
        return between(point, point)
    return between(*intervals(radii, starts.sum(), starts[:, None].astype(float)))


def intervals(radii: Radii, n: Any, counted: Float) -> tuple[Float, Float]:
    """Return the ends of the interval of each transition probability, ``p_hat -/+`` its radius within [0,1]."""
    p, radius = bernstein(radii, n, counted)
    return np.maximum(p - radius, 0.0), np.minimum(p + radius, 1.0)


def total_variation(rows: Intervals) -> Float:
    """Return how far two rows within the intervals can be apart, ``[pairs]``: half of the widths, at most 1."""
    apart: Float = np.minimum(rows.room.sum(axis=0) / 2.0, 1.0)
    return apart
