"""The oracle: exact values, the constrained optimum and the Slater policy of a known CMDP.

`solve` has two independent methods that check each other: the linear program over occupancy measures
(HiGHS), and column generation priced by backward induction, which is faster at every size.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from .arrays import Float, Int, Policy, frozen
from .cmdp import CMDP, Model
from .columns import TOLERANCE, Column, Mixture, best_mixture, largest_margin
from .compilation import disjoint, inner, kernel, natural
from .errors import Infeasible, InvalidModel, InvalidOption, SolverError
from .products import by_length, dot, mix_rows
from .transitions import as_matrices, block, expect, push

if TYPE_CHECKING:
    from scipy import sparse


@dataclass(frozen=True, eq=False)
class Evaluation:
    """Exact values of a policy, in the user's terms."""

    value: float
    constraints: Float  # [m]


@dataclass(frozen=True, eq=False)
class Solution:
    """A constrained optimum, in the user's terms."""

    value: float
    constraints: Float  # [m]
    policy: Policy  # [H, S, A]
    multipliers: Float  # [m], >= 0: what one unit of each limit is worth in reward
    gap: float  # no policy that keeps the limits has more than value + gap
    method: str  # "columns" | "lp"


@dataclass(frozen=True, eq=False)
class Slater:
    """The policy with the largest common margin, and of these the one with the largest reward."""

    policy: Policy  # [H, S, A]
    margin: float  # every limit is kept with at least this room, in its own units
    margins: Float  # [m]: the room of each limit, in its own units
    value: float
    rho: float  # a bound for the multipliers (deviation D4), inside units: it has no unit


def evaluate(cmdp: CMDP, policy: ArrayLike) -> Evaluation:
    """The exact values of `policy` ``[H,S,A]`` by backward induction."""
    cmdp = _as_cmdp(cmdp)
    values = policy_values(cmdp.model, cmdp.policy(policy))
    return Evaluation(_value(cmdp, values), _constraints(cmdp, values))


def solve(cmdp: CMDP, method: str = "columns") -> Solution:
    """The policy with the largest value among those that keep every limit.

    Args:
        cmdp: the known model.
        method: "columns", or "lp" for the independent check.

    Raises:
        Infeasible: no policy keeps every limit.

    """
    cmdp = _as_cmdp(cmdp)
    if method not in ("columns", "lp"):
        raise InvalidOption(f"method must be 'columns' or 'lp', got {method!r}.")
    pricing = _Pricing(cmdp.model)
    if method == "lp":
        occupancy, multipliers = _occupancy_program(cmdp)
        priced = pricing(np.r_[1.0, multipliers])
        bound = float(priced.values @ np.r_[1.0, multipliers] - multipliers @ cmdp.model.limits)
    else:
        mixture = best_mixture(pricing, cmdp.model.limits)
        if mixture is None:
            raise _infeasible(cmdp)
        occupancy, multipliers, bound = _mix(cmdp, mixture), mixture.multipliers, mixture.bound
    policy = _markov(cmdp, occupancy)
    values = policy_values(cmdp.model, policy)
    return Solution(
        value=_value(cmdp, values),
        constraints=_constraints(cmdp, values),
        policy=policy,
        multipliers=frozen(cmdp.units.prices(multipliers)),
        gap=max(0.0, bound - float(values[0])) * float(cmdp.units.reward.scale),
        method=method,
    )


