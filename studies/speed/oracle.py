"""The oracle: column generation beside the linear program over occupancy measures.

The other side pays for building its program, which is a small part of it.
"""

from __future__ import annotations

import tracemalloc

import numpy as np

import safespot as ss
from safespot.planning.columns import best_mixture
from safespot.planning.process import Pricing
from safespot.problems import make

from ..programs import program_optimum
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
    ours, optimum = timed(ss.solve, cmdp, repeat=20)
    rows = []
    for method in ("highs", "highs-ipm"):
        theirs, answer = timed(program_optimum, cmdp, method)
        assert answer is not None
        rows.append(
            compared(
                "against linprog",
                f"optimum, S = 100, A = 5, H = 20, m = 2, dense; SciPy's linprog, `{method}`",
                (ours, optimum.value),
                (theirs, answer.value),
                times=50,
            )
        )
    return rows


def large() -> list[Row]:
    """The size of sepsis care."""
    seconds, _ = timed(ss.solve, sparse(), repeat=10)
    what = "optimum, S = 716, A = 25, H = 20, m = 1, 85 successors"
    return [Row("large", what, seconds, "s", target="≤ 0.5 s", reached=seconds <= 0.5)]


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
        seconds, optimum = timed(ss.solve, cmdp, repeat=5)
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
    mixture = best_mixture(Pricing(cmdp.process), cmdp.model.limits)
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
    Benchmark("large", large),
)
