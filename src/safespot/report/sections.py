"""The HTML of one study: its first screen, then a section for each kind of picture.

Words, tables and the texts of charts for those who do not see them are plain HTML; where no script runs, nothing but
the pictures is missing. A `figure` names its chart, a button its table, and a control the parameter that it sets.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from html import escape

from ..experiments.summary import Estimate
from . import guard, proofs, results, text
from .findings import Study
from .tables import Table
from .text import number

SAYS = {
    "regret": """What learning cost: reward below the best policy within the limits, and shortfall of the limits,
        summed over all episodes so far. A learner that gets better flattens; √T is the growth that theory promises.""",
    "meter": """Lines are the exact violation, which only a simulation knows; bands are the bounds that every learner
        can tell from its own episodes, without a model (95 % confidence, at all times at once). A band that lies above
        zero is a proven violation, one below zero proven room.""",
    "epochs": """What a learner in phases played when: <span class="key first">the first policy</span>,
        <span class="key explore">exploring plans</span>, <span class="key try">the trial of one frozen plan</span>,
        <span class="key retreat">a certified policy, after a trial that failed</span>. ✓ proves that the plan keeps
        every limit: a certificate; ✗ that it breaks one. Each phase is as long as all before it, so episodes are
        logarithmic. Marks that would lie on each other are left out.""",
    "level": """The exact values of the policy that was played. Dashed: the best reward within the limits, and the
        limits.""",
    "threshold": """The learner only sees noisy hints of each limit. Its lower and upper bound close in on the truth
        (dashed): the pessimistic stance plans with the stricter bound, the optimistic one with the looser. The
        multiplier is the price: the reward that the learner gives up for one unit of the limit. At zero the limit does
        not bind.""",
    "region": """Each point is a policy: what it earns, and what it has of the constraint.
        <span class="key all">All policies</span>, <span class="key true">those that keep the true limits</span>, and
        those that a <span class="key careful">pessimist</span> and an <span class="key bold">optimist</span> would
        allow with what was known at the end; markers are the best policy of each set. The dotted path is the
        learner’s, from the ring to the large dot. Beside it a close-up.""",
    "frontier": """Each dot is a stance: more regret means reward given up, more violation means limits broken.
        Whiskers are 95 % intervals over seeds. Move the slider from the most careful stance to the boldest.""",
    "policy": """How likely each action is in each state and step: the stronger the color, the likelier.""",
}
DOWNLOADS = {
    "curves": "Means over seeds, with intervals", "runs": "Every run", "truth": "Optimum and limits",
    "epochs": "Phases and trials", "regions": "What can be achieved", "frontier": "Stances", "policies": "Policies",
}  # fmt: skip


def main(study: Study, tables: dict[str, Table], k: int) -> str:
    """The k-th study of a page; the first is in view."""
    parts = [
        _first(study),
        _controls(study),
        _sums(study),
        _meter(study) if study.metered else "",
        _epochs(study) if "epochs" in tables else "",
        _levels(study),
        _limits(study),
        _diagnosis(study),
        guard.section(study),
        _region(study, tables["regions"]),
        _frontier(study) if "frontier" in tables else "",
        _policy(study, tables["policies"]) if "policies" in tables else "",
        _certificates(study),
        _about(study, tables),
    ]
    hidden = " hidden" if k else ""
    return f'<main data-study="{k}"{hidden}>\n' + "\n".join(filter(None, parts)) + "\n</main>"


# The first screen


def _first(study: Study) -> str:
    """What was run, what came out."""
    heads = "".join(f'<th scope="col">{_cell(cell)}</th>' for cell in results.head(study))
    rows = "".join(
        f'<tr><th scope="row"><span class="chip g{k}"></span>{_cell(name)}</th>'
        + "".join(f"<td>{_cell(cell)}</td>" for cell in cells)
        + "</tr>"
        for k, (name, *cells) in enumerate(results.rows(study))
    )
    deploy, said, why = (
        " ".join(escape(sentence) for sentence in words)
        for words in (proofs.to_deploy(study), text.verdict(study), text.surprise(study))
    )
    first, then = (deploy, said) if deploy else (said, "")
    return f"""<header>
