"""Sums and products of vectors and matrices whose bits depend on no library and no number of threads.

Inner loops run from 0 over views of what they need: for an index that begins elsewhere Numba adds code for those
counted from the end, and the loop is not vectorised.
"""

from __future__ import annotations

from .arrays import Float
from .compilation import inner

SHORT = 8  # rows of fewer entries are worked on together, longer ones one by one


@inner
def mix_rows(weights: Float, rows: Float, out: Float) -> None:
    """``out = sum_j weights[j] rows[j]``; rows of weight zero cost nothing.

    Entries of a row are independent, so the inner loops are vectorised as they stand. Eight rows at a time, then
    four, because starting a loop and going through `out` costs as much as several rows.
    """
    n, length = rows.shape
    a, p = weights[0], rows[0]
    for k in range(length):
        out[k] = a * p[k]
    j = 1
    while j + 8 <= n:
        a, b, c, d = weights[j], weights[j + 1], weights[j + 2], weights[j + 3]
        e, f, g, h = weights[j + 4], weights[j + 5], weights[j + 6], weights[j + 7]
        if (a != 0.0 or b != 0.0 or c != 0.0 or d != 0.0) or (
            e != 0.0 or f != 0.0 or g != 0.0 or h != 0.0
        ):
            p, q, r, s = rows[j], rows[j + 1], rows[j + 2], rows[j + 3]
            t, u, v, w = rows[j + 4], rows[j + 5], rows[j + 6], rows[j + 7]
            for k in range(length):
                out[k] += ((a * p[k] + b * q[k]) + (c * r[k] + d * s[k])) + (
                    (e * t[k] + f * u[k]) + (g * v[k] + h * w[k])
                )
        j += 8
    while j + 4 <= n:
        a, b, c, d = weights[j], weights[j + 1], weights[j + 2], weights[j + 3]
        if a != 0.0 or b != 0.0 or c != 0.0 or d != 0.0:
            p, q, r, s = rows[j], rows[j + 1], rows[j + 2], rows[j + 3]
            for k in range(length):
                out[k] += (a * p[k] + b * q[k]) + (c * r[k] + d * s[k])
        j += 4
    while j < n:
        a, p = weights[j], rows[j]
        if a != 0.0:
            for k in range(length):
                out[k] += a * p[k]
        j += 1


@inner
def mix_rows_twice(weights: Float, others: Float, rows: Float, out: Float, out2: Float) -> None:
    """`mix_rows` with two weights at once: ``out`` with `weights`, ``out2`` with `others`.

    Every entry of `rows` is read once for both, and reading is what takes the time.
    """
    n, length = rows.shape
    a, c, p = weights[0], others[0], rows[0]
    for k in range(length):
        out[k] = a * p[k]
        out2[k] = c * p[k]
    for j in range(1, n - 1, 2):
        a, b, c, d = weights[j], weights[j + 1], others[j], others[j + 1]
        if a != 0.0 or b != 0.0 or c != 0.0 or d != 0.0:
            p, q = rows[j], rows[j + 1]
            for k in range(length):
                out[k] += a * p[k] + b * q[k]
                out2[k] += c * p[k] + d * q[k]
    if n % 2 == 0:
        a, c, p = weights[n - 1], others[n - 1], rows[n - 1]
        for k in range(length):
            out[k] += a * p[k]
            out2[k] += c * p[k]


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


@inner
def total(x: Float) -> float:
    """``sum_k x[k]`` in the same way."""
    n = x.shape[0]
    whole = n - n % 4
    a, b, c, d = 0.0, 0.0, 0.0, 0.0
    for k in range(0, whole, 4):
        a += x[k]
        b += x[k + 1]
        c += x[k + 2]
        d += x[k + 3]
    for k in range(whole, n):
        a += x[k]
    return (a + b) + (c + d)


@inner
def sum_rows(x: Float, A: int, rows: int, out: Float) -> None:
    """``out[j] = sum_a x[j*A + a]``: short rows in one loop, since starting one for each takes longer than its sum."""
    if A < SHORT:
        j, a, sum_a = 0, 0, 0.0
        for k in range(rows * A):
            sum_a += x[k]
            a += 1
            if a == A:
                out[j] = sum_a
                j, a, sum_a = j + 1, 0, 0.0
    else:
        for j in range(rows):
            out[j] = total(x[j * A : (j + 1) * A])


@inner
def sum_products(x: Float, y: Float, A: int, rows: int, out: Float) -> None:
    """``out[j] = sum_a x[j*A + a] y[j*A + a]``, in the same way."""
    if A < SHORT:
        j, a, sum_a = 0, 0, 0.0
        for k in range(rows * A):
            sum_a += x[k] * y[k]
            a += 1
            if a == A:
                out[j] = sum_a
                j, a, sum_a = j + 1, 0, 0.0
    else:
        for j in range(rows):
            out[j] = dot(x[j * A : (j + 1) * A], y[j * A : (j + 1) * A])


@inner
def scale_rows(x: Float, factors: Float, A: int, rows: int, out: Float) -> None:
    """``out[j*A + a] = x[j*A + a] factors[j]``."""
    if A < SHORT:
        for a in range(A):
            for j in range(rows):
                out[j * A + a] = x[j * A + a] * factors[j]
    else:
        for j in range(rows):
            factor, row, scaled = factors[j], x[j * A : (j + 1) * A], out[j * A : (j + 1) * A]
            for a in range(A):
                scaled[a] = row[a] * factor
