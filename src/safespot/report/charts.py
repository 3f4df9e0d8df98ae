"""The page's charts as Vega-Lite, over tables that the page holds once.

Colours are CSS variables, so that light, dark and print are the style sheet's business. What a reader switches is a
parameter (`shown`, `counted`, `chosen`, `picked`, `scale`), which the page sets. The type of a scale is the one thing that a
parameter cannot change; the page changes it for the axes that a chart's `usermeta` names, and draws the chart anew.
"""

from __future__ import annotations

import math
from typing import Any

import altair as alt
import numpy as np

from ..arrays import Float
from ..experiments import Store
from .findings import Line, Study
from .region import Region
from .words import SIGNS, number

Table = dict[str, list[Any]]  # column -> its cells
Spec = dict[str, Any]

HEIGHT = 250
SHORT = "format(datum.value, '~s')"  # 20k
CELLS = 60_000  # of policies that a page draws at most
STATES = 60  # of a policy that are drawn at most

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
    "axisY": {"domain": False, "ticks": False},
    "header": {"labelColor": "var(--quiet)", "titleColor": "var(--quiet)", "labelFontSize": 11,
               "labelFontWeight": "normal"},
    "aria": False,  # the figure speaks for its marks
}  # fmt: skip


# Tables


def curves(study: Study) -> Table:
    """Every line at every shown episode: means over seeds, with intervals where a band is drawn."""
    banded = ["value", "regret", "strong_regret", "violation", "strong_violation"]
    plain = []
    for i in range(study.m):
        banded += [f"constraint_{i}", f"multiplier_{i}"]
        plain += [f"threshold_lower_{i}", f"threshold_upper_{i}"]
    table: Table = {"group": [], "episode": []}
    for index, line in enumerate(study.lines):
        table["group"] += [index] * len(line.episodes)
        table["episode"] += line.episodes.tolist()
        for column in banded:
            for suffix, values in zip(("", "_low", "_high"), line.band(column), strict=True):
                table.setdefault(column + suffix, []).extend(rounded(values))
        for column in plain:
            table.setdefault(column, []).extend(rounded(line.columns[column].mean(axis=0)))
    return table


def runs(study: Study) -> Table:
    """Every shown episode of every run."""
    table: Table = {"group": [], "seed": [], "episode": []}
    for index, line in enumerate(study.lines):
        for row, seed in enumerate(line.group.seeds):
            table["group"] += [index] * len(line.episodes)
            table["seed"] += [seed] * len(line.episodes)
            table["episode"] += line.episodes.tolist()
            for column, values in line.columns.items():
                table.setdefault(column, []).extend(rounded(values[row]))
    return table


def truth(study: Study) -> Table:
    """The optimum and the limits at both ends, and in between where they move."""
    episodes = study.lines[0].episodes if study.drifts else np.array([1, study.episodes])
    table: Table = {"episode": episodes.tolist()}
    table["optimum"] = rounded(np.array([study.optimum(int(t)) for t in episodes]))
    limits = np.array([study.limits(int(t)) for t in episodes])
    for i in range(study.m):
        table[f"limit_{i}"] = rounded(limits[:, i])
    return table


def frontier(study: Study) -> Table:
    """Each line's regret and violation at the end, with its stance."""
    table: Table = {"group": [], "xi": [], "family": []}
    families = list(dict.fromkeys(line.family for line in study.lines))
    for index, line in enumerate(study.lines):
        table["group"].append(index)
        table["xi"].append(line.xi)
        table["family"].append(families.index(line.family))
        for metric, found in line.summary.final.items():
            for suffix, value in (("", found.mean), ("_low", found.low), ("_high", found.high)):
                table.setdefault(metric + suffix, []).extend(rounded(np.array([value])))
    return table


