"""How a command answers."""

from __future__ import annotations

import json
from typing import Any


def print_json(answer: Any) -> None:
    """One document on standard output."""
    print(json.dumps(answer, indent=2, allow_nan=False, default=float))
