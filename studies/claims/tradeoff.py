"""The trade-off between stances: a hypothesis, since the paper compares upper bounds."""

from __future__ import annotations

from collections.abc import Sequence

from safespot.report.text import number

from . import pictures
from .inference import Interval, mean, ordered
from .measurements import Measurements, Trace, grouped
from .verdicts import LEVEL, Claim, ClaimTable, Figure, Judgment, Verdict, table, together

WITH = {"tradeoff": "paper's constants", "tradeoff-practice": "bonus × 0.01"}


def judge(evidence: Measurements) -> Judgment:
    """Whether violation rises and regret falls from each xi to the next, seed by seed."""
    found = [_judge(evidence[sweep], constants) for sweep, constants in WITH.items()]
    return Judgment(
        tuple(verdict for verdicts, _, _ in found for verdict in verdicts),
        tuple(one for _, one, _ in found),
        (
            Figure(
                "verify-tradeoff",
                "Every stance by its regret and violation at the end, from pessimistic (ξ = 0) to optimistic "
                "(ξ = 1); inside units, whiskers are 95 % intervals over seeds.",
                pictures.dots([p for _, _, points in found for p in points], "violation", "regret"),
            ),
        ),
    )


def _judge(
    traces: Sequence[Trace], constants: str
) -> tuple[list[Verdict], ClaimTable, list[dict[str, object]]]:
    problems = grouped(traces, lambda trace: trace.problem)
    level = LEVEL / max(1, len(problems))
    outcomes: dict[str, list[object]] = {"violation": [], "regret": []}
    rows, points = [], []
    for problem, theirs in problems.items():
        stances = grouped(theirs, lambda trace: float(trace.option("stance")))
        ends = {
            metric: [[trace.last(metric) for trace in stances[xi]] for xi in sorted(stances)]
            for metric in ("violation", "regret")
        }
        steps = {}
        for metric, samples in ends.items():
            rising = samples if metric == "violation" else samples[::-1]
            outcome, p = ordered(rising, level)
            outcomes[metric].append(outcome)
            steps[metric] = [None, *(p if metric == "violation" else p[::-1])]
        for k, xi in enumerate(sorted(stances)):
            v, r = (mean(ends[metric][k], 0.05) for metric in ("violation", "regret"))
            tested = [_p(steps[metric][k]) for metric in ("violation", "regret")]
            rows.append([problem, f"{xi:g}", v, tested[0], r, tested[1]])
            points.append(
                {"x": v.mean, "y": r.mean, **_whiskers(v, r), "series": constants, "panel": f"{problem}; {constants}"}
            )  # fmt: skip
    seeds = len({trace.run.seed for trace in traces})
    T = max((trace.run.episodes for trace in traces), default=0)
    verdicts = [
        Verdict(
            statement=f"The {metric} {'rises' if metric == 'violation' else 'falls'} with ξ ({constants}).",
            outcome=together(outcomes[metric]),  # type: ignore[arg-type]
            reason="; ".join(
                f"{problem.partition(',')[0]}: {outcome}"
                for problem, outcome in zip(problems, outcomes[metric], strict=True)
            )
            + f". {seeds} seeds, T = {T:,}.",
            test="Wilcoxon's signed-rank test of each step of ξ, paired by seed; Holm over the steps at "
            f"level {level:.4f} for each problem",
        )
        for metric in ("violation", "regret")
    ]
    head = ["problem", "ξ", "violation", "p of the step", "regret", "p of the step"]
    return verdicts, table(f"Stances, {constants}, T = {T:,}", head, rows), points


def _p(value: float | None) -> str:
    return "" if value is None else f"{value:.1e}" if value < 0.001 else number(value)


def _whiskers(x: Interval, y: Interval) -> dict[str, float]:
    if x.high == float("inf"):
        return {}
    return {"left": x.low, "right": x.high, "low": y.low, "high": y.high}


CLAIM = Claim(
    name="tradeoff",
    title="Caution or reward",
    says="From the pessimistic stance (ξ = 0) to the optimistic one (ξ = 1) violation increases and reward "
    "regret decreases. The paper reads this off its two upper bounds, so it is a hypothesis and not a "
    "theorem (note 7 of the notes on the paper).",
    place="Section “Safety-Performance Trade-Off” (sec: comparisons)",
    sweeps=("tradeoff", "tradeoff-practice"),
    judge=judge,
)