<h1>{escape(study.name)}</h1>
<p class="lead">{escape(text.what(study))}</p>
<p class="verdict">{first}</p>
{"".join(f"<p>{words}</p>" for words in (then, why) if words)}
<p class="note">Averages over the last quarter of the episodes, unless said otherwise; small: 95 % intervals over
seeds.</p>
<div class="wide" tabindex="0" role="region" aria-label="Results of each setting"><table class="results">
<thead><tr>{heads}</tr></thead><tbody>{rows}</tbody></table></div>
</header>"""


def _cell(cell: results.Cell) -> str:
    mark = ""
    if cell.kept is not None:
        word = "kept" if cell.kept else "broken"
        mark = f'<span class="{word}">{word}</span>'
    note = f"<small>{escape(cell.note)}</small>" if cell.note else ""
    return f"<span>{escape(cell.text)}</span> {mark}{note}"


def _controls(study: Study) -> str:
    """Which lines are seen, and how; stays in view."""
    lines = "".join(
        f'<label class="line"><input type="checkbox" name="shown" value="{k}" checked>'
        f'<span class="chip g{k}"></span>{escape(line.name)}</label>'
        for k, line in enumerate(study.lines)
    )
    settings = f"<fieldset><legend>Settings</legend>{lines}</fieldset>"
    return f"""<form class="controls" aria-label="What the charts show">
{settings if len(study.lines) > 1 else ""}
{_switch("scale", "Scale", linear="linear", log="logarithmic")}
{_switch("counted", "Count", net="net, as in the paper", strong="losses only")}
</form>"""


def _switch(name: str, legend: str, **choices: str) -> str:
    buttons = "".join(
        f'<label><input type="radio" name="{name}" value="{value}"{"" if k else " checked"}>'
        f"<span>{label}</span></label>"
        for k, (value, label) in enumerate(choices.items())
    )
    return f'<fieldset class="switch"><legend>{legend}</legend>{buttons}</fieldset>'


# The pictures


def _sums(study: Study) -> str:
    figures = [
        _figure(metric, f"Summed {metric} against episodes. {_ends(study, metric)}")
        for metric in ("regret", "violation")
    ]
    more = _details("How fast they grow over the last decade", results.growth(study))
    says = SAYS["regret"] + _equal(study, ["regret", "violation"])
    return _section("Regret and violation", says, figures, more, "curves")


def _meter(study: Study) -> str:
    says = "from the episodes alone (bands), and the exact one (lines)."
    figures = [
        _figure(f"evidence-{i}", f"Bounds of the violation of {study.called(i)}, {says}")
        for i in range(study.m)
    ]
    proven = "".join(f"<li>{escape(sentence)}</li>" for sentence in proofs.evidence(study))
    more = f"<details><summary>An episode, at the end</summary><ul>{proven}</ul></details>"
    says = SAYS["meter"] + _equal(study, [f"violation_{i}" for i in range(study.m)])
    return _section("What the episodes alone prove", says, figures, more, "curves")


def _epochs(study: Study) -> str:
    ends = [
        f"{line.name} after episode {proofs.certified_after(line)}"
        for line in study.lines
        if any(about.get("certified") for about in line.abouts)
    ]
    certified = f"Certified first: {', '.join(ends)}." if ends else "Nothing was certified."
    figure = _figure("epochs", f"What was played when, and what trials proved. {certified}")
    says = f"{SAYS['epochs']} Of seed {study.lines[0].group.seeds[0]}. {escape(certified)}"
    return _section("Exploring, trials and certificates", says, [figure], "", "epochs")


def _levels(study: Study) -> str:
    reward = _late(study, map(study.late_reward, study.lines))
    figures = [_figure("reward", f"Reward an episode. {reward}")]
    for i, limit in enumerate(study.limits(study.episodes)):
        wanted = f"{text.SIGNS[study.senses[i]]} {number(limit)}"
        says = f"{study.quantity(i)} of an episode, which is to be {wanted}."
        late = _late(study, [study.late_constraint(line, i) for line in study.lines])
        figures.append(_figure(f"limit-{i}", f"{says} {late}"))
    columns = ["value", *(f"constraint_{i}" for i in range(study.m))]
    more = _details("Numbers", _sampled(study, columns))
    says = SAYS["level"] + _equal(study, columns)
    return _section("Reward and limits, episode by episode", says, figures, more, "curves")


def _limits(study: Study) -> str:
    figures, columns = [], []
    for i, limit in enumerate(study.limits(study.episodes)):
        closing = f"closing in on {number(limit)}"
        price = f"Multiplier of {study.called(i)} against episodes."
        late = _late(study, [line.late(f"multiplier_{i}") for line in study.lines])
        figures += [
            _figure(f"threshold-{i}", f"Bounds of {text.limit_name(study, i)}, {closing}."),
            _figure(f"multiplier-{i}", f"{price} {late}"),
        ]
        columns += [f"threshold_lower_{i}", f"threshold_upper_{i}", f"multiplier_{i}"]
    title = "What is known of the limits, and what they cost"
    more = _details("Numbers", _sampled(study, columns))
    says = SAYS["threshold"] + _equal(study, [c for c in columns if "threshold" in c])
    return _section(title, says, figures, more, "curves")


def _diagnosis(study: Study) -> str:
    """What keeps a line from being good, and the option that would change it."""
    said = "".join(
        f"<li>{escape(name)}: {escape(found['what'])} <strong>{escape(found['option'])}</strong>: "
        f"{escape(found['advice'])}</li>"
        for name, each in text.diagnosis(study).items()
        for found in each
    )
    if not said:
        return ""
    return f"""<section><h2>What keeps them from being better</h2>