def regions(study: Study) -> Table:
    """The corners of what can be achieved, by all policies and by those within limits; `group` -1 is the truth.

    Rows of one polygon are numbered by `corner`; a row with `set` "optimum, …" is a single point.
    """
    table: Table = {
        "limit": [], "group": [], "set": [], "corner": [], "constraint": [], "reward": [],
    }  # fmt: skip

    def add(i: int, group: int, name: str, points: Float) -> None:
        closed = points if len(points) <= 1 else np.vstack([points, points[:1]])
        for corner, (x, y) in enumerate(closed):
            for key, value in zip(
                table, (i, group, name, corner, *rounded(np.array([x, y]))), strict=True
            ):
                table[key].append(value)

    def add_feasible(group: int, name: str, limits: Float) -> None:
        found = region.feasible(limits)
        for i in range(study.m if found is not None else 0):
            add(i, group, name, found.polygons[i])
            add(i, group, f"optimum, {name}", np.array([[found.constraints[i], found.reward]]))

    region = Region(study.problem.cmdp)
    for i in range(study.m):
        add(i, -1, "all", region.achievable(i))
    add_feasible(-1, "true", study.limits(study.episodes))
    for index, line in enumerate(study.lines):
        for name, limits in zip(("pessimistic", "optimistic"), learned_limits(study, line), strict=True):
            add_feasible(index, name, limits)
    return table


def policies(study: Study, store: Store) -> Table:
    """The last policy of the first seed of each line; of large ones the states that are visited most."""
    table: Table = {"group": [], "step": [], "state": [], "action": [], "probability": []}
    for index, line in enumerate(study.lines):
        policy = store.policy(line.group.runs[0])
        if policy is None:
            continue
        H, S, A = policy.shape
        states = np.arange(S) if S <= STATES else np.sort(_visits(study, policy).argsort()[-STATES:])
        if len(table["group"]) + H * len(states) * A > CELLS:
            break
        h, s, a = np.meshgrid(np.arange(H), states, np.arange(A), indexing="ij")
        table["group"] += [index] * h.size
        table["step"] += h.ravel().tolist()
        table["state"] += s.ravel().tolist()
        table["action"] += a.ravel().tolist()
        table["probability"] += [round(float(p), 3) for p in policy[:, states].ravel()]
    return table


def rounded(values: Float) -> list[float | None]:
    """Numbers in six digits, for a file that stays small; what is not finite is left out."""
    return [float(f"{x:.6g}") if math.isfinite(x) else None for x in values.tolist()]


def learned_limits(study: Study, line: Line) -> tuple[Float, Float]:
    """The limits ``[m]`` that a line ends with if it is careful, and if it is not."""
    low, high = (
        np.array([line.columns[f"threshold_{e}_{i}"][:, -1].mean() for i in range(study.m)])
        for e in ("lower", "upper")
    )
    least = np.array([sense == ">=" for sense in study.senses])
    return np.where(least, high, low), np.where(least, low, high)


def _visits(study: Study, policy: Float) -> Float:
    """How often each state is expected in an episode."""
    from ..transitions import as_matrices

    P, (H, S, A) = study.problem.cmdp.model.P, policy.shape
    blocks = list(P.dense) if P.dense.size else as_matrices(P, S)
    now = study.problem.cmdp.model.start
    total = np.zeros(S)
    for h in range(H):
        total += now
        now = (now[:, None] * policy[h]).reshape(S * A) @ blocks[h if len(blocks) > 1 else 0]
    return total


# Charts


def charts(study: Study, tables: dict[str, Table]) -> dict[str, Spec]:
    """Every chart by its name."""
    made: dict[str, Any] = {metric: _sum(study, metric) for metric in ("regret", "violation")}
    made["reward"] = _level(study, "value", "reward an episode", "optimum")
    for i in range(study.m):
        sign = SIGNS[study.senses[i]]
        which = "" if study.m == 1 else f" {i + 1}"
        made[f"limit-{i}"] = _level(
            study, f"constraint_{i}", f"constraint{which} an episode ({sign} limit)", f"limit_{i}"
        )
        made[f"threshold-{i}"] = _threshold(study, i)
        made[f"multiplier-{i}"] = _level(study, f"multiplier_{i}", f"multiplier{which}", None)
        made[f"region-{i}"] = _region(study, i, None)
        made[f"closeup-{i}"] = _region(study, i, _around_the_optima(study, tables["regions"], i))
    if "frontier" in tables:
        made["frontier"] = _frontier(study)
    if "policies" in tables:
        made["policy"] = _policy(tables["policies"])
    return {name: _as_dict(chart) for name, chart in made.items()}


