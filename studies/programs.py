"""The linear program over occupancy measures: an independent check of column generation, by SciPy's linprog."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from scipy import sparse
from scipy.optimize import linprog

import safespot as ss
from safespot.arrays import Float, Int

TIGHT = {"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10}


class OccupancyProgram(NamedTuple):
    """``max rewards·x`` subject to ``lower <= matrix x <= upper``, x >= 0, over admissible pairs."""

    rewards: Float  # [variables]
    matrix: sparse.csc_array  # [H*S + m, variables]
    lower: Float
    upper: Float
    pairs: Int  # [variables]: h*S*A + s*A + a


def occupancy_program(cmdp: ss.CMDP) -> OccupancyProgram:
    """Return the linear program over occupancy measures, for any solver."""
    H, S, A, m, model = cmdp.H, cmdp.S, cmdp.A, cmdp.m, cmdp.model
    blocks = list(cmdp.process.rows)
    blocks = blocks * H if len(blocks) == 1 else blocks
    out = sparse.kron(sparse.identity(H * S), np.ones((1, A)), format="csr")  # sum_a x[h,s,a]
    inflow = sparse.block_diag(blocks[:-1]).T if H > 1 else sparse.csr_array((0, 0))
    shifted = sparse.block_array(
        [
            [None, sparse.csr_array((S, S * A))],
            [sparse.csr_array(inflow), None],
        ]
    ) if H > 1 else sparse.csr_array((S, S * A))  # fmt: skip
    payoffs = np.broadcast_to(model.payoffs.reshape(1 + m, -1, S * A), (1 + m, H, S * A)).reshape(
        1 + m, -1
    )
    pairs = np.flatnonzero(np.broadcast_to(model.mask, (H, S * A)).ravel())
    flow = sparse.csr_array(out - shifted)
    matrix = sparse.vstack([flow, sparse.csr_array(payoffs[1:])], format="csc")[:, pairs]
    first = np.r_[model.start, np.zeros((H - 1) * S)]
    return OccupancyProgram(
        rewards=payoffs[0, pairs],
        matrix=sparse.csc_array(matrix),
        lower=np.r_[first, model.limits],
        upper=np.r_[first, np.full(m, np.inf)],
        pairs=pairs,
    )


class ProgramOptimum(NamedTuple):
    """What the linear program says, inside."""

    value: float
    multipliers: Float  # [m]


def program_optimum(cmdp: ss.CMDP, method: str = "highs") -> ProgramOptimum | None:
    """Return the constrained optimum by linprog; None where it calls the limits infeasible, or gives up."""
    program, m = occupancy_program(cmdp), cmdp.m
    flow, limits = program.matrix[:-m], program.matrix[-m:]
    solve: Any = linprog
    answer = solve(
        -program.rewards, A_eq=flow, b_eq=program.lower[:-m], A_ub=-limits,
        b_ub=-program.lower[-m:], method=method, options=TIGHT,
    )  # fmt: skip
    if answer.status != 0:
        return None
    return ProgramOptimum(-float(answer.fun), -np.asarray(answer.ineqlin.marginals).clip(max=0.0))
