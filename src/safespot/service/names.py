"""States, actions and constraints by name: the file `service.toml` in the learner's folder, which may be absent.

    actions = ["none", "half", "full"]      # number 0, 1, 2
    constraints = ["dose"]
    states = ["well", "ill", "dead"]        # or, where states are cut from what is seen:

    [observation]                           # an entry's edges, as `gym.make_discretizer` takes them
    tumor = [0.2, 0.5, 1.0]                 # the last entry counts fastest
    drug = [0.25]

What has a name may be given by its name or its number. States beyond those of [observation] (absorbing ones) are
given by number.
"""

from __future__ import annotations

import math
import tomllib
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

from ..errors import InvalidFile
from ..signals.interface import Interface
from .refused import Refused

FILE = "service.toml"


@dataclass(frozen=True)
class Names:
    """What the numbers of a learner are called."""

    states: Mapping[str, int] = field(default_factory=dict)
    actions: Sequence[str] = ()
    constraints: Sequence[str] = ()
    observation: Mapping[str, Sequence[float]] = field(default_factory=dict)

    def state(self, body: Mapping[str, Any], S: int) -> int:
        """The number of the state that a request names, or whose observation it brings."""
        if ("state" in body) == ("observation" in body):
            raise Refused(
                422, "invalid", "give one of `state` (a number or a name) and `observation`."
            )
        if "observation" in body:
            return self._observed(body["observation"])
        given = body["state"]
        if isinstance(given, str) and given in self.states:
            return self.states[given]
        if type(given) is int and 0 <= given < S:
            return given
        named = f", or one of {', '.join(self.states)}" if self.states else ""
        raise Refused(422, "invalid", f"state must be a whole number from 0 to {S - 1}{named}.")

    def _observed(self, seen: Any) -> int:
        if not self.observation:
            raise Refused(
                422, "invalid", f"this service knows no observations; {FILE} declares them."
            )
        if not isinstance(seen, dict) or set(seen) != set(self.observation):
            raise Refused(
                422,
                "invalid",
                f"observation must have exactly the entries {', '.join(self.observation)}.",
            )
        number = 0
        for name, edges in self.observation.items():
            value = as_number(f"observation {name}", seen[name])
            number = number * (len(edges) + 1) + bisect_right(edges, value)
        return number

    def signals(self, name: str, given: Any, m: int) -> list[float]:
        """One number for each constraint, from a list or from an object by name."""
        if isinstance(given, dict) and self.constraints and set(given) == set(self.constraints):
            given = [given[each] for each in self.constraints]
        if not isinstance(given, list) or len(given) != m:
            named = f", or an object with {', '.join(self.constraints)}" if self.constraints else ""
            raise Refused(422, "invalid", f"{name} must be a list of {m} numbers{named}.")
        return [as_number(f"{name}[{i}]", value) for i, value in enumerate(given)]


def as_number(name: str, value: Any) -> float:
    """A finite number; JSON's true is none."""
    if type(value) not in (int, float) or not -1e300 <= value <= 1e300:
        raise Refused(422, "invalid", f"{name} must be a finite number.")
    return float(value)


def read_names(folder: Path, known: Interface) -> Names:
    """The names of a folder's learner; none where it has no such file."""
    path = folder / FILE
    if not path.exists():
        return Names()
    try:
        given = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as problem:
        raise InvalidFile(f"cannot read {path}: {problem}.") from None
    for name in given:
        if name not in ("states", "actions", "constraints", "observation"):
            raise InvalidFile(
                f"{path} has an unknown entry {name!r}; expected states, actions, constraints or [observation]."
            )
    for name, count in (("states", known.S), ("actions", known.A), ("constraints", known.m)):
        each = given.get(name, [])
        right = isinstance(each, list) and all(isinstance(one, str) and one for one in each)
        if not right or len(set(each)) != len(each) or len(each) not in (0, count):
            raise InvalidFile(f"{path}: {name} must be {count} different names.")
    observation = given.get("observation", {})
    _check_edges(path, observation, known.S)
    return Names(
        {name: k for k, name in enumerate(given.get("states", []))},
        tuple(given.get("actions", [])),
        tuple(given.get("constraints", [])),
        {name: tuple(map(float, edges)) for name, edges in observation.items()},
    )


def _check_edges(path: Path, observation: Any, S: int) -> None:
    whole = isinstance(observation, dict) and all(
        isinstance(edges, list)
        and all(type(edge) in (int, float) and math.isfinite(edge) for edge in edges)
        and all(low < high for low, high in pairwise(edges))
        for edges in observation.values()
    )
    if not whole:
        raise InvalidFile(f"{path}: an entry of [observation] must be a list of ascending edges.")
    cells = math.prod(len(edges) + 1 for edges in observation.values())
    if observation and cells > S:
        raise InvalidFile(f"{path}: [observation] makes {cells} states; the learner has {S}.")
