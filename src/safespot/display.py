"""Displays of objects: a short line in a terminal, a small table with a chart in a notebook.

    class Solution(Displayed):
        def _facts(self): return {"value": self.value, …}

`repr` is ``<Solution value 11, …>``; `_repr_html_`, which notebooks call, has the same facts as a table, and the chart
that `_chart` draws, if it does.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from html import escape
from typing import Any

SHOWN = 4  # numbers of an array that a line has room for
LONG = 60  # characters of a fact
COLORS = ("#1f77b4", "#d95f02", "#7570b3", "#1b9e77")
WIDTH, HEIGHT = 240, 70  # of a chart, in pixels


class Displayed:
    """An object that shows itself in a line, and in notebooks as a table."""

    def _facts(self) -> Mapping[str, Any]:
        """Return the values to display by name; the fields, for a record."""
        if is_dataclass(self):
            return {field.name: getattr(self, field.name) for field in fields(self) if field.repr}
        return {}

    def _chart(self) -> str:
        """Return an SVG picture; none by default."""
        return ""

    def __repr__(self) -> str:
        return line(type(self).__name__, self._facts())

    def _repr_html_(self) -> str:
        return table(type(self).__name__, self._facts(), self._chart())


def line(title: str, facts: Mapping[str, Any]) -> str:
    """Return the line ``<Title name value, name value>``."""
    text = ", ".join(f"{name.replace('_', ' ')} {said(value)}" for name, value in facts.items())
    return f"<{title} {text}>" if text else f"<{title}>"


def table(title: str, facts: Mapping[str, Any], chart: str = "") -> str:
    """Return the facts as a table of HTML for a notebook; every text is escaped."""
    rows = "".join(
        f'<tr><th style="text-align:left">{escape(name.replace("_", " "))}</th>'
        f'<td style="text-align:left">{escape(said(value))}</td></tr>'
        for name, value in facts.items()
    )
    head = f'<caption style="text-align:left"><b>{escape(title)}</b></caption>'
    return f"<div><table>{head}{rows}</table>{chart}</div>"


def said(value: Any) -> str:
    """Return a value in few characters: numbers with four digits, long arrays by their shape."""
    if isinstance(value, str):
        return value if len(value) <= LONG else f"{value[: LONG - 1]}…"
    if value is None or isinstance(value, bool):
        return str(value)
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return "–" if math.isnan(value) else f"{value:,.4g}"
    shape = getattr(value, "shape", None)
    if shape is not None:
        return _array(value, shape)
    if isinstance(value, Sequence):
        if len(value) <= SHOWN:
            return f"[{', '.join(said(each) for each in value)}]"
        return f"{len(value):,} entries"
    text = repr(value)
    return text if len(text) <= LONG else f"{text[: LONG - 1]}…"


def _array(value: Any, shape: tuple[int, ...]) -> str:
    if len(shape) == 0:
        return said(value.item())
    if len(shape) == 1 and shape[0] <= SHOWN:
        return said(value.tolist())
    return f"array {'×'.join(map(str, shape))}"


def curves(x: Iterable[float], lines: Mapping[str, Iterable[float]]) -> str:
    """Draw lines over a logarithmic axis of episodes as a small picture."""
    steps = [math.log10(max(float(each), 1.0)) for each in x]
    drawn = {name: [float(each) for each in line] for name, line in lines.items()}
    heights = [each for line in drawn.values() for each in line if math.isfinite(each)]
    if not steps or not heights:
        return ""
    low, high = min(heights), max(heights)
    span, reach = (high - low) or 1.0, (steps[-1] - steps[0]) or 1.0
    parts = []
    for color, (name, line) in zip(COLORS, drawn.items(), strict=False):
        points = " ".join(
            f"{WIDTH * (s - steps[0]) / reach:.1f},{HEIGHT - HEIGHT * (y - low) / span:.1f}"
            for s, y in zip(steps, line, strict=True)
            if math.isfinite(y)
        )
        parts.append(
            f'<polyline points="{points}" fill="none" stroke="{color}" stroke-width="1.5">'
            f"<title>{escape(name)}</title></polyline>"
        )
    legend = " ".join(
        f'<span style="color:{color}">{escape(name)}</span>'
        for color, name in zip(COLORS, drawn, strict=False)
    )
    ends = f"{said(low)} to {said(high)}, episodes on a logarithmic axis"
    return f"{picture(''.join(parts))}<div><small>{legend}: {ends}</small></div>"


def intervals(bounds: Mapping[str, tuple[float, float]]) -> str:
    """Draw intervals as a small picture, a row each, with a line at 0."""
    ends = [0.0, *(float(end) for pair in bounds.values() for end in pair)]
    low, high = min(ends), max(ends)
    span = (high - low) or 1.0
    row = HEIGHT / max(len(bounds), 1)

    def at(value: float) -> str:
        return f"{WIDTH * (value - low) / span:.1f}"

    parts = [f'<line x1="{at(0.0)}" x2="{at(0.0)}" y1="0" y2="{HEIGHT}" stroke="currentColor"/>']
    for k, (name, (left, right)) in enumerate(bounds.items()):
        color = COLORS[3] if left >= 0.0 else COLORS[1]
        y = f"{row * (k + 0.5):.1f}"
        parts.append(
            f'<line x1="{at(left)}" x2="{at(right)}" y1="{y}" y2="{y}" stroke="{color}" stroke-width="6">'
            f"<title>{escape(name)}</title></line>"
        )
    return picture("".join(parts))


def picture(content: str) -> str:
    """Return an SVG picture of the size that a table has beside it."""
    return f'<svg width="{WIDTH}" height="{HEIGHT}" role="img">{content}</svg>'
