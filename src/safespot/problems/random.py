"""A random CMDP of any size, the same on every machine and with every version of NumPy.

NumPy does not promise that its distributions stay as they are, so everything is drawn from the raw 64-bit
output of PCG64 (which is fixed) by additions, multiplications and divisions of our own.

Every pair leads to `successors` states drawn without replacement, with probabilities proportional to
uniform numbers; rewards and constraints are uniform in [0,1]. The thresholds leave a policy that is safe
by `slack`: alpha_i = V_{g_i}(pi) - slack, pi being the policy that maximizes the sum of the constraints. With
one constraint the Slater margin is exactly `slack`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..arrays import Float, Int, as_count
from ..errors import InvalidOption
from ..model.cmdp import CMDP
from ..model.problem import Problem
from ..planning.process import best_response, plan_values

DENSE = 2**20  # entries of [S,A,S] up to which a model with few successors is kept dense


def make(
    states: int = 6,
    actions: int = 3,
    horizon: int = 5,
    constraints: int = 1,
    successors: int | None = None,
    slack: float | None = None,
    seed: int = 0,
) -> Problem:
    """Draw a time-homogeneous CMDP.

    Args:
        states: S.
        actions: A.
        horizon: H.
        constraints: m.
        successors: how many states a pair can lead to; None is all of them.
        slack: the episodic margin of the safe policy; a tenth of the horizon by default.
        seed: names the draw.

    """
    S, A, H, m = (
        as_count(name, value, least=1, error=InvalidOption)
        for name, value in (
            ("states", states), ("actions", actions), ("horizon", horizon), ("constraints", constraints)
        )
    )  # fmt: skip
    k = (
        S
        if successors is None
        else as_count("successors", successors, least=1, error=InvalidOption)
    )
    if k > S:
        raise InvalidOption(f"successors = {k} is more than the {S} states.")
    margin = 0.1 * H if slack is None else slack
    if not isinstance(margin, (int, float, np.integer, np.floating)) or not 0.0 <= margin <= H:
        raise InvalidOption(f"slack must be a number in [0, H] = [0, {H}], got {slack!r}.")
    bits = np.random.PCG64(as_count("seed", seed, least=0, most=None, error=InvalidOption))
    where = _subsets(bits, S * A, S, k)
    weights = 1.0 - _uniforms(bits, S * A * k).reshape(S * A, k)  # in (0, 1]
    probabilities = weights / _row_sums(weights)
    rewards = _uniforms(bits, S * A).reshape(S, A)
    g = _uniforms(bits, m * S * A).reshape(m, S, A)
    free = CMDP(_transitions(where, probabilities, S, A), rewards, g, np.zeros(m), horizon=H)
    values = plan_values(free.process, best_response(free.process, np.r_[0.0, np.ones(m)]))
    return Problem(free.with_thresholds((values[1:] - margin).clip(0.0)))


def _transitions(where: Int, probabilities: Float, S: int, A: int) -> Any:
    """Return ``[S,A,S]``, or sparse rows where most of a large one were zeros."""
    rows, k = where.shape
    if rows * S <= DENSE or k == S:
        dense = np.zeros((rows, S))
        np.put_along_axis(dense, where, probabilities, axis=1)
        return dense.reshape(S, A, S)
    from scipy import sparse  # takes a process as long to import as to learn thousands of episodes

    begins = np.arange(0, rows * k + 1, k)
    return sparse.csr_array((probabilities.ravel(), where.ravel(), begins), shape=(rows, S))


def _uniforms(bits: np.random.PCG64, n: int) -> Float:
    """Return N numbers in [0,1): the upper 53 of 64 raw bits each."""
    raw = np.atleast_1d(bits.random_raw(n))
    uniforms: Float = (raw >> np.uint64(11)).astype(np.float64) * 2.0**-53
    return uniforms


def _subsets(bits: np.random.PCG64, rows: int, S: int, k: int) -> Int:
    """Return k distinct states for each row, ascending: the first k of a Fisher-Yates shuffle."""
    if k == S:
        return np.tile(np.arange(S), (rows, 1))
    chosen = np.empty((rows, k), np.int64)
    for first in range(0, rows, 1024):  # in pieces, so that a large model stays small in memory
        piece = chosen[first : first + 1024]
        n = len(piece)
        order = np.tile(np.arange(S), (n, 1))
        every = np.arange(n)
        for j in range(k):
            other = j + (_uniforms(bits, n) * (S - j)).astype(np.int64)
            order[every, j], order[every, other] = order[every, other], order[every, j].copy()
        piece[:] = np.sort(order[:, :k], axis=1)
    return chosen


def _row_sums(weights: Float) -> Float:
    """Sum the columns one after the other: the same bits with every NumPy."""
    total = np.zeros(len(weights))
    for column in weights.T:
        total += column
    return total[:, None]
