"""Backward and forward induction on a known model: values, the best deterministic policy, occupancy measures."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ..arrays import Float, Int
from ..kernels.jit import inlined, inlined_noalias, seldom
from ..kernels.sums import by_length, dot, mix_rows, offset
from .cmdp import Model
from .transitions import block, expect, expect_all, push

if TYPE_CHECKING:
    pass


@seldom
def policy_values(model: Model, pi: Float) -> Float:
    """Backward induction: ``V_h(s) = sum_a pi(a|s) (v_h(s,a) + p V_{h+1})``; the start's ``[1+m]``."""
    H, S, A = pi.shape
    components, steps, _ = model.payoffs.shape
    V, W = np.zeros((components, S)), np.zeros((components, S))
    for h in range(H - 1, -1, -1):
        k = h if steps > 1 else 0
        W[:] = 0.0
        for s in range(S):
            for a in range(A):
                if pi[h, s, a] > 0.0:
                    for c in range(components):
                        q = model.payoffs[c, k, s * A + a] + expect(model.P, h, s * A + a, V[c])
                        W[c, s] += pi[h, s, a] * q
        V, W = W, V
    return start_values(model.start, V)


@seldom
def start_values(start: Float, V: Float) -> Float:
    """``sum_s start(s) V_c(s)`` for every component."""
    components, S = V.shape
    values = np.zeros(components)
    for c in range(components):
        for s in range(S):
            values[c] += start[s] * V[c, s]
    return values


@inlined
def forward_values(
    model: Model, policy: Float, now: Float, after: Float, mass: Float, visits: Float, values: Float
) -> None:
    """The same by the occupancy measure, forward: one pass over the transitions serves every component.

    `policy` ``[H*S*A]`` is one row; `now`, `after` ``[S]``, `mass` and `visits` ``[S*A]`` are worked in; `values`
    ``[1+m]`` is written. Where payoffs are the same at every step, it is the expected `visits` of all steps together
    that they are multiplied with.
    """
    components, steps, pairs = model.payoffs.shape
    S = model.start.shape[0]
    H, A = model.alpha.shape[1], pairs // S
    for s in range(S):
        now[s] = model.start[s]
    for c in range(components):
        values[c] = 0.0
    for k in range(pairs):
        visits[k] = 0.0
    for h in range(H):
        by_length(spread, A, S, (policy[offset(h, pairs) :], now, mass, visits))
        if steps > 1:
            for c in range(components):
                values[c] += dot(mass, model.payoffs[c, h])
        if h + 1 < H:
            move_on(model, h, mass, after, now)
    if steps == 1:
        for c in range(components):
            values[c] = dot(visits, model.payoffs[c, 0])


@inlined_noalias
def spread(A: int, rows: int, arguments: tuple[Float, Float, Float, Float]) -> None:
    """From the mass of states `now` to that of their pairs, which is added to `visits` as well."""
    policy, now, mass, visits = arguments
    for s in range(rows):
        share = now[s]
        for a in range(A):
            part = policy[s * A + a] * share
            mass[s * A + a] = part
            visits[s * A + a] += part


@inlined
def move_on(model: Model, h: int, mass: Float, after: Float, now: Float) -> None:
    """From the `mass` ``[S*A]`` of the pairs at step h to that of the states after it, `now` ``[S]``."""
    if model.P.dense.shape[0] > 0:
        mix_rows(mass, model.P.dense[block(model.P, h)], 0, now.shape[0], now)
    else:
        for s in range(after.shape[0]):
            after[s] = 0.0
        for row in range(mass.shape[0]):
            if mass[row] > 0.0:
                push(model.P, h, row, mass[row], after)
        for s in range(after.shape[0]):
            now[s] = after[s]


@seldom
def best_deterministic(model: Model, weights: Float) -> tuple[Int, Float]:
    """The deterministic policy ``[H,S]`` with the largest weighted value, and its values ``[1+m]``.

    Backward induction on ``weights·v``; the lowest action wins a tie.
    """
    components, steps, rows = model.payoffs.shape
    S = model.start.shape[0]
    H, A = model.alpha.shape[1], rows // S
    plan = np.zeros((H, S), np.int64)
    V, Q = np.zeros(S), np.zeros(rows)
    for h in range(H - 1, -1, -1):
        k = h if steps > 1 else 0
        allowed = model.mask[h if model.mask.shape[0] > 1 else 0]
        expect_all(model.P, h, allowed, V, Q)
        for s in range(S):
            best, choice = -np.inf, 0
            for a in range(A):
                row = s * A + a
                if allowed[row]:
                    q = Q[row]
                    for c in range(components):
                        q += weights[c] * model.payoffs[c, k, row]
                    if q > best:
                        best, choice = q, a
            plan[h, s], V[s] = choice, best
    return plan, plan_values(model, plan)


@seldom
def plan_values(model: Model, plan: Int) -> Float:
    """The values ``[1+m]`` of a deterministic policy ``[H,S]``.

    Forward, from the start: one pass over the transitions serves every component.
    """
    components, steps, rows = model.payoffs.shape
    H, S = plan.shape
    A = rows // S
    values = np.zeros(components)
    now, after = model.start.copy(), np.zeros(S)
    for h in range(H):
        k = h if steps > 1 else 0
        after[:] = 0.0
        for s in range(S):
            if now[s] > 0.0:
                row = s * A + plan[h, s]
                for c in range(components):
                    values[c] += now[s] * model.payoffs[c, k, row]
                push(model.P, h, row, now[s], after)
        now, after = after, now
    return values


@seldom
def add_occupancy(model: Model, plan: Int, weight: float, occupancy: Float) -> None:
    """Add `weight` times the occupancy measure of a deterministic policy ``[H,S]``."""
    H, S, A = occupancy.shape
    now, after = weight * model.start, np.zeros(S)
    for h in range(H):
        after[:] = 0.0
        for s in range(S):
            if now[s] > 0.0:
                occupancy[h, s, plan[h, s]] += now[s]
                push(model.P, h, s * A + plan[h, s], now[s], after)
        now, after = after, now
