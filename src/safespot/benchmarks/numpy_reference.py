"""The same learner in NumPy, vectorized over states and actions, as a researcher would write it: plain, and tuned.

Every episode recomputes the model from its counts, evaluates the policy in it, updates, evaluates the policy
exactly in the true CMDP, plays it and counts. It is the yardstick of the training benchmarks, and a third
implementation beside the package and the tests' reference: with the same seed it meets the same noise, so its
regret and violation are the package's but for rounding.

`PlainSpot` follows the formulas: p_hat is an array, its product with V one per state, and steps are counted one by
one. `TunedSpot` knows that at these sizes calls are what costs: one matrix product per step of the episode, the counts
as they are, and an episode counted at once.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

import safespot as ss
from safespot.arrays import Float

AT_ONCE = 512  # episodes whose random numbers are drawn at once


class TunedSpot:
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
        self.p = np.asarray(cmdp.transitions).reshape(H, S * A, S).copy()
        self.cumulated = np.cumsum(self.p, axis=2)
        self.v = np.concatenate([cmdp.rewards[None], cmdp.constraints]).reshape(1 + m, H, S * A)
        self.alpha, self.start, self.rho = cmdp.thresholds, cmdp.start, rho
        self.optimum, self.c = ss.solve(cmdp).value, bonus_scale
        self.L_r = math.log(S * A * H * m * episodes / delta)
        self.L_p = math.log(S * A * H * episodes / delta)
        self.eta = math.sqrt(2 * math.log(A) / (H**2 * (1 + m * rho) ** 2 * episodes))
        self.step = rho / math.sqrt(m * H**2 * episodes)
        self.n = np.zeros((H, S * A))
        self.sums = np.zeros((1 + m, H, S * A))
        self.successors = np.zeros((H, S * A, S))
        self.samples = np.zeros((m, H, S * A))
        self.logits, self.lam = np.zeros((H, S, A)), np.zeros(m)
        self.remaining, self.steps = np.arange(H, 0, -1.0), np.arange(H)
        self.streams, self.t = ss.streams(seed), 0
        self.regret, self.violation = 0.0, np.zeros(m)

    def run(self, episodes: int) -> None:
        """So many more episodes."""
        for _ in range(episodes):
            self.episode()

    def episode(self) -> None:
        """One episode: evaluate, update, track, play, count."""
        H, S, A, m = self.H, self.S, self.A, self.m
        weights = np.exp(self.logits - self.logits.max(axis=2, keepdims=True))
        pi = weights / weights.sum(axis=2, keepdims=True)

        # The optimistic model.
        n = np.maximum(self.n, 1.0)
        phi = self.c * (np.sqrt(self.L_r / n) + H * np.sqrt((S + self.L_p) / n))
        v_bar = np.where(self.n > 0, self.sums / n + phi, np.inf)

        # The pessimistic threshold at the most visited pair of each step.
        pair = self.n.argmax(axis=1)
        most = self.n[self.steps, pair]
        mean = self.samples[:, self.steps, pair] / np.maximum(most, 1.0)
        zeta = np.minimum(1.0, np.sqrt(4 * self.L_r / np.maximum(most, 1.0)))
        upper = np.where(most > 0, np.clip(mean + zeta, 0.0, 1.0), 1.0).sum(axis=1)

        # Truncated evaluation, mirror ascent, dual step.
        V = np.zeros((1 + m, S))
        Q = np.empty((1 + m, H, S, A))
        follows = self.follows(n)
        for h in range(H - 1, -1, -1):
            ahead = v_bar[:, h] + follows(h, V)
            Q[:, h] = np.minimum(ahead, self.remaining[h]).reshape(1 + m, S, A)
            V = (pi[h] * Q[:, h]).sum(axis=2)
        self.logits += self.eta * (Q[0] + np.tensordot(self.lam, Q[1:], axes=1))
        self.lam = np.clip(self.lam + self.step * (upper - V[1:, self.start]), 0.0, self.rho)

        self.track(pi)
        self.play(pi)

    def follows(self, n: Float) -> Callable[[int, Float], Float]:
        """``p_hat V`` ``[1+m, S*A]`` of a step, from V ``[1+m, S]``."""
        return lambda h, V: V @ self.successors[h].T / n[h]

    def truly(self, h: int, V: Float) -> Float:
        """``p V`` in the same form."""
        ahead: Float = V @ self.p[h].T
        return ahead

    def track(self, pi: Float) -> None:
        """Exact values of the policy, and what they add to regret and violation."""
        V = np.zeros((1 + self.m, self.S))
        for h in range(self.H - 1, -1, -1):
            Q = self.v[:, h] + self.truly(h, V)
            V = (pi[h] * Q.reshape(-1, self.S, self.A)).sum(axis=2)
        self.regret += self.optimum - V[0, self.start]
        self.violation += self.alpha.sum(axis=1) - V[1:, self.start]

    def play(self, pi: Float) -> None:
        """One episode with Bernoulli signals, counted."""
        k = self.coming()
        likely = np.cumsum(pi, axis=2)
        states, pairs = [self.start], []
        for h in range(self.H):
            s = states[h]
            a = min(int(likely[h, s].searchsorted(self.actions[k, h], "right")), self.A - 1)
            pairs.append(s * self.A + a)
            row = self.cumulated[h, pairs[h]]
            states.append(min(int(row.searchsorted(self.transitions[k, h], "right")), self.S - 1))
        at = self.steps, pairs
        self.n[at] += 1
        self.sums[:, *at] += self.noise[k] < self.v[:, *at]
        self.samples[:, *at] += self.thresholds[k] < self.alpha
        self.successors[*at, states[1:]] += 1

    def coming(self) -> int:
        """Where the noise of the coming episode is, drawn where there is none left."""
        k = self.t % AT_ONCE
        if k == 0:
            self.draw()
        self.t += 1
        return k

    def draw(self) -> None:
        """The noise of the next episodes, in the order in which the package draws it."""
        n, H, m, streams = AT_ONCE, self.H, self.m, self.streams
        self.actions = streams.actions.random((n, H))
        self.transitions = streams.transitions.random((n, H))
        rewards = streams.rewards.random((n, 1, H))
        constraints = streams.constraints.random((n, H, m)).swapaxes(1, 2)
        self.noise = np.concatenate([rewards, constraints], axis=1)  # [n, 1+m, H]
        self.thresholds = streams.thresholds.random((n, H, m)).swapaxes(1, 2)


class PlainSpot(TunedSpot):
    """The same by the formulas, before anybody has looked at where the time goes."""

    def follows(self, n: Float) -> Callable[[int, Float], Float]:
        """From p_hat, recomputed whole."""
        p_hat = self.successors / n[..., None]
        return lambda h, V: self._expected(p_hat[h], V)

    def truly(self, h: int, V: Float) -> Float:
        """From the true p."""
        return self._expected(self.p[h], V)

    def _expected(self, p: Float, V: Float) -> Float:
        after = p.reshape(self.S, self.A, self.S) @ V.T
        return np.moveaxis(after, 2, 0).reshape(len(V), -1)

    def play(self, pi: Float) -> None:
        """One episode, counted step by step."""
        k, s = self.coming(), self.start
        for h in range(self.H):
            drawn, moved = self.actions[k, h], self.transitions[k, h]
            a = min(int(np.searchsorted(np.cumsum(pi[h, s]), drawn, "right")), self.A - 1)
            pair = s * self.A + a
            after = np.searchsorted(np.cumsum(self.p[h, pair]), moved, "right")
            self.n[h, pair] += 1
            self.sums[:, h, pair] += self.noise[k, :, h] < self.v[:, h, pair]
            self.samples[:, h, pair] += self.thresholds[k, :, h] < self.alpha[:, h]
            s = min(int(after), self.S - 1)
            self.successors[h, pair, s] += 1
