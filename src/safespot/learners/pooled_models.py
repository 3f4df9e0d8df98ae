"""Models made of counts that the steps share, and exact plans in them.

Where a process does not depend on the step (``stationary``), ``n(s,a) = sum_h n_h(s,a)``: H times the data. A model is
made of these counts and of kappa *imaginary* visits of every pair, which all lead to a state with the same payoffs at
every step: the largest there are (optimism) or the least (pessimism). With E_c(h) what component c (the reward, then
the constraints) pays there from step h on,

    Q_c,h(s,a) = ( sum of c + sum_s' count(s') V_c,h+1(s') + kappa E_c(h) ) / (n + kappa),

and a component that is known, not measured, pays what it is known to pay. Such values are linear in the occupancy
measure, so that column generation finds the best mixture of deterministic policies; one pricing is one backward pass
over the counts for a weighted sum of the components, and one forward pass from the start for each of them.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..arrays import Bool, Float, Int, Policy
from ..column_generation import Column, Mixture, best_mixture, largest_margin
from ..evidence.interface import Interface
from ..kernels.jit import inlined, seldom
from ..spot.visits import Statistics, Successors


class Pooled(NamedTuple):
    """Counts of every pair; K is 1 where the steps share them, else H."""

    n: Float  # [K, S*A]
    sums: Float  # [1+m, K, S*A]
    first: Int  # [K, S*A + 1]: where the successors of each pair begin
    states: NDArray[np.int32]  # [entries]
    counts: Float  # [entries]
    start: Float  # [S]: the start distribution


class Known(NamedTuple):
    """Payoffs that are known and not measured, inside."""

    payoffs: Float  # [1+m, K', S*A], K' being 1 or H; anything where they are not
    components: Bool  # [1+m]: which of them are


class Imagined(NamedTuple):
    """Imaginary visits: how many of each pair, and what follows them."""

    kappa: float
    pays: Float  # [1+m, H+1]: E_c(h), from step h on


class Counted(NamedTuple):
    """A model of the counts with imaginary visits."""

    pooled: Pooled
    payoffs: Float  # [1+m, K', S*A]: of the pair itself
    weight: Float  # [K, S*A]: 1 / (n + kappa)
    imagined: Float  # [1+m, H]: kappa times what an imaginary visit at step h pays
    mask: Bool  # [K'', S*A]: which pairs are admissible, K'' being 1 or H


class Plan(NamedTuple):
    """The best policy of a model under its limits."""

    policy: Policy  # [H, S, A]
    multipliers: Float  # [m]
    values: Float  # [1+m], in the model
    feasible: bool  # if not: the one with the largest margin
    work: int  # transitions that were read to find it
    columns: tuple[Column[Int], ...]  # all that were priced, for the next plan in the same model


def pool(statistics: Statistics, f: Interface) -> Pooled:
    """The counts, shared by the steps where the process is stationary."""
    n, sums, finished = statistics.n, statistics.sums, int(statistics.starts.sum())
    if f.stationary:
        n, sums = n.sum(axis=0, keepdims=True), sums.sum(axis=1, keepdims=True)
    start = np.zeros(f.S)
    if f.start is not None:
        start[f.start] = 1.0
    else:
        start[:] = statistics.starts / finished if finished else 1.0 / f.S
    rows = _dense_rows if statistics.successors.dense.shape[0] > 0 else _listed_rows
    return Pooled(n.astype(np.float64), sums, *rows(statistics.successors, f, f.stationary), start)


def _dense_rows(
    successors: Successors, f: Interface, shared: bool
) -> tuple[Int, NDArray[np.int32], Float]:
    """(where rows begin, successors, counts) of a dense block."""
    dense = successors.dense.sum(axis=0, keepdims=True) if shared else successors.dense
    table = np.ascontiguousarray(dense.transpose(0, 2, 1))  # [K, S*A, S]
    seen = table > 0.0
    ends = np.cumsum(seen.sum(axis=2))
    return (
        row_starts(ends, len(table)),
        np.nonzero(seen)[2].astype(np.int32),
        table[seen],
    )


def _listed_rows(
    successors: Successors, f: Interface, shared: bool
) -> tuple[Int, NDArray[np.int32], Float]:
    """The same of lists in a pool."""
    K = 1 if shared else f.H
    room = int(successors.length.sum())
    lengths, states, counts = (
        np.zeros(K * f.S * f.A, np.int64),
        np.zeros(room, np.int32),
        np.zeros(room),
    )
    used = gather_lists(successors, f.A, K, lengths, states, counts)
    return row_starts(np.cumsum(lengths), K), states[:used], counts[:used]


def row_starts(ends: Int, K: int) -> Int:
    """``[K, rows + 1]``: where each row's entries begin, from where they end, all in order."""
    firsts = np.concatenate([[0], ends])
    rows = len(ends) // K
    return np.stack([firsts[k * rows : (k + 1) * rows + 1] for k in range(K)])


