"""How wide certificates are, and how soon a trial decides.

`python -m studies.certificates` draws the figure of `results/certificates.md` and prints the tables beside it;
it takes about a minute.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

import safespot as ss

from .drawing import log_log
from .record import RESULTS

FIGURE = RESULTS / "figures" / "certificates.svg"
EPISODES = 10**6
LOOKS = (1_000, 3_000, 10_000, 30_000, 100_000, 300_000, 1_000_000)
RUNS = 50

Widths = dict[str, list[float]]


def main() -> None:
    problem = ss.problems.make("random", states=5, actions=3, horizon=4, seed=1)
    policy = ss.slater(problem.cmdp).policy
    widths = measure_widths(problem, policy)
    print("| episodes | " + " | ".join(widths) + " |")
    for k, n in enumerate(LOOKS):
        print(f"| {n:,} | " + " | ".join(f"{of[k]:.3f}" for of in widths.values()) + " |")
    draw(widths)
    print("\n| room | planned | expected | stopped after (median, 90 %) | wrong |")
    for room in (0.2, 0.4, 0.8):
        print("| " + " | ".join(measure_stops(room)) + " |")


def measure_widths(problem: ss.Problem, policy: Any) -> Widths:
    """Between the bounds of the first constraint's difference, by the number of episodes."""
    learner = ss.Spot(
        **problem.interface, episodes=EPISODES, rho=2.0, bonus_scale=0.01, threshold_scale=0.1
    )
    found: Widths = {
        "certify, a policy it rarely plays": [],
        "certify, the policy it plays": [],
    }
    for n in LOOKS:
        ss.learn(problem, learner, n - learner.episode + 1, track="grid")
        for name, made in zip(
            found, (ss.certify(learner, policy), ss.certify(learner)), strict=True
        ):
            low, high = made.difference_bounds
            found[name].append(float(high[0] - low[0]))
    return found


def measure_stops(room: float) -> tuple[str, ...]:
    """Trials of a policy that keeps a limit of 2 over 4 steps with this room, stopped when decided."""
    cmdp = ss.CMDP(np.ones((1, 1, 1)), [[0.5]], [[[0.5 + room / 4]]], [2.0], horizon=4)
    deviation = math.sqrt(4 * ((0.5 + room / 4) * (0.5 - room / 4) + 0.25))
    expected = ss.episodes_needed(room, deviation)
    planned = 4 * expected
    found = [
        ss.certify(ss.Problem(cmdp), np.ones((1, 1)), episodes=planned, seed=seed)
        for seed in range(RUNS)
    ]
    stops = np.array([each.episodes for each in found])
    wrong = sum("unsafe" in each.verdict for each in found)
    shown = f"{np.median(stops):,.0f}, {np.quantile(stops, 0.9):,.0f}"
    return f"{room:g}", f"{planned:,}", f"{expected:,}", shown, f"{wrong} of {RUNS}"


def draw(widths: Widths) -> None:
    """Width against episodes."""
    curves = {name: (LOOKS, of) for name, of in widths.items()}
    log_log(FIGURE, curves, "width of the difference's bounds", height=3.6, marker="o")


if __name__ == "__main__":
    main()
