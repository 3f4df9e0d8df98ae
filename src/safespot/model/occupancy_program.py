"""The linear program over occupancy measures: the independent check of column generation, for any solver."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ..arrays import Float, Int
from .cmdp import CMDP
from .transitions import as_matrices

if TYPE_CHECKING:
    from scipy import sparse


class OccupancyProgram(NamedTuple):
    """``max rewards·x`` subject to ``lower <= matrix x <= upper``, x >= 0, over admissible pairs."""

    rewards: Float  # [variables]
    matrix: sparse.csc_array  # [H*S + m, variables]
    lower: Float
    upper: Float
    pairs: Int  # [variables]: h*S*A + s*A + a


def occupancy_program(cmdp: CMDP) -> OccupancyProgram:
    """The linear program over occupancy measures, ready for any solver."""
    from scipy import sparse

    H, S, A, m, model = cmdp.H, cmdp.S, cmdp.A, cmdp.m, cmdp.model
    P = model.P
    blocks = [sparse.csr_array(rows) for rows in P.dense] if P.dense.size else as_matrices(P, S)
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
