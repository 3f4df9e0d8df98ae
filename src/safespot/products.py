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
    """``out = sum_j weights[j] rows[j]`` for weights >= 0; rows of weight zero cost next to nothing.

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
        if ((a + b) + (c + d)) + ((e + f) + (g + h)) != 0.0:
            p, q, r, s = rows[j], rows[j + 1], rows[j + 2], rows[j + 3]
            t, u, v, w = rows[j + 4], rows[j + 5], rows[j + 6], rows[j + 7]
            for k in range(length):
                out[k] += ((a * p[k] + b * q[k]) + (c * r[k] + d * s[k])) + (
                    (e * t[k] + f * u[k]) + (g * v[k] + h * w[k])
                )
        j += 8
    while j + 4 <= n:
        a, b, c, d = weights[j], weights[j + 1], weights[j + 2], weights[j + 3]
        if (a + b) + (c + d) != 0.0:
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

    Every entry of `rows` is read once for both, and reading is what takes the time. Rows are added by twos, four of
    them in one go through the outputs.
    """
    n, length = rows.shape
    a, e, p = weights[0], others[0], rows[0]
    if n > 2:
        b, c, f, g, q, r = weights[1], weights[2], others[1], others[2], rows[1], rows[2]
        for k in range(length):
            out[k] = a * p[k] + (b * q[k] + c * r[k])
            out2[k] = e * p[k] + (f * q[k] + g * r[k])
        j = 3
    else:
        for k in range(length):
            out[k] = a * p[k]
            out2[k] = e * p[k]
        j = 1
    while j + 4 <= n:
        a, b, c, d = weights[j], weights[j + 1], weights[j + 2], weights[j + 3]
        e, f, g, h = others[j], others[j + 1], others[j + 2], others[j + 3]
        if ((a + b) + (c + d)) + ((e + f) + (g + h)) != 0.0:
            p, q, r, s = rows[j], rows[j + 1], rows[j + 2], rows[j + 3]
            for k in range(length):
                out[k] = (out[k] + (a * p[k] + b * q[k])) + (c * r[k] + d * s[k])
                out2[k] = (out2[k] + (e * p[k] + f * q[k])) + (g * r[k] + h * s[k])
        j += 4
    if j + 2 <= n:
        a, b, p, q = weights[j], weights[j + 1], rows[j], rows[j + 1]
        e, f = others[j], others[j + 1]
        for k in range(length):
            out[k] += a * p[k] + b * q[k]
            out2[k] += e * p[k] + f * q[k]
        j += 2
    if j < n:
        a, e, p = weights[j], others[j], rows[j]
        for k in range(length):
            out[k] += a * p[k]
            out2[k] += e * p[k]


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
    """``out[j] = sum_a x[j*A + a]``; short rows with their length written out, so that no loop begins for each."""
    if A == 2:
        short_sums(x, 2, rows, out)
    elif A == 3:
        short_sums(x, 3, rows, out)
    elif A == 4:
        short_sums(x, 4, rows, out)
    elif A == 5:
        short_sums(x, 5, rows, out)
    elif A < SHORT:
        short_sums(x, A, rows, out)
    else:
        for j in range(rows):
            out[j] = total(x[j * A : (j + 1) * A])


@inner
def short_sums(x: Float, A: int, rows: int, out: Float) -> None:
    """The sums of short rows, from the first entry to the last."""
    for j in range(rows):
        sum_a = x[j * A]
        for a in range(1, A):
            sum_a += x[j * A + a]
        out[j] = sum_a


@inner
def sum_products(x: Float, y: Float, A: int, rows: int, out: Float) -> None:
    """``out[j] = sum_a x[j*A + a] y[j*A + a]``, in the same way."""
    if A == 2:
        short_products(x, y, 2, rows, out)
    elif A == 3:
        short_products(x, y, 3, rows, out)
    elif A == 4:
        short_products(x, y, 4, rows, out)
    elif A == 5:
        short_products(x, y, 5, rows, out)
    elif A < SHORT:
        short_products(x, y, A, rows, out)
    else:
        for j in range(rows):
            out[j] = dot(x[j * A : (j + 1) * A], y[j * A : (j + 1) * A])


@inner
def short_products(x: Float, y: Float, A: int, rows: int, out: Float) -> None:
    """The sums of products of short rows, from the first entry to the last."""
    for j in range(rows):
        sum_a = x[j * A] * y[j * A]
        for a in range(1, A):
            sum_a += x[j * A + a] * y[j * A + a]
        out[j] = sum_a


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
