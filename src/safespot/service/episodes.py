"""Open episodes: what each knows so far, and which requests it takes.

A request is checked, written down as an event, and applied; what a service was told before it was opened is applied
from the ledger in the same way. Every request may be repeated: the same again is answered as before, and something
else in its place is refused. Nothing that was refused has changed anything.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any, NamedTuple

import numpy as np

from ..arrays import Episode, Float, Policy
from ..signals.interface import Interface
from ..units import ROUNDING
from .ledger import Event
from .names import Names, as_number
from .refused import Refused

OPEN, ENDED, EXPIRED, VOID = "open", "ended", "expired", "void"


class Outcome(NamedTuple):
    """What a step brought."""

    reward: float
    constraints: list[float]
    thresholds: list[float] | None  # None: no sample


@dataclass(slots=True)
class OpenEpisode:
    """An episode that is not in the journal yet."""

    id: str
    version: int  # how many episodes its policy has learned from
    digest: str  # of its policy, which stays the same for all of its steps
    at: float  # when it was last heard of
    policy: Policy | None = None  # [H, S, A]; None: not found again yet
    status: str = OPEN
    states: list[int] = field(default_factory=list)
    actions: list[int] = field(default_factory=list)
    outcomes: dict[int, Outcome] = field(default_factory=dict)
    final: int | None = None
    lines: list[bytes] = field(default_factory=list)  # of the ledger, for its next file
    heard: float = 0.0  # `at`, in the service's uptime
    observed: Episode | None = None  # what the learner observes, once it has ended

    def apply(self, event: Event, line: bytes) -> None:
        """What an event changes."""
        self.at, self.heard = event["at"], event["uptime"]
        self.lines.append(line)
        match event["what"]:
            case "decide":
                self.states.append(event["state"])
                self.actions.append(event["action"])
            case "outcome":
                self.outcomes[event["step"]] = Outcome(
                    event["reward"], event["constraints"], event["thresholds"]
                )
            case "end":
                self.status, self.final = ENDED, event["state"]
            case "expire":
                # Where nothing was decided, nothing was played.
                self.status = EXPIRED if self.states else VOID


def started(event: Event, line: bytes) -> OpenEpisode:
    """Return the episode that an event began."""
    return OpenEpisode(
        event["episode"], event["version"], event["policy"], event["at"], lines=[line],
        heard=event["uptime"],
    )  # fmt: skip


class Rules:
    """What a learner's interface allows, for requests as they come."""

    def __init__(self, known: Interface, names: Names) -> None:
        self.known, self.names = known, names
        ranges = (known.units.reward_range, *known.units.constraint_ranges)
        self._ranges = [(low, high, ROUNDING * (high - low)) for low, high in ranges]

    def decision(
        self, episode: OpenEpisode, body: Mapping[str, Any], u: float
    ) -> tuple[int, int, int, bool]:
        """Step, state, action, and whether it is new; `u` is uniform in [0,1)."""
        step = self._step(body)
        state = self.names.state(body, self.known.S)
        done = len(episode.states)
        if step < done:
            if episode.states[step] != state:
                raise Refused(
                    409,
                    "contradiction",
                    f"step {step} was decided in state {episode.states[step]}, not {state}.",
                )
            return step, state, episode.actions[step], False
        check_open(episode)
        if step > done:
            raise Refused(409, "out-of-order", f"step {done} is to be decided next, not {step}.")
        if step == 0 and self.known.start not in (None, state):
            raise Refused(
                422, "invalid", f"episodes begin in state {self.known.start}, not {state}."
            )
        if episode.policy is None:
            raise Refused(410, "expired", "the policy of this episode is gone.")
        return step, state, draw(episode.policy[step, state], u), True

    def outcome(self, episode: OpenEpisode, body: Mapping[str, Any]) -> tuple[int, Outcome, bool]:
        """Step, what it brought, and whether that is new."""
        step, m = self._step(body), self.known.m
        if "reward" not in body or "constraints" not in body:
            raise Refused(422, "invalid", "an outcome has a reward and constraints.")
        hints = body.get("thresholds")
        found = Outcome(
            self._ranged("reward", as_number("reward", body["reward"]), 0),
            self._all_ranged(
                "constraints", self.names.signals("constraints", body["constraints"], m)
            ),
            None
            if hints is None
            else self._all_ranged("thresholds", self.names.signals("thresholds", hints, m)),
        )
        if step in episode.outcomes:
            if episode.outcomes[step] != found:
                raise Refused(
                    409, "contradiction", f"step {step} has another outcome already, which stays."
                )
            return step, found, False
        check_open(episode)
        if step >= len(episode.states):
            raise Refused(
                409,
                "out-of-order",
                f"step {step} was not decided yet: {len(episode.states)} is next.",
            )
        return step, found, True

    def end(self, episode: OpenEpisode, body: Mapping[str, Any]) -> tuple[int, bool]:
        """The state after the last step, and whether that is new."""
        state = self.names.state(body, self.known.S)
        if episode.status == ENDED:
            if episode.final != state:
                raise Refused(
                    409, "contradiction", f"it ended in state {episode.final}, not {state}."
                )
            return state, False
        check_open(episode)
        H = self.known.H
        if len(episode.states) < H:
            raise Refused(409, "missing", f"only {len(episode.states)} of {H} steps were decided.")
        missing = [step for step in range(H) if step not in episode.outcomes]
        if missing:
            shown = ", ".join(map(str, missing[:20]))
            raise Refused(409, "missing", f"the outcomes of these steps are missing: {shown}.")
        return state, True

    def _step(self, body: Mapping[str, Any]) -> int:
        step = body.get("step")
        if type(step) is not int or not 0 <= step < self.known.H:
            raise Refused(
                422, "invalid", f"step must be a whole number from 0 to {self.known.H - 1}."
            )
        return step

    def _ranged(self, name: str, value: float, k: int) -> float:
        low, high, rounding = self._ranges[k]
        if not low - rounding <= value <= high + rounding:
            raise Refused(
                422,
                "invalid",
                f"{name} is {value}, outside its declared range {low:g} to {high:g}.",
            )
        return min(max(value, low), high)  # rounding is forgiven and cut off

    def _all_ranged(self, name: str, values: list[float]) -> list[float]:
        return [self._ranged(f"{name}[{i}]", value, 1 + i) for i, value in enumerate(values)]

    def as_episode(self, known: OpenEpisode) -> Episode:
        """What the learner observes: of an expired episode, what is known of it."""
        H, m = self.known.H, self.known.m
        # Steps that were never decided name some admissible pair, and say nothing of it.
        states = known.states + [known.states[-1]] * (H - len(known.states))
        blank = range(len(known.actions), H)
        actions = known.actions + [int(self.known.mask[h, states[h]].argmax()) for h in blank]
        states.append(states[-1] if known.final is None else known.final)
        rewards, constraints = np.full(H, np.nan), np.full((H, m), np.nan)
        thresholds = np.full((H, m), np.nan)
        for step, found in known.outcomes.items():
            # Without the state after it, a step teaches nothing of the process.
            if step + 1 < len(known.states) or known.final is not None:
                rewards[step] = found.reward
            constraints[step] = found.constraints
            if found.thresholds is not None:
                thresholds[step] = found.thresholds
        return Episode(
            np.array(states), np.array(actions), rewards, constraints, thresholds,
            unfinished=known.final is None,
        )  # fmt: skip

    def chances(self, known: OpenEpisode, episode: Episode) -> Float:
        """``[H]``: the probabilities of the actions."""
        H = self.known.H
        if known.policy is None:
            return np.full(H, np.nan)
        taken: Float = known.policy[np.arange(H), episode.states[:-1], episode.actions]
        return taken


def check_open(episode: OpenEpisode) -> None:
    """Raise where an episode takes no more; of one that has ended nothing is missing."""
    if episode.status != OPEN:
        raise Refused(410, "expired", "this episode has expired; it counts at its worst.")


def draw(row: Float, u: float) -> int:
    """An action of a policy's row, as `Learner.act` draws it."""
    chances = row.tolist()
    last = 0
    for action, total in enumerate(accumulate(chances)):
        if chances[action] > 0.0:
            last = action
            if u < total:
                return action
    return last
