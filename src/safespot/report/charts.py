"""The page's charts as Vega-Lite, over tables that the page holds once.

Colours are CSS variables, so that light, dark and print are the style sheet's business. What a reader switches is a
parameter (`shown`, `counted`, `chosen`), which the page sets; the scale is the one thing that a parameter cannot be, so
charts over episodes come twice.
"""

from __future__ import annotations

import math
from typing import Any

import altair as alt
import numpy as np

from ..arrays import Float
from ..experiments import Store
from .findings import Line, Study
from .region import Region, top
from .words import SIGNS, number

Table = dict[str, list[Any]]  # column -> its cells
Spec = dict[str, Any]

HEIGHT = 250
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

    Rows of one polygon are numbered by `corner`; a row with `set` "optimum of …" is a single point.
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

    def add_feasible(i: int, group: int, name: str, limits: Float) -> None:
        points = region.feasible(i, limits)
        add(i, group, name, points)
        if (best := top(points)) is not None:
            add(i, group, f"optimum of {name}", best[None])

    region = Region(study.problem.cmdp)
    ends = [_ends(study, line) for line in study.lines]
    for i in range(study.m):
        add(i, -1, "all", region.achievable(i))
        add_feasible(i, -1, "true", study.limits(study.episodes))
        for index, (pessimistic, optimistic) in enumerate(ends):
            add_feasible(i, index, "pessimistic", pessimistic)
            add_feasible(i, index, "optimistic", optimistic)
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


def _ends(study: Study, line: Line) -> tuple[Float, Float]:
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


def charts(study: Study, tables: dict[str, Table]) -> dict[str, dict[str, Spec]]:
    """Name -> variant ("linear" and "log", or "only") -> chart."""
    made: dict[str, dict[str, alt.LayerChart | alt.FacetChart]] = {}
    for metric in ("regret", "violation"):
        made[metric] = {s: _sum(study, metric, s == "log") for s in ("linear", "log")}
    made["reward"] = _both(study, "value", "reward an episode", "optimum")
    for i in range(study.m):
        sign = SIGNS[study.senses[i]]
        which = "" if study.m == 1 else f" {i + 1}"
        made[f"limit-{i}"] = _both(
            study, f"constraint_{i}", f"constraint{which} an episode ({sign} limit)", f"limit_{i}"
        )
        made[f"threshold-{i}"] = {s: _threshold(study, i, s == "log") for s in ("linear", "log")}
        made[f"multiplier-{i}"] = _both(study, f"multiplier_{i}", f"multiplier{which}", None)
        made[f"region-{i}"] = {"only": _region(study, i)}
    if "frontier" in tables:
        made["frontier"] = {"only": _frontier(study)}
    if "policies" in tables:
        made["policy"] = {"only": _policy(tables["policies"])}
    return {
        name: {key: _as_dict(chart) for key, chart in variants.items()}
        for name, variants in made.items()
    }


def _as_dict(chart: Any) -> Spec:
    spec: Spec = chart.to_dict(validate=True)
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


def _episode(log: bool) -> alt.X:
    scale = alt.Scale(type="log", nice=False) if log else alt.Scale(nice=False)
    axis = alt.Axis(format="~s", tickCount=4 if log else 5)
    return alt.X("episode:Q", title="episode", scale=scale, axis=axis)


