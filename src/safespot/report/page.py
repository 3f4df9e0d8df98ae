"""The page: one HTML file that holds its data, its charts and all that draws them.

Vega is embedded once; `page.js` draws every chart of the study in view over the tables in the page and turns tables into
CSV; `page.css` knows light, dark, phone and paper. Words, tables and captions are plain HTML, so nothing but
pictures is lost where no script runs.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Iterable, Sequence
from html import escape
from importlib.resources import files as resources
from pathlib import Path
from typing import Any

from .. import __version__, files
from ..experiments import Store
from . import charts, words
from .findings import POINTS, Study, read

LARGEST = 2_000_000  # bytes of a page
PALETTE = 7  # groups up to which each has a colour of its own


def write(store: Store, path: Path) -> Path:
    """Write the page, as fine as fits into a file of `LARGEST` bytes."""
    for points in (POINTS, POINTS // 2, POINTS // 4):
        studies = read(store, points)
        tables = [_tables(study, store) for study in studies]
        data = render(studies, tables).encode()
        if len(data) > LARGEST:
            for each in tables:
                del each["runs"]  # the store has them
            data = render(studies, tables).encode()
        if len(data) <= LARGEST:
            break
    files.replace(path, data)
    return path


def render(studies: Sequence[Study], shown: Sequence[dict[str, charts.Table]]) -> str:
    """The page of some studies and their tables."""
    data = [
        {
            "names": [line.name for line in study.lines],
            "tables": tables,
            "charts": charts.charts(study, tables),
        }
        for study, tables in zip(studies, shown, strict=True)
    ]
    title = studies[0].name if len(studies) == 1 else f"{len(studies)} studies"
    body = "\n".join(
        _study(study, tables, k) for k, (study, tables) in enumerate(zip(studies, shown, strict=True))
    )
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>safespot: {escape(title)}</title>
<link rel="icon" href="data:,">
<style>{_part("page.css")}{_colours(max(len(study.lines) for study in studies))}</style>
</head>
<body>
<noscript><p class="note">Without JavaScript this page has its words and tables, but no charts.</p></noscript>
{_picker(studies)}
{body}
<footer>safespot {__version__}. The line of a chart is the mean over seeds, its band the 95 % bootstrap interval of
that mean. Early and late are the first and the last tenth of the episodes. A limit counts as kept when the late
average misses it by less than a thousandth of its range.</footer>
<script type="application/json" id="data">{_json(data)}</script>
<script>{_vega()}</script>
<script>{_part("page.js")}</script>
</body>
</html>
"""


def _tables(study: Study, store: Store) -> dict[str, charts.Table]:
    """All numbers of a study; a table without rows is left out."""
    tables = {
        "curves": charts.curves(study),
        "truth": charts.truth(study),
        "regions": charts.regions(study),
        "policies": charts.policies(study, store),
        "runs": charts.runs(study),
    }
    if sum(line.xi is not None for line in study.lines) > 1:
        tables["frontier"] = charts.frontier(study)
    return {name: table for name, table in tables.items() if table["group" if "group" in table else "episode"]}


# The parts of a study


