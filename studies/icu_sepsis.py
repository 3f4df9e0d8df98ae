"""SPOT on ICU-Sepsis: how fast the violation falls, and what an episode costs.

`python -m studies.icu_sepsis` runs every setting in a process of its own, keeps the results in
`icu_sepsis.json`, and rewrites the table in `results/icu-sepsis.md` and the figure beside it. It takes about an
hour; `--only NAME ...` repeats some settings and keeps the others, and `--draw` only draws.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import time
from typing import Any

import numpy as np

import safespot as ss

from . import record
from .drawing import log_log
from .record import CHECKOUT, write_between

RESULTS = record.RESULTS / "icu-sepsis.json"
PAGE = record.RESULTS / "icu-sepsis.md"
FIGURE = record.RESULTS / "figures" / "icu-sepsis.svg"
HORIZON, LIMIT, RHO = 10, 8.8894, 1.0  # rho is what `ss.slater` gives
EPISODES = 100_000
SHOWN = (1_000, 10_000, 100_000)

TUNED: dict[str, Any] = {
    "rho": RHO, "bonus_scale": 0.001, "estimator": "pooled", "policy_step": 1.0, "dual_step": 0.01,
}  # fmt: skip
SETTINGS: dict[str, dict[str, Any]] = {
    "the paper's constants": {"rho": RHO},
    "small bonus": {"rho": RHO, "bonus_scale": 0.001},
    "and larger steps, pooled thresholds": TUNED,
    "and a tenth of the threshold radius": TUNED | {"threshold_scale": 0.1},
    "instead, larger multipliers": TUNED | {"rho": 20.0, "dual_step": 0.1},
}


def main() -> None:
    """Run, keep, show."""
    parser = argparse.ArgumentParser(prog="python -m studies.icu_sepsis", description=__doc__)
    parser.add_argument("--only", nargs="+", choices=SETTINGS, default=list(SETTINGS))
    parser.add_argument("--draw", action="store_true", help="only the table and the figure")
    options = parser.parse_args()
    results = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    if not options.draw:
        in_a_process("the paper's constants", 2)  # kernels compile, which takes memory
        for name in options.only:
            print(name, file=sys.stderr, flush=True)
            results[name] = in_a_process(name, EPISODES)
            kept = {known: results[known] for known in SETTINGS if known in results}
            RESULTS.write_text(json.dumps(kept, indent=1) + "\n")
    write_table(results)
    draw(results)


def in_a_process(name: str, episodes: int) -> dict[str, Any]:
    """One run in a fresh process, so that its peak memory is its own."""
    code = f"from studies.icu_sepsis import *; print(json.dumps(run({name!r}, {episodes})))"
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, cwd=CHECKOUT, check=True, stdout=subprocess.PIPE, text=True)
    result: dict[str, Any] = json.loads(done.stdout)
    return result


def run(name: str, episodes: int) -> dict[str, Any]:
    """What is kept of a run; every array has one entry per recorded episode."""
    problem = ss.problems.make("icu-sepsis", horizon=HORIZON, limits={"fluid": LIMIT})
    learner = ss.Spot(**problem.interface, episodes=episodes, **SETTINGS[name])
    begin = time.process_time()
    learned = ss.learn(problem, learner, seed=0, track="grid")
    seconds = time.process_time() - begin
    return {
        "episodes": learned.episodes.tolist(),
        "shortfall": rounded(LIMIT - learned.constraint_values[:, 0]),
        "violation": rounded(learned.violation / learned.episodes),
        "gap": rounded(learned.optimum - learned.values),
        "multiplier": rounded(learned.multipliers[:, 0]),
        "threshold": rounded(learned.thresholds[:, 0]),
        "milliseconds": 1e3 * seconds / episodes,
        "megabytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }


def rounded(values: Any) -> list[float]:
    kept: list[float] = np.round(values, 6).tolist()
    return kept


def write_table(results: dict[str, Any]) -> None:
    """Between its marks on the page."""
    heads = [f"{shown:,}" for shown in SHOWN]
    lines = [
        "| setting | " + " | ".join(f"short by, at {head}" for head in heads)
        + " | loss of value | multiplier | a threshold of | an episode | peak memory |",
        "|---|" + "---:|" * (len(SHOWN) + 5),
    ]  # fmt: skip
    for name, result in results.items():
        at = [result["episodes"].index(shown) for shown in SHOWN]
        lines.append(
            f"| {name} | "
            + " | ".join(f"{result['shortfall'][row]:.3f}" for row in at)
            + f" | {result['gap'][-1]:.4f} | {result['multiplier'][-1]:.3f} "
            + f"| {result['threshold'][-1]:.3f} | {result['milliseconds']:.1f} ms "
            + f"| {result['megabytes']:.0f} MB |"
        )
    write_between(PAGE, "icu-sepsis", "\n".join(lines))


def draw(results: dict[str, Any]) -> None:
    """The mean violation of an episode so far, against the episodes."""
    curves = {}
    for name, result in results.items():
        mean = np.array(result["violation"])
        mean[mean <= 0.0] = np.nan
        curves[name] = result["episodes"], mean
    log_log(FIGURE, curves, "mean violation of an episode", height=4.0)


if __name__ == "__main__":
    main()
