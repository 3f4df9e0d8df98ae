"""SPOT in plain NumPy: the reference implementation that the fast learner is tested against.

Written to be read next to the specification: one line per equation, each with the step ("step 2")
or the deviation ("D5") that it carries out. Signals lie in [0, 1]; constraints read V_g >= alpha.
Steps, states and actions are 0-based in the arrays; the episode t is 1-based.
"""

import math

import numpy as np

STANCES = {"pessimistic": 0.0, "optimistic": 1.0}
FIRST_EPOCH = 1024


class ReferenceSpot:
    """The learner, brute force. Running sums for the model, every episode kept for the window."""

    def __init__(
        self,
        states,
        actions,
        horizon,
        constraints,
        start=0,
        action_mask=None,
        *,
        episodes,
        rho=None,
        slack=None,
        thresholds=None,
        stance="pessimistic",
        window=1.0,
        delta=0.05,
        bonus="hoeffding",
        bonus_scale=1.0,
        estimator="representative",
        threshold_scale=1.0,
        clip_thresholds=True,
        policy_step=None,
        dual_step=None,
    ):
        S, A, H, m = self.S, self.A, self.H, self.m = states, actions, horizon, constraints
        if (rho is None) == (slack is None):
            raise ValueError("give rho or slack, one of the two")
        self.rho = float(rho) if rho is not None else 2 * H / slack  # D4
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
        self.known = None
        if thresholds is not None:  # known thresholds: [m] episodic totals, or [m,H] per step
            given = np.asarray(thresholds, float)
            self.known = given.sum(axis=1) if given.ndim == 2 else given

        self.history = []  # finished episodes: (states, actions, threshold signals)
        self.count = np.zeros((H, S, A), int)  # N_h(s,a)
        self.signal_sum = np.zeros((1 + m, H, S, A))  # of the reward (0) and the constraints (1..m)
        self.next_count = np.zeros((H, S, A, S), int)  # count(s'|s,a) at h
        self.start_count = np.zeros(S, int)
        self.logits = np.zeros((H, S, A))  # step 6: pi_1 uniform
        self.multipliers = np.zeros(m)  # step 6: lambda_1 = 0

    @property
    def episode(self):
        """The coming episode t, 1-based."""
        return len(self.history) + 1

    @property
    def policy(self):
        """pi_t [H,S,A] for the coming episode: the softmax over admissible actions (step 5, D6)."""
        logits = np.where(self.mask, self.logits, -np.inf)
        weights = np.exp(logits - logits.max(axis=2, keepdims=True))
        return weights / weights.sum(axis=2, keepdims=True)

    @property
    def thresholds(self):
        """alpha_xi [m] of the coming episode's update, from episodes 1 .. t-1."""
        if self.known is not None:
            return self.known.copy()
        lower, upper = self.threshold_bounds
        return self.xi * lower + (1 - self.xi) * upper  # step 3: alpha_xi

    @property
    def threshold_bounds(self):
        """(optimistic [m], pessimistic [m]): the bounds of each step, summed over the steps."""
        if self.known is not None:
            return self.known.copy(), self.known.copy()
        lower, upper = np.zeros(self.m), np.zeros(self.m)
        for h in range(self.H):
            low, high = self._step_bounds(h)
            lower, upper = lower + low, upper + high  # step 3: summed over h
        return lower, upper

    def observe(self, states, actions, rewards, constraints, thresholds):
        """Steps 1-6 with the data before this episode, then step 7's bookkeeping."""
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

    def _epoch(self):
        """(k, its first episode, its length T_k, its last episode) of the coming episode."""
        k, first, length = 1, 1, FIRST_EPOCH
        while self.episode >= first + length:
            k, first, length = k + 1, first + length, 2 * length  # anytime: T_k = 1024 * 2^(k-1)
        return k, first, length, first + length - 1

    def _logs(self):
        """(L_r, L_p, l): the logarithms of the bonuses; L_r is that of the thresholds too."""
        S, A, H, m, T, delta = self.S, self.A, self.H, self.m, self.episodes, self.delta
        if T is None:
            k, _, _, T = self._epoch()  # anytime: all episodes up to the epoch's end
            delta = delta / (k * (k + 1))  # anytime: delta_k
        L_r = math.log(S * A * H * m * T / delta)  # step 2
        L_p = math.log(S * A * H * T / delta)  # step 2
        ell = math.log(10 * S**2 * A * H * T / delta)  # "bernstein"
        return L_r, L_p, ell

    def _step_sizes(self):
        """(eta, 1 / eta_lambda)."""
        A, H, m, rho = self.A, self.H, self.m, self.rho
        T = self._epoch()[2] if self.episodes is None else self.episodes  # anytime: T_k
        eta, step = self.policy_step, self.dual_step
        if eta is None:
            eta = math.sqrt(2 * math.log(A) / (H**2 * (1 + m * rho) ** 2 * T))  # step 5
        if step is None:
            step = rho / math.sqrt(m * H**2 * T)  # step 6
        return eta, step

    def _phi(self, h, s, a):
        """The bonus of a visited pair; infinite (the cap) where "bernstein" needs more data."""
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

    def _evaluate(self):
        """Truncated policy evaluation (Algorithm TPE): Q [H,S,A] and V_g(start) [m]."""
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

    def _start_value(self, V_1):
        """V_g at the start [m], from V_1 [m,S]."""
        if self.start is not None:
            return V_1[:, self.start]  # step 6
        n = len(self.history)
        if n == 0:
            return np.full(self.m, float(self.H))  # D5: H at t = 1
        phi_0 = self.c * self.H * math.sqrt((self.S + self._logs()[1]) / n)  # D5
        mu_hat = self.start_count / n  # D5
        return np.minimum(phi_0 + V_1 @ mu_hat, self.H)  # D5

    def _step_bounds(self, h):
        """(optimistic [m], pessimistic [m]) of step h, from the window (Eq. opt-a)."""
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
