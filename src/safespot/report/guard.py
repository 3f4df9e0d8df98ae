"""The panel of a study's guards: the budget, what was spent of it, and who played."""

from __future__ import annotations

from html import escape
from typing import Any

from .findings import Line, Study
from .text import number

SAYS = """A guard played the learner’s policy only while the budget for violation left room for the worst that one more
episode could do, and the baseline otherwise. Spent: the bounds that the episodes prove of the violation so far, the
widest over seeds; below zero it is a surplus. If the baseline keeps every limit, the violation never exceeds the
budget, with the confidence that the guard was made for."""


def section(study: Study) -> str:
    """The panel; nothing where no line has a guard."""
    guarded = [line for line in study.lines if all(about.get("guard") for about in line.abouts)]
    rows = "".join(_row(study, line, i) for line in guarded for i in range(study.m))
    if not rows:
        return ""
    heads = (
        "Setting",
        *(("Limit",) if study.m > 1 else ()),
        "Budget",
        "Spent",
        "Who played",
        "Baseline proven",
    )
    head = "".join(f'<th scope="col">{name}</th>' for name in heads)
    return f"""<section><h2>The budget for violation</h2><p>{SAYS}</p>
<div class="wide" tabindex="0" role="region" aria-label="Budgets"><table class="results">
<thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table></div></section>"""


def _row(study: Study, line: Line, i: int) -> str:
    """What the guards of a line ended with, for limit i."""
    found: list[dict[str, Any]] = [about["guard"] for about in line.abouts]
    low = min(each["spent"][0][i] for each in found)
    high = max(each["spent"][1][i] for each in found)
    share = sum(each["share"] for each in found) / len(found)
    verdicts = sorted({each["baseline_verdict"][i] for each in found})
    cells = [
        *([study.called(i)] if study.m > 1 else []),
        number(found[0]["budget"][i]),
        f"{number(low)} to {number(high)}",
        f"learner {100 * share:.1f} %, baseline {100 * (1 - share):.1f} %",
        ", ".join(verdicts),
    ]
    told = "".join(f"<td>{escape(cell)}</td>" for cell in cells)
    return f'<tr><th scope="row">{escape(line.name)}</th>{told}</tr>'
