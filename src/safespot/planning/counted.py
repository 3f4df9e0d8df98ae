"""Models of counts, with imaginary visits.

Where a process does not depend on the step (``stationary``), ``n(s,a) = sum_h n_h(s,a)``: H times the data. A model is
made of these counts and of kappa *imaginary* visits of every pair, which all lead to a state with the same payoffs at
every step: the largest there are (optimism) or the least (pessimism). With E_c(h) what component c (the reward, then
the constraints) pays there from step h on,

    Q_c,h(s,a) = ( sum of c + sum_s' count(s') V_c,h+1(s') + kappa E_c(h) ) / (n + kappa),

and a component that is known, not measured, pays what it is known to pay.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from ..arrays import Bool, Float, Int
from .process import Process, make_process


class Pooled(NamedTuple):
    """Counts of every pair; K is 1 where the steps share them, else H."""

    n: Float  # [K, S*A]
    sums: Float  # [1+m, K, S*A]
    first: Int  # [K, S*A + 1]: where the successors of each pair begin
    states: NDArray[np.int32]  # [entries]
    counts: Float  # [entries]
    start: Float  # [S]: the start distribution

    @property
    def pairs(self) -> Int:
        """The row k S A + s A + a of each entry, ``[entries]``."""
        return np.repeat(np.arange(self.n.size), np.diff(self.first, axis=1).ravel())

    def matrices(self, data: Float) -> tuple[sparse.csr_array, ...]:
        """Return K sparse arrays ``[S*A, S]`` with `data` ``[entries]``."""
        made = []
        for first in self.first:
            part = slice(first[0], first[-1])
            arrays = data[part], self.states[part], first - first[0]
            made.append(sparse.csr_array(arrays, shape=(len(first) - 1, len(self.start))))
        return tuple(made)


class Known(NamedTuple):
    """Payoffs that are known and not measured, inside."""

    payoffs: Float  # [1+m, K', S*A], K' being 1 or H; anything where they are not
    components: Bool  # [1+m]: which of them are


class Imagined(NamedTuple):
    """Imaginary visits: how many of each pair, and what follows them."""

    kappa: float
    pays: Float  # [1+m, H+1]: E_c(h), from step h on


class Counted(NamedTuple):
    """A model of counts: the process, and what it was counted from."""

    process: Process
    pooled: Pooled


def row_starts(ends: Int, K: int) -> Int:
    """Return where each row's entries begin, ``[K, rows + 1]``, from where they end, all in order."""
    firsts = np.concatenate([[0], ends])
    rows = len(ends) // K
    return np.stack([firsts[k * rows : (k + 1) * rows + 1] for k in range(K)])


def imagine(H: int, m: int, kappa: float, totals: Float, *, best: bool) -> Imagined:
    """Return imaginary visits to the best or the worst that can be; `totals` ``[2,m]`` of the constraints are declared.

    From step h on an episode's constraint pays at most H - h and the largest total; and, as the h steps before pay h at
    most, at least the least total less h.
    """
    left = np.arange(H, -1.0, -1.0)
    pays = np.zeros((1 + m, H + 1))
    if best:
        pays[0] = left
        pays[1:] = np.minimum(left, totals[1][:, None])
    else:
        pays[1:] = (totals[0][:, None] - (H - left)).clip(0.0)
    return Imagined(kappa, pays)


def count_model(pooled: Pooled, imagined: Imagined, known: Known, mask: Bool) -> Counted:
    """Return the model of counts with imaginary visits."""
    share = 1.0 / (pooled.n + imagined.kappa)
    payoffs = pooled.sums * share
    pays = imagined.kappa * imagined.pays[:, :-1]
    if known.components.any():
        steps = max(known.payoffs.shape[1], payoffs.shape[1])
        payoffs = np.repeat(payoffs, steps // payoffs.shape[1], axis=1)
        payoffs[known.components] = known.payoffs[known.components]
        pays = np.where(known.components[:, None], imagined.kappa * imagined.pays[:, 1:], pays)
    weights = pooled.counts * share.ravel()[pooled.pairs]
    rows = pooled.matrices(weights)
    process = make_process(rows, payoffs, pooled.start, mask, share, np.ascontiguousarray(pays))
    return Counted(process, pooled)
