"""The command `safespot`.

Every subcommand answers in text for people or, with ``--json``, in one JSON document on standard output; progress
goes to standard error. It ends with 0 for success, 2 for a wrong call or wrong input, 1 for a failure, 130 after
Ctrl-C.
"""

from __future__ import annotations

from . import learning, logs, problems, reporting, serving, warming, watching
from .application import app, main

__all__ = [
    "app",
    "learning",
    "logs",
    "main",
    "problems",
    "reporting",
    "serving",
    "warming",
    "watching",
]
