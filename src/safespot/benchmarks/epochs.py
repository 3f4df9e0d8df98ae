"""The study that fixes the defaults of `SpotEpochs`: its protocol, its candidates, and the tables of docs/epochs.md.

    python -m safespot.benchmarks.epochs [--seeds 3] [--only dosing] [--candidates]

Protocol of the tables. The constants were found in exploratory runs with seeds 0 to 3, on the problems of up to 100
states but for `random, 20 states`; the tables have seeds that no constant was chosen on.

- Problems: `PROBLEMS`, each with the number of episodes at which it is looked at. Limits, transitions, rewards and
  start are unknown. No totals are declared, also where falls are rare: their signals are drawn apart from the
  transitions, so that an episode may show two.
- Seeds: 100, 101, ...; the same for all learners. Figures are means over seeds, first certificates medians.
- What counts: the value of `proposal` (of the policy in play for learners without one) in parts of the optimum, as
  ``1 - (V* - V) / |V*|``; the strong violation per episode in parts of the horizon after the first 64 episodes, the
  largest over constraints, apart for trials (with retreats) and for exploring; the episode of the first certificate;
  certificates that are false; the regret of an episode in parts of V*, exploring included.
- One set of constants for all problems; whatever misses its figure stands in the table as it is.
- Candidates for exploring (`CANDIDATES`): imaginary visits alone; standard errors of a pair added to the reward, of
  several sizes, with and without a margin; half of each phase, and as much as is still to learn. Beside them
  `explore-then-plan`, `posterior-sampling`, `opt-cmdp-bonus`, and `spot` with the paper's constants and as
  docs/choosing.md advises.

Several seeds of all problems take some minutes; with the candidates, an hour.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from statistics import mean, median
from typing import Any, NamedTuple

import numpy as np

import safespot as ss
from safespot.learners import phases, spot_epochs
from safespot.learners.learner import Learner
from safespot.learners.spot_epochs import Certified, SpotEpochs

from .record import CHECKOUT, write_between

PAGE = CHECKOUT / "docs" / "epochs.md"
FIRST_SEED = 100

# name -> (problem, its options, episodes)
PROBLEMS: dict[str, tuple[str, dict[str, Any], int]] = {
    "dosing": ("dosing", {}, 6_000),
    "dosing, later": ("dosing", {}, 50_000),
    "inventory": ("inventory", {}, 6_000),
    "media": ("media", {}, 6_000),
    "triage": ("triage", {}, 6_000),
    "machine": ("machine", {}, 6_000),
    "queue": ("queue", {}, 6_000),
    "random": ("random", {}, 6_000),
    "random, 20 states": ("random", {"states": 20, "actions": 4, "horizon": 10}, 6_000),
    "random, m = 2": ("random", {"constraints": 2}, 6_000),
    "factored": ("factored", {}, 6_000),
    "river-swim": ("river-swim", {}, 10_000),
    "deep-sea 10": ("deep-sea", {}, 10_000),
    "deep-sea 20": ("deep-sea", {"size": 20}, 10_000),
    "maze 60": ("maze", {}, 10_000),
    "maze 200": ("maze", {"states": 200}, 10_000),
    "grid": ("grid", {}, 20_000),
    "frozen-lake": ("frozen-lake", {}, 20_000),
    "icu-sepsis, H = 20": ("icu-sepsis", {"horizon": 20}, 10_000),
}
SLOW = ("icu-sepsis, H = 20", "maze 200", "deep-sea 20", "dosing, later")
BESIDE = ("dosing", "inventory", "machine", "random", "river-swim", "deep-sea 10")

# name -> constants of `spot_epochs`
CANDIDATES: dict[str, dict[str, Any]] = {
    "imaginary visits alone, half of each phase": {
        "CURIOSITY": 1e-6,
        "CARE": 0.0,
        "EAGERNESS": 1e12,
    },
    "1 standard error, no margin, half": {"CURIOSITY": 1.0, "CARE": 0.0, "EAGERNESS": 1e12},
    "4 standard errors, no margin, half": {"CARE": 0.0, "EAGERNESS": 1e12},
    "4 standard errors, margin, half": {"EAGERNESS": 1e12},
    "2 standard errors": {"CURIOSITY": 2.0},
    "8 standard errors": {"CURIOSITY": 8.0},
    "margin of 2 standard errors": {"CARE": 2.0},
    "fewer imaginary visits, 0.01": {"OPTIMISM": 0.01},
}


class Figures(NamedTuple):
    """What counts of one run."""

    value: float
    trying: float
    exploring: float
    first: float  # inf: none
    certificates: int
    false: int
    regret: float
    seconds: float


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
    proposal, issued = learner.policy, tuple[Certified, ...]()
    if isinstance(learner, SpotEpochs):
        proposal, issued = learner.proposal, learner.certificates
    lost = run.optimum - ss.evaluate(cmdp, proposal).value
    false = sum(
        bool((toward * (ss.evaluate(cmdp, each.policy).constraints - cmdp.limits) < -1e-9).any())
        for each in issued
    )
    assert run.regret is not None
    return Figures(
        value=1.0 - lost / abs(run.optimum),
        trying=_mean(short[late & ~exploring]),
        exploring=_mean(short[exploring]),
        first=float(issued[0].episode) if issued else 1e12,
        certificates=len(issued),
        false=false,
        regret=float(run.regret[-1]) / episodes / abs(run.optimum),
        seconds=run.seconds,
    )


def _note_parts(learner: SpotEpochs, parts: list[tuple[int, int]]) -> None:
    """Write down when which part of a phase begins."""
    settle = learner.settle

    def noting() -> None:
        settle()
        parts.append((int(learner.state.finished[0]), int(learner.state.clock[phases.PART])))

    learner.settle = noting  # type: ignore[method-assign]


def _mean(values: Any) -> float:
    return float(values.mean()) if len(values) else 0.0


def others(problem: ss.Problem, episodes: int) -> dict[str, Callable[[], Learner]]:
    """The learners beside `SpotEpochs`, all with learned limits."""
    rho, f = ss.slater(problem.cmdp).rho, problem.interface
    make: Callable[..., Learner] = ss.learners.make
    return {
        "explore-then-plan": lambda: make("explore-then-plan", f, episodes=episodes),
        "posterior-sampling": lambda: make("posterior-sampling", f, episodes=episodes),
        "opt-cmdp-bonus": lambda: make("opt-cmdp-bonus", f, episodes=episodes),
        "opt-cmdp-bonus, scale 0.01": lambda: make(
            "opt-cmdp-bonus", f, episodes=episodes, bonus_scale=0.01, estimator="pooled"
        ),
        "spot, the paper's constants": lambda: make("spot", f, episodes=episodes, rho=rho),
        "spot, as advised": lambda: make(
            "spot", f, episodes=episodes, rho=rho, estimator="pooled", bonus_scale=0.01
        ),
    }


def row(name: str, episodes: int, runs: list[Figures]) -> str:
    """A line of the table."""
    first = median(each.first for each in runs)
    return (
        f"| {name} | {episodes:,} | {mean(r.value for r in runs):.1%} | {mean(r.trying for r in runs):.5f} / "
        f"{mean(r.exploring for r in runs):.5f} | {'none' if math.isinf(first) else f'{first:,.0f}'} | "
        f"{sum(r.false for r in runs)} of {sum(r.certificates for r in runs)} | {mean(r.regret for r in runs):.1%} |"
    )


HEAD = (
    "| | episodes | value of the proposal | strong violation in H, trying / exploring | first certificate | false | "
    "regret |\n|---|---:|---:|---:|---:|---:|---:|"
)


@contextmanager
def constants(changes: Mapping[str, Any]) -> Iterator[None]:
    """Other constants for a while."""
    before = {name: getattr(spot_epochs, name) for name in changes}
    try:
        for name, value in changes.items():
            setattr(spot_epochs, name, value)
        yield
    finally:
        for name, value in before.items():
            setattr(spot_epochs, name, value)


def defaults(names: list[str], seeds: int) -> Iterator[str]:
    """The defaults on every problem."""
    yield HEAD
    for name in names:
        kind, options, episodes = PROBLEMS[name]
        problem = ss.problems.make(kind, **options)
        runs = [
            measure(problem, SpotEpochs(**problem.interface), episodes, seed)
            for seed in range(FIRST_SEED, FIRST_SEED + seeds)
        ]
        yield row(f"`{name}`", episodes, runs)


def beside(names: list[str], seeds: int) -> Iterator[str]:
    """The other learners on the same problems."""
    yield HEAD
    for name in names:
        kind, options, episodes = PROBLEMS[name]
        problem = ss.problems.make(kind, **options)
        for learner, build in others(problem, episodes).items():
            runs = [
                measure(problem, build(), episodes, seed)
                for seed in range(FIRST_SEED, FIRST_SEED + seeds)
            ]
            yield row(f"`{name}`: {learner}", episodes, runs)


def candidates(names: list[str], seeds: int) -> Iterator[str]:
    """Other constants: means over all problems, and the worst value."""
    yield "| | value, mean | the worst | strong violation in H, trying / exploring | no certificate | regret |"
    yield "|---|---:|---:|---:|---:|---:|"
    for title, changes in {"the defaults": {}, **CANDIDATES}.items():
        found: dict[str, list[Figures]] = {}
        with constants(changes):
            for name in names:
                kind, options, episodes = PROBLEMS[name]
                problem = ss.problems.make(kind, **options)
                found[name] = [
                    measure(problem, SpotEpochs(**problem.interface), episodes, seed)
                    for seed in range(FIRST_SEED, FIRST_SEED + seeds)
                ]
        runs = [each for some in found.values() for each in some]
        worst = min(found, key=lambda name: mean(r.value for r in found[name]))
        yield (
            f"| {title} | {mean(r.value for r in runs):.1%} | {mean(r.value for r in found[worst]):.1%} (`{worst}`) | "
            f"{mean(r.trying for r in runs):.5f} / {mean(r.exploring for r in runs):.5f} | "
            f"{sum(math.isinf(r.first) for r in runs)} of {len(runs)} | {mean(r.regret for r in runs):.1%} |"
        )


def main() -> None:
    """Run what was asked for, and write."""
    parser = argparse.ArgumentParser(
        prog="python -m safespot.benchmarks.epochs", description=__doc__
    )
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--only", action="append", choices=list(PROBLEMS))
    parser.add_argument("--table", action="append", choices=["defaults", "beside", "candidates"])
    asked = parser.parse_args()
    names = asked.only or list(PROBLEMS)
    quick = [name for name in names if name not in SLOW]
    tables = {
        "defaults": (defaults, names),
        "beside": (beside, [name for name in names if name in BESIDE]),
        "candidates": (candidates, quick),
    }
    for table in asked.table or tables:
        make, chosen = tables[table]
        lines = []
        for line in make(chosen, asked.seeds):
            print(line, flush=True)
            lines.append(line)
        if asked.only is None:
            write_between(PAGE, f"epochs-{table}", "\n".join(lines))


if __name__ == "__main__":
    main()
