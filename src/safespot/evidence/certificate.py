"""The certificate: what is known, with confidence, of a policy's safety, and what that rests on."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from ..arrays import Bool, Float, as_count, as_floats, frozen
from ..display import Displayed, intervals
from ..errors import InvalidFile
from ..files import checksum, read_arrays, write_arrays
from ..names import UNNAMED, Names, make_names
from ..plotting import interval_chart
from ..signals.terms import Terms

SUBJECTS = ("policy", "mixture", "practice")


@dataclass(frozen=True, eq=False, repr=False)
class Certificate(Displayed):
    """Bounds on the margin with which a policy keeps its limits, in the user's terms, and their basis.

    Verdicts derive from `difference_bounds` and are right, all at once, with probability `confidence`. So do all other
    bounds hold. Both ends of the differences together may have less, `difference_confidence`: a verdict needs one of
    them. A lower bound is never above its upper one. That is so under the assumptions: where the data themselves
    contradict one, `doubts` says so, and every verdict is "unknown". Where `SpotEpochs` knows the limits, its bounds of
    values are those of the differences in other words, and hold with `difference_confidence`.

    Examples:
        >>> import safespot as ss
        >>> problem = ss.problems.make("machine")
        >>> certificate = ss.certify(problem, policy=[[1, 0], [1, 0]], episodes=1000)
        >>> certificate.verdict
        ('safe',)
        >>> lower, upper = certificate.difference_bounds  # of the room that the limit is kept with
        >>> print(lower.round(2), upper.round(2))
        [0.07] [2.42]

    """

    difference_bounds: tuple[
        Float, Float
    ]  # (lower [m], upper [m]) of V_g - alpha; > 0: kept, whatever the sense
    value_bounds: tuple[Float, Float]  # (lower [m], upper [m]), expected sums over an episode
    threshold_bounds: tuple[Float, Float]  # (lower [m], upper [m])
    reward_bounds: tuple[float, float]  # infinite where no range of the reward is declared
    senses: tuple[str, ...]  # [m]
    confidence: float
    difference_confidence: float
    episodes: int  # that it rests on
    more: Float  # [m]: about how many more episodes would decide; 0: it is decided; inf: none would
    basis: str  # a sentence on what was done
    assumptions: tuple[str, ...]  # sentences
    subject: str  # what it is about: a "policy"; a "mixture" of policies, one drawn for every episode; a "practice"
    policy_digest: str  # of that policy; of all of a mixture
    data_digest: str  # of what was seen
    doubts: tuple[str, ...] = ()  # sentences: what was seen that contradicts an assumption
    names: Names = UNNAMED  # of the limits
    since: int | None = None  # of what was played: the number of the first episode that it rests on

    def __post_init__(self) -> None:
        if self.subject not in SUBJECTS:
            raise ValueError(f"subject {self.subject!r}")
        for array in (
            *self.difference_bounds, *self.value_bounds, *self.threshold_bounds, self.more
        ):  # fmt: skip
            frozen(array)

    @property
    def safe(self) -> Bool:
        """True ``[m]`` where a limit is proven to be kept."""
        return (self.shortfall <= 0.0) & (not self.doubts)

    @property
    def verdict(self) -> tuple[str, ...]:
        """The verdict ``[m]`` on each limit: "safe", "unsafe" or "unknown"."""
        broken = (self.difference_bounds[1] < 0.0) & (not self.doubts)
        return tuple(
            "safe" if good else "unsafe" if bad else "unknown"
            for good, bad in zip(self.safe, broken, strict=True)
        )

    @property
    def shortfall(self) -> Float:
        """The distance ``[m]`` of the bounds from "safe", in the constraint's units; at most 0 where they say it."""
        return frozen(-self.difference_bounds[0])

    def covers(self, policy: ArrayLike | str) -> bool:
        """Return whether it is of this policy ``[H,S,A]``, to the last bit, or of one that was tried by this name."""
        return self.subject == "policy" and self.policy_digest == policy_digest(policy)

    def as_dict(self) -> dict[str, Any]:
        """Return plain numbers, texts and lists, ready for JSON; an infinite number of episodes is None."""
        plain = {field.name: getattr(self, field.name) for field in fields(self)}
        for name in ("difference_bounds", "value_bounds", "threshold_bounds"):
            plain[name] = [end.tolist() for end in plain[name]]
        return {
            **plain,
            "reward_bounds": [end if math.isfinite(end) else None for end in self.reward_bounds],
            "senses": list(self.senses),
            "assumptions": list(self.assumptions),
            "doubts": list(self.doubts),
            "names": self.names.as_json,
            "more": [None if math.isinf(n) else int(n) for n in self.more],
            "verdict": list(self.verdict),
        }

    @classmethod
    def from_dict(cls, plain: Mapping[str, Any]) -> Certificate:
        """Return the certificate of which `as_dict` gave `plain`; raise `InvalidFile` where it contradicts itself."""
        try:
            made = cls(
                difference_bounds=_pair(plain["difference_bounds"]),
                value_bounds=_pair(plain["value_bounds"]),
                threshold_bounds=_pair(plain["threshold_bounds"]),
                reward_bounds=_ends(plain["reward_bounds"]),
                senses=_texts(plain["senses"]),
                confidence=_real(plain["confidence"]),
                difference_confidence=_real(plain["difference_confidence"]),
                episodes=as_count("episodes", plain["episodes"], least=0, error=InvalidFile),
                more=np.array([math.inf if n is None else _whole(n) for n in plain["more"]]),
                basis=_text(plain["basis"]),
                assumptions=_texts(plain["assumptions"]),
                subject=_text(plain["subject"]),
                policy_digest=_text(plain["policy_digest"]),
                data_digest=_text(plain["data_digest"]),
                doubts=_texts(plain["doubts"]),
                names=make_names((0, 0, len(plain["senses"])), **plain["names"]),
                since=None
                if plain["since"] is None
                else as_count("since", plain["since"], least=1, error=InvalidFile),
            )
            made._check()
            if made.names.as_json != plain["names"]:
                raise ValueError(f"names {plain['names']!r}")
            if list(made.verdict) != plain["verdict"]:
                raise ValueError(f"its bounds say {made.verdict}, its verdict {plain['verdict']}")
        except (KeyError, TypeError, ValueError, IndexError, OverflowError) as problem:
            raise InvalidFile(f"this is not a certificate: {problem!r}.") from None
        return made

    def _check(self) -> None:
        """Raise a ValueError where no certificate can say this."""
        m = len(self.senses)
        if not set(self.senses) <= {"<=", ">="}:
            raise ValueError(f"senses {self.senses}")
        if m == 0 or {
            len(self.more),
            *map(len, (*self.difference_bounds, *self.value_bounds, *self.threshold_bounds)),
        } != {m}:
            raise ValueError(f"not {m} values, thresholds and numbers of episodes")
        if not 0.0 < self.confidence < 1.0:
            raise ValueError(f"confidence {self.confidence}")
        if not 0.0 <= self.difference_confidence <= self.confidence:
            raise ValueError(f"difference_confidence {self.difference_confidence}")
        if not (self.more >= 0.0).all():
            raise ValueError(f"more {self.more.tolist()}")
        for name in ("policy_digest", "data_digest"):
            if not re.fullmatch("[0-9a-f]{64}", getattr(self, name)):
                raise ValueError(f"{name} {getattr(self, name)!r}")

    def save(self, path: str | Path) -> None:
        """Write to a file with a checksum."""
        write_arrays(path, "certificate", {}, self.as_dict())

    @classmethod
    def load(cls, path: str | Path) -> Certificate:
        """Read what `save` wrote; a damaged file is an `InvalidFile`."""
        _, about = read_arrays(path, "certificate")
        return cls.from_dict(about)

    def plot(self) -> Any:
        """Draw the bounds of each limit's margin as an Altair chart; right of 0 the limit is kept."""
        rows = [
            {
                "name": self.names.quantity(i), "verdict": self.verdict[i],
                "low": float(self.difference_bounds[0][i]), "high": float(self.difference_bounds[1][i]),
            }
            for i in range(len(self.senses))
        ]  # fmt: skip
        return interval_chart(rows, "room within the limit (below 0: broken)")

    def _facts(self) -> dict[str, Any]:
        verdicts = {
            self.names.quantity(i): f"{verdict}, room {_interval(*self._room(i))}"
            for i, verdict in enumerate(self.verdict)
        }
        return {**verdicts, "confidence": self.confidence, "episodes": self.episodes}

    def _chart(self) -> str:
        return intervals({self.names.quantity(i): self._room(i) for i in range(len(self.senses))})

    def _room(self, i: int) -> tuple[float, float]:
        low, high = (float(end[i]) for end in self.difference_bounds)
        return low, high

    def __str__(self) -> str:
        lines = [f"Certificate with confidence {self.confidence:.6g}. On average over an episode:"]
        lines += [f"  {self.names.limit(i)}: {self._judgement(i)}" for i in range(len(self.senses))]
        if math.isfinite(self.reward_bounds[0]):
            lines.append(f"  The reward lies {_interval(*self.reward_bounds)}.")
        lines += ["", self.basis, "", "It assumes that"]
        lines += [f"  - {assumption}" for assumption in self.assumptions]
        if self.doubts:
            lines += ["", "The data contradict that, so nothing is proven:"]
            lines += [f"  - {doubt}" for doubt in self.doubts]
        whose = f"{self.subject.capitalize()} {self.policy_digest[:16]}"
        lines += ["", f"{whose}, data {self.data_digest[:16]}."]
        return "\n".join(lines)

    def _judgement(self, i: int) -> str:
        value = _interval(*(float(end[i]) for end in self.value_bounds))
        limit = _interval(*(float(end[i]) for end in self.threshold_bounds))
        asked = "at most" if self.senses[i] == "<=" else "at least"
        verdict = self.verdict[i]
        room = _interval(*self._room(i))
        both = ""
        if self.difference_confidence < self.confidence:
            both = f" (both ends with confidence {self.difference_confidence:.6g})"
        text = (
            f"{verdict.upper()}. The room that it keeps its threshold with lies {room}{both}. Its value lies {value}; "
            f"it must be {asked} its threshold, which lies {limit}."
        )
        if verdict != "unknown":
            return text
        if self.doubts:
            return text + " The data contradict what the bounds assume; see below."
        text += f" It is short by {self.shortfall[i]:.4g} of being proven safe."
        if math.isinf(self.more[i]):
            return text + (
                " More episodes like these would not decide it: the policy goes where too little was "
                "seen, or its value is too close to the threshold."
            )
        return text + f" About {self.more[i]:,.0f} more episodes like these would decide it."


