"""Public names, imported when one of them is first used; a package's ``__init__.pyi`` is the one list of them."""

from __future__ import annotations

import ast
import importlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any


def read_homes(init: str) -> dict[str, str]:
    """Return the module of each name in the ``.pyi`` beside an ``__init__.py``, relative to the package."""
    stub = ast.parse(Path(init).with_suffix(".pyi").read_text(encoding="utf-8"))
    imports = (node for node in stub.body if isinstance(node, ast.ImportFrom))
    return {
        each.name: "." * node.level + (node.module or "") for node in imports for each in node.names
    }


def public_name(package: str, homes: Mapping[str, str], name: str) -> Any:
    """Import what a package offers under this name."""
    if name not in homes:
        raise AttributeError(f"module {package!r} has no attribute {name!r}")
    from .syscalls import InterruptsDeferred

    home = homes[name]
    with InterruptsDeferred():  # a package of C that was half imported cannot be imported again
        if home == ".":
            return importlib.import_module(f".{name}", package)
        return getattr(importlib.import_module(home, package), name)
