"""What a worker does: runs, one after the other, from their specs to their outcomes.

A worker keeps what runs share (the problem, its optimum, its Slater policy), tells how far it is, and writes a
checkpoint every `CHECKPOINT_SECONDS` where it can reach the store.
"""

from __future__ import annotations

import math
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from .. import learners
from ..arrays import Policy
from ..errors import DiskError, InvalidFile, SafespotError
from ..judging.certify import certify
from ..learners.history import table
from ..model.oracle import evaluate
from ..training.learn import Training
from ..training.run_tables import columns
from .checkpoints import Checkpoint
from .provenance import here
from .settings import make_learner, read_setting
from .spec import RunSpec
from .store import POLICY_ENTRIES, FinishedRun

CHECKPOINT_SECONDS = 20.0
REPORT_SECONDS = 0.2

Report = Callable[[str, int], bool]  # run, its finished episodes -> whether to go on


@dataclass(frozen=True)
class Failure:
    """A run that failed, and why."""

    run: RunSpec
    why: str


class Stopped(Exception):
    """The sweep wants to end; a checkpoint has been written."""


class Unsaved(Exception):
    """A checkpoint could not be written: the disk is full, or failing."""


def work(
    runs: Sequence[RunSpec], store: Path | None, report: Report
) -> list[FinishedRun | Failure]:
    """Do some runs. `store` None: no checkpoints. Only a disk that cannot be written to ends them all."""
    done: list[FinishedRun | Failure] = []
    for run in runs:
        try:
            done.append(perform(run, store, report))
        except Unsaved:
            raise
        except SafespotError as problem:
            done.append(Failure(run, str(problem)))
        except Stopped:
            break
        except Exception:
            done.append(Failure(run, traceback.format_exc()))
    return done


def perform(run: RunSpec, store: Path | None, report: Report) -> FinishedRun:
    """Do one run, from its checkpoint where it has one."""
    began, name = datetime.now(UTC), run.id
    shared = store is not None and (store / "claims" / name).exists()
    checkpoint = Checkpoint(store / "checkpoints", name) if store is not None and shared else None
    training, notes = begin(run, checkpoint)
    resumed = training.learner.episode - 1
    saved = told = time.monotonic()
    spent = 0.0
    while training.remaining:
        before = time.thread_time()
        training.advance()
        spent += time.thread_time() - before
        now = time.monotonic()
        if now - told >= REPORT_SECONDS:
            told, stop = now, not report(name, training.learner.episode - 1)
            if checkpoint is not None and (stop or now - saved >= CHECKPOINT_SECONDS):
                save(checkpoint, training)
                saved = time.monotonic()
            if stop:
                raise Stopped
    report(name, run.episodes)
    result = training.result()
    cmdp = training.problem.cmdp
    return FinishedRun(
        run=run,
        columns=columns(result),
        policies=policies(training) if result.policy.size <= POLICY_ENTRIES else {},
        facts={
            "optimum": None if math.isnan(result.optimum) else result.optimum,
            "limits": cmdp.limits.tolist(),
            "rho": None if math.isinf(training.learner.rho) else training.learner.rho,
            "certificate": certificate(training),
            "diagnosis": [asdict(finding) for finding in result.diagnosis],
            **guard_facts(training.learner),
            **proofs(training),
        },
        seconds=training.seconds,
        provenance={
            **here(),
            "began": began.isoformat(timespec="milliseconds"),
            "ended": datetime.now(UTC).isoformat(timespec="milliseconds"),
            "processor_seconds": spent,
            "resumed_after": resumed,
            "notes": notes,
        },
    )


def certificate(training: Training) -> dict[str, Any] | None:
    """What the run's data say about the safety of its last policy; None where limits move, or for other learners."""
    if training.problem.signals.drift is not None or not isinstance(
        training.learner, learners.Spot
    ):
        return None
    return certify(training.learner).as_dict()


def guard_facts(learner: learners.Learner) -> dict[str, Any]:
    """What a guard ended with; nothing for a learner that has none."""
    spending = learner.proofs.spending
    if spending is None:
        return {}
    return {
        "guard": {
            "budget": spending.budget.tolist(),
            "spent": [end.tolist() for end in spending.spent],
            "share": spending.share,
            "baseline_verdict": spending.baseline_verdict,
        }
    }


def proofs(training: Training) -> dict[str, Any]:
    """What a learner in phases played when, proposes and has certified, with what its policies are worth in truth."""
    learner = training.learner
    proofs = learner.proofs
    if not proofs.tries:
        return {"epochs": None, "proposal": None, "certified": None, "certificates": []}
    best, finished = learner.certified, learner.episode - 1
    return {
        "epochs": table(proofs.history, finished),
        "proposal": worth(training, learner.proposal),
        "certified": None
        if best is None
        else {
            **worth(training, best.policy),
            "episode": best.episode,
            "first": proofs.certificates[0].episode,
            "certificate": best.certificate.as_dict(),
        },
        "certificates": [
            {"episode": each.episode, **worth(training, each.policy)}
            for each in proofs.certificates
        ],
    }


def worth(training: Training, policy: Policy) -> dict[str, Any]:
    """The exact values of a policy."""
    found = evaluate(training.problem.cmdp, policy)
    return {"value": found.value, "constraints": found.constraints.tolist()}


def policies(training: Training) -> dict[str, Policy]:
    """The policy for the coming episode, and what a learner in phases proposes and has certified."""
    learner = training.learner
    found = {"policy": learner.policy}
    if learner.proofs.tries:
        found["proposal"] = learner.proposal
        if (best := learner.certified) is not None:
            found["certified"] = best.policy
    return found


def save(checkpoint: Checkpoint, training: Training) -> None:
    """Write down how far a run is."""
    try:
        checkpoint.save(training.arrays(), training.learner.episode - 1)
    except (DiskError, InvalidFile) as problem:
        raise Unsaved(str(problem)) from None


def begin(run: RunSpec, checkpoint: Checkpoint | None) -> tuple[Training, list[str]]:
    """The training of a run, as far as a checkpoint knows it, and what was wrong with checkpoints."""
    notes: list[str] = []
    for arrays, _ in checkpoint.found(notes) if checkpoint is not None else ():
        training = fresh(run)
        try:
            training.restore(arrays)
        except (SafespotError, KeyError, ValueError, TypeError, OverflowError) as problem:
            notes.append(f"a checkpoint of {run.id} cannot be resumed: {problem}")
            continue
        return training, notes
    return fresh(run), notes


def fresh(run: RunSpec) -> Training:
    """The training of a run before its first episode."""
    setting = read_setting(run.setting)
    return Training(
        setting.problem,
        make_learner(run),
        run.episodes,
        run.seed,
        run.record,
        run.track,
        setting.optima,
    )
