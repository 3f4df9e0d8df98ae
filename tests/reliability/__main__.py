"""What must not happen, in full: python -m tests.reliability [--share 0.05] [--only NAME …] [--write]

Every ordeal is one that `make test` runs at a small size. `--share` makes all of them smaller; `--write` puts the
figures into docs/reliability.md.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

from studies.record import write_between

from tests.reliability import survival
from tests.reliability.disks import InPlace, Power, Unnamed, Unsynced
from tests.reliability.long_runs import long_run

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "reliability.md"
DETERMINISM = (
    "tests/kernels/test_kernels.py::test_compiled_kernels_equal_plain_ones_bit_for_bit",
    "tests/training/test_learn_bits.py::test_two_processes_and_threads_of_libraries_do_not_matter",
    "tests/training/test_learn_bits.py::test_two_threads_at_once_give_what_one_gives",
    "tests/training/test_learn_bits.py::test_going_on_in_another_process",
    "tests/experiments/test_sweep.py::test_one_process_gives_the_same_bits",
    "tests/experiments/test_sweep.py::test_two_processes_give_the_same_bits_though_one_is_killed",
    "tests/experiments/test_sweep.py::test_dask_gives_the_same_bits_though_a_worker_is_killed",
)


@dataclass(frozen=True)
class Found:
    """What came of an ordeal."""

    figures: str  # in one line
    wrong: list[str]


def files_(share: float) -> Found:
    """Mutated files."""
    found = program("tests.reliability.fuzzing", "--mutations", str(int(1_000_000 * share) + 100))
    every = found["targets"].values()
    fared = {
        name: sum(f.get(name, 0) for f in every)
        for name in ("mutations", "equal", "refused", "other", "wrong")
    }
    wrong = [text for f in every for text in f["samples"]] + found["executed"]
    return Found(
        f"{fared['mutations']:,} mutants of {len(every)} kinds of files: {fared['refused']:,} refused, "
        f"{fared['equal']:,} equal, {fared['other']:,} with a right checksum that say something else, "
        f"{fared['wrong']:,} wrong; no code was run",
        wrong,
    )  # fmt: skip


def kills(share: float) -> Found:
    """kill -9 at each write, sync, rename and removal."""
    with tempfile.TemporaryDirectory() as folder:
        points, wrong = survival.kills_at_each_step(Path(folder), goal=3 + int(10 * share))
    return Found(f"{points:,} points, no acknowledged episode lost, every state identical", wrong)


def power(share: float) -> Found:
    """Power failures."""
    found = survival.outages(Power, int(10_000 * share) + 100)
    return Found(f"{found.images:,} different images, all whole", found.wrong)


def broken(share: float) -> Found:
    """Writers that are broken on purpose."""
    cases = {
        "no sync of contents": survival.outages(Unsynced, 1_000),
        "no sync of folders": survival.outages(Unnamed, 1_000),
        "in place": survival.outages(InPlace, 1_000),
        "acknowledges before it writes": survival.outages(
            Power, 1_000, observe=survival.hasty_observe
        ),
    }
    missed = [name for name, found in cases.items() if not found.wrong]
    return Found(f"{len(cases)} of {len(cases)} caught: {', '.join(cases)}", missed)


def long_runs(share: float) -> Found:
    """Many episodes."""
    whole, half = (long_run(int(10_000_000 * share) + 10_000, window) for window in (1.0, 0.5))
    wrong = []
    for found in (whole, half):
        checks = {
            "row sums": found["row_error"] < 1e-12,
            "counts": found["counts"] == [found["episodes"]] * 3,
            "window's sums": found["sums_error"] < 1e-6,
            "ring": found["ring"] <= found["ring_at_most"],
        }
        wrong += [name for name, right in checks.items() if not right]
    if whole["kept"] != whole["kept_early"]:
        wrong.append("memory grows though nothing is forgotten")
    return Found(
        f"{whole['episodes']:,} episodes; gamma = 1: {whole['kept']:,} bytes at a tenth of the way and at the end; "
        f"gamma = 0.5: a window of {half['window']:,} episodes in {half['ring'] / 2**20:,.0f} MB; rows sum to 1 "
        f"within {whole['row_error']:.0e}; {whole['episodes'] / whole['seconds']:,.0f} episodes a second",
        wrong,
    )  # fmt: skip


def determinism(share: float) -> Found:
    """The same digests everywhere."""
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", *DETERMINISM], cwd=ROOT, capture_output=True, text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
    )  # fmt: skip
    wrong = [] if done.returncode == 0 else done.stdout.splitlines()[-10:]
    same = "compiled and plain kernels, 1 and 2 processes, 1 and 2 threads of BLAS, both engines: the same bits"
    return Found(same, wrong)


ORDEALS: dict[str, Callable[[float], Found]] = {
    "files": files_,
    "kills": kills,
    "power": power,
    "broken": broken,
    "long-runs": long_runs,
    "determinism": determinism,
}


def program(module: str, *arguments: str) -> dict[str, Any]:
    """What a fuzzer prints; its kernels run as plain Python, whose arrays have bounds."""
    path = os.pathsep.join([str(ROOT / "src"), str(ROOT)])
    done = subprocess.run(
        [sys.executable, "-m", module, *arguments], cwd=ROOT, stdout=subprocess.PIPE, text=True,
        env={**os.environ, "PYTHONPATH": path, "NUMBA_DISABLE_JIT": "1"},
    )  # fmt: skip
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def main() -> None:
    """Run them one by one; each line is printed as soon as it is known."""
    parser = argparse.ArgumentParser(prog="python -m tests.reliability", description=__doc__)
    parser.add_argument("--share", type=float, default=1.0)
    parser.add_argument("--only", nargs="+", choices=ORDEALS, default=list(ORDEALS))
    parser.add_argument("--write", action="store_true")
    given = parser.parse_args()
    failed = False
    for name in given.only:
        ordeal, began = ORDEALS[name], time.perf_counter()
        found = ordeal(given.share)
        took = time.perf_counter() - began
        print(f"{name} ({took:.0f} s): {found.figures}", file=sys.stderr, flush=True)
        for text in found.wrong:
            print(f"  WRONG: {text}", file=sys.stderr, flush=True)
        failed |= bool(found.wrong)
        if given.write and not found.wrong:
            write(f"| {what(name)} | {found.figures} | {took:.0f} s | {date.today().isoformat()} |")
    sys.exit(failed)


def what(name: str) -> str:
    """An ordeal in the words of the table."""
    return str(ORDEALS[name].__doc__).rstrip(".")


def write(row: str) -> None:
    """Put a row into the table of the page, in place of the one before."""
    old = [line for line in PAGE.read_text(encoding="utf-8").splitlines() if line.startswith("| ")]
    rows = {line.split(" | ")[0]: line for line in (*old, row)}
    about = f"{os.cpu_count()} cores, Python {platform.python_version()}."
    found = [rows[f"| {what(name)}"] for name in ORDEALS if f"| {what(name)}" in rows]
    table = ["| what | found | took | on |", "|---|---|---:|---|", *found]
    write_between(PAGE, "reliability", "\n".join([about, "", *table]))


if __name__ == "__main__":
    main()
