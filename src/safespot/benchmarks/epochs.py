"""The study that fixes the defaults of `SpotEpochs`: its protocol, its candidates, and the tables of docs/epochs.md.

    python -m safespot.benchmarks.epochs [--table defaults] [--only dosing] [--seeds 3] [--store FILE]

Protocol, written before the runs.

- Constants (`epoch_options.Recipe`) are chosen on seeds 0 to 9 of `TUNED` alone. The tables have seeds 100 on, and all
  of `PROBLEMS`, so that most of them were never tuned on. One set of constants for all; whatever misses its figure
  stands in the table as it is.
- Limits, transitions, rewards and start are unknown. `grid` and `frozen-lake` declare that an episode has one fall at
  most (``constraint_totals=(0, 1)``), which is true there; nothing else is declared.
- Seeds: 10, or 3 where a run is slow (`SLOW`); the same for all learners. Means over seeds, medians of certificates.
- What counts: the value of `proposal` (of the policy in play for learners without one) in parts of the optimum, as
  ``1 - (V* - V) / |V*|``; the same of `certified`; the strong violation per episode in parts of the horizon after the
  first 64 episodes, the largest over constraints, apart for trials (with retreats) and for exploring; the episode of
  the first certificate; certificates that are false; the regret of an episode in parts of V*, exploring included.
- Beside it, one seed: `explore-then-plan`, `posterior-sampling`, `opt-cmdp-bonus`, `opt-pess-lp` and `dope` (both with
  the safest policy as baseline), `regularized-primal-dual` (UOpt-RPGPD), `spot` with the paper's constants and as
  docs/choosing.md advises; all with learned limits.
- Candidates for exploring (`CANDIDATES`), three seeds of `TUNED`: imaginary visits alone, a 1/sqrt(n) bonus, a bonus by
  the variance of values, posterior sampling, standard errors of several sizes.

`--table coverage` counts false certificates: 300 seeds with the defaults at delta = 0.2, and 500 runs that are built to
tempt (`tempting`).
"""

from __future__ import annotations

import argparse
import functools
import json
import math
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import mean, median
from typing import Any, NamedTuple

import numpy as np

import safespot as ss
from safespot.learners import phases
from safespot.learners.epoch_options import Recipe
from safespot.learners.epoch_trials import Certified
from safespot.learners.exploring import Exploration
from safespot.learners.learner import Learner
from safespot.learners.phases import PhaseState
from safespot.learners.pooled_models import best_plan
from safespot.learners.spot_epochs import SpotEpochs

from .record import CHECKOUT, write_between

PAGE = CHECKOUT / "docs" / "epochs.md"
FIRST_SEED = 100
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
TUNED = ("dosing", "machine", "random, m = 2", "river-swim", "grid")
SLOW = ("icu-sepsis, H = 20", "maze 60", "maze 200", "deep-sea 20", "dosing, later")
BESIDE = ("dosing", "inventory", "machine", "random", "river-swim", "deep-sea 10")


class CountBonus(SpotEpochs):
    """A bonus of 0.05 H / sqrt(n) in reward, no margin, half of each phase."""

    def _exploration(self, state: PhaseState) -> Exploration:
        model = self._optimistic()
        bonus = 0.05 * self.interface.H / np.sqrt(np.maximum(model.pooled.n, 1.0))
        payoffs = model.payoffs.copy()
        payoffs[0] += bonus
        plan = best_plan(model._replace(payoffs=payoffs), self.limits)
        return Exploration(plan, self.recipe.exploring)


