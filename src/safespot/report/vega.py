"""Vega-Lite in few words: what every chart of a page is made of, and the script that draws them.

Colors are CSS variables, so that light, dark and print are the style sheet's business. Charts are plain dicts: to build
the same ones as Altair's objects took two thirds of the time of a whole page.
"""

from __future__ import annotations

import functools
import gzip
from collections.abc import Sequence
from importlib.resources import files as resources
from typing import Any

Spec = dict[str, Any]

SHORT = "format(datum.value, '~s')"  # 20k
POWER = "datum.value == pow(10, round(log(datum.value) / LN10))"
NAMED = f"(scale == 'linear' || {POWER})"  # of a logarithmic axis only the powers of ten

CONFIG: Spec = {
    "background": "transparent",
    "font": "inherit",
    "view": {"stroke": None},
    "axis": {
        "labelColor": "var(--quiet)", "titleColor": "var(--quiet)", "gridColor": "var(--rule)",
        "domainColor": "var(--line)", "tickColor": "var(--line)", "labelFontSize": 11,
        "titleFontSize": 12, "titleFontWeight": "normal", "labelPadding": 4, "titlePadding": 8,
        "tickCount": 5, "labelFlush": True,
    },
    "axisX": {"grid": False},
    "axisY": {"domain": False, "ticks": False, "labelOverlap": "greedy"},
    "header": {"labelColor": "var(--quiet)", "labelFontSize": 11, "labelFontWeight": "normal"},
    "aria": False,  # the figure speaks for its marks
}  # fmt: skip


def layer(data: str, transform: Sequence[Spec], mark: Spec, **encoding: Any) -> Spec:
    """One mark over some rows of a table."""
    return {
        "data": {"name": data}, "transform": list(transform), "mark": mark, "encoding": encoding,
    }  # fmt: skip


def measure(field: str, **more: Any) -> Spec:
    """A number on a channel."""
    return {"field": field, "type": "quantitative", **more}


def keep(test: str) -> Spec:
    """The rows that pass a test."""
    return {"filter": test}


def calculate(name: str, expression: str) -> Spec:
    """A column more."""
    return {"calculate": expression, "as": name}


def along(channel: Spec, field: str) -> Spec:
    """The same axis for another column."""
    return {**channel, "field": field}


def told(**fields: str) -> list[Spec]:
    """What is told of a mark under the pointer: name -> field."""
    return [measure(field, title=name, format=",.4~g") for name, field in fields.items()]


def ticks(named: str) -> Spec:
    """An axis with the ticks that are `named` alone."""
    only = {"condition": {"test": named, "value": 1}, "value": 0}
    return {"labelExpr": f"{named} ? {SHORT} : ''", "gridOpacity": only, "tickOpacity": only}


def episodes(log: bool = False) -> Spec:
    """The axis of episodes; a parameter `scale` says how it is drawn, unless it is logarithmic."""
    scale = {"type": "log", "nice": False} if log else {"nice": False}
    return measure("episode", title="episode", scale=scale, axis=ticks(POWER if log else NAMED))


@functools.cache
def bundle() -> str:
    """Vega, Vega-Lite and Vega-Embed in one piece (`make vega` renews it); it may stand in a script element."""
    packed = resources(__package__).joinpath("vega.js.gz").read_bytes()
    return gzip.decompress(packed).decode().replace("</script", "<\\/script")
