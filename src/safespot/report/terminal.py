"""What came out, in a terminal: the words and the small table of the page; and its numbers for other programs."""

from __future__ import annotations

import math
import os
import re
import shutil
import sys
import textwrap
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from ..experiments.summary import Estimate
from . import logs, text
from .findings import Line, Study

PIPE = 200  # columns


def print_study(study: Study) -> None:
    """What was run, the small table of it, and what it says; on a screen of 25 lines and 80 columns."""
    say([text.what(study)])
    print()
    heads = [f"{cell.text}\n{cell.note}" for cell in text.short_head(study)]
    print_table(heads, [[_cell(cell) for cell in row] for row in text.short_rows(study)])
    print()
    say(text.to_deploy(study))
    if study.log is None:
        say(text.verdict(study))
    else:  # each sentence says by itself that it speaks of a model
        for sentence in text.verdict(study):
            say([sentence])
    say(text.surprise(study))
    if not text.proving(study) and (certified := text.certificates(study)):
        print("May the last policy be deployed? What the learners' own data prove:")
        for sentence in certified:
            say([f"  {sentence}"])


def say(sentences: Sequence[str]) -> None:
    """A paragraph, as wide as the terminal."""
    if sentences:
        print(textwrap.fill(" ".join(sentences), width()))


def width() -> int:
    """Of the terminal; nobody watches a pipe: there a line may be long, unless somebody says how wide it is."""
    said = os.environ.get("COLUMNS", "")
    if said.isdigit() and int(said) > 0:
        return int(said)
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else PIPE


def as_table(study: Study) -> dict[str, Any]:
    """The small table as texts."""
    return {
        "heads": [f"{cell.text} {cell.note}".strip() for cell in text.head(study)],
        "rows": [[_cell(cell) for cell in row] for row in text.rows(study)],
    }


def _cell(cell: text.Cell) -> str:
    return cell.text + {True: " kept", False: " broken", None: ""}[cell.kept]


def as_dict(study: Study) -> dict[str, Any]:
    """The numbers of the small table."""
    return {
        "problem": study.name,
        **_of_log(study),
        "episodes": study.episodes,
        "optimum": _number(study.optimum(study.episodes)),
        "limits": [
            {"sense": sense, "limit": float(limit)}
            for sense, limit in zip(study.senses, study.limits(study.episodes), strict=True)
        ],
        "lines": [
            {
                "name": line.name,
                "seeds": list(line.group.seeds),
                "reward": _estimate(line.late("value")),
                "constraints": [_estimate(line.late(f"constraint_{i}")) for i in range(study.m)],
                "kept": study.kept(line),
                "certificates": _of_world(study, line, "certificate"),
                "certified": _of_world(study, line, "certified"),
                "proposal": [about.get("proposal") for about in line.abouts],
                "violation_early": _estimate(line.rate("strong_violation", late=False)),
                "violation_late": _estimate(line.rate("strong_violation", late=True)),
                "threshold_lower": [_end(line, f"threshold_lower_{i}") for i in range(study.m)],
                "threshold_upper": [_end(line, f"threshold_upper_{i}") for i in range(study.m)],
                "evidence_violation": [
                    [_end(line, f"evidence_violation_{end}_{i}") for end in ("lower", "upper")]
                    for i in (range(study.m) if study.metered else ())
                ],
            }
            for line in study.lines
        ],
    }


def _of_world(study: Study, line: Line, name: str) -> list[Any]:
    """What the runs of a line have proven; nothing where they were simulated in the model of a log."""
    return [about.get(name) if study.log is None else None for about in line.abouts]


def _of_log(study: Study) -> dict[str, Any]:
    """That everything is about the model of a log, and what the log itself proves of the limits."""
    if study.log is None:
        return {}
    return {
        "of": logs.of_model(study),
        "proven_limits": list(logs.limits(study)),
        "notes": logs.proven(study),
    }


def _estimate(found: Estimate) -> dict[str, Any]:
    return {k: _number(v) for k, v in asdict(found).items()}


def _end(line: Line, column: str) -> float | None:
    return _number(float(line.columns[column][:, -1].mean()))


def _number(value: float) -> float | None:
    """JSON has no NaN."""
    return None if math.isnan(value) else value


def print_table(heads: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """Columns of numbers stand on the right."""
    from rich.console import Console
    from rich.table import Table

    table = Table(box=None, pad_edge=False, header_style="bold")
    for i, head in enumerate(heads):
        numbers = all(re.fullmatch(r"[-−+.,e0-9]+|-|–", str(row[i])) for row in rows)
        table.add_column(head, justify="right" if numbers else "left", overflow="fold")
    for row in rows:
        table.add_row(*(str(cell) for cell in row))
    Console(width=width(), highlight=False, markup=False).print(table)
