"""What a log says of its own interface, where its reader is not told: sizes, names, senses."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..errors import InvalidFile, InvalidOption, unknown
from ..evidence.interface import Interface
from .log_tables import LogTable, Names

ENTRIES = 10**8  # of [H,S,A], at most, where the sizes are guessed from the data


def with_endings(states: Names | None, absorbing: int) -> Names | None:
    """The names of the states of a log, with those of the absorbing ones that follow."""
    if states is None:
        return None
    return (*states, *(f"ended {k}" if absorbing > 1 else "ended" for k in range(absorbing)))


def limit_names_of(table: LogTable) -> Names | None:
    """What constraints are called where their columns have more than numbers."""
    return None if all(name.isdigit() for name in table.constraints) else table.constraints


def as_names(what: str, given: Any) -> Sequence[str] | None:
    """The names of states or actions, if names are given."""
    if given is None or not isinstance(given, Sequence):
        return None
    if (
        isinstance(given, str)
        or not all(isinstance(name, str) for name in given)
        or len(set(given)) < len(given)
    ):
        raise InvalidOption(
            f"{what} must be a number, or a list of different names; got {given!r}."
        )
    return given


def number_of(what: str, value: Any, names: Names | None) -> Any:
    """The number of a state that is given by its name; anything else as it is."""
    if not isinstance(value, str):
        return value
    if value not in (names or ()):
        raise InvalidOption(f"{what}: {unknown('state', value, names or ())}")
    return (names or ()).index(value)


def numbered_endings(endings: Any, names: Names | None) -> Any:
    """Endings by the numbers of their states, where they are given by names."""
    if not isinstance(endings, Mapping):
        return endings
    return {number_of("endings", state, names): ending for state, ending in endings.items()}


def senses_of(table: LogTable, senses: Any) -> Any:
    """What is given; by default a cost may be at most its limit, and all else must be at least."""
    if senses is not None or not any(table.costs):
        return ">=" if senses is None else senses
    return tuple("<=" if cost else ">=" for cost in table.costs)


def check_costs(table: LogTable, f: Interface) -> None:
    """A cost that must be at least its limit is a mistake."""
    for i, (cost, sense) in enumerate(zip(table.costs, f.units.senses, strict=True)):
        if cost and sense == ">=":
            raise InvalidOption(
                f"the column {table.labels[f'constraint_{i}']!r} is a cost, which may be at most its limit, and senses "
                'says ">=" of it. Leave senses out, or read the column as constraint_… (columns=).'
            )


def check_sizes(given: dict[str, Any], name: str) -> None:
    """One wild number in a log must not ask for all memory."""
    sizes = {key: given[key] for key in ("states", "actions", "horizon")}
    if all(isinstance(n, int) for n in sizes.values()) and math.prod(sizes.values()) > ENTRIES:
        raise InvalidFile(
            f"{name} needs tables of {sizes}, if its largest numbers are to be believed. Give states=, actions= "
            "and horizon=: episodes with larger numbers are then left out."
        )


def size_of(table: LogTable, *names: str) -> int:
    """One more than the largest whole number in some columns."""
    values = np.concatenate([table.columns[name] for name in names])
    whole = values[np.isfinite(values) & (values == np.floor(values))]
    return int(max(whole.max(initial=0.0), 0.0)) + 1
