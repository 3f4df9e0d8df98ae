"""Feasible sets that are nested, and strong duality of the pessimistic and the optimistic problem."""

from __future__ import annotations

import numpy as np

from safespot.errors import Infeasible
from safespot.experiments.spec import LawSpec
from safespot.model.cmdp import CMDP
from safespot.model.oracle import slater, solve
from safespot.planning.process import Pricing
from safespot.problems import make
from safespot.report.text import number

from ..programs import program_optimum
from .inference import share, share_at_least
from .measurements import Measurements, Trace, grouped
from .sizes import Size
from .verdicts import DELTA, LEVEL, Claim, ClaimTable, Judgment, Outcome, Verdict, table

TOLERANCE = 1e-7
MODELS = {Size.quick: 10, Size.full: 100, Size.extended: 1000}
SHARES = (0.25, 0.5, 0.9)  # of the Slater margin by which thresholds are tightened, or loosened


def judge(evidence: Measurements) -> Judgment:
    """The share of runs in which the true thresholds stay between the bounds; duality gaps of random CMDPs."""
    paper = [  # the other laws and windows share their noise
        t
        for t in evidence["coverage"]
        if t.option("window") == 1.0 and t.run.signals.thresholds == LawSpec(law="bernoulli")
    ]
    held = sum(nested(trace) for trace in paper)
    rows = [["1", len(paper), share(held, len(paper), LEVEL)]]
    for scale, theirs in grouped(
        evidence["nested"], lambda t: float(t.option("threshold_scale"))
    ).items():
        kept = sum(nested(trace) for trace in theirs)
        rows.append([f"{scale:g}", len(theirs), share(kept, len(theirs), LEVEL)])
    sets = Verdict(
        statement="The feasible sets are nested, pessimistic in true in optimistic, in at least "
        f"{1 - DELTA:.0%} of the runs.",
        outcome=share_at_least(held, len(paper), 1.0 - DELTA, LEVEL),
        reason=f"In {held:,} of {len(paper):,} runs the true episodic thresholds stayed between the bounds in "
        f"every episode, {share(held, len(paper), LEVEL)}.",
        test=f"Clopper–Pearson, one-sided, at level {LEVEL}",
    )
    duality, gaps = strong_duality(MODELS[evidence.size])
    return Judgment(
        (sets, duality),
        (
            table(
                "Nested sets by threshold_scale", ["threshold_scale", "runs", "share nested"], rows
            ),
            gaps,
        ),
        notes=(
            "Nestedness is weaker than Theorem 1: errors of the steps may cancel in the sum over an episode.",
        ),
    )


def nested(trace: Trace) -> bool:
    """Whether every true threshold stayed between its bounds; rounding aside."""
    return trace.last("audit_nested_slack") >= -1e-9


def dual_value(cmdp: CMDP) -> float:
    """Return the dual function at the multipliers of a linear program, in the user's terms."""
    program = program_optimum(cmdp)
    assert program is not None
    weights = np.r_[1.0, program.multipliers]
    inside = (
        Pricing(cmdp.process)(weights).values @ weights - program.multipliers @ cmdp.model.limits
    )
    return float(cmdp.units.reward.total_outside(inside, cmdp.H))


def strong_duality(models: int) -> tuple[Verdict, ClaimTable]:
    """The primal optimum by column generation, the dual function at the multipliers of a linear program."""
    rows, worst, solved, infeasible = [], 0.0, 0, 0
    for m in (1, 2):
        for stance, sign in (("pessimistic", 1.0), ("optimistic", -1.0)):
            gaps = []
            for seed in range(models):
                cmdp = make("random", states=4, actions=3, horizon=4, constraints=m, seed=seed).cmdp
                margins = slater(cmdp).margins
                for part in SHARES:
                    moved = cmdp.with_thresholds((cmdp.limits + sign * part * margins).clip(0.0))
                    try:
                        primal = solve(moved)
                    except Infeasible:
                        infeasible += 1
                        continue
                    gaps.append(abs(dual_value(moved) - primal.value))
            solved, worst = solved + len(gaps), max(worst, *gaps)
            rows.append([stance, m, len(gaps), f"{max(gaps):.1e}"])
    verdict = Verdict(
        statement=f"Primal and dual optimum of the pessimistic and the optimistic problem agree to {TOLERANCE:g}.",
        outcome=Outcome.HOLDS if worst <= TOLERANCE and infeasible == 0 else Outcome.FAILS,
        reason=f"The largest gap of {solved:,} problems is {worst:.1e}"
        + (f"; {number(infeasible)} were infeasible." if infeasible else "."),
        test="none: exact up to rounding. Primal by column generation, dual function by backward induction "
        "at the multipliers of an independent linear program; thresholds moved by ¼, ½ and 9/10 of the "
        "Slater margin",
    )
    head = ["problem", "m", "problems solved", "largest gap"]
    return verdict, table("Duality gaps of random CMDPs (S=4, A=3, H=4)", head, rows)


CLAIM = Claim(
    name="duality",
    title="Feasible sets and strong duality",
    says="With probability 1 − δ the policies that keep the pessimistic thresholds are among those that keep "
    "the true ones, and these among those that keep the optimistic ones. Where a strictly feasible policy "
    "remains, the pessimistic and the optimistic problem have no duality gap.",
    place="Section “Feasibility and Strong Duality” (sec:Strong duality)",
    sweeps=("coverage", "nested"),
    judge=judge,
)
