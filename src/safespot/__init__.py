"""Safe reinforcement learning for finite problems whose safety limits are themselves unknown."""

from __future__ import annotations

import importlib
import logging
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from . import experiments, gym, learners, problems
    from .arrays import Episode
    from .blackbox import BlackBox, check_problem_env, env_interface
    from .certificate import Certificate, certify
    from .cmdp import CMDP
    from .durable import DurableLearner
    from .durable import open as open
    from .empirical import EmpiricalModel, empirical_model
    from .env_training import learn_env
    from .errors import (
        Infeasible,
        InUse,
        InvalidEpisode,
        InvalidFile,
        InvalidModel,
        InvalidOption,
        MissingPackage,
        SafespotError,
        SolverError,
        UnknownName,
    )
    from .experiments import Store, sweep
    from .learners import (
        DOPE,
        Fixed,
        Learner,
        OptCMDP,
        OptCMDPBonus,
        OptDual,
        OptPessLP,
        OptPessPrimalDual,
        OptPrimalDual,
        RegularizedPrimalDual,
        Spot,
        SpotOptions,
        Uniform,
    )
    from .logs import Log, read_log, warm_start, write_log
    from .metrics import Run
    from .oracle import Evaluation, Slater, Solution, evaluate, slater, solve
    from .proposals import Proposal, propose_policy
    from .signals import Bernoulli, Beta, Deterministic, Drift, Gaussian, Problem, Signals
    from .simulation import Streams, play, streams
    from .tables import Ending, problem_from_table
    from .trail import export_episodes
    from .training import learn
    from .trials import certify_by_trial, episodes_needed

__version__ = "0.1.0"

# `open` is public and not in this list: a star import should not hide Python's own.
__all__ = [
    "CMDP",
    "DOPE",
    "Bernoulli",
    "Beta",
    "BlackBox",
    "Certificate",
    "Deterministic",
    "Drift",
    "DurableLearner",
    "EmpiricalModel",
    "Ending",
    "Episode",
    "Evaluation",
    "Fixed",
    "Gaussian",
    "InUse",
    "Infeasible",
    "InvalidEpisode",
    "InvalidFile",
    "InvalidModel",
    "InvalidOption",
    "Learner",
    "Log",
    "MissingPackage",
    "OptCMDP",
    "OptCMDPBonus",
    "OptDual",
    "OptPessLP",
    "OptPessPrimalDual",
    "OptPrimalDual",
    "Problem",
    "Proposal",
    "RegularizedPrimalDual",
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
    "Uniform",
    "UnknownName",
    "certify",
    "certify_by_trial",
    "check_problem_env",
    "empirical_model",
    "env_interface",
    "episodes_needed",
    "evaluate",
    "experiments",
    "export_episodes",
    "gym",
    "learn",
    "learn_env",
    "learners",
    "play",
    "problem_from_table",
    "problems",
    "propose_policy",
    "read_log",
    "slater",
    "solve",
    "streams",
    "sweep",
    "warm_start",
    "write_log",
]

# Where each public name lives; a module is imported when one of its names is first used, so that
# `import safespot` costs nothing.
_HOMES = {
    "arrays": ["Episode"],
    "blackbox": ["BlackBox", "check_problem_env", "env_interface"],
    "certificate": ["Certificate", "certify"],
    "cmdp": ["CMDP"],
    "durable": ["DurableLearner", "open"],
    "empirical": ["EmpiricalModel", "empirical_model"],
    "env_training": ["learn_env"],
    "errors": [
        "InUse", "Infeasible", "InvalidEpisode", "InvalidFile", "InvalidModel", "InvalidOption",
        "MissingPackage", "SafespotError", "SolverError", "UnknownName",
    ],
    "experiments": ["Store", "sweep"],
    "learners": [
        "DOPE", "Fixed", "Learner", "OptCMDP", "OptCMDPBonus", "OptDual", "OptPessLP",
        "OptPessPrimalDual", "OptPrimalDual", "RegularizedPrimalDual", "Spot", "SpotOptions",
        "Uniform",
    ],
    "logs": ["Log", "read_log", "warm_start", "write_log"],
    "metrics": ["Run"],
    "oracle": ["Evaluation", "Slater", "Solution", "evaluate", "slater", "solve"],
    "proposals": ["Proposal", "propose_policy"],
    "signals": ["Bernoulli", "Beta", "Deterministic", "Drift", "Gaussian", "Problem", "Signals"],
    "simulation": ["Streams", "play", "streams"],
    "tables": ["Ending", "problem_from_table"],
    "training": ["learn"],
    "trail": ["export_episodes"],
    "trials": ["certify_by_trial", "episodes_needed"],
}  # fmt: skip
_HOME = {name: home for home, names in _HOMES.items() for name in names}

logging.getLogger(__name__).addHandler(logging.NullHandler())


def __getattr__(name: str) -> Any:
    if name in ("experiments", "gym", "learners", "problems"):
        return importlib.import_module(f".{name}", __name__)
    if name not in _HOME:
        raise AttributeError(f"module 'safespot' has no attribute {name!r}")
    value = getattr(importlib.import_module(f".{_HOME[name]}", __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
