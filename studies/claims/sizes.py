"""The shipped sweeps: TOML files beside this one, each with a table of sizes.

A file is a sweep (docs/experiments.md) with `sizes`: how many episodes and seeds at each. A problem with a `size` of
its own is for that size alone. ``audit = true`` asks for the columns of `audit` beside those of the store.
"""

from __future__ import annotations

import tomllib
from enum import StrEnum
from pathlib import Path
from typing import Any

from safespot.experiments.spec import RunSpec, as_spec


class Size(StrEnum):
    """How much is run."""

    quick = "quick"
    full = "full"
    extended = "extended"


def shipped_runs(name: str, size: Size) -> list[RunSpec]:
    """Return the runs of a shipped sweep at a size."""
    content = _content(name)
    content.pop("audit", None)
    chosen = content.pop("sizes")[size]
    problems = [problem for problem in content["problem"] if problem.pop("size", size) == size]
    return as_spec({**content, **chosen, "problem": problems}, f"{name}.toml").runs()


def is_audited(name: str) -> bool:
    """Return whether the runs of a shipped sweep are audited."""
    return bool(_content(name).get("audit", False))


def _content(name: str) -> dict[str, Any]:
    source = Path(__file__).parent / "sweeps" / f"{name}.toml"
    return tomllib.loads(source.read_text(encoding="utf-8"))
