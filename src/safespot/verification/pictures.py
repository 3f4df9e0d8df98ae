"""Pictures: one kind of chart for all claims, and its SVG, the same bytes every time.

Charts are Vega-Lite, rendered by vl-convert: the same picture stands in the page and in the documents. In the page
colours are the style sheet's, so that it may be dark.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

INK, QUIET, RULE = "#1b1f24", "#59626d", "#e6e9ec"
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#b0568f", "#8a6d00", "#2a9fd6", "#555555")
VARIABLES = {INK: "var(--ink)", QUIET: "var(--quiet)", RULE: "var(--rule)"} | {
    colour: f"var(--g{k})" for k, colour in enumerate(COLOURS)
}
WIDTH, HEIGHT, COLUMNS = 230, 180, 3
Points = Sequence[dict[str, Any]]


def lines(
    points: Points, x: str, y: str, *, log_x: bool = True, log_y: bool = True, free_y: bool = False
) -> dict[str, Any]:
    """Lines of `series` over x, in a `panel` each; `dashed` ones are references, `low` and `high` whiskers.

    Points are dicts with x, y, series, and where there are such: panel, low, high, dashed. On a logarithmic axis what
    is not positive is not drawn. `free_y`: every panel has a scale of its own.
    """
    drawn = [
        {"panel": "", "dashed": False, **point}
        for point in points
        if point["y"] == point["y"] and (not log_y or point["y"] > 0.0)
    ]
    for point in drawn:
        if log_y and point.get("low", 1.0) <= 0.0:
            point["low"] = point["y"]
    series = list(dict.fromkeys(point["series"] for point in drawn))
    panels = list(dict.fromkeys(point["panel"] for point in drawn))
    return _chart(
        drawn, x, y, series, panels, log_x, log_y, free_y, {"type": "line", "strokeWidth": 1.6}
    )


def dots(points: Points, x: str, y: str) -> dict[str, Any]:
    """Points joined in their order, with whiskers both ways, in a panel each with scales of its own."""
    drawn = [{"panel": "", "dashed": False, "order": k, **point} for k, point in enumerate(points)]
    series = list(dict.fromkeys(point["series"] for point in drawn))
    panels = list(dict.fromkeys(point["panel"] for point in drawn))
    line = {"type": "line", "strokeWidth": 1, "opacity": 0.5}
    return _chart(drawn, x, y, series, panels, False, False, True, line, free_x=True)


def _chart(
    points: Points, x: str, y: str, series: list[str], panels: list[str],
    log_x: bool, log_y: bool, free_y: bool, line: dict[str, Any], *, free_x: bool = False,
) -> dict[str, Any]:  # fmt: skip
    across = _axis("x", x, log_x)
    up = _axis("y", y, log_y)
    colour = {
        "field": "series", "type": "nominal", "title": None,
        "scale": {"domain": series, "range": [COLOURS[k % len(COLOURS)] for k in range(len(series))]},
        "legend": {"orient": "bottom", "columns": 4, "labelLimit": 320, "symbolType": "stroke"},
    }  # fmt: skip
    dash = {"condition": {"test": "datum.dashed", "value": [4, 3]}, "value": [1, 0]}
    order = [{"order": {"field": "order", "type": "quantitative"}}] if free_x else [{}]
    layers: list[dict[str, Any]] = [
        {"mark": line, "encoding": {"x": across, "y": up, "color": colour, "strokeDash": dash, **order[0]}},
        {
            "transform": [{"filter": "!datum.dashed"}],
            "mark": {"type": "point", "filled": True, "size": 22, "opacity": 1},
            "encoding": {"x": across, "y": up, "color": colour},
        },
    ]  # fmt: skip
    for low, high, axis in (("low", "high", "y"), ("left", "right", "x")):
        if any(low in point for point in points):
            channel = {**(up if axis == "y" else across), "field": low}
            other = {"x": across} if axis == "y" else {"y": up}
            layers.append(
                {
                    "transform": [{"filter": f"isValid(datum.{low})"}],
                    "mark": {"type": "rule", "strokeWidth": 1, "opacity": 0.7},
                    "encoding": {
                        **other,
                        axis: channel,
                        f"{axis}2": {"field": high},
                        "color": colour,
                    },
                }
            )
    layered = {"width": WIDTH, "height": HEIGHT, "layer": layers}
    chart: dict[str, Any] = {"data": {"values": list(points)}, "config": CONFIG}
    if len(panels) == 1:
        return {**chart, **layered, "width": 2 * WIDTH}
    facet = {"field": "panel", "type": "nominal", "title": None, "sort": panels}
    free = {**({"y": "independent"} if free_y else {}), **({"x": "independent"} if free_x else {})}
    return {
        **chart,
        "facet": facet,
        "columns": COLUMNS,
        "spec": layered,
        "resolve": {"scale": free},
    }


def _axis(field: str, title: str, log: bool) -> dict[str, Any]:
    power = "datum.value == pow(10, round(log(datum.value) / LN10))"
    scale = {"type": "log", "nice": False} if log else {"zero": False}
    axis = {"labelExpr": f"{power} ? format(datum.value, '~s') : ''"} if log else {"format": "~s"}
    if log and field == "x" and title == "threshold_scale":
        axis = {"format": "~g"}
    return {"field": field, "type": "quantitative", "title": title, "scale": scale, "axis": axis}


CONFIG: dict[str, Any] = {
    "background": None,
    "font": "sans-serif",
    "view": {"stroke": None},
    "axis": {
        "labelColor": QUIET, "titleColor": QUIET, "gridColor": RULE, "domainColor": QUIET, "tickColor": QUIET,
        "titleFontWeight": "normal", "tickCount": 5,
    },
    "axisX": {"grid": False},
    "header": {"labelColor": INK, "labelFontSize": 11},
    "legend": {"labelColor": INK},
}  # fmt: skip


def svg(chart: dict[str, Any]) -> str:
    """The picture of a chart."""
    import vl_convert

    drawn: str = vl_convert.vegalite_to_svg(chart)
    return drawn


def themed(drawn: str) -> str:
    """The same with the colours of the page's style sheet."""
    for colour, variable in VARIABLES.items():
        drawn = drawn.replace(f'"{colour}"', f'"{variable}"')
    return drawn
