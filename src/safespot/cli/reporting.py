"""`safespot report`: the page of a store, and figures for print."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from .application import AsJson, app
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
