"""Reference implementations of the baselines, in plain Python and NumPy, from the formulas in their docstrings.

Every episode is kept; each plan is made from all of them anew. Signals lie in [0,1], thresholds are known, the start is
a state or None. Nothing here calls the package's own planning.
"""

import math
from collections import Counter

import numpy as np
from scipy.optimize import linprog

from safespot.learners.baselines.plausible_models import Models, between


class Reference:
    """Sizes, constants of the radii, and the episodes so far."""

    def __init__(self, S, A, H, m, *, start, limits, T, delta, c):
        self.S, self.A, self.H, self.m, self.start, self.c = S, A, H, m, start, c
        self.limits = np.array(limits)
        self.L_r, self.L_p = math.log(S * A * H * m * T / delta), math.log(S * A * H * T / delta)
        self.L_b = math.log(10 * S**2 * A * H * T / delta)
        self.episodes = []

    def observe(self, episode):
        self.episodes.append(episode)

    def visits(self, h, s, a):
        return [e for e in self.episodes if (e.states[h], e.actions[h]) == (s, a)]

    def means(self, h, s, a):
        """r_hat and g_hat."""
        seen = self.visits(h, s, a)
        if not seen:
            return np.zeros(1 + self.m)
        return np.mean([np.r_[e.rewards[h], e.constraints[h]] for e in seen], axis=0)

    def beta(self, n):
        return min(self.c * math.sqrt(self.L_r / n), 1.0) if n else 1.0

    def interval(self, n, successors):
        """Lower and upper ends of a row."""
        if n <= 1:
            return np.zeros(self.S), np.ones(self.S)
        ends = []
        for s in range(self.S):
            p = successors[s] / n
            radius = math.sqrt(2 * p * (1 - p) * self.L_b / (n - 1)) + 7 * self.L_b / (3 * (n - 1))
            ends.append((max(p - self.c * radius, 0.0), min(p + self.c * radius, 1.0)))
        return tuple(np.array(ends).T)

    def row(self, h, s, a):
        seen = self.visits(h, s, a)
        return len(seen), Counter(int(e.states[h + 1]) for e in seen)

    def starts(self):
        return len(self.episodes), Counter(int(e.states[0]) for e in self.episodes)

    def variation(self, n, successors):
        """How far p_hat can be from p."""
        if n == 0:
            return 1.0
        bounds = [1.0, self.c * math.sqrt((self.S + self.L_p) / n)]
        if n > 1:
            lower, _ = self.interval(n, successors)
            bounds.append(sum(successors[s] / n - lower[s] for s in successors))
        return min(bounds)

    def models(self, payoff, interval):
        """All pairs, with a payoff [1+m] and an interval each."""
        H, S, A, m = self.H, self.S, self.A, self.m
        payoffs, lower, upper = np.zeros((1 + m, H, S * A)), *np.zeros((2, H, S * A, S))
        for h in range(H):
            for s in range(S):
                for a in range(A):
                    payoffs[:, h, s * A + a] = payoff(h, s, a)
                    lower[h, s * A + a], upper[h, s * A + a] = interval(*self.row(h, s, a))
        start = interval(*self.starts()) if self.start is None else (np.eye(S)[self.start],) * 2
        rows = tuple(between(low.T, high.T) for low, high in zip(lower, upper, strict=True))
        start = between(*np.array(start)[:, :, None])
        return Models(payoffs, rows, start, np.ones((H, S * A), bool))

    def counted(self, n, successors):
        """A row without any width: p_hat."""
        p = np.array([successors[s] / max(n, 1) for s in range(self.S)])
        return p, p

    def optimistic(self, h, s, a):
        return np.minimum(self.means(h, s, a) + self.beta(self.row(h, s, a)[0]), 1.0)


class OptCMDP(Reference):
    def program(self):
        return self.models(self.optimistic, self.interval), self.limits


class OptCMDPBonus(Reference):
    def program(self):
        def payoff(h, s, a):
            tv = self.variation(*self.row(h, s, a))
            return self.optimistic(h, s, a) + (self.H - h - 1) * tv

        relief = 0.0 if self.start is not None else self.H * self.variation(*self.starts())
        return self.models(payoff, self.counted), self.limits - relief


class DOPE(Reference):
    slack = 0.5

    def error(self, h, s, a):
        """(H - h) tv."""
        lower, upper = self.interval(*self.row(h, s, a))
        return (self.H - h - 1) * min(sum(upper - lower) / 2, 1.0)

    own = 0.0  # how much of the transitions' error the reward pays for beside the price
    rows = Reference.interval

    def start_error(self):
        lower, upper = self.interval(*self.starts())
        return min(sum(upper - lower) / 2, 1.0)

    def program(self):
        def payoff(h, s, a):
            mean, beta = self.means(h, s, a), self.beta(self.row(h, s, a)[0])
            error = self.error(h, s, a)
            g_low = np.maximum(mean[1:] - beta, 0.0) - error
            bonus = self.own * error + 2 * self.H / self.slack * (beta + error)
            return np.r_[min(mean[0] + beta, 1.0) + bonus, g_low]

        tighter = 0.0 if self.start is not None else self.H * self.start_error()
        return self.models(payoff, self.rows), self.limits + tighter