<p>Of runs whose last policy breaks a limit or earns less than 95 % of the best: what can be seen of them, and the
option that would change it.</p><ul>{said}</ul></section>"""


def _region(study: Study, table: Table) -> str:
    figures = []
    for i in range(study.m):
        corners = zip(table["limit"], table["group"], table["set"], table["reward"], strict=True)
        best = [
            f"{name} {number(reward)}"
            for limit, group, name, reward in corners
            if limit == i and group <= 0 and name.startswith("optimum")
        ]
        says = f"Reward against {study.called(i)} of all policies."
        optima = f"Reward of the {', '.join(best)}." if best else "No policy keeps the limits."
        close = "The same, close up around the best policies and where learning ended."
        figures += [_figure(f"region-{i}", f"{says} {optima}"), _figure(f"closeup-{i}", close)]
    more = _chooser(study, "region", range(len(study.lines)))
    return _section("Everything that can be achieved", SAYS["region"], figures, more, "regions")


def _frontier(study: Study) -> str:
    ends = f"{_ends(study, 'regret')} {_ends(study, 'violation')}"
    figure = _figure("frontier", f"Regret against violation, by stance. {ends}")
    return _section("Caution or reward", SAYS["frontier"], [figure], _slider(study), "frontier")


def _slider(study: Study) -> str:
    """From the most careful stance to the boldest."""
    stances, said = study.stances, []
    for k in stances:
        ends = (
            f"{m} {number(study.lines[k].summary.final[m].mean)}" for m in ("regret", "violation")
        )
        said.append(f"{study.lines[k].name}: {', '.join(ends)}")
    return (
        f'<label class="choose">Stance <input type="range" name="picked" min="0" max="{len(stances) - 1}" '
        f'value="0" step="1" data-groups="{json.dumps(stances)}" data-says="{escape(json.dumps(said))}">'
        f'</label><output aria-live="polite">{escape(said[0])}</output>'
    )


def _policy(study: Study, table: Table) -> str:
    states, seed = len(set(table["state"])), study.lines[0].group.seeds[0]
    part = " Only the states that are visited most are shown."
    says = f"{SAYS['policy']} Of seed {seed}.{part if states < study.problem.cmdp.S else ''}"
    figure = _figure(
        "policy", "Maps of the final policy over states and steps, one for each action."
    )
    more = _chooser(study, "policy", sorted(set(table["group"])))
    return _section("The policy at the end", says, [figure], more, "policies")


def _certificates(study: Study) -> str:
    said = "".join(f"<li>{escape(sentence)}</li>" for sentence in proofs.certificates(study))
    if not said:
        return ""
    return f"""<section><h2>May it be deployed?</h2>
