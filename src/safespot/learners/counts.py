"""Counts of successors as a table."""

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
