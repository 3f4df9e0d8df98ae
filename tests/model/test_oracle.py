"""The oracle against enumeration, plain backward induction, SciPy's linear programs and quantecon."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog
from studies.programs import program_optimum

import safespot as ss
from safespot.planning.process import Pricing, best_response
from tests.support.models import Arguments, Tables, random_policy, tables, to_inside, valid, values

TIGHT: Any = {"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10}


def enumerated(t: Tables, policy: Any) -> Any:
    """The values [1+m] as a sum over every trajectory."""
    H, S, A = t.rewards.shape
    total = np.zeros(1 + len(t.constraints))

    def follow(h: int, s: int, probability: float, payoff: Any) -> None:
        nonlocal total
        if h == H:
            total = total + probability * payoff
            return
        for a in range(A):
            now = payoff + np.r_[t.rewards[h, s, a], t.constraints[:, h, s, a]]
            for after in range(S):
                p = probability * policy[h, s, a] * t.transitions[h, s, a, after]
                if p > 0.0:
                    follow(h + 1, after, p, now)

    for s in range(S):
        if t.start[s] > 0.0:
            follow(0, s, float(t.start[s]), np.zeros(1 + len(t.constraints)))
    return total


class Program:
    """The program over occupancy measures x[h,s,a], written down plainly, for SciPy."""

    def __init__(self, t: Tables) -> None:
        H, S, A = t.rewards.shape
        self.n = H * S * A
        flow = np.zeros((H, S, H, S, A))
        for h in range(H):
            for s in range(S):
                flow[h, s, h, s, :] += 1.0
                if h > 0:
                    flow[h, s, h - 1] -= t.transitions[h - 1, :, :, s]
        self.flow = flow.reshape(H * S, self.n)
        self.first = np.r_[t.start, np.zeros((H - 1) * S)]
        self.upper: list[Any] = [None if open_ else 0.0 for open_ in t.mask.ravel()]
        self.rewards = t.rewards.ravel()
        self.constraints = t.constraints.reshape(-1, self.n)
        self.limits = t.thresholds.sum(axis=1)

    def optimum(self, room: float = 0.0) -> float | None:
        """The largest reward that keeps every limit with this much room."""
        result: Any = linprog(
            -self.rewards, A_ub=-self.constraints, b_ub=-self.limits - room, A_eq=self.flow,
            b_eq=self.first, bounds=[(0, u) for u in self.upper], method="highs", options=TIGHT,
        )  # fmt: skip
        return None if result.status == 2 else -float(result.fun)

    def margin(self) -> float:
        """The largest room that every limit can have at once."""
        result: Any = linprog(
            np.r_[np.zeros(self.n), -1.0],
            A_ub=np.c_[-self.constraints, np.ones(len(self.limits))],
            b_ub=-self.limits,
            A_eq=np.c_[self.flow, np.zeros(len(self.flow))],
            b_eq=self.first,
            bounds=[(0, u) for u in self.upper] + [(None, None)],
            method="highs",
            options=TIGHT,
        )
        return -float(result.fun)


@settings(max_examples=40)
@given(valid(feasible=False), st.integers(0, 2**32 - 1))
def test_values_are_sums_over_trajectories(arguments: Arguments, seed: int) -> None:
    t = tables(arguments)
    H, S, A = t.rewards.shape
    assume((S * A) ** H * S <= 20_000)
    policy = random_policy(t.mask, np.random.default_rng(seed))
    reached = ss.evaluate(ss.CMDP(**arguments), policy)
    expected = enumerated(t, policy)
    assert reached.value == pytest.approx(expected[0], abs=1e-11)
    np.testing.assert_allclose(reached.constraints, expected[1:], rtol=0, atol=1e-11)


@given(valid(feasible=False), st.integers(0, 2**32 - 1))
def test_values_are_those_of_backward_induction(arguments: Arguments, seed: int) -> None:
    t = tables(arguments)
    cmdp = ss.CMDP(**arguments)
    policy = random_policy(t.mask, np.random.default_rng(seed))
    reached = ss.evaluate(cmdp, policy)
    expected = values(t, policy)  # in the user's terms all along
    assert reached.value == pytest.approx(expected[0], abs=1e-11)
    np.testing.assert_allclose(reached.constraints, expected[1:], rtol=0, atol=1e-11)
    stationary = ss.evaluate(cmdp, np.repeat(policy[:1], cmdp.H, axis=0)) if _same(t) else None
    if stationary is not None:
        assert ss.evaluate(cmdp, policy[0]).value == stationary.value


def _same(t: Tables) -> bool:
    return bool((t.mask == t.mask[:1]).all())


@given(valid())
def test_the_optimum_is_reached_and_certified(arguments: Arguments) -> None:
    t = tables(arguments)
    cmdp = ss.CMDP(**arguments)
    scale = t.reward_range[1] - t.reward_range[0]
    signs = np.array([1 if sense == ">=" else -1 for sense in t.senses])
    inside = Program(to_inside(t)).optimum()
    best = ss.solve(cmdp)
    # What it says of its policy is true of its policy, and the limits are kept.
    exact = values(t, best.policy)
    assert best.value == pytest.approx(exact[0], abs=1e-11)
    np.testing.assert_allclose(best.constraints, exact[1:], rtol=0, atol=1e-11)
    room = signs * (best.constraints - cmdp.limits)
    assert room.min() >= -1e-8
    assert not best.policy[~t.mask].any()
    # The gap is certified, and small.
    assert 0.0 <= best.gap <= 1e-7 * scale
    if inside is not None:  # SciPy may call the very edge infeasible
        optimum = cmdp.H * t.reward_range[0] + scale * inside
        assert best.value == pytest.approx(optimum, abs=1e-7)
        assert best.value + best.gap >= optimum - 1e-8
    # Multipliers: never negative, and nothing is paid for a limit that does not bind.
    assert (best.multipliers >= 0.0).all()
    widths = t.constraint_ranges[:, 1] - t.constraint_ranges[:, 0]
    paid = best.multipliers * np.maximum(room, 0.0) / scale
    assert paid.max() <= 1e-7, (paid, room / widths)


@pytest.mark.parametrize("m", [1, 5, 10])
def test_many_constraints(m: int) -> None:
    cmdp = ss.problems.make("random", states=8, horizon=6, constraints=m, slack=0.05, seed=m).cmdp
    by_program, by_columns = program_optimum(cmdp), ss.solve(cmdp)
    assert by_program is not None
    assert by_columns.value == pytest.approx(by_program.value, abs=1e-8)
    assert by_columns.multipliers == pytest.approx(by_program.multipliers, abs=1e-6)
    assert by_columns.gap <= 1e-8
    assert (by_columns.constraints >= cmdp.limits - 1e-8).all()
    assert by_columns.multipliers.max() > 0.0


@given(valid())
def test_slater_is_the_program(arguments: Arguments) -> None:
    t = to_inside(tables(arguments))
    program = Program(t)
    reach = program.margin()
    assume(reach > 1e-7)
    safest = ss.slater(ss.CMDP(**arguments))
    exact = values(t, safest.policy)
    room = exact[1:] - program.limits
    assert room.min() == pytest.approx(reach, abs=1e-8)
    widths = np.array([b - a for a, b in tables(arguments).constraint_ranges])
    np.testing.assert_allclose(safest.margins, room * widths, rtol=0, atol=1e-10)
    assert safest.margin == safest.margins.min()
    low, high = tables(arguments).reward_range
    assert safest.value == pytest.approx(len(t.rewards) * low + (high - low) * exact[0], abs=1e-10)
    # Among the safest, none is richer, and the room that was given up for it is tiny.
    richest = program.optimum(reach - 1e-8)
    assert richest is not None
    assert exact[0] <= richest + 1e-8
    # D4: twice the loss over the margin, at least 1.
    optimum = program.optimum()
    assert optimum is not None
    expected = max(1.0, 2.0 * (optimum - exact[0]) / room.min())
    assert safest.rho == pytest.approx(expected, rel=1e-6 / min(1.0, reach))


def test_among_the_safest_the_richest_is_taken() -> None:
    # Three arms; two are equally safe, and the second of them pays more.
    cmdp = ss.CMDP([[[1.0]] * 3], [[1.0, 0.2, 0.4]], [[[0.0, 1.0, 1.0]]], [0.5], horizon=1)
    safest = ss.slater(cmdp)
    assert safest.policy[0, 0] == pytest.approx([0.0, 0.0, 1.0], abs=1e-8)
    assert safest.margin == pytest.approx(0.5, abs=1e-9)
    assert safest.rho == pytest.approx(2 * 0.3 / 0.5, abs=1e-7)


def test_rho_is_at_least_one_and_infinite_without_room() -> None:
    free = ss.CMDP([[[1.0]] * 2], [[1.0, 0.0]], [[[1.0, 0.0]]], [0.5], horizon=1)
    assert ss.slater(free).rho == 1.0  # the safest policy is also the best
    edge = ss.CMDP([[[1.0]] * 2], [[1.0, 0.0]], [[[0.0, 1.0]]], [1.0], horizon=1)
    assert ss.slater(edge).rho == np.inf
    assert ss.slater(edge).margin == pytest.approx(0.0, abs=1e-9)


def test_a_limit_that_nobody_can_keep_is_named() -> None:
    t = tables({
        "transitions": np.ones((1, 2, 1)), "rewards": np.zeros((1, 2)),
        "constraints": [[[0.5, 1.0]], [[3.0, 2.0]]], "thresholds": [1.0, 5.0], "horizon": 3,
    })  # fmt: skip
    cmdp = ss.CMDP(
        t.transitions, t.rewards, t.constraints, [1.0, 5.0], senses=[">=", "<="],
        constraint_ranges=[(0, 1), (0, 4)],
    )  # fmt: skip
    for attempt in (lambda: ss.solve(cmdp), lambda: ss.slater(cmdp)):
        with pytest.raises(ss.errors.Infeasible, match=r"constraint 1 cannot be") as caught:
            attempt()
        assert caught.value.constraint == 1
        assert caught.value.best == pytest.approx(6.0, abs=1e-12)


def test_limits_that_only_fail_together_are_named_together() -> None:
    # Three arms for three limits: each can have its own arm always, the first two not both.
    constraints = [[[1.0, 0.0, 0.0]], [[0.0, 1.0, 0.0]], [[1.0, 1.0, 1.0]]]
    cmdp = ss.CMDP([[[1.0]] * 3], [[0.0] * 3], constraints, [0.6, 0.7, 0.5], horizon=1)
    for attempt in (lambda: ss.solve(cmdp), lambda: ss.slater(cmdp)):
        with pytest.raises(ss.errors.Infeasible, match=r"constraints \[0, 1\].*together") as caught:
            attempt()
        assert caught.value.constraint is None
        assert caught.value.best is None
        # Short by 0.6 + 0.7 - 1, shared evenly.
        assert "0: 1 (limit 0.6), 1: 1 (limit 0.7)" in str(caught.value)
        assert "0.15 of its range" in str(caught.value)


@given(valid(feasible=False))
def test_what_is_infeasible_is_said_to_be(arguments: Arguments) -> None:
    cmdp = ss.CMDP(**arguments)
    margin = Program(to_inside(tables(arguments))).margin()
    assume(abs(margin) > 1e-7)
    if margin > 0.0:
        assert ss.solve(cmdp).gap <= 1e-6
    else:
        for attempt in (ss.solve, ss.slater):
            with pytest.raises(ss.errors.Infeasible):
                attempt(cmdp)


@pytest.mark.parametrize("seed", range(6))
def test_a_limit_at_the_very_edge_can_be_kept(seed: int) -> None:
    base = ss.problems.make("random", seed=seed, slack=0.0).cmdp
    best = ss.solve(base)
    assert best.constraints[0] == pytest.approx(base.limits[0], abs=1e-8)
    beyond = ss.CMDP(base.transitions, base.rewards, base.constraints, base.limits + 1e-6)
    with pytest.raises(ss.errors.Infeasible) as caught:
        ss.solve(beyond)
    assert caught.value.constraint == 0
    assert caught.value.best == pytest.approx(base.limits[0], abs=1e-9)


@pytest.mark.parametrize("seed", range(4))
def test_without_binding_limits_it_is_quantecons_backward_induction(seed: int) -> None:
    from quantecon.markov import DiscreteDP, backward_induction

    base = ss.problems.make("random", states=7, horizon=6, seed=seed).cmdp
    free = ss.CMDP(base.transitions, base.rewards, base.constraints, [0.0])
    with warnings.catch_warnings():
        # It warns that without discounting only finite horizons work; this is one.
        warnings.simplefilter("ignore", UserWarning)
        process = DiscreteDP(base.rewards[0], base.transitions[0], 1.0)
    V, policy = backward_induction(process, base.H)
    best = ss.solve(free)
    assert best.value == pytest.approx(V[0][0], abs=1e-9)
    assert ss.evaluate(free, np.eye(base.A)[policy]).value == pytest.approx(V[0][0], abs=1e-11)
    np.testing.assert_allclose(best.multipliers, [0.0], atol=1e-9)


def test_the_published_instance() -> None:
    path = Path(__file__).parents[3] / "shared" / "data" / "uniform-pac" / "instance.npz"
    if not path.exists():
        pytest.skip(f"the published instance is not at {path}")
    data = np.load(path)
    P = data["P"].astype(np.float64)
    P /= P.sum(axis=3, keepdims=True)
    cmdp = ss.CMDP(
        P, data["r"].astype(float), data["u"].astype(float)[None], [float(data["const"])],
        start=int(data["mu"].argmax()),
    )  # fmt: skip
    best, by_program = ss.solve(cmdp), program_optimum(cmdp)
    assert best.value == pytest.approx(5.18840, abs=1e-5)
    assert best.constraints[0] == pytest.approx(4.811598, abs=1e-5)
    assert best.gap <= 1e-8
    assert by_program is not None
    assert best.value == pytest.approx(by_program.value, abs=1e-8)


@given(valid(feasible=False), st.integers(0, 2**32 - 1))
def test_the_best_plan_is_the_best_of_all_plans(arguments: Arguments, seed: int) -> None:
    cmdp, t = ss.CMDP(**arguments), to_inside(tables(arguments))
    weights = np.random.default_rng(seed).random(1 + cmdp.m)
    reached, plan = Pricing(cmdp.process)(weights)
    np.testing.assert_allclose(reached, values(t, np.eye(cmdp.A)[plan]), atol=1e-12)
    payoff = np.tensordot(weights, np.concatenate([t.rewards[None], t.constraints]), 1)
    V = np.zeros(cmdp.S)
    for h in reversed(range(cmdp.H)):
        V = np.where(t.mask[h], payoff[h] + t.transitions[h] @ V, -np.inf).max(axis=1)
    assert weights @ reached == pytest.approx(V @ t.start, abs=1e-12)
    assert np.take_along_axis(t.mask, plan[:, :, None], axis=2).all()


def test_the_lowest_action_wins_a_tie() -> None:
    cmdp = ss.CMDP(np.ones((1, 3, 1)), [[0.5] * 3], [[[0.5] * 3]], [0.0], horizon=2)
    plan = best_response(cmdp.process, np.ones(2))
    np.testing.assert_array_equal(plan, [[0], [0]])
