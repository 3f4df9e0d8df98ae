"""Policies that learners are given: to begin with, to fall back on, or as what played an episode."""

from __future__ import annotations

import re
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from ..arrays import SUM_TOLERANCE, Float, InsideEpisode, Policy, as_policy
from ..errors import InvalidModel, InvalidOption
from ..evidence.certificate import policy_digest
from ..signals.interface import Interface


class Checked(NamedTuple):
    """An episode that may be counted, and who played it; `policy` and `digest` None: the learner's own policy."""

    inside: InsideEpisode
    policy: Policy | None = None  # where it was given
    digest: str | None = None


def uniform_policy(f: Interface) -> Policy:
    """Return the policy ``[H,S,A]`` that takes all admissible actions alike."""
    uniform: Policy = f.mask / f.mask.sum(axis=2, keepdims=True)
    return uniform


def given_policy(f: Interface, name: str, policy: ArrayLike) -> Policy:
    """Return a policy that a user gave as the argument `name`, checked."""
    try:
        return np.array(as_policy(policy, (f.H, f.S, f.A), f.mask))
    except InvalidModel as exc:
        raise InvalidOption(f"{name}: {exc}") from None


def identify(f: Interface, played: ArrayLike | str | None) -> tuple[Policy | None, str | None]:
    """Return the policy that played an episode, where it is given, and its digest; None for both: the learner's own."""
    if played is None:
        return None, None
    if isinstance(played, str):
        if not re.fullmatch("[0-9a-f]{64}", played):
            raise InvalidOption(
                f"played must be a policy [H,S,A] or its digest (policy_digest), got {played!r}."
            )
        return None, played
    policy = given_policy(f, "played", played)
    return policy, policy_digest(policy)


def is_policy(f: Interface, pi: Float) -> bool:
    """Return whether an array of a file is a policy."""
    return bool(
        (pi >= 0.0).all()
        and (np.abs(pi.sum(axis=2) - 1.0) <= SUM_TOLERANCE).all()
        and (pi[~f.mask] == 0.0).all()
    )
