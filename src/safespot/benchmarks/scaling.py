"""What an episode and a sweep cost as they grow: the tables of docs/performance.md, from `results.json`.

    python -m safespot.benchmarks.scaling

Nothing is measured here; `python -m safespot.benchmarks --only training` does that, and then writes these tables, too.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from .record import CHECKOUT, RESULTS, where, write_between

PAGE = CHECKOUT / "docs" / "performance.md"
GROWTH = re.compile(
    r"growth of an episode with (\w+) from (\d+) to (\d+) \(counts in (a block|lists); (.*)\)"
)
EPISODE = re.compile(
    r"an episode(?: after [\d,]+)?, (S = \d+, A = \d+, H = \d+, m = \d+).*(bonus scale [\d.]+)"
)
SECONDS = {"µs": 1e-6, "ms": 1e-3}
SWEEP = 5 * 8 * 1_000_000  # episodes: five settings, eight seeds, a million each


def growth(section: dict[str, Any]) -> Iterator[str]:
    """An exponent for each size, in both layouts."""
    yield where(section["machine"], section["date"])
    yield ""
    yield "| what grows | small problems (counts in a block) | large ones (counts in lists) |"
    yield "|---|---:|---:|"
    found: dict[str, dict[str, str]] = {}
    for row in section["rows"]:
        if match := GROWTH.match(row["what"]):
            size, first, last, layout = match.group(1, 2, 3, 4)
            found.setdefault(size, {})[layout] = f"{row['measured']:.2f} ({first} to {last})"
    for size, by in found.items():
        yield f"| {size} | {by.get('a block', '')} | {by.get('lists', '')} |"


def costs(section: dict[str, Any]) -> Iterator[str]:
    """Core-hours of a sweep of five settings, eight seeds and a million episodes, by the size of the problem."""
    yield where(section["machine"], section["date"])
    yield ""
    yield "| problem | an episode | 10⁶ episodes, one core | 5 settings × 8 seeds × 10⁶ episodes |"
    yield "|---|---:|---:|---:|"
    for row in section["rows"]:
        if (match := EPISODE.match(row["what"])) and row["unit"] in SECONDS:
            seconds = row["measured"] * SECONDS[row["unit"]]
            yield (
                f"| {match[1]}, {match[2]} | {row['measured']:.3g} {row['unit']} | {span(1e6 * seconds)} "
                f"| {SWEEP * seconds / 3600:.2g} core-hours |"
            )


def span(seconds: float) -> str:
    """A time as people say it."""
    for unit, size in (("h", 3600.0), ("min", 60.0)):
        if seconds >= 2 * size:
            return f"{seconds / size:.2g} {unit}"
    return f"{seconds:.2g} s"


def tables() -> dict[str, str]:
    """Name of the mark -> what stands between."""
    training = json.loads(RESULTS.read_text(encoding="utf-8"))["training"]
    return {"growth": "\n".join(growth(training)), "core-hours": "\n".join(costs(training))}


def write() -> None:
    """Put the tables on the page."""
    for name, text in tables().items():
        write_between(PAGE, name, text)


if __name__ == "__main__":
    write()
