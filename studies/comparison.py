"""All learners side by side, limits known and limits learned: the tables of results/learners.md.

    safespot sweep examples/sweeps/learners.toml --out learners
    python -m studies.comparison learners

Time is the processor's for an episode, plans and exact values included, as the sweep's workers had it.
"""

from __future__ import annotations

import argparse
from collections import defaultdict
from collections.abc import Iterator
from datetime import date
from pathlib import Path

from safespot.experiments import Store
from safespot.experiments.summary import Summary, summarize

from .record import RESULTS, machine, where, write_between

PAGE = RESULTS / "learners.md"
METRICS = ("strong_regret", "regret", "strong_violation", "violation")


def tables(store: Store) -> Iterator[str]:
    """One for each problem, a row for each learner."""
    seconds = {about["run"]: about["provenance"]["processor_seconds"] for about in store.runs()}
    problems: dict[str, list[Summary]] = defaultdict(list)
    for summary in summarize(store):
        problems[summary.group.about["problem"]].append(summary)
    for problem, summaries in problems.items():
        about = summaries[0].group.about
        yield (
            f"**`{problem}`**, {about['episodes']:,} episodes, "
            f"{len(summaries[0].group.seeds)} seeds\n"
        )
        yield "| learner | limits | strong regret | weak regret | strong violation | weak violation | time |"
        yield "|---|---|---:|---:|---:|---:|---:|"
        for summary in sorted(summaries, key=_order):
            group = summary.group
            known = "thresholds" in group.about["learner_options"]
            spent = sum(seconds[run] for run in group.runs)
            episode = 1e6 * spent / len(group.runs) / group.about["episodes"]
            yield " ".join(
                [
                    f"| `{group.about['learner']}` | {'known' if known else 'learned'} |",
                    *(f"{round(summary.final[metric].mean) + 0:,} |" for metric in METRICS),
                    f"{episode:,.1f} µs |",
                ]
            )
        yield ""


def _order(summary: Summary) -> tuple[bool, float]:
    """Limits known first; then by how unsafe the run was."""
    learned = "thresholds" not in summary.group.about["learner_options"]
    return learned, summary.final["strong_violation"].mean


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m studies.comparison", description=__doc__)
    parser.add_argument("store", type=Path)
    measured = tables(Store(parser.parse_args().store))
    lines = [where(machine(), date.today().isoformat()), "", *measured]
    write_between(PAGE, "comparison", "\n".join(lines).rstrip())
