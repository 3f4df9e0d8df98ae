"""What a worker does: runs, one after the other, from their specs to their outcomes.

A worker keeps what runs share (the problem, its optimum, its Slater policy), tells how far it is, and writes a
checkpoint every `CHECKPOINT_SECONDS` where it can reach the store.
"""

from __future__ import annotations

import functools
import json
import math
import platform
import socket
import subprocess
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from .. import learners, problems
from ..audit import Yardstick, yardstick
from ..certificate import certify
from ..errors import InvalidFile, SafespotError
from ..learners import Learner
from ..metrics import Optima
from ..oracle import Slater, Solution, slater, solve
from ..reading import read_cmdp
from ..signals import Bernoulli, Beta, Deterministic, Drift, Gaussian, Law, Problem
from ..training import Training
from .checkpoints import Checkpoint, versions
from .parquet import columns
from .spec import FILE, LawSpec, RunSpec, SignalsSpec, file_checksum
from .store import POLICY_ENTRIES, Outcome

CHECKPOINT_SECONDS = 20.0
REPORT_SECONDS = 0.2
SETTINGS = 16  # problems that a worker remembers

Report = Callable[[str, int], bool]  # run, its finished episodes -> whether to go on


@dataclass(frozen=True)
class Failure:
    """A run that cannot be done, and why."""

    run: RunSpec
    why: str


class Stopped(Exception):
    """The sweep wants to end; a checkpoint has been written."""


class Unsaved(Exception):
    """A checkpoint could not be written: the disk is full, or failing."""


def work(runs: Sequence[RunSpec], store: Path | None, report: Report) -> list[Outcome | Failure]:
    """Do some runs. `store` None: no checkpoints. Only a disk that cannot be written to ends them all."""
    done: list[Outcome | Failure] = []
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


def perform(run: RunSpec, store: Path | None, report: Report) -> Outcome:
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
    return Outcome(
        run=run,
        columns=columns(result),
        policy=result.policy if result.policy.size <= POLICY_ENTRIES else None,
        facts={
            "optimum": None if math.isnan(result.optimum) else result.optimum,
            "limits": cmdp.limits.tolist(),
            "rho": None if math.isinf(training.learner.rho) else training.learner.rho,
            "certificate": certificate(training),
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


def save(checkpoint: Checkpoint, training: Training) -> None:
    """Write down how far a run is."""
    try:
        checkpoint.save(training.arrays(), training.learner.episode - 1)
    except InvalidFile as problem:
        raise Unsaved(str(problem)) from None


def begin(run: RunSpec, checkpoint: Checkpoint | None) -> tuple[Training, list[str]]:
    """The training of a run, as far as a checkpoint knows it, and what was wrong with checkpoints."""
    notes: list[str] = []
    for arrays, _ in checkpoint.found(notes) if checkpoint is not None else ():
        training = fresh(run)
        try:
            training.restore(arrays)
        except (SafespotError, KeyError, ValueError, TypeError, OverflowError) as problem:
            notes.append(f"a checkpoint of {run.id} cannot be gone on from: {problem}")
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
        setting.yardstick if run.track == "audit" else None,
    )


def make_learner(run: RunSpec) -> Learner:
    """The learner of a run; some of its options may be taken from the truth."""
    setting = read_setting(run.setting)
    given = run.learner_options
    options = {name: from_truth(setting, name, value) for name, value in given.items()}
    planned = None if run.anytime else run.episodes
    return learners.make(run.learner, setting.problem.interface, episodes=planned, **options)


def needs(name: str, given: Mapping[str, Any]) -> dict[str, Any]:
    """The options of a learner with what it cannot do without taken from the truth, where it is not given."""
    takes = learners.options(name)
    words = {"policy": "optimal", "baseline": "slater"}
    if "rho" not in given and "slack" not in given:
        words["rho" if "rho" in takes else "slack"] = "slater"
    return {option: word for option, word in words.items() if option in takes} | dict(given)


def from_truth(setting: Setting, name: str, value: Any) -> Any:
    """The value of an option: as it stands, or what the word for it says of the problem."""
    match name, value:
        case "rho", "inf":
            return math.inf
        case "rho", "slater":
            return setting.slater.rho
        case "slack", "slater":
            return setting.slater.margins
        case (("policy" | "baseline"), "slater"):
            return setting.slater.policy
        case (("policy" | "baseline"), "optimal"):
            return setting.solution.policy
        case "thresholds", "known":
            return setting.problem.cmdp.thresholds
    return value


@dataclass
class Setting:
    """A problem, and what is known of it once it is asked for."""

    problem: Problem

    @functools.cached_property
    def optima(self) -> Optima:
        """The optimum of every episode."""
        return Optima(self.problem)

    @functools.cached_property
    def yardstick(self) -> Yardstick:
        """What audits compare with."""
        return yardstick(self.problem.cmdp)

    @functools.cached_property
    def slater(self) -> Slater:
        """The safest policy, its margins, and the bound of the multipliers that it gives (D4)."""
        return slater(self.problem.cmdp)

    @functools.cached_property
    def solution(self) -> Solution:
        """The constrained optimum."""
        return solve(self.problem.cmdp)


@functools.lru_cache(SETTINGS)
def read_setting(setting: str) -> Setting:
    """The problem of some runs, made once in a process."""
    content = json.loads(setting)
    problem = make_problem(content["problem"], content["problem_options"])
    given = SignalsSpec.model_validate(content["signals"])
    laws = {
        name: _law(law)
        for name in ("rewards", "constraints", "thresholds")
        if (law := getattr(given, name)) is not None
    }
    drift = problem.signals.drift
    if given.drift is not None:
        drift = Drift(given.drift.thresholds, given.drift.first, given.drift.last)
    return Setting(Problem(problem.cmdp, replace(problem.signals, drift=drift, **laws)))


def make_problem(name: str, options: dict[str, Any]) -> Problem:
    """A ready problem, or the one in a file, which must be the file that was named."""
    if name != FILE:
        return problems.make(name, **options)
    others = {k: v for k, v in options.items() if k not in ("path", "checksum")}
    if file_checksum(options["path"]) != options["checksum"]:
        raise InvalidFile(f"{options['path']} has changed; these runs are of another content.")
    return Problem(read_cmdp(options["path"], **others))


def _law(given: LawSpec) -> Law:
    if given.law == "beta":
        return Beta() if given.concentration is None else Beta(given.concentration)
    if given.law == "gaussian":
        return Gaussian() if given.sd is None else Gaussian(given.sd)
    return Bernoulli() if given.law == "bernoulli" else Deterministic()


@functools.cache
def here() -> dict[str, Any]:
    """Where this process runs, and what."""
    return {
        "versions": versions(),
        "git": _git(),
        "host": socket.gethostname(),
        "system": platform.platform(),
        "machine": platform.machine(),
    }


def _git() -> dict[str, Any] | None:
    """The commit of the package's sources and whether they were changed since; None: they are not in git."""
    source = Path(__file__).parents[1]
    if not any((folder / ".git").exists() for folder in source.parents):
        return None
    try:
        commit, status = (
            subprocess.run(
                ["git", "-C", str(source), *arguments], capture_output=True, text=True, check=True
            ).stdout.strip()
            for arguments in (["rev-parse", "HEAD"], ["status", "--porcelain", "--", "."])
        )
    except (OSError, subprocess.CalledProcessError):
        return None
    return {"commit": commit, "changed": bool(status)}
