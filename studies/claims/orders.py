"""Theorems 2 and 3: regret and violation of order sqrt(T), and below the explicit bound."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from safespot.report.text import number
from safespot.theory import explicit_bound

from . import pictures
from .inference import Interval, at_most, mean, share, share_at_least, slope
from .measurements import STANCES, Measurements, Trace, grouped
from .verdicts import (
    DELTA,
    LEVEL,
    Claim,
    ClaimTable,
    Figure,
    Judgment,
    Outcome,
    Verdict,
    table,
    together,
)

METRICS = ("regret", "violation")
THEOREMS = {0.0: "Theorem 2, pessimistic", 1.0: "Theorem 3, optimistic"}


class Growth(NamedTuple):
    """How a metric grows over the last decade of T on one problem under one stance."""

    problem: str
    outcome: Outcome
    said: str
    exponent: Interval


def judge(evidence: Measurements) -> Judgment:
    """Slopes over the last decade of T, and every run against its bound."""
    traces = [trace for trace in evidence["orders"] if trace.run.learner == "spot"]
    verdicts: list[Verdict] = []
    slopes: list[list[object]] = []
    for xi, theorem in THEOREMS.items():
        theirs = [trace for trace in traces if trace.option("stance") == xi]
        for metric in METRICS:
            found = growths(theirs, metric)
            verdicts.append(_order(theorem, metric, found, theirs))
            slopes += [[one.problem, theorem, metric, one.exponent, one.said] for one in found]
        verdicts.append(_bound(theorem, theirs))
    head = ["problem", "theorem", "metric", "exponent over the last decade of T", "reading"]
    return Judgment(
        tuple(verdicts),
        (table("Growth", head, slopes), _ends(traces)),
        _figures(traces),
        (
            "Bounds take the summed radii Z and Φ from the run itself (Φ as an exact expectation), so they "
            "are the bounds of the very run that they are compared with. No run can have a regret or a "
            "violation above H·T: a bound above that says nothing, and is called vacuous.",
        ),
    )


def logarithms(trace: Trace, T: float) -> float:
    """What the order hides: sqrt(ln(S A H m T / delta))."""
    c = trace.cmdp
    return math.sqrt(math.log(c.S * c.A * c.H * c.m * T / DELTA))


def growths(traces: Sequence[Trace], metric: str) -> list[Growth]:
    """The growth of a metric on each problem."""
    problems = grouped(traces, lambda trace: trace.problem)
    level = LEVEL / max(1, len(problems))
    return [_growth(problem, theirs, metric, level) for problem, theirs in problems.items()]


def _growth(problem: str, traces: list[Trace], metric: str, level: float) -> Growth:
    top = max(trace.run.episodes for trace in traces)
    decade = sorted(
        (trace for trace in traces if trace.run.episodes >= top / 10.01),
        key=lambda trace: trace.run.episodes,
    )
    seeds = grouped(decade, lambda trace: trace.run.seed).values()
    curves = [([t.run.episodes for t in each], [t.last(metric) for t in each]) for each in seeds]
    # ~O(sqrt T) allows the logarithm of the radii to grow along. The order is about T that grows on: more than
    # that at finite T does not refute it, as a broken bound would.
    allowed = 0.5 + math.log10(logarithms(traces[0], top) / logarithms(traces[0], top / 10.0))
    return grown(problem, curves, allowed, "by which √T and its logarithm grow", level)


Curve = tuple[Sequence[float], Sequence[float]]  # T, and a metric at the end of the runs of that T


def grown(problem: str, curves: Sequence[Curve], allowed: float, why: str, level: float) -> Growth:
    """How curves grow, one of each seed: an exponent of T each, held against the largest one allowed."""
    if all(max(ends) <= 0.0 for _, ends in curves):
        said = "never above 0 there: below any bound, no exponent"
        return Growth(problem, Outcome.HOLDS, said, Interval(math.nan, -math.inf, math.inf))
    exponents = [slope(lengths, ends) for lengths, ends in curves]
    known = [exponent for exponent in exponents if not math.isnan(exponent)]
    if len(known) < len(exponents):
        mixed = f"{len(exponents) - len(known)} of {len(exponents)} seeds"
        said = f"not positive throughout in {mixed}: no exponent"
        return Growth(problem, Outcome.OPEN, said, mean(known, 0.05))
    within = at_most(known, allowed, level) is Outcome.HOLDS
    said = f"{'within' if within else 'not within'} {allowed:.3f}, {why}"
    return Growth(problem, Outcome.HOLDS if within else Outcome.OPEN, said, mean(known, 0.05))


def _order(theorem: str, metric: str, found: list[Growth], traces: Sequence[Trace]) -> Verdict:
    top = max((trace.run.episodes for trace in traces), default=0)
    seeds = len({trace.run.seed for trace in traces})
    parts = [
        f"{one.problem}: {one.said}"
        if math.isnan(one.exponent.mean)
        else f"{one.problem}: exponent {one.exponent}"
        for one in found
    ]
    outcome = together(one.outcome for one in found)
    late = (
        ""
        if outcome is Outcome.HOLDS
        else " At such T the growth is not √T yet, or cannot be told from it."
    )
    return Verdict(
        statement=f"{theorem}: the {metric} is of order √T.",
        outcome=outcome,
        reason="; ".join(parts) + "." + late,
        test=f"exponent per seed over T from {top // 10:,} to {top:,} (each T its own runs, {seeds} seeds), "
        "at most ½ plus the growth of the logarithm; Student, one-sided, at level "
        f"{LEVEL / max(1, len(found)):.4f} for each problem",
    )


def bounds(trace: Trace) -> tuple[float, float]:
    """The explicit bounds of a run's regret and violation, from its own sums of radii."""
    c = trace.cmdp
    found = explicit_bound(
        c.A, c.H, c.m, trace.run.episodes, trace.rho, xi=float(trace.option("stance")),
        zeta_sum=trace.last("audit_zeta_sum"), phi_sum=trace.last("audit_phi_sum"),
    )  # fmt: skip
    return found.regret, found.violation


