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

from .arrays import Bool, Float, Int
from .compilation import inner
from .estimators import Statistics
from .products import mix_rows


@inner
def back_up(statistics: Statistics, h: int, G: Float, D: Float) -> None:
    """``D[c, pair] = sum_s' count(s') G_c(s')``, n times p_hat G, for the pairs of every state met at step h.

    `G` ``[1+m, S]`` are the gaps of step h + 1.
    """
    components, S = G.shape
    A = D.shape[1] // S
    successors = statistics.successors
    if successors.dense.shape[0] > 0:
        for c in range(components):
            mix_rows(G[c], successors.dense[h], D[c])
        return
    for j in range(statistics.how_many[h]):
        s = statistics.met[h, j]
        for pair in range(s * A, (s + 1) * A):
            first = successors.where[h, pair]
            last = first + successors.length[h, pair]
            for c in range(components):
                total = 0.0
                for k in range(first, last):
                    total += successors.counts[k] * G[c, successors.states[k]]
                D[c, pair] = total


@inner
def truncate(
    lack: Float, weight: Float, lam: Float, h: int, first: int, last: int, D: Float, Q: Float
) -> bool:
    """Pairs from `first` up to `last`: from n p_hat G to their gaps ``D``, and ``Q``; whether any Q is below 0.

    ``D_c = max(lack_c + p_hat G_c, 0)`` with `weight` = 1 / n; ``Q = -(D_r + sum_i lambda_i D_{g_i})``, which is
    Q but for what all actions of the step share, remaining * (1 + sum_i lambda_i). Where it is 0 for all,
    nothing moves.
    """
    for pair in range(first, last):
        gap = max(lack[0, h, pair] + weight[h, pair] * D[0, pair], 0.0)
        D[0, pair] = gap
        Q[h, pair] = -gap
    for i in range(lam.shape[0]):
        for pair in range(first, last):
            gap = max(lack[1 + i, h, pair] + weight[h, pair] * D[1 + i, pair], 0.0)
            D[1 + i, pair] = gap
            Q[h, pair] -= lam[i] * gap
    pair = first
    while pair < last and Q[h, pair] == 0.0:
        pair += 1
    return pair < last


@inner
def average(pi: Float, h: int, first: int, last: int, D: Float, G: Float) -> None:
    """``G_c(s) = sum_a pi_h(a|s) D_c(s,a)`` for states from `first` up to `last`."""
    A = pi.shape[2]
    for c in range(G.shape[0]):
        for s in range(first, last):
            G[c, s] = pi[h, s, 0] * D[c, s * A]
        for a in range(1, A):
            for s in range(first, last):
                G[c, s] += pi[h, s, a] * D[c, s * A + a]


@inner
def evaluate_policy(
    statistics: Statistics,
    lack: Float,
    weight: Float,
    pi: Float,
    lam: Float,
    G: Float,
    D: Float,
    Q: Float,
    below: Bool,
) -> None:
    """Algorithm TPE, from the last step to the first; writes the last four arguments.

    `pi` is ``[H,S,A]``. `G` ``[1+m, S]`` ends as the gaps of the first step, `Q` ``[H, pairs]`` holds the values
    that mirror ascent climbs, and `below` ``[H,S]`` says where a state is below its cap: for each state that was
    met, or, in the dense layout, for the step as a whole in its first entry.
    """
    H, S, A = pi.shape
    dense = statistics.successors.dense.shape[0] > 0
    for h in range(H - 1, -1, -1):
        if h == H - 1:
            clear(D)  # nothing follows
        else:
            back_up(statistics, h, G, D)
        if dense:
            below[h, 0] = truncate(lack, weight, lam, h, 0, S * A, D, Q)
            average(pi, h, 0, S, D, G)
        else:
            clear(G)
            for j in range(statistics.how_many[h]):
                s = statistics.met[h, j]
                below[h, s] = truncate(lack, weight, lam, h, s * A, (s + 1) * A, D, Q)
                average(pi, h, s, s + 1, D, G)


@inner
def clear(array: Float) -> None:
    """Set a matrix to zero."""
    for c in range(array.shape[0]):
        for k in range(array.shape[1]):
            array[c, k] = 0.0


@inner
def start_gap(G: Float, start: int, starts: Int, finished: int, phi_0: float, gap: Float) -> None:
    """``H - V_c(start)`` of every component: at the known start, or by the learned distribution (D5).

    D5: ``V(start) = min(phi_0 + sum_s mu_hat(s) V_1(s), H)``, and H before the first episode.
    """
    for c in range(G.shape[0]):
        if start >= 0:
            gap[c] = G[c, start]
        elif finished == 0:
            gap[c] = 0.0
        else:
            total = 0.0
            for s in range(G.shape[1]):
                total += starts[s] * G[c, s]
            gap[c] = max(total / finished - phi_0, 0.0)
