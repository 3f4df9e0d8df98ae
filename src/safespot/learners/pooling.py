"""The counts of a learner, as models are made of them: shared by the steps where the process is stationary."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ..arrays import Float, Int
from ..planning.counted import Counted, Known, Pooled, count_model, imagine, row_starts
from ..signals.interface import Interface
from ..spot.visits import Statistics, Successors


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
        imagined = imagine(self.interface.H, self.interface.m, kappa, self.totals, best=best)
        return count_model(pooled, imagined, self.known, self.mask)


def visits_of_pairs(n: Int, f: Interface) -> Int:
    """Return the visits of every pair, of all steps together where they are alike, from those of each ``[H, S*A]``."""
    visits: Int = n.sum(axis=0) if f.stationary else n.reshape(-1)
    return visits


def pool(statistics: Statistics, f: Interface) -> Pooled:
    """Return the counts, one row of pairs for all steps where these are alike, else one for each."""
    n, sums, finished = statistics.n, statistics.sums, int(statistics.starts.sum())
    if f.stationary:
        n, sums = n.sum(axis=0, keepdims=True), sums.sum(axis=1, keepdims=True)
    start = np.zeros(f.S)
    if f.start is not None:
        start[f.start] = 1.0
    else:
        start[:] = statistics.starts / finished if finished else 1.0 / f.S
    rows = _dense_rows if statistics.successors.dense.shape[0] > 0 else _listed_rows
    return Pooled(n.astype(np.float64), sums, *rows(statistics.successors, f), start)


def _dense_rows(successors: Successors, f: Interface) -> tuple[Int, NDArray[np.int32], Float]:
    """Return (where rows begin, successors, counts) of a dense block."""
    dense = successors.dense.sum(axis=0, keepdims=True) if f.stationary else successors.dense
    table = np.ascontiguousarray(dense.transpose(0, 2, 1))  # [K, S*A, S]
    seen = table > 0.0
    ends = np.cumsum(seen.sum(axis=2))
    return row_starts(ends, len(table)), np.nonzero(seen)[2].astype(np.int32), table[seen]


def _listed_rows(successors: Successors, f: Interface) -> tuple[Int, NDArray[np.int32], Float]:
    """Return the same of lists in a pool."""
    at, entries = _listed_entries(successors)
    K = 1 if f.stationary else f.H
    rows = (at if K > 1 else at % f.S) * f.A + successors.actions[entries]
    keys, which = np.unique(rows * f.S + successors.states[entries], return_inverse=True)
    counts = np.bincount(which, successors.counts[entries], len(keys))
    pairs, states = np.divmod(keys, f.S)
    ends = np.cumsum(np.bincount(pairs, minlength=K * f.S * f.A))
    return row_starts(ends, K), states.astype(np.int32), counts.astype(np.float64)


def _listed_entries(successors: Successors) -> tuple[Int, Int]:
    """Return (``h S + s``, its place in the pool) of every transition in a state's list."""
    lengths = successors.length.ravel()
    before = np.cumsum(lengths) - lengths
    entries = np.repeat(successors.where.ravel() - before, lengths) + np.arange(lengths.sum())
    return np.repeat(np.arange(len(lengths)), lengths), entries


def counts(statistics: Statistics) -> Float:
    """Return how often each successor followed each pair, ``[H, S*A, S]``."""
    successors = statistics.successors
    if successors.dense.shape[0] > 0:
        return np.ascontiguousarray(successors.dense.transpose(0, 2, 1))
    (H, pairs), S = statistics.n.shape, statistics.known.shape[1]
    at, entries = _listed_entries(successors)
    table = np.zeros((H * pairs, S))
    table[at * (pairs // S) + successors.actions[entries], successors.states[entries]] = (
        successors.counts[entries]
    )
    return table.reshape(H, pairs, S)
