"""What there is, in a minute: the optimum of every ready problem, and SPOT learning one without knowing its limit."""

from __future__ import annotations

import numpy as np

import safespot as ss

EPISODES, SEEDS = 100_000, 4


def main() -> None:
    """Print both tables."""
    print(f"safespot {ss.__version__}\n")
    optima()
    print()
    stances()


def optima() -> None:
    """One row per constraint of every ready problem."""
    print("The constrained optimum of every ready problem\n")
    head = f"{'problem':<10}{'S':>4}{'A':>4}{'H':>4}  {'best value':>10}  {'limit':>9}"
    print(head + f"  {'reached':>8}  {'price':>7}  {'margin':>7}  {'gap':>7}")
    for name in ss.problems.names():
        cmdp = ss.problems.make(name).cmdp
        best, safe = ss.solve(cmdp), ss.slater(cmdp)
        for i in range(cmdp.m):
            first = f"{name:<10}{cmdp.S:>4}{cmdp.A:>4}{cmdp.H:>4}  {best.value:>10.4f}"
            print(
                f"{first if i == 0 else '':<34}"
                f"  {cmdp.senses[i]} {cmdp.limits[i]:>6.3f}  {best.constraints[i]:>8.3f}"
                f"  {best.multipliers[i]:>7.3f}  {safe.margins[i]:>7.3f}  {best.gap:>7.0e}"
            )
    print(
        "\nprice: the reward that one unit of the limit is worth; margin: the room that the safest"
    )
    print("policy leaves; gap: by how much, at most, any policy could beat the value (certified).")


def stances() -> None:
    """The same problem learned with an unknown limit under three stances, and with a known one."""
    problem = ss.problems.make("random", states=5, actions=3, horizon=4, seed=1)
    cmdp = problem.cmdp
    best, rho = ss.solve(cmdp), ss.slater(cmdp).rho
    print(
        f"SPOT on `random`: reward at best {best.value:.3f}, safety at least {cmdp.limits[0]:.3f}."
    )
    print(f"Means over the last tenth of {EPISODES:,} episodes, {SEEDS} seeds each.\n")
    print(f"{'':<22}{'reward':>8}{'safety':>9}  {'':<8}{'the limit is known within':>26}")
    for name, options in (
        ("pessimistic", {}),
        ("half way", {"stance": 0.5}),
        ("optimistic", {"stance": "optimistic"}),
        ("the limit known", {"thresholds": cmdp.limits}),
    ):
        rewards, safeties, width = [], [], 0.0
        for seed in range(SEEDS):
            learner = ss.Spot(
                **problem.interface,
                **options,
                episodes=EPISODES,
                rho=rho,
                bonus_scale=0.01,
                threshold_scale=0.1,
            )
            run = ss.learn(problem, learner, seed=seed, record=EPISODES // 10)
            late = EPISODES // 10
            rewards.append(best.value - (run.regret[-1] - run.regret[-2]) / late)
            safeties.append(cmdp.limits[0] - (run.violation[-1] - run.violation[-2]) / late)
            lower, upper = learner.threshold_bounds
            width = max(width, float(upper[0] - lower[0]))
        safety = float(np.mean(safeties))
        verdict = "kept" if safety >= cmdp.limits[0] else "broken"
        row = f"{name:<22}{np.mean(rewards):>8.3f}{safety:>9.3f}  {verdict:<8}"
        print(row + f"{'±' + format(width / 2, '.3f'):>26}")


if __name__ == "__main__":
    main()
