"""Run the benchmarks and keep their figures: `python -m studies [--only SECTION ...] [--full]`."""

from __future__ import annotations

import argparse
import sys

from . import scaling
from studies.record import keep, shown
from .sections import SECTIONS, measure


def main() -> None:
    """Measure section by section; each is kept as soon as it is complete."""
    parser = argparse.ArgumentParser(prog="python -m studies", description=__doc__)
    parser.add_argument("--only", nargs="+", choices=SECTIONS, default=list(SECTIONS))
    parser.add_argument("--full", action="store_true", help="also what takes many minutes")
    options = parser.parse_args()
    for section in options.only:
        rows = []
        for row in measure(section, full=options.full):
            rows.append(row)
            print(f"  {shown(row)}", file=sys.stderr, flush=True)
        keep(section, rows, full=options.full)
    scaling.write()


if __name__ == "__main__":
    main()