def _as_dict(chart: Any) -> Spec:
    spec: Spec = chart.to_dict(validate=False)  # tests do; it takes seconds
    spec.pop("$schema", None)
    spec["config"] = CONFIG
    return spec


def _colour(study: Study) -> alt.Color:
    n = len(study.lines)
    scale = alt.Scale(domain=list(range(n)), range=[f"var(--g{k})" for k in range(n)])
    return alt.Color("group:N", scale=scale, legend=None)


def _shown(study: Study) -> tuple[alt.Parameter, Any]:
    """Which groups are to be seen, and the rows of these."""
    every = alt.param(name="shown", value=list(range(len(study.lines))))
    return every, alt.Chart(alt.NamedData("curves")).transform_filter(
        "indexof(shown, datum.group) >= 0"
    )


def _episode(log: bool = False) -> alt.X:
    scale = alt.Scale(type="log", nice=False) if log else alt.Scale(nice=False)
    return alt.X("episode:Q", title="episode", scale=scale, axis=alt.Axis(labelExpr=SHORT))


def _curve(study: Study, source: Any, x: alt.X, y: alt.Y, low: str, high: str) -> list:
    """A line with its band, and a dot with its numbers under the pointer."""
    colour = _colour(study)
    near = alt.selection_point(
        name="near", on="pointerover", nearest=True, clear="pointerout", empty=False,
        fields=["episode"],
    )  # fmt: skip
    says = [
        alt.Tooltip("name:N", title="setting"),
        alt.Tooltip("episode:Q", format=","),
        alt.Tooltip(y.shorthand, title="mean", format=".4~g"),
        alt.Tooltip(f"{low}:Q", title="from", format=".4~g"),
        alt.Tooltip(f"{high}:Q", title="to", format=".4~g"),
    ]
    source = source.transform_calculate(name="names[datum.group]")
    some = any(len(line.group.seeds) > 1 for line in study.lines) or low.startswith("threshold")
    banded = source.transform_filter(f"isValid(datum.{low})")
    faint = 0.16 if len(study.lines) <= 3 or not low.startswith("threshold") else 0.04
    seen = alt.when(near).then(alt.value(1)).otherwise(alt.value(0))
    area = banded.mark_area(opacity=faint, clip=True)
    return [
        *([area.encode(x=x, y=_at(y, low), y2=f"{high}:Q", color=colour)] if some else []),
        source.mark_line(strokeWidth=1.8, clip=True).encode(x=x, y=y, color=colour),
        source.mark_point(filled=True, size=46)
        .add_params(near)
        .encode(x=x, y=y, color=colour, tooltip=says, opacity=seen),
    ]  # fmt: skip


def _at(channel: Any, field: str) -> Any:
    """The same axis for another column."""
    other = channel.copy()
    other.shorthand = f"{field}:Q"
    return other


def _names(study: Study) -> alt.Parameter:
    return alt.param(name="names", value=[line.name for line in study.lines])


def _finish(study: Study, layers: list, logarithmic: str, *params: alt.Parameter) -> Any:
    """`logarithmic` names the axes that the page may make so."""
    return (
        alt.layer(*layers)
        .properties(width="container", height=HEIGHT, usermeta={"logarithmic": list(logarithmic)})
        .add_params(_names(study), *params)
    )


