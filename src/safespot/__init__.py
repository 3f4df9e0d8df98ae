"""Safe reinforcement learning for finite problems whose safety limits are themselves unknown."""

from __future__ import annotations

import logging
from typing import Any

from .namespaces import public_name, read_homes

__version__ = "0.1.0"

# A module is imported when one of its names is first used, so that ``import safespot`` costs nothing.
_HOME = read_homes(__file__)

# `open` is public and not in this list: a star import should not hide Python's own.
__all__ = sorted(_HOME.keys() - {"open"})

logging.getLogger(__name__).addHandler(logging.NullHandler())


def __getattr__(name: str) -> Any:
    value = public_name(__name__, _HOME, name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*_HOME, "__version__"})
