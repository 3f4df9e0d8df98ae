"""Safe reinforcement learning for finite problems whose safety limits are themselves unknown."""

from __future__ import annotations

import importlib
import logging
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from . import experiments, learners, problems
    from .arrays import Episode
    from .cmdp import CMDP
    from .errors import (
        Infeasible,
        InvalidEpisode,
        InvalidFile,
        InvalidModel,
        InvalidOption,
        SafespotError,
        SolverError,
        UnknownName,
    )
    from .experiments import Store, sweep
    from .learners import Spot, SpotOptions
    from .metrics import Run
    from .oracle import Evaluation, Slater, Solution, evaluate, slater, solve
    from .signals import Bernoulli, Beta, Deterministic, Drift, Gaussian, Problem, Signals
    from .simulation import Streams, play, streams
    from .training import learn

__version__ = "0.1.0"

__all__ = [
    "CMDP",
    "Bernoulli",
    "Beta",
    "Deterministic",
    "Drift",
    "Episode",
    "Evaluation",
    "Gaussian",
    "Infeasible",
    "InvalidEpisode",
    "InvalidFile",
    "InvalidModel",
    "InvalidOption",
    "Problem",
    "Run",
    "SafespotError",
    "Signals",
    "Slater",
    "Solution",
    "SolverError",
    "Spot",
    "SpotOptions",
    "Store",
    "Streams",
    "UnknownName",
    "evaluate",
    "experiments",
    "learn",
    "learners",
    "play",
    "problems",
    "slater",
    "solve",
    "streams",
    "sweep",
]

# Where each public name lives; a module is imported when one of its names is first used, so that
# `import safespot` costs nothing.
_HOMES = {
    "arrays": ["Episode"],
    "cmdp": ["CMDP"],
    "errors": [
        "Infeasible", "InvalidEpisode", "InvalidFile", "InvalidModel", "InvalidOption",
        "SafespotError", "SolverError", "UnknownName",
    ],
    "experiments": ["Store", "sweep"],
    "learners": ["Spot", "SpotOptions"],
    "metrics": ["Run"],
    "oracle": ["Evaluation", "Slater", "Solution", "evaluate", "slater", "solve"],
    "signals": ["Bernoulli", "Beta", "Deterministic", "Drift", "Gaussian", "Problem", "Signals"],
    "simulation": ["Streams", "play", "streams"],
    "training": ["learn"],
}  # fmt: skip
_HOME = {name: home for home, names in _HOMES.items() for name in names}

logging.getLogger(__name__).addHandler(logging.NullHandler())


def __getattr__(name: str) -> Any:
    if name in ("experiments", "learners", "problems"):
        return importlib.import_module(f".{name}", __name__)
    if name not in _HOME:
        raise AttributeError(f"module 'safespot' has no attribute {name!r}")
    value = getattr(importlib.import_module(f".{_HOME[name]}", __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