class Bounds(NamedTuple):
    """The bounds of a certificate, in the user's units."""

    difference: tuple[Float, Float]  # (lower [m], upper [m]) of the room that a limit is kept with
    value: tuple[Float, Float]
    threshold: tuple[Float, Float]
    reward: tuple[float, float]


def issue(
    terms: Terms,
    bounds: Bounds,
    delta: float,
    *,
    episodes: int,
    more: Float | None = None,
    difference_confidence: float | None = None,
    **facts: Any,
) -> Certificate:
    """Return the certificate of `bounds`, which hold with probability 1 - delta; nothing else makes one.

    Args:
        terms: of the episodes.
        bounds: what is proven.
        delta: what may be missed.
        episodes: that it rests on.
        more: ``[m]``: how many more would decide; by default as many as make a difference's bounds leave 0. It counts
            only where the verdict is open, and there it is at least 1.
        difference_confidence: that of both ends of the differences together; by default 1 - delta.
        **facts: the certificate's other fields: what it rests on and is about.

    """
    lower, upper = bounds.difference
    if more is None:
        more = more_episodes(np.abs(lower + upper) / 2.0, (upper - lower) / 2.0, episodes)
    joint = 1.0 - delta if difference_confidence is None else difference_confidence
    made = Certificate(
        difference_bounds=bounds.difference,
        value_bounds=bounds.value,
        threshold_bounds=bounds.threshold,
        reward_bounds=bounds.reward,
        senses=terms.senses,
        names=terms.names,
        confidence=1.0 - delta,
        difference_confidence=max(0.0, joint),
        episodes=episodes,
        more=more,
        **facts,
    )
    is_open = np.array(made.verdict) == "unknown"
    more = np.full(len(more), np.inf) if made.doubts else np.maximum(more, 1.0)
    return replace(made, more=np.where(is_open, more, 0.0))


