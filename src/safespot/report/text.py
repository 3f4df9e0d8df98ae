"""What came out, in plain words and small tables."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

import numpy as np

from ..evidence.certificate import Certificate
from ..experiments.progress import duration
from ..experiments.summary import Estimate
from .findings import Line, Study
from .logs import in_model, of_model

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


def column(found: Sequence[Estimate]) -> list[tuple[str, str]]:
    """Means and intervals, all with as many decimals as show four digits of the largest; one seed has no interval."""
    largest = max((abs(one.mean) for one in found if one.mean), default=1.0)
    decimals = min(6, max(0, 3 - math.floor(math.log10(largest))))

    def said(x: float) -> str:
        return f"{x:,.{decimals}f}".replace("-", "−")

    return [
        (said(one.mean), "" if math.isnan(one.low) else f"{said(one.low)} to {said(one.high)}")
        for one in found
    ]


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
    sizes = {"state": cmdp.S, "action": cmdp.A, "step": cmdp.H, "limit": cmdp.m}
    size = ", ".join(_count(n, word) for word, n in sizes.items())
    problem = of_model(study) or f"“{study.lines[0].group.about['problem']}”"
    return (
        f"{_learner(learners)} learned {problem} ({size}) over {study.episodes:,} episodes, with "
        f"{many} {'seed' if many == '1' else 'seeds'}{groups}."
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
        one = "It" if len(kept) == 1 else f"The best of them, {top.name},"
        said += [
            f"{_who(study, kept)} kept {every} on average over the last quarter of the episodes.",
            f"{one} earned {earned(rewards[top], best)}.",
        ]
    if broke:
        worst = max(broke, key=lambda line: max(_shortfalls(study, line)))
        short_by = _shortfalls(study, worst)
        where, by = limit_name(study, short_by.index(max(short_by))), number(max(short_by), 2)
        if len(broke) == 1:
            said.append(f"{_who(study, broke)} broke {where} by {by} an episode.")
        elif not kept:
            said.append(
                f"None kept {every} on average over the last quarter of the episodes: {worst.name} broke {where} the "
                f"most, by {by} an episode."
            )
        else:
            said.append(
                f"{_who(study, broke)} did not: {worst.name} broke {where} the most, by {by} an episode."
            )
        top = max(broke, key=lambda line: rewards[line])
        extra = rewards[top] - max((rewards[line] for line in kept), default=-math.inf)
        if not kept:
            one = "It" if len(broke) == 1 else f"The best in reward, {top.name},"
            said.append(f"{one} earned {earned(rewards[top], best)}.")
        elif extra > 0.0:
            said.append(f"That brought up to {number(extra, 2)} more reward an episode.")
    return in_model(study, said)


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
    when = "at the end" if study.log is None else "of the model"
    known = [
        Cell("Known of the limit" if study.m == 1 else f"Known of limit {i + 1}", when)
        for i in range(study.m)
    ]
    violation = [Cell("Violation", "an episode, early"), Cell("Violation", "an episode, late")]
    certified = [Cell("Certified", "after episode")] if proving(study) else []
    return [Cell("", ""), reward, *each, *violation, *known, *certified]


def rows(study: Study) -> list[list[Cell]]:
    """A row per line: reward, limits, violation and how far the thresholds are known, late in learning."""
    lines, m = study.lines, range(study.m)
    reward = column([line.late("value") for line in lines])
    limits = [column([line.late(f"constraint_{i}") for line in lines]) for i in m]
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


def short_head(study: Study) -> list[Cell]:
    """The columns of the table that a terminal has room for."""
    _, reward, *rest = head(study)
    best = study.optimum(study.episodes)
    reward = Cell("Reward", "" if math.isnan(best) else f"best {number(best)}")
    metered = study.metered and study.log is None
    violation = [Cell("Violation an episode", "(proven bounds)")] if metered else []
    certified = [Cell("Certified", "after episode")] if proving(study) else []
    return [Cell(""), reward, *rest[: study.m], *violation, *certified]


def short_rows(study: Study) -> list[list[Cell]]:
    """A row per line: reward with its share of the best, limits, violation so far with its bounds, certificate."""
    best, made = study.optimum(study.episodes), []
    metered = study.metered and study.log is None
    for (name, reward, *rest), line in zip(rows(study), study.lines, strict=True):
        value = line.late("value").mean
        share = f" {100.0 * value / best:.0f} %" if best > 0.0 else ""
        made.append(
            [
                name,
                Cell(reward.text + share),
                *rest[: study.m],
                *([Cell(_violation_so_far(study, line))] if metered else []),
                *([Cell(certified_after(line))] if proving(study) else []),
            ]
        )
    return made


def _violation_so_far(study: Study, line: Line) -> str:
    """Net, an episode, over all of them: exact, and as the episodes alone prove it; a line of text per limit."""
    said = []
    for i in range(study.m):
        exact, low, high = (
            _brief(float(line.columns[f"{name}_{i}"][:, -1].mean()) / study.episodes)
            for name in ("violation", "evidence_violation_lower", "evidence_violation_upper")
        )
        said.append(f"{exact} ({low} to {high})")
    return "\n".join(said)


def _brief(value: float) -> str:
    """Two digits, and no more than three decimals."""
    return "0" if abs(value) < 5e-4 else number(round(value, 3), 2).removesuffix(".0")


def proving(study: Study) -> bool:
    """Whether some learner of it tries what it plans, and certifies."""
    if study.log is not None:  # of episodes that were simulated nothing is proven
        return False
    return any(about.get("epochs") for line in study.lines for about in line.abouts)


def certified_after(line: Line) -> str:
    """The episode after which something was certified first: the median over the seeds, and how many there are."""
    found = [about["certified"]["first"] for about in line.abouts if about.get("certified")]
    if not found:
        return "–"
    of = "" if len(found) == len(line.abouts) else f" ({len(found)} of {len(line.abouts)} seeds)"
    return f"{median(found):,.0f}{of}"


def to_deploy(study: Study) -> list[str]:
    """The policy that one would deploy: the best one certified, by the line that the study is about."""
    proven = [line for line in study.lines if any(a.get("certified") for a in line.abouts)]
    if not proven or study.log is not None:
        return []
    line = next(
        (each for each in proven if each.group.about["learner"] == "spot-epochs"), proven[0]
    )
    about = next(a for a in line.abouts if a.get("certified"))
    found = about["certified"]
    limits = listed(
        [
            f"{number(value)} (limit {SIGNS[study.senses[i]]} {number(study.limits(study.episodes)[i])})"
            for i, value in enumerate(found["constraints"])
        ]
    )
    confidence = 100.0 * found["certificate"]["confidence"]
    return [
        f"To deploy: the policy of {line.name} (seed {about['seed']}), certified with {confidence:g} % confidence "
        f"after episode {found['episode']:,}.",
        f"In truth it earns {earned(found['value'], study.optimum(study.episodes))}, and has {limits}.",
    ]


def surprise(study: Study) -> list[str]:
    """Why a learner that knows the limit may break it where one that does not keeps it."""
    kept = [line for line in study.lines if line.xi == 0.0 and all(study.kept(line))]
    broke = [
        line
        for line in study.lines
        if line.group.about["learner_options"].get("thresholds") == "known"
        and not all(study.kept(line))
        and any(line.group.about["learner"] == other.group.about["learner"] for other in kept)
    ]
    if not broke or study.log is not None:
        return []
    return [
        f"Why {broke[0].name} broke it and {kept[0].name} did not: whoever knows a limit aims at it, and noise moves "
        "the plan to either side; whoever must learn it plans with its stricter bound, and that leaves room."
    ]


def equal(study: Study, columns: Sequence[str]) -> list[str]:
    """Lines whose curves lie on each other, since they are the same at every episode: a sentence per set of them."""
    sets: list[list[Line]] = []
    for line in study.lines:
        for same in sets:
            if all(_alike(line, same[0], column) for column in columns):
                same.append(line)
                break
        else:
            sets.append([line])
    return [
        f"{_first_upper(listed([line.name for line in same]))} are equal here: their curves lie on each other."
        for same in sets
        if len(same) > 1
    ]


def _alike(one: Line, other: Line, column: str) -> bool:
    """Whether nobody sees a difference: within a thousandth of what the curves span."""
    if not np.array_equal(one.episodes, other.episodes):
        return False
    a, b = (np.nan_to_num(line.columns[column].mean(axis=0)) for line in (one, other))
    span = max(float(np.ptp(a)), float(np.ptp(b)))
    return bool((np.abs(a - b) <= 1e-3 * span + 1e-12).all())


def _known(line: Line, i: int) -> Cell:
    """Between which bounds a threshold is known to lie at the end."""
    low, high = (
        float(line.columns[f"threshold_{end}_{i}"][:, -1].mean()) for end in ("lower", "upper")
    )
    if high - low < 1e-12:
        return Cell("given")
    return Cell(f"{number(low)} to {number(high)}", f"{number(high - low, 2)} wide")


def certificates(study: Study) -> list[str]:
    """Whether the last policies may be deployed, by what their own runs have seen: a sentence per line."""
    if study.log is not None:  # of episodes that were simulated nothing is proven
        return []
    said = []
    for line in study.lines:
        found = [
            Certificate.from_dict(about["certificate"])
            for about in line.abouts
            if about.get("certificate") is not None
        ]
        if found:
            said.append(f"{line.name}: {_certified(found)}.")
    return said


def _certified(found: Sequence[Certificate]) -> str:
    """One line's certificates, a policy each: how many are safe, unsafe or open, and by how much they are short."""
    of = "" if len(found) == 1 else f" with {{}} of {len(found)} seeds"
    unsafe = [one for one in found if "unsafe" in one.verdict]
    safe = [one for one in found if one.safe.all()]
    unknown = [one for one in found if one not in unsafe and one not in safe]
    parts = []
    if safe:
        parts.append(f"proven safe{of.format(len(safe))}")
    if unsafe:
        parts.append(f"proven unsafe{of.format(len(unsafe))}")
    if unknown:
        short_by = median(max(float(one.shortfall.max()), 0.0) for one in unknown)
        more = median(float(one.more.max()) for one in unknown)
        after = "more episodes like these would not decide it" if math.isinf(more) else (
            f"about {float(f'{more:.1e}'):,.0f} more episodes would decide it"
        )  # fmt: skip
        parts.append(f"not decided{of.format(len(unknown))} (short by {number(short_by)}; {after})")
    return ", ".join(parts)


