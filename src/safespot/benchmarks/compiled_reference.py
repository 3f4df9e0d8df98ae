"""The same learner as one plain compiled loop, as whoever knows Numba writes it in an afternoon.

The formulas of `numpy_reference`, entry by entry, with no array allocated and no trick: what it takes does not change
with the interpreter, nor with how NumPy was built, so it is the yardstick for what the package's own kernels add.
"""

from __future__ import annotations

import math
from typing import Any

import numba
import numpy as np

import safespot as ss
from safespot.arrays import Float

from .numpy_reference import AT_ONCE, TunedSpot


class CompiledSpot(TunedSpot):
    """`TunedSpot`'s numbers from compiled episodes."""

    def __init__(self, problem: ss.Problem, **options: Any) -> None:
        super().__init__(problem, **options)
        H, S, A, m = self.H, self.S, self.A, self.m
        self.totals = np.zeros(1 + m)  # regret, violation
        self.scratch = np.zeros((H, S, A)), np.zeros((1 + m, H, S * A)), np.zeros((1 + m, H + 1, S))

    def run(self, episodes: int) -> None:
        """So many more episodes, with the noise that the others meet."""
        while episodes > 0:
            first = self.t % AT_ONCE
            if first == 0:
                self.draw()
            last = min(first + episodes, AT_ONCE)
            plain_episodes(
                first,
                last,
                (self.p, self.v, self.alpha, self.start, self.optimum),
                (self.c, self.L_r, self.L_p, self.eta, self.step, self.rho),
                (self.actions, self.transitions, self.noise, self.thresholds),
                (self.n, self.sums, self.successors, self.samples),
                (self.logits, self.lam, self.totals),
                self.scratch,
            )
            self.t += last - first
            episodes -= last - first
        self.regret, self.violation = float(self.totals[0]), self.totals[1:]


@numba.njit
def plain_episodes(
    first: int,
    last: int,
    truth: Any,
    rates: Any,
    noise: Any,
    counts: Any,
    state: Any,
    scratch: Any,
) -> None:
    """Evaluate, update, track, play, count: `TunedSpot.episode`, loop by loop."""
    n, sums, successors, samples = counts
    logits, lam, totals = state
    pi, Q, V = scratch
    start, (_, L_r, _, eta, step, rho) = truth[3], rates
    H, S, A = logits.shape
    for k in range(first, last):
        softmax(logits, pi)
        optimistic_values(rates, n, sums, successors, pi, Q, V)
        for h in range(H):
            for s in range(S):
                for a in range(A):
                    gain = Q[0, h, s * A + a]
                    for i in range(len(lam)):
                        gain += lam[i] * Q[1 + i, h, s * A + a]
                    logits[h, s, a] += eta * gain
        for i in range(len(lam)):
            moved = lam[i] + step * (upper_threshold(i, n, samples, L_r) - V[1 + i, 0, start])
            lam[i] = min(max(moved, 0.0), rho)
        track(truth, pi, V, totals)
        play(k, truth, noise, pi, counts)


@numba.njit
def softmax(logits: Float, pi: Float) -> None:
    H, S, A = logits.shape
    for h in range(H):
        for s in range(S):
            most, total = logits[h, s].max(), 0.0
            for a in range(A):
                pi[h, s, a] = math.exp(logits[h, s, a] - most)
                total += pi[h, s, a]
            for a in range(A):
                pi[h, s, a] /= total


@numba.njit
def optimistic_values(
    rates: Any, n: Float, sums: Float, successors: Float, pi: Float, Q: Float, V: Float
) -> None:
    """Truncated evaluation of every signal in the model of the counts."""
    c, L_r, L_p, _, _, _ = rates
    H, S, A = pi.shape
    V[:, H] = 0.0
    for h in range(H - 1, -1, -1):
        for j in range(len(V)):
            for s in range(S):
                value = 0.0
                for a in range(A):
                    pair = s * A + a
                    q = float(H - h)
                    if n[h, pair] > 0.0:
                        seen = n[h, pair]
                        phi = c * (math.sqrt(L_r / seen) + H * math.sqrt((S + L_p) / seen))
                        ahead = 0.0
                        for after in range(S):
                            ahead += successors[h, pair, after] * V[j, h + 1, after]
                        q = min(q, (sums[j, h, pair] + ahead) / seen + phi)
                    Q[j, h, pair] = q
                    value += pi[h, s, a] * q
                V[j, h, s] = value


@numba.njit
def upper_threshold(i: int, n: Float, samples: Float, L_r: float) -> float:
    """The upper bound of a threshold, from the most visited pair of each step."""
    total = 0.0
    for h in range(len(n)):
        pair = n[h].argmax()
        most = n[h, pair]
        if most > 0.0:
            zeta = min(1.0, math.sqrt(4.0 * L_r / most))
            total += min(max(samples[i, h, pair] / most + zeta, 0.0), 1.0)
        else:
            total += 1.0
    return total


@numba.njit
def track(truth: Any, pi: Float, V: Float, totals: Float) -> None:
    """Exact values of the policy, and what they add to regret and violation."""
    p, v, alpha, start, optimum = truth
    H, S, A = pi.shape
    V[:, H] = 0.0
    for h in range(H - 1, -1, -1):
        for j in range(len(V)):
            for s in range(S):
                value = 0.0
                for a in range(A):
                    q = v[j, h, s * A + a]
                    for after in range(S):
                        q += p[h, s * A + a, after] * V[j, h + 1, after]
                    value += pi[h, s, a] * q
                V[j, h, s] = value
    totals[0] += optimum - V[0, 0, start]
    for i in range(len(alpha)):
        totals[1 + i] += alpha[i].sum() - V[1 + i, 0, start]


@numba.njit
def play(k: int, truth: Any, noise: Any, pi: Float, counts: Any) -> None:
    """One episode with Bernoulli signals, counted step by step."""
    p, v, alpha, s, _ = truth
    actions, transitions, signals, thresholds = noise
    n, sums, successors, samples = counts
    H, S, A = pi.shape
    for h in range(H):
        action, move = actions[k, h], transitions[k, h]
        a, likely = 0, pi[h, s, 0]
        while a < A - 1 and action >= likely:
            a += 1
            likely += pi[h, s, a]
        pair = s * A + a
        s, likely = 0, p[h, pair, 0]
        while s < S - 1 and move >= likely:
            s += 1
            likely += p[h, pair, s]
        n[h, pair] += 1
        for j in range(len(sums)):
            sums[j, h, pair] += signals[k, j, h] < v[j, h, pair]
        for i in range(len(alpha)):
            samples[i, h, pair] += thresholds[k, i, h] < alpha[i, h]
        successors[h, pair, s] += 1
