"""Not knowing the limits costs little: SPOT beside the same learner that is told them."""

from __future__ import annotations

import math

from ..report.words import number
from . import pictures
from .evidence import Evidence, Trace, grouped
from .inference import Interval, mean
from .orders import METRICS, logarithms
from .verdicts import LEVEL, Claim, Figure, Judgement, Outcome, Verdict, decide, table, together

STANCES = {0.0: "pessimistic", 1.0: "optimistic"}


def judge(evidence: Evidence) -> Judgement:
    """What SPOT has more of than the told learner, a √T, seed by seed, as T grows."""
    groups = grouped(evidence["orders"], lambda t: (t.problem, t.run.episodes, _who(t)))
    problems = list(dict.fromkeys(problem for problem, _, _ in groups))
    lengths = sorted({T for _, T, _ in groups})
    level = LEVEL / max(1, len(problems))
    verdicts, rows, points = [], [], []
    for stance in STANCES.values():
        for metric in METRICS:
            outcomes, parts = [], []
            for problem in problems:
                extra = {}
                for T in lengths:
                    ours, told = groups[problem, T, stance], groups[problem, T, "told"]
                    extra[T] = _extra(ours, told, metric, T)
                    found, ratio = mean(extra[T], 0.05), _ratio(ours, told, metric)
                    rows.append([problem, stance, metric, f"{T:,}", found, ratio])
                    whiskers = (
                        {} if math.isinf(found.low) else {"low": found.low, "high": found.high}
                    )
                    points.append(
                        {"x": T, "y": found.mean, "series": stance, "panel": f"{metric}: {problem}", **whiskers}
                    )  # fmt: skip
                top, before = lengths[-1], lengths[-1] / 10
                earlier = min(lengths, key=lambda T: abs(T - before))
                allowed = logarithms(groups[problem, top, "told"][0], top) / logarithms(
                    groups[problem, top, "told"][0], earlier
                )
                outcome = _outcome(extra[top], extra[earlier], allowed, level)
                outcomes.append(outcome)
                parts.append(
                    f"{problem}: {number(mean(extra[earlier], 0.05).mean)} at T = {earlier:,}, "
                    f"{number(mean(extra[top], 0.05).mean)} at T = {top:,}"
                )
            verdicts.append(
                Verdict(
                    statement=f"Not knowing the limits costs the {stance} stance at most of order √T in {metric}.",
                    outcome=together(outcomes),
                    reason="Extra over the told learner, divided by √T: " + "; ".join(parts) + ".",
                    test="the extra divided by √T does not grow over the last decade of T by more "
                    "than the logarithm does, or is "
                    f"not above 0; paired by seed, Student, one-sided, at level {level:.4f} for each problem",
                )
            )
    head = ["problem", "stance", "metric", "T", "(SPOT − told) / √T", "SPOT / told"]
    points.sort(key=lambda point: str(point["panel"]))
    return Judgement(
        tuple(verdicts),
        (table("The price of not knowing the limits, inside units", head, rows),),
        (
            Figure(
                "verify-known",
                "What SPOT has more of than the learner that is told the limits, divided by √T, on "
                "the same seeds. Below 0 it "
                "has less.",
                pictures.lines(points, "T", "extra / √T", log_y=False, free_y=True),
            ),
        ),
        (
            "A ratio is given where both learners have a positive sum in every seed. A regret "
            "below 0 is reward above the "
            "constrained optimum, paid for by violation; it has no meaningful ratio.",
        ),
    )


def _who(trace: Trace) -> str:
    return "told" if trace.run.learner != "spot" else STANCES[float(trace.option("stance"))]


def _extra(ours: list[Trace], told: list[Trace], metric: str, T: int) -> list[float]:
    pairs = zip(ours, told, strict=True)
    return [(a.last(metric) - b.last(metric)) / math.sqrt(T) for a, b in pairs]


def _ratio(ours: list[Trace], told: list[Trace], metric: str) -> Interval | str:
    pairs = [(a.last(metric), b.last(metric)) for a, b in zip(ours, told, strict=True)]
    if min(min(pair) for pair in pairs) <= 0.0:
        return "–"
    return mean([a / b for a, b in pairs], 0.05)


def _outcome(late: list[float], early: list[float], allowed: float, level: float) -> Outcome:
    """Not above zero, or not grown by more than `allowed`."""
    grown = mean([b - allowed * max(a, 0.0) for a, b in zip(early, late, strict=True)], 2 * level)
    nothing = mean(late, 2 * level).high <= 0.0
    return decide(holds=nothing or grown.high <= 0.0, fails=grown.low > 0.0)


CLAIM = Claim(
    name="known",
    title="Not knowing the limits costs little",
    says="SPOT, which sees limits only through noise, performs comparably to OptPrimalDual, the "
    "same algorithm with known limits: "
    "the same order in T. Same problems, seeds and constants.",
    place="Abstract; remark after Theorem 2",
    sweeps=("orders",),
    judge=judge,
)