def _study(study: Study, tables: dict[str, charts.Table], k: int) -> str:
    each = range(study.m)
    sections = [
        _first(study),
        _controls(study),
        _section(
            "Regret and violation",
            "What learning cost: reward below the best policy within the limits, and shortfall of the limits, summed over all "
            "episodes so far. A learner that gets better flattens; √T is the growth that theory promises.",
            [
                _figure("regret", f"Summed regret against episodes. {_ends(study, 'regret')}"),
                _figure("violation", f"Summed violation against episodes. {_ends(study, 'violation')}"),
            ],
            _details("How fast they grow over the last decade", words.growth(study)),
            "curves",
        ),
        _section(
            "Reward and limits, episode by episode",
            "The exact values of the policy that was played. Dashed: the best reward within the limits, and the limits.",
            [
                _figure("reward", f"Reward an episode. {_late(study, 'value')}"),
                *(_figure(f"limit-{i}", f"{_called('Constraint', study, i)} an episode, which is to be "
                          f"{words.SIGNS[study.senses[i]]} {words.number(study.limits(study.episodes)[i])}. "
                          f"{_late(study, f'constraint_{i}')}") for i in each),
            ],
            _details("Numbers", _sampled(study, ["value", *(f"constraint_{i}" for i in each)])),
            "curves",
        ),
        _section(
            "What is known of the limits, and what they cost",
            "The learner only sees noisy hints of each limit. Its lower and upper bound close in on the truth (dashed): the "
            "pessimistic stance plans with the stricter bound, the optimistic one with the looser. The multiplier is the price: "
            "the reward that the learner gives up for one unit of the limit. At zero the limit does not bind.",
            [figure for i in each for figure in (
                _figure(f"threshold-{i}", f"Bounds of {_called('threshold', study, i)} against episodes, closing in on "
                        f"{words.number(study.limits(study.episodes)[i])}."),
                _figure(f"multiplier-{i}", f"{_called('Multiplier', study, i)} against episodes. "
                        f"{_late(study, f'multiplier_{i}')}"),
            )],
            _details("Numbers", _sampled(study, [
                f"{name}_{i}" for i in each for name in ("threshold_lower", "threshold_upper", "multiplier")
            ])),
            "curves",
        ),
        _section(
            "Everything that can be achieved",
            'Each point is a policy: what it earns, and what it has of the constraint. <span class="key all">All policies</span>, '
            '<span class="key true">those that keep the true limits</span>, and those that a '
            '<span class="key careful">pessimist</span> and an <span class="key bold">optimist</span> would allow with what was '
            "known at the end; markers are the best policy of each set. The dotted path is the learner’s, from the ring to the large "
            "dot. Beside it a close-up.",
            [figure for i in each for figure in (
                _figure(f"region-{i}", _region_words(study, tables["regions"], i)),
                _figure(f"closeup-{i}", f"The same, close up around the best policies and where learning ended."),
            )],
            _chooser(study, "region"),
            "regions",
        ),
    ]  # fmt: skip
    if "frontier" in tables:
        sections.append(
            _section(
                "Caution or reward",
                "Each dot is a stance: more regret means reward given up, more violation means limits missed. Whiskers are "
                "95 % intervals over seeds. Move the slider from the most careful stance to the boldest.",
                [_figure("frontier", f"Regret against violation, by stance. {_ends(study, 'regret')} {_ends(study, 'violation')}")],
                _slider(study),
                "frontier",
            )
        )  # fmt: skip
    if "policies" in tables:
        states = len(set(tables["policies"]["state"]))
        part = "" if states == study.problem.cmdp.S else f" Only the {states} states that it visits most are shown."
        seed = study.lines[0].group.seeds[0]
        sections.append(
            _section(
                "The policy at the end",
                f"How likely each action is in each state and step: the stronger the colour, the likelier. Of seed {seed}.{part}",
                [_figure("policy", "Heat maps of the final policy, one for each action, over states and steps.")],
                _chooser(study, "policy", set(tables["policies"]["group"])),
                "policies",
            )
        )  # fmt: skip
    sections.append(_about(study, tables))
    hidden = " hidden" if k else ""
    return f'<main data-study="{k}"{hidden}>\n' + "\n".join(sections) + "\n</main>"


def _first(study: Study) -> str:
    """The first screen: what was run, what came out."""
    heads = "".join(f'<th scope="col">{_cell(cell)}</th>' for cell in words.head(study))
    rows = "".join(
        f'<tr><th scope="row"><span class="chip g{k}"></span>{_cell(name)}</th>'
        + "".join(f"<td>{_cell(cell)}</td>" for cell in cells)
        + "</tr>"
        for k, (name, *cells) in enumerate(words.rows(study))
    )
    said = " ".join(escape(sentence) for sentence in words.verdict(study))
    return f"""<header>
<h1>{escape(study.name)}</h1>
<p class="lead">{escape(words.what(study))}</p>
<p class="verdict">{said}</p>
<p class="note">Averages over the last tenth of the episodes, unless said otherwise; small: 95 % intervals over seeds.</p>
<div class="wide" tabindex="0" role="region" aria-label="Results of each setting">
<table class="results">
<thead><tr>{heads}</tr></thead><tbody>{rows}</tbody></table></div>
</header>"""


def _cell(cell: words.Cell) -> str:
    mark = ""
    if cell.kept is not None:
        mark = '<span class="kept">kept</span>' if cell.kept else '<span class="missed">missed</span>'
    note = f"<small>{escape(cell.note)}</small>" if cell.note else ""
    return f"<span>{escape(cell.text)}</span> {mark}{note}"


