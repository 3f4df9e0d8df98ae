"""The page: one HTML file with its pictures, in the style of the report."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from typing import TYPE_CHECKING

from ..report.page import document
from . import text
from .pictures import themed
from .verdicts import Claim, Judgment, Outcome, Verdict

if TYPE_CHECKING:
    from .verifying import Verification

CLASSES = {Outcome.HOLDS: "holds", Outcome.FAILS: "fails", Outcome.OPEN: "open"}
STYLE = """
.outcome { font-weight: 600; white-space: nowrap; }
.holds { color: var(--good); } .holds::before { content: "✓ "; }
.fails { color: var(--bad); } .fails::before { content: "✗ "; }
.open { color: var(--quiet); } .open::before { content: "? "; }
.verdicts { list-style: none; padding: 0; max-width: 56rem; } .verdicts li { margin: 0 0 .8rem; }
.verdicts strong { font-weight: 550; }
td, .summary th { white-space: normal; } .summary a { color: inherit; }
details { margin-top: .75rem; }
figcaption { color: var(--quiet); font-size: .88rem; margin: .25rem 0 1rem; max-width: 46rem; }
figure svg { max-width: 100%; height: auto; }
@media screen and (max-width: 46rem) {
  .summary thead { position: absolute; clip-path: inset(50%); }
  .summary tr { display: block; border-top: 1px solid var(--rule); padding: .45rem 0; }
  .summary th, .summary td { display: block; border: 0; padding: 0; }
  .summary th:empty { display: none; }
}
"""


def render(made: Verification, figures: Mapping[str, str]) -> str:
    """The page of a verification; `figures` are the SVGs by name."""
    sections = "\n".join(_section(claim, judgment, figures) for claim, judgment in made.judged)
    facts = "".join(f"<dt>{escape(k)}</dt><dd>{escape(v)}</dd>" for k, v in text.facts(made))
    body = f"""<body>
<header><h1>{escape(text.TITLE)}</h1>
<p class="lead">{escape(text.ABOUT[made.size])}</p>
<p class="verdict">{escape(text.counted(made))}</p>
<p class="note">{escape(text.LEAD)}</p></header>
{_summary(made)}
{sections}
<section><h2>What was run</h2><dl>{facts}</dl>{_table("Budget", text.budget(made))}</section>"""
    return document(text.TITLE, body, more_style=STYLE)


def _summary(made: Verification) -> str:
    rows = "".join(
        f'<tr><th scope="row">{"" if k else link}</th><td>{escape(verdict.statement)}</td>'
        f"<td>{_outcome(verdict)}</td></tr>"
        for claim, judgment in made.judged
        for link in [f'<a href="#{claim.name}">{escape(claim.title)}</a>']
        for k, verdict in enumerate(judgment.verdicts)
    )
    return f"""<div class="wide" tabindex="0" role="region" aria-label="All verdicts"><table class="results summary">
<thead><tr><th scope="col">claim</th><th scope="col">statement</th><th scope="col">outcome</th></tr></thead>
<tbody>{rows}</tbody></table></div>"""


def _section(claim: Claim, judgment: Judgment, figures: Mapping[str, str]) -> str:
    verdicts = "".join(
        f"<li>{_outcome(v)} <strong>{escape(v.statement)}</strong> {escape(v.reason)}<small>Test: "
        f"{escape(v.test)}.</small></li>"
        for v in judgment.verdicts
    )
    pictures = "".join(
        f'<figure><div role="img" aria-label="{escape(f.says)}">{themed(figures[f.name])}</div>'
        f"<figcaption>{escape(f.says)}</figcaption></figure>"
        for f in judgment.figures
    )
    notes = "".join(f"<p>{escape(note)}</p>" for note in judgment.notes)
    tables = "".join(_table(t.title, t.rows) for t in judgment.tables)
    return f"""<section id="{claim.name}"><h2>{escape(claim.title)}</h2>
<p>{escape(claim.says)} <em>Stated in:</em> {escape(claim.place)}.</p>
<ul class="verdicts">{verdicts}</ul>
{pictures}{notes}{tables}</section>"""


def _outcome(verdict: Verdict) -> str:
    return f'<span class="outcome {CLASSES[verdict.outcome]}">{verdict.outcome}</span>'


def _table(title: str, rows: tuple[tuple[str, ...], ...]) -> str:
    head, *body = rows
    heads = "".join(f'<th scope="col">{escape(cell)}</th>' for cell in head)
    lines = "".join(
        "<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in body
    )
    return f"""<details{" open" if len(body) <= 12 else ""}><summary>{escape(title)}</summary>
<div class="wide" tabindex="0" role="region" aria-label="{escape(title)}">
<table><thead><tr>{heads}</tr></thead><tbody>{lines}</tbody></table></div></details>"""
