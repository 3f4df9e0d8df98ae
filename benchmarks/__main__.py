"""Run the benchmarks: `python -m benchmarks [--only SECTION ...] [--full]`."""

from __future__ import annotations

import argparse
import sys
from dataclasses import replace

from . import growth, learners, oracle, processes, sweeps, training
from .record import Benchmark, keep, shown

SECTIONS: dict[str, tuple[Benchmark, ...]] = {
    "oracle": oracle.BENCHMARKS,
    "training": training.BENCHMARKS + growth.BENCHMARKS + processes.BENCHMARKS,
    "sweeps": sweeps.BENCHMARKS,
    "learners": learners.BENCHMARKS,
}


def main() -> None:
    """Measure section by section; each is kept as soon as it is complete."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--only", nargs="+", choices=SECTIONS, default=list(SECTIONS))
    parser.add_argument("--full", action="store_true", help="also what takes many minutes")
    options = parser.parse_args()
    for section in options.only:
        rows = []
        chosen = [b for b in SECTIONS[section] if options.full or not b.full]
        for number, benchmark in enumerate(chosen, 1):
            print(
                f"{section} {number}/{len(chosen)}: {benchmark.name}", file=sys.stderr, flush=True
            )
            for row in benchmark.measure():
                rows.append(replace(row, full=benchmark.full))
                print(f"  {shown(rows[-1])}", file=sys.stderr, flush=True)
        keep(section, rows, full=options.full)


if __name__ == "__main__":
    main()