def _sum(study: Study, metric: str) -> Any:
    """A cumulative metric, as the paper counts it or by its positive parts, with a square root beside it."""
    shown, source = _shown(study)
    counted = alt.param(name="counted", value="net")
    scale = alt.param(name="scale", value="linear")
    for suffix in ("", "_low", "_high"):
        picked = f"counted == 'strong' ? datum.strong_{metric}{suffix} : datum.{metric}{suffix}"
        source = source.transform_calculate(**{f"y{suffix}": picked})
    # Nothing below zero has a logarithm; a band ends where it would go there.
    source = source.transform_filter("scale == 'linear' || datum.y > 0").transform_calculate(
        y_low="scale == 'linear' || datum.y_low > 0 ? datum.y_low : null"
    )
    x, y = _episode(), alt.Y("y:Q", title=f"{metric}, summed", axis=alt.Axis(labelExpr=SHORT))
    layers = _curve(study, source, x, y, "y_low", "y_high")
    ends = {
        count: max(line.summary.final[name].mean for line in study.lines)
        for count, name in (("net", metric), ("strong", f"strong_{metric}"))
    }
    if all(end > 0.0 for end in ends.values()):
        net, strong = (end / math.sqrt(study.episodes) for end in ends.values())
        guide = (
            alt.Chart(alt.NamedData("curves"))
            .transform_filter("datum.group == 0")
            .transform_calculate(
                y=f"(counted == 'strong' ? {strong:.6g} : {net:.6g}) * sqrt(datum.episode)"
            )
        )
        layers.insert(0, guide.mark_line(strokeDash=[3, 4], color="var(--line)", strokeWidth=1.2, clip=True).encode(x=x, y=y))
        label = guide.transform_filter(f"datum.episode == {study.episodes}")
        layers.append(label.mark_text(text="√T", align="right", dx=-8, dy=-8, color="var(--quiet)").encode(x=x, y=y))  # fmt: skip
    return _finish(study, layers, "xy", shown, counted, scale)


def _level(study: Study, column: str, title: str, reference: str | None) -> Any:
    """What a policy has an episode, with the optimum or the limit drawn."""
    shown, source = _shown(study)
    y = alt.Y(f"{column}:Q", title=title, scale=alt.Scale(zero=False))
    x = _episode()
    layers = _curve(study, source, x, y, f"{column}_low", f"{column}_high")
    if reference is not None:
        layers += _truth(study, reference, x, y)
    return _finish(study, layers, "x", shown)


def _threshold(study: Study, i: int) -> Any:
    """Both bounds of a threshold, and the truth between them; they close in over decades of episodes."""
    shown, source = _shown(study)
    low, high = f"threshold_lower_{i}", f"threshold_upper_{i}"
    y = alt.Y(f"{low}:Q", title="bounds of the threshold" if study.m == 1 else f"bounds of threshold {i + 1}",
              scale=alt.Scale(zero=False))  # fmt: skip
    x = _episode(log=True)
    layers = _curve(study, source, x, y, low, high)
    upper = source.mark_line(strokeWidth=1.8).encode(x=x, y=_at(y, high), color=_colour(study))
    return _finish(study, [*layers, upper, *_truth(study, f"limit_{i}", x, y)], "", shown)


def _truth(study: Study, column: str, x: alt.X, y: alt.Y) -> list:
    """The dashed line of what is true, named at its end."""
    base = alt.Chart(alt.NamedData("truth"))
    at = _at(y, column)
    value = study.optimum(study.episodes) if column == "optimum" else study.limits(study.episodes)[int(column[-1])]
    named = "best within limits" if column == "optimum" else "limit"
    return [
        base.mark_line(color="var(--ink)", strokeWidth=1.2, strokeDash=[6, 4]).encode(x=x, y=at),
        base.transform_filter(f"datum.episode == {study.episodes}")
        .mark_text(align="right", baseline="bottom", dy=-4, dx=-2, color="var(--ink)", text=f"{named} {number(value)}")
        .encode(x=x, y=at),
    ]  # fmt: skip