def _curve(study: Study, source: Any, log: bool, y: alt.Y, low: str, high: str, field: str) -> list:
    """A line with its band, and a dot with its numbers under the pointer."""
    colour, x = _colour(study), _episode(log)
    near = alt.selection_point(
        name="near", on="pointerover", nearest=True, clear="pointerout", empty=False,
        fields=["episode"],
    )  # fmt: skip
    says = [
        alt.Tooltip("name:N", title="setting"),
        alt.Tooltip("episode:Q", format=","),
        alt.Tooltip(f"{field}:Q", title="mean", format=".4~g"),
        alt.Tooltip(f"{low}:Q", title="from", format=".4~g"),
        alt.Tooltip(f"{high}:Q", title="to", format=".4~g"),
    ]
    source = source.transform_calculate(name="names[datum.group]")
    banded = source.transform_filter(f"isValid(datum.{low})")
    if isinstance(y.scale, alt.Scale) and y.scale.to_dict().get("type") == "log":
        banded = banded.transform_filter(f"datum.{low} > 0")
    seen = alt.when(near).then(alt.value(1)).otherwise(alt.value(0))
    return [
        banded.mark_area(opacity=0.16, clip=True).encode(x=x, y=_at(y, low), y2=f"{high}:Q", color=colour),
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


def _finish(study: Study, layers: list, *params: alt.Parameter) -> alt.LayerChart:
    chart: alt.LayerChart = (
        alt.layer(*layers)
        .properties(width="container", height=HEIGHT)
        .add_params(_names(study), *params)
    )
    return chart


def _sum(study: Study, metric: str, log: bool) -> alt.LayerChart:
    """A cumulative metric, as the paper counts it or by its positive parts, with a square root beside it."""
    shown, source = _shown(study)
    counted = alt.param(name="counted", value="net")
    for suffix in ("", "_low", "_high"):
        picked = f"counted == 'strong' ? datum.strong_{metric}{suffix} : datum.{metric}{suffix}"
        source = source.transform_calculate(**{f"y{suffix}": picked})
    if log:
        source = source.transform_filter("datum.y > 0")
    scale = alt.Scale(type="log", nice=False) if log else alt.Scale()
    y = alt.Y("y:Q", title=f"{metric}, summed", scale=scale, axis=alt.Axis(format="~s", tickCount=5))
    layers = _curve(study, source, log, y, "y_low", "y_high", "y")
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
        x = _episode(log)
        layers.insert(0, guide.mark_line(strokeDash=[3, 4], color="var(--line)", strokeWidth=1.2, clip=True).encode(x=x, y=y))
        label = guide.transform_filter(f"datum.episode == {study.episodes}")
        layers.append(label.mark_text(text="√T", align="right", dx=-8, dy=-8, color="var(--quiet)").encode(x=x, y=y))  # fmt: skip
    return _finish(study, layers, shown, counted)


def _both(study: Study, column: str, title: str, reference: str | None) -> dict[str, Any]:
    return {s: _level(study, column, title, reference, s == "log") for s in ("linear", "log")}


def _level(
    study: Study, column: str, title: str, reference: str | None, log: bool
) -> alt.LayerChart:
    """What a policy has an episode, with the optimum or the limit drawn."""
    shown, source = _shown(study)
    y = alt.Y(f"{column}:Q", title=title, scale=alt.Scale(zero=False))
    layers = _curve(study, source, log, y, f"{column}_low", f"{column}_high", column)
    if reference is not None:
        layers[1:1] = _truth(study, reference, y, log)
    return _finish(study, layers, shown)


def _threshold(study: Study, i: int, log: bool) -> alt.LayerChart:
    """Both bounds of a threshold, and the truth between them."""
    shown, source = _shown(study)
    low, high = f"threshold_lower_{i}", f"threshold_upper_{i}"
    y = alt.Y(f"{low}:Q", title="bounds of the threshold" if study.m == 1 else f"bounds of threshold {i + 1}",
              scale=alt.Scale(zero=False))  # fmt: skip
    layers = _curve(study, source, log, y, low, high, low)
    colour, x = _colour(study), _episode(log)
    upper = source.mark_line(strokeWidth=1.8).encode(x=x, y=_at(y, high), color=colour)
    return _finish(study, [*layers, upper, *_truth(study, f"limit_{i}", y, log)], shown)


def _truth(study: Study, column: str, y: alt.Y, log: bool) -> list:
    """The dashed line of what is true, named at its end."""
    base = alt.Chart(alt.NamedData("truth"))
    at = _at(y, column)
    value = study.optimum(study.episodes) if column == "optimum" else study.limits(study.episodes)[int(column[-1])]
    named = "best within limits" if column == "optimum" else "limit"
    return [
        base.mark_line(color="var(--ink)", strokeWidth=1.2, strokeDash=[6, 4]).encode(x=_episode(log), y=at),
        base.transform_filter(f"datum.episode == {study.episodes}")
        .mark_text(align="right", baseline="bottom", dy=-4, dx=-2, color="var(--ink)", text=f"{named} {number(value)}")
        .encode(x=_episode(log), y=at),
    ]  # fmt: skip


def _region(study: Study, i: int) -> alt.LayerChart:
    """All policies, those within limits, the optimum of each, and the way of one line through them."""
    chosen = alt.param(name="chosen", value=0)
    sets = alt.Chart(alt.NamedData("regions")).transform_filter(
        f"datum.limit == {i} && (datum.group == -1 || datum.group == chosen)"
    )
    sign = SIGNS[study.senses[i]]
    x = alt.X("constraint:Q", title=f"constraint{'' if study.m == 1 else f' {i + 1}'} ({sign} limit)",
              scale=alt.Scale(zero=False), axis=alt.Axis(grid=False))  # fmt: skip
    y = alt.Y("reward:Q", title="reward", scale=alt.Scale(zero=False))
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
            .mark_line(fill=fill, stroke=stroke, strokeDash=dash, strokeWidth=1.6, interpolate="linear")
            .encode(x=x, y=y, order=order)
        )  # fmt: skip
    way = alt.Chart(alt.NamedData("curves")).transform_filter("datum.group == chosen")
    at = {"x": _at(x, f"constraint_{i}"), "y": _at(y, "value")}
    tip = [alt.Tooltip("episode:Q", format=","), alt.Tooltip("value:Q", title="reward", format=".4~g"),
           alt.Tooltip(f"constraint_{i}:Q", title="constraint", format=".4~g")]  # fmt: skip
    layers += [
        way.mark_line(color="var(--ink)", strokeWidth=1.2, opacity=0.75).encode(order="episode:Q", **at),
        way.mark_point(filled=True, size=26, color="var(--ink)", opacity=0.55).encode(tooltip=tip, **at),
        way.transform_filter("datum.episode == 1")
        .mark_point(size=90, fill="var(--paper)", stroke="var(--ink)", opacity=1, strokeWidth=1.6).encode(tooltip=tip, **at),
        way.transform_filter(f"datum.episode == {study.episodes}")
        .mark_point(filled=True, size=110, color="var(--ink)", opacity=1).encode(tooltip=tip, **at),
    ]  # fmt: skip
    for name, colour, shape in (
        ("optimistic", "var(--bold)", "triangle-up"),
        ("true", "var(--safe-ink)", "diamond"),
        ("pessimistic", "var(--careful)", "triangle-down"),
    ):
        layers.append(
            sets.transform_filter(f"datum.set == 'optimum of {name}'")
            .mark_point(filled=True, size=110, shape=shape, color=colour, opacity=1, stroke="var(--paper)", strokeWidth=1)
            .encode(x=x, y=y, tooltip=[
                alt.Tooltip("set:N", title="which"),
                alt.Tooltip("reward:Q", format=".4~g"), alt.Tooltip("constraint:Q", format=".4~g"),
            ])
        )  # fmt: skip
    chart: alt.LayerChart = (
        alt.layer(*layers).properties(width="container", height=340).add_params(chosen)
    )
    return chart


