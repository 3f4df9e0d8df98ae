"""Values of a policy in a model of counts, and their standard errors.

The delta method, with q the policy's occupancy measure and ``f_sa(s') = sum_h q_h(s,a) V_h+1(s')``:

    SE^2 = sum_sa ( Var_p(f_sa) + (sum_h q_h(s,a))^2 g (1 - g) ) / n(s,a) + Var_start(V_1) / episodes.

No guarantee rests on it: it says how wide a margin has to be for a trial to succeed, and where to explore.
"""

from __future__ import annotations

import numpy as np

from ..arrays import Float, Policy
from .counted import Counted, Known, Pooled
from .process import policy_occupancy, policy_values


def with_bonus(model: Counted, known: Known, pi: Policy, lam: Float, scale: float) -> Counted:
    """Return the model with `scale` standard errors of ``L = V_r + sum_i lambda_i V_gi`` of a pair added to its reward.

    Values are those of the policy `pi`. All of the bonus is paid in reward, so that a plan which keeps its limits
    keeps them in the model of the counts.
    """
    process, pooled = model
    V = policy_values(process, pi)
    weights = np.r_[1.0, lam]
    L = (weights[:, None, None] * V).sum(axis=0)
    means = pooled.sums / np.maximum(pooled.n, 1.0)
    measured = (weights**2 * ~known.components)[:, None, None]
    noise = (measured * means * (1.0 - means)).sum(axis=0)
    steps = len(L) - 1
    payoffs = np.repeat(process.payoffs, steps // process.payoffs.shape[1], axis=1)
    most = np.arange(steps, 0.0, -1.0)[:, None]  # no reward to come is larger
    payoffs[0] += np.minimum(scale * pair_errors(pooled, L, noise), most)
    return model._replace(process=process._replace(payoffs=payoffs))


def pair_errors(pooled: Pooled, L: Float, noise: Float) -> Float:
    """Return the standard error of ``c + p L_h+1`` of every pair, ``[H, S*A]``; 0 before its first visit.

    One more visit, as far from the mean as half the range of L, keeps pairs apart that were seen once or twice from
    those whose successors are all alike.
    """
    H, K = len(L) - 1, len(pooled.n)
    ahead = L[1:]
    half = (ahead.max(axis=1) - ahead.min(axis=1))[:, None] / 2.0
    n = np.broadcast_to(pooled.n, (H, pooled.n.shape[1]))
    if K == 1:
        (counts,) = pooled.matrices(pooled.counts)
        mean, square = (counts @ ahead.T).T, (counts @ (ahead * ahead).T).T
    else:
        pairs = list(zip(pooled.matrices(pooled.counts), ahead, strict=True))
        mean = np.stack([counts @ values for counts, values in pairs])
        square = np.stack([counts @ (values * values) for counts, values in pairs])
    visits = np.maximum(n, 1.0)
    apart = (square - mean * mean / visits).clip(0.0) + half * half
    errors = np.sqrt((apart / (n + 1.0) + noise) / visits)
    return np.where(n > 0.0, errors, 0.0)


def standard_errors(model: Counted, known: Known, pi: Policy, episodes: int) -> tuple[Float, Float]:
    """Return the values ``[1+m]`` of a policy in a model, and their standard errors.

    The noise of a signal counts only where it is measured; g (1 - g) is the largest variance of a signal in [0,1].
    """
    process, pooled = model
    V, occupancy = policy_values(process, pi), policy_occupancy(process, pi)
    start = pooled.start
    values = (V[:, 0] * start).sum(axis=1)
    measured = ~known.components
    squares = transition_errors(pooled, V, occupancy)
    n, sums = pooled.n, pooled.sums
    means = sums / np.maximum(n, 1.0)
    q = occupancy.sum(axis=0, keepdims=True) if len(n) == 1 else occupancy
    noise = (q**2 * means * (1.0 - means) / np.maximum(n, 1.0)).sum(axis=(1, 2))
    spread = ((V[:, 0] - values[:, None]) ** 2 * start).sum(axis=1) / max(episodes, 1)
    errors: Float = np.sqrt(squares + measured * noise + spread)
    return values, errors


def transition_errors(pooled: Pooled, V: Float, occupancy: Float) -> Float:
    """Return ``sum_sa Var_p(f_sa) / n(s,a)`` of every component, ``[1+m]``; over pairs that the policy meets."""
    K, pairs = pooled.n.shape
    q = occupancy[None] if K == 1 else occupancy[:, None]  # [K, steps that share counts, S*A]
    rows = pooled.pairs
    met = (q > 0.0).any(axis=1).ravel()[rows]
    row, state, count = rows[met], pooled.states[met], pooled.counts[met]
    k, pair = np.divmod(row, pairs)
    f = np.zeros((len(V), len(row)))
    for j in range(q.shape[1]):
        h = j if K == 1 else k
        f += q[k, j, pair] * V[:, h + 1, state]
    n = pooled.n.ravel()
    visits = np.maximum(n, 1.0)
    squares = np.zeros(len(V))
    for c, each in enumerate(f):
        mean = np.bincount(row, count * each, n.size) / visits
        square = np.bincount(row, count * each * each, n.size) / visits
        squares[c] = ((square - mean * mean).clip(0.0) / visits).sum()
    return squares
