"""Experiments: from a TOML file to a store of results that can be stopped, resumed, spread and queried."""

from __future__ import annotations

from .spec import RunSpec, Spec, as_spec, read_spec
from .store import Store
from .sweeping import Swept, sweep

__all__ = ["RunSpec", "Spec", "Store", "Swept", "as_spec", "read_spec", "sweep"]
