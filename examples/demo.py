"""What there is, in a minute: solve the ready problems and show their optima."""

from __future__ import annotations

import safespot as ss


def main() -> None:
    """Print one row per constraint of every ready problem."""
    print(f"safespot {ss.__version__}: the constrained optimum of every ready problem\n")
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


if __name__ == "__main__":
    main()
