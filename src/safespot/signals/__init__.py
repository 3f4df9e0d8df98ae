"""Signals: what is declared of them."""

from .limits import Limit

__all__ = ["Limit"]
