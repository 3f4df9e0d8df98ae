"""Measure speed and keep the figures: `python -m studies.speed [SECTION ...]`; `make bench` does them all."""

from __future__ import annotations

import argparse
import sys

from ..record import Benchmark, keep, shown
from . import environments, episodes, learners, oracle, sweeps

SECTIONS: dict[str, tuple[Benchmark, ...]] = {
    "episodes": episodes.BENCHMARKS,
    "oracle": oracle.BENCHMARKS,
    "learners": learners.BENCHMARKS,
    "environments": environments.BENCHMARKS,
    "sweeps": sweeps.BENCHMARKS,
}


def main() -> None:
    """Measure section by section; each is kept as soon as it is complete."""
    parser = argparse.ArgumentParser(prog="python -m studies.speed", description=__doc__)
    parser.add_argument("sections", nargs="*", metavar="SECTION", help=", ".join(SECTIONS))
    asked = parser.parse_args()
    for section in asked.sections or SECTIONS:
        rows = []
        for number, benchmark in enumerate(SECTIONS[section], 1):
            print(f"{section} {number}/{len(SECTIONS[section])}: {benchmark.name}", file=sys.stderr)
            for row in benchmark.measure():
                rows.append(row)
                print(f"  {shown(row)}", file=sys.stderr, flush=True)
        keep(section, rows)


if __name__ == "__main__":
    main()
