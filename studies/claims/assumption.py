"""Assumption 2: pessimistic thresholds leave room. From when on, and what happens before?"""

from __future__ import annotations

import math

import numpy as np

from safespot.report.text import number

from . import pictures
from .inference import mean, near, slope
from .measurements import Measurements, Trace, grouped
from .verdicts import LEVEL, Claim, Figure, Judgment, Outcome, Verdict, decide, table

MARGIN = 0.25  # the exponent of the first episode in the margin counts as -2 within this
SATURATED = 0.99  # of rho


def judge(evidence: Measurements) -> Judgment:
    """When the assumption first holds, by the Slater margin, and the multiplier before."""
    traces = evidence["assumption"]
    rows, points, reached = [], [], 0
    peaks: dict[float, list[float]] = {}
    for (scale, margin), theirs in grouped(traces, lambda t: (_scale(t), t.slater.margin)).items():
        firsts = [first(trace) for trace in theirs]
        there = [x for x in firsts if math.isfinite(x)]
        reached += len(there)
        max_deficit = [multiplier_before(trace) for trace in theirs]
        peaks.setdefault(scale, []).extend(max_deficit)
        said = mean(there, 0.05) if there else "–"
        cells = [
            f"{len(there)} of {len(theirs)}",
            said,
            number(expected(theirs[0])),
            mean(max_deficit, 0.05),
        ]
        rows.append([f"{scale:g}", number(margin), *cells])
        if there:
            points.append({"x": margin, "y": float(np.mean(there)), "series": f"bonus × {scale:g}"})
            if scale == 1.0:
                points.append(
                    {
                        "x": margin,
                        "y": expected(theirs[0]),
                        "series": "4 L (H/ξ)² S A",
                        "dashed": True,
                    }
                )
    verdicts = [
        Verdict(
            statement="Assumption 2 holds from the first episode on.",
            outcome=decide(
                holds=all(first(t) == 1.0 for t in traces),
                fails=any(first(t) > 1.0 for t in traces),
            ),
            reason="Before anything is seen the pessimistic threshold is the trivial one, H, which leaves no "
            "policy any room. It is first feasible after the episodes in the table. The regret analysis does "
            "not use the assumption (notes on the paper).",
            test="none is needed: one run in which it is not so is enough",
        ),
        _eventually(traces, reached),
        _law(traces),
        *(_saturates(scale, max_deficit) for scale, max_deficit in peaks.items()),
    ]
    head = ["bonus ×", "Slater margin ξ", "runs that got there", "first feasible episode",
            "every pair at W/(SA)", "largest λ/ρ before"]  # fmt: skip
    return Judgment(
        tuple(verdicts),
        (table("When pessimistic thresholds first leave room", head, rows),),
        (
            Figure(
                "verify-assumption",
                "The first episode whose pessimistic threshold leaves room, against the Slater margin.",
                pictures.lines(points, "Slater margin ξ", "episode"),
            ),
        ),
        (
            "The multiplier rises only while the constraint is believed to be below the threshold in use. "
            "With the paper's bonus most of that time everything is believed to be at its cap H, where it "
            "cannot rise; with a hundredth of it values are known long before thresholds are, and the "
            "multiplier has nowhere to go but ρ.",
        ),
    )


def first(trace: Trace) -> float:
    """The first episode for which Assumption 2 holds; infinite: not in this run."""
    found = trace.last("audit_first_feasible")
    return found if found > 0.0 else math.inf


def multiplier_before(trace: Trace) -> float:
    """The largest multiplier, as a share of rho, at the recorded episodes before that."""
    before = trace["episode"] < first(trace)
    return float(trace["multiplier_0"][before].max()) / trace.rho


def expected(trace: Trace) -> float:
    """Episodes until H radii of pairs with 1/(SA) of the samples each fit into the margin: 4 L (H / xi)^2 S A."""
    c = trace.cmdp
    L = math.log(c.m * c.S * c.A * c.H * trace.run.episodes / 0.05)
    return 4.0 * L * (c.H / trace.slater.margin) ** 2 * c.S * c.A


def _scale(trace: Trace) -> float:
    return float(trace.option("bonus_scale"))


def _eventually(traces: tuple[Trace, ...], reached: int) -> Verdict:
    T = max(trace.run.episodes for trace in traces)
    return Verdict(
        statement="Assumption 2 holds eventually.",
        outcome=Outcome.HOLDS if reached == len(traces) else Outcome.OPEN,
        reason=f"Reached within T = {T:,} in {reached} of {len(traces)} runs.",
        test="none: it is counted",
    )


def _law(traces: tuple[Trace, ...]) -> Verdict:
    """The first feasible episode against the margin, seed by seed."""
    exponents = []
    paper = [trace for trace in traces if _scale(trace) == 1.0]  # the other has the same noise
    for theirs in grouped(paper, lambda t: t.run.seed).values():
        known = [trace for trace in theirs if math.isfinite(first(trace))]
        if len(known) > 1:
            exponents.append(slope([t.slater.margin for t in known], [first(t) for t in known]))
    found = mean(exponents, LEVEL)
    return Verdict(
        statement="The first feasible episode grows like the Slater margin to the power −2.",
        outcome=near(found, -2.0, MARGIN),
        reason=f"Exponent {found} over {len(exponents)} seeds, with the paper's bonus.",
        test=f"the 95 % interval of the exponent lies within {MARGIN} of −2 (Student, over seeds)",
    )


def _saturates(scale: float, peaks: list[float]) -> Verdict:
    full = sum(max_deficit >= SATURATED for max_deficit in peaks)
    return Verdict(
        statement=f"Before that, the multiplier saturates at ρ (bonus × {scale:g}).",
        outcome=decide(holds=full == len(peaks), fails=full == 0),
        reason=f"It reaches {SATURATED:.0%} of ρ in {full} of {len(peaks)} runs; its largest value before "
        f"lies between {number(min(peaks))} and {number(max(peaks))} of ρ.",
        test="none: it is counted, at the recorded episodes; “holds” means in all runs, “does not hold” in none",
    )


CLAIM = Claim(
    name="assumption",
    title="Pessimistic thresholds leave room",
    says="The pessimistic threshold exceeds the true one by less than the Slater margin ξ, so that a "
    "strictly feasible policy remains. The paper assumes it; measured is the first episode at which it is "
    "so, against ξ, and the multiplier before.",
    place="Assumption 2 (asp-2)",
    sweeps=("assumption",),
    judge=judge,
)
