"""Gymnasium both ways: a problem as an environment, and any environment as a black box or as a table.

Importing this package registers every ready problem, ``gymnasium.make("safespot/machine-v0", budget=2)``, and the
patients of `dosing` as ``safespot/Clinic-v0``. Gymnasium 1 looks for no plugins, but
``gymnasium.make("safespot.gym:safespot/machine-v0")`` imports this package.
"""

from __future__ import annotations

import gymnasium

from .. import problems
from ..model.outcome_tables import Ending, TableOutcome, problem_from_table
from .black_box import BlackBox, env_interface
from .checking import check_env
from .clinic import Clinic
from .discretizers import Bin, Discretizer, make_discretizer, warm_up
from .policy_evaluation import PolicyEvaluation, evaluate_policy
from .problem_env import ProblemEnv
from .steps import Step

__all__ = [
    "Bin",
    "BlackBox",
    "Clinic",
    "Discretizer",
    "Ending",
    "PolicyEvaluation",
    "ProblemEnv",
    "Step",
    "TableOutcome",
    "check_env",
    "env_interface",
    "evaluate_policy",
    "make_discretizer",
    "problem_from_table",
    "warm_up",
]

for _name in problems.names():
    gymnasium.register(f"safespot/{_name}-v0", "safespot.gym:ProblemEnv", kwargs={"problem": _name})
gymnasium.register("safespot/Clinic-v0", "safespot.gym:Clinic")
