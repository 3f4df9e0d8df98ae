"""The state of `SpotEpochs` as arrays, and back: nothing that a file holds is believed unchecked."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..arrays import as_policy
from ..errors import InvalidFile
from ..evidence.certificate import Certificate
from ..evidence.interface import Interface
from .epoch_trials import Certified
from .phases import PhaseState

PARTS = (
    "totals",
    "means",
    "trial",
    "before",
    "exploring",
    "certified",
    "history",
)  # of the names of arrays


def record_arrays(state: PhaseState) -> dict[str, NDArray]:
    """The arrays of the records that a state is made of, as "record.field"."""
    return {
        f"{part}.{name}": array
        for part, record in _records(state).items()
        for name, array in record.items()
    }


def read_records(state: PhaseState, arrays: dict[str, NDArray]) -> PhaseState:
    """`state` with the records that `arrays` hold, if they can be its own."""
    found: dict[str, dict[str, NDArray]] = {}
    for part, record in _records(state).items():
        found[part] = {name: arrays[f"{part}.{name}"].copy() for name in record}
        for name, like in record.items():
            _check_like(f"{part}.{name}", found[part][name], like, grows=name == "ring")
    _check_ring(found["totals"])
    before = found["before"]
    if (
        not ((before["weight"] >= 0.0) & (before["weight"] <= 1.0)).all()
        or (before["slopes"] < 0.0).any()
    ):
        raise InvalidFile("what was known before the trial contradicts itself")
    means = state.totals.means._replace(**found["means"])
    return state._replace(
        totals=state.totals._replace(**found["totals"], means=means),
        trial=state.trial._replace(**found["trial"]),
        before=state.before._replace(**before),
        exploring=state.exploring._replace(**found["exploring"]),
    )


def certificate_arrays(issued: tuple[Certified, ...], shape: tuple[int, ...]) -> dict[str, NDArray]:
    """What was certified, of policies with this shape."""
    policies = [each.policy for each in issued]
    about = [{"episode": c.episode, "certificate": c.certificate.as_dict()} for c in issued]
    return {
        "certified.policies": np.reshape(policies, (len(policies), *shape)).astype(float),
        "certified.about": np.frombuffer(json.dumps(about).encode(), np.uint8).copy(),
    }


def read_certificates(f: Interface, arrays: dict[str, NDArray]) -> tuple[Certified, ...]:
    """What `certificate_arrays` made."""
    policies = arrays["certified.policies"]
    about = json.loads(arrays["certified.about"].tobytes())
    if policies.dtype != np.float64 or policies.shape != (len(about), f.H, f.S, f.A):
        raise InvalidFile("its certified policies have another shape or type than the learner's")
    return tuple(
        Certified(
            as_policy(policy, (f.H, f.S, f.A), f.mask),
            Certificate.from_dict(said["certificate"]),
            int(said["episode"]),
        )
        for policy, said in zip(policies, about, strict=True)
    )


def _records(state: PhaseState) -> dict[str, dict[str, NDArray]]:
    totals = {k: v for k, v in state.totals._asdict().items() if k != "means"}
    return {
        "totals": totals,
        "means": _kept(state.totals.means),
        "trial": _kept(state.trial),
        "before": _kept(state.before),
        "exploring": _kept(state.exploring),
    }


def _kept(record: Any) -> dict[str, NDArray]:
    """The arrays of a sequence but for its buffer."""
    return {k: v for k, v in record._asdict().items() if k != "terms"}


def _check_like(name: str, array: NDArray, like: NDArray, *, grows: bool) -> None:
    """Raise unless an array of a file has the shape and type of the learner's, and numbers that can be."""
    skip = int(grows)
    if (
        array.dtype != like.dtype
        or array.shape[skip:] != like.shape[skip:]
        or array.ndim != like.ndim
        or not np.isfinite(array).all()
        or (name.endswith(".product") and not (array > 0.0).all())
        or (array.dtype == np.int64 and (array < 0).any())
    ):
        raise InvalidFile(f"the array '{name}' is not one of this learner")


def _check_ring(totals: dict[str, NDArray]) -> None:
    """Raise unless a window's place lies within it."""
    capacity, (_, length, oldest) = len(totals["ring"]), totals["span"]
    if capacity and not (length <= capacity and oldest < capacity):
        raise InvalidFile("the window of the thresholds contradicts itself")
