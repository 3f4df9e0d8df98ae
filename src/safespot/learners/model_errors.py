"""What the counts leave open: values of a policy in a model of the counts, and their standard errors.

The delta method, with q the policy's occupancy measure and ``f_sa(s') = sum_h q_h(s,a) V_h+1(s')``:

    SE^2 = sum_sa ( Var_p(f_sa) + (sum_h q_h(s,a))^2 g (1 - g) ) / n(s,a) + Var_start(V_1) / episodes.

No guarantee rests on it: it says how wide a margin has to be for a trial to succeed, and where to explore.
"""

from __future__ import annotations

import numpy as np

from ..arrays import Float, Policy
from ..kernels.jit import seldom
from .pooled_models import Counted, Known, Pooled, push_counts, step_of


def with_bonus(model: Counted, known: Known, pi: Policy, lam: Float, scale: float) -> Counted:
    """The model with `scale` standard errors of ``L = V_r + sum_i lambda_i V_gi`` of every pair added to its reward.

    Values are those of the policy `pi`. All of the bonus is paid in reward, so that a plan which keeps its limits
    keeps them in the model of the counts.
    """
    V, _ = evaluate_counted(model, pi)
    weights = np.r_[1.0, lam]
    L = (weights[:, None, None] * V).sum(axis=0)
    means = model.pooled.sums / np.maximum(model.pooled.n, 1.0)
    measured = (weights**2 * ~known.components)[:, None, None]
    noise = (measured * means * (1.0 - means)).sum(axis=0)
    steps = len(L) - 1
    payoffs = np.repeat(model.payoffs, steps // model.payoffs.shape[1], axis=1)
    most = np.arange(steps, 0.0, -1.0)[:, None]  # no reward to come is larger
    payoffs[0] += np.minimum(scale * pair_errors(model.pooled, L, noise), most)
    return model._replace(payoffs=payoffs)


@seldom
def pair_errors(pooled: Pooled, L: Float, noise: Float) -> Float:
    """``[H, S*A]``: the standard error of ``c + p L_h+1`` of every pair, 0 before its first visit.

    One more visit, as far from the mean as half the range of L, keeps pairs apart that were seen once or twice from
    those whose successors are all alike.
    """
    H, (K, pairs) = L.shape[0] - 1, pooled.n.shape
    errors = np.zeros((H, pairs))
    for h in range(H):
        k = h if K > 1 else 0
        half = (L[h + 1].max() - L[h + 1].min()) / 2.0
        for row in range(pairs):
            n = pooled.n[k, row]
            if n > 0.0:
                mean, square = 0.0, 0.0
                for j in range(pooled.first[k, row], pooled.first[k, row + 1]):
                    value = L[h + 1, pooled.states[j]]
                    mean += pooled.counts[j] * value
                    square += pooled.counts[j] * value * value
                apart = max(square - mean * mean / n, 0.0) + half * half
                errors[h, row] = np.sqrt((apart / (n + 1.0) + noise[k, row]) / n)
    return errors


@seldom
def evaluate_counted(model: Counted, pi: Policy) -> tuple[Float, Float]:
    """Values ``[1+m, H+1, S]`` of a policy in a model, and its occupancy ``[H, S*A]``."""
    components = model.payoffs.shape[0]
    H, S, A = pi.shape
    V, occupancy = np.zeros((components, H + 1, S)), np.zeros((H, S * A))
    for h in range(H - 1, -1, -1):
        k, pay = step_of(model.weight, h), step_of(model.payoffs[0], h)
        for s in range(S):
            for a in range(A):
                if pi[h, s, a] > 0.0:
                    row = s * A + a
                    for c in range(components):
                        total = model.imagined[c, h]
                        for j in range(model.pooled.first[k, row], model.pooled.first[k, row + 1]):
                            total += model.pooled.counts[j] * V[c, h + 1, model.pooled.states[j]]
                        q = model.payoffs[c, pay, row] + model.weight[k, row] * total
                        V[c, h, s] += pi[h, s, a] * q
    now, after = model.pooled.start.copy(), np.zeros(S)
    for h in range(H):
        k = step_of(model.weight, h)
        after[:] = 0.0
        for s in range(S):
            if now[s] > 0.0:
                for a in range(A):
                    if pi[h, s, a] > 0.0:
                        row = s * A + a
                        occupancy[h, row] = now[s] * pi[h, s, a]
                        push_counts(
                            model.pooled, k, row, occupancy[h, row] * model.weight[k, row], after
                        )
        now, after = after, now
    return V, occupancy


def standard_errors(model: Counted, known: Known, pi: Policy, episodes: int) -> tuple[Float, Float]:
    """Values ``[1+m]`` of a policy in a model, and their standard errors.

    The delta method: with q the policy's occupancy measure and ``f_sa(s') = sum_h q_h(s,a) V_h+1(s')``,

        SE^2 = sum_sa ( Var_p(f_sa) + (sum_h q_h(s,a))^2 g (1 - g) ) / n(s,a) + Var_start(V_1) / episodes,

    the middle term only where the signal is measured; g (1 - g) is the largest variance of a signal in [0,1].
    """
    V, occupancy = evaluate_counted(model, pi)
    start = model.pooled.start
    values = (V[:, 0] * start).sum(axis=1)
    measured = ~known.components
    squares = transition_errors(model.pooled, V, occupancy)
    n, sums = model.pooled.n, model.pooled.sums
    means = sums / np.maximum(n, 1.0)
    q = occupancy.sum(axis=0, keepdims=True) if len(n) == 1 else occupancy
    noise = (q**2 * means * (1.0 - means) / np.maximum(n, 1.0)).sum(axis=(1, 2))
    spread = ((V[:, 0] - values[:, None]) ** 2 * start).sum(axis=1) / max(episodes, 1)
    errors: Float = np.sqrt(squares + measured * noise + spread)
    return values, errors


@seldom
def transition_errors(pooled: Pooled, V: Float, occupancy: Float) -> Float:
    """``[1+m]``: ``sum_sa Var_p(f_sa) / n(s,a)``."""
    components, steps = V.shape[:2]
    H, pairs = steps - 1, occupancy.shape[1]
    K = pooled.n.shape[0]
    squares = np.zeros(components)
    for k in range(K):
        first, last = (0, H) if K == 1 else (k, k + 1)
        for row in range(pairs):
            n, met = pooled.n[k, row], 0.0
            for h in range(first, last):
                met += occupancy[h, row]
            if n == 0.0 or met == 0.0:
                continue
            for c in range(components):
                mean, square = 0.0, 0.0
                for j in range(pooled.first[k, row], pooled.first[k, row + 1]):
                    f = 0.0
                    for h in range(first, last):
                        f += occupancy[h, row] * V[c, h + 1, pooled.states[j]]
                    mean += pooled.counts[j] * f
                    square += pooled.counts[j] * f * f
                squares[c] += max(square / n - (mean / n) * (mean / n), 0.0) / n
    return squares
