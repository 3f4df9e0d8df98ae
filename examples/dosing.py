"""SPOT treats patients whose tolerance it does not know, under three stances: a table, and a figure.

python examples/dosing.py [--episodes 20000] [--seeds 4] [--figure dosing.svg]

Needs Matplotlib (the extra `safespot[report]`). Seconds; the figure of docs/dosing.md took minutes, with 100000 and 20.
"""

from __future__ import annotations

import argparse
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np

import safespot as ss
from safespot.problems import dosing

STANCES: dict[str, str | float] = {
    "pessimistic": "pessimistic",
    "half way": 0.5,
    "optimistic": "optimistic",
}
LOOKS = (("#0072B2", "-"), ("#009E73", "--"), ("#D55E00", "-."))  # told apart without color too

# docs/dosing.md says why each is as it is.
ADVICE: dict[str, Any] = {
    "bonus_scale": 0.01,
    "estimator": "pooled",
    "policy_step": 0.001,
    "dual_step": 0.005,
}


def main() -> None:
    """Learn, print, draw."""
    parser = argparse.ArgumentParser(description="SPOT on `dosing` under three stances.")
    parser.add_argument("--episodes", type=int, default=20_000)
    parser.add_argument("--seeds", type=int, default=4)
    parser.add_argument("--figure", type=Path, default=Path("dosing.svg"))
    given = parser.parse_args()
    problem = ss.problems.make("dosing")
    best, slater = ss.solve(problem.cmdp), ss.slater(problem.cmdp)

    def treat(stance: str | float, seed: int) -> ss.Run:
        learner = ss.Spot(
            **problem.interface, **ADVICE, stance=stance, episodes=given.episodes, rho=slater.rho
        )
        return ss.learn(problem, learner, seed=seed)

    tolerance = float(problem.cmdp.limits[0])
    print(
        f"At best {best.value:.3f} blocks of health with at most {tolerance:g} full doses; "
        f"{given.seeds} seeds of {given.episodes:,} episodes.\n"
    )
    print(f"{'':<13}{'— last tenth of the episodes —':^38}{'— all episodes —':^20}")
    head = ("health", "of best", "doses", "over", "health", "over", "deaths")
    print(f"{'stance':<13}" + "".join(f"{word:>10}" for word in head))
    runs = {}
    with ThreadPoolExecutor(2) as pool:  # learning releases the GIL
        for name, stance in STANCES.items():
            several = pool.map(treat, [stance] * given.seeds, range(given.seeds))
            runs[name] = list(several)
            print(row(name, runs[name], problem.cmdp, best.value), flush=True)
    print(
        "\nhealth: blocks of full health per patient; over: doses above the tolerance, the mean over episodes of the"
        "\npositive part; deaths: the share of patients that the last policy loses."
    )
    draw(runs, tolerance, best.value, given.figure)
    print(given.figure)


def row(name: str, runs: list[ss.Run], cmdp: ss.CMDP, optimum: float) -> str:
    """Means over the seeds, exact values of the policies in play."""
    late = np.mean([since_nine_tenths(run) for run in runs], axis=0)
    health, doses, over = optimum - late[0], cmdp.limits[0] + late[1], late[2]
    whole = [(run.regret[-1], run.strong_violation[-1]) for run in runs]
    regret, strong = np.mean(whole, axis=0) / runs[0].episodes[-1]
    deaths = np.mean([dosing.death_risk(cmdp, run.policy) for run in runs])
    return f"{name:<13}{health:>10.3f}{health / optimum:>10.1%}{doses:>10.3f}{over:>10.3f}" + (
        f"{optimum - regret:>10.3f}{strong:>10.3f}{deaths:>10.1%}"
    )


def since_nine_tenths(run: ss.Run) -> list[float]:
    """Per episode over about the last tenth: regret, violation, and violation without what cancels."""
    k = int(np.searchsorted(run.episodes, 0.9 * run.episodes[-1]))
    sums = (run.regret, run.violation, run.strong_violation)
    episodes = run.episodes[-1] - run.episodes[k]
    return [float(x[-1] - x[k]) / episodes for x in sums]


def draw(runs: dict[str, list[ss.Run]], tolerance: float, optimum: float, path: Path) -> None:
    """Three panels: the tolerance in use, the doses above the true one, and health, against episodes."""
    plt.switch_backend("svg")  # no window
    style: Any = {
        "svg.hashsalt": "dosing", "svg.fonttype": "none", "font.size": 9, "font.family": "sans-serif",
        "axes.spines.top": False, "axes.spines.right": False,
    }  # fmt: skip
    with plt.rc_context(style):
        figure, (belief, violation, health) = plt.subplots(
            1, 3, figsize=(10, 3.3), layout="constrained"
        )
        for (name, several), (color, line) in zip(runs.items(), LOOKS, strict=True):
            episodes = several[0].episodes
            shown = episodes >= 100
            for axes, curves in (
                (belief, [run.thresholds[:, 0] for run in several]),
                (violation, [run.constraint_values[:, 0] - tolerance for run in several]),
                (health, [run.values for run in several]),
            ):
                many = np.array(curves)[:, shown]
                low, high = np.quantile(many, [0.05, 0.95], axis=0)
                axes.fill_between(episodes[shown], low, high, color=color, alpha=0.2, linewidth=0)
                axes.plot(
                    episodes[shown],
                    many.mean(axis=0),
                    line,
                    color=color,
                    label=name,
                    linewidth=1.6,
                )
        for axes, title, level, words, side in (
            (belief, "Tolerance in use (full doses)", tolerance, "the true tolerance", -1),
            (violation, "Doses above the tolerance, per episode", 0.0, "the limit", -1),
            (health, "Health per episode (blocks)", optimum, "constrained optimum", 1),
        ):
            axes.set_xscale("log")
            axes.set_title(title, fontsize=9, loc="left")
            axes.set_xlabel("episodes (patients)")
            axes.axhline(level, color="black", linewidth=0.8)
            axes.annotate(
                words, (0.02, level), xycoords=("axes fraction", "data"), fontsize=8,
                xytext=(0, 3 * side), textcoords="offset points",
                va="bottom" if side > 0 else "top",
            )  # fmt: skip
        belief.legend(frameon=False, title="stance", loc="upper right")
        path.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(path, metadata={"Date": None})
        plt.close(figure)


if __name__ == "__main__":
    main()
