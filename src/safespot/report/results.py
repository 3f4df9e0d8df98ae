"""The tables of what came out: a row per line of a study, for the page and for a terminal."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from ..experiments.progress import duration
from ..experiments.summary import Estimate
from .findings import Line, Study
from .proofs import certified_after, proving
from .text import SIGNS, column, first_upper, limit_name, listed, number


@dataclass(frozen=True)
class Cell:
    """A number as it is read, what stands small beside it, and whether a limit is kept (None: no limit)."""

    text: str
    note: str = ""
    kept: bool | None = None


def head(study: Study) -> list[Cell]:
    """The columns of the first table."""
    best = study.optimum(study.episodes)
    limits = study.limits(study.episodes)
    unit = study.names.reward_unit
    reward = Cell(
        f"Reward, {unit}" if unit else "Reward",
        "" if math.isnan(best) else f"best within limits {number(best)}",
    )
    each = [
        Cell(
            first_upper(_limit(study, i)),
            f"{SIGNS[study.senses[i]]} {number(limits[i])} {study.names.unit(i)}".strip(),
        )
        for i in range(study.m)
    ]
    when = "at the end" if study.log is None else "of the model"
    known = [Cell(f"Known of {limit_name(study, i)}", when) for i in range(study.m)]
    violation = [Cell("Violation", f"losses only, {part}") for part in ("early", "late")]
    certified = [Cell("Certified", "after episode")] if proving(study) else []
    return [Cell("", ""), reward, *each, *violation, *known, *certified]


def rows(study: Study) -> list[list[Cell]]:
    """A row per line: reward, limits, violation and how far the thresholds are known, late in learning."""
    lines, m = study.lines, range(study.m)
    reward = column([study.late_reward(line) for line in lines])
    limits = [column([study.late_constraint(line, i) for line in lines]) for i in m]
    both = [line.rate("strong_violation", late) for late in (False, True) for line in lines]
    violation = column(both)
    early, late = violation[: len(lines)], violation[len(lines) :]
    return [
        [
            Cell(line.name),
            Cell(*reward[k]),
            *(
                Cell(*limits[i][k], kept if study.log is None else None)
                for i, kept in enumerate(study.kept(line))
            ),
            Cell(*early[k]),
            Cell(*late[k]),
            *(_known(line, i) for i in m),
            *([Cell(certified_after(line))] if proving(study) else []),
        ]
        for k, line in enumerate(lines)
    ]


def short_head(study: Study, narrow: bool = False) -> list[Cell]:
    """The columns of the table that a terminal has room for; rows of a narrow one have two lines."""
    best, limits = study.optimum(study.episodes), study.limits(study.episodes)
    reward = Cell("Reward", "" if math.isnan(best) else f"best {number(best)}")
    each = [
        Cell(first_upper(_limit(study, i)), f"{SIGNS[study.senses[i]]} {number(limits[i])}")
        for i in range(study.m)
    ]
    metered = study.metered
    title = "Violation" if narrow else "Violation an episode"
    violation = [Cell(title, "proven bounds" if narrow else "(proven bounds)")] if metered else []
    certified = (
        [Cell("Certified", "after" if narrow else "after episode")] if proving(study) else []
    )
    return [Cell(""), reward, *each, *violation, *certified]


def _limit(study: Study, i: int) -> str:
    """The head of a limit's column."""
    if study.names.limits is not None:
        return study.called(i)
    return "limit" if study.m == 1 else f"limit {i + 1}"


def short_rows(study: Study, narrow: bool = False) -> list[list[Cell]]:
    """A row per line: reward with its share of the best, limits, violation so far with its bounds, certificate."""
    best, made = study.optimum(study.episodes), []
    metered = study.metered
    for (name, reward, *rest), line in zip(rows(study), study.lines, strict=True):
        value = study.late_reward(line).mean
        share = f"{100.0 * value / best:.0f}\N{NO-BREAK SPACE}%" if best > 0.0 else ""
        between = "\n" if narrow else " "
        made.append(
            [
                name,
                Cell(f"{reward.text}{between}{share}" if share else reward.text),
                *rest[: study.m],
                *([Cell(_violation_so_far(study, line, narrow))] if metered else []),
                *([Cell(certified_after(line))] if proving(study) else []),
            ]
        )
    return made


