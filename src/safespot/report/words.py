"""What came out, in plain words and small tables."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ..experiments.progress import duration
from ..experiments.summary import Estimate
from .findings import Line, Study

SIGNS = {">=": "≥", "<=": "≤"}


@dataclass(frozen=True)
class Cell:
    """A number as it is read, what stands small beside it, and whether a limit is kept (None: no limit)."""

    text: str
    note: str = ""
    kept: bool | None = None


def number(value: float, digits: int = 3) -> str:
    """A number in as many digits as are read; counts have no decimals."""
    if math.isnan(value):
        return "–"
    if value == 0.0 or abs(value) < 1e-12:
        return "0"
    decimals = max(0, digits - 1 - math.floor(math.log10(abs(value))))
    text = f"{value:,.{min(decimals, 6)}f}"
    return text.replace("-", "−")


def interval(found: Estimate) -> str:
    """The interval of an estimate; nothing where one seed has none."""
    if math.isnan(found.low):
        return ""
    return f"{number(found.low)} to {number(found.high)}"


def listed(words: Sequence[str]) -> str:
    """Words as a sentence has them."""
    return " and ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)


def limit_name(study: Study, i: int) -> str:
    """How limit i is called."""
    return "the limit" if study.m == 1 else f"limit {i + 1}"


def what(study: Study) -> str:
    """What was run."""
    cmdp = study.problem.cmdp
    learners = listed(sorted({line.group.about["learner"] for line in study.lines}))
    seeds = sorted({len(line.group.seeds) for line in study.lines})
    many = f"{seeds[0]}" if len(seeds) == 1 else f"{seeds[0]} to {seeds[-1]}"
    groups = "" if len(study.lines) == 1 else f" for each of {len(study.lines)} settings"
    size = f"{_count(cmdp.S, 'state')}, {_count(cmdp.A, 'action')}, {_count(cmdp.H, 'step')}"
    return (
        f"{_learner(learners)} learned “{study.name}” ({size}, {_count(study.m, 'limit')}) over "
        f"{study.episodes:,} episodes, with {many} {'seed' if many == '1' else 'seeds'}{groups}."
    )


def verdict(study: Study) -> list[str]:
    """Who kept the limits late in learning, and what that cost."""
    best = study.optimum(study.episodes)
    kept = [line for line in study.lines if all(study.kept(line))]
    broke = [line for line in study.lines if line not in kept]
    every = "the limit" if study.m == 1 else "every limit"
    said = []
    rewards = {line: line.late("value").mean for line in study.lines}
    if kept:
        top = max(kept, key=lambda line: rewards[line])
        who = _who(study, kept)
        said.append(f"{who} kept {every} over the last tenth of the episodes.")
        one = "It" if len(kept) == 1 else f"The best of them, {top.name},"
        said.append(f"{one} earned {number(rewards[top])} an episode{_beside(rewards[top], best)}.")
    if broke:
        worst = max(broke, key=lambda line: max(_misses(study, line)))
        misses = _misses(study, worst)
        i = misses.index(max(misses))
        who = _who(study, broke)
        most = "" if len(broke) == 1 else f", {worst.name} the most,"
        said.append(
            f"{who}{most} missed {limit_name(study, i)} by {number(misses[i])} an episode."
        )
        if not kept:
            top = max(broke, key=lambda line: rewards[line])
            one = "It" if len(broke) == 1 else top.name
            said.append(
                f"{one} earned {number(rewards[top])} an episode{_beside(rewards[top], best)}."
            )
        else:
            extra = max(rewards[line] for line in broke) - max(rewards[line] for line in kept)
            if extra > 0.0:
                said.append(f"Missing it brought {number(extra)} more reward an episode.")
    return said


def head(study: Study) -> list[Cell]:
    """The columns of the first table."""
    best = study.optimum(study.episodes)
    limits = study.limits(study.episodes)
    reward = Cell("Reward", "" if math.isnan(best) else f"best within limits {number(best)}")
    each = [
        Cell(
            "Limit" if study.m == 1 else f"Limit {i + 1}",
            f"{SIGNS[study.senses[i]]} {number(limits[i])}",
        )
        for i in range(study.m)
    ]
    known = [
        Cell("Known of the limit" if study.m == 1 else f"Known of limit {i + 1}", "at the end")
        for i in range(study.m)
    ]
    violation = [Cell("Violation", "an episode, early"), Cell("Violation", "an episode, late")]
    return [Cell("", ""), reward, *each, *violation, *known]


def rows(study: Study) -> list[list[Cell]]:
    """A row per line: reward, limits, violation and how far the thresholds are known, late in learning."""
    return [_row(study, line) for line in study.lines]


def _row(study: Study, line: Line) -> list[Cell]:
    reward, kept = line.late("value"), study.kept(line)
    cells = [Cell(line.name), Cell(number(reward.mean), interval(reward))]
    for i in range(study.m):
        value = line.late(f"constraint_{i}")
        cells.append(Cell(number(value.mean), interval(value), kept[i]))
    for late in (False, True):
        violation = line.rate("strong_violation", late)
        cells.append(Cell(number(violation.mean, 2), interval(violation)))
    for i in range(study.m):
        low, high = (line.columns[f"threshold_{end}_{i}"][:, -1].mean() for end in ("lower", "upper"))
        known = "given" if high - low < 1e-12 else f"{number(low)} to {number(high)}"
        cells.append(Cell(known, "" if known == "given" else f"{number(high - low, 2)} wide"))
    return cells


def growth(study: Study) -> list[list[str]]:
    """The fitted exponents of every line, first their heads."""
    heads = {
        "regret": "regret", "violation": "violation",
        "strong_regret": "regret, losses only", "strong_violation": "violation, misses only",
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


def _misses(study: Study, line: Line) -> list[float]:
    return [study.shortfall(line, i).mean for i in range(study.m)]


def _who(study: Study, lines: Sequence[Line]) -> str:
    if len(study.lines) == 1:
        return "It"
    if len(lines) <= 4:
        names = listed([line.name for line in lines])
        return names[0].upper() + names[1:]
    return f"{len(lines)} of {len(study.lines)} settings"


def _beside(reward: float, best: float) -> str:
    """How that compares with the best policy within the limits."""
    if math.isnan(best):
        return ""
    share = f" ({100.0 * reward / best:.1f} %)" if best > 0.0 and reward > 0.0 else ""
    return f"; the best policy that keeps the limits has {number(best)}{share}"


def _learner(name: str) -> str:
    return name.upper() if name == "spot" else name[:1].upper() + name[1:]


def _count(n: int, word: str) -> str:
    return f"{n:,} {word}{'' if n == 1 else 's'}"


def _options(options: dict[str, Any]) -> str:
    return ", ".join(f"{k} = {v}" for k, v in options.items())


def _commit(git: dict[str, Any] | None) -> str:
    if git is None:
        return "an installed package"
    return f"commit {git['commit'][:12]}{', changed since' if git['changed'] else ''}"
