"""Certificates in files of `SpotEpochs`, and checks of the state beside them."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..arrays import Int, as_policy
from ..errors import InvalidFile
from ..evidence.certificate import Certificate
from ..evidence.trial import ISSUED
from ..signals.interface import Interface
from . import phases
from .epoch_trials import Certified
from .policies import is_policy
from .threshold_totals import TotalRates, bounds_fit


def check_phases(fields: dict[str, Any], f: Interface, totals: TotalRates, visits: Int) -> None:
    """Raise unless fields of a `PhaseState` can be those after `visits` of pairs."""
    clock, finished, prior = fields["clock"], int(fields["finished"][0]), fields["prior"]
    if not is_policy(f, fields["pi"]):
        raise InvalidFile("pi is no policy")
    if not bounds_fit(totals, f.H, fields["lower"], fields["upper"]):
        raise InvalidFile("the bounds of the thresholds lie outside what was declared")
    if not (fields["planned"] <= visits).all():
        raise InvalidFile("more visits were planned with than were counted")
    if not (
        # Every phase but the first begins after an episode of its own.
        1 <= clock[phases.PHASE] <= finished + 1
        and clock[phases.PART] <= phases.RETREATED
        and clock[phases.VERDICT] <= ISSUED
        and (clock[[phases.BEGAN, phases.TRIED, phases.LOGGED]] <= finished).all()
    ):
        raise InvalidFile(f"the clock of its phases contradicts its {finished} episodes")
    if (prior.weight < 0.0).any() or (prior.weight > 1.0).any() or (prior.slopes < 0.0).any():
        raise InvalidFile("what was known before the trial contradicts itself")
    capacity, (_, length, oldest) = len(fields["totals"].ring), fields["totals"].span
    if capacity and not (length <= capacity and oldest < capacity):
        raise InvalidFile("the window of the thresholds contradicts itself")


def certificate_arrays(issued: tuple[Certified, ...], shape: tuple[int, ...]) -> dict[str, NDArray]:
    """Return the certificates as arrays, with their policies of this shape."""
    policies = [each.policy for each in issued]
    about = [{"episode": c.episode, "certificate": c.certificate.as_dict()} for c in issued]
    return {
        "certified.policies": np.reshape(policies, (len(policies), *shape)).astype(float),
        "certified.about": np.frombuffer(json.dumps(about).encode(), np.uint8).copy(),
    }


def read_certificates(f: Interface, arrays: dict[str, NDArray]) -> tuple[Certified, ...]:
    """Return the certificates in arrays of `certificate_arrays`."""
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