def slater(cmdp: CMDP) -> Slater:
    """The policy with the largest common margin, its margin, and ``rho`` (deviation D4).

    Raises:
        Infeasible: even the largest margin is negative.

    """
    cmdp = _as_cmdp(cmdp)
    limits, pricing = cmdp.model.limits, _Pricing(cmdp.model)
    widest = largest_margin(pricing, limits)
    reach = float((widest.values[1:] - limits).min())
    if reach < -TOLERANCE * cmdp.H:
        raise _infeasible(cmdp)
    richest = best_mixture(pricing, limits + reach - TOLERANCE * cmdp.H, widest.columns)
    policy = _markov(cmdp, _mix(cmdp, widest if richest is None else richest))
    values = policy_values(cmdp.model, policy)
    room = values[1:] - limits
    best = best_mixture(pricing, limits, widest.columns)
    optimum = float(values[0]) if best is None else float(best.values[0])
    margin = float(room.min())
    # D4: the paper's (V* - V(pi0)) / margin, doubled as Lemma F.2 needs it, and at least 1.
    rho = max(1.0, 2.0 * (optimum - float(values[0])) / margin) if margin > 1e-9 else np.inf
    margins = room * np.abs(cmdp.units.constraints.scale)
    return Slater(policy, float(margins.min()), frozen(margins), _value(cmdp, values), rho)


def _as_cmdp(value: CMDP) -> CMDP:
    if not isinstance(value, CMDP):
        hint = " Take its .cmdp." if hasattr(value, "cmdp") else ""
        raise InvalidModel(f"a CMDP is needed, got {type(value).__name__}.{hint}")
    return value


def _value(cmdp: CMDP, values: Float) -> float:
    return float(cmdp.units.reward.total_outside(values[0], cmdp.H))


def _constraints(cmdp: CMDP, values: Float) -> Float:
    return frozen(cmdp.units.constraints.total_outside(values[1:], cmdp.H))


class _Pricing:
    """The deterministic policy ``[H,S]`` that maximises a weighted sum of values."""

    def __init__(self, model: Model) -> None:
        self.model = model

    def __call__(self, weights: Float) -> Column[Int]:
        plan, values = best_plan(self.model, weights)
        return Column(values, plan)


def _infeasible(cmdp: CMDP) -> Infeasible:
    """The error that says which limit cannot be kept, and the best that can be reached."""
    units, H, limits = cmdp.units, cmdp.H, cmdp.limits
    pricing = _Pricing(cmdp.model)
    best = []
    for i in range(cmdp.m):
        reach = pricing(np.eye(1, 1 + cmdp.m, 1 + i)[0]).values[1:]
        best.append(float(units.constraints.total_outside(reach, H)[i]))
        if reach[i] < cmdp.model.limits[i] - TOLERANCE * H:
            return Infeasible(
                f"constraint {i} cannot be kept: it asks for {units.senses[i]} {limits[i]:.6g} over "
                f"an episode, and the best that any policy reaches is {best[i]:.6g}. Move the limit "
                "at least that far.",
                constraint=i,
                best=best[i],
            )
    widest = largest_margin(pricing, cmdp.model.limits)
    jointly = [i for i in range(cmdp.m) if widest.multipliers[i] > 1e-9]
    alone = ", ".join(f"{i}: {best[i]:.6g} (limit {limits[i]:.6g})" for i in jointly)
    short = -widest.bound
    return Infeasible(
        f"constraints {jointly} cannot be kept together, though each can alone. Best values alone: "
        f"{alone}. Together at least one falls short by {short:.3g} of its range. Loosen one of them."
    )


def _mix(cmdp: CMDP, mixture: Mixture[Int]) -> Float:
    """The occupancy measure ``[H,S,A]`` of a mixture of deterministic policies."""
    occupancy = np.zeros((cmdp.H, cmdp.S, cmdp.A))
    for weight, plan in zip(mixture.weights, mixture.plans, strict=True):
        add_occupancy(cmdp.model, plan, weight, occupancy)
    return occupancy


def _markov(cmdp: CMDP, occupancy: Float) -> Policy:
    """The Markov policy with this occupancy measure; where nothing goes, the lowest admissible action."""
    visits = occupancy.sum(axis=2, keepdims=True)
    mask = cmdp.model.mask.reshape(-1, cmdp.S, cmdp.A)
    lowest = np.eye(cmdp.A)[mask.argmax(axis=2)]
    policy = np.where(visits > 0.0, occupancy / np.where(visits > 0.0, visits, 1.0), lowest)
    return frozen(policy / policy.sum(axis=2, keepdims=True))


