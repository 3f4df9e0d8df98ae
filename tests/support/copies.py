"""Copies of the package, which a new Python finds in place of the one that is installed."""

from __future__ import annotations

import importlib.util
import shutil
from pathlib import Path

import safespot as ss
from safespot import _core

SOURCE = Path(ss.__file__).parent
FINDER = "_editable_skbc_safespot"  # what an editable install puts before PYTHONPATH


def copy_package(folder: Path) -> Path:
    """Copy the package to a folder, with its core and without any compiled code of Numba's."""
    package = folder / "safespot"
    shutil.copytree(SOURCE, package, ignore=shutil.ignore_patterns("__pycache__"))
    assert _core.__file__ is not None
    if not (package / Path(_core.__file__).name).exists():
        shutil.copy(_core.__file__, package)
    hide_editable_install(folder)
    return package


def hide_editable_install(folder: Path) -> None:
    """Let a folder on PYTHONPATH come before an editable install."""
    if importlib.util.find_spec(FINDER) is not None:
        (folder / f"{FINDER}.py").write_text("")
