"""The extended linear program, spelled out: policies and transitions together, H S A S variables.

The slow way to plan over plausible models, for benchmarks and tests to compare with.
"""

from __future__ import annotations

import time
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse
from scipy.optimize import Bounds, LinearConstraint, milp

from safespot.arrays import Float
from safespot.learners.baselines.plausible_models import Models


class Optimum(NamedTuple):
    """What HiGHS says; the value is None where nothing keeps the limits."""

    value: float | None
    policy: Float  # [H, S, A], zero where it never goes
    seconds: float  # of processor time in HiGHS alone


def extended_program(models: Models, limits: Float, policy: Float | None = None) -> Optimum:
    """Maximize over x[h,s,a,s'] >= 0, how often s' follows (s,a) at step h, and over the start's mu[s].

    A given `policy` leaves only the transitions to choose.
    """
    components, H, pairs = models.payoffs.shape
    S = len(models.start.lower)
    A = pairs // S
    x = np.arange(H * pairs * S).reshape(H, S, A, S)
    mu = x.size + np.arange(S)
    rows: list[tuple[Any, Any, float, float]] = []  # columns, coefficients, lower, upper
    rows.append((mu, np.ones(S), 1.0, 1.0))
    mask = models.mask.reshape(H, S, A)
    steps = models.rows * (H // len(models.rows))
    lower = np.array([rows.lower.T for rows in steps]).reshape(H, S, A, S)
    upper = lower + np.array([rows.room.T for rows in steps]).reshape(H, S, A, S)
    # A row whose upper ends do not reach one leads nowhere: what goes into it does not come out.
    nowhere = upper.sum(axis=3) < 0.5
    for h in range(H):
        for s in range(S):
            came = x[h - 1, :, :, s][~nowhere[h - 1]] if h else mu[s : s + 1]
            flow = np.r_[np.ones(A * S), np.full(len(came), -1.0)]
            rows.append((np.r_[x[h, s].ravel(), came], flow, 0.0, 0.0))
            for a in range(A):
                here = x[h, s, a]
                if policy is not None:
                    share = np.full((A, S), -policy[h, s, a])
                    share[a] += 1.0
                    rows.append((x[h, s].ravel(), share.ravel(), 0.0, 0.0))
                if nowhere[h, s, a]:
                    continue
                for k in range(S):
                    for end, low, high in (
                        (lower[h, s, a, k], 0.0, np.inf),
                        (upper[h, s, a, k], -np.inf, 0.0),
                    ):
                        coefficients = np.full(S, -end)
                        coefficients[k] += 1.0
                        rows.append((here, coefficients, low, high))
    payoffs = np.repeat(models.payoffs[..., None], S, axis=3).reshape(components, -1)
    rows += [(x.ravel(), payoffs[1 + i], limits[i], np.inf) for i in range(components - 1)]
    start = models.start.lower[:, 0]
    top = np.r_[np.where(np.repeat(mask, S), np.inf, 0.0), start + models.start.room[:, 0]]
    low = np.r_[np.zeros(x.size), start]
    return _solve(np.r_[payoffs[0], np.zeros(S)], rows, low, top, x)


def _solve(
    objective: Float, rows: list[tuple[Any, Any, float, float]], low: Float, top: Float, x: Any
) -> Optimum:
    counts = [len(row[0]) for row in rows]
    matrix = sparse.csr_array(
        (
            np.concatenate([row[1] for row in rows]),
            (np.repeat(np.arange(len(rows)), counts), np.concatenate([row[0] for row in rows])),
        ),
        shape=(len(rows), len(objective)),
    ).tocsc()
    low_rows, high_rows = (np.array([row[k] for row in rows]) for k in (2, 3))
    began = time.process_time()
    answer: Any = milp(
        -objective,
        constraints=LinearConstraint(matrix, low_rows, high_rows),
        bounds=Bounds(low, top),
    )
    seconds = time.process_time() - began
    H, S, A, _ = x.shape
    if answer.status != 0:
        assert answer.status == 2, answer.message
        return Optimum(None, np.zeros((H, S, A)), seconds)
    occupancy = answer.x[x].sum(axis=3)
    visits = occupancy.sum(axis=2, keepdims=True)
    policy = np.divide(occupancy, visits, out=np.zeros_like(occupancy), where=visits > 0.0)
    return Optimum(-float(answer.fun), policy, seconds)
