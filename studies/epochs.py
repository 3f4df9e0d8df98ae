"""The study that fixes the defaults of `SpotEpochs`: its protocol, its candidates, and the tables of results/epochs.md.

    python -m studies.epochs [--table defaults] [--only dosing] [--seeds 3] [--store FILE [--stored]]

Protocol, written before the runs.

- Constants (`epoch_options.Recipe`) are chosen on `TUNED` alone: the largest mean value of proposals on seeds 0 to 9,
  among those that leave no run without a certificate and keep to the violations asked for; what is within half a
  percent there is decided on seeds 10 to 29. The tables have seeds 100 on, and all of `PROBLEMS`, so that most of them
  were never tuned on. One set of constants for all; whatever misses its figure stands in the table as it is.
- Limits, transitions, rewards and start are unknown. `grid` and `frozen-lake` declare that an episode has one fall at
  most (``constraint_totals=(0, 1)``), which is true there; nothing else is declared.
- Seeds: 10, the same for all learners. Means over seeds, medians of certificates.
- What counts: the value of `proposal` (of the policy in play for learners without one) in parts of the optimum, as
  ``1 - (V* - V) / |V*|``; the same of `certified`; the strong violation per episode in parts of the horizon after the
  first 64 episodes, the largest over constraints, apart for trials (with retreats) and for exploring; the episode of
  the first certificate; certificates that are false; the regret of an episode in parts of V*, exploring included.
- `Clinic`: patients by differential equations, seen through the bins of `dosing`. Nobody knows its optimum or the exact
  value of a policy, so health and doses of proposals and certified policies are means over `PATIENTS` simulated
  patients; a certificate counts as false where doses exceed the limit by more than three standard errors.
- Beside it, the same seeds: `opt-cmdp-bonus`, `opt-pess-lp` and `dope` (both with the safest policy as baseline), and
  `spot` with the paper's constants and as docs/choosing.md advises; all with learned limits, all but `spot` with shared
  counts.
- Candidates for exploring (`CANDIDATES`), seeds 0 to 9 of `TUNED`: imaginary visits alone, a 1/sqrt(n) bonus, a bonus
  by the variance of values, posterior sampling, standard errors of several sizes; as yardsticks `explore-then-plan` and
  `regularized-primal-dual` (UOpt-RPGPD).
- `--table coverage` counts runs with a false certificate at delta = 0.2: 300 seeds with the defaults, and 500 runs that
  are built to tempt (`tempting`): every policy is broken, by less than two radii of a trial. A count without power
  shows nothing, so the same 500 runs are repeated with bounds whose radius is a third (`Shrunk`): they must exceed what
  delta allows, or the count is void.

A run is stored under its learner, problem and seed, and not repeated; `--stored` runs nothing, and makes the tables of
what is there.
"""

from __future__ import annotations

import argparse
import functools
import math
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import mean, median
from typing import Any

import numpy as np

import safespot as ss
from safespot.learners.epoch_options import Recipe
from safespot.learners.exploring import Exploration
from safespot.learners.learner import Learner
from safespot.learners.phases import PhaseState
from safespot.learners.spot_epochs import SpotEpochs
from safespot.planning.counted import Counted
from safespot.planning.errors import standard_errors, with_bonus
from safespot.planning.process import best_plan

from .epoch_proofs import clinic, coverage
from .epoch_runs import PROBLEMS, Figures, Results, make
from .record import RESULTS, write_between

PAGE = RESULTS / "epochs.md"
FIRST_SEED = 100
TUNED = ("dosing", "machine", "random, m = 2", "river-swim", "grid")
BESIDE = ("dosing", "inventory", "machine", "random", "river-swim", "deep-sea 10")


class CountBonus(SpotEpochs):
    """A bonus of 0.05 H / sqrt(n) in reward, no margin, half of each phase."""

    def _exploration(self, state: PhaseState) -> Exploration:
        model = self._optimistic()
        bonus = 0.05 * self.interface.H / np.sqrt(np.maximum(model.pooled.n, 1.0))
        return _paid(self, model, bonus)


