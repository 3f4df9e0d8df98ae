"""The certificate: what is known, with confidence, of a policy's safety, and what that rests on."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ..arrays import Bool, Float, Policy, frozen
from ..errors import InvalidFile
from ..files import checksum, read_arrays, write_arrays


@dataclass(frozen=True, eq=False)
class Certificate:
    """Bounds of a policy's values and of their thresholds, in the user's terms, and what they rest on.

    All bounds hold at once with probability `confidence`; a lower one is never above its upper one.
    """

    value_bounds: tuple[Float, Float]  # (lower [m], upper [m]), expected sums over an episode
    threshold_bounds: tuple[Float, Float]  # (lower [m], upper [m])
    reward_bounds: tuple[float, float]
    senses: tuple[str, ...]  # [m]
    confidence: float
    episodes: int  # that it rests on
    more: Float  # [m]: about how many more episodes would decide; 0: it is decided; inf: none would
    basis: str  # a sentence on what was done
    assumptions: tuple[str, ...]  # sentences
    policy_digest: str
    data_digest: str  # of what was seen
    difference_bounds: tuple[Float, Float] | None = (
        None  # of V_g - alpha, > 0: kept, where it was seen itself
    )

    def __post_init__(self) -> None:
        seen = () if self.difference_bounds is None else self.difference_bounds
        for array in (*self.value_bounds, *self.threshold_bounds, *seen, self.more):
            frozen(array)

    @property
    def safe(self) -> Bool:
        """``[m]``: whether the limit is kept, beyond the doubt that `confidence` leaves."""
        return self.shortfall <= 0.0

    @property
    def verdict(self) -> tuple[str, ...]:
        """``[m]``: "safe", "unsafe" or "unknown"."""
        (low, high), (least, most) = self.value_bounds, self.threshold_bounds
        unsafe = np.where(self._costs, low > most, high < least)
        if self.difference_bounds is not None:
            unsafe = self.difference_bounds[1] < 0.0
        return tuple(
            "safe" if good else "unsafe" if bad else "unknown"
            for good, bad in zip(self.safe, unsafe, strict=True)
        )

    @property
    def shortfall(self) -> Float:
        """``[m]``: by how much the bounds fail to say "safe", in the constraint's units; at most 0: by nothing."""
        (low, high), (least, most) = self.value_bounds, self.threshold_bounds
        if self.difference_bounds is not None:
            return frozen(-self.difference_bounds[0])
        return frozen(np.where(self._costs, high - least, most - low))

    @property
    def _costs(self) -> Bool:
        return np.array([sense == "<=" for sense in self.senses])

    def covers(self, policy: ArrayLike) -> bool:
        """Whether it speaks of this policy ``[H,S,A]``, to the last bit."""
        return self.policy_digest == policy_digest(np.asarray(policy, np.float64))

    def matches(self, learner: Any) -> bool:
        """Whether the learner still stands where it stood when it was certified."""
        return self.data_digest == data_digest(learner)

    def as_dict(self) -> dict[str, Any]:
        """Plain numbers, texts and lists, ready for JSON; an infinite number of episodes is None."""
        plain = {field.name: getattr(self, field.name) for field in fields(self)}
        for name in ("value_bounds", "threshold_bounds"):
            plain[name] = [end.tolist() for end in plain[name]]
        if self.difference_bounds is None:
            del plain["difference_bounds"]
        else:
            plain["difference_bounds"] = [end.tolist() for end in self.difference_bounds]
        return {
            **plain,
            "reward_bounds": list(self.reward_bounds),
            "senses": list(self.senses),
            "assumptions": list(self.assumptions),
            "more": [None if math.isinf(n) else int(n) for n in self.more],
            "verdict": list(self.verdict),
        }

    @classmethod
    def from_dict(cls, plain: Mapping[str, Any]) -> Certificate:
        """The certificate of which `as_dict` gave `plain`; `InvalidFile` where it contradicts itself."""
        try:
            made = cls(
                value_bounds=_pair(plain["value_bounds"]),
                threshold_bounds=_pair(plain["threshold_bounds"]),
                reward_bounds=(float(plain["reward_bounds"][0]), float(plain["reward_bounds"][1])),
                senses=tuple(plain["senses"]),
                confidence=float(plain["confidence"]),
                episodes=int(plain["episodes"]),
                more=np.array([math.inf if n is None else float(n) for n in plain["more"]]),
                basis=str(plain["basis"]),
                assumptions=tuple(plain["assumptions"]),
                policy_digest=str(plain["policy_digest"]),
                data_digest=str(plain["data_digest"]),
                difference_bounds=_pair(plain["difference_bounds"])
                if "difference_bounds" in plain
                else None,
            )
            if list(made.verdict) != plain["verdict"]:
                raise ValueError(f"its bounds say {made.verdict}, its verdict {plain['verdict']}")
        except (KeyError, TypeError, ValueError, IndexError) as problem:
            raise InvalidFile(f"this is not a certificate: {problem!r}.") from None
        return made

    def save(self, path: str | Path) -> None:
        """Write to a file with a checksum."""
        write_arrays(path, "certificate", {}, self.as_dict())

    @classmethod
    def load(cls, path: str | Path) -> Certificate:
        """Read what `save` wrote; a damaged file is an `InvalidFile`."""
        _, about = read_arrays(path, "certificate")
        return cls.from_dict(about)

    def __str__(self) -> str:
        lines = [f"Certificate with confidence {self.confidence:.6g}. On average over an episode:"]
        lines += [f"  constraint {i}: {self._judgement(i)}" for i in range(len(self.senses))]
        lines.append(f"  The reward lies {_interval(*self.reward_bounds)}.")
        lines += ["", self.basis, "", "It assumes that"]
        lines += [f"  - {assumption}" for assumption in self.assumptions]
        lines += ["", f"Policy {self.policy_digest[:16]}, data {self.data_digest[:16]}."]
        return "\n".join(lines)

    def _judgement(self, i: int) -> str:
        value = _interval(*(float(end[i]) for end in self.value_bounds))
        limit = _interval(*(float(end[i]) for end in self.threshold_bounds))
        asked = "at most" if self.senses[i] == "<=" else "at least"
        verdict = self.verdict[i]
        text = (
            f"{verdict.upper()}. Its value lies {value}; it must be {asked} its threshold, which lies "
            f"{limit}."
        )
        if verdict != "unknown":
            return text
        text += f" It is short by {self.shortfall[i]:.4g} of being proven safe."
        if math.isinf(self.more[i]):
            return text + (
                " More episodes like these would not decide it: the policy goes where too little was "
                "seen, or its value is too close to the threshold."
            )
        return text + f" About {self.more[i]:,.0f} more episodes like these would decide it."


