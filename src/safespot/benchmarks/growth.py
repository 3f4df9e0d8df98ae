"""How the time per episode grows with the problem."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median
from typing import NamedTuple

import numpy as np
from scipy import sparse

import safespot as ss
from safespot.problems import make

from .record import Benchmark, Row
from .training import MICRO, Training, in_rounds, per_episode

LITTLE = 1e-6  # a bonus scale with which every state that was met is below its cap: the most work there is


class Size(NamedTuple):
    """A random problem to grow."""

    states: int = 40
    actions: int = 4
    horizon: int = 10
    constraints: int = 1
    successors: int = 5


SIGNS = {"states": "S", "actions": "A", "horizon": "H", "constraints": "m"}
# From twenty steps on: the first has one state and the last nothing to back up, so an episode of ten costs less than
# half of one of twenty. With few states, so that what is known of all steps stays in the cache of a core.
HORIZONS, IN_CACHE = (20, 40, 80, 160), 10
SWEEPS = {  # of problems whose transitions are counted in a block, and in lists (the layout of large ones)
    False: {
        "states": (20, 40, 80, 160),
        "actions": (2, 4, 8, 16),
        "horizon": HORIZONS,
        "constraints": (1, 2, 4, 8),
        "successors": (2, 5, 10, 20),
    },
    True: {
        "states": (40, 80, 160, 320),
        "actions": (2, 4, 8, 16),
        "horizon": HORIZONS,
        "constraints": (1, 2, 4, 8),
        "successors": (5, 10, 20, 40),
    },
}


def growth() -> list[Row]:
    rows = []
    for lists, sweeps in SWEEPS.items():
        for name, sizes in sweeps.items():
            base = Size(states=80) if lists else Size()
            if name == "horizon":
                base = base._replace(states=IN_CACHE)
            learners = [at_work(base._replace(**{name: size}), lists) for size in sizes]
            at = ", ".join(
                f"{SIGNS.get(other, other)} = {value}"
                for other, value in base._asdict().items()
                if other != name
            )
            rows.append(
                exponent(
                    "growth",
                    f"{SIGNS.get(name, name)} from {sizes[0]} to {sizes[-1]} "
                    f"(counts in {'lists' if lists else 'a block'}; {at})",
                    sizes,
                    in_rounds(learners),
                    limit=2.0 if name == "states" and not lists else 1.0,
                )
            )
    learners = [at_work(Size(horizon=H), lists=False) for H in HORIZONS]
    beyond = (
        "H from 20 to 160, where counts outgrow the cache of a core (a block of 1 to 8 MB; S = 40)"
    )
    rows.append(exponent("growth", beyond, HORIZONS, in_rounds(learners)))
    return rows


def at_work(size: Size, lists: bool) -> Training:
    """A learner that has visited each pair several times."""
    training = Training(
        make("random", **size._asdict()), bonus_scale=LITTLE, track="grid", rho=2.0, lists=lists
    )
    training.run(8 * size.states * size.actions)
    return training


def exponent(
    name: str,
    what: str,
    sizes: Sequence[float],
    rounds: Sequence[Sequence[float]],
    limit: float | None = None,
) -> Row:
    """The slope of log time over log size by least squares, the median over rounds that each time every size."""
    slope = median(float(np.polyfit(np.log(sizes), np.log(times), 1)[0]) for times in rounds)
    return Row(
        name,
        f"growth of an episode with {what}",
        slope,
        "(exponent)",
        target="" if limit is None else f"≤ {limit:g}",
        reached=None if limit is None else slope <= limit + 0.1,
        note=", ".join(f"{MICRO * median(times):.3g}" for times in zip(*rounds, strict=True))
        + " µs",
    )


def observed() -> list[Row]:
    """One learner, timed as it observes more and more transitions."""
    problem = make("random", states=100, actions=4, horizon=10, successors=50)
    training = Training(problem, bonus_scale=LITTLE, track="grid", rho=2.0, lists=True)
    sizes, times = [], []
    for episodes in (2_000, 4_000, 8_000, 16_000):
        training.run(episodes - training.learner.episode + 1)
        sizes.append(training.transitions())
        times.append(per_episode(training))
    counts = ", ".join(f"{size / 1e3:.0f}" for size in sizes)
    return [
        exponent(
            "observed",
            f"the transitions observed: {counts} thousand (S = 100, A = 4, H = 10, 50 successors)",
            sizes,
            [times],
            limit=1.0,
        )
    ]


def unvisited() -> list[Row]:
    """Fifty states can be reached, and more and more cannot."""
    sizes = (100, 300, 1000, 3000)
    learners = []
    for states in sizes:
        training = Training(
            with_unreachable(states), bonus_scale=LITTLE, track="grid", rho=2.0, lists=True
        )
        training.run(4_000)
        learners.append(training)
    return [
        exponent(
            "unvisited",
            "S from 100 to 3000, where 50 states can be reached (A = 4, H = 10, 5 successors)",
            sizes,
            in_rounds(learners),
            limit=0.0,
        )
    ]


def with_unreachable(states: int) -> ss.Problem:
    """A random CMDP of 50 states, and others that lead only to themselves."""
    core = make("random", states=50, actions=4, horizon=10, successors=5).cmdp
    rest, A = states - core.S, core.A
    block = sparse.csr_array(core.transitions[0].reshape(core.S * A, core.S))
    alone = sparse.csr_array(np.repeat(np.eye(rest), A, axis=0))
    return ss.Problem(
        ss.CMDP(
            sparse.csr_array(sparse.block_diag((block, alone))),
            np.r_[core.rewards[0], np.full((rest, A), 0.5)],
            np.concatenate([core.constraints[:, 0], np.full((core.m, rest, A), 0.5)], axis=1),
            core.limits,
            horizon=core.H,
        )
    )


BENCHMARKS = (
    Benchmark("growth", growth),
    Benchmark("observed", observed),
    Benchmark("unvisited", unvisited),
)
