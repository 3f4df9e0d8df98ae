"""Sums and products of vectors and matrices whose bits depend on no library and no number of threads.

Inner loops run from 0 over views of what they need: for an index that begins elsewhere Numba adds code for those
counted from the end, and the loop is not vectorized.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from ..arrays import Float
from .jit import inlined, inlined_noalias

SHORT = 8  # rows of fewer entries are worked on together, longer ones one by one


@inlined
def counted(i: int) -> int:
    """The same number, known not to be negative, as is all that is handed to a kernel."""
    return i


@inlined
def offset(row: int, length: int) -> int:
    """Where a row begins among rows of the same length that lie one behind the other."""
    return counted(row * length)


@inlined_noalias
def mix_rows(weights: Float, rows: Float, first: int, length: int, out: Float) -> None:
    """``out[k] = sum_j weights[j] rows[j, first + k]``; rows of weight zero cost next to nothing.

    Weights are at least 0. Entries of a row are independent, so the inner loops are vectorized as they stand. Eight
    rows at a time, then four, because starting a loop and going through `out` costs as much as several rows.
    """
    n = rows.shape[0]
    if length < 4:  # no vector to fill: entry by entry
        for k in range(length):
            entry = weights[0] * rows[0, first + k]
            for j in range(1, n):
                entry += weights[j] * rows[j, first + k]
            out[k] = entry
        return
    a, p = weights[0], rows[0, first:]
    for k in range(length):
        out[k] = a * p[k]
    j = 1
    while j + 8 <= n:
        a, b, c, d = weights[j], weights[j + 1], weights[j + 2], weights[j + 3]
        e, f, g, h = weights[j + 4], weights[j + 5], weights[j + 6], weights[j + 7]
        if ((a + b) + (c + d)) + ((e + f) + (g + h)) != 0.0:
            p, q = rows[j, first:], rows[j + 1, first:]
            r, s = rows[j + 2, first:], rows[j + 3, first:]
            t, u = rows[j + 4, first:], rows[j + 5, first:]
            v, w = rows[j + 6, first:], rows[j + 7, first:]
            for k in range(length):
                out[k] += ((a * p[k] + b * q[k]) + (c * r[k] + d * s[k])) + (
                    (e * t[k] + f * u[k]) + (g * v[k] + h * w[k])
                )
        j = counted(j + 8)
    while j + 4 <= n:
        a, b, c, d = weights[j], weights[j + 1], weights[j + 2], weights[j + 3]
        if (a + b) + (c + d) != 0.0:
            p, q = rows[j, first:], rows[j + 1, first:]
            r, s = rows[j + 2, first:], rows[j + 3, first:]
            for k in range(length):
                out[k] += (a * p[k] + b * q[k]) + (c * r[k] + d * s[k])
        j = counted(j + 4)
    while j < n:
        a, p = weights[j], rows[j, first:]
        if a != 0.0:
            for k in range(length):
                out[k] += a * p[k]
        j = counted(j + 1)


@inlined_noalias
def mix_rows_twice(
    weights: Float, others: Float, rows: Float, first: int, length: int, out: Float, out2: Float
) -> None:
    """`mix_rows` with two weights at once: ``out`` with `weights`, ``out2`` with `others`.

    Every entry of `rows` is read once for both, and reading is what takes the time. Rows are added by twos, four of
    them in one go through the outputs.
    """
    n = rows.shape[0]
    a, e, p = weights[0], others[0], rows[0, first:]
    if n > 2:
        b, c, f, g = weights[1], weights[2], others[1], others[2]
        q, r = rows[1, first:], rows[2, first:]
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
            p, q = rows[j, first:], rows[j + 1, first:]
            r, s = rows[j + 2, first:], rows[j + 3, first:]
            for k in range(length):
                out[k] = (out[k] + (a * p[k] + b * q[k])) + (c * r[k] + d * s[k])
                out2[k] = (out2[k] + (e * p[k] + f * q[k])) + (g * r[k] + h * s[k])
        j = counted(j + 4)
    if j + 2 <= n:
        a, b, p, q = weights[j], weights[j + 1], rows[j, first:], rows[j + 1, first:]
        e, f = others[j], others[j + 1]
        for k in range(length):
            out[k] += a * p[k] + b * q[k]
            out2[k] += e * p[k] + f * q[k]
        j = counted(j + 2)
    if j < n:
        a, e, p = weights[j], others[j], rows[j, first:]
        for k in range(length):
            out[k] += a * p[k]
            out2[k] += e * p[k]


@inlined
def mix_rows_of_all(weights: Float, rows: Float, first: int, length: int, out: Float) -> None:
    """`mix_rows` for every row of `weights` ``[C, n]``, into ``out`` ``[C, length]``: two at once, half the reading."""
    last = weights.shape[0] - 1
    for c in range(0, last, 2):
        c = counted(c)
        mix_rows_twice(weights[c], weights[c + 1], rows, first, length, out[c], out[c + 1])
    if last % 2 == 0:
        mix_rows(weights[last], rows, first, length, out[last])


@inlined_noalias
def cut_and_price(
    offsets: Float,
    factors: Float,
    prices: Float,
    h: int,
    first: int,
    length: int,
    rows: Float,
    out: Float,
) -> None:
    """``rows_c = max(offsets_c + factors rows_c, 0)`` and ``out = -(rows_0 + sum_i prices_i rows_{1+i})``, entrywise.

    `offsets` ``[C,H,P]`` and `factors` ``[H,P]`` are read at h from `first` on. Two components at once: half the
    reading.
    """
    f = factors[h, first : first + length]
    components = offsets.shape[0]
    for c in range(0, components - 1, 2):
        c = counted(c)
        price, next_price = prices[c - 1] if c > 0 else 1.0, prices[c]
        x, next_x = offsets[c, h, first : first + length], offsets[c + 1, h, first : first + length]
        row, next_row = rows[c], rows[c + 1]
        for k in range(length):
            cut = max(x[k] + f[k] * row[k], 0.0)
            next_cut = max(next_x[k] + f[k] * next_row[k], 0.0)
            row[k], next_row[k] = cut, next_cut
            out[k] = ((out[k] if c > 0 else 0.0) - price * cut) - next_price * next_cut
    if components % 2 == 1:
        c = components - 1
        price, x, row = prices[c - 1], offsets[c, h, first : first + length], rows[c]
        for k in range(length):
            cut = max(x[k] + f[k] * row[k], 0.0)
            row[k] = cut
            out[k] -= price * cut


@inlined
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


@inlined
def add_at(
    factor: float, x: Float, places: NDArray[np.int32], first: int, last: int, out: Float
) -> None:
    """``out[places[j]] += factor x[j]`` for j from `first` up to `last`."""
    entries, at = x[first:last], places[first:last]
    for j in range(entries.shape[0]):
        out[counted(at[j])] += factor * entries[j]


@inlined
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


@inlined
def by_length(work: Callable, A: int, rows: int, arguments: tuple) -> None:
    """``work(A, rows, arguments)`` with short lengths A of a row written out, so that no loop begins for each row.

    A number as it stands would be a type of its own, and `work` be compiled once for each: LLVM writes it out instead.
    """
    if A == 2:
        work(np.int64(2), rows, arguments)
    elif A == 3:
        work(np.int64(3), rows, arguments)
    elif A == 4:
        work(np.int64(4), rows, arguments)
    elif A == 5:
        work(np.int64(5), rows, arguments)
    else:
        work(A, rows, arguments)


@inlined
def sum_row(x: Float, first: int, A: int) -> float:
    """The sum of A entries from `first` on: from the first to the last, or of a long row by `total`."""
    if A >= SHORT:
        return total(x[first : first + A])
    sum_a: float = x[first]
    for a in range(1, A):
        sum_a += x[first + a]
    return sum_a


@inlined
def sum_products(x: Float, y: Float, A: int, rows: int, out: Float) -> None:
    """``out[j] = sum_a x[j*A + a] y[j*A + a]``."""
    by_length(products_of_rows, A, rows, (x, y, out))


@inlined_noalias
def products_of_rows(A: int, rows: int, arguments: tuple[Float, Float, Float]) -> None:
    """The same for a length that may be known when this is compiled; long rows in four partial sums."""
    x, y, out = arguments
    for j in range(rows):
        if A >= SHORT:
            out[j] = dot(x[j * A : (j + 1) * A], y[j * A : (j + 1) * A])
        else:
            sum_a = x[j * A] * y[j * A]
            for a in range(1, A):
                sum_a += x[j * A + a] * y[j * A + a]
            out[j] = sum_a
