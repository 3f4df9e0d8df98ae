"""The benchmarks by section, and how one is measured."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import replace

from . import environments, growth, learners, oracle, processes, sweeps, training
from .record import Benchmark, Row, machine, shown

__all__ = ["SECTIONS", "machine", "measure", "shown"]

SECTIONS: dict[str, tuple[Benchmark, ...]] = {
    "oracle": oracle.BENCHMARKS,
    "training": training.BENCHMARKS + growth.BENCHMARKS + processes.BENCHMARKS,
    "sweeps": sweeps.BENCHMARKS,
    "learners": learners.BENCHMARKS,
    "environments": environments.BENCHMARKS,
}


def measure(section: str, *, full: bool) -> Iterator[Row]:
    """The rows of a section, each as soon as it is measured; says on standard error where it is."""
    chosen = [b for b in SECTIONS[section] if full or not b.full]
    for number, benchmark in enumerate(chosen, 1):
        print(f"{section} {number}/{len(chosen)}: {benchmark.name}", file=sys.stderr, flush=True)
        for row in benchmark.measure():
            yield replace(row, full=benchmark.full)
