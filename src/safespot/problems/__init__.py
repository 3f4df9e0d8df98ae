"""Ready problems, one file each; every one is a `Problem` (a CMDP and how it is observed)."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from types import ModuleType
from typing import Any

from ..errors import InvalidOption, UnknownName, unknown
from ..model.problem import Problem

# Each module here is a problem; an underscore in its name is a hyphen in the problem's.
_NAMES = sorted(module.name.replace("_", "-") for module in pkgutil.iter_modules(__path__))


def names() -> list[str]:
    """Return the names that `make` takes.

    Examples:
        >>> import safespot as ss
        >>> ss.problems.names()
        ['bandit', 'deep-sea', 'dosing', ..., 'triage']

    """
    return list(_NAMES)


def describe(name: str) -> str:
    """Return the first line of a problem's docstring.

    Examples:
        >>> import safespot as ss
        >>> ss.problems.describe("machine")
        'A machine that wears: costs and a budget, in units of their own, two days.'

    """
    return (_module(name).__doc__ or "").partition("\n")[0]


def story(name: str) -> str:
    """Return a problem's docstring, which tells its story.

    Examples:
        >>> import safespot as ss
        >>> for line in ss.problems.story("bandit").splitlines()[2:4]:
        ...     print(line)
        The risky arm (action 0) pays 1 and is safe with probability 0; the safe arm (action 1) pays 2/5 and
        is
        safe with probability 1. A policy plays the risky arm with probability p:

    """
    return inspect.getdoc(_module(name)) or ""


def options(name: str) -> list[str]:
    """Return the options that the problem of that name takes.

    Examples:
        >>> import safespot as ss
        >>> ss.problems.options("machine")
        ['budget']

    """
    return list(inspect.signature(_module(name).make).parameters)


_options = options  # `make` has options of its own


def make(name: str, /, **options: Any) -> Problem:
    """Make the problem of that name; its options are the arguments of ``problems.<name>.make``.

    Examples:
        >>> import safespot as ss
        >>> ss.problems.make("machine", budget=2.0).cmdp.limits.tolist()
        [2.0]
        >>> ss.problems.make("random", states=4, actions=2, seed=3).cmdp
        <CMDP S=4 A=2 H=5 m=1, dense transitions>

    """
    takes = _options(name)
    for option in options:
        if option not in takes:
            raise InvalidOption(f"problem {name!r}: {unknown('option', option, takes)}")
    made: Problem = _module(name).make(**options)
    return made


def _module(name: str) -> ModuleType:
    if not isinstance(name, str) or name not in _NAMES:
        raise UnknownName(unknown("problem", name, names()))
    return importlib.import_module(f".{name.replace('-', '_')}", __name__)
