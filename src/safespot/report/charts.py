"""The page's charts in Vega-Lite, over the tables that the page holds once.

What a reader switches is a parameter (`shown`, `counted`, `scale`, `chosen`, `picked`), which the page sets. The type
of a scale is the one thing that a parameter cannot change: the page changes it for the axes that a chart's `usermeta`
names and draws it anew.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence

import numpy as np

from ..arrays import Float
from . import panels
from .findings import Study
from .tables import Table
from .text import SIGNS, number
from .vega import (
    CONFIG,
    NAMED,
    SHORT,
    Spec,
    along,
    calculate,
    episodes,
    keep,
    layer,
    measure,
    ticks,
    told,
)

STATE_LETTERS = (
    14  # of names of states that an axis has room for; longer ones are told under the pointer
)
STATE_LABEL = 90  # pixels of one


def charts(study: Study, tables: dict[str, Table]) -> dict[str, Spec]:
    """Every chart by its name."""
    made = {metric: _sum(study, metric) for metric in ("regret", "violation")}
    made["reward"] = _level(study, "value", study.names.reward, "optimum")
    for i in range(study.m):
        called, limited = study.called(i), f"{study.quantity(i)}, {SIGNS[study.senses[i]]} limit"
        made[f"limit-{i}"] = _level(study, f"constraint_{i}", limited, f"limit_{i}")
        made[f"threshold-{i}"] = _threshold(study, i, f"bounds of the limit of {called}")
        made[f"multiplier-{i}"] = _level(study, f"multiplier_{i}", f"multiplier of {called}", None)
        if study.metered:
            made[f"evidence-{i}"] = _evidence(study, i, f"violation of {called}, summed")
        near = _around_the_optima(study, tables["regions"], i)
        made[f"region-{i}"] = _region(study, i, limited, None)
        made[f"closeup-{i}"] = _region(study, i, limited, near)
    if "epochs" in tables:
        made["epochs"] = panels.epochs([line.name for line in study.lines])
    if "frontier" in tables:
        made["frontier"] = _frontier(study)
    if "policies" in tables:
        made["policy"] = _policy(study, tables["policies"])
    return {name: {**chart, "config": CONFIG} for name, chart in made.items()}


# What charts of a study share


def _color(study: Study) -> Spec:
    every = list(range(len(study.lines)))
    scale = {"domain": every, "range": [f"var(--g{k})" for k in every]}
    return {"field": "group", "type": "nominal", "scale": scale, "legend": None}


def _names(study: Study) -> Spec:
    return {"name": "names", "value": [line.name for line in study.lines]}


HALO: Spec = {"stroke": "var(--paper)", "strokeWidth": 4}  # behind letters: curves may be there
NAME: Spec = {"field": "name", "type": "nominal", "title": "setting"}
NAMING = calculate("name", "names[datum.group]")
SHOWN = keep("indexof(shown, datum.group) >= 0")
COUNTED: Spec = {"name": "counted", "value": "net"}


def _over_episodes(study: Study, layers: list[Spec], logarithmic: str, *params: Spec) -> Spec:
    """`logarithmic` names the axes that the page may make so."""
    return {
        "width": "container",
        "height": 250,
        "params": [
            _names(study),
            {"name": "shown", "value": list(range(len(study.lines)))},
            {"name": "scale", "value": "linear"},
            *params,
        ],
        "usermeta": {"logarithmic": list(logarithmic)},
        "layer": layers,
    }


# Charts over episodes


def _curve(
    study: Study, rows: Sequence[Spec], x: Spec, y: Spec, low: str, high: str, strength: float
) -> list[Spec]:
    """A line with its band, and a dot with its numbers under the pointer."""
    rows, color = [SHOWN, *rows, NAMING], _color(study)
    near = {
        "name": "near",
        "select": {
            "type": "point", "on": "pointerover", "nearest": True, "clear": "pointerout", "fields": ["episode"],
        },
    }  # fmt: skip
    dot = layer(
        "curves", rows, {"type": "point", "filled": True, "size": 46}, x=x, y=y, color=color,
        opacity={"condition": {"param": "near", "empty": False, "value": 1}, "value": 0},
        tooltip=[NAME, *told(**{"episode": "episode", "mean": y["field"], "from": low, "to": high})],
    )  # fmt: skip
    band = layer(
        "curves", [*rows, keep(f"isValid(datum.{low})")], {"type": "area", "opacity": strength, "clip": True},
        x=x, y=along(y, low), y2={"field": high}, color=color,
    )  # fmt: skip
    line = layer(
        "curves", rows, {"type": "line", "strokeWidth": 1.8, "clip": True}, x=x, y=y, color=color
    )
    return [band, line, {**dot, "params": [near]}]


def _sum(study: Study, metric: str) -> Spec:
    """A cumulative metric, as the paper counts it or by its losses, with a square root beside it."""
    rows = [
        calculate(f"y{end}", _counted(f"{metric}{end}", f"strong_{metric}{end}"))
        for end in ("", "_low", "_high")
    ]
    # Nothing below zero has a logarithm; a band ends where it would go there.
    rows += [
        keep("scale == 'linear' || datum.y > 0"),
        calculate("y_low", "scale == 'linear' || datum.y_low > 0 ? datum.y_low : null"),
    ]
    x, y = episodes(), measure("y", title=f"{metric}, summed", axis=ticks(NAMED))
    layers = _curve(study, rows, x, y, "y_low", "y_high", 0.16)
    net, strong = (
        max(line.summary.final[name].mean for line in study.lines) / math.sqrt(study.episodes)
        for name in (metric, f"strong_{metric}")
    )
    if net > 0.0:  # then the sum of losses alone is, too
        rate = f"(counted == 'strong' ? {strong:.6g} : {net:.6g})"
        root = [keep("datum.group == 0"), calculate("y", f"{rate} * sqrt(datum.episode)")]
        dotted = {
            "type": "line",
            "strokeDash": [3, 4],
            "color": "var(--line)",
            "strokeWidth": 1.2,
            "clip": True,
        }
        text = {
            "type": "text",
            "text": "√T",
            "align": "right",
            "dx": -8,
            "dy": -8,
            "color": "var(--quiet)",
            **HALO,
        }
        layers = [
            layer("curves", root, dotted, x=x, y=y),
            *layers,
            layer("curves", [*root, _last(study)], text, x=x, y=y),
        ]  # fmt: skip
    return _over_episodes(study, layers, "xy", COUNTED)


def _counted(net: str, strong: str) -> str:
    return f"counted == 'strong' ? datum.{strong} : datum.{net}"


def _last(study: Study) -> Spec:
    return keep(f"datum.episode == {study.episodes}")


def _level(study: Study, column: str, title: str, reference: str | None) -> Spec:
    """What a policy has an episode, with the optimum or the limit drawn."""
    x, y = episodes(), measure(column, title=title, scale={"zero": False})
    layers = _curve(study, [], x, y, f"{column}_low", f"{column}_high", 0.16)
    if reference is not None:
        layers += _truth(study, reference, x, y)
    return _over_episodes(study, layers, "x")


def _threshold(study: Study, i: int, title: str) -> Spec:
    """Both bounds of a threshold, and the truth between them; they close in over decades of episodes."""
    low, high = f"threshold_lower_{i}", f"threshold_upper_{i}"
    x, y = episodes(log=True), measure(low, title=title, scale={"zero": False})
    layers = _curve(study, [], x, y, low, high, 0.16 if len(study.lines) <= 3 else 0.04)
    layers[-1]["encoding"]["tooltip"] = [NAME, *told(episode="episode", lower=low, upper=high)]
    upper = layer(
        "curves", [SHOWN], {"type": "line", "strokeWidth": 1.8}, x=x, y=along(y, high), color=_color(study)
    )  # fmt: skip
    return _over_episodes(study, [*layers, upper, *_truth(study, f"limit_{i}", x, y)], "")


def _evidence(study: Study, i: int, title: str) -> Spec:
    """The exact violation, and the bounds that episodes alone put on it."""
    x, y = episodes(), measure(f"violation_{i}", title=title, axis=ticks(NAMED))
    low, high = (f"evidence_violation_{end}_{i}" for end in ("lower", "upper"))
    return _over_episodes(study, _curve(study, [], x, y, low, high, 0.16), "x")


def _truth(study: Study, column: str, x: Spec, y: Spec) -> list[Spec]:
    """The dashed line of what is true, named at its end."""
    if column == "optimum":
        named, value = "best within limits", study.optimum(study.episodes)
    else:
        named, value = "limit", study.limits(study.episodes)[int(column.removeprefix("limit_"))]
    dashed = {"type": "line", "color": "var(--ink)", "strokeWidth": 1.2, "strokeDash": [6, 4]}
    text = {
        "type": "text", "text": f"{named} {number(value)}", "align": "right", "baseline": "bottom",
        "dx": -2, "dy": -4, "color": "var(--ink)", **HALO,
    }  # fmt: skip
    return [
        layer("truth", [], dashed, x=x, y=along(y, column)),
        layer("truth", [_last(study)], text, x=x, y=along(y, column)),
    ]


# Charts of policies


def _around_the_optima(study: Study, table: Table, i: int) -> Float:
    """A frame ``[2, 2]``, lower and upper corner: all optima, and where lines end."""
    corners = zip(table["limit"], table["set"], table["constraint"], table["reward"], strict=True)
    points = [(x, y) for limit, name, x, y in corners if limit == i and name.startswith("optimum")]
    points += [(study.late_constraint(e, i).mean, study.late_reward(e).mean) for e in study.lines]
    low, high = np.min(points, axis=0), np.max(points, axis=0)
    room = np.maximum(0.5 * (high - low), 1e-3 * (1.0 + np.abs(high)))
    return np.array([low - room, high + room])


def _region(study: Study, i: int, title: str, frame: Float | None) -> Spec:
    """All policies, those within limits, the optimum of each, and the way of one line through them."""
    scales: list[Spec] = [{"zero": False}] * 2
    if frame is not None:
        scales = [{"domain": frame[:, axis].tolist(), "nice": False} for axis in (0, 1)]
    x = measure("constraint", title=title, scale=scales[0])
    y = measure("reward", title=study.names.reward, scale=scales[1])

    def rows(name: str) -> list[Spec]:
        which = f"datum.limit == {i} && datum.set == '{name}'"
        return [keep(f"{which} && (datum.group == -1 || datum.group == chosen)")]

    layers = [
        layer(
            "regions", rows(name),
            {"type": "line", "fill": fill, "stroke": stroke, "strokeDash": dash, "strokeWidth": 1.6, "clip": True},
            x=x, y=y, order=measure("corner"),
        )
        for name, fill, stroke, dash in (
            ("all", "var(--cell)", "var(--line)", [1, 0]),
            ("true", "var(--safe)", "transparent", [1, 0]),
            ("optimistic", "transparent", "var(--bold)", [5, 4]),
            ("pessimistic", "transparent", "var(--careful)", [1, 0]),
        )
    ]  # fmt: skip
    layers += _way(study, i, x, y)
    layers += [
        layer(
            "regions", rows(f"optimum, {name}"),
            {"type": "point", "filled": True, "size": 110, "shape": shape, "color": color, "opacity": 1,
             "stroke": "var(--paper)", "strokeWidth": 1},
            x=x, y=y,
            tooltip=[
                {"field": "set", "type": "nominal", "title": "which"},
                *told(reward="reward", constraint="constraint"),
            ],
        )
        for name, color, shape in (
            ("optimistic", "var(--bold)", "triangle-up"),
            ("true", "var(--safe-ink)", "diamond"),
            ("pessimistic", "var(--careful)", "triangle-down"),
        )
    ]  # fmt: skip
    chosen = {"name": "chosen", "value": 0}
    return {"width": "container", "height": 340, "params": [chosen], "layer": layers}


def _way(study: Study, i: int, x: Spec, y: Spec) -> list[Spec]:
    """The learner's path, from a ring to a dot."""
    path = keep("datum.group == chosen")
    at = {"x": along(x, f"constraint_{i}"), "y": along(y, "value")}
    tell = told(episode="episode", reward="value", constraint=f"constraint_{i}")
    ink = {"color": "var(--ink)", "clip": True}
    dot = {"type": "point", "filled": True, "opacity": 1, **ink}
    ring = {
        "type": "point", "size": 90, "fill": "var(--paper)", "stroke": "var(--ink)", "strokeWidth": 1.6,
        "opacity": 1, "clip": True,
    }  # fmt: skip
    return [
        layer("curves", [path], {"type": "line", "strokeWidth": 1.2, "opacity": 0.75, **ink},
               order=measure("episode"), **at),
        layer("curves", [path], {**dot, "size": 14, "opacity": 0.55}, tooltip=tell, **at),
        layer("curves", [path, keep("datum.episode == 1")], ring, tooltip=tell, **at),
        layer("curves", [path, _last(study)], {**dot, "size": 110}, tooltip=tell, **at),
    ]  # fmt: skip


