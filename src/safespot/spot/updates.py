"""The two updates of Algorithm 2: mirror ascent on the policy (line 6) and the projected dual step (line 8)."""

from __future__ import annotations

import math

import numpy as np

from ..arrays import Float
from ..kernels.jit import inlined, inlined_noalias, kernel
from ..kernels.sums import SHORT, by_length, offset, sum_row

LOWEST = -708.0  # exp of less is not a normal double; the logit remembers, the probability is zero
LOG2_E = 1.4426950408889634
LN2_HIGH, LN2_LOW = 6.93147180369123816490e-01, 1.90821492927058770002e-10  # ln 2 in two parts
ROUND = 6755399441055744.0  # 1.5 * 2^52: adding it rounds to a whole number, kept in the low bits
C2, C3, C4, C5, C6, C7, C8, C9, C10, C11, C12, C13 = (1.0 / math.factorial(k) for k in range(2, 14))


def workspace(rows: int, A: int) -> Float:
    """A buffer for the softmax of so many rows of A entries: as many entries, and up to three more."""
    return np.zeros(rows * A + 3)


@inlined
def exponentials(x: Float, n: int) -> None:
    """``x[:n] = exp(x[:n])`` for x <= 0, to about one unit in the last place; zero below exp(-708).

    exp(x) = 2^k exp(r) with k = round(x / ln 2), and exp(r) by its Taylor series, summed in Estrin's order: plain
    arithmetic, so that the loop is vectorized and gives the same bits everywhere.
    """
    for j in range(n):
        y = max(x[j], LOWEST)
        rounded = y * LOG2_E + ROUND
        k = rounded - ROUND
        r = (y - k * LN2_HIGH) - k * LN2_LOW
        r2 = r * r
        r4 = r2 * r2
        low = ((1.0 + r) + r2 * (C2 + C3 * r)) + r4 * ((C4 + C5 * r) + r2 * (C6 + C7 * r))
        high = ((C8 + C9 * r) + r2 * (C10 + C11 * r)) + r4 * (C12 + C13 * r)
        bits = np.float64(rounded).view(np.int64)  # k in the lowest ones
        power = np.int64((bits + 1023) << 52).view(np.float64)  # the double 2^k
        x[j] = 0.0 if x[j] < LOWEST else (low + (r4 * r4) * high) * power


@inlined_noalias
def mirror_ascent(
    logits: Float, pi: Float, Q: Float, eta: float, A: int, first: int, last: int, x: Float
) -> None:
    """Line 6 for rows (h, s) from `first` up to `last`: ``pi(a) <- pi(a) exp(eta Q(a)) / sum``.

    Rows have A entries each and lie one behind the other in `logits` and `pi`; `Q` begins with row `first`. The
    policy is kept as logits, so that no probability is ever locked at zero; inadmissible actions have a logit of
    -inf (D6). Q is at most 0, so logits only fall.
    """
    moved = logits[offset(first, A) : offset(last, A)]
    for k in range(moved.shape[0]):
        logit = moved[k] + eta * Q[k]
        moved[k] = logit
        x[k] = logit
    normalize(logits, pi, A, first, last, x)


@inlined_noalias
def softmax(logits: Float, pi: Float, A: int, first: int, last: int, x: Float) -> None:
    """``pi(a) = exp(logit) / sum`` for rows from `first` up to `last`; logits are at most 0."""
    given = logits[offset(first, A) : offset(last, A)]
    for k in range(given.shape[0]):
        x[k] = given[k]
    normalize(logits, pi, A, first, last, x)


@inlined_noalias
def normalize(logits: Float, pi: Float, A: int, first: int, last: int, x: Float) -> None:
    """The same when `x` holds these logits already.

    Where a sum falls below one half, the row's logits are lifted until the largest is 0: the same policy, and
    nothing underflows.
    """
    rows = last - first
    fours = (rows * A + 3) // 4
    for k in range(offset(rows, A), 4 * fours):
        x[k] = 0.0  # a vector's rest, which one by one would take as long as several vectors
    exponentials(x, 4 * fours)
    by_length(spread_rows, A, rows, (logits[offset(first, A) :], pi[offset(first, A) :], x))


@inlined_noalias
def spread_rows(A: int, rows: int, arguments: tuple[Float, Float, Float]) -> None:
    """From exponentials to probabilities, row by row."""
    logits, pi, x = arguments
    for j in range(rows):
        total = sum_row(x, j * A, A)
        if total < 0.5:
            total = lift(logits, x, j * A, A)
        factor = 1.0 / total
        if A >= SHORT:
            row, probabilities = x[j * A : (j + 1) * A], pi[j * A : (j + 1) * A]
            for a in range(A):
                probabilities[a] = row[a] * factor
        else:
            for a in range(A):
                pi[j * A + a] = x[j * A + a] * factor


@kernel
def lift(logits: Float, x: Float, k: int, A: int) -> float:
    """Subtract a row's largest logit from all of them, take their exponentials again, and return the sum."""
    top = -np.inf
    for a in range(A):
        top = max(top, logits[k + a])
    for a in range(A):
        logits[k + a] -= top
        x[k + a] = logits[k + a]
    exponentials(x[k : k + A], A)
    total = 0.0
    for a in range(A):
        total += x[k + a]
    return total


@inlined_noalias
def dual_step(lam: Float, alpha: Float, values: Float, step: float, rho: float) -> None:
    """Line 8: ``lambda_i <- clip(lambda_i + (alpha_i - V_{g_i}) / eta_lambda, 0, rho)``, step = 1 / eta_lambda."""
    for i in range(lam.shape[0]):
        lam[i] = min(max(lam[i] + step * (alpha[i] - values[i]), 0.0), rho)
