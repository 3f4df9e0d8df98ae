"""The page: one HTML file that holds its data, its charts and all that draws them.

Vega is embedded once; `page.js` draws every chart of the study in view over the tables in the page and turns tables
into CSV; `labels.js` keeps the texts of a chart apart; `page.css` knows light, dark, phone and paper.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from html import escape
from importlib.resources import files as resources
from pathlib import Path
from typing import Any

from .. import __version__, files
from ..experiments import Store
from . import tables
from .charts import charts
from .findings import POINTS, Study, read
from .sections import main
from .vega import bundle

LARGEST = 2_000_000  # bytes of a page
PALETTE = 7  # lines up to which each has a color of its own
FOOTER = f"""safespot {__version__}. The line of a chart is the mean over seeds, its band the 95 % bootstrap interval
of that mean. Early and late are the first and the last quarter of the episodes. A limit counts as kept when the late
average breaks it by less than a thousandth of its range."""

Shown = tuple[Study, dict[str, tables.Table]]


def write(store: Store, path: Path) -> Path:
    """Write the page."""
    files.replace(path, whole(store).encode())
    return path


def whole(store: Store) -> str:
    """The page of a store, as fine as fits into a file of `LARGEST` bytes."""
    for points in (POINTS, POINTS // 2, POINTS // 4):
        shown = [(study, tables.every(study, store)) for study in read(store, points)]
        page = render(shown)
        if len(page.encode()) > LARGEST:
            for _, each in shown:
                del each["runs"]  # the store has them
            page = render(shown)
        if len(page.encode()) <= LARGEST:
            break
    return page


def render(shown: Sequence[Shown]) -> str:
    """The page of some studies."""
    names = [study.name for study, _ in shown]
    title = names[0] if len(names) == 1 else f"{len(names)} studies"
    data = [
        {
            "names": [line.name for line in study.lines],
            "tables": numbers,
            "charts": charts(study, numbers),
        }
        for study, numbers in shown
    ]
    body = "\n".join(main(study, numbers, k) for k, (study, numbers) in enumerate(shown))
    colors = _colors(max(len(study.lines) for study, _ in shown))
    content = f"""<body>
<noscript><p class="note">Without JavaScript this page has words and tables, but no charts.</p></noscript>
{_picker(names)}
{body}
<footer>{FOOTER}</footer>
<script type="application/json" id="data">{_json(data)}</script>"""
    return document(title, content, "page.js", colors)


def document(title: str, body: str, script: str | None = None, more_style: str = "") -> str:
    """A whole HTML file that brings all it needs: the style of every page and, for a page with a script, Vega.

    `body` begins with its own tag, which the script may read.
    """
    parts = [] if script is None else [bundle(), _part("labels.js"), _part(script)]
    scripts = "".join(f"<script>{part}</script>\n" for part in parts)
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>safespot: {escape(title)}</title>
<link rel="icon" href="data:,">
<style>{_part("page.css")}{more_style}</style>
</head>
{body}
{scripts}</body>
</html>
"""


def _picker(names: Sequence[str]) -> str:
    """Which study is in view."""
    if len(names) == 1:
        return ""
    options = "".join(
        f'<option value="{k}">{escape(name)}</option>' for k, name in enumerate(names)
    )
    return f'<nav><label class="choose">Study <select id="study">{options}</select></label></nav>'


def _part(name: str) -> str:
    return resources(__package__).joinpath(name).read_text(encoding="utf-8")


def _json(data: Any) -> str:
    text = json.dumps(data, separators=(",", ":"), allow_nan=False, ensure_ascii=False)
    return text.replace(
        "<", "\\u003c"
    )  # nothing in it can end the script element, or begin a comment


def _colors(lines: int) -> str:
    """A color for each: told apart by any eye up to `PALETTE`, beyond that a ramp from careful to bold."""
    chips = "".join(f".g{k}{{background:var(--g{k})}}" for k in range(lines))
    if lines <= PALETTE:
        return chips
    light, dark = (
        "".join(f"--g{k}:{_blend(ramp, k / (lines - 1))};" for k in range(lines))
        for ramp in (("0072b2", "8a8a8a", "d55e00"), ("56b4e9", "b0b0b0", "ff9a4d"))
    )
    return (
        f":root{{{light}}}@media screen and (prefers-color-scheme:dark){{:root{{{dark}}}}}{chips}"
    )


def _blend(ramp: tuple[str, str, str], where: float) -> str:
    """A color on the way from the first over the second to the third."""
    first, second = ramp[:2] if where <= 0.5 else ramp[1:]
    part = 2.0 * where if where <= 0.5 else 2.0 * where - 1.0
    pairs = ((int(first[n : n + 2], 16), int(second[n : n + 2], 16)) for n in (0, 2, 4))
    return "#" + "".join(f"{round((1.0 - part) * a + part * b):02x}" for a, b in pairs)
