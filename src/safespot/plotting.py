"""Plots in Altair for notebooks and web pages: curves of a run, a policy, the intervals of a certificate.

Each function takes plain numbers and returns an `altair.Chart`, which can be changed, combined and saved as any other.
Altair comes with the extra ``safespot[notebook]``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .arrays import Float, Policy
from .errors import MissingPackage
from .names import Names

WIDTH, HEIGHT = 320, 200  # of a panel, in pixels
STATES = 40  # states of a policy that are shown, at most: those that it meets most often
COLORS = ["#1b9e77", "#d95f02", "#7570b3"]  # of "safe", "unsafe" and "unknown"

Row = dict[str, Any]


def altair() -> Any:
    """Import the package Altair; raise `MissingPackage` where it is not installed."""
    try:
        import altair
    except ImportError:
        raise MissingPackage(
            "plots need the package altair: pip install 'safespot[notebook]'."
        ) from None
    return altair


def curve_chart(rows: Sequence[Row], y: str) -> Any:
    """Draw lines over episodes, with bands where rows have `low` and `high`; a panel for each `panel`.

    A row has an episode, the `line` that it belongs to, its `panel`, and `y`, or `low` and `high`.
    """
    alt = altair()
    first = min((row["episode"] for row in rows), default=1)
    scale = alt.Scale(type="log", nice=False) if first > 0 else alt.Scale(nice=False)
    x = alt.X("episode:Q", title="episode", scale=scale)
    color = alt.Color("line:N", title=None)
    tooltip = ["line:N", "episode:Q", "y:Q", "low:Q", "high:Q"]
    chart = alt.Chart()
    band = (
        chart.transform_filter("isValid(datum.low)")
        .mark_area(opacity=0.25)
        .encode(x=x, y=alt.Y("low:Q", title=y), y2="high:Q", color=color)
    )
    line = (
        chart.transform_filter("isValid(datum.y)")
        .mark_line()
        .encode(x=x, y=alt.Y("y:Q", title=y), color=color, tooltip=tooltip)
    )
    layers = alt.layer(band, line).properties(width=WIDTH, height=HEIGHT)
    data = alt.Data(values=list(rows))
    if len({row["panel"] for row in rows}) == 1:
        return layers.properties(data=data, title=rows[0]["panel"])
    return layers.facet(data=data, facet=alt.Facet("panel:N", title=None), columns=2).resolve_scale(
        y="independent"
    )


def policy_chart(policy: Policy, names: Names, visits: Float) -> Any:
    """Draw each action's probability over steps and states, for the states with the most `visits` ``[H,S]``."""
    alt = altair()
    met = visits.sum(axis=0)
    top_states = [int(s) for s in np.argsort(-met, kind="stable")[:STATES] if met[s] > 0.0]
    rows = [
        {
            "step": h, "state": names.state(s), "action": names.action(a),
            "probability": float(p), "visits": float(visits[h, s]),
        }
        for h in range(len(policy))
        for s in sorted(top_states)
        if visits[h, s] > 0.0
        for a, p in enumerate(policy[h, s])
    ]  # fmt: skip
    actions = [names.action(a) for a in range(policy.shape[2])]
    return (
        alt.Chart(alt.Data(values=rows))
        .mark_rect()
        .encode(
            x=alt.X("step:O"),
            y=alt.Y("state:N", title=None, sort=[names.state(s) for s in sorted(top_states)]),
            color=alt.Color("probability:Q", scale=alt.Scale(domain=[0, 1], scheme="blues")),
            column=alt.Column("action:N", title=None, sort=actions),
            tooltip=["state:N", "step:O", "action:N", "probability:Q", "visits:Q"],
        )
    )


def interval_chart(rows: Sequence[Row], x: str) -> Any:
    """Draw intervals from `low` to `high`, a row for each `name`, colored by `verdict`, with a line at 0."""
    alt = altair()
    color = alt.Color(
        "verdict:N", scale=alt.Scale(domain=["safe", "unsafe", "unknown"], range=COLORS)
    )
    bars = (
        alt.Chart(alt.Data(values=list(rows)))
        .mark_bar(size=14)
        .encode(
            x=alt.X("low:Q", title=x),
            x2="high:Q",
            y=alt.Y("name:N", title=None),
            color=color,
            tooltip=["name:N", "low:Q", "high:Q", "verdict:N"],
        )
    )
    zero = alt.Chart(alt.Data(values=[{"at": 0}])).mark_rule().encode(x="at:Q")
    return (bars + zero).properties(width=WIDTH)
