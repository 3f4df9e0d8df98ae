"""The shipped sweeps: TOML files beside this one, each with a table of sizes.

A file is a sweep (docs/experiments.md) with `sizes`: how many episodes and seeds at each. A problem with a `size` of
its own is for that size alone. Every run is audited, unless the file says another `track`.
"""

from __future__ import annotations

import tomllib
from enum import StrEnum
from importlib.resources import files as resources
from typing import Any

from ..experiments.spec import RunSpec, as_spec


class Size(StrEnum):
    """How much is run."""

    quick = "quick"
    full = "full"
    extended = "extended"


def shipped_runs(name: str, size: Size) -> list[RunSpec]:
    """The runs of a shipped sweep at a size."""
    source = resources(__package__).joinpath("sweeps", f"{name}.toml")
    content: dict[str, Any] = tomllib.loads(source.read_text(encoding="utf-8"))
    chosen = content.pop("sizes")[size]
    problems = [problem for problem in content["problem"] if problem.pop("size", size) == size]
    whole = {"track": "audit", **content, **chosen, "problem": problems}
    return as_spec(whole, source.name).runs()
