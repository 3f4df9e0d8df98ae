"""What a benchmark leaves behind: rows, kept in `results/speed.json` and shown in `results/speed.md`.

A section is a module of benchmarks. Both files are rewritten section by section, so that one can be
measured again without the others.
"""

from __future__ import annotations

import json
import os
import platform
import re
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from datetime import date
from importlib.metadata import version
from pathlib import Path
from statistics import median
from typing import Any, TypeVar

CHECKOUT = Path(__file__).parents[1]  # figures are written into its docs
RESULTS = CHECKOUT / "studies" / "results"
SPEED, PAGE = RESULTS / "speed.json", RESULTS / "speed.md"
PACKAGES = ("numpy", "numba", "scipy")

T = TypeVar("T")


@dataclass(frozen=True)
class Row:
    """One figure, and what it is compared with."""

    name: str  # of the benchmark that measured it
    what: str
    measured: float
    unit: str
    versus: float | None = None  # the other side, in the same unit
    target: str = ""
    reached: bool | None = None
    note: str = ""

    @property
    def ratio(self) -> float | None:
        """How many times less than the other side."""
        return None if self.versus is None else self.versus / self.measured

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self) | {"ratio": self.ratio}


@dataclass(frozen=True)
class Benchmark:
    """A measurement with a name."""

    name: str
    measure: Callable[[], Sequence[Row]]


def timed(
    work: Callable[..., T], *arguments: Any, repeat: int = 1, **options: Any
) -> tuple[float, T]:
    """The median processor time of `repeat` calls in seconds, and what the last one returned.

    Everything timed runs in one thread, so that what else the machine does hardly counts.
    """
    if repeat > 1:
        work(*arguments, **options)  # not timed: kernels compile
    times = []
    for _ in range(repeat):
        begin = time.process_time()
        result = work(*arguments, **options)
        times.append(time.process_time() - begin)
    return median(times), result


def keep(section: str, rows: Sequence[Row]) -> None:
    """Replace the section's rows in both files."""
    results = json.loads(SPEED.read_text()) if SPEED.exists() else {}
    results[section] = {
        "machine": machine(),
        "date": date.today().isoformat(),
        "rows": [row.as_dict() for row in rows],
    }
    SPEED.write_text(json.dumps(results, indent=2, ensure_ascii=False) + "\n")
    write_between(PAGE, section, _table(rows, results[section]))


def write_between(page: Path, name: str, text: str) -> None:
    """Replace what stands between the marks of that name on a page."""
    begin, end = f"<!-- {name}:begin -->\n", f"<!-- {name}:end -->"
    written, found = re.subn(
        f"({begin}).*?({end})",
        lambda marks: f"{marks[1]}{text}\n{marks[2]}",
        page.read_text(),
        flags=re.DOTALL,
    )
    if found != 1:
        raise SystemExit(f"{page} needs the marks {begin.strip()} and {end} once, in this order.")
    page.write_text(written)


def machine() -> dict[str, Any]:
    """What the figures were measured on."""
    return {
        "cpu": _cpu(),
        "cores": os.cpu_count(),
        "python": platform.python_version(),
        **{package: version(package) for package in PACKAGES},
    }


def where(about: dict[str, Any], day: str) -> str:
    """The line above a table: on what it was measured, and when."""
    packages = ", ".join(f"{package} {about[package]}" for package in PACKAGES)
    return f"{about['cpu']}, {about['cores']} cores; Python {about['python']}, {packages}; {day}."


def shown(row: Row) -> str:
    """The row in one line of text."""
    return ", ".join(cell for cell in _cells(row) if cell)


def _cpu() -> str:
    cpuinfo = Path("/proc/cpuinfo")
    models = re.findall(r"model name\s*:\s*(.+)", cpuinfo.read_text() if cpuinfo.exists() else "")
    return models[0] if models else platform.processor() or platform.machine()


def _table(rows: Sequence[Row], section: dict[str, Any]) -> str:
    return "\n".join(
        [
            where(section["machine"], section["date"]),
            "",
            "| what | measured | other side | ratio | target | notes |",
            "|---|---:|---:|---:|---|---|",
            *(f"| {' | '.join(_cells(row))} |" for row in rows),
        ]
    )


def _cells(row: Row) -> tuple[str, ...]:
    verdict = {True: "reached", False: "**not reached**", None: ""}[row.reached]
    return (
        row.what,
        _amount(row.measured, row.unit),
        "" if row.versus is None else _amount(row.versus, row.unit),
        "" if row.ratio is None else _amount(row.ratio, "×"),
        f"{row.target}: {verdict}" if row.target else "",
        row.note,
    )


def _amount(value: float, unit: str) -> str:
    return f"{value:.3g} {unit}" if value < 1000 else f"{value:.0f} {unit}"
