"""Ready problems, one file each; every one is a `Problem` (a CMDP and how it is observed)."""

from __future__ import annotations

import importlib
import inspect
from types import ModuleType
from typing import Any

from ..errors import InvalidOption, UnknownName
from ..model.problem import Problem

# A hyphen in a name is an underscore in its module's.
_NAMES = (
    "bandit",
    "dosing",
    "factored",
    "frozen-lake",
    "grid",
    "icu-sepsis",
    "inventory",
    "machine",
    "media",
    "queue",
    "random",
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
    try:
        inspect.signature(build).bind(**options)
    except TypeError as problem:
        takes = ", ".join(inspect.signature(build).parameters) or "no options"
        raise InvalidOption(f"problem {name!r}: {problem}. It takes: {takes}.") from None
    made: Problem = build(**options)
    return made


def _module(name: str) -> ModuleType:
    if not isinstance(name, str) or name not in _NAMES:
        raise UnknownName(f"there is no problem {name!r}; there are {', '.join(names())}.")
    return importlib.import_module(f".{name.replace('-', '_')}", __name__)
