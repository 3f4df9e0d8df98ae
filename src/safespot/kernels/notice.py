"""Whoever waits for kernels to compile is told: a line in the log for each, and one line where somebody watches."""

from __future__ import annotations

import contextlib
import logging
import multiprocessing
import sys
import threading
import time
from collections.abc import Iterator

log = logging.getLogger(__name__)

PATIENCE_SECONDS = 1.0  # of compiling in this process, after which it is said
NOTICE = "compiling kernels, once per machine: about half a minute …"

_spent = 0.0
_said = False


@contextlib.contextmanager
def compiling(kernel: str) -> Iterator[None]:
    """While a kernel that others do not wait for is compiled."""
    global _spent
    began = time.perf_counter()
    timer = threading.Timer(max(PATIENCE_SECONDS - _spent, 0.0), say)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        took = time.perf_counter() - began
        _spent += took
        log.info("compiled %s in %.1f s", kernel, took)


def say() -> None:
    """Say it once: in the log, and on a terminal or in a notebook, but not from every worker."""
    global _said
    if _said:
        return
    _said = True
    log.info(NOTICE)
    if multiprocessing.parent_process() is None and watched():
        print(f"safespot: {NOTICE}", file=sys.stderr, flush=True)


def watched() -> bool:
    """Whether standard error is shown to somebody: a terminal, or a notebook."""
    return "ipykernel" in sys.modules or (sys.stderr is not None and sys.stderr.isatty())