def _controls(study: Study) -> str:
    """Which lines are seen, and how; stays in view."""
    chips = "".join(
        f'<label class="line"><input type="checkbox" name="shown" value="{k}" checked>'
        f'<span class="chip g{k}"></span>{escape(line.name)}</label>'
        for k, line in enumerate(study.lines)
    )
    lines = "" if len(study.lines) == 1 else f'<fieldset><legend>Settings</legend>{chips}</fieldset>'
    return f"""<form class="controls" aria-label="What the charts show">{lines}
{_radio("scale", "Scale", (("linear", "linear"), ("log", "logarithmic")), study)}
{_radio("counted", "Count", (("net", "net, as in the paper"), ("strong", "losses only")), study)}
</form>"""


def _radio(name: str, legend: str, choices: Sequence[tuple[str, str]], study: Study) -> str:
    buttons = "".join(
        f'<label><input type="radio" name="{name}" value="{value}"{"" if k else " checked"}><span>{text}</span></label>'
        for k, (value, text) in enumerate(choices)
    )
    return f'<fieldset class="switch"><legend>{legend}</legend>{buttons}</fieldset>'


def _section(
    title: str, says: str, figures: Sequence[str], more: str, table: str
) -> str:
    """A heading, how to read it, its charts, and its numbers."""
    return f"""<section>
<h2>{title}</h2><p>{says}</p>
<div class="grid n{3 if len(figures) == 3 else min(len(figures), 2)}">{"".join(figures)}</div>
<div class="more">{more}{_csv(table)}</div>
</section>"""


def _figure(chart: str, says: str) -> str:
    return (
        f'<figure data-chart="{chart}"><div role="img" aria-label="{escape(says, quote=True)}"></div></figure>'
    )


def _csv(table: str) -> str:
    return f'<button type="button" data-table="{table}">Download CSV</button>'


def _details(title: str, rows: Sequence[Sequence[str]]) -> str:
    return (
        f'<details><summary>{title}</summary><div class="wide" tabindex="0" role="region" aria-label="{title}">'
        f"{_table(rows)}</div></details>"
    )


def _table(rows: Sequence[Sequence[str]]) -> str:
    head, *body = rows
    heads = "".join(f'<th scope="col">{escape(cell)}</th>' for cell in head)
    lines = "".join(
        f'<tr><th scope="row">{escape(first)}</th>' + "".join(f"<td>{escape(c)}</td>" for c in rest) + "</tr>"
        for first, *rest in body
    )
    return f"<table><thead><tr>{heads}</tr></thead><tbody>{lines}</tbody></table>"


def _chooser(study: Study, what: str, groups: Iterable[int] | None = None) -> str:
    """Which line a picture of one line is of."""
    options = "".join(
        f'<option value="{k}">{escape(study.lines[k].name)}</option>'
        for k in sorted(range(len(study.lines)) if groups is None else groups)
    )
    return f'<label class="choose">Setting <select name="chosen" data-of="{what}">{options}</select></label>'


def _slider(study: Study) -> str:
    """From the most careful stance to the boldest."""
    stances = [k for k, line in enumerate(study.lines) if line.xi is not None]
    said = [
        f"{study.lines[k].name}: regret {words.number(study.lines[k].summary.final['regret'].mean)}, "
        f"violation {words.number(study.lines[k].summary.final['violation'].mean)}"
        for k in stances
    ]
    return (
        f'<label class="choose">Stance <input type="range" name="picked" min="0" max="{len(stances) - 1}" value="0" step="1" '
        f"data-groups='{json.dumps(stances)}' data-says='{escape(json.dumps(said), quote=True)}'></label>"
        f'<output aria-live="polite">{escape(said[0])}</output>'
    )


