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

from .arrays import Bool, Float, Int
from .compilation import inner
from .estimators import Statistics
from .products import mix_rows


@inner
def back_up(statistics: Statistics, h: int, G: Float, weight: Float, expected: Float) -> None:
    """``expected[c, pair] = p_hat G_c`` for the pairs of every state met at step h.

    `G` ``[1+m, S]`` are the gaps of step h + 1; `weight` ``[H, pairs]`` is 1 / n.
    """
    components, S = G.shape
    pairs = expected.shape[1]
    A = pairs // S
    successors = statistics.successors
    if successors.dense.shape[0] > 0:
        for c in range(components):
            mix_rows(G[c], successors.dense[h], expected[c])
            for pair in range(pairs):
                expected[c, pair] *= weight[h, pair]
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
                expected[c, pair] = total * weight[h, pair]


@inner
def truncate(lack: Float, h: int, first: int, last: int, lam: Float, D: Float, Q: Float) -> None:
    """Pairs from `first` up to `last`: their gaps ``D`` (in place of p_hat G) and ``Q`` below its cap.

    ``D_c = max(lack_c + p_hat G_c, 0)``; ``Q = -(D_r + sum_i lambda_i D_{g_i})``, which is Q but for what
    all actions of the step share, remaining * (1 + sum_i lambda_i).
    """
    for pair in range(first, last):
        D[0, pair] = max(lack[0, h, pair] + D[0, pair], 0.0)
        Q[h, pair] = -D[0, pair]
    for i in range(lam.shape[0]):
        for pair in range(first, last):
            D[1 + i, pair] = max(lack[1 + i, h, pair] + D[1 + i, pair], 0.0)
            Q[h, pair] -= lam[i] * D[1 + i, pair]


@inner
def average(pi: Float, h: int, s: int, D: Float, G: Float) -> bool:
    """``G_c(s) = sum_a pi_h(a|s) D_c(s,a)``; whether any action is below its cap."""
    A = pi.shape[2]
    lowest = 0.0
    for c in range(G.shape[0]):
        total = 0.0
        for a in range(A):
            gap = D[c, s * A + a]
            total += pi[h, s, a] * gap
            lowest = max(lowest, gap)
        G[c, s] = total
    return lowest > 0.0


@inner
def evaluate_step(
    statistics: Statistics,
    lack: Float,
    weight: Float,
    pi: Float,
    lam: Float,
    h: int,
    G: Float,
    D: Float,
    Q: Float,
    below: Bool,
) -> None:
    """Algorithm TPE at step h: from the gaps `G` of step h + 1 to those of step h, in place.

    `pi` is ``[H,S,A]``. Afterwards `D` ``[1+m, pairs]`` and row h of `Q` ``[H, pairs]`` hold the step's gaps and
    values, and row h of `below` ``[H,S]`` says which states are below their cap.
    """
    S, A = pi.shape[1:]
    dense = statistics.successors.dense.shape[0] > 0
    back_up(statistics, h, G, weight, D)
    for s in range(S):
        below[h, s] = False
        for c in range(G.shape[0]):
            G[c, s] = 0.0
    if dense:
        truncate(lack, h, 0, S * A, lam, D, Q)
    for j in range(statistics.how_many[h]):
        s = statistics.met[h, j]
        if not dense:
            truncate(lack, h, s * A, (s + 1) * A, lam, D, Q)
        below[h, s] = average(pi, h, s, D, G)


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


def truncated_policy_evaluation(
    statistics: Statistics, lack: Float, weight: Float, pi: Float, lam: Float
) -> tuple[Float, Float]:
    """The whole of Algorithm TPE: ``Q_v`` ``[1+m,H,S,A]`` and ``V_v`` at the first step ``[1+m,S]``."""
    H, S, A = pi.shape
    components = lack.shape[0]
    G, D, Q = np.zeros((components, S)), np.zeros((components, S * A)), np.zeros((H, S * A))
    below = np.zeros((H, S), np.bool_)
    values = np.empty((components, H, S, A))
    for h in reversed(range(H)):
        evaluate_step(statistics, lack, weight, pi, lam, h, G, D, Q, below)
        gaps = np.where(statistics.known[h][:, None], D.reshape(components, S, A), 0.0)
        values[:, h] = (H - h) - gaps
    return values, H - G