def _frontier(study: Study) -> Spec:
    """Regret against violation, a dot per stance; the slider picks one."""
    rows = [NAMING] + [
        calculate(f"{axis}{end}", _counted(f"{metric}{end}", f"strong_{metric}{end}"))
        for axis, metric in (("x", "violation"), ("y", "regret"))
        for end in ("", "_low", "_high")
    ]
    scale = {"zero": False, "nice": False, "padding": 36}  # room for names
    axis = {"labelExpr": SHORT, "labelFlush": True}
    x = measure("x", title="violation, summed", axis=axis, scale=scale)
    y = measure("y", title="regret, summed", axis=axis, scale=scale)
    color, rule = _color(study), {"type": "rule", "strokeWidth": 1.2, "opacity": 0.7}
    dot = {
        "type": "point",
        "filled": True,
        "opacity": 1,
        "stroke": "var(--paper)",
        "strokeWidth": 1,
    }
    named = "datum.group == picked"  # the others are told by their color: names of neighbors would overlap
    layers = [
        layer("frontier", [*rows, keep("isValid(datum.xi)")],
               {"type": "line", "color": "var(--line)", "strokeWidth": 1.2},
               x=x, y=y, order=measure("xi"), detail={"field": "family", "type": "nominal"}),
        layer("frontier", [*rows, keep("isValid(datum.x_low)")], rule,
               x=along(x, "x_low"), x2={"field": "x_high"}, y=y, color=color),
        layer("frontier", [*rows, keep("isValid(datum.y_low)")], rule,
               x=x, y=along(y, "y_low"), y2={"field": "y_high"}, color=color),
        layer("frontier", rows, dot, x=x, y=y, color=color,
               size={"condition": {"test": "datum.group == picked", "value": 260}, "value": 90},
               tooltip=[NAME, *told(regret="y", violation="x")]),
        layer("frontier", rows, {"type": "text", "dy": -16, "color": "var(--quiet)"}, x=x, y=y, text=NAME,
               opacity={"condition": {"test": named, "value": 1}, "value": 0}),
    ]  # fmt: skip
    params = [_names(study), {"name": "picked", "value": 0}, COUNTED]
    return {"width": "container", "height": 320, "params": params, "layer": layers}


