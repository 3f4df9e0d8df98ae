"""`safespot warm`: compile ahead."""

from __future__ import annotations

import sys
import time
from typing import Annotated

import typer

from .application import AsJson, app
from .output import print_json


@app.command()
def warm(
    workers: Annotated[int, typer.Option(min=1, help="Number of processes that compile.")] = 2,
    as_json: AsJson = False,
) -> None:
    """Compile all kernels ahead, so that nothing waits for them.

    What learning and judging run is compiled when it is first used, and kept in the user's cache. This does it at once:
    when an image is built, in CI, on a machine that will be shown to somebody. What is compiled already is only read.

    \b
    Examples:
      safespot warm
      NUMBA_CACHE_DIR=/opt/safespot safespot warm --workers 1
    """
    from ..experiments.warming import chores
    from ..experiments.warming import warm as compile_ahead

    began = time.perf_counter()
    ready: list[str] = []
    total = len(chores())
    for chore in compile_ahead(workers):
        ready.append(chore)
        print(f"safespot: {chore} ({len(ready)} of {total})", file=sys.stderr, flush=True)
    seconds = time.perf_counter() - began
    if as_json:
        print_json({"ready": ready, "seconds": seconds})
    else:
        print(f"Compiled, or found compiled, in {seconds:.0f} s.")
