"""Tests of the assumption that all steps of an episode are alike.

For every pair, the successors that followed it at different steps make a table of counts, whose homogeneity Pearson's
chi-squared test looks at; the means of its signals at different steps make another statistic of that kind, with p (1-p)
as the variance, the largest that a signal in [0,1] can have. Steps that were visited too rarely for the normal
approximation are left out, and so are successors that were; the level is shared by all tests (Bonferroni).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ..arrays import Float
from ..errors import warn
from ..planning.counted import Pooled
from ..spot.visits import Statistics
from .pooling import counts

LEVEL = 1e-4  # the probability of any false alarm, about
ENOUGH = 5.0  # expected counts from which the approximation holds
LARGEST = (
    2**24
)  # entries of the table of all counts beyond which nothing is tested: it would cost too much


def contradictions(statistics: Statistics, A: int) -> list[tuple[int, int]]:
    """Return the pairs (state, action) whose steps differ by more than noise, the clearest first."""
    H, pairs = statistics.n.shape
    if H * pairs * (pairs // A) > LARGEST:
        return []
    return differing_steps(statistics.n, statistics.sums, counts(statistics), A)


def contradictions_of(pooled: Pooled, A: int) -> list[tuple[int, int]]:
    """Return the `contradictions` in counts that the steps do not share."""
    H, pairs = pooled.n.shape
    S = pairs // A
    if H * pairs * S > LARGEST:
        return []
    table = np.zeros((H * pairs, S))
    table[pooled.pairs, pooled.states] = pooled.counts
    return differing_steps(pooled.n, pooled.sums, table.reshape(H, pairs, S), A)


def differing_steps(n: NDArray, sums: Float, table: NDArray, A: int) -> list[tuple[int, int]]:
    """Return the `contradictions` in visits ``[H, S*A]``, sums ``[1+m, H, S*A]`` and successors ``[H, S*A, S]``."""
    from scipy.special import chdtrc  # what scipy.stats' chi2.sf is, without a second of imports

    often = n >= 2.0 * ENOUGH
    tested = np.flatnonzero(often.sum(axis=0) >= 2)
    found = []
    for pair in tested:
        steps = often[:, pair]
        visits = n[steps, pair].astype(float)
        parts = [_successors(table[steps, pair], visits)]
        parts += [_means(each[steps, pair], visits) for each in sums]
        p = min(
            (float(chdtrc(freedom, statistic)) for statistic, freedom in parts if freedom > 0),
            default=1.0,
        )
        if p * len(tested) * len(parts) < LEVEL:
            found.append((p, int(pair)))
    return [divmod(pair, A) for _, pair in sorted(found)]


def warn_of_contradictions(statistics: Statistics, A: int) -> bool:
    """Warn where the steps of some pairs contradict that they are alike; return whether they do."""
    pairs = contradictions(statistics, A)
    if pairs:
        named = ", ".join(f"state {s} action {a}" for s, a in pairs[:5])
        more = f" and {len(pairs) - 5} more" if len(pairs) > 5 else ""
        warn(
            f"the interface says that all steps are alike, and the data contradict it: {named}{more}. Plans "
            "suffer; certificates do not rest on it. Declare stationary=False, or let states tell the step."
        )
    return bool(pairs)


def _successors(table: Float, n: Float) -> tuple[float, int]:
    """Return Pearson's statistic of counts ``[steps, S]`` and its degrees of freedom; rare successors are one."""
    seen = table.sum(axis=0)
    rare = seen / n.sum() * n.min() < ENOUGH
    cells = np.column_stack([table[:, ~rare], table[:, rare].sum(axis=1)])
    share = cells.sum(axis=0) / n.sum()
    kept = share * n.min() >= ENOUGH
    if kept.sum() < 2:
        return 0.0, 0
    expected = n[:, None] * share[kept]
    statistic = float(((cells[:, kept] - expected) ** 2 / expected).sum())
    # Where something was left out, what is kept need not sum up to the visits.
    return statistic, (len(n) - 1) * (int(kept.sum()) - 1 + int(share[~kept].any()))


def _means(sums: Float, n: Float) -> tuple[float, int]:
    """Return Pearson's statistic of a signal's means at every step, and its degrees of freedom."""
    mean = float(sums.sum() / n.sum())
    variance = mean * (1.0 - mean)
    if variance * n.min() < ENOUGH:
        return 0.0, 0
    return float((n * (sums / n - mean) ** 2).sum() / variance), len(n) - 1
