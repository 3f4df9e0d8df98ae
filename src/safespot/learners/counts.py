"""Counts of successors as a table, and those of all steps together."""

from __future__ import annotations

import numpy as np

from ..arrays import Float
from ..spot.visits import Statistics, Successors


def counts(statistics: Statistics) -> Float:
    """``[H, S*A, S]``: how often each successor followed each pair."""
    H, pairs = statistics.n.shape
    table = np.empty((H, pairs, statistics.known.shape[1]))
    for h in range(H):
        write_counts(statistics.successors, h, table[h])
    return table


def shared_counts(statistics: Statistics) -> Statistics:
    """Statistics in which every step has the data of all of them; its arrays are views, to be read alone."""
    n, sums, pool = statistics.n, statistics.sums, statistics.successors
    (H, pairs), S = n.shape, statistics.known.shape[1]
    table, step = np.zeros((pairs, S)), np.zeros((pairs, S))
    for h in range(H):
        write_counts(pool, h, step)
        table += step
    return statistics._replace(
        n=np.broadcast_to(n.sum(axis=0), n.shape),
        sums=np.broadcast_to(sums.sum(axis=1, keepdims=True), sums.shape),
        successors=pool._replace(dense=np.broadcast_to(table.T, (H, S, pairs))),
    )


def write_counts(pool: Successors, h: int, table: Float) -> None:
    """Write how often each successor followed each pair at step h to ``[S*A, S]``."""
    if pool.dense.shape[0] > 0:
        table[:] = pool.dense[h].T
        return
    table[:] = 0.0
    lengths, A = pool.length[h], len(table) // table.shape[1]
    before = np.cumsum(lengths) - lengths
    entries = np.repeat(pool.where[h] - before, lengths) + np.arange(lengths.sum())
    pairs = A * np.repeat(np.arange(len(lengths)), lengths) + pool.actions[entries]
    table[pairs, pool.states[entries]] = pool.counts[entries]
