"""Practice: smaller bonuses and Bernstein's. What is gained, and does the success event still hold?"""

from __future__ import annotations

import numpy as np

from safespot.report.text import number

from . import pictures
from .inference import holm, larger, mean, share, share_at_least
from .measurements import Measurements, Trace, grouped
from .verdicts import DELTA, LEVEL, Claim, Figure, Judgment, Verdict, decide, table

PAPER = "the paper's"


def judge(evidence: Measurements) -> Judgment:
    """Every bonus beside the paper's, on the same seeds; the model's error against the bonus in use."""
    groups = grouped(evidence["practice"], lambda t: (variant(t), t.problem))
    variants = [v for v in dict.fromkeys(v for v, _ in groups) if v != PAPER]
    problems = list(dict.fromkeys(problem for _, problem in groups))
    verdicts, rows, points = [], [], []
    for name in (PAPER, *variants):
        for problem in problems:
            theirs = groups[name, problem]
            event = sum(success(t) for t in theirs)
            optimistic = sum(t.last("audit_optimism_slack") >= -1e-9 for t in theirs)
            n = len(theirs)
            rows.append(
                [name, problem, *(mean([t.last(m) for t in theirs], 0.05) for m in ("regret", "violation")),
                 f"{event} of {n}", number(max(t.last("audit_bonus_ratio") for t in theirs)), f"{optimistic} of {n}"]
            )  # fmt: skip
            for metric in ("regret", "violation"):
                average = np.mean([t[metric] for t in theirs], axis=0)
                points += [
                    {"x": float(x), "y": float(y), "series": name, "panel": f"{metric}: {problem}"}
                    for x, y in list(zip(theirs[0]["episode"], average, strict=True))[::4]
                    if x >= 100
                ]
    for name in variants:
        verdicts += [
            _gain(name, groups, problems),
            _event(name, [groups[name, p] for p in problems]),
        ]
    head = [
        "bonus",
        "problem",
        "regret",
        "violation",
        "success event holds",
        "largest error / bonus",
        "values optimistic",
    ]
    points.sort(key=lambda point: str(point["panel"]))
    return Judgment(
        tuple(verdicts),
        (table("At the end, pessimistic stance, inside units", head, rows),),
        (
            Figure(
                "verify-practice",
                "Regret and violation along the runs, by bonus.",
                pictures.lines(points, "episode", "metric", log_y=False, free_y=True),
            ),
        ),
        (
            "The success event here is that no pair's model is off by more than its bonus in use, in any "
            "episode (note 8 of the notes on the paper). It suffices for the bounds; learning may go well "
            "without it.",
        ),
    )


def variant(trace: Trace) -> str:
    """What a reader calls its bonus."""
    scale, kind = float(trace.option("bonus_scale", 1.0)), trace.option("bonus", "hoeffding")
    if kind == "hoeffding":
        return PAPER if scale == 1.0 else f"× {scale:g}"
    return "Bernstein" if scale == 1.0 else f"Bernstein × {scale:g}"


def success(trace: Trace) -> bool:
    """Whether the bonus in use covered the model's error throughout."""
    return trace.last("audit_bonus_ratio") <= 1.0


def _gain(name: str, groups: dict[tuple[str, str], list[Trace]], problems: list[str]) -> Verdict:
    """Less violation than with the paper's bonus, on the same seeds."""
    less, more, parts = [], [], []
    for problem in problems:
        ours = [t.last("violation") for t in groups[name, problem]]
        paper = [t.last("violation") for t in groups[PAPER, problem]]
        less.append(larger(paper, ours))
        more.append(larger(ours, paper))
        parts.append(f"{problem}: {mean(ours, 0.05)} against {mean(paper, 0.05)}")
    return Verdict(
        statement=f"The bonus {name} violates less than the paper's.",
        outcome=decide(holds=all(holm(less, LEVEL)), fails=any(holm(more, LEVEL))),
        reason="; ".join(parts) + ".",
        test=f"Wilcoxon's signed-rank test, paired by seed; Holm over problems at level {LEVEL}",
    )


def _event(name: str, each: list[list[Trace]]) -> Verdict:
    held = [sum(success(t) for t in theirs) for theirs in each]
    hits, n = sum(held), sum(len(theirs) for theirs in each)
    parts = [
        f"{theirs[0].problem}: {kept} of {len(theirs)}"
        for theirs, kept in zip(each, held, strict=True)
    ]
    return Verdict(
        statement=f"The success event still holds with the bonus {name}, in at least {1 - DELTA:.0%} of the runs.",
        outcome=share_at_least(hits, n, 1.0 - DELTA, LEVEL),
        reason=f"{'; '.join(parts)}: {share(hits, n, 0.05)} of the runs.",
        test=f"Clopper–Pearson, one-sided, at level {LEVEL}, all problems together",
    )


CLAIM = Claim(
    name="practice",
    title="Smaller bonuses in practice",
    says="The paper's bonus makes learning begin late. Practitioners scale it down, which the theorems do "
    "not cover; Bernstein's is ours and is covered. What is gained, and is the success event still observed?",
    place="Eq. opt-p; Appendix “Success Event” (app:success event)",
    sweeps=("practice",),
    judge=judge,
)
