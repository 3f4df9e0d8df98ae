"""Beyond the paper: SPOT in epochs keeps its bound, violates less than SPOT, and unknown limits cost it little."""

from __future__ import annotations

from typing import Any

import numpy as np

from safespot.report.text import number
from safespot.theory import trial_violation

from . import pictures
from .inference import at_most, holm, larger, mean, share_at_least
from .measurements import Measurements, Trace, grouped
from .orders import growths
from .verdicts import (
    DELTA,
    LEVEL,
    Claim,
    Figure,
    Judgment,
    Outcome,
    Verdict,
    decide,
    table,
    together,
)

PRICE = 0.02  # of the optimum, that not knowing the limits may cost the proposal


def judge(evidence: Measurements) -> Judgment:
    """Growth of the strong violation, beside SPOT's; the price of unknown limits."""
    traces = evidence["phases"]
    ours = [trace for trace in traces if trace.run.learner == "spot-epochs"]
    rows, points = [], list[dict[str, Any]]()
    for (problem, T, who), theirs in grouped(
        traces, lambda t: (t.problem, t.run.episodes, t.run.learner)
    ).items():
        found = mean([trace.last("strong_violation") for trace in theirs], 0.05)
        rows.append([problem, who, f"{T:,}", found])
        points.append({"x": T, "y": found.mean, "series": who, "panel": problem})
    head = ["problem", "learner", "T", "strong violation"]
    return Judgment(
        (_growth(ours), _bound(evidence["trials"]), _beside(traces), _price(evidence["evidence"])),
        (table("Strong violation at every T, inside units: means over seeds", head, rows),),
        (
            Figure(
                "verify-phases",
                "Strong violation of SPOT in epochs and of SPOT with the paper's constants, each T its own runs. "
                "What is 0 is not drawn.",
                pictures.lines(points, "T", "strong violation"),
            ),
        ),
    )


def _growth(traces: list[Trace]) -> Verdict:
    found = growths(traces, "strong_violation")
    return Verdict(
        "The strong violation of SPOT in epochs grows at most like √T.",
        together(one.outcome for one in found),
        "; ".join(f"{one.problem}: {one.said} ({number(one.exponent.mean)})" for one in found)
        + ".",
        "exponent per seed over the last decade of T, at most ½ plus the growth of the logarithm; Student, one-sided",
    )


def _bound(traces: tuple[Trace, ...]) -> Verdict:
    """All that was not exploring, against the closed form, where the limits are known, as its proof wants it."""
    said = kept = vacuous = 0
    seeds, safe, most = 0, 0, 0.0
    for runs in grouped(traces, lambda trace: (trace.problem, trace.run.seed)).values():
        found = list[bool]()
        for trace in runs:
            c, T = trace.cmdp, trace.run.episodes
            bound = trial_violation(T, float(c.H), m=c.m, delta=DELTA)
            if bound >= c.H * T:
                vacuous += 1
                continue
            cost = trial_cost(trace)
            found.append(cost <= bound)
            most = max(most, cost / bound)
        said, kept = said + len(found), kept + sum(found)
        seeds, safe = seeds + bool(found), safe + (bool(found) and all(found))
    return Verdict(
        "The strong violation of trials stays below its explicit bound.",
        share_at_least(safe, seeds, 1.0 - DELTA, LEVEL),
        f"{vacuous:,} of {vacuous + said:,} bounds are vacuous (as much as T episodes can violate) and count "
        f"neither way; of the other {said:,}, {kept:,} hold, and the largest sum is {number(most)} of its bound.",
        "runs that are told the limits, all episodes but those of exploring; share of problems and seeds that keep "
        f"every bound that is not vacuous at least {1 - DELTA:.0%}: Clopper–Pearson, one-sided, at level {LEVEL}",
    )


def trial_cost(trace: Trace) -> float:
    """The strong violation of all that was played but exploring, of the worst constraint, in inside units.

    A part that does not explore plays one policy, so any recorded episode in it tells its constraints. One without is
    counted as the most that it can cost.
    """
    c, episodes = trace.cmdp, trace["episode"]
    toward = np.where(np.array(c.senses) == "<=", -1.0, 1.0)
    scales = np.abs(c.units.constraints.scale)
    values = np.stack([trace[f"constraint_{i}"] for i in range(c.m)], axis=1)
    short = np.maximum(toward * (c.limits - values) / scales, 0.0)
    total = np.zeros(c.m)
    for part in trace.facts["epochs"]:
        if part["kind"] == "explore":
            continue
        inside = np.flatnonzero((part["first"] <= episodes) & (episodes <= part["last"]))
        n = part["last"] - part["first"] + 1
        total += n * (short[inside[-1]] if len(inside) else np.full(c.m, float(c.H)))
    return float(total.max())


def _beside(traces: tuple[Trace, ...]) -> Verdict:
    """Less than SPOT's, seed by seed, at the largest T."""
    top = max((trace.run.episodes for trace in traces), default=0)
    longest = [trace for trace in traces if trace.run.episodes == top]
    p_less, p_more, parts = [], [], []
    for problem, theirs in grouped(longest, lambda trace: trace.problem).items():
        by = grouped(theirs, lambda trace: trace.run.learner)
        ours, spot = (
            [trace.last("strong_violation") for trace in by[who]] for who in ("spot-epochs", "spot")
        )
        p_less.append(larger(spot, ours))
        p_more.append(larger(ours, spot))
        parts.append(
            f"{problem}: {number(float(np.mean(ours)))} against {number(float(np.mean(spot)))}"
        )
    return Verdict(
        f"At T = {top:,} SPOT in epochs has less strong violation than SPOT with the paper's constants.",
        decide(holds=all(holm(p_less, LEVEL)), fails=any(holm(p_more, LEVEL))),
        "; ".join(parts) + ".",
        f"Wilcoxon's signed-rank test, paired by seed, Holm over problems, at level {LEVEL}",
    )


def _price(traces: tuple[Trace, ...]) -> Verdict:
    """The proposal with learned limits, beside the one of the learner that is told them."""
    outcomes, parts = list[Outcome](), []
    problems = grouped(traces, lambda trace: trace.problem)
    for problem, theirs in problems.items():
        told = [trace for trace in theirs if trace.option("thresholds") is not None]
        ours = [trace for trace in theirs if trace.option("stance") == 0.0]
        lost = [
            (b.facts["proposal"]["value"] - a.facts["proposal"]["value"]) / abs(a.facts["optimum"])
            for a, b in zip(ours, told, strict=True)
        ]
        outcomes.append(at_most(lost, PRICE, LEVEL / len(problems)))
        parts.append(f"{problem}: {mean(lost, 0.05)} of the optimum")
    return Verdict(
        f"Not knowing the limits costs the pessimistic proposal at most {PRICE:.0%} of the optimum.",
        together(outcomes),
        "; ".join(parts) + ".",
        "mean over seeds of the told learner's value less ours; Student, one-sided, at level "
        f"{LEVEL / max(1, len(problems)):.4f} for each problem",
    )


CLAIM = Claim(
    name="epochs",
    title="SPOT in epochs",
    says="It plans with a margin and tries what it planned; its strong violation grows at most like √T, that of its "
    "trials is below an explicit bound, all of it below SPOT's, and not knowing the limits costs little.",
    place="docs/epochs.md",
    sweeps=("phases", "trials", "evidence"),
    judge=judge,
)
