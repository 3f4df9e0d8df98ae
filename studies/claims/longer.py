"""Theorems 2 and 3 over a decade of T more: the exponent of T beside the logarithm of the radii.

In `orders` an exponent must be *below* that of √T and its logarithm. Growth of exactly that order is on the edge of
that rule, and no number of seeds shows it. Here the logarithm is part of the model,

    metric = c T^b sqrt(ln(S A H m T / delta)),

and b counts as 1/2 up to the margin that the other claims have for exponents.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from .lemmas import MARGIN
from .measurements import STANCES, Measurements, Trace, grouped
from .orders import METRICS, THEOREMS, Curve, Growth, grown, logarithms
from .verdicts import LEVEL, Claim, Judgment, Verdict, table, together

Pair = tuple[
    Trace, Trace | None
]  # a run, and where it is held against it, that of the told learner


def judge(evidence: Measurements) -> Judgment:
    """The sums themselves, and what SPOT has more of than the learner that is told the limits."""
    traces = (*evidence["range"], *evidence["range-random"])
    told = {
        (trace.problem, trace.run.episodes, trace.run.seed): trace
        for trace in traces
        if trace.run.learner != "spot"
    }
    verdicts, rows = list[Verdict](), list[list[object]]()
    for xi, theorem in THEOREMS.items():
        ours = [t for t in traces if t.run.learner == "spot" and t.option("stance") == xi]
        alone: list[Pair] = [(trace, None) for trace in ours]
        beside: list[Pair] = [
            (trace, told[trace.problem, trace.run.episodes, trace.run.seed]) for trace in ours
        ]
        for metric in METRICS:
            for says, pairs in (
                (f"{theorem}: the {metric} is of order √T beside its logarithm.", alone),
                (
                    f"So is what not knowing the limits costs the {STANCES[xi]} stance in {metric}.",
                    beside,
                ),
            ):
                found = _growths(pairs, metric)
                verdicts.append(_verdict(says, found, traces))
                what = metric if pairs is alone else f"{metric}, more than told"
                rows += [[each.problem, theorem, what, each.exponent, each.said] for each in found]
    head = ["problem", "theorem", "metric", "exponent of T beside the logarithm", "reading"]
    return Judgment(tuple(verdicts), (table("Growth with the logarithm in the model", head, rows),))


def _growths(pairs: Sequence[Pair], metric: str) -> list[Growth]:
    problems = dict.fromkeys(ours.problem for ours, _ in pairs)
    level = LEVEL / max(1, len(problems))
    return [
        grown(
            problem,
            _curves([pair for pair in pairs if pair[0].problem == problem], metric),
            0.5 + MARGIN,
            f"which counts as ½ within {MARGIN}",
            level,
        )
        for problem in problems
    ]


def _curves(pairs: Sequence[Pair], metric: str) -> list[Curve]:
    """Of every seed the metric without its logarithm, at every T."""
    told = {id(ours): other for ours, other in pairs}
    curves = list[Curve]()
    for each in grouped((ours for ours, _ in pairs), lambda trace: trace.run.seed).values():
        runs = sorted(each, key=lambda trace: trace.run.episodes)
        lengths = [trace.run.episodes for trace in runs]
        ends = [
            (trace.last(metric) - (other.last(metric) if (other := told[id(trace)]) else 0.0))
            / logarithms(trace, trace.run.episodes)
            for trace in runs
        ]
        curves.append((lengths, ends))
    return curves


def _verdict(says: str, found: Sequence[Growth], traces: Sequence[Trace]) -> Verdict:
    lengths = sorted({trace.run.episodes for trace in traces})
    seeds = {each: len({t.run.seed for t in traces if t.problem == each.problem}) for each in found}
    parts = [
        f"{each.problem}: {each.said}"
        if math.isnan(each.exponent.mean)
        else f"{each.problem}, {seeds[each]} seeds: exponent {each.exponent}"
        for each in found
    ]
    return Verdict(
        statement=says,
        outcome=together(each.outcome for each in found),
        reason="; ".join(parts) + ".",
        test=f"exponent b per seed of c·T^b·√ln(SAHmT/δ) over T from {lengths[0]:,} to {lengths[-1]:,} (each T its own "
        f"runs), at most ½ + {MARGIN}; Student, one-sided, at level "
        f"{LEVEL / max(1, len(found)):.4f} for each problem. Growth at finite T refutes no order: it is then not shown",
    )


CLAIM = Claim(
    name="range",
    title="Order √T over a longer range",
    says="The same theorems a decade of T further, on the problems whose growth could not be told from √T, with the "
    "logarithm that Õ hides in the model.",
    place="Theorems 2 and 3 (thm:pes, thm:opt)",
    sweeps=("range", "range-random"),
    judge=judge,
)