def _occupancy_program(cmdp: CMDP, solver: str = "choose") -> tuple[Float, Float]:
    """The linear program over occupancy measures: (occupancy ``[H,S,A]``, multipliers ``[m]``).

    Variables x[h,s,a] >= 0 on admissible pairs. Rows: sum_a x[h,s,a] = what flows in; then the limits.
    """
    import highspy

    program = occupancy_program(cmdp)
    highs = highspy.Highs()
    for option, value in (
        ("output_flag", False),
        ("threads", 1),
        ("solver", solver),
        ("primal_feasibility_tolerance", TOLERANCE),
        ("dual_feasibility_tolerance", TOLERANCE),
    ):
        highs.setOptionValue(option, value)
    lp = highspy.HighsLp()
    matrix = program.matrix
    lp.num_row_, lp.num_col_ = matrix.shape
    lp.col_cost_ = -program.rewards
    lp.col_lower_, lp.col_upper_ = np.zeros(lp.num_col_), np.full(lp.num_col_, highspy.kHighsInf)
    lp.row_lower_, lp.row_upper_ = program.lower, program.upper
    lp.a_matrix_.format_ = highspy.MatrixFormat.kColwise
    lp.a_matrix_.start_, lp.a_matrix_.index_ = matrix.indptr, matrix.indices
    lp.a_matrix_.value_ = matrix.data
    highs.passModel(lp)
    highs.run()
    status = highs.modelStatusToString(highs.getModelStatus())
    if status in ("Infeasible", "Primal infeasible or unbounded"):
        raise _infeasible(cmdp)
    if status != "Optimal":
        raise SolverError(f"HiGHS ended with '{status}' on the occupancy program of {cmdp!r}.")
    solution = highs.getSolution()
    occupancy = np.zeros(cmdp.H * cmdp.S * cmdp.A)
    occupancy[program.pairs] = np.array(solution.col_value).clip(0.0)
    multipliers = np.array(solution.row_dual)[-cmdp.m :].clip(0.0)
    return occupancy.reshape(cmdp.H, cmdp.S, cmdp.A), multipliers


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


@kernel
def policy_values(model: Model, pi: Float) -> Float:
    """Backward induction: ``V_h(s) = sum_a pi(a|s) (v_h(s,a) + p V_{h+1})``; the start's ``[1+m]``."""
    H, S, A = pi.shape
    components, steps, _ = model.payoffs.shape
    V, W = np.zeros((components, S)), np.zeros((components, S))
    for h in range(H - 1, -1, -1):
        k = h if steps > 1 else 0
        W[:] = 0.0
        for s in range(S):
            for a in range(A):
                if pi[h, s, a] > 0.0:
                    for c in range(components):
                        q = model.payoffs[c, k, s * A + a] + expect(model.P, h, s * A + a, V[c])
                        W[c, s] += pi[h, s, a] * q
        V, W = W, V
    return start_values(model.start, V)


@kernel
def start_values(start: Float, V: Float) -> Float:
    """``sum_s start(s) V_c(s)`` for every component."""
    components, S = V.shape
    values = np.zeros(components)
    for c in range(components):
        for s in range(S):
            values[c] += start[s] * V[c, s]
    return values


@inner
def forward_values(
    model: Model, policy: Float, now: Float, after: Float, mass: Float, visits: Float, values: Float
) -> None:
    """The same by the occupancy measure, forward: one pass over the transitions serves every component.

    `policy` ``[H*S*A]`` is one row; `now`, `after` ``[S]``, `mass` and `visits` ``[S*A]`` are worked in; `values`
    ``[1+m]`` is written. Where payoffs are the same at every step, it is the expected `visits` of all steps together
    that they are multiplied with.
    """
    components, steps, pairs = model.payoffs.shape
    S = model.start.shape[0]
    H, A = model.alpha.shape[1], pairs // S
    for s in range(S):
        now[s] = model.start[s]
    for c in range(components):
        values[c] = 0.0
    for k in range(pairs):
        visits[k] = 0.0
    for h in range(H):
        by_length(spread, A, S, (policy[natural(h * pairs) :], now, mass, visits))
        if steps > 1:
            for c in range(components):
                values[c] += dot(mass, model.payoffs[c, h])
        if h + 1 < H:
            move_on(model, h, mass, after, now)
    if steps == 1:
        for c in range(components):
            values[c] = dot(visits, model.payoffs[c, 0])


