"""Measure the claims: `python -m studies.claims [--size quick] [--out FOLDER] [CLAIM ...]`."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from .sizes import Size
from .text import counted
from .verifying import verify


def main() -> int:
    """Run, and say how many verdicts there are of each kind; 1 where runs failed."""
    parser = argparse.ArgumentParser(prog="python -m studies.claims", description=__doc__)
    parser.add_argument(
        "claims", nargs="*", metavar="CLAIM", help="some claims by name; all by default"
    )
    parser.add_argument("--size", choices=list(Size), default=Size.full)
    parser.add_argument("--out", type=Path, default=Path("results/verify"))
    asked = parser.parse_args()
    made = verify(asked.out, asked.size, claims=asked.claims or None)
    print(counted(made), asked.out / "verification.md")
    return 1 if made.failed else 0


if __name__ == "__main__":
    sys.exit(main())