def _policy(study: Study, table: Table) -> Spec:
    """A map of states and steps for each action: the stronger the color, the likelier."""
    steps, states = max(table["step"]) + 1, len(set(table["state"]))
    wide, high = max(9, min(24, 220 // steps)), max(7, min(22, 360 // states))
    axis = {
        "labelOverlap": "parity", "labelSeparation": 5, "labelFlush": False, "labelAngle": 0,
        "grid": False, "domain": False, "ticks": False,
    }  # fmt: skip
    names = study.names
    actions = [names.action(a) for a in range(study.problem.cmdp.A)]
    states_called = [names.state(s) for s in range(study.problem.cmdp.S)]
    named = {**axis, "labelLimit": STATE_LABEL}
    if names.states is not None and max(map(len, states_called)) <= STATE_LETTERS:
        named["labelExpr"] = f"{json.dumps(states_called)}[datum.value]"
    cell = {
        "mark": {"type": "rect", "color": "var(--deep)", "stroke": "var(--rule)", "strokeWidth": 0.5},
        "encoding": {
            "x": {"field": "step", "type": "ordinal", "title": "step", "axis": axis},
            "y": {"field": "state", "type": "ordinal", "title": "state", "axis": named},
            "fillOpacity": measure("probability", scale={"domain": [0, 1], "range": [0, 1]}, legend=None),
            "tooltip": [
                {"field": "step", "type": "ordinal"},
                {"field": "state_name", "type": "nominal", "title": "state"},
                {"field": "action_name", "type": "nominal", "title": "action"},
                measure("probability", format=".3f"),
            ],
        },
        "width": {"step": wide},
        "height": {"step": high},
    }  # fmt: skip
    header = {"title": None, "labelAnchor": "start"}
    return {
        "data": {"name": "policies"},
        "params": [{"name": "chosen", "value": table["group"][0]}],
        "transform": [
            keep("datum.group == chosen"),
            calculate("action_name", f"{json.dumps(actions)}[datum.action]"),
            calculate("state_name", f"{json.dumps(states_called)}[datum.state]"),
        ],
        "facet": {"field": "action_name", "type": "nominal", "sort": actions, "header": header},
        "spacing": 18,
        "resolve": {"axis": {"x": "independent", "y": "independent"}},  # rows may end anywhere
        "usermeta": {
            "panel": steps * wide + (60 if "labelExpr" not in named else 60 + STATE_LABEL),
            "panels": len(set(table["action"])),
        },
        "spec": cell,
    }
