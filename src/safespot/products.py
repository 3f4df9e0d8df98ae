"""Products of vectors and matrices whose bits depend on no library and no number of threads."""

from __future__ import annotations

from .arrays import Float
from .compilation import inner


@inner
def mix_rows(weights: Float, rows: Float, out: Float) -> None:
    """``out = sum_j weights[j] rows[j]``; rows of weight zero cost nothing.

    Entries of a row are independent, so the inner loops are vectorised as they stand. Four rows at a time,
    because `out` is then read and written a quarter as often.
    """
    n, length = rows.shape
    for k in range(length):
        out[k] = weights[0] * rows[0, k]
    whole = (n - 1) - (n - 1) % 4
    for j in range(1, 1 + whole, 4):
        a, b, c, d = weights[j], weights[j + 1], weights[j + 2], weights[j + 3]
        if a != 0.0 or b != 0.0 or c != 0.0 or d != 0.0:
            for k in range(length):
                out[k] += (a * rows[j, k] + b * rows[j + 1, k]) + (
                    c * rows[j + 2, k] + d * rows[j + 3, k]
                )
    for j in range(1 + whole, n):
        a = weights[j]
        if a != 0.0:
            for k in range(length):
                out[k] += a * rows[j, k]


@inner
def dot(x: Float, y: Float) -> float:
    """``sum_k x[k] y[k]`` in four partial sums, so that an addition need not wait for the one before."""
    n = x.shape[0]
    whole = n - n % 4
    a, b, c, d = 0.0, 0.0, 0.0, 0.0
    for k in range(0, whole, 4):
        a += x[k] * y[k]
        b += x[k + 1] * y[k + 1]
        c += x[k + 2] * y[k + 2]
        d += x[k + 3] * y[k + 3]
    for k in range(whole, n):
        a += x[k] * y[k]
    return (a + b) + (c + d)
