"""Not knowing the limits costs little: SPOT beside the same learner that is told them."""

from __future__ import annotations

import math
from typing import Any

from safespot.report.text import number
from safespot.theory import explicit_bound

from . import pictures
from .inference import Interval, mean, share, share_at_least
from .measurements import STANCES, Measurements, Trace, grouped
from .orders import METRICS, logarithms
from .verdicts import DELTA, LEVEL, Claim, Figure, Judgment, Outcome, Verdict, table, together

Groups = dict[tuple[str, int, str], list[Trace]]


def judge(evidence: Measurements) -> Judgment:
    """What SPOT has more of than the told learner, seed by seed, as T grows."""
    groups = grouped(evidence["orders"], lambda t: (t.problem, t.run.episodes, _who(t)))
    problems = list(dict.fromkeys(problem for problem, _, _ in groups))
    lengths = sorted({T for _, T, _ in groups})
    verdicts: list[Verdict] = []
    rows, points = [], []
    for stance in STANCES.values():
        for metric in METRICS:
            verdicts += [
                _order(groups, problems, lengths, stance, metric),
                _allowance(groups, problems, lengths[-1], stance, metric),
            ]
            for problem in problems:
                for T in lengths:
                    ours, told = groups[problem, T, stance], groups[problem, T, "told"]
                    found = mean(extra(ours, told, metric), 0.05)
                    rows.append(
                        [problem, stance, metric, f"{T:,}", found, _ratio(ours, told, metric)]
                    )
                    points.append(_point(found, T, stance, f"{metric}: {problem}"))
    head = ["problem", "stance", "metric", "T", "(SPOT − told) / √T", "SPOT / told"]
    points.sort(key=lambda point: str(point["panel"]))
    return Judgment(
        tuple(verdicts),
        (table("The price of not knowing the limits, inside units", head, rows),),
        (
            Figure(
                "verify-known",
                "What SPOT has more of than the learner that is told the limits, divided by √T, on the same "
                "seeds. Below 0 it has less.",
                pictures.lines(points, "T", "extra / √T", log_y=False, free_y=True),
            ),
        ),
        (
            "A ratio is given where both learners have a positive sum in every seed. A regret below 0 is "
            "reward above the constrained optimum, paid for by violation; it has no meaningful ratio.",
        ),
    )


def extra(ours: list[Trace], told: list[Trace], metric: str) -> list[float]:
    """What SPOT has more of, divided by the root of T, seed by seed."""
    T = ours[0].run.episodes
    return [
        (a.last(metric) - b.last(metric)) / math.sqrt(T) for a, b in zip(ours, told, strict=True)
    ]


def allowed(trace: Trace, metric: str) -> float:
    """By how much the explicit bound exceeds the one with known limits, whose radii are zero."""
    c, T = trace.cmdp, trace.run.episodes
    learned, known = (
        explicit_bound(
            c.A, c.H, c.m, T, trace.rho, zeta_sum=Z, phi_sum=0.0, xi=float(trace.option("stance"))
        )
        for Z in (trace.last("audit_zeta_sum"), 0.0)
    )
    return float(getattr(learned, metric) - getattr(known, metric))


def _order(
    groups: Groups, problems: list[str], lengths: list[int], stance: str, metric: str
) -> Verdict:
    """The extra does not outgrow the root of T over the last decade."""
    top = lengths[-1]
    before = min(lengths, key=lambda T: abs(T - top / 10))
    level = LEVEL / max(1, len(problems))
    outcomes, parts = [], []
    for problem in problems:
        early, late = (
            extra(groups[problem, T, stance], groups[problem, T, "told"], metric)
            for T in (before, top)
        )
        one = groups[problem, top, "told"][0]
        growth = logarithms(one, top) / logarithms(one, before)
        outcomes.append(_grown(late, early, growth, level))
        parts.append(
            f"{problem}: {number(mean(early, 0.05).mean)} at T = {before:,}, {number(mean(late, 0.05).mean)} "
            f"at T = {top:,}"
        )
    return Verdict(
        statement=f"Not knowing the limits costs the {stance} stance at most of order √T in {metric}.",
        outcome=together(outcomes),
        reason="Extra over the told learner, divided by √T: " + "; ".join(parts) + ".",
        test="the extra divided by √T is not above 0, or grows over the last decade of T by no more than the "
        f"logarithm does; paired by seed, Student, one-sided, at level {level:.4f} for each problem. Growth "
        "at finite T refutes no order: it is then not shown",
    )


def _grown(late: list[float], early: list[float], growth: float, level: float) -> Outcome:
    more = mean([b - growth * max(a, 0.0) for a, b in zip(early, late, strict=True)], 2 * level)
    nothing = mean(late, 2 * level).high <= 0.0
    return Outcome.HOLDS if nothing or more.high <= 0.0 else Outcome.OPEN


def _allowance(groups: Groups, problems: list[str], T: int, stance: str, metric: str) -> Verdict:
    """The extra is at most what the bounds differ by, in the longest runs."""
    kept, n, shares = 0, 0, []
    for problem in problems:
        for ours, told in zip(groups[problem, T, stance], groups[problem, T, "told"], strict=True):
            more, limit = ours.last(metric) - told.last(metric), allowed(ours, metric)
            kept, n = kept + (more <= limit), n + 1
            if limit > 0.0:
                shares.append(more / limit)
    most = (
        f"; the largest extra is {number(max(shares))} of that" if shares else ", which is nothing"
    )
    return Verdict(
        statement=f"It costs the {stance} stance no more {metric} than the bounds differ by.",
        outcome=share_at_least(kept, n, 1.0 - DELTA, LEVEL),
        reason=f"At T = {T:,}, {kept} of {n} runs ({share(kept, n, 0.05)}) have at most as much more as the "
        f"thresholds' part of the explicit bound{most}.",
        test=f"Clopper–Pearson, one-sided, at level {LEVEL}, all problems together",
    )


def _who(trace: Trace) -> str:
    return "told" if trace.run.learner != "spot" else STANCES[float(trace.option("stance"))]


def _ratio(ours: list[Trace], told: list[Trace], metric: str) -> Interval | str:
    pairs = [(a.last(metric), b.last(metric)) for a, b in zip(ours, told, strict=True)]
    if min(min(pair) for pair in pairs) <= 0.0:
        return "–"
    return mean([a / b for a, b in pairs], 0.05)


def _point(found: Interval, T: int, stance: str, panel: str) -> dict[str, Any]:
    whiskers = {} if math.isinf(found.low) else {"low": found.low, "high": found.high}
    return {"x": T, "y": found.mean, "series": stance, "panel": panel, **whiskers}


CLAIM = Claim(
    name="known",
    title="Not knowing the limits costs little",
    says="SPOT, which sees limits only through noise, performs comparably to OptPrimalDual, the same "
    "algorithm with known limits: the same order in T. Same problems, seeds and constants.",
    place="Abstract; remark after Theorem 2",
    sweeps=("orders",),
    judge=judge,
)