def _around_the_optima(study: Study, table: Table, i: int) -> Float:
    """A frame ``[2, 2]``, lower and upper corner: all optima, and where lines end."""
    points = [
        (x, y)
        for limit, name, x, y in zip(table["limit"], table["set"], table["constraint"], table["reward"], strict=True)
        if limit == i and name.startswith("optimum")
    ]  # fmt: skip
    points += [(l.late(f"constraint_{i}").mean, l.late("value").mean) for l in study.lines]
    low, high = np.min(points, axis=0), np.max(points, axis=0)
    room = np.maximum(0.5 * (high - low), 1e-3 * (1.0 + np.abs(high)))
    return np.array([low - room, high + room])


def _region(study: Study, i: int, frame: Float | None) -> Any:
    """All policies, those within limits, the optimum of each, and the way of one line through them."""
    chosen = alt.param(name="chosen", value=0)
    sets = alt.Chart(alt.NamedData("regions")).transform_filter(
        f"datum.limit == {i} && (datum.group == -1 || datum.group == chosen)"
    )
    sign = SIGNS[study.senses[i]]
    x = alt.X("constraint:Q", title=f"constraint{'' if study.m == 1 else f' {i + 1}'} ({sign} limit)",
              scale=_framed(frame, 0), axis=alt.Axis(grid=False))  # fmt: skip
    y = alt.Y("reward:Q", title="reward", scale=_framed(frame, 1))
    order = alt.Order("corner:Q")
    layers = []
    for name, fill, stroke, dash in (
        ("all", "var(--cell)", "var(--line)", [1, 0]),
        ("true", "var(--safe)", "transparent", [1, 0]),
        ("optimistic", "transparent", "var(--bold)", [5, 4]),
        ("pessimistic", "transparent", "var(--careful)", [1, 0]),
    ):
        layers.append(
            sets.transform_filter(f"datum.set == '{name}'")
            .mark_line(fill=fill, stroke=stroke, strokeDash=dash, strokeWidth=1.6, clip=True)
            .encode(x=x, y=y, order=order)
        )  # fmt: skip
    way = alt.Chart(alt.NamedData("curves")).transform_filter("datum.group == chosen")
    at = {"x": _at(x, f"constraint_{i}"), "y": _at(y, "value")}
    tip = [alt.Tooltip("episode:Q", format=","), alt.Tooltip("value:Q", title="reward", format=".4~g"),
           alt.Tooltip(f"constraint_{i}:Q", title="constraint", format=".4~g")]  # fmt: skip
    layers += [
        way.mark_line(color="var(--ink)", strokeWidth=1.2, opacity=0.75, clip=True).encode(order="episode:Q", **at),
        way.mark_point(filled=True, size=14, color="var(--ink)", opacity=0.55, clip=True).encode(tooltip=tip, **at),
        way.transform_filter("datum.episode == 1")
        .mark_point(size=90, fill="var(--paper)", stroke="var(--ink)", opacity=1, strokeWidth=1.6, clip=True).encode(tooltip=tip, **at),
        way.transform_filter(f"datum.episode == {study.episodes}")
        .mark_point(filled=True, size=110, color="var(--ink)", opacity=1).encode(tooltip=tip, **at),
    ]  # fmt: skip
    for name, colour, shape in (
        ("optimistic", "var(--bold)", "triangle-up"),
        ("true", "var(--safe-ink)", "diamond"),
        ("pessimistic", "var(--careful)", "triangle-down"),
    ):
        layers.append(
            sets.transform_filter(f"datum.set == 'optimum, {name}'")
            .mark_point(filled=True, size=110, shape=shape, color=colour, opacity=1, stroke="var(--paper)", strokeWidth=1)
            .encode(x=x, y=y, tooltip=[
                alt.Tooltip("set:N", title="which"),
                alt.Tooltip("reward:Q", format=".4~g"), alt.Tooltip("constraint:Q", format=".4~g"),
            ])
        )  # fmt: skip
    return alt.layer(*layers).properties(width="container", height=340).add_params(chosen)


def _framed(frame: Float | None, axis: int) -> alt.Scale:
    if frame is None:
        return alt.Scale(zero=False)
    return alt.Scale(domain=frame[:, axis].tolist(), nice=False)


