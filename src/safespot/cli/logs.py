"""Commands for logs: `safespot propose`, and the answer of `safespot solve` to one."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from .application import AsJson, app
from .given import count, parse_options, read_policy
from .output import print_json, write_policy


@app.command()
def propose(
    log: Annotated[str, typer.Argument(metavar="LOG", help="A .csv or .parquet log of episodes.")],
    option: Annotated[
        list[str] | None,
        typer.Option(
            "--option", "-o", metavar="NAME=VALUE", help="An option of read_log; may be repeated."
        ),
    ] = None,
    behaviour: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="The policy [H,S,A] or [S,A] that made the log, if known exactly; .npy or .json.",
        ),
    ] = None,
    trial: Annotated[
        str | None,
        typer.Option(
            metavar="N", help="Episodes that a trial may take; as many as the log has by default."
        ),
    ] = None,
    cases: Annotated[
        int, typer.Option(min=1, help="Cases from which on an action is followed in a state.")
    ] = 10,
    delta: Annotated[float, typer.Option(help="What is proven has confidence 1 - delta.")] = 0.05,
    out: Annotated[
        Path | None,
        typer.Option("--out", metavar="FILE", help="Write the policy [H,S,A]: .npy, or .json."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """From a log of past episodes to the policy to try next.

    Says what the log proves of what was done and of the limits, plans a policy with a margin from what was done often
    enough, and says what a trial would take. Nothing is proven of that policy before it is tried. Options (-o) are
    those of read_log.

    \b
    Examples:
      safespot propose log.csv
      safespot propose log.csv -o 'columns={patient="episode", dose="cost_dose"}' -o 'thresholds=[6]'
      safespot propose log.parquet -o stationary=true --trial 200 --out next.npy
    """
    from ..data.model_files import read_logged
    from ..judging.propose_log import propose as propose_policy

    read = read_logged(log, **parse_options(option))
    print(read, file=sys.stderr)
    proposal = propose_policy(
        read,
        None if behaviour is None else read_policy(str(behaviour)),
        trial=None if trial is None else count(trial),
        cases=cases,
        delta=delta,
    )
    if out is not None:
        write_policy(out, proposal.policy)
    if as_json:
        print_json(proposal.as_dict())
        return
    print(proposal)
    if out is not None:
        print(f"policy: {out}")


def solve_log(target: str, options: dict[str, Any], policy: Path | None, as_json: bool) -> None:
    """Print the optimum of the empirical model of a log; every line names that model."""
    from ..data.model_files import read_model
    from ..judging.propose_log import proven_limits
    from ..model.oracle import solve
    from .problems import limits_of

    log, model = read_model(target, **options)
    print(log, model, sep="\n", file=sys.stderr)
    solution = solve(model.cmdp)
    error, errors = model.standard_errors(solution.policy)
    lower, upper = proven_limits(log)
    if policy is not None:
        write_policy(policy, solution.policy)
    of = f"the empirical model of {model.episodes:,} episodes"
    known = limits_of(model.cmdp, solution.constraints, solution.multipliers)
    limits: list[dict[str, Any]] = [
        {
            **limit,
            "standard_error": float(errors[i]),
            "proven": [float(lower[i]), float(upper[i])],
        }
        for i, limit in enumerate(known)
    ]
    if as_json:
        print_json(
            {
                "of": of, "episodes": model.episodes, "optimum": solution.value, "standard_error": error,
                "limits": limits,
            }
        )  # fmt: skip
        return
    print(f"optimum of {of}: {solution.value:.6g}, standard error {error:.2g}")
    for limit in limits:
        print(
            f"{limit['name']} in {of}: {limit['value']:.6g} {limit['sense']} {limit['limit']:.6g}, standard error "
            f"{limit['standard_error']:.2g}, multiplier {limit['multiplier']:.4g}"
        )
        low, high = limit["proven"]
        proven = f"lies in [{low:.4g}, {high:.4g}], as {model.episodes:,} episodes prove (confidence 0.95)"
        print(f"{limit['name']} itself {f'is given: {low:.4g}' if low == high else proven}")
    print(
        f"An optimum of {of} is no policy to deploy: for one to try next, safespot propose {target}"
    )