class VarianceBonus(SpotEpochs):
    """sqrt(2 Var(V_r) / n) + H / (3 n) in reward, as Bernstein's inequality has it; no margin, half of each phase."""

    def _exploration(self, state: PhaseState) -> Exploration:
        model = self._optimistic()
        unpriced = np.zeros(self.interface.m)
        model = with_bonus(model, self.models.known, state.pi, unpriced, math.sqrt(2.0))
        return _paid(self, model, self.interface.H / (3.0 * np.maximum(model.pooled.n, 1.0)))


class OwnShare(SpotEpochs):
    """The share of exploring is twice the part of an exploring plan's reward that it owes to optimism."""

    def _exploration(self, state: PhaseState) -> Exploration:
        plan, _ = super()._exploration(state)
        played = standard_errors(
            self._optimistic(), self.models.known, plan.policy, int(state.finished[0])
        )
        value = float(played[0][0])
        owed = (float(plan.values[0]) - value) / max(value, 1e-9)
        return Exploration(plan, min(self.recipe.exploring, 2.0 * owed))


def _paid(learner: SpotEpochs, model: Counted, bonus: Any) -> Exploration:
    """The best plan with a bonus in reward."""
    payoffs = model.process.payoffs.copy()
    payoffs[0] += bonus
    plan = best_plan(model.process._replace(payoffs=payoffs), learner.limits)
    return Exploration(plan, learner.recipe.exploring)


# What is tried instead: constants, or a way to explore.
CANDIDATES: dict[str, type[SpotEpochs] | Recipe | str] = {
    "the defaults": Recipe(),
    "imaginary visits alone, half of each phase": Recipe(curiosity=1e-6, care=0.0, eagerness=1e12),
    "0.05 H / sqrt(n), half of each phase": CountBonus,
    "variance of values, half of each phase": VarianceBonus,
    "posterior sampling": ss.learners.PosteriorSampling,
    "4 standard errors, no margin, half of each phase": Recipe(care=0.0, eagerness=1e12),
    "2 standard errors": Recipe(curiosity=2.0),
    "3 standard errors": Recipe(curiosity=3.0),
    "8 standard errors": Recipe(curiosity=8.0),
    "margin of 2 standard errors": Recipe(care=2.0),
    "fewer imaginary visits, 0.01": Recipe(optimism=0.01),
    "half of each phase": Recipe(eagerness=1e12),
    "a share by the exploring plan's own value": OwnShare,
    "half as much exploring": Recipe(eagerness=0.25),
    "twice as much exploring": Recipe(eagerness=1.0),
    "yardstick: explore-then-plan": ss.learners.ExploreThenPlan,
    "yardstick: UOpt-RPGPD": "regularized-primal-dual",
}


def others(problem: ss.Problem, episodes: int) -> dict[str, Callable[[], Learner]]:
    """The learners beside `SpotEpochs`, all with learned limits."""
    safest, f = ss.slater(problem.cmdp), problem.interface
    make = functools.partial(ss.learners.make, episodes=episodes)
    scaled: dict[str, Any] = {"bonus_scale": 0.01, "estimator": "total"}
    lean: dict[str, Any] = {"baseline": safest.policy, "slack": safest.margin, **scaled}
    return {
        "spot, the paper's constants": lambda: make("spot", f, rho=safest.rho),
        "spot, as advised": lambda: make("spot", f, rho=safest.rho, **scaled),
        "opt-cmdp-bonus": lambda: make("opt-cmdp-bonus", f),
        "opt-cmdp-bonus, scale 0.01": lambda: make("opt-cmdp-bonus", f, **scaled),
        "opt-pess-lp, scale 0.01": lambda: make("opt-pess-lp", f, **lean),
        "dope, scale 0.01": lambda: make("dope", f, **lean),
    }


def row(name: str, episodes: int, runs: list[Figures]) -> str:
    """A line of the table."""
    first = median(each.first for each in runs)
    certified = [r.certified for r in runs if not math.isnan(r.certified)]
    return (
        f"| {name} | {episodes:,} | {len(runs)} | {mean(r.value for r in runs):.1%} | "
        f"{f'{mean(certified):.1%}' if certified else ''} | {mean(r.trying for r in runs):.5f} / "
        f"{mean(r.exploring for r in runs):.5f} | {'none' if math.isinf(first) else f'{first:,.0f}'} | "
        f"{sum(r.false for r in runs)} of {sum(r.certificates for r in runs)} | {mean(r.regret for r in runs):.1%} |"
    )