@disjoint
def spread(A: int, rows: int, arguments: tuple[Float, Float, Float, Float]) -> None:
    """From the mass of states `now` to that of their pairs, which is added to `visits` as well."""
    policy, now, mass, visits = arguments
    for s in range(rows):
        share = now[s]
        for a in range(A):
            part = policy[s * A + a] * share
            mass[s * A + a] = part
            visits[s * A + a] += part


@inner
def move_on(model: Model, h: int, mass: Float, after: Float, now: Float) -> None:
    """From the `mass` ``[S*A]`` of the pairs at step h to that of the states after it, `now` ``[S]``."""
    if model.P.dense.shape[0] > 0:
        mix_rows(mass, model.P.dense[block(model.P, h)], 0, now.shape[0], now)
    else:
        for s in range(after.shape[0]):
            after[s] = 0.0
        for row in range(mass.shape[0]):
            if mass[row] > 0.0:
                push(model.P, h, row, mass[row], after)
        for s in range(after.shape[0]):
            now[s] = after[s]


@kernel
def best_plan(model: Model, weights: Float) -> tuple[Int, Float]:
    """The deterministic policy ``[H,S]`` with the largest weighted value, and its values ``[1+m]``.

    Backward induction on ``weights·v``; the lowest action wins a tie.
    """
    components, steps, rows = model.payoffs.shape
    S = model.start.shape[0]
    H, A = model.alpha.shape[1], rows // S
    plan = np.zeros((H, S), np.int64)
    V, W = np.zeros(S), np.zeros(S)
    for h in range(H - 1, -1, -1):
        k = h if steps > 1 else 0
        allowed = h if model.mask.shape[0] > 1 else 0
        for s in range(S):
            best, choice = -np.inf, 0
            for a in range(A):
                row = s * A + a
                if model.mask[allowed, row]:
                    q = expect(model.P, h, row, V)
                    for c in range(components):
                        q += weights[c] * model.payoffs[c, k, row]
                    if q > best:
                        best, choice = q, a
            plan[h, s], W[s] = choice, best
        V, W = W, V
    return plan, plan_values(model, plan)


@kernel
def plan_values(model: Model, plan: Int) -> Float:
    """The values ``[1+m]`` of a deterministic policy ``[H,S]``.

    Forward, from the start: one pass over the transitions serves every component.
    """
    components, steps, rows = model.payoffs.shape
    H, S = plan.shape
    A = rows // S
    values = np.zeros(components)
    now, after = model.start.copy(), np.zeros(S)
    for h in range(H):
        k = h if steps > 1 else 0
        after[:] = 0.0
        for s in range(S):
            if now[s] > 0.0:
                row = s * A + plan[h, s]
                for c in range(components):
                    values[c] += now[s] * model.payoffs[c, k, row]
                push(model.P, h, row, now[s], after)
        now, after = after, now
    return values


@kernel
def add_occupancy(model: Model, plan: Int, weight: float, occupancy: Float) -> None:
    """Add `weight` times the occupancy measure of a deterministic policy ``[H,S]``."""
    H, S, A = occupancy.shape
    now, after = weight * model.start, np.zeros(S)
    for h in range(H):
        after[:] = 0.0
        for s in range(S):
            if now[s] > 0.0:
                occupancy[h, s, plan[h, s]] += now[s]
                push(model.P, h, s * A + plan[h, s], now[s], after)
        now, after = after, now
