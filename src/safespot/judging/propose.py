"""The policy to deploy: the best one whose safety the data can prove.

Pessimism that stays linear. In the model of the data a pair pays, for each constraint,

    max( g_hat - phi, 1 - remaining ),

and values are not truncated, so that the value of a policy is linear in its occupancy measure and column generation
finds the best mixture. Each such value is at most the truncated lower bound of `certify`: where the first of
the two is paid, the recursions differ by the truncation only, which raises the latter; elsewhere the linear value is
at most ``1 - remaining + (remaining - 1) = 0``. So whatever keeps the limits here is certified there.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..arrays import Bool, Float, Int, Policy, frozen
from ..display import Displayed
from ..evidence.certificate import Certificate
from ..kernels.jit import kernel
from ..learners.learner import Learner, OnlineLearner
from ..planning.columns import Column, Mixture, best_mixture, largest_margin
from ..spot.planning import back_up
from ..spot.visits import Successors
from .certify import LearnedModel, certify, gather, plain_learner

CAUTIONS = (*(0.5**k for k in range(11)), 0.0)  # shares of the radii, from all to nothing
ROUNDING = 1e-9  # so that rounding in the linear program cannot undo a certificate


@dataclass(frozen=True, eq=False, repr=False)
class CautiousPolicy(Displayed):
    """A policy, what is known of its safety, and how cautious it is.

    With a `caution` of 1 it keeps every limit whatever the data leave open, so it is certified. Less means that no such
    policy was found: this one keeps every limit if the true errors are at most that share of the radii; 0, that it
    keeps them if the data were the truth, or not even then. `certificate.shortfall` says by how much it is short.

    Examples:
        >>> import safespot as ss
        >>> problem = ss.problems.make("bandit")
        >>> learner = ss.Uniform(**problem.interface, episodes=2000)
        >>> run = ss.learn(problem, learner)
        >>> proposal = ss.propose_policy(learner)
        >>> print(proposal.caution, proposal.certificate.verdict)
        1.0 ('safe',)

    """

    policy: Policy  # [H, S, A]
    certificate: Certificate
    caution: float

    def _facts(self) -> dict[str, Any]:
        return {"caution": self.caution, **self.certificate._facts()}

    def _chart(self) -> str:
        return self.certificate._chart()

    def __str__(self) -> str:
        if self.certificate.safe.all():
            head = "This policy is certified."
        elif self.certificate.doubts:
            head = (
                "No policy can be certified: the data contradict what certificates assume (see below). This one has a "
                f"caution of {self.caution:.3g}."
            )
        else:
            short_by = ", ".join(
                f"{short:.4g} ({self.certificate.names.limit(i)})"
                for i, short in enumerate(self.certificate.shortfall)
                if short > 0.0
            )
            head = (
                f"No policy can be certified yet. This one has a caution of {self.caution:.3g}, "
                f"where 1 would be enough; it is short of a certificate by {short_by}."
            )
        return f"{head}\n\n{self.certificate}"


def propose_policy(learner: OnlineLearner) -> CautiousPolicy:
    """The policy to deploy: the largest estimated reward among those that are safe whatever the data leave open.

    Where there is none, the caution is halved until there is one.

    Examples:
        >>> import safespot as ss
        >>> problem = ss.problems.make("bandit")
        >>> learner = ss.Uniform(**problem.interface, episodes=2000)
        >>> run = ss.learn(problem, learner)
        >>> print(ss.propose_policy(learner).policy.round(2))
        [[[0.22 0.78]]]

    """
    own = plain_learner(learner)
    evidence = gather(own)
    mixture: Mixture[Int] | None = None
    for caution in CAUTIONS:
        pricing = _Pricing(own, evidence, caution)
        mixture = best_mixture(pricing, pricing.limits)
        if mixture is not None:
            break
    else:
        mixture = largest_margin(pricing, pricing.limits)
    policy = pricing.markov(mixture)
    return CautiousPolicy(policy, certify(own, policy), caution)


class _Pricing:
    """Deterministic policies ``[H,S]`` in the pessimistic model, by a weighted sum of their values."""

    def __init__(self, learner: Learner, evidence: LearnedModel, caution: float) -> None:
        f, n = learner.interface, learner.statistics.n
        self.successors, self.shape = learner.statistics.successors, (f.H, f.S, f.A)
        self.start, self.weight = evidence.start, evidence.weight
        remaining = np.arange(f.H, 0, -1.0)[:, None]
        self.payoffs = evidence.means.copy()
        self.payoffs[1:] -= caution * np.minimum(evidence.phi, remaining)
        self.payoffs[1:] = np.maximum(self.payoffs[1:], 1.0 - remaining)
        self.offset = np.r_[0.0, np.full(f.m, caution * evidence.phi_0)]
        middle = (evidence.lower + evidence.upper) / 2.0
        self.limits = middle + caution * (evidence.upper - middle) + ROUNDING * f.H
        # Wherever the data lead, an action was taken; only where they do not, anything will do.
        seen = f.mask & (n > 0).reshape(self.shape)
        self.allowed: Bool = np.where(seen.any(axis=2, keepdims=True), seen, f.mask)

    def __call__(self, weights: Float) -> Column[Int]:
        plan, V = best_learned(self.successors, self.payoffs, self.weight, self.allowed, weights)
        return Column((V * self.start).sum(axis=1) - self.offset, plan)

    def markov(self, mixture: Mixture[Int]) -> Policy:
        """The Markov policy with the occupancy of a mixture; where nothing goes, what is safest."""
        occupancy = np.zeros(self.shape)
        for share, plan in zip(mixture.weights, mixture.plans, strict=True):
            add_learned_occupancy(self.successors, self.weight, share * self.start, plan, occupancy)
        m = len(self.limits)
        safest = np.eye(self.shape[2])[self(np.r_[0.0, np.full(m, 1.0 / m)]).plan]
        visits = occupancy.sum(axis=2, keepdims=True)
        policy = np.where(visits > 0.0, occupancy / np.where(visits > 0.0, visits, 1.0), safest)
        return frozen(policy / policy.sum(axis=2, keepdims=True))


@kernel
def best_learned(
    successors: Successors, payoffs: Float, weight: Float, allowed: Bool, weights: Float
) -> tuple[Int, Float]:
    """The deterministic policy ``[H,S]`` with the largest weighted value, and its values ``[1+m,S]`` at the first step.

    Backward induction in the model of the data; the lowest action wins a tie.
    """
    components = payoffs.shape[0]
    H, S, A = allowed.shape
    plan = np.zeros((H, S), np.int64)
    V, Q = np.zeros((components, S)), np.zeros((components, S * A))
    for h in range(H - 1, -1, -1):
        back_up(successors, A, h, 0, S, V, Q)
        for s in range(S):
            best = -np.inf
            for a in range(A):
                if allowed[h, s, a]:
                    pair, total = s * A + a, 0.0
                    for c in range(components):
                        Q[c, pair] = payoffs[c, h, pair] + weight[h, pair] * Q[c, pair]
                        total += weights[c] * Q[c, pair]
                    if total > best:
                        best, plan[h, s] = total, a
            for c in range(components):
                V[c, s] = Q[c, s * A + plan[h, s]]
    return plan, V


@kernel
def add_learned_occupancy(
    successors: Successors, weight: Float, start: Float, plan: Int, occupancy: Float
) -> None:
    """Add the occupancy measure of a deterministic policy ``[H,S]`` that starts with the masses `start`."""
    H, S, A = occupancy.shape
    now, after = start.copy(), np.zeros(S)
    for h in range(H):
        after[:] = 0.0
        for s in range(S):
            if now[s] > 0.0:
                a = plan[h, s]
                occupancy[h, s, a] += now[s]
                mass = now[s] * weight[h, s * A + a]
                if successors.dense.shape[0] > 0:
                    for n in range(S):
                        after[n] += mass * successors.dense[h, n, s * A + a]
                else:
                    first = successors.where[h, s]
                    for j in range(first, first + successors.length[h, s]):
                        if successors.actions[j] == a:
                            after[successors.states[j]] += mass * successors.counts[j]
        now, after = after, now