def _violation_so_far(study: Study, line: Line, narrow: bool) -> str:
    """Net, an episode, over all of them: exact, and as the episodes alone prove it; a line of text per limit."""
    said = []
    for i in range(study.m):
        exact, low, high = (
            _brief(float(line.columns[f"{name}_{i}"][:, -1].mean()) / study.episodes)
            for name in ("violation", "evidence_violation_lower", "evidence_violation_upper")
        )
        said.append(f"{exact}\n{low} to {high}" if narrow else f"{exact} ({low} to {high})")
    return "\n".join(said)


def _brief(value: float) -> str:
    """Two digits, and no more than three decimals."""
    shown = round(value, 3)
    if 0.0 < abs(shown) < 0.01:
        return f"{shown:.3f}".replace("-", "−")
    return number(shown, 2).removesuffix(".0")


def _known(line: Line, i: int) -> Cell:
    """Between which bounds a threshold is known to lie at the end."""
    low, high = (
        float(line.columns[f"threshold_{end}_{i}"][:, -1].mean()) for end in ("lower", "upper")
    )
    if high - low < 1e-12:
        return Cell("given")
    return Cell(f"{number(low)} to {number(high)}", f"{number(high - low, 2)} wide")


def growth(study: Study) -> list[list[str]]:
    """The fitted exponents of every line, first their heads."""
    heads = {
        "regret": "regret", "violation": "violation",
        "strong_regret": "regret, losses only", "strong_violation": "violation, losses only",
    }  # fmt: skip
    return [
        ["", *heads.values()],
        *([line.name, *(_power(line.summary.exponent[m]) for m in heads)] for line in study.lines),
    ]


def about(study: Study) -> list[tuple[str, str]]:
    """What was run, for whoever wants to run it again."""
    found = [about for line in study.lines for about in line.abouts]
    first = found[0]
    seeds = sorted({a["seed"] for a in found})
    git = {_commit(a["provenance"]["git"]) for a in found}
    pairs = [
        ("Problem", f"{first['problem']} {_options(first['problem_options'])}".strip()),
        ("Observed", _options(first["signals"]) or "as the problem says"),
        ("Episodes", f"{study.episodes:,}"),
        ("Seeds", ", ".join(map(str, seeds)) if len(seeds) <= 16 else f"{seeds[0]} to {seeds[-1]} ({len(seeds)})"),
        ("Runs", f"{len(found)}, {duration(sum(a['seconds'] for a in found))} of learning together"),
        ("Ended", max(a["provenance"]["ended"] for a in found).replace("T", " ")[:16] + " UTC"),
        ("Versions", ", ".join(sorted({f"{k} {v}" for a in found for k, v in a["provenance"]["versions"].items()}))),
        ("Source", listed(sorted(git))),
        ("Computer", listed(sorted({a["provenance"]["system"] for a in found}))),
    ]  # fmt: skip
    for line in study.lines:
        rho = line.abouts[0]["rho"]
        text = f"{line.group.about['learner']} {_options(line.group.about['learner_options'])}"
        pairs.append((line.name, f"{text}; ρ = {'∞' if rho is None else number(rho)}"))
    return pairs


def _power(found: Estimate) -> str:
    if found.seeds == 0:
        return "not positive"
    text = f"T^{found.mean:.2f}"
    return text if math.isnan(found.low) else f"{text} ({found.low:.2f} to {found.high:.2f})"


def _options(options: dict[str, Any]) -> str:
    return ", ".join(f"{k} = {v}" for k, v in options.items())


def _commit(git: dict[str, Any] | None) -> str:
    if git is None:
        return "an installed package"
    return f"commit {git['commit'][:12]}{', changed since' if git['changed'] else ''}"
