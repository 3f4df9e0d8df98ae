"""What came out, in plain words."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from ..experiments.summary import Estimate
from .findings import Line, Study, problem_title
from .logs import in_model, of_model

SIGNS = {">=": "≥", "<=": "≤"}


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
    """How limit i is called in a sentence."""
    if study.names.limits is not None:
        return f"the limit of {study.called(i)}"
    return "the limit" if study.m == 1 else f"limit {i + 1}"


def amount(study: Study, i: int, value: str) -> str:
    """So much of constraint i over an episode, in its unit where it has one."""
    return f"{value} {study.names.unit(i) or 'an episode'}"


def what(study: Study) -> str:
    """What was run."""
    cmdp = study.problem.cmdp
    learners = listed(sorted({line.group.about["learner"] for line in study.lines}))
    seeds = sorted({len(line.group.seeds) for line in study.lines})
    many = f"{seeds[0]}" if len(seeds) == 1 else f"{seeds[0]} to {seeds[-1]}"
    groups = "" if len(study.lines) == 1 else f" for each of {len(study.lines)} settings"
    sizes = {"state": cmdp.S, "action": cmdp.A, "step": cmdp.H, "limit": cmdp.m}
    size = ", ".join(_count(n, word) for word, n in sizes.items())
    problem = of_model(study) or f"“{problem_title(study.lines[0].group.about)}”"
    return (
        f"{_learner(learners)} learned {problem} ({size}) over {study.episodes:,} episodes, with "
        f"{many} {'seed' if many == '1' else 'seeds'}{groups}."
    )


def verdict(study: Study) -> list[str]:
    """Who kept the limits late in learning, and what that cost."""
    kept = [line for line in study.lines if all(study.kept(line))]
    broke = [line for line in study.lines if line not in kept]
    every = limit_name(study, 0) if study.m == 1 else "every limit"
    said = []
    rewards = {line: study.late_reward(line).mean for line in study.lines}
    if kept:
        top = max(kept, key=lambda line: rewards[line])
        one = "It" if len(kept) == 1 else f"The best of them, {top.name},"
        said += [
            f"{_who(study, kept)} kept {every} on average over the last quarter of the episodes.",
            *_by_a_hair(study, kept),
            f"{one} earned {earned(study, rewards[top])}.",
        ]
    if broke:
        worst = max(broke, key=lambda line: max(_shortfalls(study, line)))
        short_by = _shortfalls(study, worst)
        i = short_by.index(max(short_by))
        where, by = limit_name(study, i), amount(study, i, number(short_by[i], 2))
        if len(broke) == 1:
            said.append(f"{_who(study, broke)} broke {where} by {by}.")
        elif not kept:
            said.append(
                f"None kept {every} on average over the last quarter of the episodes: {worst.name} broke {where} the "
                f"most, by {by}."
            )
        else:
            said.append(
                f"{_who(study, broke)} did not: {worst.name} broke {where} the most, by {by}."
            )
        top = max(broke, key=lambda line: rewards[line])
        extra = rewards[top] - max((rewards[line] for line in kept), default=-math.inf)
        if not kept:
            one = "It" if len(broke) == 1 else f"The best in reward, {top.name},"
            said.append(f"{one} earned {earned(study, rewards[top])}.")
        elif extra > 0.0:
            unit = study.names.reward_unit or "an episode"
            said.append(f"That brought up to {number(extra, 2)} more reward ({unit}).")
    return in_model(study, said)


def short_verdict(study: Study) -> list[str]:
    """Who kept the limits late in learning, and who broke one the most, in a sentence each."""
    kept = [line for line in study.lines if all(study.kept(line))]
    broke = [line for line in study.lines if line not in kept]
    every = limit_name(study, 0) if study.m == 1 else "every limit"
    said = [f"{_who(study, kept)} kept {every} late in learning."] if kept else []
    said += _by_a_hair(study, kept)
    if broke:
        worst = max(broke, key=lambda line: max(_shortfalls(study, line)))
        short_by = _shortfalls(study, worst)
        i = short_by.index(max(short_by))
        which = "it" if kept and study.m == 1 else limit_name(study, i)
        most = " the most" if len(broke) > 1 else ""
        name = worst.name if kept else first_upper(worst.name)
        said.append(
            f"{first_upper(name)} broke {which}{most}, by {amount(study, i, number(short_by[i], 2))}."
        )
    return said


def _by_a_hair(study: Study, kept: Sequence[Line]) -> list[str]:
    """Lines that count as keeping a limit and yet are beyond it, so that nobody takes the number for a mistake."""
    return [
        f"{first_upper(line.name)} is beyond {limit_name(study, i)} by "
        f"{amount(study, i, number(short_by, 2))}: less than a thousandth of its range, which counts as kept."
        for line in kept
        for i, short_by in enumerate(_shortfalls(study, line))
        if short_by > study.hair(i) / 10.0
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
        f"{first_upper(listed([line.name for line in same]))} are equal here: their curves lie on each other."
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


def _shortfalls(study: Study, line: Line) -> list[float]:
    return [study.shortfall(line, i).mean for i in range(study.m)]


def _who(study: Study, lines: Sequence[Line]) -> str:
    if len(study.lines) == 1:
        return "It"
    if len(lines) <= 4:
        return first_upper(listed([line.name for line in lines]))
    return f"{len(lines)} of {len(study.lines)} settings"


def first_upper(words: str) -> str:
    """As a sentence begins; a letter of the paper stays as it is."""
    return words if words.startswith("ξ") else words[0].upper() + words[1:]


def earned(study: Study, reward: float) -> str:
    """A reward beside that of the best policy within the limits."""
    best, sum_ = study.optimum(study.episodes), number(reward)
    unit = study.names.reward_unit
    told = f"{sum_} ({unit})" if unit else f"{sum_} an episode"
    if math.isnan(best):
        return told
    if best > 0.0 and reward > 0.0:
        share = f"{100.0 * reward / best:.1f} %"
        return f"{told}, {share} of what the best policy within the limits earns"
    return f"{told}; the best policy within the limits earns {number(best)}"


def diagnosis(study: Study) -> dict[str, list[dict[str, str]]]:
    """What keeps each line from being good, with the option that would change it: of all seeds, each option once."""
    if study.log is not None:  # advice for a learner in the world; this one learned in a model
        return {}
    found: dict[str, list[dict[str, str]]] = {}
    for line in study.lines:
        each = {f["option"]: f for about in line.abouts for f in about.get("diagnosis") or ()}
        if each:
            found[line.name] = list(each.values())
    return found


def _learner(name: str) -> str:
    return name.upper() if name == "spot" else name[:1].upper() + name[1:]


def _count(n: int, word: str) -> str:
    return f"{n:,} {word}{'' if n == 1 else 's'}"
