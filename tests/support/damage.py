"""Changes that make an array one that nothing can have left."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def put(index: Any, value: Any) -> Callable[[Any], Any]:
    """A change that writes a value into an array."""

    def change(array: Any) -> Any:
        array[index] = value
        return array

    return change
