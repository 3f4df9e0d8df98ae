"""The oracle: column generation beside the linear program over occupancy measures.

The other side does not pay for building the program; only HiGHS is timed.
"""

from __future__ import annotations

import tracemalloc
from typing import Any

import numpy as np
from scipy.optimize import linprog

import safespot as ss
from safespot.column_generation import Column, best_mixture
from safespot.model.dynamic_programming import best_deterministic
from safespot.model.occupancy_program import occupancy_program
from safespot.model.oracle import _occupancy_program
from safespot.problems import make

from ..record import Benchmark, Row, timed

AGREE = 1e-7  # both sides of a comparison must give the same value within this


def dense(constraints: int) -> ss.CMDP:
    """S = 100, A = 5, H = 20: every state can follow every pair."""
    return make(
        "random", states=100, actions=5, horizon=20, constraints=constraints, slack=1.0
    ).cmdp


def sparse() -> ss.CMDP:
    """S = 716, A = 25, H = 20, 85 successors: the size of a sepsis model built from hospital data."""
    return make("random", states=716, actions=25, horizon=20, successors=85).cmdp


def against_linprog() -> list[Row]:
    """SciPy's linprog: HiGHS as it comes, and its interior point, which is faster here."""
    cmdp = dense(2)
    program = occupancy_program(cmdp)
    flow, limits = program.matrix[: -cmdp.m], program.matrix[-cmdp.m :]
    arguments: dict[str, Any] = {
        "A_eq": flow,
        "b_eq": program.lower[: -cmdp.m],
        "A_ub": -limits,
        "b_ub": -program.lower[-cmdp.m :],
    }
    ours, optimum = timed(ss.solve, cmdp, "columns", repeat=20)
    rows = []
    for method in ("highs", "highs-ipm"):
        theirs, answer = timed(linprog, -program.rewards, method=method, **arguments)
        rows.append(
            compared(
                "against linprog",
                f"optimum, S = 100, A = 5, H = 20, m = 2, dense; SciPy's linprog, `{method}`",
                (ours, optimum.value),
                (theirs, float(program.rewards @ np.asarray(answer.x))),
                times=50,
            )
        )
    return rows


def against_interior_point() -> list[Row]:
    """HiGHS' interior point with its crossover, which is a small part of it."""
    cmdp = sparse()
    ours, optimum = timed(ss.solve, cmdp, "columns", repeat=10)
    building, program = timed(occupancy_program, cmdp)
    seconds, (occupancy, _) = timed(_occupancy_program, cmdp, solver="ipm")
    value = float(program.rewards @ occupancy.ravel()[program.pairs])
    return [
        compared(
            "against interior point",
            "optimum, S = 716, A = 25, H = 20, m = 1, 85 successors; HiGHS' interior point",
            (ours, optimum.value),
            (seconds - building, value),
            times=100,
        )
    ]


def compared(
    name: str, what: str, ours: tuple[float, float], theirs: tuple[float, float], times: int
) -> Row:
    """Two (seconds, value) side by side; a ratio counts only if the values agree."""
    apart = abs(theirs[1] - ours[1])
    return Row(
        name,
        what,
        ours[0],
        "s",
        versus=theirs[0],
        target=f"{times} ×",
        reached=theirs[0] >= times * ours[0] and apart <= AGREE,
        note=f"values differ by {apart:.0e}",
    )


def more_constraints() -> list[Row]:
    rows = []
    for m in (1, 2, 5, 10):
        cmdp = dense(m)
        seconds, optimum = timed(ss.solve, cmdp, "columns", repeat=5)
        rows.append(
            Row(
                "constraints",
                f"optimum, S = 100, A = 5, H = 20, dense, m = {m}",
                seconds,
                "s",
                note=f"{columns(cmdp)} columns, certified gap {optimum.gap:.0e}",
            )
        )
    return rows


def columns(cmdp: ss.CMDP) -> int:
    """How many plans the search for the optimum prices."""

    def price(weights: Any) -> Column[Any]:
        plan, values = best_deterministic(cmdp.model, weights)
        return Column(values, plan)

    mixture = best_mixture(price, cmdp.model.limits)
    assert mixture is not None
    return len(mixture.columns)


def memory() -> list[Row]:
    cmdp = sparse()
    rows, rewards, constraints = cmdp.transitions[0], cmdp.rewards[0], cmdp.constraints[:, 0]
    tracemalloc.start()
    again = ss.CMDP(rows, rewards, constraints, cmdp.limits, horizon=cmdp.H)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    model = again.model
    held = sum(array.nbytes for array in (*model.P, *model[1:]))
    what = f"S = 716, A = 25, H = 20, {rows.nnz / 1e6:.2g} million transitions"
    return [
        Row("memory", f"{name}, {what}", size / 1e6, "MB", target="< 100 MB", reached=size < 100e6)
        for name, size in (("the model", held), ("peak while it is built", peak))
    ]


def evaluation() -> list[Row]:
    rows = []
    for cmdp, what in (
        (dense(1), "S = 100, A = 5, H = 20, m = 1, dense"),
        (sparse(), "S = 716, A = 25, H = 20, m = 1, 85 successors"),
    ):
        uniform = np.full((cmdp.H, cmdp.S, cmdp.A), 1.0 / cmdp.A)
        seconds, _ = timed(ss.evaluate, cmdp, uniform, repeat=10)
        rows.append(Row("evaluation", f"exact values of one policy, {what}", 1e3 * seconds, "ms"))
    return rows


BENCHMARKS = (
    Benchmark("against linprog", against_linprog),
    Benchmark("constraints", more_constraints),
    Benchmark("memory", memory),
    Benchmark("evaluation", evaluation),
    Benchmark("against interior point", against_interior_point),
)
