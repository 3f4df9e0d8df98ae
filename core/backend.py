"""The build backend: scikit-build-core, and where no C++ compiler is found, Zig's.

`ziglang` is a compiler in a wheel. It is asked for only where it is needed, and builds for the baseline of the
machine's kind of processor: a wheel that uses more would end on another one with an illegal instruction.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
from collections.abc import Iterator
from typing import Any

from scikit_build_core import build as backend
from scikit_build_core.build import (
    build_sdist,
    get_requires_for_build_sdist,
    prepare_metadata_for_build_editable,
    prepare_metadata_for_build_wheel,
)

__all__ = [
    "build_editable",
    "build_sdist",
    "build_wheel",
    "get_requires_for_build_editable",
    "get_requires_for_build_sdist",
    "get_requires_for_build_wheel",
    "prepare_metadata_for_build_editable",
    "prepare_metadata_for_build_wheel",
]

COMPILERS = ("c++", "g++", "clang++")


def compiler_missing() -> bool:
    """Return whether neither CXX nor the path has a C++ compiler; Windows finds its own."""
    found = os.environ.get("CXX") or any(map(shutil.which, COMPILERS))
    return sys.platform != "win32" and not found


def get_requires_for_build_wheel(settings: Any = None) -> list[str]:
    """Return what a build needs beside scikit-build-core."""
    return [
        *backend.get_requires_for_build_wheel(settings),
        *["ziglang>=0.13"] * compiler_missing(),
    ]


def get_requires_for_build_editable(settings: Any = None) -> list[str]:
    """Return the same for an editable install."""
    return [
        *backend.get_requires_for_build_editable(settings),
        *["ziglang>=0.13"] * compiler_missing(),
    ]


def build_wheel(directory: str, settings: Any = None, metadata: str | None = None) -> str:
    """Build a wheel."""
    with compiler():
        name: str = backend.build_wheel(directory, settings, metadata)
    return name


def build_editable(directory: str, settings: Any = None, metadata: str | None = None) -> str:
    """Build the wheel of an editable install."""
    with compiler():
        name: str = backend.build_editable(directory, settings, metadata)
    return name


@contextlib.contextmanager
def compiler() -> Iterator[None]:
    """Let CMake find Zig where there is nothing else."""
    if not compiler_missing():
        yield
        return
    toolchain = os.path.join(os.path.dirname(os.path.abspath(__file__)), "zig.cmake")
    os.environ |= {"CMAKE_TOOLCHAIN_FILE": toolchain, "SAFESPOT_PYTHON": sys.executable}
    try:
        yield
    finally:
        del os.environ["CMAKE_TOOLCHAIN_FILE"], os.environ["SAFESPOT_PYTHON"]