def more_episodes(gap: Float, width: Float, episodes: int) -> Float:
    """Estimate how many more episodes make a width smaller than a gap, if it shrinks as 1 / sqrt(episodes)."""
    more = np.full(len(gap), np.inf)
    apart = gap > 1e-9 * width  # by more than rounding
    if episodes > 0:
        more[apart] = np.ceil(episodes * ((width[apart] / gap[apart]) ** 2 - 1.0))
    return more


UNKNOWN_POLICY = "f" * 64  # no policy has this digest: who played is not known


def policy_digest(policy: ArrayLike | str) -> str:
    """Return the digest of a policy, of an array ``[H,S,A]`` or of a name: another policy has another one.

    Examples:
        >>> import safespot as ss
        >>> ss.learners.policy_digest([[[1.0, 0.0]]])[:16]
        '891f9768fbcea5b5'

    """
    if isinstance(policy, str):
        return checksum({}, {"policy": policy})
    return checksum({"policy": as_floats("policy", policy, missing=True)}, {})


def _pair(value: Any) -> tuple[Float, Float]:
    low, high = (np.array([_real(x) for x in end]) for end in value)
    if low.shape != high.shape or not (low <= high).all():
        raise ValueError(f"bounds {value!r}")
    return low, high


def _ends(value: Any) -> tuple[float, float]:
    if list(value) == [None, None]:
        return -math.inf, math.inf
    low, high = (_real(end) for end in value)
    if low > high:
        raise ValueError(f"bounds {value!r}")
    return low, high


def _real(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
        raise ValueError(f"{value!r} where a number should be")
    if float(value) != value:  # a whole number of more digits than a float has
        raise ValueError(f"{value!r} has more digits than a certificate's numbers")
    return float(value)


def _whole(value: Any) -> float:
    if not _real(value).is_integer():
        raise ValueError(f"{value!r} where a number of episodes should be")
    return float(value)


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r} where a text should be")
    return value


def _texts(value: Any) -> tuple[str, ...]:
    if not isinstance(value, list):
        raise TypeError(f"{value!r} where a list of texts should be")
    return tuple(_text(each) for each in value)


def _interval(low: float, high: float) -> str:
    return f"at {low:.6g}" if low == high else f"in [{low:.6g}, {high:.6g}]"
