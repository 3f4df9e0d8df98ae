"""Ready problems, one file each; every one is a `Problem` (a CMDP and how it is observed)."""

from __future__ import annotations

import importlib
import inspect
from typing import Any

from ..errors import InvalidOption, UnknownName
from ..signals import Problem

_MODULES = {
    "bandit": "bandit",
    "frozen-lake": "frozen_lake",
    "machine": "machine",
    "random": "random",
    "taxi": "taxi",
    "triage": "triage",
}


def names() -> list[str]:
    """The names that `make` takes."""
    return sorted(_MODULES)


def make(name: str, **options: Any) -> Problem:
    """The problem of that name; its options are the arguments of ``problems.<name>.make``."""
    if not isinstance(name, str) or name not in _MODULES:
        raise UnknownName(f"there is no problem {name!r}; there are {', '.join(names())}.")
    build = importlib.import_module(f".{_MODULES[name]}", __name__).make
    try:
        inspect.signature(build).bind(**options)
    except TypeError as problem:
        takes = ", ".join(inspect.signature(build).parameters)
        raise InvalidOption(f"problem {name!r}: {problem}. It takes: {takes}.") from None
    made: Problem = build(**options)
    return made
