"""What an episode costs, and what a process waits for before its first."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from statistics import median
from typing import Any

import safespot as ss

from ..record import CHECKOUT, Benchmark, Row

MICRO, ROUNDS = 1e6, 5
SIZES: dict[str, dict[str, Any]] = {
    "S = 3, A = 2, H = 3": {"states": 3, "actions": 2, "horizon": 3},
    "S = 30, A = 3, H = 10": {"states": 30, "actions": 3, "horizon": 10},
    "S = 20, A = 5, H = 10, m = 2": {"states": 20, "actions": 5, "horizon": 10, "constraints": 2},
}
LARGE = "S = 716, A = 25, H = 20"


def seconds(work: Callable[[], object]) -> float:
    """Return the processor time of a call."""
    began = time.process_time()
    work()
    return time.process_time() - began


def per_episode(problem: ss.Problem, episodes: int, track: str = "every") -> float:
    """Return the processor time of one of `Spot`'s episodes: half of them apart from all, the median of rounds.

    What a run needs once (its optimum, the first plans) is in both terms and cancels.
    """

    def run(n: int) -> float:
        learner = ss.Spot(**problem.interface, episodes=10**6, rho=2.0, bonus_scale=0.01)
        return seconds(lambda: ss.learn(problem, learner, n, record=10**6, track=track))

    run(10)  # not timed: compiles
    return median((run(2 * episodes) - run(episodes)) / episodes for _ in range(ROUNDS))


def spot() -> Sequence[Row]:
    """Episodes of the paper's learner, exact values of every policy included."""
    rows = [
        Row(
            "spot",
            f"an episode of Spot, {name}",
            MICRO * per_episode(ss.problems.make("random", **options), 20_000),
            "µs",
        )
        for name, options in SIZES.items()
    ]
    large = ss.problems.make("random", states=716, actions=25, horizon=20, successors=85)
    cost = per_episode(large, 200, track="grid")
    return [*rows, Row("spot", f"an episode of Spot, {LARGE}, values on a grid", 1e3 * cost, "ms")]


def epochs() -> Sequence[Row]:
    """10^5 episodes of SPOT in epochs, plans included."""
    rows = []
    for name in ("dosing", "icu-sepsis"):
        problem = ss.problems.make(name)
        ss.learn(problem, ss.SpotEpochs(**problem.interface), 100)  # not timed: compiles
        learner = ss.SpotEpochs(**problem.interface)
        took = seconds(partial(ss.learn, problem, learner, 10**5, track="grid"))
        rows.append(Row("epochs", f"100,000 episodes of SpotEpochs, `{name}`", took, "s"))
    return rows


def observe() -> Sequence[Row]:
    """One episode at a time, as a service or a loop of one's own feeds them."""
    problem = ss.problems.make("dosing")
    streams, policy = ss.streams(0), ss.slater(problem.cmdp).policy
    played = [ss.play(problem, policy, streams, t) for t in range(1, 2001)]
    learner, meter = ss.SpotEpochs(**problem.interface), ss.SafetyMeter(problem.interface)
    rows = []
    for name, part in (("learner", learner), ("meter", meter)):
        part.observe(played[0])
        took = seconds(partial(observe_all, part.observe, played[1:]))
        rows.append(
            Row("observe", f"`{name}.observe`, an episode of `dosing`", MICRO * took / 1999, "µs")
        )
    return rows


def observe_all(observe: Callable[[ss.Episode], object], episodes: Sequence[ss.Episode]) -> None:
    """Feed the episodes one by one."""
    for episode in episodes:
        observe(episode)


IMPORT = "import safespot"
FIRST = """
import safespot as ss
problem = ss.problems.make("dosing")
learner = ss.SpotEpochs(**problem.interface)
ss.learn(problem, learner, 6_000)
"""


def startup() -> Sequence[Row]:
    """Wall-clock time of fresh processes, the median of five; a first one fills the caches."""
    rows = []
    for name, code in (
        ("a process that imports safespot", IMPORT),
        ("a process that learns 6,000 episodes of `dosing`", FIRST),
    ):
        times = []
        for _ in range(6):
            began = time.perf_counter()
            subprocess.run([sys.executable, "-c", code], cwd=CHECKOUT, check=True)
            times.append(time.perf_counter() - began)
        rows.append(Row("startup", name, median(times[1:]), "s"))
    return rows


BENCHMARKS = (
    Benchmark("spot", spot),
    Benchmark("epochs", epochs),
    Benchmark("observe", observe),
    Benchmark("startup", startup),
)
