"""Safe reinforcement learning for finite problems whose safety limits are themselves unknown."""

from __future__ import annotations

import ast
import importlib
import logging
from pathlib import Path
from typing import Any

__version__ = "0.1.0"


def _read_homes() -> dict[str, str]:
    """Where each public name lives: ``__init__.pyi`` is the one list of them, for type checkers and for this.

    A module is imported when one of its names is first used, so that ``import safespot`` costs nothing.
    """
    stub = ast.parse(Path(__file__).with_suffix(".pyi").read_text(encoding="utf-8"))
    imports = (node for node in stub.body if isinstance(node, ast.ImportFrom))
    return {each.name: node.module or "" for node in imports for each in node.names}


_HOME = _read_homes()

# `open` is public and not in this list: a star import should not hide Python's own.
__all__ = sorted(_HOME.keys() - {"open"})

logging.getLogger(__name__).addHandler(logging.NullHandler())


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'safespot' has no attribute {name!r}")
    from .syscalls import InterruptsDeferred

    home = _HOME[name]
    with InterruptsDeferred():  # a package of C that was half imported cannot be imported again
        value = importlib.import_module(f".{home or name}", __name__)
    if home:
        value = getattr(value, name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*_HOME, "__version__"})
