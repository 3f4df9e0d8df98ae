"""Runs of the study of `SpotEpochs`: its problems, what is measured, and where it is kept.

`epochs` has the protocol.
"""

from __future__ import annotations

import functools
import json
import math
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import safespot as ss
from safespot.learners import phases
from safespot.learners.epoch_trials import Certified
from safespot.learners.learner import Learner
from safespot.learners.spot_epochs import SpotEpochs

FALLS: dict[str, Any] = {"constraint_totals": (0, 1)}


class Case(NamedTuple):
    """A problem of the study: its name and options, how long it is learned, and what learners are told beside."""

    problem: str
    options: dict[str, Any]
    episodes: int
    told: dict[str, Any] = {}  # noqa: RUF012 (a NamedTuple's defaults are not shared by mistake: nobody writes to it)


PROBLEMS: dict[str, Case] = {
    "dosing": Case("dosing", {}, 6_000),
    "dosing, later": Case("dosing", {}, 50_000),
    "inventory": Case("inventory", {}, 6_000),
    "media": Case("media", {}, 6_000),
    "triage": Case("triage", {}, 6_000),
    "machine": Case("machine", {}, 6_000),
    "queue": Case("queue", {}, 6_000),
    "random": Case("random", {}, 6_000),
    "random, 20 states": Case("random", {"states": 20, "actions": 4, "horizon": 10}, 6_000),
    "random, m = 2": Case("random", {"constraints": 2}, 6_000),
    "random, steps differ": Case("random by step", {}, 6_000),
    "factored": Case("factored", {}, 6_000),
    "river-swim": Case("river-swim", {}, 10_000),
    "deep-sea 10": Case("deep-sea", {}, 10_000),
    "deep-sea 20": Case("deep-sea", {"size": 20}, 10_000),
    "maze 60": Case("maze", {}, 10_000),
    "maze 200": Case("maze", {"states": 200}, 10_000),
    "grid": Case("grid", {}, 20_000, FALLS),
    "frozen-lake": Case("frozen-lake", {}, 20_000, FALLS),
    "icu-sepsis, H = 20": Case("icu-sepsis", {"horizon": 20}, 10_000),
}


class Figures(NamedTuple):
    """What counts of one run."""

    value: float
    certified: float  # nan: none
    trying: float
    exploring: float
    first: float  # inf: none
    certificates: int
    false: int
    regret: float
    seconds: float


def make(case: Case) -> ss.Problem:
    """The problem of a case."""
    if case.problem == "random by step":
        return random_by_step()
    return ss.problems.make(case.problem, **case.options)


def random_by_step(states: int = 6, actions: int = 3, horizon: int = 5) -> ss.Problem:
    """Every step is that of another random problem; the safest policy leaves a tenth of the horizon."""
    drawn = [
        ss.problems.make("random", states=states, actions=actions, horizon=1, seed=seed).cmdp
        for seed in range(horizon)
    ]
    P = np.stack([c.model.P.dense[0].reshape(states, actions, states) for c in drawn])
    rewards = np.concatenate([c.rewards for c in drawn])
    constraints = np.concatenate([c.constraints for c in drawn], axis=1)
    free = ss.CMDP(P, rewards, constraints, [0.0])
    return ss.Problem(
        ss.CMDP(P, rewards, constraints, [float(ss.slater(free).margin) - horizon / 10])
    )


def measure(problem: ss.Problem, learner: Learner, episodes: int, seed: int) -> Figures:
    """One run, by the truth."""
    cmdp, parts = problem.cmdp, [(0, phases.FIRST)]
    if isinstance(learner, SpotEpochs):
        _note_parts(learner, parts)
    run = ss.learn(problem, learner, episodes, seed=seed, record="all")
    toward = np.where(np.array(cmdp.senses) == "<=", -1.0, 1.0) / np.abs(
        cmdp.units.constraints.scale
    )
    short = ((cmdp.limits - run.constraint_values) * toward).clip(0.0).max(axis=1) / cmdp.H
    part = np.zeros(episodes, int)
    for begins, kind in parts:
        part[begins:] = kind
    late = np.arange(episodes) >= 64
    exploring = late & (part == phases.EXPLORING)
    proposal, issued, certified = learner.policy, tuple[Certified, ...](), math.nan
    if isinstance(learner, SpotEpochs):
        proposal, issued = learner.proposal, learner.certificates
        if learner.certified is not None:
            certified = _share(cmdp, learner.certified.policy, run.optimum)
    false = sum(
        bool((toward * (ss.evaluate(cmdp, each.policy).constraints - cmdp.limits) < -1e-9).any())
        for each in issued
    )
    assert run.regret is not None
    return Figures(
        value=_share(cmdp, proposal, run.optimum),
        certified=certified,
        trying=_mean(short[late & ~exploring]),
        exploring=_mean(short[exploring]),
        first=float(issued[0].episode) if issued else math.inf,
        certificates=len(issued),
        false=false,
        regret=float(run.regret[-1]) / episodes / abs(run.optimum),
        seconds=run.seconds,
    )


def _share(cmdp: ss.CMDP, policy: Any, optimum: float) -> float:
    """The value of a policy in parts of the optimum."""
    return 1.0 - (optimum - ss.evaluate(cmdp, policy).value) / abs(optimum)


def _note_parts(learner: SpotEpochs, parts: list[tuple[int, int]]) -> None:
    """Write down when which part of a phase begins."""
    settle = learner.settle

    def noting() -> None:
        settle()
        parts.append((int(learner.state.finished[0]), int(learner.state.clock[phases.PART])))

    learner.settle = noting  # type: ignore[method-assign]


def _mean(values: Any) -> float:
    return float(values.mean()) if len(values) else 0.0


class Results:
    """Runs that were measured, also by an earlier call, in a file of one JSON document a line."""

    def __init__(self, path: Path | None, *, stored: bool = False) -> None:
        self.path, self.stored, self.known = path, stored, dict[str, dict[str, Any]]()
        if path is not None and path.exists():
            for line in path.read_text().splitlines():
                found = json.loads(line)
                self.known[found["run"]] = found["figures"]

    def get(self, run: str, measured: Callable[[], dict[str, Any]]) -> dict[str, Any] | None:
        """The figures of one run, measured where they are not known; None: it is not to be measured."""
        if run not in self.known and not self.stored:
            self.known[run] = measured()
            if self.path is not None:
                with self.path.open("a") as out:
                    out.write(json.dumps({"run": run, "figures": self.known[run]}) + "\n")
        return self.known.get(run)

    def runs(
        self, learner: str, name: str, build: Callable[[ss.Problem], Learner], seeds: Iterable[int]
    ) -> list[Figures]:
        """The figures of a learner on a problem."""
        case = PROBLEMS[name]

        def measured(seed: int) -> dict[str, Any]:
            problem = make(case)
            return measure(problem, build(problem), case.episodes, seed)._asdict()

        found = [
            self.get(f"{learner} | {name} | {seed}", functools.partial(measured, seed))
            for seed in seeds
        ]
        return [Figures(**each) for each in found if each is not None]