def _bound(theorem: str, traces: Sequence[Trace]) -> Verdict:
    """Every bound that says something, at every T; runs that share their noise count once."""
    said = kept = vacuous = 0
    seeds, safe = 0, 0
    for runs in grouped(traces, lambda trace: (trace.problem, trace.run.seed)).values():
        found = [
            trace.last(metric) <= bound
            for trace in runs
            for metric, bound in zip(METRICS, bounds(trace), strict=True)
            if bound < trace.cmdp.H * trace.run.episodes
        ]
        vacuous += 2 * len(runs) - len(found)
        said, kept = said + len(found), kept + sum(found)
        seeds, safe = seeds + bool(found), safe + (bool(found) and all(found))
    return Verdict(
        statement=f"{theorem}: regret and violation stay below the explicit bound.",
        outcome=share_at_least(safe, seeds, 1.0 - DELTA, LEVEL),
        reason=f"{vacuous:,} of {vacuous + said:,} bounds are vacuous (above H·T) and count neither way; of "
        f"the other {said:,}, {kept:,} hold. All of them hold for {safe} of {seeds} problems and seeds "
        f"({share(safe, seeds, 0.05)}).",
        test="share of problems and seeds that keep every bound that is not vacuous at least "
        f"{1 - DELTA:.0%}: Clopper–Pearson, one-sided, at level {LEVEL}",
    )


def _ends(traces: Sequence[Trace]) -> ClaimTable:
    rows = []
    for (problem, xi, T), theirs in grouped(
        traces, lambda trace: (trace.problem, trace.option("stance"), trace.run.episodes)
    ).items():
        cells: list[object] = [problem, f"{xi:g}", f"{T:,}"]
        for metric, column in zip(METRICS, zip(*map(bounds, theirs), strict=True), strict=True):
            bound = float(np.mean(column))
            vacuous = " (vacuous)" if bound >= theirs[0].cmdp.H * T else ""
            cells += [
                mean([trace.last(metric) for trace in theirs], 0.05),
                f"{number(bound)}{vacuous}",
            ]
        rows.append(cells)
    head = ["problem", "ξ", "T", "regret", "its bound", "violation", "its bound"]
    return table("Every T, inside units: means over seeds with 95 % intervals", head, rows)


def _figures(traces: Sequence[Trace]) -> tuple[Figure, ...]:
    rate: list[dict[str, Any]] = []
    against: list[dict[str, Any]] = []
    most: list[dict[str, Any]] = []  # that can happen at all
    for (problem, xi, T), theirs in grouped(
        traces, lambda trace: (trace.problem, trace.option("stance"), trace.run.episodes)
    ).items():
        stance = STANCES[xi]
        for metric, column in zip(METRICS, zip(*map(bounds, theirs), strict=True), strict=True):
            found = mean([trace.last(metric) for trace in theirs], 0.05)
            panel, root = f"{metric}: {problem}", math.sqrt(T)
            whiskers = (
                {}
                if math.isinf(found.low)
                else {"low": found.low / root, "high": found.high / root}
            )
            rate.append(
                {"x": T, "y": found.mean / root, "series": stance, "panel": panel, **whiskers}
            )
            against += [
                {"x": T, "y": found.mean, "series": stance, "panel": panel},
                {"x": T, "y": float(np.mean(column)), "series": f"{stance}, bound", "panel": panel, "dashed": True},
            ]  # fmt: skip
            most.append(
                {
                    "x": T,
                    "y": float(theirs[0].cmdp.H * T),
                    "series": "H·T",
                    "panel": panel,
                    "dashed": True,
                }
            )
    for points in (rate, against):
        points.sort(key=lambda point: str(point["panel"]))
    return (
        Figure(
            "verify-orders",
            "Regret and violation divided by √T: growth like √T is a level line. Each point is runs of that "
            "T alone; whiskers are 95 % intervals. What is below 0 is reward above the constrained optimum, "
            "or room above the limit.",
            pictures.lines(rate, "T", "metric / √T", log_y=False, free_y=True),
        ),
        Figure(
            "verify-bounds",
            "The same against the explicit bounds (dashed) and against H·T, above which a bound says "
            "nothing. What is not positive is not drawn.",
            pictures.lines([*against, *most], "T", "metric"),
        ),
    )


CLAIM = Claim(
    name="orders",
    title="Regret and violation of order √T",
    says="With the paper's constants (bonus_scale = threshold_scale = 1) the reward regret and the "
    "constraint violation are at most Õ(√T), with probability 1 − δ: Theorem 2 for the pessimistic stance, "
    "Theorem 3 for the optimistic one. The explicit bounds are those of note 6 of the notes on the paper.",
    place="Theorems 2 and 3 (thm:pes, thm:opt)",
    sweeps=("orders",),
    judge=judge,
)
