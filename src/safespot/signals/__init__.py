"""Signals: what is declared of a limit's, the laws that an episode's are drawn from, and what people call them."""

from __future__ import annotations

from typing import Any

from ..namespaces import public_name, read_homes

_HOME = read_homes(__file__)
__all__ = sorted(_HOME)


def __getattr__(name: str) -> Any:
    return public_name(__name__, _HOME, name)
