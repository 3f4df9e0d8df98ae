"""Consistency of the threshold estimator: widths, errors, and the paper's representative beside pooling."""

from __future__ import annotations

import math

import numpy as np

from safespot.arrays import Float
from safespot.report.text import number

from . import pictures
from .inference import Interval, mean, slope
from .measurements import Measurements, Trace, grouped
from .verdicts import LEVEL, Claim, Figure, Judgment, Verdict, decide, table

MARGIN = 0.05  # an exponent up to this above -1/2 counts as -1/2
NOISY_MARGIN = 0.1  # the same for errors, which are noisier than widths
RESAMPLES = 999
WIDTHS = (1.0, 0.5, 0.3, 0.2, 0.1, 0.05)


def judge(evidence: Measurements) -> Judgment:
    """How fast widths and errors fall with the episodes, and what pooling saves."""
    ways = grouped(evidence["consistency"], lambda trace: str(trace.option("estimator")))
    verdicts, points = [], []
    for way, traces in ways.items():
        exponents = [slope(*_late(trace, width(trace))) for trace in traces]
        found = mean(exponents, LEVEL)
        errors = np.array([error(trace) for trace in traces])
        episodes = traces[0]["episode"]
        falling = _rms_exponent(episodes, errors)
        if way == "representative":
            verdicts += [_width(found, len(traces)), _error(falling, len(traces))]
        rows = np.flatnonzero(episodes >= 10)[::4]
        for k in rows:
            T = float(episodes[k])
            widths = np.mean([width(trace)[k] for trace in traces])
            rms = math.sqrt(float((errors[:, k] ** 2).mean()))
            points += [
                {"x": T, "y": float(widths), "series": f"{way}, half width", "dashed": True},
                {"x": T, "y": rms, "series": f"{way}, RMS error"},
            ]
    pooling, rows_of = _pooling(ways["representative"], ways["pooled"])
    head = ["half width", "representative: episodes", "pooled: episodes", "ratio"]
    return Judgment(
        (*verdicts, pooling),
        (table("Episodes until the episodic bounds are that narrow", head, rows_of),),
        (
            Figure(
                "verify-consistency",
                "Half the width of the episodic threshold bounds (dashed) and the root mean squared error of "
                "the estimate.",
                pictures.lines(points, "episode", "in units of the constraint"),
            ),
        ),
    )


def _width(found: Interval, seeds: int) -> Verdict:
    return Verdict(
        statement="The width of the threshold bounds falls at least like the episodes to the power −½.",
        outcome=decide(holds=found.high <= -0.5 + MARGIN, fails=found.low > -0.5 + MARGIN),
        reason=f"Exponent over the last decade of episodes: {found}, {seeds} seeds. As a function of the "
        "count n the width is n^−½ by its formula; measured here is that the counts of the representative "
        "keep up with the episodes. They grow faster where the policy comes to prefer one pair.",
        test=f"the 95 % interval of the exponent (Student, over seeds) lies below −½ + {MARGIN}, or above it",
    )


def _error(found: Interval, seeds: int) -> Verdict:
    return Verdict(
        statement="The estimate converges: its root mean squared error falls at least like the episodes to "
        "the power −½.",
        outcome=decide(
            holds=found.high <= -0.5 + NOISY_MARGIN, fails=found.low > -0.5 + NOISY_MARGIN
        ),
        reason=f"Exponent of the error from episode 100 on: {found}, {seeds} seeds.",
        test=f"the 95 % bootstrap interval over seeds lies below −½ + {NOISY_MARGIN}, or above it",
    )


def width(trace: Trace) -> Float:
    """Half the distance of the episodic bounds: the radii, summed over the steps."""
    half: Float = (trace["threshold_upper_0"] - trace["threshold_lower_0"]) / 2.0
    return half


def error(trace: Trace) -> Float:
    """The middle of the unclipped bounds, less the truth."""
    middle = (trace["threshold_upper_0"] + trace["threshold_lower_0"]) / 2.0
    off: Float = middle - trace.cmdp.limits[0]
    return off


def _late(trace: Trace, values: Float) -> tuple[list[float], list[float]]:
    episodes = trace["episode"]
    rows = episodes >= episodes[-1] / 10.0
    return episodes[rows].tolist(), values[rows].tolist()


def _rms_exponent(episodes: Float, errors: Float) -> Interval:
    rows = episodes >= 100

    def exponent(sample: Float) -> float:
        return slope(episodes[rows].tolist(), np.sqrt((sample[:, rows] ** 2).mean(axis=0)).tolist())

    rng = np.random.default_rng(0)
    n = len(errors)
    again = [exponent(errors[rng.integers(n, size=n)]) for _ in range(RESAMPLES)]
    low, high = np.quantile(again, [LEVEL / 2, 1 - LEVEL / 2])
    return Interval(exponent(errors), float(low), float(high))


def _pooling(paper: list[Trace], pooled: list[Trace]) -> tuple[Verdict, list[list[object]]]:
    """The paper prefers the representative pair to pooling; how many episodes does each need?"""
    rows: list[list[object]] = []
    ratio = Interval(math.nan, -math.inf, math.inf)
    for wanted in WIDTHS:
        ours = [_reached(trace, wanted) for trace in paper]
        theirs = [_reached(trace, wanted) for trace in pooled]
        if math.inf in ours or math.inf in theirs:
            rows.append(
                [
                    wanted,
                    "not reached",
                    "not reached" if math.inf in theirs else number(float(np.mean(theirs))),
                    "–",
                ]
            )
            continue
        ratio = mean([a / b for a, b in zip(ours, theirs, strict=True)], LEVEL)
        rows.append([wanted, number(float(np.mean(ours))), number(float(np.mean(theirs))), ratio])
    cmdp = paper[0].cmdp
    return (
        Verdict(
            statement="The representative pair needs no more episodes than pooling all pairs.",
            outcome=decide(holds=ratio.high <= 1.0, fails=ratio.low > 1.0),
            reason=f"For the narrowest bounds that both reached it needs {ratio} times as many. A threshold's "
            f"mean does not depend on the pair, so pooling has every sample, up to S·A = {cmdp.S * cmdp.A} "
            "times as many.",
            test="episodes until the bounds are that narrow, ratio paired by seed, 95 % interval (Student)",
        ),
        rows,
    )


def _reached(trace: Trace, wanted: float) -> float:
    narrow = np.flatnonzero(width(trace) <= wanted)
    return float(trace["episode"][narrow[0]]) if len(narrow) else math.inf


CLAIM = Claim(
    name="consistency",
    title="The estimator is consistent",
    says="The growing-window estimate converges to the true threshold, its confidence width like n^−½. The "
    "paper estimates at the most visited pair of each step rather than pooling all pairs, which it says "
    "would dilute the estimate.",
    place="Theorem 1 and the paragraph after it (thm:estimator2)",
    sweeps=("consistency",),
    judge=judge,
)
