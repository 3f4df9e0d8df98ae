"""Certificates: what is known, with confidence, of a policy's safety.

With the radii of the theorems (scale 1), ``phi`` of a pair bounds the error of its signals and of its transitions at
once. Backward from the last step,

    lower_h(s,a) = max( g_hat - phi + p_hat lower_{h+1}, 0 ),
    upper_h(s,a) = min( g_hat + phi + p_hat upper_{h+1}, remaining ),

enclose the value of any Markov policy, chosen from the same data or not, because the bound on the transitions holds
for every value function at once. A pair without data has the bounds 0 and `remaining`.

In terms of gaps to the cap, the upper bound is the recursion of truncated evaluation (`planning`) on
``1 - g_hat - phi``; the lower bound is the same recursion on ``g_hat - phi``. One evaluation does both.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from .arrays import Bool, Float, Policy, as_policy, frozen
from .compilation import kernel
from .errors import InvalidFile, InvalidOption
from .estimators import Statistics
from .files import checksum, read_arrays, write_arrays
from .learners.spot import Spot
from .optimism import Radii, pair_bonus, threshold_bounds, transition_radius
from .planning import evaluate_policy

LEAST = math.log(20.0)  # ln(SAHT/delta) from which the radii are proven (D3)


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

    def __post_init__(self) -> None:
        for array in (*self.value_bounds, *self.threshold_bounds, self.more):
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
        return tuple(
            "safe" if good else "unsafe" if bad else "unknown"
            for good, bad in zip(self.safe, unsafe, strict=True)
        )

    @property
    def shortfall(self) -> Float:
        """``[m]``: by how much the bounds fail to say "safe", in the constraint's units; at most 0: by nothing."""
        (low, high), (least, most) = self.value_bounds, self.threshold_bounds
        return frozen(np.where(self._costs, high - least, most - low))

    @property
    def _costs(self) -> Bool:
        return np.array([sense == "<=" for sense in self.senses])

    def covers(self, policy: ArrayLike) -> bool:
        """Whether it speaks of this policy ``[H,S,A]``, to the last bit."""
        return self.policy_digest == policy_digest(np.asarray(policy, np.float64))

    def matches(self, learner: Spot) -> bool:
        """Whether the learner still stands where it stood when it was certified."""
        return self.data_digest == data_digest(learner)

    def as_dict(self) -> dict[str, Any]:
        """Plain numbers, texts and lists, ready for JSON; an infinite number of episodes is None."""
        plain = {field.name: getattr(self, field.name) for field in fields(self)}
        for name in ("value_bounds", "threshold_bounds"):
            plain[name] = [end.tolist() for end in plain[name]]
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
        text += f" To be safe beyond doubt, {self.shortfall[i]:.4g} is missing."
        if math.isinf(self.more[i]):
            return text + (
                " More episodes like these would not decide it: the policy goes where too little was "
                "seen, or its value is too close to the threshold."
            )
        return text + f" About {self.more[i]:,.0f} more episodes like these would decide it."


class Evidence(NamedTuple):
    """What a learner's data say, in inside units, and how far they can be from the truth."""

    means: Float  # [1+m, H, S*A]: reward, then constraints; 0 where nothing was seen
    phi: Float  # [H, S*A]: the error of a pair; infinite where too little was seen
    weight: Float  # [H, S*A]: 1 / n; 0 where nothing was seen
    start: Float  # [S]: the start distribution, as far as it is known
    phi_0: float  # the error of the start; 0 where it is known
    lower: Float  # [m]: of the thresholds
    upper: Float  # [m]


def certify(learner: Spot, policy: ArrayLike | None = None) -> Certificate:
    """What the learner's data say about the safety of `policy` ``[H,S,A]``; None: of its policy for the coming episode.

    It holds for every Markov policy at once, however it was found, at every moment up to the learner's T. It uses the
    radii that are proven, never `bonus_scale` or `threshold_scale`.
    """
    evidence = gather(learner)
    f, finished = learner.interface, int(learner.state.finished[0])
    pi = learner.policy if policy is None else as_policy(policy, (f.H, f.S, f.A), f.mask)
    lower, upper, guess, spread = _evaluate(learner, evidence, pi)
    half = (evidence.upper - evidence.lower) / 2.0
    more = more_episodes(
        np.abs(guess[1:] - evidence.lower - half) - spread.dark, spread.radii + half, finished
    )
    units, delta = f.units, learner.options.delta
    return issue(
        more=more,
        value_bounds=units.bounds(lower[1:], upper[1:], f.H),
        threshold_bounds=units.bounds(evidence.lower, evidence.upper, f.H),
        reward_bounds=tuple(
            float(units.reward.total_outside(end[0], f.H)) for end in (lower, upper)
        ),
        senses=units.senses,
        confidence=1.0 - delta,
        episodes=finished,
        basis=(
            f"It rests on the {finished:,} episodes that a learner has seen. The bounds hold for every policy at once, "
            "also for one chosen from these data, and so are wide; fresh episodes of this one policy decide sooner "
            "(certify_by_trial). Episodes beyond the learner's T need a learner with a larger one."
        ),
        assumptions=_assumptions(learner),
        policy_digest=policy_digest(pi),
        data_digest=data_digest(learner),
    )


def issue(*, more: Float, **known: Any) -> Certificate:
    """A certificate in which `more` counts only where the verdict is open; there it is at least 1."""
    made = Certificate(more=more, **known)
    is_open = np.array(made.verdict) == "unknown"
    return replace(made, more=np.where(is_open, np.maximum(more, 1.0), 0.0))


