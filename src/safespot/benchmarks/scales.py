"""How large Spot's bonus and steps should be on problems of 30 states and more: the rule of `bonus_scale="auto"`.

    python -m safespot.benchmarks.scales FOLDER [--part choose|judge]

does the runs that are not done yet and writes the tables `scales` and `large` of docs/choosing.md. The protocol was
written before the first run:

- **What is chosen.** Two numbers, for all problems: b, the bonus of a pair after its first visit (the scale is then
  ``b / bonus(1)``, and a pair of mean v leaves its cap after ``(b / (1 - v))^2`` visits,
  `theory.visits_to_leave_cap`), of `BONUSES`; and f, by which both of the paper's steps are multiplied, of `FACTORS`.
- **On what.** `CHOOSE`: seeds 0 and 1, 20,000 and 100,000 episodes, pessimistic, ``estimator="total"``, rho of the
  safest policy.
- **By what.** The late loss, in the last quarter of the episodes: ``(V* - V + 2 price shortfall) / V*``, where the
  price is the true multiplier, so that breaking a limit never pays. The pair with the smallest mean over problems,
  lengths and seeds is the rule; of pairs within 0.005 of it, the one with the smallest b, then the smallest f.
- **How it is judged.** `JUDGE`: other problems, seeds 100 to 103, beside the paper's constants and the scales 0.01 and
  0.001 with the paper's steps.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from safespot import problems, slater, solve, theory
from safespot.experiments import sweep
from safespot.model.problem import Problem
from safespot.report import findings
from safespot.report.findings import Line, Study

from .record import CHECKOUT, write_between

PAGE = CHECKOUT / "docs" / "choosing.md"
BONUSES = (0.06, 0.25, 1.0, 4.0)
FACTORS = (1, 4, 16)
EPISODES = (20_000, 100_000)
NEAR = 0.005  # of the optimum: losses that are as good as each other

Named = tuple[str, dict[str, Any]]
CHOOSE: tuple[Named, ...] = (
    ("random", {"states": 30, "actions": 3, "horizon": 5, "successors": 6, "seed": 1}),
    ("random", {"states": 60, "actions": 3, "horizon": 8, "successors": 4, "seed": 2}),
    ("dosing", {}),
)
JUDGE: tuple[Named, ...] = (
    ("random", {"states": 30, "actions": 4, "horizon": 6, "successors": 10, "seed": 11}),
    ("random", {"states": 60, "actions": 3, "horizon": 10, "successors": 5, "seed": 12}),
    ("maze", {}),
    ("deep-sea", {}),
)


def steps(problem: Problem, T: int, factor: float) -> dict[str, float]:
    """The paper's steps, times a factor."""
    c = problem.cmdp
    rho = slater(c).rho
    eta = math.sqrt(2.0 * math.log(c.A) / (c.H**2 * (1.0 + c.m * rho) ** 2 * T))
    return {
        "policy_step": factor * eta,
        "dual_step": factor * rho / math.sqrt(c.m * c.H**2 * T),
    }


def tried(problem: Problem, T: int) -> list[dict[str, Any]]:
    """Every pair of b and f, as the learners of a sweep."""
    c = problem.cmdp
    once = theory.bonus(c.S, c.A, c.H, c.m, T, 1)
    base = {"rho": "slater", "estimator": "total"}
    return [
        {
            "name": "spot",
            "label": f"b {b:g}, f {f:g}",
            "options": {**base, "bonus_scale": b / once, **steps(problem, T, f)},
        }
        for b in BONUSES
        for f in FACTORS
    ]


def beside() -> list[dict[str, Any]]:
    """What the rule is judged beside."""
    base = {"rho": "slater", "estimator": "total"}
    scales = {"the paper's": 1.0, "scale 0.01": 0.01, "scale 0.001": 0.001, "auto": "auto"}
    return [
        {"name": "spot", "label": label, "options": {**base, "bonus_scale": scale}}
        for label, scale in scales.items()
    ]


def studies(
    folder: Path, chosen: tuple[Named, ...], seeds: list[int], part: str
) -> Iterator[Study]:
    """The runs of every problem and length, done where they are not yet."""
    for k, (name, options) in enumerate(chosen):
        for T in EPISODES:
            problem = problems.make(name, **options)
            spec = {
                "episodes": T, "seeds": seeds, "problem": {"name": name, "options": options},
                "learners": tried(problem, T) if part == "choose" else beside(),
            }  # fmt: skip
            swept = sweep(spec, folder / f"{part}-{k}-{T}", workers=1)
            yield from findings.read(swept.store)


def loss(study: Study, line: Line, price: float) -> float:
    """What is missing late, in parts of the optimum; a broken limit costs twice what it brings at most."""
    best = study.optimum(study.episodes)
    short = line.rate("strong_violation", late=True).mean
    return (best - line.late("value").mean + 2.0 * price * short) / best


def choose(folder: Path) -> Iterator[str]:
    """A row for each pair: its mean loss, and its loss on each problem and length."""
    names, losses = [], []
    for study in studies(folder, CHOOSE, [0, 1], "choose"):
        price = float(solve(study.problem.cmdp).multipliers.max())
        c = study.problem.cmdp
        names.append(f"{study.lines[0].group.about['problem']} {c.S}, {study.episodes // 1000}k")
        losses.append({line.name: loss(study, line, price) for line in study.lines})
    yield f"| b | f | mean | {' | '.join(names)} |"
    yield f"|---:|---:|{'---:|' * (1 + len(names))}"
    means = {}
    for b in BONUSES:
        for f in FACTORS:
            each = [found[f"b {b:g}, f {f:g}"] for found in losses]
            means[b, f] = float(np.mean(each))
            cells = " | ".join(f"{x:.3f}" for x in each)
            yield f"| {b:g} | {f:g} | {means[b, f]:.3f} | {cells} |"
    least = min(means.values())
    print("rule:", min(pair for pair, mean in means.items() if mean <= least + NEAR))


def judge(folder: Path) -> Iterator[str]:
    """A row for each problem, length and setting."""
    yield "| problem | episodes | setting | of the optimum | short by, early | short by, late | loss |"
    yield "|---|---:|---|---:|---:|---:|---:|"
    for study in studies(folder, JUDGE, [100, 101, 102, 103], "judge"):
        price = float(solve(study.problem.cmdp).multipliers.max())
        best, S = study.optimum(study.episodes), study.problem.cmdp.S
        for line in study.lines:
            early, late = (
                line.rate("strong_violation", late=which).mean for which in (False, True)
            )
            yield (
                f"| {line.group.about['problem']}, {S} states | {study.episodes:,} | {line.name} "
                f"| {line.late('value').mean / best:.1%} | {early:.3f} | {late:.3f} "
                f"| {loss(study, line, price):.3f} |"
            )


def main() -> None:
    """Do what is not done, and write."""
    parser = argparse.ArgumentParser(
        prog="python -m safespot.benchmarks.scales", description=__doc__
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("--part", choices=["choose", "judge"], default=None)
    given = parser.parse_args()
    for name, part in (("scales", choose), ("large", judge)):
        if given.part in (None, part.__name__):
            write_between(PAGE, name, "\n".join(part(given.folder)))


if __name__ == "__main__":
    main()
