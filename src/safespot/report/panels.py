"""Charts of what play itself has shown, for the report and for the live page alike: the meter, and the epochs.

meter     rows: episode, lower_i, upper_i                    the violation so far, as the episodes alone prove it
epochs    rows: group, kind, first, last, verdict, decided     what was played when, and which trials proved what
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .vega import SHORT, Spec, along, calculate, episodes, keep, layer, measure, told

PLAYED = {
    "first": ("first policy", "var(--line)"),
    "explore": ("exploring", "var(--explore)"),
    "try": ("trial of a plan", "var(--careful)"),
    "retreat": ("retreat", "var(--safe-ink)"),
}
ROW = 30  # height of a row of the epochs
LABEL = 130  # pixels of its name, at most


def meter(title: str, i: int) -> Spec:
    """Bounds of limit i's violation, and where it is proven to have been broken or kept."""
    low, high = f"lower_{i}", f"upper_{i}"
    x = measure("episode", title="episode", scale={"nice": False}, axis={"labelExpr": SHORT})
    y = measure(low, title=title, axis={"labelExpr": SHORT})
    band = {"type": "area", "color": "var(--careful)", "opacity": 0.22}
    edge = {"type": "line", "color": "var(--careful)", "strokeWidth": 1.6}
    zero = {"type": "rule", "color": "var(--ink)", "strokeDash": [6, 4]}
    return {
        "width": "container",
        "height": 250,
        "layer": [
            layer("meter", [], band, x=x, y=y, y2={"field": high}),
            layer("meter", [], edge, x=x, y=y, tooltip=told(episode="episode", lower=low, upper=high)),
            layer("meter", [], edge, x=x, y=along(y, high)),
            {"data": {"values": [{}]}, "mark": zero, "encoding": {"y": {"datum": 0}}},
        ],
    }  # fmt: skip


def epochs(names: Sequence[str]) -> Spec:
    """A row for each learner: the parts of its phases, and where a trial was decided.

    Episodes are on a logarithmic axis: every phase is as long as all before it.
    """
    every = {"name": "names", "value": list(names)}
    # Vega measures texts in another font than the page's: leave room for the longest.
    room = min(LABEL, 8 * max(map(len, names)))
    axis = {"labelLimit": LABEL, "labelPadding": 8, "minExtent": room, "grid": False}
    y: Spec = {"field": "named", "type": "nominal", "sort": None, "title": None, "axis": axis}
    x = {**episodes(log=True), "field": "first"}
    named = calculate("named", "names[datum.group]")
    kinds, colors = list(PLAYED), [color for _, color in PLAYED.values()]
    words = {kind: word for kind, (word, _) in PLAYED.items()}
    color = {
        "field": "kind", "type": "nominal", "legend": None, "scale": {"domain": kinds, "range": colors},
    }  # fmt: skip
    tip: list[Any] = [
        {"field": "played", "type": "nominal"},
        *told(**{"from": "first", "to": "last"}),
        {"field": "verdict", "type": "nominal"},
    ]
    played = calculate("played", f"{words}[datum.kind]")
    bars = layer(
        "epochs", [named, played, calculate("end", "datum.last + 1")],
        {"type": "bar", "height": 12, "stroke": "var(--paper)", "strokeWidth": 1},
        x=x, x2={"field": "end"}, y=y, color=color, tooltip=tip,
    )  # fmt: skip
    marks = [
        layer(
            "epochs", [named, keep(f"datum.verdict == '{verdict}'")],
            {"type": "text", "text": sign, "color": ink, "fontSize": 15, "fontWeight": "bold", "dy": -13},
            x=along(x, "decided"), y=y, tooltip=told(**{said: "decided"}),
        )
        for verdict, sign, ink, said in (
            ("kept", "✓", "var(--good)", "certified after episode"),
            ("broken", "✗", "var(--bad)", "proven broken after episode"),
        )
    ]  # fmt: skip
    return {
        "width": "container",
        "height": ROW * len(names),
        "params": [every],
        "layer": [bars, *marks],
    }
