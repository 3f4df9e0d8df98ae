"""The window: what forgetting costs while nothing changes, and what it gains when something does."""

from __future__ import annotations

import math

import numpy as np

from safespot.report.text import number

from . import pictures
from .inference import Interval, at_most, mean, ordered
from .measurements import STANCES, Measurements, Trace, grouped
from .verdicts import LEVEL, Claim, ClaimTable, Figure, Judgment, Outcome, Verdict, table, together

NEAR = 0.05  # of the true episodic threshold
COSTS = {"audit_zeta_sum": "summed radii Z", "regret": "regret", "violation": "violation"}


def judge(evidence: Measurements) -> Judgment:
    """The cost of a smaller window against its bound, and the time to notice a change."""
    verdicts, costs = _stationary(evidence["window"])
    moved, times, figure = _after_a_change(evidence["drift"])
    return Judgment((*verdicts, moved), (costs, times), (figure,))


def _stationary(traces: tuple[Trace, ...]) -> tuple[list[Verdict], ClaimTable]:
    groups = grouped(traces, lambda t: (float(t.option("stance")), float(t.option("window"))))
    gammas = sorted({gamma for _, gamma in groups if gamma < 1.0})
    level = LEVEL / max(1, 2 * len(gammas))
    verdicts, rows = [], []
    for column, called in COSTS.items():
        outcomes, worst = [], []
        for xi, stance in STANCES.items():
            whole = [trace.last(column) for trace in groups[xi, 1.0]]
            for gamma in gammas:
                part = [trace.last(column) for trace in groups[xi, gamma]]
                factor = math.sqrt(1.0 / gamma)
                ratio, outcome = _cost(part, whole, factor, level)
                outcomes.append(outcome)
                cells = [mean(whole, 0.05), mean(part, 0.05), ratio, number(factor)]
                rows.append([called, stance, f"{gamma:g}", *cells])
                if gamma == gammas[0]:
                    cost = str(ratio) if isinstance(ratio, Interval) else "not positive"
                    worst.append(f"{stance} {cost}")
        verdicts.append(
            Verdict(
                statement=f"A window γ < 1 costs at most a factor 1/√γ in {called}.",
                outcome=together(outcomes),
                reason=f"Factor at γ = {gammas[0]:g}, where {number(math.sqrt(1 / gammas[0]))} is allowed: "
                f"{', '.join(worst)}.",
                test="ratio paired by seed, or where a sum is not positive and has no ratio, that it does "
                f"not rise; Student, one-sided, at level {level:.4f} for each stance and γ",
            )
        )
    head = ["what", "stance", "γ", "at γ = 1", "at this γ", "ratio", "allowed: 1/√γ"]
    return verdicts, table("What a smaller window costs while nothing changes", head, rows)


def _cost(
    part: list[float], whole: list[float], factor: float, level: float
) -> tuple[Interval | str, Outcome]:
    """The factor that a window costs, and whether it may; a sum that is not positive has none, and may not rise."""
    pairs = list(zip(part, whole, strict=True))
    if min(*whole, *part) > 0.0:
        ratios = [p / w for p, w in pairs]
        return mean(ratios, 0.05), at_most(ratios, factor, level)
    free = at_most([p - w for p, w in pairs], 0.0, level) is Outcome.HOLDS
    return "–", Outcome.HOLDS if free else Outcome.OPEN


def recovery(trace: Trace) -> float:
    """Episodes after the change until the estimate is near the new threshold for good; infinite: not in this run."""
    drift = trace.run.signals.drift
    assert drift is not None
    target = float(np.sum(drift.thresholds))
    off = np.abs((trace["threshold_upper_0"] + trace["threshold_lower_0"]) / 2.0 - target)
    episodes = trace["episode"]
    outside = np.flatnonzero((off > NEAR) & (episodes > drift.first))
    if len(outside) and outside[-1] == len(episodes) - 1:
        return math.inf
    settled = episodes[outside[-1] + 1] if len(outside) else drift.first
    return float(settled - drift.first)


def expected(gamma: float, first: int, change: float) -> float:
    """Where the share of old samples in the window, times the change, is `NEAR`."""
    return first / (1.0 - gamma + gamma * NEAR / change) - first


def _after_a_change(traces: tuple[Trace, ...]) -> tuple[Verdict, ClaimTable, Figure]:
    groups = grouped(traces, lambda t: float(t.option("window")))
    rows, points, samples = [], [], []
    for gamma, theirs in sorted(groups.items()):
        found = [recovery(trace) for trace in theirs]
        drift = theirs[0].run.signals.drift
        assert drift is not None
        change = abs(float(np.sum(drift.thresholds)) - float(theirs[0].cmdp.limits[0]))
        left = theirs[0].run.episodes - drift.first
        reached = [x for x in found if math.isfinite(x)]
        samples.append([min(x, float(left)) for x in found])
        said = mean(reached, 0.05) if reached else "–"
        wanted = number(expected(gamma, drift.first, change))
        rows.append([f"{gamma:g}", said, f"{len(reached)} of {len(found)}", wanted])
        middle = np.mean(
            [(t["threshold_upper_0"] + t["threshold_lower_0"]) / 2.0 for t in theirs], axis=0
        )
        keep = np.unique(np.linspace(0, len(middle) - 1, 120).astype(int))
        points += [
            {"x": float(theirs[0]["episode"][k]), "y": float(middle[k]), "series": f"γ = {gamma:g}"} for k in keep
        ]  # fmt: skip
    any_trace = traces[0]
    drift = any_trace.run.signals.drift
    assert drift is not None
    before, after = float(any_trace.cmdp.limits[0]), float(np.sum(drift.thresholds))
    for x, y in (
        (1, before),
        (drift.first, before),
        (drift.first, after),
        (any_trace.run.episodes, after),
    ):
        points.append({"x": x, "y": y, "series": "truth", "dashed": True})
    outcome, p = ordered(samples, LEVEL)
    late = [str(row[0]) for row in rows if not str(row[2]).startswith(str(len(samples[0])))]
    verdict = Verdict(
        statement="A smaller window finds a changed threshold again sooner.",
        outcome=outcome if all(len(s) for s in samples) else Outcome.OPEN,
        reason="Episodes until the estimate is within 0.05 again: "
        + ", ".join(f"γ = {row[0]}: {row[1]}" for row in rows)
        + (f"; not within this run for γ = {', '.join(late)}" if late else "")
        + ".",
        test=f"Wilcoxon's signed-rank test between neighboring γ, paired by seed; Holm at level {LEVEL} (p: "
        + ", ".join(f"{x:.1e}" for x in p)
        + ")",
    )
    head = [
        "γ",
        "episodes after the change",
        "runs that got there",
        "expected from the share of old samples",
    ]
    title = f"Until the estimate is within {NEAR} of the new threshold, for good (change at episode {drift.first:,})"
    figure = Figure(
        "verify-window",
        "The estimate of the episodic threshold before and after a change, mean over seeds.",
        pictures.lines(points, "episode", "estimate of the threshold", log_x=False, log_y=False),
    )
    return verdict, table(title, head, rows), figure


CLAIM = Claim(
    name="window",
    title="The growing window",
    says="While thresholds stand still, a window that holds only a share γ of the episodes costs at most a "
    "factor 1/√γ where the bound has its radii (γ stands inside the root). When thresholds change, it adapts "
    "more rapidly; the theorems make no statement there.",
    place="Remarks after Theorem 1; Theorems 2 and 3",
    sweeps=("window", "drift"),
    judge=judge,
)
