"""A run in one file: its arrays, and its learner as the learner itself writes it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from .. import learners
from ..arrays import Episode, as_count, frozen
from ..errors import InvalidFile, InvalidOption, SafespotError
from ..evidence.meter import Evidence
from ..files import read_arrays, scratch, write_arrays
from ..learners.learner import Learner
from .metering import EpisodeSums
from .origin import Origin

if TYPE_CHECKING:
    from .run import Run

    R = TypeVar("R", bound=Run)

ROWS = (
    "episodes", "values", "constraint_values", "multipliers", "thresholds", "violations", "strong_violations", "policy",
)  # fmt: skip
UNKNOWN = ("regret", "strong_regret", "limits")  # what only the truth can tell
PAIRS = ("threshold_bounds",)
EVIDENCE = ("violation_bounds", "reward_bounds")


def write_run(run: Run, path: str | Path) -> None:
    """Write a run."""
    arrays: dict[str, NDArray] = {name: getattr(run, name) for name in ROWS}
    arrays |= {name: getattr(run, name) for name in UNKNOWN if getattr(run, name) is not None}
    for name in PAIRS:
        arrays |= _ends(name, getattr(run, name))
    for name in EVIDENCE:
        arrays |= _ends(f"evidence.{name}", getattr(run.evidence, name))
    arrays["evidence.episodes"] = run.evidence.episodes
    if run.sums is not None:
        arrays |= {"totals": run.sums.totals, "moved": run.sums.moved}
    with scratch() as folder:  # whatever a learner writes, it writes to a file
        run.learner.save(Path(folder, "learner"))
        arrays["learner"] = np.frombuffer(Path(folder, "learner").read_bytes(), np.uint8)
    about = {
        "optimum": None if np.isnan(run.optimum) else run.optimum,
        "seed": run.seed, "track": run.track, "seconds": run.seconds, "first": run.first, "played": run.played,
        "delta": run.evidence.delta,
    }  # fmt: skip
    write_arrays(path, "run", arrays, about)


def read_run(kind: type[R], path: str | Path) -> R:
    """Return the run in a file; raise `InvalidFile` for a damaged one."""
    arrays, about = read_arrays(path, "run")
    try:
        with scratch() as folder:
            Path(folder, "learner").write_bytes(arrays["learner"].tobytes())
            learner = learners.load(Path(folder, "learner"))
        rows: dict[str, Any] = {name: frozen(arrays[name]) for name in ROWS}
        _check(rows, learner)
        rows |= {name: arrays.get(name) for name in UNKNOWN}
        rows |= {name: _pair(arrays, name) for name in PAIRS}
        evidence = Evidence(
            delta=float(about["delta"]),
            episodes=arrays["evidence.episodes"],
            doubts=learner.doubts.sentences(),
            **{name: _pair(arrays, f"evidence.{name}") for name in EVIDENCE},
        )
        played = as_count("played", about["played"], least=0, error=InvalidFile)
        return kind(
            **rows,
            evidence=evidence,
            learner=learner,
            optimum=float("nan") if about["optimum"] is None else float(about["optimum"]),
            seed=as_count("seed", about["seed"], least=0, most=None, error=InvalidFile),
            track=str(about["track"]),
            seconds=float(about["seconds"]),
            origin=Origin(int(about["first"]), None, _gone),
            played=played,
            sums=_sums(arrays, played, learner),
        )
    except (SafespotError, KeyError, TypeError, ValueError, IndexError) as exc:
        raise InvalidFile(f"{path} does not describe a run: {exc}") from None


def _ends(name: str, pair: tuple[NDArray, NDArray]) -> dict[str, NDArray]:
    return {f"{name}.lower": pair[0], f"{name}.upper": pair[1]}


def _pair(arrays: dict[str, NDArray], name: str) -> tuple[NDArray, NDArray]:
    return frozen(arrays[f"{name}.lower"]), frozen(arrays[f"{name}.upper"])


def _sums(arrays: dict[str, NDArray], played: int, learner: Learner) -> EpisodeSums | None:
    if "totals" not in arrays:
        return None
    totals, moved = frozen(arrays["totals"]), frozen(arrays["moved"])
    if totals.shape != (played, 2 + 4 * learner.interface.m) or totals.dtype != np.float64:
        raise ValueError(f"sums of episodes have the shape {totals.shape}")
    if moved.shape != (played + 1,) or moved.dtype != np.bool_:
        raise ValueError(f"moves of the policy have the shape {moved.shape}")
    return EpisodeSums(totals, moved)


def _check(rows: dict[str, Any], learner: Learner) -> None:
    """Raise where the rows are not those of one run of this learner."""
    f, n = learner.interface, len(rows["episodes"])
    for name, array in rows.items():
        shape = (n,) if name in ("episodes", "values") else (n, f.m)
        if array.shape != ((f.H, f.S, f.A) if name == "policy" else shape):
            raise ValueError(f"{name} have the shape {array.shape}")


def _gone() -> Callable[[Learner], Episode]:
    raise InvalidOption("a run that was loaded from a file cannot be gone through again.")
