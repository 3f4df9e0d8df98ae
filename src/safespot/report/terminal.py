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
from . import guard, logs, proofs, results, text
from .findings import Line, Study

PIPE = 200  # columns
SCREEN = 24  # lines beside the one that names the report
WIDE = 78  # columns that a row needs for one line


def print_study(study: Study) -> None:
    """What was run, the small table of it, and what it says; on a screen of 25 lines and 80 columns."""
    narrow = width() < WIDE
    heads = [f"{cell.text}\n{cell.note}" for cell in results.short_head(study, narrow)]
    table = [[_cell(cell, narrow) for cell in row] for row in results.short_rows(study, narrow)]
    deploy = proofs.to_deploy(study)
    paragraphs = [deploy, text.short_verdict(study) if deploy else text.verdict(study)]
    if study.log is not None:  # each sentence says by itself that it speaks of a model
        paragraphs = [[sentence] for sentence in text.verdict(study)]
    paragraphs.append(text.surprise(study))
    paragraphs += [[sentence] for sentence in guard.sentences(study)]
    paragraphs += [[sentence] for sentence in _certified(study)]
    say([text.what(study)])
    print()
    print_table(heads, table)
    print()
    for paragraph in paragraphs:
        say(paragraph)
    told = (
        4 + len(table) * (2 if narrow else 1) + sum(map(_height, [[text.what(study)], *paragraphs]))
    )
    say_diagnosis(study, SCREEN - told)


def _certified(study: Study) -> list[str]:
    """Whether the last policies may be deployed, where that is not what the table is about."""
    certified = [] if proofs.proving(study) else proofs.certificates(study)
    if any(proofs.PROVEN in sentence for sentence in certified):
        head = "May the last policy be deployed? What the learners' own data prove:"
        return [head, *(f"  {sentence}" for sentence in certified)]
    none = "The learners' own data prove no last policy safe or unsafe; the report says how far."
    return [none] if certified else []


def say_diagnosis(study: Study, room: int) -> None:
    """What keeps lines from being good: as much as there is room for, one at least; the page has all of it."""
    each = [
        f"{name}: {found['what']} Option: {found['option']}."
        for name, findings in text.diagnosis(study).items()
        for found in findings
    ]
    if not each:
        return
    shown = 1
    while shown < len(each) and sum(_height([one]) for one in each[: shown + 1]) < room:
        shown += 1
    left = len(each) - shown
    more = f" {left} more of this kind in the report, with advice." if left else ""
    for sentence in each[: shown - 1]:
        say([sentence])
    say([each[shown - 1] + more])


def _height(sentences: Sequence[str]) -> int:
    """The lines of a paragraph."""
    return len(textwrap.wrap(" ".join(sentences), width()))


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
        "heads": [f"{cell.text} {cell.note}".strip() for cell in results.head(study)],
        "rows": [[_cell(cell) for cell in row] for row in results.rows(study)],
    }


def _cell(cell: results.Cell, narrow: bool = False) -> str:
    word = {True: "kept", False: "broken", None: ""}[cell.kept]
    return f"{cell.text}{chr(10) if narrow else ' '}{word}" if word else cell.text


def as_dict(study: Study) -> dict[str, Any]:
    """The numbers of the small table."""
    return {
        "problem": study.name,
        **_of_log(study),
        "episodes": study.episodes,
        "optimum": _number(study.optimum(study.episodes)),
        "limits": [
            {
                "name": study.called(i),
                "unit": study.names.unit(i),
                "sense": study.senses[i],
                "limit": float(limit),
            }
            for i, limit in enumerate(study.limits(study.episodes))
        ],
        "lines": [
            {
                "name": line.name,
                "seeds": list(line.group.seeds),
                "reward": _estimate(study.late_reward(line)),
                "constraints": [_estimate(study.late_constraint(line, i)) for i in range(study.m)],
                "kept": study.kept(line),
                "certificates": _of_world(study, line, "certificate"),
                "certified": _of_world(study, line, "certified"),
                "proposal": [about.get("proposal") for about in line.abouts],
                "diagnosis": text.diagnosis(study).get(line.name, []),
                "guard": [about.get("guard") for about in line.abouts],
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
