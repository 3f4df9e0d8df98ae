"""Kernels that run seldom, and on small problems for a moment: they are not compiled until that pays.

Compiling one takes about half a second, a plan for a few states as many milliseconds in plain Python, with the same
bits. So such a kernel runs as Python where its arrays are small, until that has taken as long as compiling it would;
from then on, and where compiled code is on the disk, it is a kernel as any other. What it calls runs as it does.

Only additions, products, quotients, roots and comparisons have the same bits in both: no powers, no logarithms.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from ..syscalls import InterruptsDeferred
from .parts import UNCOMPILED, WholeDispatcher

SMALL = 4096  # entries of all arrays together
PATIENCE = 0.4  # seconds that a kernel may run uncompiled, in all
_at_once = threading.local()


class SeldomDispatcher(WholeDispatcher):
    """A kernel that runs uncompiled first."""

    spent = 0.0
    kept: bool | None = None  # on the disk

    def __call__(self, *arguments: Any) -> Any:
        """From Python."""
        if getattr(UNCOMPILED, "now", False):
            return self.py_func(*arguments)
        if not self._is_quick(arguments):
            with InterruptsDeferred():  # Numba would make a SystemError of it
                return super().__call__(*arguments)
        began = time.perf_counter()
        UNCOMPILED.now = True
        try:
            with np.errstate(all="ignore"):  # as kernels do
                return self.py_func(*arguments)
        finally:
            UNCOMPILED.now = False
            self.spent += time.perf_counter() - began

    def _is_quick(self, arguments: tuple[Any, ...]) -> bool:
        """Whether it should not be compiled for these yet."""
        if self.overloads or self.spent > PATIENCE or getattr(_at_once, "now", False):
            return False
        if entries(arguments) > SMALL:
            return False
        if self.kept is None:
            self.kept = self._is_kept(arguments)
        return not self.kept

    def _is_kept(self, arguments: tuple[Any, ...]) -> bool:
        cache: Any = self._cache
        try:
            cache._find_files(tuple(self.typeof_pyval(value) for value in arguments))
            return Path(cache._cache_file._index_path).exists()
        except AttributeError:  # nothing is kept at all
            return False


def entries(values: tuple[Any, ...]) -> int:
    """Of all arrays among these and in their records."""
    total = 0
    for value in values:
        if isinstance(value, np.ndarray):
            total += value.size
        elif isinstance(value, tuple):
            total += entries(value)
    return total


@contextlib.contextmanager
def compiled_at_once() -> Iterator[None]:
    """Kernels are compiled when they are first called: for whoever compiles ahead."""
    _at_once.now = True
    try:
        yield
    finally:
        _at_once.now = False
