"""Exact values of the policy in play, as the compiled loop takes them in every episode."""

from __future__ import annotations

from ..arrays import Float
from ..kernels.jit import inlined, inlined_noalias
from ..kernels.sums import by_length, dot, mix_rows, offset
from .cmdp import Model
from .transitions import block, push


@inlined
def forward_values(
    model: Model, policy: Float, now: Float, after: Float, mass: Float, visits: Float, values: Float
) -> None:
    """Compute a policy's values by its occupancy measure, forward: one pass over the transitions serves all components.

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
    """Spread the mass of states `now` over their pairs, and add it to `visits` as well."""
    policy, now, mass, visits = arguments
    for s in range(rows):
        share = now[s]
        for a in range(A):
            part = policy[s * A + a] * share
            mass[s * A + a] = part
            visits[s * A + a] += part


@inlined
def move_on(model: Model, h: int, mass: Float, after: Float, now: Float) -> None:
    """Move the `mass` ``[S*A]`` of the pairs at step h to the states after it, `now` ``[S]``."""
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