# What is tried instead: constants, or a way to explore.
CANDIDATES: dict[str, type[SpotEpochs] | Recipe] = {
    "the defaults": Recipe(),
    "imaginary visits alone, half of each phase": Recipe(curiosity=1e-6, care=0.0, eagerness=1e12),
    "0.05 H / sqrt(n), half of each phase": CountBonus,
    "posterior sampling": ss.PosteriorSampling,
    "4 standard errors, no margin, half of each phase": Recipe(care=0.0, eagerness=1e12),
    "2 standard errors": Recipe(curiosity=2.0),
    "8 standard errors": Recipe(curiosity=8.0),
    "margin of 2 standard errors": Recipe(care=2.0),
    "fewer imaginary visits, 0.01": Recipe(optimism=0.01),
    "half of each phase": Recipe(eagerness=1e12),
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

    def __init__(self, path: Path | None) -> None:
        self.path, self.known = path, dict[str, Figures]()
        if path is not None and path.exists():
            for line in path.read_text().splitlines():
                found = json.loads(line)
                self.known[found["run"]] = Figures(**found["figures"])

    def get(
        self, learner: str, name: str, build: Callable[[ss.Problem], Learner], seed: int
    ) -> Figures:
        """The figures of one run, measured where they are not known."""
        run, case = f"{learner} | {name} | {seed}", PROBLEMS[name]
        if run not in self.known:
            problem = make(case)
            self.known[run] = measure(problem, build(problem), case.episodes, seed)
            if self.path is not None:
                with self.path.open("a") as out:
                    line = {"run": run, "figures": self.known[run]._asdict()}
                    out.write(json.dumps(line) + "\n")
        return self.known[run]


def others(problem: ss.Problem, episodes: int) -> dict[str, Callable[[], Learner]]:
    """The learners beside `SpotEpochs`, all with learned limits."""
    safest, f = ss.slater(problem.cmdp), problem.interface
    make = functools.partial(ss.learners.make, episodes=episodes)
    scaled: dict[str, Any] = {"bonus_scale": 0.01, "estimator": "total"}
    lean: dict[str, Any] = {"baseline": safest.policy, "slack": safest.margin, **scaled}
    return {
        "explore-then-plan": lambda: make("explore-then-plan", f),
        "posterior-sampling": lambda: make("posterior-sampling", f),
        "opt-cmdp-bonus": lambda: make("opt-cmdp-bonus", f),
        "opt-cmdp-bonus, scale 0.01": lambda: make("opt-cmdp-bonus", f, **scaled),
        "opt-pess-lp, scale 0.01": lambda: make("opt-pess-lp", f, **lean),
        "dope, scale 0.01": lambda: make("dope", f, **lean),
        "UOpt-RPGPD": lambda: make("regularized-primal-dual", f, rho=safest.rho),
        "spot, the paper's constants": lambda: make("spot", f, rho=safest.rho),
        "spot, as advised": lambda: make("spot", f, rho=safest.rho, **scaled),
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


def recipe(made: type[SpotEpochs] | Recipe) -> type[SpotEpochs]:
    """A learner with these constants."""
    return type("Candidate", (SpotEpochs,), {"recipe": made}) if isinstance(made, Recipe) else made


def defaults(results: Results, names: list[str], seeds: int, first: int) -> Iterator[str]:
    """The defaults on every problem."""
    yield HEAD
    for name in names:
        told = PROBLEMS[name].told
        runs = [
            results.get("defaults", name, lambda p: SpotEpochs(**p.interface, **told), seed)  # noqa: B023
            for seed in range(first, first + (min(seeds, 3) if name in SLOW else seeds))
        ]
        yield row(f"`{name}`", PROBLEMS[name].episodes, runs)


def beside(results: Results, names: list[str], seeds: int, first: int) -> Iterator[str]:
    """The other learners on the same problems."""
    yield HEAD
    for name in names:
        if name in BESIDE:
            for learner, build in others(make(PROBLEMS[name]), PROBLEMS[name].episodes).items():
                runs = [results.get(learner, name, lambda _: build(), first)]  # noqa: B023
                yield row(f"`{name}`: {learner}", PROBLEMS[name].episodes, runs)


def candidates(results: Results, names: list[str], seeds: int, first: int) -> Iterator[str]:
    """Other ways to explore: means over the problems that are tuned on, and the worst value."""
    yield "| | value, mean | the worst | strong violation in H, trying / exploring | no certificate | regret |"
    yield "|---|---:|---:|---:|---:|---:|"
    for title, made in CANDIDATES.items():
        kind, found = recipe(made), dict[str, list[Figures]]()
        for name in TUNED:
            told = PROBLEMS[name].told
            found[name] = [
                results.get(title, name, lambda p: kind(**p.interface, **told), seed)  # noqa: B023
                for seed in range(min(seeds, 3))
            ]
        runs = [each for some in found.values() for each in some]
        worst = min(found, key=lambda name: mean(r.value for r in found[name]))
        yield (
            f"| {title} | {mean(r.value for r in runs):.1%} | {mean(r.value for r in found[worst]):.1%} (`{worst}`) | "
            f"{mean(r.trying for r in runs):.5f} / {mean(r.exploring for r in runs):.5f} | "
            f"{sum(math.isinf(r.first) for r in runs)} of {len(runs)} | {mean(r.regret for r in runs):.1%} |"
        )


# False certificates


def tempting(number: int) -> tuple[ss.Problem, dict[str, Any], float]:
    """A problem in which every policy breaks its limit, by a part of a trial's radius, and how it is learned.

    One state, two actions that differ in reward alone, so that any certificate is false. The room that is lacking is
    drawn: mostly so little that a trial of some hundred episodes cannot see it. xi = 1: margins are taken off.
    """
    lacking = (0.0005, 0.002, 0.005, 0.01, 0.03)[number % 5]
    mean, horizon = (0.5, 0.9, 0.1)[number % 3], (1, 2, 5)[(number // 3) % 3]
    cmdp = ss.CMDP(
        np.ones((1, 2, 1)), [[0.3, 0.7]], np.full((1, 1, 2), mean),
        [horizon * (mean + lacking)], horizon=horizon,
    )  # fmt: skip
    return ss.Problem(cmdp), {"stance": "optimistic"}, lacking


def coverage(results: Results, names: list[str], seeds: int, first: int) -> Iterator[str]:
    """Runs with a false certificate, at delta = 0.2."""
    yield "| | runs | with a certificate | certificates | runs with a false one | allowed |"
    yield "|---|---:|---:|---:|---:|---:|"
    for name in ("machine", "random", "random, m = 2"):
        problem, runs, issued, false = make(PROBLEMS[name]), 100, [], 0
        for seed in range(runs):
            learner = SpotEpochs(**problem.interface, delta=0.2)
            ss.learn(problem, learner, 2_000, seed=seed, track="grid")
            issued.append(len(learner.certificates))
            false += _any_false(problem, learner)
        yield (
            f"| `{name}`, defaults, 2,000 episodes | {runs} | {sum(n > 0 for n in issued)} | {sum(issued)} | {false} | "
            f"{0.2 * runs:.0f} |"
        )
    runs, issued, false = 500, [], 0
    for seed in range(runs):
        problem, options, _ = tempting(seed)
        learner = SpotEpochs(**problem.interface, delta=0.2, **options)
        ss.learn(problem, learner, 1_000, seed=seed, track="grid")
        issued.append(len(learner.certificates))
        false += _any_false(problem, learner)
    yield (
        f"| every policy just broken, ξ = 1, 1,000 episodes | {runs} | {sum(n > 0 for n in issued)} | {sum(issued)} | "
        f"{false} | {0.2 * runs:.0f} |"
    )


def _any_false(problem: ss.Problem, learner: SpotEpochs) -> bool:
    cmdp = problem.cmdp
    toward = np.where(np.array(cmdp.senses) == "<=", -1.0, 1.0)
    return any(
        bool((toward * (ss.evaluate(cmdp, each.policy).constraints - cmdp.limits) < -1e-9).any())
        for each in learner.certificates
    )


TABLES = {
    "defaults": defaults, "beside": beside, "candidates": candidates, "coverage": coverage
}  # fmt: skip


def main() -> None:
    """Run what was asked for, and write."""
    parser = argparse.ArgumentParser(
        prog="python -m safespot.benchmarks.epochs", description=__doc__
    )
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--first-seed", type=int, default=FIRST_SEED)
    parser.add_argument("--only", action="append", choices=list(PROBLEMS))
    parser.add_argument("--table", action="append", choices=list(TABLES))
    parser.add_argument("--store", type=Path, help="where measured runs are kept, to go on later")
    asked = parser.parse_args()
    results = Results(asked.store)
    for table in asked.table or TABLES:
        lines = []
        for line in TABLES[table](
            results, asked.only or list(PROBLEMS), asked.seeds, asked.first_seed
        ):
            print(line, flush=True)
            lines.append(line)
        if asked.only is None and asked.first_seed == FIRST_SEED:
            write_between(PAGE, f"epochs-{table}", "\n".join(lines))


if __name__ == "__main__":
    main()
