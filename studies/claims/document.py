"""The document: Markdown with its figures beside it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from . import text
from .verdicts import Claim, Judgment

if TYPE_CHECKING:
    from .verifying import Verification


def render(made: Verification) -> str:
    """The whole document."""
    head = f"# {text.TITLE}\n\n{text.ABOUT[made.size]} {text.counted(made)}\n\n{text.LEAD}\n"
    summary = [("claim", "statement", "outcome")] + [
        (f"[{claim.title}](#{_anchor(claim.title)})", verdict.statement, f"**{verdict.outcome}**")
        for claim, judgment in made.judged
        for verdict in judgment.verdicts
    ]
    facts = "\n".join(f"- {name}: {fact}" for name, fact in text.facts(made))
    parts = [
        head,
        _table(summary),
        *(_section(claim, judgment) for claim, judgment in made.judged),
        f"## What was run\n\n{facts}\n\n{_table(text.budget(made))}",
    ]
    return "\n".join(parts)


def _section(claim: Claim, judgment: Judgment) -> str:
    verdicts = "\n".join(
        f"- **{v.outcome}.** *{v.statement}* {v.reason}\n  Test: {v.test}."
        for v in judgment.verdicts
    )
    figures = "\n".join(
        f"![{f.says}](figures/{f.name}.svg)\n\n{f.says}\n" for f in judgment.figures
    )
    notes = "\n".join(f"{note}\n" for note in judgment.notes)
    tables = "\n".join(f"**{t.title}**\n\n{_table(t.rows)}" for t in judgment.tables)
    says = f"{claim.says}\n*Stated in:* {claim.place}."
    return f"## {claim.title}\n\n{says}\n\n{verdicts}\n\n{figures}\n{notes}\n{tables}"


def _table(rows: Sequence[tuple[str, ...]]) -> str:
    head, *body = (" | ".join(cell.replace("|", "\\|") for cell in row) for row in rows)
    rule = " | ".join("---" for _ in rows[0])
    return "\n".join(f"| {line} |" for line in (head, rule, *body)) + "\n"


def _anchor(title: str) -> str:
    kept = "".join(c for c in title.lower() if c.isalnum() or c in " -")
    return kept.replace(" ", "-")
