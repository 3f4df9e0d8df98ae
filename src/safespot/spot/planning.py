"""Truncated policy evaluation (Algorithm TPE), one step of the episode at a time.

    Q_v,h(s,a) = min( v_bar + p_hat V_v,h+1, remaining ),   V_v,h(s) = sum_a pi(a|s) Q_v,h(s,a),
    Q = Q_r + sum_i lambda_i Q_{g_i},   remaining = H - h (0-based h).

The kernels carry the *gap* to the cap, ``D = remaining - Q >= 0``, in place of Q itself:

    D_v,h(s,a) = max( (1 - v_bar) + p_hat G_v,h+1, 0 ),   G_v,h(s) = sum_a pi(a|s) D_v,h(s,a).

It is the same recursion, but what is at its cap has a gap of exactly zero. A pair without data has one; a state
whose every admissible action has gap zero in every component keeps its policy and adds nothing upstream. So the work is
proportional to what has been learned, and nothing special has to be done for it.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ..arrays import Float, Int
from ..kernels.jit import inlined
from ..kernels.sums import cut_and_price, mix_rows_of_all, offset, sum_products
from .visits import Successors


@inlined
def back_up(
    successors: Successors, A: int, h: int, first: int, last: int, G: Float, D: Float
) -> None:
    """``D[c, pair] = sum_s' count(s') G_c(s')``, n times p_hat G, for the pairs of states from `first` up to `last`.

    `G` ``[1+m, S]`` are the gaps of step h + 1; `D` begins with the first pair.
    """
    if successors.dense.shape[0] > 0:
        mix_rows_of_all(G, successors.dense[h], first * A, (last - first) * A, D)
    else:
        for s in range(first, last):
            begin, base = successors.where[h, s], (s - first) * A
            end = begin + successors.length[h, s]
            actions, states = successors.actions[begin:end], successors.states[begin:end]
            counts = successors.counts[begin:end]
            for c in range(0, G.shape[0], 2):  # two at once: half the reading
                b = min(c + 1, G.shape[0] - 1)
                add_up(actions, states, counts, G[c], G[b], D[c, base:], D[b, base:], A)


@inlined
def add_up(
    actions: NDArray[np.int32],
    states: NDArray[np.int32],
    counts: Float,
    G: Float,
    F: Float,
    D: Float,
    E: Float,
    A: int,
) -> None:
    """``D[a] = sum of count G(s')`` over one state's transitions with action a, and E from F likewise.

    Indices are taken as unsigned, so that no code looks for those counted from the end. Where there is only one
    component left, E is D and F is G, and it is set twice.
    """
    for k in range(A):
        D[k] = 0.0
        E[k] = 0.0
    for j in range(counts.shape[0]):
        a, s, n = np.uint64(actions[j]), np.uint64(states[j]), counts[j]
        d, e = D[a] + n * G[s], E[a] + n * F[s]
        D[a], E[a] = d, e


@inlined
def truncate(
    deficit: Float, weight: Float, lam: Float, h: int, first: int, last: int, D: Float, Q: Float
) -> bool:
    """Pairs from `first` up to `last`: from n p_hat G to their gaps ``D``, and ``Q``; whether any Q is below 0.

    ``D_c = max(deficit_c + p_hat G_c, 0)`` with `weight` = 1 / n; ``Q = -(D_r + sum_i lambda_i D_{g_i})``, which is
    Q but for what all actions of the step share, remaining * (1 + sum_i lambda_i). `D` and `Q` begin with pair `first`.
    Where Q is 0 for all, nothing moves.
    """
    cut_and_price(deficit, weight, lam, h, first, last - first, D, Q)
    k = 0
    while k < last - first and Q[k] == 0.0:
        k += 1
    return k < last - first


@inlined
def evaluate_states(
    successors: Successors,
    deficit: Float,
    weight: Float,
    pi: Float,
    lam: Float,
    A: int,
    h: int,
    first: int,
    last: int,
    ahead: Float,
    D: Float,
    Q: Float,
    G: Float,
) -> bool:
    """Algorithm TPE at step h for states from `first` up to `last`; whether any Q is below 0.

    From the gaps `ahead` of step h + 1 to ``D`` ``[1+m, pairs]`` and ``Q`` ``[pairs]``, which begin with the first
    of these states, and ``G_c(s) = sum_a pi(a|s) D_c(s,a)`` ``[1+m, S]``, with the step's policy `pi` ``[S*A]``.
    `G` may be `ahead` itself where these are all states that the step needs.
    """
    if h + 1 < deficit.shape[1]:
        back_up(successors, A, h, first, last, ahead, D)
    else:
        clear(D, (last - first) * A)
    below = truncate(deficit, weight, lam, h, first * A, last * A, D, Q)
    for c in range(G.shape[0]):
        sum_products(pi[offset(first, A) :], D[c], A, last - first, G[c, first:])
    return below


@inlined
def clear(D: Float, pairs: int) -> None:
    """Set the gaps of so many pairs to zero."""
    for c in range(D.shape[0]):
        for k in range(pairs):
            D[c, k] = 0.0


@inlined
def forget(G: Float, met: Int, how_many: int) -> None:
    """Set the gaps of the states that were met to zero."""
    for c in range(G.shape[0]):
        for j in range(how_many):
            G[c, met[j]] = 0.0


@inlined
def hand_over(now: Float, G: Float, met: Int, how_many: int) -> float:
    """Move the gaps of the states that were met from `now` to `G`, leave zeros, and return the largest."""
    top = 0.0
    for c in range(G.shape[0]):
        for j in range(how_many):
            gap = now[c, met[j]]
            G[c, met[j]] = gap
            now[c, met[j]] = 0.0
            top = max(top, gap)
    return top


@inlined
def start_gap(G: Float, start: int, starts: Int, finished: int, phi_0: float, gap: Float) -> None:
    """``H - V_c(start)`` of every component: at the known start, or by the learned distribution where it is S (D5).

    D5: ``V(start) = min(phi_0 + sum_s mu_hat(s) V_1(s), H)``, and H before the first episode.
    """
    for c in range(G.shape[0]):
        if start < G.shape[1]:
            gap[c] = G[c, start]
        elif finished == 0:
            gap[c] = 0.0
        else:
            total = 0.0
            for s in range(G.shape[1]):
                total += starts[s] * G[c, s]
            gap[c] = max(total / finished - phi_0, 0.0)