def _frontier(study: Study) -> Any:
    """Regret against violation, a dot per stance; the slider picks one."""
    picked, counted = alt.param(name="picked", value=0), alt.param(name="counted", value="net")
    source: Any = alt.Chart(alt.NamedData("frontier")).transform_calculate(name="names[datum.group]")
    for axis, metric in (("x", "violation"), ("y", "regret")):
        for suffix in ("", "_low", "_high"):
            value = f"counted == 'strong' ? datum.strong_{metric}{suffix} : datum.{metric}{suffix}"
            source = source.transform_calculate(**{axis + suffix: value})
    room = alt.Scale(zero=False, nice=False, padding=36)  # for names
    x = alt.X("x:Q", title="violation, summed", axis=alt.Axis(labelExpr=SHORT), scale=room)
    y = alt.Y("y:Q", title="regret, summed", axis=alt.Axis(labelExpr=SHORT), scale=room)
    colour = _colour(study)
    tip = [alt.Tooltip("name:N", title="setting"), alt.Tooltip("y:Q", title="regret", format=",.4~g"),
           alt.Tooltip("x:Q", title="violation", format=",.4~g")]  # fmt: skip
    whisker = {"strokeWidth": 1.2, "opacity": 0.7}
    dot = source.mark_point(filled=True, opacity=1, stroke="var(--paper)", strokeWidth=1).encode(
        x=x, y=y, color=colour, tooltip=tip,
        size=alt.condition("datum.group == picked", alt.value(260), alt.value(90)),
    )  # fmt: skip
    named = source.mark_text(dy=-16, color="var(--quiet)").encode(
        x=x, y=y, text="name:N",
        opacity=alt.condition(f"datum.group == picked || {len(study.lines)} <= 5", alt.value(1), alt.value(0)),
    )  # fmt: skip
    layers = [
        source.transform_filter("isValid(datum.xi)")
        .mark_line(color="var(--line)", strokeWidth=1.2).encode(x=x, y=y, order="xi:Q", detail="family:N"),
        source.transform_filter("isValid(datum.x_low)").mark_rule(**whisker).encode(x=_at(x, "x_low"), x2="x_high:Q", y=y, color=colour),
        source.transform_filter("isValid(datum.y_low)").mark_rule(**whisker).encode(x=x, y=_at(y, "y_low"), y2="y_high:Q", color=colour),
        dot,
        named,
    ]  # fmt: skip
    sized = alt.layer(*layers).properties(width="container", height=320)
    return sized.add_params(_names(study), picked, counted)


def _policy(table: Table) -> Any:
    """A map of states and steps for each action: the darker, the likelier."""
    steps, states = max(table["step"]) + 1, len(set(table["state"]))
    wide, high = max(9, min(24, 220 // steps)), max(7, min(22, 360 // states))
    chosen = alt.param(name="chosen", value=table["group"][0])
    few = alt.Axis(labelOverlap="greedy", grid=False, domain=False, ticks=False, labelAngle=0,
                   labelFlush=False, labelSeparation=5)  # fmt: skip
    cell = (
        alt.Chart()
        .mark_rect(color="var(--deep)", stroke="var(--rule)", strokeWidth=0.5)
        .encode(
            x=alt.X("step:O", title="step", axis=few),
            y=alt.Y("state:O", title="state", axis=few),
            fillOpacity=alt.FillOpacity("probability:Q", scale=alt.Scale(domain=[0, 1], range=[0, 1]), legend=None),
            tooltip=["step:O", "state:O", "action:O", alt.Tooltip("probability:Q", format=".3f")],
        )
        .properties(width=alt.Step(wide), height=alt.Step(high))
    )  # fmt: skip
    header = alt.Header(title=None, labelExpr="'action ' + datum.value", labelAnchor="start")
    return (
        alt.layer(cell, data=alt.NamedData("policies"))
        .transform_filter("datum.group == chosen")
        .facet(facet=alt.Facet("action:O", header=header), columns=1)
        .properties(spacing=18, usermeta={"panel": steps * wide + 60})
        .add_params(chosen)
    )
