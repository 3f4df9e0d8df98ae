"""`safespot report`, `safespot verify` and `safespot bench`: what came out, and what it is worth."""

from __future__ import annotations

import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from ..errors import InvalidOption, UnknownName, unknown
from .application import AsJson, Engine, EngineName, Out, Scheduler, Workers, app
from .learning import keeping_what_is_done
from .output import print_json


class Kind(StrEnum):
    """Kinds of figures for print."""

    pdf = "pdf"
    png = "png"
    svg = "svg"


@app.command()
def report(
    store: Annotated[
        Path, typer.Argument(metavar="STORE", help="A store: the folder that run or sweep wrote.")
    ],
    figures: Annotated[
        Kind | None, typer.Option(help="Also figures for print, in STORE/figures.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Make the report of a store.

    STORE/report.html is one file that needs no network.

    \b
    Examples:
      safespot report safespot-dosing
      safespot report safespot-dosing --figures pdf
    """
    from .. import report as reports
    from ..experiments import Store

    opened = Store(store)
    written = [reports.write_report(opened)]
    if figures is not None:
        written += reports.write_figures(opened, figures.value)
    if as_json:
        print_json({"written": [str(path) for path in written]})
    else:
        print("\n".join(str(path) for path in written))


@app.command()
def verify(
    quick: Annotated[bool, typer.Option("--quick", help="A small version, in minutes.")] = False,
    extended: Annotated[
        bool, typer.Option("--extended", help="Also what takes longer than an hour.")
    ] = False,
    claim: Annotated[
        list[str] | None, typer.Option(metavar="CLAIM", help="One claim; may be repeated.")
    ] = None,
    out: Out = Path("safespot-verify"),
    engine: Engine = EngineName.local,
    workers: Workers = None,
    scheduler: Scheduler = None,
    as_json: AsJson = False,
) -> None:
    """Measure the paper's claims and judge each.

    Ends with a page (STORE/report.html), the same as Markdown (STORE/verification.md) and STORE/figures. What a claim
    turns out to be is a result: the command succeeds whatever it is. Ctrl-C keeps what is done, and the same command
    resumes.

    \b
    Examples:
      safespot verify --quick
      safespot verify --out results/verify
      safespot verify --claim coverage --claim tradeoff --out results/two
    """
    if quick and extended:
        raise InvalidOption(
            "--quick and --extended exclude each other; give one of them, not both."
        )
    from ..verification import verify as measure
    from ..verification.verifying import as_dict

    size = "quick" if quick else "extended" if extended else "full"
    with keeping_what_is_done(out):
        made = measure(
            out, size, claims=claim, engine=engine.value, workers=workers, scheduler=scheduler
        )
    if as_json:
        print_json(as_dict(made))
    else:
        from ..report.terminal import print_table

        print_table(
            ["claim", "statement", "outcome"],
            [[c.title, v.statement, v.outcome] for c, j in made.judged for v in j.verdicts],
        )
        for name, why in made.failed.items():
            print(f"safespot: {name} failed: {why}", file=sys.stderr)
        print(f"\nresults: {made.store.path}\nreport:  {made.report}")
    if made.failed:
        raise typer.Exit(1)


@app.command()
def bench(
    only: Annotated[
        list[str] | None, typer.Option(metavar="SECTION", help="One section; may be repeated.")
    ] = None,
    full: Annotated[bool, typer.Option(help="Also what takes many minutes.")] = False,
    as_json: AsJson = False,
) -> None:
    """Measure speed, side by side with other implementations.

    \b
    Examples:
      safespot bench --only oracle
      safespot bench --full --json > speed.json
    """
    from ..benchmarks import sections as benchmarks

    for name in only or []:
        if name not in benchmarks.SECTIONS:
            raise UnknownName(unknown("section", name, benchmarks.SECTIONS))
    rows = [
        row
        for section in only or benchmarks.SECTIONS
        for row in benchmarks.measure(section, full=full)
    ]
    if as_json:
        print_json(
            {
                "machine": benchmarks.machine(),
                "rows": [row.as_dict() for row in rows],
            }
        )
    else:
        for row in rows:
            print(benchmarks.shown(row))
