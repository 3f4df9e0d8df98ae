"""Random models whose limits can only just be kept, or just not: every one is solved or proven infeasible.

The second method is the program over occupancy measures, by HiGHS. At such limits its tolerances may decide otherwise,
or it gives up; then rational arithmetic decides, in which weak duality is a proof. For every policy pi and multipliers
lambda >= 0,

    V_r(pi') <= max_pi V_r(pi) + lambda·(V_g(pi) - b)   for all pi' that keep the limits b,

and with lambda on the simplex and no reward, a negative maximum says that no policy keeps them.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import linprog

import safespot as ss
from safespot.planning.columns import TOLERANCE, largest_margin
from safespot.planning.process import Pricing

AGREE = 1e-8  # beyond this the two methods disagree
BACKWARD = 2e-12  # where room is scarce, limits may be taken to be off by this share of H


class Verdict(NamedTuple):
    """What became of one model."""

    feasible: bool
    exact: bool  # whether rational arithmetic had to decide
    problem: str  # empty: all is well


def random_model(rng: np.random.Generator) -> ss.CMDP:
    """Up to 6 states, 4 actions, 5 steps, 3 limits; ties, zeros, and numbers of very different size."""
    S, A, H, m = (int(rng.integers(1, n + 1)) for n in (6, 4, 5, 3))
    steps = () if rng.random() < 0.5 else (H,)
    P = transitions(rng, (*steps, S, A, S))
    payoffs = numbers(rng, (1 + m, H, S, A))
    start = int(rng.integers(S)) if rng.random() < 0.5 else transitions(rng, (S,))
    return ss.CMDP(P, payoffs[0], payoffs[1:], np.zeros(m), horizon=H, start=start)


def transitions(rng: np.random.Generator, shape: tuple[int, ...]) -> Any:
    """Distributions along the last axis: deterministic, sparse, dense, or with very small entries."""
    kind = rng.integers(4)
    if kind == 0:
        return np.eye(shape[-1])[rng.integers(shape[-1], size=shape[:-1])]
    weights = rng.random(shape)
    if kind == 1:
        weights *= rng.random(shape) < 0.4
    elif kind == 2:
        weights = 10.0 ** rng.uniform(-14.0, 0.0, shape)
    weights[..., 0] += weights.sum(axis=-1) == 0.0
    return weights / weights.sum(axis=-1, keepdims=True)


def numbers(rng: np.random.Generator, shape: tuple[int, ...]) -> Any:
    """Payoffs in [0,1], each component in its own way."""
    table = np.empty(shape)
    for component in table:
        kind, x = rng.integers(6), rng.random(shape[1:])
        if kind == 1:
            x = np.round(2.0 * x) / 2.0  # ties
        elif kind == 2:
            x = np.round(x, 1)  # ties but for rounding
        elif kind == 3:
            x *= rng.random(shape[1:]) < 0.3  # mostly zero
        elif kind == 4:
            x = 10.0 ** rng.uniform(-14.0, 0.0, shape[1:])
        elif kind == 5:
            x = 0.5 + 10.0 ** rng.uniform(-12.0, -1.0) * (x - 0.5)  # hardly any difference
        component[:] = x
    return table


def at_the_edge(cmdp: ss.CMDP, rng: np.random.Generator) -> ss.CMDP:
    """The same model with limits at, just below or just above what some policy of the Pareto front reaches."""
    reached = []
    for _ in range(int(rng.integers(1, 3))):
        weights = rng.random(cmdp.m) * (rng.random(cmdp.m) < 0.7)
        weights[rng.integers(cmdp.m)] += rng.random()
        reached.append(Pricing(cmdp.process)(np.r_[0.0, weights]).values[1:])
    limits = rng.dirichlet(np.ones(len(reached))) @ np.array(reached)
    kind = rng.integers(4)
    if kind > 0:
        away = 10.0 ** rng.uniform(-12.0, -6.0) * (1.0 if kind == 1 else -1.0)
        limits = limits * (1.0 + away * (rng.random(cmdp.m) < 0.7))
    P = cmdp.transitions
    return ss.CMDP(
        P, cmdp.rewards, cmdp.constraints, limits.clip(0.0, cmdp.H), start=cmdp.model.start
    )


def judge(cmdp: ss.CMDP) -> Verdict:
    """Solve a model and check the answer."""
    model = cmdp.model
    widest = largest_margin(Pricing(cmdp.process), model.limits)
    margin = float((widest.values[1:] - model.limits).min())
    if not abs(widest.bound - margin) <= BACKWARD * cmdp.H:
        return Verdict(margin > 0.0, False, f"margin {margin} is bounded by {widest.bound}")
    try:
        safest = ss.slater(cmdp).margin
    except ss.errors.Infeasible:
        safest = margin if margin < -TOLERANCE else np.inf
    if not abs(safest - margin) <= 2.0 * TOLERANCE * cmdp.H:
        return Verdict(margin > 0.0, False, f"margin {margin} is {safest} for `slater`")
    by_program = second_method(cmdp)
    try:
        best = ss.solve(cmdp)
    except ss.errors.Infeasible:
        if by_program is None and margin < -AGREE:
            return Verdict(False, False, "")
        proof = float(Exact(cmdp).bound(0.0, widest.multipliers))
        wrong = "" if proof < BACKWARD - TOLERANCE else f"infeasible, with a margin of {proof}"
        return Verdict(False, True, wrong)
    room = float((best.constraints - cmdp.limits).min())
    if by_program is not None and abs(best.value - by_program) <= AGREE and room >= -AGREE:
        return Verdict(True, False, "")
    return Verdict(True, True, Exact(cmdp).what_is_wrong(best))


def second_method(cmdp: ss.CMDP) -> float | None:
    """The optimum by HiGHS over occupancy measures x[h,s,a]; None where it says infeasible, or nothing at all."""
    H, S, A, n = cmdp.H, cmdp.S, cmdp.A, cmdp.H * cmdp.S * cmdp.A
    P = np.broadcast_to(cmdp.transitions, (H, S, A, S))
    flow = np.zeros((H, S, H, S, A))
    for h in range(H):
        flow[h, range(S), h, range(S)] = 1.0
        if h > 0:
            flow[h, :, h - 1] -= np.moveaxis(P[h - 1], -1, 0)
    constraints = np.broadcast_to(cmdp.constraints, (cmdp.m, H, S, A)).reshape(-1, n)
    answer: Any = linprog(
        -np.broadcast_to(cmdp.rewards, (H, S, A)).ravel(),
        A_ub=-constraints, b_ub=-cmdp.model.limits,
        A_eq=flow.reshape(H * S, n), b_eq=np.r_[cmdp.model.start, np.zeros((H - 1) * S)],
        method="highs",
        options={"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10},
    )  # fmt: skip
    return -float(answer.fun) if answer.status == 0 else None


class Exact:
    """A model in rational numbers."""

    def __init__(self, cmdp: ss.CMDP) -> None:
        H, S, A = cmdp.H, cmdp.S, cmdp.A
        self.H, self.S, self.A = H, S, A
        self.P = rational(np.broadcast_to(cmdp.transitions, (H, S, A, S)))
        payoffs = np.concatenate([cmdp.rewards[None], cmdp.constraints])
        self.payoffs = rational(np.broadcast_to(payoffs, (1 + cmdp.m, H, S, A)))
        self.start, self.limits = rational(cmdp.model.start), rational(cmdp.model.limits)

    def bound(self, objective: float, multipliers: Any) -> Fraction:
        """``max_pi objective V_r(pi) + multipliers·(V_g(pi) - b)``."""
        weights = rational(np.r_[objective, multipliers])
        payoff = np.tensordot(weights, self.payoffs, 1)
        V = rational(np.zeros(self.S))
        for h in reversed(range(self.H)):
            V = (payoff[h] + self.P[h] @ V).max(axis=1)
        total: Fraction = self.start @ V - weights[1:] @ self.limits
        return total

    def values(self, policy: Any) -> Any:
        """The values ``[1+m]`` of a policy, whose rows are made to sum to one."""
        pi = rational(policy)
        pi = pi / pi.sum(axis=2, keepdims=True)
        V = rational(np.zeros((len(self.payoffs), self.S)))
        for h in reversed(range(self.H)):
            Q = self.payoffs[:, h] + np.moveaxis(self.P[h] @ V.T, -1, 0)
            V = (pi[h] * Q).sum(axis=2)
        return V @ self.start

    def what_is_wrong(self, best: ss.Solution) -> str:
        """Nothing, where a policy is optimal and safe for limits next to those of the model."""
        value, *constraints = self.values(best.policy)
        short = max(limit - v for limit, v in zip(self.limits, constraints, strict=True))
        if short > (TOLERANCE + BACKWARD) * self.H:
            return f"a limit is missed by {float(short)}"
        gap = self.bound(1.0, best.multipliers) - value
        allowed = 1e-9 + BACKWARD * self.H * float(best.multipliers.sum())
        if gap > allowed:
            return f"the gap is {float(gap)}, and {allowed} would be as good as exact"
        return ""


def rational(array: Any) -> Any:
    """The same numbers as fractions."""
    return np.vectorize(Fraction, otypes=[object])(array)


class Tally(NamedTuple):
    """What became of many models."""

    feasible: int
    exact: int
    problems: list[tuple[int, str]]  # the seed, and what is wrong


def run(seeds: range) -> Tally:
    """Judge one model for every seed."""
    feasible, exact, problems = 0, 0, []
    for seed in seeds:
        rng = np.random.default_rng([20, seed])
        verdict = judge(at_the_edge(random_model(rng), rng))
        feasible, exact = feasible + verdict.feasible, exact + verdict.exact
        if verdict.problem:
            problems.append((seed, verdict.problem))
    return Tally(feasible, exact, problems)
