"""`safespot watch`: a running sweep, or a durable learner, live in the browser."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from .application import AsJson, app
from .output import print_json


@app.command()
def watch(
    place: Annotated[
        Path,
        typer.Argument(
            metavar="STORE|FOLDER",
            help="A store that run or sweep writes to, or the folder of a durable learner.",
        ),
    ],
    port: Annotated[
        int, typer.Option(min=0, max=65535, help="Port of 127.0.0.1; 0: any that is free.")
    ] = 8765,
    as_json: AsJson = False,
) -> None:
    """Watch a running sweep or a durable learner in the browser.

    Serves a page to this machine alone (127.0.0.1) until Ctrl-C. It reads files and writes none, so it may be started
    and stopped at any time. With --json it prints what the page would show, once.

    \b
    Examples:
      safespot watch safespot-dosing
      safespot watch ward-7 --port 9000
      safespot watch ward-7 --json
    """
    from ..report.server import Watched, serve

    watched = Watched(place)
    if as_json:
        print_json(watched.document())
        return
    with serve(watched, port) as server:
        print(f"{server.address}  (Ctrl-C ends it)", flush=True)
        server.until_interrupted()
