"""Where Numba's compiler spends time for nothing, it is spared: the code that it makes is the same.

- Python looks for garbage while the compiler makes millions of objects and drops few.
- Numba compares its flags tens of thousands of times, and looks up every one of some thirty options each time.
- Of every signature that does not fit, and most do not, it makes a message in color, which nobody reads.
- Each function of a part, and each that it only calls, has LLVM build all passes anew (`parts`).
"""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Iterator
from typing import Any

import numba
from numba.core.targetconfig import TargetConfig

COLLECTED = (200_000, 1_000, 1_000)  # young objects alone: of the old ones the compiler drops few


@contextlib.contextmanager
def taken() -> Iterator[None]:
    """While a kernel is compiled; all is as it was afterwards."""
    with _rarely_collecting(), _quick_flags(), _plain_messages():
        yield


@contextlib.contextmanager
def _rarely_collecting() -> Iterator[None]:
    before = gc.get_threshold()
    if before[0] > 0:  # 0: it never does
        gc.set_threshold(*(max(x, y) for x, y in zip(before, COLLECTED, strict=True)))
    try:
        yield
    finally:
        gc.set_threshold(*before)


@contextlib.contextmanager
def _quick_flags() -> Iterator[None]:
    """`TargetConfig.values` finds the defaults of a class once: they are the same for all of its objects."""
    defaults: dict[type, dict[str, Any]] = {}

    def values(self: Any) -> dict[str, Any]:
        kind = type(self)
        if kind not in defaults:
            defaults[kind] = {name: option.default for name, option in kind.options.items()}
        return {**defaults[kind], **self._values}

    before = TargetConfig.values
    TargetConfig.values = values
    try:
        yield
    finally:
        TargetConfig.values = before


class _Plain:
    """Messages as they are."""

    def code(self, message: str) -> str:
        """As it is."""
        return message

    errmsg = filename = indicate = highlight = reset = code


@contextlib.contextmanager
def _plain_messages() -> Iterator[None]:
    errors: Any = numba.core.errors
    before = errors._termcolor_inst
    errors._termcolor_inst = _Plain()
    try:
        yield
    finally:
        errors._termcolor_inst = before
