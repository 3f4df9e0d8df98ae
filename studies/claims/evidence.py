"""Beyond the paper: what play itself proves holds as often as it says, and no certificate is false more often."""

from __future__ import annotations

import numpy as np

from safespot.arrays import Float
from safespot.report.text import number

from . import fresh
from .inference import share, share_at_least
from .measurements import Measurements, Trace, grouped
from .verdicts import LEVEL, Claim, Judgment, Outcome, Verdict, table, together

ROUNDING = 1e-9  # of sums over an episode, per step


def judge(evidence: Measurements) -> Judgment:
    """Shares of runs in which everything that was said is true, by the truth."""
    groups = grouped(evidence["evidence"], _setting)
    level = LEVEL / max(1, len(groups))
    rows, found = [], dict[str, list[Outcome]]()
    issued = 0
    for (problem, stance), traces in groups.items():
        n, wanted = len(traces), 1.0 - float(traces[0].option("delta"))
        counts = {
            "meter": sum(meter_holds(trace) for trace in traces),
            "totals": sum(totals_hold(trace) for trace in traces),
            "certificates": sum(certificates_hold(trace) for trace in traces),
        }
        issued += sum(len(trace.facts["certificates"]) for trace in traces)
        for name, hits in counts.items():
            found.setdefault(name, []).append(share_at_least(hits, n, wanted, level))
        rows.append(
            [problem, stance, n]
            + [share(hits, n, 2 * level) for hits in counts.values()]
            + [number(float(np.mean([bool(t.facts["certificates"]) for t in traces])))]
        )
    said = {
        "meter": "The meter's bounds hold for every constraint at every recorded episode",
        "totals": "The thresholds' bounds from totals hold at every recorded episode",
        "certificates": "Every certificate is true",
    }
    test = f"Clopper–Pearson, one-sided, at level {level:.4f} for each of {len(groups)} settings"
    verdicts = [
        Verdict(
            f"{said[name]}, in at least a share 1 − δ of the runs.",
            together(outcomes),
            f"{len(evidence['evidence']):,} runs at δ = 0.2, {issued:,} certificates."
            if name == "certificates"
            else f"{len(evidence['evidence']):,} runs at δ = 0.2.",
            test,
        )
        for name, outcomes in found.items()
    ]
    head = [
        "problem",
        "stance",
        "runs",
        "meter holds",
        "totals hold",
        "certificates true",
        "certified",
    ]
    from_episodes, beside = fresh.judge(evidence.size)
    return Judgment(
        (*verdicts, *from_episodes),
        (table("Shares of runs, by the truth", head, rows), beside),
        notes=(
            "Bounds hold at all times at once; they are looked at where a run is recorded. Trials with a margin are "
            "mostly of safe policies, so that few certificates could be false: the optimistic stance takes the margin "
            "off, and is the hard case.",
        ),
    )


def _setting(trace: Trace) -> tuple[str, str]:
    known = trace.option("thresholds") is not None
    return trace.problem, "limits known" if known else f"ξ = {trace.option('stance'):g}"


def meter_holds(trace: Trace) -> bool:
    """Whether the exact violation of every constraint lies between its bounds throughout."""
    room = ROUNDING * trace.cmdp.H * trace["episode"]
    return all(
        _between(
            trace[f"evidence_violation_lower_{i}"],
            trace[f"violation_{i}"],
            trace[f"evidence_violation_upper_{i}"],
            room,
        )
        for i in range(trace.cmdp.m)
    )


def totals_hold(trace: Trace) -> bool:
    """Whether every limit lies between the bounds of its thresholds throughout."""
    room = np.full(len(trace["episode"]), ROUNDING * trace.cmdp.H)
    return all(
        _between(
            trace[f"threshold_lower_{i}"],
            np.full(len(room), limit),
            trace[f"threshold_upper_{i}"],
            room,
        )
        for i, limit in enumerate(trace.cmdp.limits)
    )


def certificates_hold(trace: Trace) -> bool:
    """Whether every certified policy keeps every limit."""
    cmdp = trace.cmdp
    toward = np.where(np.array(cmdp.senses) == "<=", -1.0, 1.0)
    return all(
        bool((toward * (np.array(each["constraints"]) - cmdp.limits) >= -ROUNDING * cmdp.H).all())
        for each in trace.facts["certificates"]
    )


def _between(low: Float, x: Float, high: Float, room: Float) -> bool:
    return bool(((low - room <= x) & (x <= high + room)).all())


CLAIM = Claim(
    name="evidence",
    title="What was played is evidence",
    says="Bounds on the violation so far (the meter), on the limits (totals), trials, and the certificates that SPOT "
    "in epochs issues or that play earns hold at all times with probability 1 − δ, with no model of the world. At "
    "δ = 0.2, so that misses can show.",
    place="docs/evidence.md and docs/epochs.md",
    sweeps=("evidence",),
    judge=judge,
)
