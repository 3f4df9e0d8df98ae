"""Pictures: one kind of chart for all claims, and its SVG, the same bytes every time.

Charts are Vega-Lite, rendered by vl-convert.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import vl_convert

PAPER, INK, QUIET, RULE = "#ffffff", "#1b1f24", "#59626d", "#e6e9ec"
COLORS = ("#0072b2", "#d55e00", "#009e73", "#b0568f", "#8a6d00", "#2a9fd6", "#555555")
REFERENCE = COLORS[-1]  # of the one line that the others are held against
WIDTH, HEIGHT, COLUMNS = 230, 180, 3
SHORT = "(abs(datum.value) < 1 ? format(datum.value, '~g') : format(datum.value, '~s'))"
POWER = "datum.value == pow(10, round(log(datum.value) / LN10))"
ROUND = (
    "indexof([1, 2, 5], round(datum.value / pow(10, floor(log(datum.value) / LN10 + 1e-9)))) >= 0"
)
Points = Sequence[dict[str, Any]]


def lines(
    points: Points, x: str, y: str, *, log_x: bool = True, log_y: bool = True, free_y: bool = False
) -> dict[str, Any]:
    """Lines of `series` over x, in a `panel` each; `dashed` ones are references, `low` and `high` whiskers.

    Points are dicts with x, y, series, and where there are such: panel, low, high, dashed. Series whose names are the
    same up to a comma share a color. On a logarithmic axis what is not positive is not drawn. `free_y`: every panel
    has a scale of its own.
    """
    drawn = [
        {"panel": "", "dashed": False, "color": str(point["series"]).partition(",")[0], **point}
        for point in points
        if point["y"] == point["y"] and (not log_y or point["y"] > 0.0)
    ]
    for point in drawn:
        if log_y and point.get("low", 1.0) <= 0.0:
            point["low"] = point["y"]
    line = {"type": "line", "strokeWidth": 1.6}
    return _chart(
        drawn, _axis(drawn, "x", x, log_x), _axis(drawn, "y", y, log_y), line, free_y=free_y
    )


def dots(points: Points, x: str, y: str) -> dict[str, Any]:
    """Points joined in their order, with whiskers both ways, in a panel each with scales of its own."""
    drawn = [
        {"panel": "", "dashed": False, "color": point["series"], "order": k, **point}
        for k, point in enumerate(points)
    ]
    line = {"type": "line", "strokeWidth": 1, "opacity": 0.5}
    axes = _axis(drawn, "x", x, False), _axis(drawn, "y", y, False)
    return _chart(drawn, *axes, line, free_y=True, free_x=True)


def _chart(
    points: Points,
    x: dict[str, Any],
    y: dict[str, Any],
    line: dict[str, Any],
    *,
    free_y: bool,
    free_x: bool = False,
) -> dict[str, Any]:
    names = list(dict.fromkeys(point["color"] for point in points))
    panels = list(dict.fromkeys(point["panel"] for point in points))
    solid = {point["color"] for point in points if not point["dashed"]}
    shown = [COLORS[k % len(COLORS)] for k in range(len(names))]
    if len(names) - len(solid) == 1:
        shown = [c if name in solid else REFERENCE for name, c in zip(names, shown, strict=True)]
    color = {
        "field": "color", "type": "nominal", "title": None, "scale": {"domain": names, "range": shown},
    }  # fmt: skip
    dash = {"condition": {"test": "datum.dashed", "value": [4, 3]}, "value": [1, 0]}
    joined = {"x": x, "y": y, "color": color, "strokeDash": dash, "detail": {"field": "series"}}
    if free_x:
        joined["order"] = {"field": "order", "type": "quantitative"}
    layers: list[dict[str, Any]] = [
        {"mark": line, "encoding": joined},
        {
            "transform": [{"filter": "!datum.dashed"}],
            "mark": {"type": "point", "filled": True, "size": 20, "opacity": 1},
            "encoding": {"x": x, "y": y, "color": color},
        },
    ]
    for low, high, axis, across in (("low", "high", "y", y), ("left", "right", "x", x)):
        if any(low in point for point in points):
            other = {"x": x} if axis == "y" else {"y": y}
            ends = {axis: {**across, "field": low}, f"{axis}2": {"field": high}}
            layers.append(
                {
                    "transform": [{"filter": f"isValid(datum.{low})"}],
                    "mark": {"type": "rule", "strokeWidth": 1, "opacity": 0.7},
                    "encoding": {**other, **ends, "color": color},
                }
            )
    chart: dict[str, Any] = {"data": {"values": list(points)}, "config": CONFIG}
    if len(panels) == 1:
        return {**chart, "width": 2 * WIDTH, "height": HEIGHT, "layer": layers}
    columns = 2 if len(panels) in (2, 4) else COLUMNS  # no row half empty
    layered = {"width": COLUMNS * WIDTH // columns, "height": HEIGHT, "layer": layers}
    facet = {"field": "panel", "type": "nominal", "title": None, "sort": panels}
    free = {axis: "independent" for axis, wanted in (("x", free_x), ("y", free_y)) if wanted}
    return {
        **chart,
        "facet": facet,
        "columns": columns,
        "spec": layered,
        "resolve": {"scale": free},
    }


def _axis(points: Points, field: str, title: str, log: bool) -> dict[str, Any]:
    """On a logarithmic axis the powers of ten are named, and where it is short, twice and five times these."""
    values = [point[field] for point in points]
    decades = log and max(values, default=1.0) >= 100.0 * min(values, default=1.0)
    named = f"{POWER if decades else ROUND} ? {SHORT} : ''" if log else SHORT
    scale = {"type": "log", "nice": False} if log else {"zero": False}
    axis = {"labelExpr": named}
    return {"field": field, "type": "quantitative", "title": title, "scale": scale, "axis": axis}


CONFIG: dict[str, Any] = {
    "background": PAPER,
    "aria": False,  # the figure speaks for its marks
    "font": "sans-serif",
    "view": {"stroke": None},
    "axis": {
        "labelColor": QUIET, "titleColor": QUIET, "gridColor": RULE, "domainColor": QUIET, "tickColor": QUIET,
        "titleFontWeight": "normal", "tickCount": 5,
    },
    "axisX": {"grid": False},
    "header": {"labelColor": INK, "labelFontSize": 11, "labelLimit": 260},
    "legend": {
        "labelColor": INK, "orient": "bottom", "columns": 4, "columnPadding": 28, "labelLimit": 320,
        "symbolType": "stroke",
    },
}  # fmt: skip


def svg(chart: dict[str, Any]) -> str:
    """Return the picture of a chart."""
    drawn: str = vl_convert.vegalite_to_svg(chart)
    return drawn
