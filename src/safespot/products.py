"""A vector times a matrix, whose bits depend on no library and no number of threads."""

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
        out[k] = 0.0
    for j in range(0, n - n % 4, 4):
        a, b, c, d = weights[j], weights[j + 1], weights[j + 2], weights[j + 3]
        if a != 0.0 or b != 0.0 or c != 0.0 or d != 0.0:
            for k in range(length):
                out[k] += (a * rows[j, k] + b * rows[j + 1, k]) + (
                    c * rows[j + 2, k] + d * rows[j + 3, k]
                )
    for j in range(n - n % 4, n):
        a = weights[j]
        if a != 0.0:
            for k in range(length):
                out[k] += a * rows[j, k]