def _about(study: Study, tables: dict[str, charts.Table]) -> str:
    names = {
        "curves": "Means over seeds, with intervals", "runs": "Every run", "truth": "Optimum and limits",
        "regions": "What can be achieved", "frontier": "Stances", "policies": "Policies",
    }  # fmt: skip
    buttons = "".join(
        f'<li><button type="button" data-table="{name}">{names[name]}</button></li>' for name in names if name in tables
    )
    left = "" if "runs" in tables else (
        "<p>The numbers of every run are too many for this page: they are in <code>runs/*.parquet</code> beside it.</p>"
    )  # fmt: skip
    facts = "".join(f"<dt>{escape(k)}</dt><dd>{escape(v)}</dd>" for k, v in words.about(study))
    return f"""<section><h2>What was run</h2><dl>{facts}</dl>
<h3>Numbers as CSV</h3><ul class="downloads">{buttons}</ul>{left}</section>"""


def _picker(studies: Sequence[Study]) -> str:
    if len(studies) == 1:
        return ""
    options = "".join(f'<option value="{k}">{escape(s.name)}</option>' for k, s in enumerate(studies))
    return f'<nav><label class="choose">Study <select id="study">{options}</select></label></nav>'


# Words for those who do not see the charts


def _called(name: str, study: Study, i: int) -> str:
    return name if study.m == 1 else f"{name} {i + 1}"


def _ends(study: Study, metric: str) -> str:
    ends = (f"{line.name} {words.number(line.summary.final[metric].mean)}" for line in study.lines)
    return f"{metric.capitalize()} at the end: {', '.join(ends)}."


def _late(study: Study, column: str) -> str:
    ends = (f"{line.name} {words.number(line.late(column).mean)}" for line in study.lines)
    return f"Late: {', '.join(ends)}."


def _region_words(study: Study, table: charts.Table, i: int) -> str:
    best = [
        f"{name} {words.number(reward)}"
        for limit, group, name, reward in zip(
            table["limit"], table["group"], table["set"], table["reward"], strict=True
        )
        if limit == i and group <= 0 and name.startswith("optimum")
    ]
    return f"Reward against {_called('constraint', study, i)} of all policies. Reward of the {', '.join(best) or 'optimum: none'}."


def _sampled(study: Study, columns: Sequence[str]) -> list[list[str]]:
    """A few episodes of some columns, for a table that can be read."""
    rows = [["", "episode", *(column.replace("_", " ") for column in columns)]]
    for line in study.lines:
        wanted = [10**k for k in range(12) if 10**k < study.episodes] + [study.episodes]
        where = sorted({int(abs(line.episodes - t).argmin()) for t in wanted})
        means = [line.columns[column].mean(axis=0) for column in columns]
        rows += [
            [line.name, f"{line.episodes[n]:,}", *(words.number(float(mean[n]), 4) for mean in means)]
            for n in where
        ]
    return rows


# The parts of the file


def _part(name: str) -> str:
    return resources(__package__).joinpath(name).read_text(encoding="utf-8")


@functools.cache
def _vega() -> str:
    """Vega, Vega-Lite and Vega-Embed in one piece, from the wheel of vl-convert."""
    import vl_convert

    bundle: str = vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;")
    return bundle.replace("</script", "<\\/script")


def _json(data: Any) -> str:
    text = json.dumps(data, separators=(",", ":"), allow_nan=False, ensure_ascii=False)
    return text.replace("</", "<\\/")  # nothing in it can end the script element


def _colours(groups: int) -> str:
    """A colour for every group: told apart by any eye up to `PALETTE`, beyond that a ramp from careful to bold."""
    chips = "".join(f".g{k}{{background:var(--g{k})}}" for k in range(groups))
    if groups <= PALETTE:
        return chips
    light, dark = (
        "".join(f"--g{k}:{_between(ends, k / (groups - 1))};" for k in range(groups))
        for ends in ((("0072b2"), ("8a8a8a"), ("d55e00")), (("56b4e9"), ("b0b0b0"), ("ff9a4d")))
    )
    return (
        f":root{{{light}}}@media screen and (prefers-color-scheme:dark){{:root{{{dark}}}}}{chips}"
    )


def _between(ends: tuple[str, str, str], where: float) -> str:
    """A colour on the way from the first over the second to the third."""
    first, second = (ends[0], ends[1]) if where <= 0.5 else (ends[1], ends[2])
    part = 2.0 * where if where <= 0.5 else 2.0 * where - 1.0
    mixed = (
        round((1.0 - part) * int(first[n : n + 2], 16) + part * int(second[n : n + 2], 16)) for n in (0, 2, 4)
    )
    return "#" + "".join(f"{value:02x}" for value in mixed)