def evidence(study: Study) -> list[str]:
    """What the episodes alone prove of the violation, at the end of the runs: a sentence per line."""
    if study.log is not None:  # of episodes that were simulated nothing is proven
        return []
    said = []
    for line in study.lines if study.metered else ():
        each = []
        for i in range(study.m):
            low, high = (
                float(line.columns[f"evidence_violation_{end}_{i}"][:, -1].mean()) / study.episodes
                for end in ("lower", "upper")
            )
            which = "" if study.m == 1 else f" of {limit_name(study, i)}"
            each.append(f"between {number(low)} and {number(high)}{which}")
        said.append(f"{line.name}: {listed(each)}.")
    return said


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


def _shortfalls(study: Study, line: Line) -> list[float]:
    return [study.shortfall(line, i).mean for i in range(study.m)]


def _who(study: Study, lines: Sequence[Line]) -> str:
    if len(study.lines) == 1:
        return "It"
    if len(lines) <= 4:
        return _first_upper(listed([line.name for line in lines]))
    return f"{len(lines)} of {len(study.lines)} settings"


def _first_upper(words: str) -> str:
    return words if words.startswith("ξ") else words[0].upper() + words[1:]


def earned(reward: float, best: float) -> str:
    """A reward beside that of the best policy within the limits."""
    if math.isnan(best):
        return f"{number(reward)} an episode"
    if best > 0.0 and reward > 0.0:
        share = f"{100.0 * reward / best:.1f} %"
        return (
            f"{number(reward)} an episode, {share} of what the best policy within the limits earns"
        )
    return f"{number(reward)} an episode; the best policy within the limits earns {number(best)}"


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
