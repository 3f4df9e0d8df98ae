"""A finite process with a horizon, and exact plans in it.

With r_c,h(s,a) the payoff of component c (the reward, then the constraints) and w(s' | h,s,a) a successor's weight,

    Q_c,h(s,a) = r_c,h(s,a) + sum_s' w(s' | h,s,a) V_c,h+1(s'),

where the weights of a known model are its probabilities, and those of a counted one leave a part to imaginary visits,
which is paid at once (`counted`). Values are linear in the occupancy measure, so column generation finds the best
mixture of deterministic policies: one pricing is one backward pass for a weighted sum of the components, and one
forward pass from the start for the values of each.

Sums are taken in the order of their terms, so that they have the same bits on every machine: products with a sparse
matrix are, and `in_order` is.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np

from ..arrays import Bool, Float, Int, Policy
from .columns import Column, Mixture, best_mixture, largest_margin


class Process(NamedTuple):
    """A model of H steps. What no step changes is kept once: K, K' and K'' are each 1 or H."""

    rows: tuple[Any, ...]  # K sparse arrays [S*A, S]: the weights of successors
    back: tuple[Any, ...]  # the same, transposed: from the mass of pairs to that of states
    payoffs: Float  # [1+m, K', S*A]: of a pair itself
    start: Float  # [S]
    mask: Bool  # [K'', S*A]: which pairs are admissible
    share: Float  # [K, S*A]: how much of a pair's visits is imaginary, per imaginary visit
    imagined: Float  # [1+m, H]: what imaginary visits at a step pay; all 0 in a known model

    @property
    def shape(self) -> tuple[int, int, int]:
        """The sizes H, S and A."""
        pairs, S = self.rows[0].shape
        return self.imagined.shape[1], S, pairs // S


class Plan(NamedTuple):
    """The best policy of a model under its limits."""

    policy: Policy  # [H, S, A]
    multipliers: Float  # [m]
    values: Float  # [1+m], in the model
    feasible: bool  # if not: the one with the largest margin
    work: int  # transitions that were read to find it
    columns: tuple[Column[Int], ...]  # all that were priced, for the next plan in the same model


def make_process(
    rows: Iterable[Any], payoffs: Float, start: Float, mask: Bool, share: Float, imagined: Float
) -> Process:
    """Return the process with these fields."""
    rows = tuple(rows)
    return Process(rows, tuple(each.T for each in rows), payoffs, start, mask, share, imagined)


def best_response(process: Process, weights: Float) -> Int:
    """Return the deterministic policy ``[H,S]`` with the largest weighted sum of values.

    The lowest action wins a tie.
    """
    H, S, A = process.shape
    terms = list(weights[:, None, None] * process.payoffs)
    ahead = (weights[:, None] * process.imagined).sum(axis=0)
    if ahead.any():
        terms = [sum(terms) + ahead[:, None] * process.share]
    if not process.mask.all():
        terms[-1] = np.where(process.mask, terms[-1], -np.inf)
    plan, states, V = np.empty((H, S), np.int64), np.arange(S), np.zeros(S)
    for h in range(H - 1, -1, -1):
        Q = _of(process.rows, h) @ V
        for term in terms:
            Q += _of(term, h)
        Q = Q.reshape(S, A)
        plan[h] = best = Q.argmax(axis=1)
        V = Q[states, best]
    return plan


def plan_values(process: Process, plan: Int) -> Float:
    """Return the values ``[1+m]`` of a deterministic policy ``[H,S]``, forward from the start."""
    H, S, A = process.shape
    taken = plan + A * np.arange(S)
    met, mass = np.empty((H, S)), np.zeros(S * A)
    now = process.start
    for h, pairs in enumerate(taken):
        met[h] = mass[pairs] = now
        now = _of(process.back, h) @ mass
        mass[pairs] = 0.0
    every = np.arange(H)[:, None]
    paid = process.payoffs[:, every if process.payoffs.shape[1] > 1 else 0, taken]
    if process.imagined.any():
        share = process.share[every if len(process.share) > 1 else 0, taken]
        paid = paid + process.imagined[:, :, None] * share
    return in_order((paid * met).reshape(len(paid), -1))


def plan_occupancy(process: Process, plan: Int, weight: float = 1.0) -> Float:
    """Return `weight` times the occupancy measure ``[H,S,A]`` of a deterministic policy ``[H,S]``."""
    H, S, A = process.shape
    occupancy, states = np.zeros((H, S * A)), A * np.arange(S)
    now = weight * process.start
    for h in range(H):
        occupancy[h, states + plan[h]] = now
        now = _of(process.back, h) @ occupancy[h]
    return occupancy.reshape(H, S, A)