@seldom
def gather_lists(
    successors: Successors,
    A: int,
    K: int,
    lengths: Int,
    states: NDArray[np.int32],
    counts: Float,
) -> int:
    """Lists of successors in the order of their pairs, those of all steps together where K is 1; how many entries."""
    H, S = successors.where.shape
    table, seen = np.zeros((A, S)), np.zeros(S, np.bool_)
    used = 0
    for k in range(K):
        steps = range(H) if K == 1 else range(k, k + 1)
        for s in range(S):
            found = False
            for h in steps:
                begin = successors.where[h, s]
                for j in range(begin, begin + successors.length[h, s]):
                    table[successors.actions[j], successors.states[j]] += successors.counts[j]
                    seen[successors.states[j]] = found = True
            if not found:
                continue
            for a in range(A):
                for after in range(S):
                    if seen[after] and table[a, after] > 0.0:
                        states[used] = after
                        counts[used] = table[a, after]
                        table[a, after] = 0.0
                        lengths[(k * S + s) * A + a] += 1
                        used += 1
            seen[:] = False
    return used


def imagine(f: Interface, kappa: float, totals: Float, *, best: bool) -> Imagined:
    """Imaginary visits to the best or the worst that can be; `totals` ``[2,m]`` of the constraints are declared.

    From step h on an episode's constraint pays at most H - h and the largest total; and, as the h steps before pay h at
    most, at least the least total less h.
    """
    left = np.arange(f.H, -1.0, -1.0)
    pays = np.zeros((1 + f.m, f.H + 1))
    if best:
        pays[0] = left
        pays[1:] = np.minimum(left, totals[1][:, None])
    else:
        pays[1:] = (totals[0][:, None] - (f.H - left)).clip(0.0)
    return Imagined(kappa, pays)


class CountModels:
    """Models of the counts of a learner with known payoffs; `totals` ``[2,m]`` are the declared ones."""

    def __init__(self, f: Interface, known: Known, totals: Float) -> None:
        self.interface, self.known, self.totals = f, known, totals
        mask = f.mask[:1] if (f.mask == f.mask[:1]).all() else f.mask
        self.mask = np.ascontiguousarray(mask).reshape(-1, f.S * f.A)

    def count(self, statistics: Statistics, kappa: float, *, best: bool) -> Counted:
        """Return the model of the counts with `kappa` imaginary visits to the best or the worst there can be."""
        return self.of(pool(statistics, self.interface), kappa, best=best)

    def of(self, pooled: Pooled, kappa: float, *, best: bool) -> Counted:
        """Return the same of counts that are pooled already."""
        imagined = imagine(self.interface, kappa, self.totals, best=best)
        return count_model(pooled, imagined, self.known, self.mask)


def visits_of_pairs(n: Int, f: Interface) -> Int:
    """Return the visits of every pair, of all steps together where they are alike, from those of each ``[H, S*A]``."""
    visits: Int = n.sum(axis=0) if f.stationary else n.reshape(-1)
    return visits