HEAD = (
    "| | episodes | seeds | value of the proposal | of the best certified | strong violation in H, trying / exploring "
    "| first certificate | false | regret |\n|---|---:|---:|---:|---:|---:|---:|---:|---:|"
)


def builder(made: type[SpotEpochs] | Recipe | str, name: str) -> Callable[[ss.Problem], Learner]:
    """How a candidate is made for a problem."""
    case = PROBLEMS[name]
    if isinstance(made, str):
        return lambda p: ss.learners.make(
            made, p.interface, episodes=case.episodes, rho=ss.slater(p.cmdp).rho
        )
    kind = type("Candidate", (SpotEpochs,), {"recipe": made}) if isinstance(made, Recipe) else made
    return lambda p: kind(**p.interface, **case.told)


def defaults(results: Results, names: list[str], seeds: range) -> Iterator[str]:
    """The defaults on every problem."""
    yield HEAD
    for name in names:
        if runs := results.runs("defaults", name, builder(Recipe(), name), seeds):
            yield row(f"`{name}`", PROBLEMS[name].episodes, runs)


def beside(results: Results, names: list[str], seeds: range) -> Iterator[str]:
    """The other learners on the same problems."""
    yield HEAD
    for name in names:
        if name in BESIDE:
            for learner, build in others(make(PROBLEMS[name]), PROBLEMS[name].episodes).items():
                if runs := results.runs(learner, name, lambda _: build(), seeds):  # noqa: B023
                    yield row(f"`{name}`: {learner}", PROBLEMS[name].episodes, runs)


def candidates(results: Results, names: list[str], seeds: range) -> Iterator[str]:
    """Other ways to explore: means over the problems that are tuned on, and the worst value."""
    yield "| | runs | value, mean | the worst | strong violation in H, trying / exploring | no certificate | regret |"
    yield "|---|---:|---:|---:|---:|---:|---:|"
    for title, made in CANDIDATES.items():
        found = {
            name: results.runs(title, name, builder(made, name), range(len(seeds)))
            for name in TUNED
        }
        runs = [each for some in found.values() for each in some]
        if not all(found.values()):
            continue
        worst = min(found, key=lambda name: mean(r.value for r in found[name]))
        yield (
            f"| {title} | {len(runs)} | {mean(r.value for r in runs):.1%} | "
            f"{mean(r.value for r in found[worst]):.1%} (`{worst}`) | "
            f"{mean(r.trying for r in runs):.5f} / {mean(r.exploring for r in runs):.5f} | "
            f"{sum(math.isinf(r.first) for r in runs)} of {len(runs)} | {mean(r.regret for r in runs):.1%} |"
        )


TABLES = {
    "defaults": defaults, "clinic": clinic, "coverage": coverage, "beside": beside, "candidates": candidates
}  # fmt: skip


def main() -> None:
    """Run what was asked for, and write."""
    parser = argparse.ArgumentParser(prog="python -m studies.epochs", description=__doc__)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--first-seed", type=int, default=FIRST_SEED)
    parser.add_argument("--only", action="append", choices=list(PROBLEMS))
    parser.add_argument("--table", action="append", choices=list(TABLES))
    parser.add_argument("--store", type=Path, help="where measured runs are kept, to go on later")
    parser.add_argument("--stored", action="store_true", help="run nothing: tables of what is kept")
    asked = parser.parse_args()
    results = Results(asked.store, stored=asked.stored)
    seeds = range(asked.first_seed, asked.first_seed + asked.seeds)
    for table in asked.table or TABLES:
        lines = []
        for line in TABLES[table](results, asked.only or list(PROBLEMS), seeds):
            print(line, flush=True)
            lines.append(line)
        if asked.only is None and asked.first_seed == FIRST_SEED:
            write_between(PAGE, f"epochs-{table}", "\n".join(lines))


if __name__ == "__main__":
    main()