def issue(*, more: Float, **known: Any) -> Certificate:
    """A certificate in which `more` counts only where the verdict is open; there it is at least 1."""
    made = Certificate(more=more, **known)
    is_open = np.array(made.verdict) == "unknown"
    return replace(made, more=np.where(is_open, np.maximum(more, 1.0), 0.0))


def more_episodes(gap: Float, width: Float, episodes: int) -> Float:
    """About how many more episodes make a width smaller than a gap, if it shrinks as 1 / sqrt(episodes)."""
    more = np.full(len(gap), np.inf)
    apart = gap > 1e-9 * width  # by more than rounding
    if episodes > 0:
        more[apart] = np.ceil(episodes * ((width[apart] / gap[apart]) ** 2 - 1.0))
    return more


def policy_digest(policy: Policy) -> str:
    """Names a policy: another one has another digest."""
    return checksum({"policy": policy}, {})


def data_digest(learner: Any) -> str:
    """Names what a certificate of this learner rests on: its data, T and delta."""
    seen = {k: v for k, v in learner.arrays().items() if k not in ("logits", "lam")}
    options = learner.options
    return checksum(seen, {k: getattr(options, k) for k in ("episodes", "delta", "thresholds")})


def _pair(value: Any) -> tuple[Float, Float]:
    low, high = (np.array(end, np.float64) for end in value)
    if low.ndim != 1 or low.shape != high.shape or not (low <= high).all():
        raise ValueError(f"bounds {value!r}")
    return low, high


def _interval(low: float, high: float) -> str:
    return f"at {low:.6g}" if low == high else f"in [{low:.6g}, {high:.6g}]"