def gather(learner: Spot) -> Evidence:
    """The learner's data with the radii of the theorems."""
    if not isinstance(learner, Spot):
        raise InvalidOption(f"a learner is needed, got {type(learner).__name__}.")
    f, planned, finished = learner.interface, learner.options.episodes, learner.episode - 1
    if planned is not None and finished > planned:
        raise InvalidOption(
            f"the learner has seen {finished} episodes, more than its T = {planned}, for which alone its radii are "
            "proven. Let a learner with a larger T, or an anytime one, observe them; or use "
            "certify_by_trial."
        )
    radii, statistics = proven(learner.rates.radii), learner.statistics
    n = statistics.n
    phi = np.empty(n.shape)
    for h in range(f.H):
        # An error in a transition reaches as far as the values after it, which lie in [0, H - 1 - h].
        step_bonuses(radii._replace(H=float(f.H - 1 - h)), statistics, h, phi[h])
    start, phi_0 = np.zeros(f.S), 0.0
    if f.start is not None:
        start[f.start] = 1.0
    elif finished > 0:
        start, phi_0 = statistics.starts / finished, transition_radius(radii, float(finished))
    lower, upper = learner.state.lower.copy(), learner.state.upper.copy()
    if learner.options.thresholds is None:
        threshold_bounds(radii, learner.window, lower, upper)
    visits = np.maximum(n, 1)
    weight = np.where(n > 0, 1.0 / visits, 0.0)
    return Evidence(statistics.sums / visits, phi, weight, start, phi_0, lower, upper)


def proven(radii: Radii) -> Radii:
    """The radii for which the theorems are proven, whatever the learner plays with.

    Both bounds on the transitions have their own share of delta (D3), so the smaller one may be taken. Where a problem
    is so small that the proof of D3 does not reach it, the radii are those of a smaller delta.
    """
    lift = max(0.0, LEAST - radii.L_p)
    return radii._replace(
        L_r=radii.L_r + lift, L_p=radii.L_p + lift, L_b=radii.L_b + lift,
        bonus_scale=1.0, threshold_scale=1.0, bernstein=True, clip=True,
    )  # fmt: skip


@kernel
def step_bonuses(radii: Radii, statistics: Statistics, h: int, phi: Float) -> None:
    """The bonus of every pair of step h."""
    for pair in range(phi.shape[0]):
        phi[pair] = pair_bonus(radii, statistics, h, pair)


class _Spread(NamedTuple):
    """Why the bounds of a policy are apart."""

    radii: float  # the errors that it meets on its way, added up
    dark: float  # what may hide where too little was seen


def _evaluate(learner: Spot, evidence: Evidence, pi: Policy) -> tuple[Float, Float, Float, _Spread]:
    """Lower and upper bounds of a policy's values, their plain estimates, ``[1+m]`` each, and what lies between."""
    means, phi = evidence.means, evidence.phi
    components, H, _ = means.shape
    unseen = np.isinf(phi)
    remaining = np.arange(H, 0, -1.0)[:, None]
    lack = np.concatenate(
        [
            1.0 - means - phi,  # gaps of the upper bounds
            means - phi,  # the lower bounds themselves
            means,
            np.where(unseen, 0.0, phi)[None],
            np.where(unseen, remaining, 0.0)[None],
        ]
    )
    _, values = evaluate_policy(
        learner.statistics.successors, lack, evidence.weight, np.array(pi), np.zeros(len(lack) - 1)
    )
    at_start = ((H - values) * evidence.start).sum(axis=1)
    gap, low, guess, (radii, dark) = np.split(at_start, np.arange(1, 4) * components)
    # D5: the error of a learned start is one more step's.
    upper = H - (gap - evidence.phi_0).clip(0.0)
    lower = np.minimum((low - evidence.phi_0).clip(0.0), upper)  # rounding may not turn them round
    return lower, upper, guess, _Spread(float(radii) + evidence.phi_0, float(dark))


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


def data_digest(learner: Spot) -> str:
    """Names what a certificate of this learner rests on: its data, T and delta."""
    seen = {k: v for k, v in learner.arrays().items() if k not in ("logits", "lam")}
    options = learner.options
    return checksum(seen, {k: getattr(options, k) for k in ("episodes", "delta", "thresholds")})


def _assumptions(learner: Spot) -> tuple[str, ...]:
    options = learner.options
    planned = (
        f"the learner sees at most {options.episodes:,} episodes in all, those before a warm start included"
        if options.episodes is not None
        else "every episode that the learner has ever seen is counted, those before a warm start included"
    )
    limits = (
        "the thresholds do not change over the episodes, and whether a step shows a threshold sample does not depend "
        "on what the sample would be"
        if options.thresholds is None
        else "the thresholds are the ones that were given"
    )
    return (
        "the next state, the reward and the signals depend on the past only through step, state and action",
        "every signal lies in its declared range, and its mean does not change over the episodes",
        limits,
        planned,
        "the policy is played as it stands here, in the same process that was learned from",
    )


def _pair(value: Any) -> tuple[Float, Float]:
    low, high = (np.array(end, np.float64) for end in value)
    if low.ndim != 1 or low.shape != high.shape or not (low <= high).all():
        raise ValueError(f"bounds {value!r}")
    return low, high


def _interval(low: float, high: float) -> str:
    return f"at {low:.6g}" if low == high else f"in [{low:.6g}, {high:.6g}]"