def policy_values(process: Process, policy: Policy) -> Float:
    """Return the values ``[1+m, H+1, S]`` of a policy ``[H,S,A]``, from every state on."""
    H, S, A = process.shape
    V = np.zeros((len(process.payoffs), H + 1, S))
    payoffs = np.moveaxis(process.payoffs, 1, 0)
    for h in range(H - 1, -1, -1):
        Q = (_of(process.rows, h) @ V[:, h + 1].T).T + _of(payoffs, h)
        if process.imagined[:, h].any():
            Q = Q + process.imagined[:, h, None] * _of(process.share, h)
        V[:, h] = (policy[h] * Q.reshape(-1, S, A)).sum(axis=2)
    return V


def policy_occupancy(process: Process, policy: Policy) -> Float:
    """Return the occupancy measure ``[H, S*A]`` of a policy ``[H,S,A]``."""
    H, S, A = process.shape
    occupancy, now = np.zeros((H, S * A)), process.start
    for h in range(H):
        occupancy[h] = (now[:, None] * policy[h]).ravel()
        now = _of(process.back, h) @ occupancy[h]
    return occupancy


def occupancy_values(process: Process, occupancy: Float) -> Float:
    """Return the values ``[1+m]`` of an occupancy measure ``[H, S*A]`` in a model without imaginary visits.

    It takes one pass over the transitions, where `policy_values` takes one for every component.
    """
    shared = process.payoffs.shape[1] == 1
    visits = occupancy.sum(axis=0, keepdims=True) if shared else occupancy
    return in_order((process.payoffs * visits).sum(axis=1))


def markov_policy(occupancy: Float, elsewhere: Int) -> Policy:
    """Return the policy with an occupancy measure ``[H,S,A]``; where that never goes, actions ``[H,S]`` (or [1,S])."""
    visits = occupancy.sum(axis=2, keepdims=True)
    there = visits > 0.0
    fixed = np.eye(occupancy.shape[2])[elsewhere]
    policy = np.where(there, occupancy / np.where(there, visits, 1.0), fixed)
    normalized: Policy = policy / policy.sum(axis=2, keepdims=True)
    return normalized


class Pricing:
    """Best responses of a process, as columns of a mixture; each is found once."""

    def __init__(self, process: Process) -> None:
        self.process = process
        self.columns: dict[bytes, Column[Int]] = {}  # by their weights

    def __call__(self, weights: Float) -> Column[Int]:
        """Return the best response to weights ``[1+m]``, with its values."""
        key = weights.tobytes()
        if key not in self.columns:
            plan = best_response(self.process, weights)
            self.columns[key] = Column(plan_values(self.process, plan), plan)
        return self.columns[key]

    def occupancy(self, mixture: Mixture[Int]) -> Float:
        """Return the occupancy measure ``[H,S,A]`` of a mixture of plans."""
        occupancy = np.zeros(self.process.shape)
        for weight, plan in zip(mixture.weights, mixture.plans, strict=True):
            occupancy += plan_occupancy(self.process, plan, weight)
        return occupancy


def best_plan(process: Process, limits: Float, columns: tuple[Column[Int], ...] = ()) -> Plan:
    """Return the plan with the largest reward that keeps the limits; without one, that with the largest margin."""
    pricing = Pricing(process)
    mixture = best_mixture(pricing, limits, columns)
    if mixture is not None:
        return _planned(pricing, mixture, np.r_[1.0, mixture.multipliers], feasible=True)
    return _widest(pricing, limits, (*columns, *pricing.columns.values()))


def widest_plan(process: Process, limits: Float, columns: tuple[Column[Int], ...] = ()) -> Plan:
    """Return the plan with the largest margin common to all constraints."""
    return _widest(Pricing(process), limits, columns)


def _widest(pricing: Pricing, limits: Float, columns: tuple[Column[Int], ...]) -> Plan:
    mixture = largest_margin(pricing, limits, columns)
    return _planned(pricing, mixture, np.r_[0.0, mixture.multipliers], feasible=False)


def _planned(pricing: Pricing, mixture: Mixture[Int], weights: Float, *, feasible: bool) -> Plan:
    """Return the Markov policy of a mixture; where that never goes, the best response to its prices."""
    process = pricing.process
    H, S, A = process.shape
    policy = markov_policy(pricing.occupancy(mixture), pricing(weights).plan)
    entries = sum(matrix.nnz for matrix in process.rows) // len(process.rows)
    work = len(pricing.columns) * H * (entries + S * A)
    return Plan(policy, mixture.multipliers, mixture.values, feasible, work, mixture.columns)


def in_order(terms: Float) -> Float:
    """Return the sums over the last axis, one term after the other."""
    sums: Float = terms.cumsum(axis=-1)[..., -1]
    return sums


def _of(steps: Any, h: int) -> Any:
    """Return what serves step h: its own, or the one that all steps share."""
    return steps[h if len(steps) > 1 else 0]
