"""Verdicts from fresh episodes: trials of one policy, and certificates from what a learner played.

What they say is no column of a run, so that these runs are made here, from seeds of their own.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from safespot.arrays import Float
from safespot.evidence.certificate import Certificate
from safespot.judging.certify import certify
from safespot.learners import Spot
from safespot.model.cmdp import CMDP
from safespot.model.oracle import slater, solve
from safespot.problems import make
from safespot.training.learn import learn

from .inference import share, share_at_least
from .sizes import Size
from .verdicts import LEVEL, ClaimTable, Verdict, table

RUNS = {Size.quick: 20, Size.full: 400, Size.extended: 2000}
EPISODES, DELTA = 400, 0.2
ROUNDING = 1e-9


class Found(NamedTuple):
    """A certificate, and the difference V_g - alpha [m] that it is about, by the truth; positive is kept."""

    certificate: Certificate
    truth: Float

    @property
    def covers(self) -> bool:
        """Whether the truth lies between the bounds of every constraint."""
        low, high = self.certificate.difference_bounds
        return bool(((low - ROUNDING <= self.truth) & (self.truth <= high + ROUNDING)).all())

    @property
    def false(self) -> bool:
        """Whether something is called safe that is not."""
        return bool((self.certificate.safe & (self.truth < -ROUNDING)).any())


def trials(runs: int) -> Iterator[Found]:
    """Trials of the optimal policy, which lies on the limit itself: half of the guesses would call it safe."""
    problem = make("machine")
    policy = solve(problem.cmdp).policy
    truth = _difference(problem.cmdp, solve(problem.cmdp).constraints)
    for seed in range(runs):
        yield Found(certify(problem, policy, episodes=EPISODES, delta=DELTA, seed=seed), truth)


def plays(runs: int) -> Iterator[Found]:
    """What `certify` says of SPOT's play, whose policy changes with every episode."""
    problem = make("machine")
    rho = slater(problem.cmdp).rho
    for seed in range(runs):
        learner = Spot(**problem.interface, episodes=EPISODES, rho=rho, bonus_scale=0.01)
        run = learn(problem, learner, seed=seed, record="all")
        certificate = certify(run, delta=DELTA)
        means = run.constraint_values[(certificate.since or 1) - 1 :].mean(axis=0)
        yield Found(certificate, _difference(problem.cmdp, means))


def judge(size: Size) -> tuple[tuple[Verdict, ...], ClaimTable]:
    """Shares of runs whose bounds hold, and which call nothing safe that is not."""
    verdicts, rows = list[Verdict](), list[list[object]]()
    for says, what, made in (
        ("The bounds of a trial hold", "trials of a policy on the limit", trials),
        ("What play is certified for is true", "certificates from SPOT's play", plays),
    ):
        found = list(made(RUNS[size]))
        n, kept = len(found), sum(each.covers and not each.false for each in found)
        wanted = min(each.certificate.difference_confidence for each in found)  # of both ends
        safe = sum(bool(each.certificate.safe.all()) for each in found)
        false = sum(each.false for each in found)
        verdicts.append(
            Verdict(
                f"{says}, in at least a share {wanted:g} of the runs.",
                share_at_least(kept, n, wanted, LEVEL),
                f"{n - kept} of {n:,} misses; {safe:,} were called safe, {false} of them falsely.",
                f"difference of the policy's constraint and its limit between its bounds; {EPISODES} episodes, "
                f"δ = {DELTA}; Clopper–Pearson, one-sided, at level {LEVEL}",
            )
        )
        rows.append([what, n, share(kept, n, 2 * LEVEL), f"{safe:,}", false])
    head = ["what", "runs", "bounds hold", "called safe", "falsely"]
    return tuple(verdicts), table("Trials and certificates from play, on `machine`", head, rows)


def _difference(cmdp: CMDP, values: Float) -> Float:
    toward = np.where(np.array(cmdp.senses) == "<=", -1.0, 1.0)
    return toward * (values - cmdp.limits)
