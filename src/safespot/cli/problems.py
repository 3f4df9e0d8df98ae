"""`safespot problems` and `safespot solve`: ready problems and one's own models, solved exactly."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..errors import SafespotError
from .application import AsJson, Options, app
from .given import parse_options, read_target
from .logs import solve_log
from .output import print_json, write_policy

if TYPE_CHECKING:
    from ..model.cmdp import CMDP


@app.command("problems")
def problems_command(
    name: Annotated[str | None, typer.Argument(help="Name of a problem to describe.")] = None,
    option: Options = None,
    as_json: AsJson = False,
) -> None:
    """List the ready problems, or describe one.

    \b
    Examples:
      safespot problems
      safespot problems dosing
      safespot problems random -o states=5 -o seed=3
    """
    if name is None:
        from .. import problems

        rows = [listed(each) for each in problems.names()]
        if as_json:
            print_json(rows)
        else:
            from ..report.terminal import print_table

            print_table(
                ["problem", "S", "A", "H", "m", "what it is"],
                [[r["name"], *(r.get(k, "-") for k in "SAHm"), r["meaning"]] for r in rows],
            )
        return
    import numpy as np

    from .. import problems
    from ..model.oracle import slater, solve

    cmdp = problems.make(name, **parse_options(option)).cmdp
    solution, safest = solve(cmdp), slater(cmdp)
    # Limits that every policy keeps: nothing of what is bounded is asked for.
    nothing = cmdp.units.constraints.total_outside(np.zeros(cmdp.m), cmdp.H)
    free = solve(cmdp.with_thresholds(nothing))
    about: dict[str, Any] = {
        "name": name,
        **{k: getattr(cmdp, k) for k in "SAHm"},
        "optimum": solution.value,
        "unconstrained": free.value,
        "limits": limits_of(cmdp, solution.constraints, solution.multipliers),
        "slater_margin": safest.margin,
        "rho": safest.rho,
        "meaning": problems.describe(name),
    }
    if as_json:
        print_json(about)
        return
    print(problems.story(name))
    print()
    print(f"S = {cmdp.S} states, A = {cmdp.A} actions, H = {cmdp.H} steps, m = {cmdp.m} limits")
    print(f"optimum {solution.value:.6g} within the limits, {free.value:.6g} without")
    print_limits(about["limits"])
    print(
        f"the safest policy keeps every limit with {safest.margin:.4g} to spare; rho = {safest.rho:.4g}"
    )


@app.command()
def solve(
    target: Annotated[
        str, typer.Argument(metavar="PROBLEM|FILE", help="A ready problem, or a file.")
    ],
    option: Options = None,
    policy: Annotated[
        Path | None,
        typer.Option(metavar="FILE.npy|FILE.json", help="Write the optimal policy [H,S,A]."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Solve a problem exactly: optimum, multipliers, gap.

    FILE is an .npz, .safetensors or .toml with the arguments of CMDP: transitions, rewards, constraints,
    thresholds, and what else they need; or a .csv or .parquet log of episodes, whose empirical model is solved.

    \b
    Examples:
      safespot solve machine
      safespot solve my-model.npz --policy best.npy
      safespot solve log.parquet -o 'senses="<="' -o stationary=true
    """
    from .. import problems
    from ..model.oracle import solve as solve_cmdp
    from ..storage.tables import FORMATS

    if target not in problems.names() and Path(target).suffix in FORMATS:
        solve_log(target, parse_options(option), policy, as_json)
        return
    cmdp = read_target(target, parse_options(option))
    solution = solve_cmdp(cmdp)
    if policy is not None:
        write_policy(policy, solution.policy)
    about: dict[str, Any] = {
        "optimum": solution.value,
        "gap": solution.gap,
        "limits": limits_of(cmdp, solution.constraints, solution.multipliers),
    }
    if as_json:
        print_json(about)
        return
    print(f"optimum {solution.value:.10g}, certified within {solution.gap:.1g}")
    print_limits(about["limits"])


def listed(name: str) -> dict[str, Any]:
    """Return the facts of a ready problem, also where an extra that it needs is not installed."""
    from .. import problems

    listed: dict[str, Any] = {"name": name, "meaning": problems.describe(name)}
    try:
        cmdp = problems.make(name).cmdp
    except SafespotError as exc:  # an extra is not installed
        return {**listed, "meaning": f"{listed['meaning']} ({exc})"}
    return {**listed, **{k: getattr(cmdp, k) for k in "SAHm"}}


def limit_name(cmdp: CMDP, i: int) -> str:
    """Return the name of limit i: "limit of …" where its constraint has a name, else "limit i"."""
    return f"limit {i}" if cmdp.names.limits is None else f"limit of {cmdp.names.limit(i)}"


def limits_of(cmdp: CMDP, values: Any, multipliers: Any) -> list[dict[str, Any]]:
    """Return each limit with the value of a policy and its multiplier."""
    return [
        {
            "name": limit_name(cmdp, i),
            "sense": cmdp.senses[i],
            "limit": float(cmdp.limits[i]),
            "value": float(values[i]),
            "multiplier": float(multipliers[i]),
        }
        for i in range(cmdp.m)
    ]


def print_limits(limits: Sequence[dict[str, Any]]) -> None:
    """Print the entries of a list of limits, a line each."""
    for limit in limits:
        print(
            f"{limit['name']}: {limit['value']:.6g} {limit['sense']} {limit['limit']:.6g}, "
            f"multiplier {limit['multiplier']:.4g}"
        )
