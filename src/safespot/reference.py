"""SPOT in plain NumPy: the specification that runs, and what the compiled core is held against.

Written to be read next to the paper: one line per equation, each with the step of the specification ("step 2") or the
deviation ("D5") that it carries out (docs/paper-map.md). Nothing here is fast, and nothing of the package is used.

Signals lie in [0,1]; constraints read V_g >= alpha. Steps, states and actions are 0-based in the arrays, the episode t
is 1-based. Array axes are ``[i, h, s, a, s']``.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

Float = NDArray[np.float64]

STANCES = {"pessimistic": 0.0, "optimistic": 1.0}
FIRST_EPOCH = 1024


def policy_values(transitions: Float, payoffs: Float, start: Float, policy: Float) -> Float:
    """Return the values ``[C]`` of a policy ``[H,S,A]`` at the start, by backward induction.

    `transitions` ``[H,S,A,S]``, `payoffs` ``[C,H,S,A]`` (the reward, then the constraints), `start` ``[S]``.
    """
    C, H, S, _ = payoffs.shape
    V = np.zeros((C, S))
    for h in reversed(range(H)):
        Q = payoffs[:, h] + np.einsum("san,cn->csa", transitions[h], V)
        V = np.einsum("sa,csa->cs", policy[h], Q)
    return V @ start


def pick(probabilities: Float, u: float) -> int:
    """Return the first index whose cumulated probability passes u in [0,1); else the last possible one."""
    passed = int((np.cumsum(probabilities) <= u).sum())
    return min(passed, int(np.flatnonzero(probabilities)[-1]))


def signal(law: str, mean: float, z: float, parameter: float = 0.0) -> float:
    """Return the observation with this mean that the random number z stands for.

    Bernoulli: z uniform in [0,1). Gaussian: z standard normal, clipped symmetrically so that the mean stays and the
    signal lies in [0,1]; `parameter` is the standard deviation. Beta: the quantile z of Beta(c mean, c (1 - mean)) with
    the concentration c.
    """
    if law == "bernoulli":
        return float(z < mean)
    if law == "gaussian":
        room = min(mean, 1.0 - mean)
        return float(mean + np.clip(parameter * z, -room, room))
    a, b = parameter * mean, parameter * (1.0 - mean)
    if law == "beta" and min(a, b) > 0.0:
        from scipy.stats import beta

        return float(beta.ppf(z, a, b))
    return mean


class ReferenceSpot:
    """The learner, brute force: running sums for the model, and every episode for the window.

    Arguments and attributes are those of `Spot`, inside: signals in [0,1] and senses ">=".
    """

    def __init__(
        self,
        states: int,
        actions: int,
        horizon: int,
        constraints: int,
        start: int | None = 0,
        action_mask: ArrayLike | None = None,
        *,
        episodes: int | None,
        rho: float | None = None,
        slack: float | None = None,
        thresholds: ArrayLike | None = None,
        stance: str | float = "pessimistic",
        window: float = 1.0,
        delta: float = 0.05,
        bonus: str = "hoeffding",
        bonus_scale: float = 1.0,
        estimator: str = "representative",
        threshold_scale: float = 1.0,
        clip_thresholds: bool = True,
        policy_step: float | None = None,
        dual_step: float | None = None,
    ) -> None:
        S, A, H, m = self.S, self.A, self.H, self.m = states, actions, horizon, constraints
        if (rho is None) == (slack is None):
            raise ValueError("give rho or slack, one of the two")
        self.rho = float(rho) if slack is None else 2 * H / slack  # type: ignore[arg-type]  # D4
        if math.isinf(self.rho) and (policy_step is None or dual_step is None):
            raise ValueError("rho = inf needs policy_step and dual_step")
        if bonus not in ("hoeffding", "bernstein"):
            raise ValueError(f"unknown bonus {bonus!r}")
        if estimator not in ("representative", "pooled"):
            raise ValueError(f"unknown estimator {estimator!r}")
        self.start, self.episodes, self.delta = start, episodes, delta
        self.xi = STANCES[stance] if isinstance(stance, str) else float(stance)  # step 3
        self.gamma, self.k, self.clip = window, threshold_scale, clip_thresholds
        self.estimator, self.bonus, self.c = estimator, bonus, bonus_scale
        self.policy_step, self.dual_step = policy_step, dual_step
        mask = np.ones((S, A), bool) if action_mask is None else np.asarray(action_mask, bool)
        self.mask = np.broadcast_to(mask, (H, S, A))  # D6
        self.known: Float | None = None
        if thresholds is not None:  # known thresholds: [m] episodic totals, or [m,H] per step
            alpha = np.asarray(thresholds, float)
            self.known = alpha.sum(axis=1) if alpha.ndim == 2 else alpha

        # finished episodes: (states, actions, threshold signals)
        self.history: list[tuple[list[int], list[int], Float]] = []
        self.count = np.zeros((H, S, A), int)  # N_h(s,a)
        self.signal_sum = np.zeros((1 + m, H, S, A))  # of the reward (0) and the constraints (1..m)
        self.next_count = np.zeros((H, S, A, S), int)  # count(s'|s,a) at h
        self.start_count = np.zeros(S, int)
        self.logits = np.zeros((H, S, A))  # step 6: pi_1 uniform
        self.multipliers = np.zeros(m)  # step 6: lambda_1 = 0

    @property
    def episode(self) -> int:
        """Number of the coming episode t, 1-based."""
        return len(self.history) + 1

    @property
    def policy(self) -> Float:
        """Policy pi_t ``[H,S,A]`` of the coming episode: the softmax over admissible actions (step 5, D6)."""
        logits = np.where(self.mask, self.logits, -np.inf)
        weights = np.exp(logits - logits.max(axis=2, keepdims=True))
        policy: Float = weights / weights.sum(axis=2, keepdims=True)
        return policy

    @property
    def thresholds(self) -> Float:
        """Thresholds alpha_xi ``[m]`` of the coming episode's update, from episodes 1 .. t-1."""
        if self.known is not None:
            return self.known.copy()
        lower, upper = self.threshold_bounds
        return self.xi * lower + (1 - self.xi) * upper  # step 3: alpha_xi

    @property
    def threshold_bounds(self) -> tuple[Float, Float]:
        """Optimistic and pessimistic bounds ``[m]`` of each step, summed over the steps."""
        if self.known is not None:
            return self.known.copy(), self.known.copy()
        lower, upper = np.zeros(self.m), np.zeros(self.m)
        for h in range(self.H):
            low, high = self._step_bounds(h)
            lower, upper = lower + low, upper + high  # step 3: summed over h
        return lower, upper

    def observe(
        self, states: Any, actions: Any, rewards: Any, constraints: Any, thresholds: Any
    ) -> None:
        """Take steps 1-6 with the data before this episode, then count it (step 7)."""
        Q, V_start = self._evaluate()  # steps 1, 2, 4, with pi_t and lambda_t
        alpha = self.thresholds  # step 3
        eta, step = self._step_sizes()
        self.logits = self.logits + eta * Q  # step 5: mirror ascent, as logits
        admissible = np.where(self.mask, self.logits, -np.inf)
        self.logits = self.logits - admissible.max(axis=2, keepdims=True)  # step 5: same policy
        dual = self.multipliers + step * (alpha - V_start)  # step 6
        self.multipliers = np.clip(dual, 0.0, self.rho)  # step 6: projection on [0, rho]

        constraints = np.asarray(constraints, float).reshape(self.H, self.m)
        thresholds = np.array(thresholds, float).reshape(self.H, self.m)
        for h in range(self.H):  # step 7: the episode joins the counts ...
            s, a = states[h], actions[h]
            self.count[h, s, a] += 1
            self.signal_sum[0, h, s, a] += rewards[h]
            self.signal_sum[1:, h, s, a] += constraints[h]
            self.next_count[h, s, a, states[h + 1]] += 1
        self.start_count[states[0]] += 1
        visited = [int(s) for s in states], [int(a) for a in actions]
        self.history.append((*visited, thresholds))  # ... and the window

        if self.episodes is None and self.episode == self._epoch()[1]:  # anytime: a new epoch
            self.logits = np.zeros((self.H, self.S, self.A))
            self.multipliers = np.zeros(self.m)

    def _epoch(self) -> tuple[int, int, int, int]:
        """Return the epoch of the coming episode: k, its first episode, its length T_k, its last episode."""
        k, first, length = 1, 1, FIRST_EPOCH
        while self.episode >= first + length:
            k, first, length = k + 1, first + length, 2 * length  # anytime: T_k = 1024 * 2^(k-1)
        return k, first, length, first + length - 1

    def _logs(self) -> tuple[float, float, float]:
        """Return L_r, L_p and l, the logarithms of the bonuses; L_r is that of the thresholds too."""
        S, A, H, m, T, delta = self.S, self.A, self.H, self.m, self.episodes, self.delta
        if T is None:
            k, _, _, T = self._epoch()  # anytime: all episodes up to the epoch's end
            delta = delta / (k * (k + 1))  # anytime: delta_k
        L_r = math.log(S * A * H * m * T / delta)  # step 2
        L_p = math.log(S * A * H * T / delta)  # step 2
        ell = math.log(10 * S**2 * A * H * T / delta)  # "bernstein"
        return L_r, L_p, ell

    def _step_sizes(self) -> tuple[float, float]:
        """Return the step sizes eta and 1 / eta_lambda."""
        A, H, m, rho = self.A, self.H, self.m, self.rho
        T = self._epoch()[2] if self.episodes is None else self.episodes  # anytime: T_k
        eta, step = self.policy_step, self.dual_step
        if eta is None:
            eta = math.sqrt(2 * math.log(A) / (H**2 * (1 + m * rho) ** 2 * T))  # step 5
        if step is None:
            step = rho / math.sqrt(m * H**2 * T)  # step 6
        return eta, step

    def _phi(self, h: int, s: int, a: int) -> float:
        """Return the bonus of a visited pair; infinite (the cap) where "bernstein" needs more data."""
        H, S, n = self.H, self.S, int(self.count[h, s, a])  # D1: the count behind the mean
        L_r, L_p, ell = self._logs()
        signal = math.sqrt(L_r / n)  # step 2, Eq. opt-p: phi^r
        transition = H * math.sqrt((S + L_p) / n)  # step 2, Eq. opt-p: phi^p
        if self.bonus == "bernstein":
            if n <= 1:
                return math.inf  # "bernstein": at n <= 1 the pair sits at its cap, whatever c
            total = 0.0
            for successors in self.next_count[h, s, a]:
                if successors > 0:  # "bernstein": observed s' only
                    p = successors / n
                    total += math.sqrt(2 * p * (1 - p) * ell / (n - 1)) + 7 * ell / (3 * (n - 1))
            transition = min(transition, H * total)  # "bernstein": the smaller of the two
        return self.c * (signal + transition)  # step 2

    def _evaluate(self) -> tuple[Float, Float]:
        """Evaluate pi_t, truncated (Algorithm TPE): return Q ``[H,S,A]`` and V_g(start) ``[m]``."""
        H, S, A, m, pi = self.H, self.S, self.A, self.m, self.policy
        Q_v = np.zeros((1 + m, H, S, A))  # the reward (0) and the constraints (1..m)
        V_v = np.zeros((1 + m, H + 1, S))  # step 4: V_{H+1} = 0
        for h in reversed(range(H)):
            remaining = H - h  # step 4: H - h + 1 for the 1-based h
            for s in range(S):
                for a in range(A):
                    n = self.count[h, s, a]
                    if n == 0:
                        Q_v[:, h, s, a] = remaining  # D8
                        continue
                    mean = self.signal_sum[:, h, s, a] / n  # step 1: r_hat, g_hat
                    p_hat = self.next_count[h, s, a] / n  # step 1
                    v_bar = mean + self._phi(h, s, a)  # step 2: r_bar, g_bar
                    Q_v[:, h, s, a] = np.minimum(v_bar + V_v[:, h + 1] @ p_hat, remaining)  # step 4
                V_v[:, h, s] = Q_v[:, h, s] @ pi[h, s]  # step 4
        Q = Q_v[0] + np.tensordot(self.multipliers, Q_v[1:], axes=1)  # step 4: Q_r + lambda . Q_g
        return Q, self._start_value(V_v[1:, 0])

    def _start_value(self, V_1: Float) -> Float:
        """Return V_g at the start ``[m]``, from V_1 ``[m,S]``."""
        if self.start is not None:
            return V_1[:, self.start]  # step 6
        n = len(self.history)
        if n == 0:
            return np.full(self.m, float(self.H))  # D5: H at t = 1
        phi_0 = self.c * self.H * math.sqrt((self.S + self._logs()[1]) / n)  # D5
        mu_hat = self.start_count / n  # D5
        return np.minimum(phi_0 + V_1 @ mu_hat, self.H)  # D5

    def _step_bounds(self, h: int) -> tuple[Float, Float]:
        """Return the optimistic and pessimistic bounds ``[m]`` of step h, from the window (Eq. opt-a)."""
        finished = len(self.history)
        W = max(1, math.floor(self.gamma * finished))  # step 3, D1
        samples: dict = {}  # pair s*A + a -> its threshold samples in the window
        for states, actions, thresholds in self.history[max(0, finished - W) :]:
            if not np.isnan(thresholds[h]).any():  # D7: a step without a sample does not count
                pair = 0 if self.estimator == "pooled" else states[h] * self.A + actions[h]
                samples.setdefault(pair, []).append(thresholds[h])
        if not samples:
            return np.zeros(self.m), np.ones(self.m)  # step 3: no sample yet, whatever k
        most = max(len(of_pair) for of_pair in samples.values())
        pair = min(p for p in samples if len(samples[p]) == most)  # step 3: the lowest on ties
        n = len(samples[pair])  # D1
        alpha_hat = np.sum(samples[pair], axis=0) / n  # step 3: windowed mean
        zeta = min(1.0, self.k * math.sqrt(4 * self._logs()[0] / n))  # step 3
        low, high = alpha_hat - zeta, alpha_hat + zeta  # step 3
        return (np.clip(low, 0, 1), np.clip(high, 0, 1)) if self.clip else (low, high)  # D2
