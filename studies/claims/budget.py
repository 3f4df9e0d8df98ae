"""Beyond the paper: under a guard the violation never exceeds its budget, whatever the learner does."""

from __future__ import annotations

from safespot.report.text import number

from .inference import mean, share, share_at_least
from .measurements import Measurements, Trace, grouped
from .verdicts import LEVEL, Claim, Judgment, Verdict, table, together

ROUNDING = 1e-9  # of a sum over all episodes, in parts of the budget


def judge(evidence: Measurements) -> Judgment:
    """The share of runs whose exact violation stays within the budget after every episode."""
    groups = grouped(evidence["budget"], lambda trace: trace.run.learner)
    level = LEVEL / max(1, len(groups))
    outcomes, rows, parts = [], [], []
    for learner, traces in groups.items():
        wanted = 1.0 - float(traces[0].option("guard")["delta"])
        most = [worst(trace) for trace in traces]
        kept, n = sum(part <= 1.0 + ROUNDING for part in most), len(traces)
        outcomes.append(share_at_least(kept, n, wanted, level))
        who = "one that always plays the worst policy" if learner == "fixed" else learner
        played = mean([trace.facts["guard"]["share"] for trace in traces], 0.05)
        rows.append([who, n, share(kept, n, 2 * level), number(max(most)), played])
        parts.append(f"{who}: {n - kept} of {n:,} runs above it")
    head = [
        "learner",
        "runs",
        "share within the budget",
        "largest violation / budget",
        "learner played",
    ]
    return Judgment(
        (
            Verdict(
                "At no time does the violation exceed its budget, in at least a share 1 − δ of the runs.",
                together(outcomes),
                "; ".join(parts) + ".",
                f"Clopper–Pearson, one-sided, at level {level:.4f} for each learner",
            ),
        ),
        (table("The budget at any time, δ = 0.2", head, rows),),
    )


def worst(trace: Trace) -> float:
    """The largest violation after any episode, in parts of its budget."""
    budget: list[float] = trace.facts["guard"]["budget"]
    return max(float(trace[f"violation_{i}"].max()) / spend for i, spend in enumerate(budget))


CLAIM = Claim(
    name="budget",
    title="A budget for violation",
    says="Under a guard with a baseline that keeps every limit, the summed violation never exceeds the budget, at any "
    "time and whatever the learner does, with probability 1 − δ.",
    place="docs/guard.md",
    sweeps=("budget",),
    judge=judge,
)