class OptPessLP(DOPE):
    own = 1.0
    rows = Reference.counted

    def error(self, h, s, a):
        return (self.H - h - 1) * self.variation(*self.row(h, s, a))

    def start_error(self):
        return self.variation(*self.starts())


class OptDual(Reference):
    """The best response by backward induction, each row by a linear program of its own."""

    rho, step = 2.0, 0.1

    def __init__(self, *sizes, **options):
        super().__init__(*sizes, **options)
        self.lam = np.zeros(self.m)
        self.policy = np.full((self.H, self.S, self.A), 1 / self.A)

    def observe(self, episode):
        super().observe(episode)
        self.policy, values = self.respond()
        self.lam = self.move(values[1:])

    def move(self, values):
        return (self.lam + self.step * (self.limits - values)).clip(0.0, self.rho)

    def respond(self):
        weights = np.r_[1.0, self.lam]
        models = self.models(self.optimistic, self.interval)
        V = np.zeros((1 + self.m, self.S))
        policy = np.zeros((self.H, self.S, self.A))
        for h in reversed(range(self.H)):
            now = np.zeros_like(V)
            for s in range(self.S):
                options = []
                for a in range(self.A):
                    pair = s * self.A + a
                    p = best_row(models.rows[h], pair, weights @ V)
                    options.append(models.payoffs[:, h, pair] + V @ p)
                best = int(np.argmax([weights @ option for option in options]))
                policy[h, s, best], now[:, s] = 1.0, options[best]
            V = now
        return policy, V @ best_row(models.start, 0, weights @ V)


def best_row(rows, pair, values):
    """The row of a pair within its intervals with the largest expectation, by HiGHS."""
    lower, room = rows.lower[:, pair], rows.room[:, pair]
    ones = np.ones((1, len(lower)))
    bounds = list(zip(lower, lower + room, strict=True))
    return linprog(-values, A_eq=ones, b_eq=[1.0], bounds=bounds, method="highs").x


class OptPessPrimalDual(OptDual):
    slack, tightening, delta = 0.5, 0.001, 0.05

    def move(self, values):
        t = len(self.episodes) + 1  # the episode that the new policy is for
        log = math.log(t / self.delta)
        paper = 5 * self.H**2 * math.sqrt(self.S**3 * self.A) * (log + 1) / math.sqrt(t * log)
        epsilon = min(self.slack / 2, self.tightening * paper)
        queue = self.slack * self.H * math.sqrt(t) * self.lam  # q_t = eta_t lambda_t
        queue = np.maximum(queue + self.limits + epsilon - values, 0.0)
        return queue / (self.slack * self.H * math.sqrt(t + 1))


class RegularizedPrimalDual(Reference):
    """Q itself in place of gaps, and probabilities in place of logits."""

    rho, eta, step, tau = 2.0, 0.2, 0.1, 0.3

    def __init__(self, *sizes, **options):
        super().__init__(*sizes, **options)
        self.lam = np.zeros(self.m)
        self.policy = np.full((self.H, self.S, self.A), 1 / self.A)

    def observe(self, episode):
        super().observe(episode)
        H, S, A, m, pi = self.H, self.S, self.A, self.m, self.policy
        V, E = np.zeros((1 + m, S)), np.zeros(S)
        moved = np.zeros_like(pi)
        for h in reversed(range(H)):
            remaining = H - h
            Q, Q_entropy = np.zeros((1 + m, S, A)), np.zeros((S, A))
            for s in range(S):
                for a in range(A):
                    n, successors = self.row(h, s, a)
                    Q[:, s, a], Q_entropy[s, a] = remaining, (remaining - 1) * math.log(A)
                    if n:
                        p, _ = self.counted(n, successors)
                        phi = math.sqrt(self.L_r / n) + H * math.sqrt((S + self.L_p) / n)
                        phi *= self.c
                        Q[:, s, a] = np.minimum(self.means(h, s, a) + phi + V @ p, remaining)
                        ahead = p @ E + phi * math.log(A)
                        Q_entropy[s, a] = min(ahead, (remaining - 1) * math.log(A))
            total = Q[0] + np.tensordot(self.lam, Q[1:], axes=1)
            total = total + self.tau * (-np.log(pi[h]) + Q_entropy)
            weights = pi[h] * np.exp(self.eta * total)
            moved[h] = weights / weights.sum(axis=1, keepdims=True)
            V = (pi[h] * Q).sum(axis=2)
            E = (pi[h] * (Q_entropy - np.log(pi[h]))).sum(axis=1)
        if self.start is None:
            t, starts = self.starts()
            phi_0 = self.c * H * math.sqrt((S + self.L_p) / t)
            values = np.minimum(phi_0 + V @ self.counted(t, starts)[0], H)
        else:
            values = V[:, self.start]
        lam = (1 - self.step * self.tau) * self.lam + self.step * (self.limits - values[1:])
        self.policy, self.lam = moved, lam.clip(0.0, self.rho)
