"""Past episodes: what a log is read into, evaluated and proposed from, and how learners begin with one."""

from __future__ import annotations

from .data.empirical import EmpiricalModel, empirical_model
from .data.logs import warm_start
from .judging.off_policy import LogEvaluation
from .judging.propose_log import Proposal
from .storage.export import export_episodes

__all__ = [
    "EmpiricalModel",
    "LogEvaluation",
    "Proposal",
    "empirical_model",
    "export_episodes",
    "warm_start",
]