def count_model(pooled: Pooled, imagined: Imagined, known: Known, mask: Bool) -> Counted:
    """The model of the counts with imaginary visits."""
    weight = 1.0 / (pooled.n + imagined.kappa)
    payoffs = pooled.sums * weight
    pays = imagined.kappa * imagined.pays[:, :-1]
    if known.components.any():
        steps = max(known.payoffs.shape[1], payoffs.shape[1])
        payoffs = np.repeat(payoffs, steps // payoffs.shape[1], axis=1)
        payoffs[known.components] = known.payoffs[known.components]
        pays = np.where(known.components[:, None], imagined.kappa * imagined.pays[:, 1:], pays)
    return Counted(pooled, payoffs, weight, np.ascontiguousarray(pays), mask)


class Pricing:
    """Deterministic policies ``[H,S]`` of a model, by a weighted sum of their values."""

    def __init__(self, model: Counted) -> None:
        self.model = model
        self.calls = 0

    def __call__(self, weights: Float) -> Column[Int]:
        """The best one for these weights ``[1+m]``, and its values."""
        self.calls += 1
        model = self.model
        steps = model.payoffs.shape[1]
        payoffs = (weights[:, None] * model.payoffs.reshape(len(weights), -1)).sum(axis=0)
        plan = best_counted(
            model.pooled, model.weight, model.mask,
            payoffs.reshape(steps, -1), weights @ model.imagined,
        )  # fmt: skip
        return Column(counted_values(model, plan), plan)


def best_plan(model: Counted, limits: Float, columns: tuple[Column[Int], ...] = ()) -> Plan:
    """The plan with the largest reward that keeps the limits; where there is none, the one with the largest margin."""
    pricing = Pricing(model)
    mixture = best_mixture(pricing, limits, columns)
    if mixture is not None:
        return _planned(pricing, mixture, np.r_[1.0, mixture.multipliers], feasible=True)
    return widest_plan(model, limits, columns)


def widest_plan(model: Counted, limits: Float, columns: tuple[Column[Int], ...] = ()) -> Plan:
    """The plan with the largest margin common to all constraints."""
    pricing = Pricing(model)
    mixture = largest_margin(pricing, limits, columns)
    return _planned(pricing, mixture, np.r_[0.0, mixture.multipliers], feasible=False)


def _planned(pricing: Pricing, mixture: Mixture[Int], weights: Float, *, feasible: bool) -> Plan:
    """The Markov policy with the occupancy of a mixture; where that never goes, the best response to its prices."""
    model = pricing.model
    steps, pairs = model.imagined.shape[1], model.weight.shape[1]
    S = len(model.pooled.start)
    occupancy = np.zeros((steps, S, pairs // S))
    for share, plan in zip(mixture.weights, mixture.plans, strict=True):
        add_counted_occupancy(model.pooled, model.weight, plan, share, occupancy)
    elsewhere = np.eye(pairs // S)[pricing(weights).plan]
    visits = occupancy.sum(axis=2, keepdims=True)
    policy = np.where(visits > 0.0, occupancy / np.where(visits > 0.0, visits, 1.0), elsewhere)
    policy /= policy.sum(axis=2, keepdims=True)
    work = pricing.calls * steps * (len(model.pooled.counts) // len(model.pooled.n) + pairs)
    return Plan(policy, mixture.multipliers, mixture.values, feasible, work, mixture.columns)


@inlined
def step_of(array: NDArray, h: int) -> int:
    """The row of step h: its own, or the one that all steps share."""
    return h if array.shape[0] > 1 else 0


@seldom
def best_counted(pooled: Pooled, weight: Float, mask: Bool, payoffs: Float, imagined: Float) -> Int:
    """The deterministic policy ``[H,S]`` with the largest value for `payoffs` ``[K',S*A]`` and `imagined` ``[H]``.

    Backward induction; the lowest action wins a tie.
    """
    H, S = imagined.shape[0], pooled.start.shape[0]
    A = payoffs.shape[1] // S
    plan = np.zeros((H, S), np.int64)
    V, W = np.zeros(S), np.zeros(S)
    for h in range(H - 1, -1, -1):
        k, pay, allowed = step_of(weight, h), payoffs[step_of(payoffs, h)], mask[step_of(mask, h)]
        for s in range(S):
            best, choice = -np.inf, 0
            for a in range(A):
                row = s * A + a
                if allowed[row]:
                    total = imagined[h]
                    for j in range(pooled.first[k, row], pooled.first[k, row + 1]):
                        total += pooled.counts[j] * V[pooled.states[j]]
                    q = pay[row] + weight[k, row] * total
                    if q > best:
                        best, choice = q, a
            plan[h, s], W[s] = choice, best
        V, W = W, V
    return plan


@seldom
def counted_values(model: Counted, plan: Int) -> Float:
    """The values ``[1+m]`` of a deterministic policy ``[H,S]``, forward from the start."""
    components = model.payoffs.shape[0]
    H, S = plan.shape
    A = model.weight.shape[1] // S
    values = np.zeros(components)
    now, after = model.pooled.start.copy(), np.zeros(S)
    for h in range(H):
        k, pay = step_of(model.weight, h), step_of(model.payoffs[0], h)
        after[:] = 0.0
        for s in range(S):
            if now[s] > 0.0:
                row = s * A + plan[h, s]
                weight = model.weight[k, row]
                for c in range(components):
                    paid = model.payoffs[c, pay, row] + weight * model.imagined[c, h]
                    values[c] += now[s] * paid
                push_counts(model.pooled, k, row, now[s] * weight, after)
        now, after = after, now
    return values


@inlined
def push_counts(pooled: Pooled, k: int, row: int, mass: float, after: Float) -> None:
    """Add ``mass * counts`` of a pair's successors to `after` ``[S]``."""
    for j in range(pooled.first[k, row], pooled.first[k, row + 1]):
        after[pooled.states[j]] += mass * pooled.counts[j]


@seldom
def add_counted_occupancy(
    pooled: Pooled, weight: Float, plan: Int, share: float, occupancy: Float
) -> None:
    """Add `share` times the occupancy measure of a deterministic policy ``[H,S]``."""
    H, S, A = occupancy.shape
    now, after = share * pooled.start, np.zeros(S)
    for h in range(H):
        k = step_of(weight, h)
        after[:] = 0.0
        for s in range(S):
            if now[s] > 0.0:
                row = s * A + plan[h, s]
                occupancy[h, s, plan[h, s]] += now[s]
                push_counts(pooled, k, row, now[s] * weight[k, row], after)
        now, after = after, now
