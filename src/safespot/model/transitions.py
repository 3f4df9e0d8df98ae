"""Transitions, dense or sparse, time-homogeneous or not, behind three kernels.

``p(s' | h, s, a)`` is kept once when it does not depend on the step: the leading axis K is 1 or H.
Rows are kept either as a dense block or as compressed sparse rows; the other kind is then empty.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..arrays import SUM_TOLERANCE, Bool, Float, as_floats, first, frozen, place
from ..errors import InvalidModel
from ..kernels.jit import inlined
from ..kernels.sums import SHORT, add_at


class Transitions(NamedTuple):
    """Rows ``p(. | h, s, a)``; one of the two kinds is empty."""

    dense: Float  # [K, S*A, S]
    starts: NDArray[np.int64]  # [K, S*A + 1]: where each row's entries begin
    successors: NDArray[np.int32]  # [entries]
    probabilities: Float  # [entries]


def as_transitions(value: Any) -> tuple[Transitions, int | None, tuple[int, int]]:
    """Convert transitions to (rows, H or None when time-homogeneous, (S*A, S))."""
    if _is_sparse(value):
        return _from_sparse([value], None)
    if isinstance(value, Sequence) and value and all(_is_sparse(v) for v in value):
        same = all(matrix is value[0] for matrix in value)
        return _from_sparse(list(value[:1] if same else value), len(value))
    dense = as_floats("transitions", value)
    if dense.ndim not in (3, 4) or dense.shape[-1] != dense.shape[-3] or 0 in dense.shape:
        raise InvalidModel(
            f"transitions have shape {dense.shape}; expected [H,S,A,S] or [S,A,S], "
            "or SciPy sparse rows [S*A, S]."
        )
    *steps, S, A, _ = dense.shape
    rows = dense.reshape(-1, S * A, S)
    none = np.empty(0)
    empty = np.empty((0, 0), np.int64)
    return (
        Transitions(frozen(rows), frozen(empty), frozen(none.astype(np.int32)), frozen(none)),
        steps[0] if steps else None,
        (S * A, S),
    )


def _is_sparse(value: Any) -> bool:
    """Return whether it is one of SciPy's sparse matrices; where one exists, the module has been imported.

    Importing it for nothing would delay every process by as much as NumPy does.
    """
    sparse = sys.modules.get("scipy.sparse")
    return sparse is not None and bool(sparse.issparse(value))


def _from_sparse(
    matrices: list[Any], steps: int | None
) -> tuple[Transitions, int | None, tuple[int, int]]:
    from scipy import sparse

    rows, S = matrices[0].shape if matrices[0].ndim == 2 else (0, 0)
    if S == 0 or rows == 0 or rows % S:
        raise InvalidModel(
            f"sparse transitions have shape {matrices[0].shape}; expected [S*A, S], the row of "
            "state s and action a being s*A + a."
        )
    starts, successors, probabilities, offset = [], [], [], 0
    for h, matrix in enumerate(matrices):
        if matrix.shape != (rows, S):
            raise InvalidModel(
                f"transitions at step {h} have shape {matrix.shape}; step 0 has {(rows, S)}."
            )
        if matrix.dtype.kind not in "fiub":
            raise InvalidModel(f"transitions hold {matrix.dtype}; expected real numbers.")
        try:
            # Before SciPy follows indices out of bounds.
            if hasattr(matrix, "check_format"):
                _check_pointers(matrix.indptr)
                matrix.check_format(full_check=True)
            elif matrix.format == "coo":
                for axis, size in zip((matrix.row, matrix.col), matrix.shape, strict=True):
                    if ((axis < 0) | (axis >= size)).any():
                        raise ValueError("coordinates out of bounds")
            csr = sparse.csr_array(matrix, dtype=np.float64)
            csr.check_format(full_check=True)
        except ValueError as exc:
            raise InvalidModel(f"transitions are not a valid sparse matrix: {exc}.") from None
        if not (csr.has_sorted_indices and csr.has_canonical_format):
            csr = csr.copy()
            csr.sum_duplicates()
        if not np.isfinite(csr.data).all():
            entry = int(np.argmin(np.isfinite(csr.data)))
            row = int(np.searchsorted(csr.indptr, entry, side="right")) - 1
            raise InvalidModel(
                f"transitions at row {row} of step {h} hold {csr.data[entry]}; every entry must "
                "be a finite number."
            )
        starts.append(csr.indptr.astype(np.int64) + offset)
        successors.append(csr.indices.astype(np.int32))
        probabilities.append(csr.data)
        offset += csr.nnz
    return (
        Transitions(
            frozen(np.empty((0, 0, 0))),
            frozen(np.stack(starts)),
            frozen(np.concatenate(successors)),
            frozen(np.concatenate(probabilities)),
        ),
        steps,
        (rows, S),
    )


def _check_pointers(starts: NDArray) -> None:
    """Raise unless rows begin in order; SciPy looks at differences, which wrap around."""
    if starts.dtype.kind not in "iu" or (starts[1:] < starts[:-1]).any():
        raise ValueError("rows do not begin one after the other")


def as_matrices(P: Transitions, S: int) -> list[Any]:
    """Return the K sparse matrices ``[S*A, S]`` that `as_transitions` takes, without a copy."""
    from scipy import sparse

    matrices = []
    for starts in P.starts:
        _check_pointers(starts)
        entries = slice(starts[0], starts[-1])
        parts = P.probabilities[entries], P.successors[entries], starts - starts[0]
        matrices.append(sparse.csr_array(parts, shape=(len(starts) - 1, S), copy=False))
    return matrices


def check_rows(P: Transitions, A: int, admissible: Bool | None) -> None:
    """Raise unless every row of an admissible pair is a distribution (`admissible` ``[K',S,A]``)."""
    low, sums = row_extremes(P)
    K = len(low)
    ok = np.abs(sums - 1.0) <= SUM_TOLERANCE
    if admissible is not None:
        # A time-homogeneous row serves every step at which its pair is admissible.
        needed = admissible.reshape(len(admissible), -1)
        ok |= ~(needed.any(axis=0) if K == 1 else needed)
    ok &= low >= 0.0
    if not ok.all():
        k, row = first(~ok)
        where = place("sa", divmod(row, A)) if K == 1 else place("hsa", (k, *divmod(row, A)))
        raise InvalidModel(
            f"transitions at {where} have a smallest entry of {low[k, row]:g} and sum to "
            f"{sums[k, row]}; expected probabilities that sum to 1 within {SUM_TOLERANCE:g}. "
            "Divide each row by its sum; an absorbing state leads to itself."
        )


@inlined
def block(P: Transitions, h: int) -> int:
    """Return the block of rows that serves step h."""
    return h if P.dense.shape[0] + P.starts.shape[0] > 1 else 0


def row_extremes(P: Transitions) -> tuple[Float, Float]:
    """Return the smallest entry, at most 0, and the sum of every row, ``[K, S*A]`` each."""
    if P.dense.size:
        return np.minimum(P.dense.min(axis=2), 0.0), P.dense.sum(axis=2)
    K, rows = P.starts.shape[0], P.starts.shape[1] - 1
    which = np.repeat(np.arange(K * rows), np.diff(P.starts, axis=1).ravel())
    low = np.zeros(K * rows)
    np.minimum.at(low, which, P.probabilities)
    sums: Float = np.bincount(which, P.probabilities, K * rows).astype(np.float64)
    return low.reshape(K, rows), sums.reshape(K, rows)


@inlined
def push(P: Transitions, h: int, row: int, mass: float, out: Float) -> None:
    """Add ``mass * p(. | h, row)`` to `out` ``[S]``."""
    k = block(P, h)
    if P.dense.shape[0] > 0:
        for n in range(P.dense.shape[2]):
            out[n] += mass * P.dense[k, row, n]
    else:
        add_at(mass, P.probabilities, P.successors, P.starts[k, row], P.starts[k, row + 1], out)


@inlined
def successor(P: Transitions, h: int, row: int, u: float) -> int:
    """Return the next state at which the cumulated probability passes u in [0,1), as `pick` does."""
    k = block(P, h)
    if P.dense.shape[0] > 0:
        return pick(P.dense[k, row], u)
    first, last = P.starts[k, row], P.starts[k, row + 1]
    after: int = P.successors[first + pick(P.probabilities[first:last], u)]
    return after


@inlined
def pick(probabilities: Float, u: float) -> int:
    """Return the first index at which the cumulated probability passes u in [0,1).

    Rounding can leave the sum below u: then the last index with positive probability is taken. A short row is read to
    its end, since a branch that leaves it early would be mispredicted too often.
    """
    n, passed, last, total = probabilities.shape[0], 0, 0, 0.0
    for k in range(n):
        total += probabilities[k]
        last = k if probabilities[k] > 0.0 else last
        passed += 1 if total <= u else 0
        if n >= SHORT and u < total:
            break
    return min(passed, last)


def average_over_successors(P: Transitions, values: Float) -> Float:
    """Return the mean of `values` ``[S*A,S]`` over the next states of the first step, ``[S*A]``."""
    if P.dense.shape[0] > 0:
        mean: Float = (P.dense[0] * values).sum(axis=1)
        return mean
    rows = np.repeat(np.arange(len(values)), np.diff(P.starts[0]))
    weighed = P.probabilities * values[rows, P.successors]
    return np.bincount(rows, weighed, len(values)).astype(np.float64)
