"""The lemmas that carry the rate: the growing window's sum, optimism of the values, the mirror-ascent term."""

from __future__ import annotations

import math

import numpy as np

from safespot.report.text import number

from . import pictures
from .inference import mean, near, share, share_at_least, slope
from .measurements import Measurements, Trace, grouped
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

MARGIN = 0.05  # exponents within this of 1/2 count as 1/2


def judge(evidence: Measurements) -> Judgment:
    """Three lemmas, each on the runs that show it."""
    window, sums, figure = _window_sum(evidence["window"])
    longest = max((trace.run.episodes for trace in evidence["orders"]), default=0)
    top = [trace for trace in evidence["orders"] if trace.run.episodes == longest]
    optimism, values = _optimism(top)
    mirror, terms = _mirror(top)
    return Judgment((*window, optimism, mirror), (sums, values, terms), (figure,))


def _window_sum(traces: tuple[Trace, ...]) -> tuple[list[Verdict], ClaimTable, Figure]:
    groups = grouped(
        [t for t in traces if float(t.option("stance")) == 0.0], lambda t: float(t.option("window"))
    )
    level = LEVEL / max(1, len(groups))
    outcomes, parts, rows, points = [], [], [], []
    for gamma, theirs in sorted(groups.items()):
        found = mean([slope(*_late(t)) for t in theirs], level)
        outcomes.append(near(found, 0.5, MARGIN))
        parts.append(f"γ = {gamma:g}: {found}")
        ends = mean([t.last("audit_window_sum") for t in theirs], 0.05)
        c, T = theirs[0].cmdp, theirs[0].run.episodes
        order = math.sqrt(c.S * c.A * c.H**2 * T / gamma)
        rows.append([f"{gamma:g}", found, ends, number(order), number(ends.mean / order)])
        average = np.mean([t["audit_window_sum"] for t in theirs], axis=0)
        points += [
            {"x": float(x), "y": float(y), "series": f"γ = {gamma:g}"}
            for x, y in list(zip(theirs[0]["episode"], average, strict=True))[::4]
            if x >= 10
        ]
    rising = [
        slope(
            [1.0 / float(t.option("window")) for t in each],
            [t.last("audit_window_sum") for t in each],
        )
        for each in grouped([t for g in groups.values() for t in g], lambda t: t.run.seed).values()
    ]
    in_gamma = mean(rising, LEVEL)
    T = traces[0].run.episodes
    verdicts = [
        Verdict(
            statement="The sum of 1/√(windowed count) along a run grows like √T.",
            outcome=together(outcomes),
            reason="Exponents over the last decade of episodes: "
            + "; ".join(parts)
            + f". T = {T:,}.",
            test=f"intervals (Student, over seeds, level {level:.4f} each) lie within {MARGIN} of ½",
        ),
        Verdict(
            statement="It grows like 1/√γ in the window.",
            outcome=near(in_gamma, 0.5, MARGIN),
            reason=f"Exponent of the sum in 1/γ at T = {T:,}: {in_gamma}.",
            test=f"the 95 % interval (Student, over seeds) lies within {MARGIN} of ½",
        ),
    ]
    head = ["γ", "exponent in the episodes", "the sum at T", "√(SAH²T/γ)", "sum / order"]
    figure = Figure(
        "verify-lemmas",
        "The sum of E 1/√(windowed count) over the pairs that the policy visits, by window; a line of slope ½ is √T.",
        pictures.lines(points, "episode", "sum"),
    )
    return verdicts, table("The growing window's sum", head, rows), figure


def _late(trace: Trace) -> tuple[list[float], list[float]]:
    rows = trace["episode"] >= trace["episode"][-1] / 10.0
    return trace["episode"][rows].tolist(), trace["audit_window_sum"][rows].tolist()


def _optimism(traces: list[Trace]) -> tuple[Verdict, ClaimTable]:
    # Learners with the same seed share their noise, so they count as one.
    seeds = grouped(traces, lambda t: (t.problem, t.run.seed)).values()
    hits = sum(all(t.last("audit_optimism_slack") >= -1e-9 for t in runs) for runs in seeds)
    n = len(seeds)
    rows = []
    for (problem, who), theirs in grouped(traces, lambda t: (t.problem, _who(t))).items():
        slack = min(t.last("audit_optimism_slack") for t in theirs)
        ratio = max(t.last("audit_bonus_ratio") for t in theirs)
        kept = sum(t.last("audit_optimism_slack") >= -1e-9 for t in theirs)
        rows.append([problem, who, f"{kept} of {len(theirs)}", number(slack), number(ratio)])
    verdict = Verdict(
        statement=f"The optimistic values bound the true ones in every episode, in at least {1 - DELTA:.0%} "
        "of the runs.",
        outcome=share_at_least(hits, n, 1.0 - DELTA, LEVEL),
        reason=f"Reward and every constraint, under every stance, in {hits} of {n} ({share(hits, n, 0.05)}). "
        "As the lemma is printed, it reduces to the optimal policy's being feasible; this is the optimism "
        "that its use needs.",
        test=f"Clopper–Pearson, one-sided, at level {LEVEL}",
    )
    head = [
        "problem",
        "learner",
        "runs in which it holds",
        "smallest slack",
        "largest model error / bonus",
    ]
    return verdict, table("Optimism of the values, and the success event of the bonus", head, rows)


def _mirror(traces: list[Trace]) -> tuple[Verdict, ClaimTable]:
    rows, worst = [], -math.inf
    for (problem, who), theirs in grouped(traces, lambda t: (t.problem, _who(t))).items():
        peaks = [float(t["audit_mirror_sum"].max()) for t in theirs]
        bound = mirror_bound(theirs[0])
        worst = max(worst, max(peaks) / bound)
        rows.append([problem, who, mean(peaks, 0.05), number(bound), number(max(peaks) / bound)])
    verdict = Verdict(
        statement="The mirror-ascent term stays below its bound √(2H⁴(1+mρ)²T ln A).",
        outcome=Outcome.HOLDS if worst <= 1.0 else Outcome.FAILS,
        reason=f"The comparator is an optimal policy. Over {len(traces)} runs its largest value, at any "
        f"recorded episode, is {number(worst)} of the bound.",
        test="none: the lemma is not probabilistic, one run above would refute it",
    )
    head = ["problem", "learner", "term", "bound", "largest share"]
    return verdict, table("The mirror-ascent term: its largest value along the run", head, rows)


def mirror_bound(trace: Trace) -> float:
    """Lemma OMD's, with the paper's step."""
    c = trace.cmdp
    return c.H**2 * (1.0 + c.m * trace.rho) * math.sqrt(2.0 * trace.run.episodes * math.log(c.A))


def _who(trace: Trace) -> str:
    return "told the limits" if trace.run.learner != "spot" else f"ξ = {trace.option('stance'):g}"


CLAIM = Claim(
    name="lemmas",
    title="The lemmas that carry the rate",
    says="The sum of 1/√(windowed count) over what is visited is Õ(√(SAH²T/γ)); optimistic values bound the "
    "true ones; the mirror-ascent term is at most √(2H⁴(1+mρ)²T ln A).",
    place="Lemmas lem:gw-sum, lem:dual optimism, lem:OMD",
    sweeps=("window", "orders"),
    judge=judge,
)
