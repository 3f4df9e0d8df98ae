"""What `SpotEpochs` proves, counted: runs with a false certificate, and patients whose truth nobody knows.

`epochs` has the protocol.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator
from statistics import mean, median
from typing import Any

import numpy as np

import safespot as ss
from safespot.evidence.trial import TrialRates
from safespot.gym.clinic import Clinic
from safespot.learners.spot_epochs import SpotEpochs
from safespot.problems.dosing import BLOCKS

from .clinic import clinic as patients
from .epoch_runs import PROBLEMS, Results, make


class Shrunk(SpotEpochs):
    """Wrong on purpose: the bounds of its trials have a third of their radius, which is a ninth of ln(1/share)."""

    def _trial_rates(self, k: int, length: int) -> TrialRates:
        rates = super()._trial_rates(k, length)
        return rates._replace(
            kept_level=rates.kept_level / 9.0, broken_level=rates.broken_level / 9.0
        )


def tempting(number: int) -> tuple[ss.Problem, dict[str, Any]]:
    """A problem in which every policy breaks a limit by less than two radii of a trial, and how it is learned.

    One state, two actions that differ in reward alone, so that any certificate is false. The room that is lacking is
    mostly so little that a trial of some hundred episodes cannot see it; half of the problems have a second limit,
    which is kept. xi = 1: margins are taken off.
    """
    lacking = (0.0005, 0.002, 0.005, 0.01, 0.03)[number % 5]
    rate, horizon, m = (0.5, 0.9, 0.1)[number % 3], (1, 2, 5)[number // 3 % 3], 1 + number % 2
    limits = [horizon * (rate + lacking), horizon * rate / 2.0]
    cmdp = ss.CMDP(
        np.ones((1, 2, 1)), [[0.3, 0.7]], np.full((m, 1, 2), rate), limits[:m], horizon=horizon
    )  # fmt: skip
    return ss.Problem(cmdp), {"stance": "optimistic"}


def coverage(results: Results, names: list[str], seeds: range) -> Iterator[str]:
    """Runs with a false certificate, at delta = 0.2."""
    yield "| | runs | with a certificate | certificates | runs with a false one | allowed |"
    yield "|---|---:|---:|---:|---:|---:|"
    for name in ("machine", "random", "random, m = 2"):

        def plain(_: int, name: str = name) -> tuple[ss.Problem, dict[str, Any]]:
            return make(PROBLEMS[name]), {}

        yield from counted(results, f"`{name}`, defaults", SpotEpochs, plain, 100, 2_000)
    for title, kind in (
        ("built to tempt", SpotEpochs),
        ("the same, a third of the radius", Shrunk),
    ):
        yield from counted(results, title, kind, tempting, 500, 1_000)


def counted(
    results: Results,
    title: str,
    kind: type[SpotEpochs],
    drawn: Callable[[int], tuple[ss.Problem, dict[str, Any]]],
    runs: int,
    episodes: int,
) -> Iterator[str]:
    """A line of the table: how many runs have a false certificate."""

    def judged(seed: int) -> dict[str, Any]:
        problem, options = drawn(seed)
        learner = kind(**problem.interface, delta=0.2, **options)
        ss.learn(problem, learner, episodes, seed=seed, track="grid")
        return {"issued": len(learner.certificates), "false": _any_false(problem, learner)}

    made = [
        results.get(f"coverage: {title} | {seed}", functools.partial(judged, seed))
        for seed in range(runs)
    ]
    known = [each for each in made if each is not None]
    if known:
        yield (
            f"| {title}, {episodes:,} episodes | {len(known)} | {sum(r['issued'] > 0 for r in known)} | "
            f"{sum(r['issued'] for r in known)} | {sum(r['false'] for r in known)} | {0.2 * len(known):.0f} |"
        )


def _any_false(problem: ss.Problem, learner: SpotEpochs) -> bool:
    cmdp = problem.cmdp
    toward = np.where(np.array(cmdp.senses) == "<=", -1.0, 1.0)
    return any(
        bool((toward * (ss.evaluate(cmdp, each.policy).constraints - cmdp.limits) < -1e-9).any())
        for each in learner.certificates
    )


def clinic(results: Results, names: list[str], seeds: range) -> Iterator[str]:
    """The defaults on patients; what a policy is worth is simulated."""
    found = [results.get(f"defaults | Clinic | {seed}", lambda: treat(seed)) for seed in seeds]  # noqa: B023
    runs = [each for each in found if each is not None]
    if not runs:
        return
    first = median(r["first"] for r in runs)
    proven = [r["certified"] for r in runs if r["certified"] is not None]
    yield "| | patients | seeds | proposal: health, doses | best certified: health, doses | first certificate | false |"
    yield "|---|---:|---:|---:|---:|---:|---:|"
    yield (
        f"| `Clinic` | {COURSES:,} | {len(runs)} | {_fared([r['proposal'] for r in runs])} | {_fared(proven)} | "
        f"{'none' if math.isinf(first) else f'{first:,.0f}'} | {sum(r['false'] for r in runs)} of {len(proven)} |"
    )


def _fared(policies: list[tuple[float, float, float]]) -> str:
    """Mean health and doses."""
    if not policies:
        return "none"
    return ", ".join(f"{mean(each[k] for each in policies):.2f}" for k in range(2))


COURSES, PATIENTS = 6_000, 4_000  # that a learner treats, and that show what a policy is worth


def treat(seed: int) -> dict[str, Any]:
    """One learner on patients."""
    box = patients("8 × 3")
    learner = SpotEpochs(**box.interface)
    ss.learn(box, learner, COURSES, seed=seed)
    best, limit = learner.certified, Clinic().share * BLOCKS
    proven = None if best is None else fare(best.policy, seed)
    return {
        "proposal": fare(learner.proposal, seed),
        "certified": proven,
        "false": proven is not None and proven[1] > limit + 3.0 * proven[2],
        "first": learner.certificates[0].episode if learner.certificates else math.inf,
    }


def fare(policy: Any, seed: int) -> tuple[float, float, float]:
    """Health and doses of patients under a policy, and the standard error of the doses."""
    box, rng = patients("8 × 3"), ss.streams(10_000 + seed).actions
    played = [
        box.play(policy, rng.random(BLOCKS), 10_000 + seed if t == 0 else None)
        for t in range(PATIENTS)
    ]
    doses = np.array([each.constraints.sum() for each in played])
    health = float(np.mean([each.rewards.sum() for each in played]))
    return health, float(doses.mean()), float(doses.std() / math.sqrt(PATIENTS))
