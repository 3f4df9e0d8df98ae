"""The learners, one file each; all of them are made from a problem's interface."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..errors import InvalidOption, UnknownName
from .options import SpotOptions
from .spot import Spot

__all__ = ["Spot", "SpotOptions", "make", "names"]

_LEARNERS = {"spot": Spot}


def names() -> list[str]:
    """The names that `make` takes."""
    return sorted(_LEARNERS)


def make(name: str, interface: Mapping[str, Any], *, episodes: int | None, **options: Any) -> Spot:
    """The learner of that name for ``problem.interface``."""
    if not isinstance(name, str) or name not in _LEARNERS:
        raise UnknownName(f"there is no learner {name!r}; there are {', '.join(names())}.")
    try:
        return _LEARNERS[name](**interface, episodes=episodes, **options)
    except TypeError as problem:
        raise InvalidOption(f"learner {name!r}: {problem}.") from None
