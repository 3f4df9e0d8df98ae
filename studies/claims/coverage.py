"""Theorem 1: every interval of every threshold holds, in all but a share delta of the runs."""

from __future__ import annotations

import numpy as np

from safespot.report.text import number

from . import pictures
from .inference import share, share_at_least
from .measurements import Measurements, Trace, grouped
from .verdicts import DELTA, LEVEL, Claim, Figure, Judgment, Verdict, table, together

SCALES = (1.0, 0.5, 0.4, 0.3, 0.25, 0.2, 0.15, 0.1, 0.05)


def judge(evidence: Measurements) -> Judgment:
    """The share of runs whose largest error is within its radius, by noise law and window."""
    groups = grouped(evidence["coverage"], _setting)
    level = LEVEL / max(1, len(groups))
    outcomes, rows, points = [], [], []
    for (law, gamma), traces in groups.items():
        ratios = np.array([trace.last("audit_threshold_ratio") for trace in traces])
        held, n = int((ratios <= 1.0).sum()), len(ratios)
        outcomes.append(share_at_least(held, n, 1.0 - DELTA, level))
        enough = float(np.quantile(ratios, 1.0 - DELTA, method="inverted_cdf"))
        rows.append(
            [law, f"{gamma:g}", n, share(held, n, 2 * level), number(ratios.max()), number(enough)]
            + [number(float((ratios <= k).mean())) for k in (0.25, 0.15, 0.1)]
        )
        points += [
            {"x": k, "y": float((ratios <= k).mean()), "series": f"γ = {gamma:g}", "panel": law}
            for k in SCALES
        ]
    largest = max(
        (trace.last("audit_threshold_ratio") for trace in evidence["coverage"]), default=0.0
    )
    n = len(evidence["coverage"])
    verdict = Verdict(
        statement=f"In at least {1 - DELTA:.0%} of the runs every interval holds, for all i, h, t and pairs.",
        outcome=together(outcomes),
        reason=f"In {n:,} runs the largest error was {number(largest)} of its radius: the radius could have "
        f"been {number(1 / largest if largest else np.inf)} times smaller before any of them failed.",
        test=f"Clopper–Pearson, one-sided, at level {level:.4f} for each of {len(groups)} settings",
    )
    head = ["law of the signals", "γ", "runs", "share in which all hold", "largest error / radius",
            "scale at which 95 % would hold", "share at scale 0.25", "at 0.15", "at 0.1"]  # fmt: skip
    points += [
        {"x": k, "y": 1.0 - DELTA, "series": "1 − δ", "panel": law, "dashed": True}
        for law in dict.fromkeys(law for law, _ in groups)
        for k in (SCALES[0], SCALES[-1])
    ]
    chart = pictures.lines(
        points, "threshold_scale", "share of runs in which all intervals hold", log_y=False
    )
    return Judgment(
        (verdict,),
        (table("Coverage, and at which smaller radius it would break", head, rows),),
        (
            Figure(
                "verify-coverage",
                "Coverage if the radius were smaller: the same runs, judged with intervals of every scale.",
                chart,
            ),
        ),
        (
            "The radius is loose because Theorem 1 pays for a union over all counts with a factor 4 under "
            "the root, where Hoeffding needs 1/2 (note 4 of the notes on the paper).",
        ),
    )


def _setting(trace: Trace) -> tuple[str, float]:
    law = trace.run.signals.thresholds
    return law.law if law is not None else "bernoulli", float(trace.option("window", 1.0))


CLAIM = Claim(
    name="coverage",
    title="The thresholds' confidence intervals hold",
    says="With probability at least 1 − δ = 95 %, the windowed mean of every threshold is within its radius "
    "ζ of the truth: for every constraint, step, episode and pair at once. Paper's constants; three noise "
    "laws, three windows.",
    place="Theorem 1 (thm:estimator2)",
    sweeps=("coverage",),
    judge=judge,
)
