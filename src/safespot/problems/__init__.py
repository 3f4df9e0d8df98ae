"""Ready problems, one file each; every one is a `Problem` (a CMDP and how it is observed)."""

from __future__ import annotations

import importlib
import inspect
from types import ModuleType
from typing import Any

from ..errors import InvalidOption, UnknownName, unknown
from ..model.problem import Problem

# A hyphen in a name is an underscore in its module's.
_NAMES = (
    "bandit",
    "deep-sea",
    "dosing",
    "factored",
    "frozen-lake",
    "grid",
    "icu-sepsis",
    "inventory",
    "machine",
    "maze",
    "media",
    "queue",
    "random",
    "river-swim",
    "taxi",
    "triage",
)


def names() -> list[str]:
    """The names that `make` takes."""
    return sorted(_NAMES)


def describe(name: str) -> str:
    """What a problem is about, in one line."""
    return (_module(name).__doc__ or "").partition("\n")[0]


def story(name: str) -> str:
    """All that a problem's file tells a newcomer."""
    return inspect.getdoc(_module(name)) or ""


def make(name: str, /, **options: Any) -> Problem:
    """The problem of that name; its options are the arguments of ``problems.<name>.make``."""
    build = _module(name).make
    takes = inspect.signature(build).parameters
    for option in options:
        if option not in takes:
            raise InvalidOption(f"problem {name!r}: {unknown('option', option, takes)}")
    made: Problem = build(**options)
    return made


def _module(name: str) -> ModuleType:
    if not isinstance(name, str) or name not in _NAMES:
        raise UnknownName(unknown("problem", name, names()))
    return importlib.import_module(f".{name.replace('-', '_')}", __name__)