def _frontier(study: Study) -> alt.LayerChart:
    """Regret against violation, a dot per stance; the slider picks one."""
    picked, counted = alt.param(name="picked", value=0), alt.param(name="counted", value="net")
    source: Any = alt.Chart(alt.NamedData("frontier")).transform_calculate(name="names[datum.group]")
    for axis, metric in (("x", "violation"), ("y", "regret")):
        for suffix in ("", "_low", "_high"):
            value = f"counted == 'strong' ? datum.strong_{metric}{suffix} : datum.{metric}{suffix}"
            source = source.transform_calculate(**{axis + suffix: value})
    x = alt.X("x:Q", title="violation, summed", axis=alt.Axis(format="~s"), scale=alt.Scale(zero=False, nice=True))
    y = alt.Y("y:Q", title="regret, summed", axis=alt.Axis(format="~s"), scale=alt.Scale(zero=False, nice=True))
    colour = _colour(study)
    tip = [alt.Tooltip("name:N", title="setting"), alt.Tooltip("y:Q", title="regret", format=",.4~g"),
           alt.Tooltip("x:Q", title="violation", format=",.4~g")]  # fmt: skip
    whisker = {"strokeWidth": 1.2, "opacity": 0.7}
    dot = source.mark_point(filled=True, opacity=1, stroke="var(--paper)", strokeWidth=1).encode(
        x=x, y=y, color=colour, tooltip=tip,
        size=alt.condition("datum.group == picked", alt.value(260), alt.value(90)),
    )  # fmt: skip
    named = source.mark_text(align="left", dx=11, dy=-9, color="var(--quiet)").encode(
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
    chart: alt.LayerChart = (
        alt.layer(*layers)
        .properties(width="container", height=320)
        .add_params(_names(study), picked, counted)
    )
    return chart


def _policy(table: Table) -> alt.FacetChart:
    """A map of states and steps for each action: the darker, the likelier."""
    steps, states = max(table["step"]) + 1, len(set(table["state"]))
    wide, high = max(9, min(24, 220 // steps)), max(7, min(22, 360 // states))
    chosen = alt.param(name="chosen", value=table["group"][0])
    few = alt.Axis(labelOverlap="greedy", grid=False, domain=False, ticks=False, labelAngle=0)
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
    header = alt.Header(title=None, labelExpr="'action ' + datum.label", labelAnchor="start")
    chart: alt.FacetChart = (
        alt.layer(cell, data=alt.NamedData("policies"))
        .transform_filter("datum.group == chosen")
        .facet(facet=alt.Facet("action:O", header=header), columns=1)
        .properties(spacing=18, usermeta={"panel": steps * wide + 60})
        .add_params(chosen)
    )
    return chart
