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
    rows = "".join(_row(study, line, i) for line in guarded(study) for i in range(study.m))
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


def sentences(study: Study) -> list[str]:
    """The same for a terminal; nothing where no line has a guard."""
    made = []
    for line in guarded(study):
        for i in range(study.m):
            budget, spent, played, _ = _outcome(line, i)
            made.append(
                f"Guard of {line.name}: budget {budget} of violation of {study.called(i)} over all episodes; spent "
                f"{spent}, as the episodes prove if the baseline keeps the limit; {played} of the episodes."
            )
    return made


def guarded(study: Study) -> list[Line]:
    """The lines whose runs all have a guard."""
    return [line for line in study.lines if all(about.get("guard") for about in line.abouts)]


def _outcome(line: Line, i: int) -> tuple[str, str, str, str]:
    """What the guards of a line ended with, for limit i: the budget, what was spent, who played, the baseline."""
    found: list[dict[str, Any]] = [about["guard"] for about in line.abouts]
    low = min(each["spent"][0][i] for each in found)
    high = max(each["spent"][1][i] for each in found)
    share = sum(each["share"] for each in found) / len(found)
    return (
        number(found[0]["budget"][i]),
        f"{number(low)} to {number(high)}",
        f"learner {100 * share:.1f} %, baseline {100 * (1 - share):.1f} %",
        ", ".join(sorted({each["baseline_verdict"][i] for each in found})),
    )


def _row(study: Study, line: Line, i: int) -> str:
    cells = [*([study.called(i)] if study.m > 1 else []), *_outcome(line, i)]
    told = "".join(f"<td>{escape(cell)}</td>" for cell in cells)
    return f'<tr><th scope="row">{escape(line.name)}</th>{told}</tr>'
