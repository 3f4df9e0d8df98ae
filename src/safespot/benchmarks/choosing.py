"""What the options do, measured: the tables of docs/choosing.md, from shipped sweeps.

    python -m safespot.benchmarks.choosing FOLDER

does the sweeps of `SWEEPS` that are not done yet, a store for each in FOLDER, and writes their tables. It takes about
three minutes of processor time. The numbers depend on seeds and versions, not on the machine's speed.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path

from safespot.experiments import Store, sweep
from safespot.report import findings
from safespot.report.findings import Line, Study

from .record import CHECKOUT, write_between

PAGE = CHECKOUT / "docs" / "choosing.md"
SWEEPS = ("tradeoff", "known-thresholds", "thresholds", "bonus", "rho", "drift")


def table(store: Store) -> Iterator[str]:
    """A row for each setting and length."""
    yield "| setting | episodes | reward | of the optimum | short by, early | short by, late | limit known |"
    yield "|---|---:|---:|---:|---:|---:|---:|"
    for study in findings.read(store):
        for line in study.lines:
            yield row(study, line)


def row(study: Study, line: Line) -> str:
    """Rewards are those of the last quarter; early and late are the first and the last; shortfalls are strong."""
    reward = line.late("value").mean
    early, late = (line.rate("strong_violation", late=which).mean for which in (False, True))
    learned = "thresholds" not in line.group.about["learner_options"]
    lower, upper = (line.columns[f"threshold_{end}_0"][:, -1].mean() for end in ("lower", "upper"))
    return (
        f"| {line.name} | {study.episodes:,} | {reward:.3f} | {reward / study.optimum(study.episodes):.1%} "
        f"| {early:.4f} | {late:.4f} | {f'± {(upper - lower) / 2:.3f}' if learned else 'given'} |"
    )


def main() -> None:
    """Do what is not done, and write."""
    parser = argparse.ArgumentParser(
        prog="python -m safespot.benchmarks.choosing", description=__doc__
    )
    parser.add_argument("folder", type=Path)
    folder = parser.parse_args().folder
    for name in SWEEPS:
        swept = sweep(CHECKOUT / "examples" / "sweeps" / f"{name}.toml", folder / name)
        write_between(PAGE, name, "\n".join(table(swept.store)))


if __name__ == "__main__":
    main()