<p>What the learners' own data prove about the policy at the end, whatever it is and however it was found, with the
confidence that they were made for. Such proofs need many episodes; fresh episodes of one policy decide sooner
(<code>ss.certify</code>).</p><ul>{said}</ul></section>"""


def _about(study: Study, tables: dict[str, Table]) -> str:
    buttons = "".join(
        f'<li><button type="button" data-table="{name}">{title}</button></li>'
        for name, title in DOWNLOADS.items()
        if name in tables
    )
    left = ""
    if "runs" not in tables:
        left = "<p>The numbers of every run are too many for this page: <code>runs/*.parquet</code> beside it.</p>"
    facts = "".join(f"<dt>{escape(k)}</dt><dd>{escape(v)}</dd>" for k, v in results.about(study))
    return f"""<section><h2>What was run</h2><dl>{facts}</dl>
<h3>Numbers as CSV</h3><ul class="downloads">{buttons}</ul>{left}</section>"""


# Their parts


def _section(title: str, says: str, figures: Sequence[str], more: str, table: str) -> str:
    """A heading, how to read it, its charts, and its numbers."""
    columns = 3 if len(figures) == 3 else min(len(figures), 2)
    return f"""<section>
<h2>{title}</h2><p>{says}</p>
<div class="grid n{columns}">{"".join(figures)}</div>
<div class="more">{more}<button type="button" data-table="{table}">Download CSV</button></div>
</section>"""


def _figure(chart: str, says: str) -> str:
    return (
        f'<figure data-chart="{chart}"><div role="img" aria-label="{escape(says)}"></div></figure>'
    )


def _details(title: str, rows: Sequence[Sequence[str]]) -> str:
    """A table that can be opened."""
    head, *body = rows
    heads = "".join(f'<th scope="col">{escape(cell)}</th>' for cell in head)
    lines = "".join(
        f'<tr><th scope="row">{escape(first)}</th>'
        + "".join(f"<td>{escape(cell)}</td>" for cell in rest)
        + "</tr>"
        for first, *rest in body
    )
    return f"""<details><summary>{title}</summary><div class="wide" tabindex="0" role="region" aria-label="{title}">
<table><thead><tr>{heads}</tr></thead><tbody>{lines}</tbody></table></div></details>"""


def _chooser(study: Study, what: str, lines: Iterable[int]) -> str:
    """Which line a picture of one line is of."""
    options = "".join(f'<option value="{k}">{escape(study.lines[k].name)}</option>' for k in lines)
    select = f'<select name="chosen" data-of="{what}">{options}</select>'
    return f'<label class="choose">Setting {select}</label>'


def _equal(study: Study, columns: Sequence[str]) -> str:
    """Which curves lie on each other, so that nobody looks for them."""
    said = " ".join(escape(sentence) for sentence in text.equal(study, columns))
    return f" <strong>{said}</strong>" if said else ""


def _ends(study: Study, metric: str) -> str:
    ends = (f"{line.name} {number(line.summary.final[metric].mean)}" for line in study.lines)
    return f"{metric.capitalize()} at the end: {', '.join(ends)}."


def _late(study: Study, found: Iterable[Estimate]) -> str:
    ends = (
        f"{line.name} {number(each.mean)}" for line, each in zip(study.lines, found, strict=True)
    )
    return f"Late: {', '.join(ends)}."


def _sampled(study: Study, columns: Sequence[str]) -> list[list[str]]:
    """A few episodes of some columns, for a table that can be read."""
    rows = [["", "episode", *(_heading(study, column) for column in columns)]]
    wanted = [10**k for k in range(12) if 10**k < study.episodes] + [study.episodes]
    for line in study.lines:
        means = [line.columns[column].mean(axis=0) for column in columns]
        for n in sorted({int(abs(line.episodes - t).argmin()) for t in wanted}):
            cells = (number(float(mean[n]), 4) for mean in means)
            rows.append([line.name, f"{line.episodes[n]:,}", *cells])
    return rows


def _heading(study: Study, column: str) -> str:
    """A column of the store as it is read: the name of a limit for its number."""
    name, _, end = column.rpartition("_")
    if not end.isdigit():
        return {"value": study.names.reward}.get(column, column.replace("_", " "))
    called = study.called(int(end))
    return called if name == "constraint" else f"{called}: {name.replace('_', ' ')}"
