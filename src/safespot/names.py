"""Names of states, actions and limits, and units, for everything that people read.

Nothing is computed with them. The description of a problem, a table, a log or an environment may have them, they travel
with its interface, and a learner hands them on to its certificates, runs and policies.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from .arrays import Error
from .display import Displayed
from .errors import InvalidModel, unknown

UNITS = ("reward", "constraints")


@dataclass(frozen=True)
class Names(Displayed):
    """Names of states, actions and limits, and units of rewards and limits; None: by number.

    Examples:
        >>> import safespot as ss
        >>> names = ss.problems.make("dosing").names
        >>> names.action(3), names.limit(0), names.unit(0)
        ('dose 3/4', 'dose', 'full doses a course')
        >>> names.quantity(0)
        'dose (full doses a course)'
        >>> ss.problems.make("random").names.action(3)
        'action 3'

    """

    states: tuple[str, ...] | None = None  # [S]
    actions: tuple[str, ...] | None = None  # [A]
    limits: tuple[str, ...] | None = None  # [m]
    reward_unit: str = ""  # of an episode's sum
    limit_units: tuple[str, ...] | None = None  # [m]: of an episode's sums

    def state(self, s: int) -> str:
        """Return the name of state s, or 'state s'."""
        return f"state {s}" if self.states is None else self.states[s]

    def action(self, a: int) -> str:
        """Return the name of action a, or 'action a'."""
        return f"action {a}" if self.actions is None else self.actions[a]

    def limit(self, i: int) -> str:
        """Return the name of constraint i, or 'constraint i'."""
        return f"constraint {i}" if self.limits is None else self.limits[i]

    def unit(self, i: int) -> str:
        """Return the unit of constraint i's sum over an episode; '' if none is declared."""
        return "" if self.limit_units is None else self.limit_units[i]

    def quantity(self, i: int) -> str:
        """Return the name of constraint i with its unit, as an axis or a column of a table has it."""
        return _with_unit(self.limit(i), self.unit(i))

    @property
    def reward(self) -> str:
        """The reward with its unit."""
        return _with_unit("reward", self.reward_unit)

    @property
    def of_limits(self) -> Names:
        """The names of limits and units alone, which a certificate has."""
        return replace(self, states=None, actions=None)

    @property
    def arguments(self) -> dict[str, Any]:
        """The arguments of `make_names`, as an interface has them; JSON can hold them."""
        pairs = (("reward", self.reward_unit), ("constraints", self.limit_units))
        units = {key: value for key, value in pairs if value}
        return {
            "state_names": self.states,
            "action_names": self.actions,
            "limit_names": self.limits,
            "units": units or None,
        }

    @property
    def as_json(self) -> dict[str, Any]:
        """The arguments as they come back from JSON: lists in place of tuples."""
        plain: dict[str, Any] = json.loads(json.dumps(self.arguments))
        return plain


UNNAMED = Names()


def make_names(
    sizes: tuple[int, int, int],
    state_names: Iterable[str] | None = None,
    action_names: Iterable[str] | None = None,
    limit_names: Iterable[str] | None = None,
    units: Mapping[str, Any] | None = None,
    *,
    error: Error = InvalidModel,
) -> Names:
    """Check names and units against the `sizes` S, A and m."""
    S, A, m = sizes
    declared = {} if units is None else units
    if not isinstance(declared, Mapping):
        raise error(
            "units must be a dict: {'reward': 'blocks of full health', 'constraints': ['full doses']}; "
            f"got {units!r}."
        )
    for key in declared:
        if key not in UNITS:
            raise error(f"units: {unknown('key', key, UNITS)}")
    reward = declared.get("reward", "")
    if not isinstance(reward, str):
        raise error(f"the unit of the reward must be a text, got {reward!r}.")
    return Names(
        states=_texts("state_names", state_names, S, error),
        actions=_texts("action_names", action_names, A, error),
        limits=_texts("limit_names", limit_names, m, error),
        reward_unit=str(reward),
        limit_units=_texts(
            "units of constraints", declared.get("constraints"), m, error, distinct=False
        ),
    )


def _texts(
    name: str, value: Any, count: int, error: Error, *, distinct: bool = True
) -> tuple[str, ...] | None:
    """Check that there is one text for each of `count`, all different where `distinct`; None stays None."""
    if value is None:
        return None
    listed = isinstance(value, Iterable) and not isinstance(value, str | Mapping)
    each = tuple(value) if listed else (None,)
    if not all(isinstance(text, str) and (text.strip() or not distinct) for text in each):
        raise error(f"{name} must be texts, one for each of {count}; got {value!r}.")
    if len(each) != count:
        raise error(f"{name} has {len(each)} texts; expected one for each of {count}.")
    if distinct and len(set(each)) < count:
        twice = next(text for text in each if each.count(text) > 1)
        raise error(f"{name} has {twice!r} twice; expected different names.")
    return tuple(str(text) for text in each)


def _with_unit(name: str, unit: str) -> str:
    return f"{name} ({unit})" if unit else name
