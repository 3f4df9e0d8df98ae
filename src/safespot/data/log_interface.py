"""The interface that a log implies where its reader is given none: sizes, names, senses."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..errors import InvalidFile, InvalidOption, unknown
from ..model.outcome_tables import names_with_endings
from ..signals.interface import Interface, with_limits
from ..signals.limits import Limits
from .log_tables import LogTable, Names

ENTRIES = 10**8  # of [H,S,A], at most, where the sizes are guessed from the data


def as_names(option: str, names: Any) -> Sequence[str] | None:
    """Return the names of states or actions, if names are given."""
    if names is None or not isinstance(names, Sequence):
        return None
    if (
        isinstance(names, str)
        or not all(isinstance(name, str) for name in names)
        or len(set(names)) < len(names)
    ):
        raise InvalidOption(
            f"{option} must be a number, or a list of different names; got {names!r}."
        )
    return names


def number_of(option: str, value: Any, names: Names | None) -> Any:
    """Return the number of a state that is given by its name; return anything else unchanged."""
    if not isinstance(value, str):
        return value
    if value not in (names or ()):
        raise InvalidOption(f"{option}: {unknown('state', value, names or ())}")
    return (names or ()).index(value)


def numbered_endings(endings: Any, names: Names | None) -> Any:
    """Return endings by the numbers of their states, where they are given by names."""
    if not isinstance(endings, Mapping):
        return endings
    return {number_of("endings", state, names): ending for state, ending in endings.items()}


def complete(
    interface: Mapping[str, Any], limits: Limits, table: LogTable, absorbing: int, name: str
) -> dict[str, Any]:
    """Return the interface of a log: what its reader declares, and for the rest what the log shows."""
    states, actions, horizon = (interface.get(key) for key in ("states", "actions", "horizon"))
    if isinstance(states, Sequence):
        states = len(states) + absorbing
    elif states is None:
        states = size_of(table, "state", "next_state") + absorbing
    if actions is None or isinstance(actions, Sequence):
        actions = size_of(table, "action") if actions is None else len(actions)
    m = len(table.constraints)
    full = {
        "constraints": m, "action_mask": None, "limit_names": None,
        "senses": tuple("<=" if cost else ">=" for cost in table.costs),
        "state_names": names_with_endings(table.states, len(table.states or ()), absorbing),
        "action_names": table.actions,
        **{key: value for key, value in interface.items() if value is not None},
        "states": states, "actions": actions,
        "horizon": size_of(table, "step") if horizon is None else horizon,
        "start": number_of("start", interface.get("start"), table.states),
    }  # fmt: skip
    if None in (interface.get("states"), interface.get("actions"), horizon):
        check_sizes(full, name)
    if full["constraints"] != m:
        raise InvalidFile(
            f"{name} has {m} constraint columns; the interface has {full['constraints']}."
        )
    full = with_limits(full, limits)
    if full["limit_names"] is None and not all(name.isdigit() for name in table.constraints):
        full["limit_names"] = table.constraints  # their columns have more than numbers
    return full


def check_costs(table: LogTable, f: Interface) -> None:
    """Raise for a column of costs with the sense ">="."""
    for i, (cost, sense) in enumerate(zip(table.costs, f.units.senses, strict=True)):
        if cost and sense == ">=":
            raise InvalidOption(
                f"the column {table.labels[f'constraint_{i}']!r} is a cost, which may be at most its limit, and senses "
                'says ">=" of it. Leave the sense out, or read the column as constraint_… (columns=).'
            )


def check_sizes(interface: dict[str, Any], name: str) -> None:
    """Raise where one wild number in a log would ask for all memory."""
    sizes = {key: interface[key] for key in ("states", "actions", "horizon")}
    if all(isinstance(n, int) for n in sizes.values()) and math.prod(sizes.values()) > ENTRIES:
        raise InvalidFile(
            f"{name} needs tables of {sizes}, if its largest numbers are to be believed. Give states=, actions= "
            "and horizon=: episodes with larger numbers are then left out."
        )


def size_of(table: LogTable, *names: str) -> int:
    """Return one more than the largest whole number in some columns."""
    values = np.concatenate([table.columns[name] for name in names])
    whole = values[np.isfinite(values) & (values == np.floor(values))]
    return int(max(whole.max(initial=0.0), 0.0)) + 1
