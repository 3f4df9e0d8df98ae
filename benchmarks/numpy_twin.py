"""The same learner in plain NumPy, vectorised over states and actions, as a researcher would write it.

Every episode recomputes the model from its counts, evaluates the policy in it, updates, evaluates the policy
exactly in the true CMDP, plays it and counts. It is the yardstick of the training benchmarks, and a third
implementation beside the package and the tests' reference.
"""

from __future__ import annotations

import math

import numpy as np

import safespot as ss
from safespot.arrays import Float


class NumpySpot:
    """SPOT with gamma = 1, the representative estimator and the Hoeffding bonus, from a fixed start."""

    def __init__(
        self,
        problem: ss.Problem,
        *,
        episodes: int,
        rho: float,
        bonus_scale: float = 1.0,
        seed: int = 0,
        delta: float = 0.05,
    ) -> None:
        cmdp = problem.cmdp
        assert isinstance(cmdp.start, int)
        self.H, self.S, self.A, self.m = H, S, A, m = cmdp.H, cmdp.S, cmdp.A, cmdp.m
        self.p = np.ascontiguousarray(cmdp.transitions)
        self.v = np.concatenate([cmdp.rewards[None], cmdp.constraints])  # [1+m, H, S, A]
        self.alpha, self.start, self.rho = cmdp.thresholds, cmdp.start, rho
        self.optimum, self.c = ss.solve(cmdp).value, bonus_scale
        self.L_r = math.log(S * A * H * m * episodes / delta)
        self.L_p = math.log(S * A * H * episodes / delta)
        self.eta = math.sqrt(2 * math.log(A) / (H**2 * (1 + m * rho) ** 2 * episodes))
        self.step = rho / math.sqrt(m * H**2 * episodes)
        self.n = np.zeros((H, S, A))
        self.sums = np.zeros((1 + m, H, S, A))
        self.successors = np.zeros((H, S, A, S))
        self.samples = np.zeros((m, H, S * A))
        self.logits, self.lam = np.zeros((H, S, A)), np.zeros(m)
        self.remaining = np.arange(H, 0, -1.0)
        self.rng = np.random.default_rng(seed)
        self.regret, self.violation = 0.0, np.zeros(m)

    def episode(self) -> None:
        """One episode: evaluate, update, track, play, count."""
        H, m = self.H, self.m
        weights = np.exp(self.logits - self.logits.max(axis=2, keepdims=True))
        pi = weights / weights.sum(axis=2, keepdims=True)

        # The optimistic model.
        n = np.maximum(self.n, 1.0)
        phi = self.c * (np.sqrt(self.L_r / n) + H * np.sqrt((self.S + self.L_p) / n))
        v_bar = np.where(self.n > 0, self.sums / n + phi, np.inf)
        p_hat = self.successors / n[..., None]

        # The pessimistic threshold at the most visited pair of each step.
        visits = self.n.reshape(H, -1)
        pair = visits.argmax(axis=1)
        most = np.take_along_axis(visits, pair[:, None], axis=1)[:, 0]
        mean = np.take_along_axis(self.samples, pair[None, :, None], axis=2)[..., 0] / np.maximum(
            most, 1.0
        )
        zeta = np.minimum(1.0, np.sqrt(4 * self.L_r / np.maximum(most, 1.0)))
        upper = np.where(most > 0, np.clip(mean + zeta, 0.0, 1.0), 1.0).sum(axis=1)

        # Truncated evaluation, mirror ascent, dual step.
        V = np.zeros((1 + m, self.S))
        Q = np.empty((1 + m, H, self.S, self.A))
        for h in range(H - 1, -1, -1):
            Q[:, h] = np.minimum(v_bar[:, h] + np.moveaxis(p_hat[h] @ V.T, 2, 0), self.remaining[h])
            V = (pi[h] * Q[:, h]).sum(axis=2)
        self.logits += self.eta * (Q[0] + np.tensordot(self.lam, Q[1:], axes=1))
        self.lam = np.clip(self.lam + self.step * (upper - V[1:, self.start]), 0.0, self.rho)

        self.track(pi)
        self.play(pi)

    def track(self, pi: Float) -> None:
        """Exact values of the policy, and what they add to regret and violation."""
        V = np.zeros((1 + self.m, self.S))
        for h in range(self.H - 1, -1, -1):
            V = (pi[h] * (self.v[:, h] + np.moveaxis(self.p[h] @ V.T, 2, 0))).sum(axis=2)
        self.regret += self.optimum - V[0, self.start]
        self.violation += self.alpha.sum(axis=1) - V[1:, self.start]

    def play(self, pi: Float) -> None:
        """One episode with Bernoulli signals, counted."""
        s = self.start
        luck = self.rng.random((self.H, 3 + 2 * self.m))
        for h in range(self.H):
            a = min(int(np.searchsorted(np.cumsum(pi[h, s]), luck[h, 0])), self.A - 1)
            after = min(int(np.searchsorted(np.cumsum(self.p[h, s, a]), luck[h, 1])), self.S - 1)
            self.n[h, s, a] += 1
            self.sums[:, h, s, a] += luck[h, 2 : 3 + self.m] < self.v[:, h, s, a]
            self.samples[:, h, s * self.A + a] += luck[h, 3 + self.m :] < self.alpha[:, h]
            self.successors[h, s, a, after] += 1
            s = after
