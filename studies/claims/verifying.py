"""`verify`: from the shipped sweeps to a judged page.

runs of all claims  ->  one sweep into the store, resumable, on any engine; audits of some
store               ->  measurements  ->  each claim's judge  ->  verification.md, figures/
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from safespot.errors import InvalidOption, unknown
from safespot.experiments import RunSpec, Store, sweep

from . import (
    assumption,
    budget,
    consistency,
    coverage,
    document,
    duality,
    evidence,
    known,
    lemmas,
    longer,
    orders,
    phases,
    pictures,
    practice,
    tradeoff,
    window,
)
from .audit import audit_runs
from .measurements import Measurements, read_measurements
from .sizes import Size, is_audited, shipped_runs
from .verdicts import Claim, Judgment, Outcome, Verdict

CLAIMS: tuple[Claim, ...] = (
    coverage.CLAIM,
    consistency.CLAIM,
    orders.CLAIM,
    longer.CLAIM,
    tradeoff.CLAIM,
    known.CLAIM,
    window.CLAIM,
    assumption.CLAIM,
    duality.CLAIM,
    lemmas.CLAIM,
    practice.CLAIM,
    evidence.CLAIM,
    phases.CLAIM,
    budget.CLAIM,
)


@dataclass(frozen=True)
class Sweep:
    """What a shipped sweep has cost."""

    name: str
    runs: int
    episodes: int
    seconds: float  # of learning, over all processes


@dataclass(frozen=True)
class Verification:
    """Every claim with what is said about it, and where that came from."""

    store: Store
    size: Size
    judged: tuple[tuple[Claim, Judgment], ...]
    sweeps: tuple[Sweep, ...]
    failed: Mapping[str, str]  # run -> why
    provenance: Mapping[str, Any]  # versions, machine, when

    @property
    def verdicts(self) -> list[Verdict]:
        """All of them, in order."""
        return [verdict for _, judgment in self.judged for verdict in judgment.verdicts]

    @property
    def counts(self) -> dict[str, int]:
        """How many hold, do not hold, and are not shown."""
        found = Counter(verdict.outcome for verdict in self.verdicts)
        return {str(outcome): found[outcome] for outcome in Outcome}


def verify(
    out: str | Path,
    size: str = "full",
    *,
    claims: Sequence[str] | None = None,
) -> Verification:
    """Measure the paper's claims and write what came out to ``OUT/verification.md`` and ``OUT/figures``.

    Args:
        out: the folder of the results; the same call again resumes where it stopped.
        size: "quick" (minutes), "full" (about an hour on two processors), or "extended" (longer problems and runs).
        claims: the names of some of them; all by default.

    """
    chosen = _chosen(claims)
    measure = _size(size)
    runs = {name: shipped_runs(name, measure) for claim in chosen for name in claim.sweeps}
    swept = sweep(_longest_first(runs), out)
    audit_runs(swept.store, (run for name in runs if is_audited(name) for run in runs[name]))
    measured = read_measurements(swept.store, runs, measure)
    judged = tuple((claim, _judge(claim, runs, measured)) for claim in chosen)
    made = Verification(
        store=swept.store,
        size=measure,
        judged=judged,
        sweeps=tuple(_cost(swept.store, name, each) for name, each in runs.items()),
        failed=swept.failed,
        provenance=_provenance(swept.store, runs),
    )
    _write(made)
    return made


def _chosen(names: Sequence[str] | None) -> list[Claim]:
    known_names = [claim.name for claim in CLAIMS]
    for name in names or ():
        if name not in known_names:
            raise InvalidOption(unknown("claim", name, known_names))
    return [claim for claim in CLAIMS if names is None or claim.name in names]


def _size(size: str) -> Size:
    if size not in list(Size):
        raise InvalidOption(unknown("size", size, list(Size)))
    return Size(size)


def _longest_first(runs: Mapping[str, list[RunSpec]]) -> list[RunSpec]:
    """Long runs first: at the end no processor waits for one that began late."""
    return sorted((run for each in runs.values() for run in each), key=lambda run: -run.episodes)


def _judge(claim: Claim, runs: Mapping[str, list[RunSpec]], measured: Measurements) -> Judgment:
    """What its runs say; nothing where some of them failed."""
    missing = sum(len(runs[name]) - len(measured[name]) for name in claim.sweeps)
    if missing:
        reason = f"{missing:,} of its runs failed; the same command tries them again."
        return Judgment((Verdict(claim.says, Outcome.OPEN, reason, "none"),))
    return claim.judge(measured)


def _cost(store: Store, name: str, runs: list[RunSpec]) -> Sweep:
    done = [run for run in runs if store.is_finished(run.id)]
    seconds = sum(float(store.about(run.id)["provenance"]["processor_seconds"]) for run in done)
    return Sweep(name, len(done), sum(run.episodes for run in done), seconds)


def _provenance(store: Store, runs: Mapping[str, list[RunSpec]]) -> dict[str, Any]:
    """Versions and machines of the runs, and the time from the first to the last of them."""
    every = {run.id: run for each in runs.values() for run in each if store.is_finished(run.id)}
    about = [store.about(run)["provenance"] for run in sorted(every)]
    versions = sorted({" ".join(f"{k} {v}" for k, v in a["versions"].items()) for a in about})
    commits = {a["git"]["commit"][:12] + "+" * a["git"]["changed"] for a in about if a["git"]}
    return {
        "runs": len(every),
        "episodes": sum(run.episodes for run in every.values()),
        "seconds": sum(float(a["processor_seconds"]) for a in about),
        "versions": versions,
        "commits": sorted(commits),
        "systems": sorted({f"{a['system']}, {a['machine']}" for a in about}),
        "began": min((a["began"] for a in about), default=""),
        "ended": max((a["ended"] for a in about), default=""),
    }


def _write(made: Verification) -> None:
    folder = made.store.path / "figures"
    folder.mkdir(exist_ok=True)
    for figure in (f for _, judgment in made.judged for f in judgment.figures):
        (folder / f"{figure.name}.svg").write_text(pictures.svg(figure.chart))
    (made.store.path / "verification.md").write_text(document.render(made))
