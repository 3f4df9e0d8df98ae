"""What the runs of a sweep share: the problem, and what its truth says of it."""

from __future__ import annotations

import functools
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from .. import learners, problems
from ..data.logs import Log
from ..data.model_files import read_cmdp, read_model
from ..errors import InvalidFile
from ..learners import Learner
from ..model.oracle import Slater, Solution, slater, solve
from ..model.problem import Problem
from ..model.signals import Bernoulli, Beta, Deterministic, Drift, Gaussian, Law
from ..storage.tables import FORMATS
from ..training.metrics import Optima
from .checking import FILE, check_options
from .spec import LawSpec, RunSpec, SignalsSpec, file_checksum

SETTINGS = 16  # problems that a worker remembers


def make_learner(run: RunSpec) -> Learner:
    """The learner of a run; some of its options may be taken from the truth."""
    setting = read_setting(run.setting)
    given = run.learner_options
    check_options(run.learner, given, anytime=run.anytime)
    options = {name: from_truth(setting, name, value) for name, value in given.items()}
    if "guard" in options:
        options["guard"] = {
            name: from_truth(setting, name, value) for name, value in options["guard"].items()
        }
    planned = None if run.anytime else run.episodes
    return learners.make(run.learner, setting.problem.interface, episodes=planned, **options)


def needs(name: str, given: Mapping[str, Any]) -> dict[str, Any]:
    """The options of a learner with what it cannot do without taken from the truth, where it is not given."""
    takes, required = learners.options(name), learners.required(name)
    words = {"policy": "optimal", "baseline": "slater"}
    words = {option: word for option, word in words.items() if option in required}
    if "rho" not in given and "slack" not in given:
        words["rho" if "rho" in takes else "slack"] = "slater"
    return {option: word for option, word in words.items() if option in takes} | dict(given)


def compared(
    names: Sequence[str], stances: Sequence[str | float], given: Mapping[str, Any]
) -> list[dict[str, Any]]:
    """The learners that `safespot run` compares, as a sweep's file has them: under each stance, and limits known.

    Without names that is SPOT in epochs, with the paper's SPOT and the uniform policy beside it, once each.
    """
    chosen = list(names) or ["spot-epochs"]
    beside = [] if names else ["spot", "uniform"]
    for name in given:
        known = name == "guard" or any(
            name in learners.options(each) for each in (*chosen, *beside)
        )
        if name == "episodes" or not known:
            check_options(chosen[0], {name: given[name]})  # says what it takes
    made: list[dict[str, Any]] = []
    for name in (*chosen, *beside):
        takes = learners.options(name)
        mine = {k: v for k, v in given.items() if k in takes or k == "guard"}
        options = needs(name, {**getattr(learners.find(name), "advised", {}), **mine})
        check_options(name, options)
        if name in beside:
            made.append({"name": name, "options": options})
            continue
        made += [
            {
                "name": name,
                "options": options,
                "grid": {"stance": list(stances)} if stances else {},
            },
            {"name": name, "options": {**options, "thresholds": "known"}},
        ]
    return made


def from_truth(setting: Setting, name: str, value: Any) -> Any:
    """The value of an option: as it stands, or what the word for it says of the problem."""
    match name, value:
        case "rho", "inf":
            return math.inf
        case "rho", "slater":
            return setting.slater.rho
        case "slack", "slater":
            return setting.slater.margins
        case (("policy" | "baseline"), "slater"):
            return setting.slater.policy
        case (("policy" | "baseline"), "optimal"):
            return setting.solution.policy
        case "thresholds", "known":
            return setting.problem.cmdp.thresholds
    return value


@dataclass
class Setting:
    """A problem, and what is known of it once it is asked for."""

    problem: Problem
    name: str = ""  # of the problem, and its options
    options: Mapping[str, Any] = field(default_factory=dict)

    @functools.cached_property
    def log(self) -> Log | None:
        """The log whose empirical model it is; None: it is none."""
        if self.name != FILE or Path(self.options["path"]).suffix not in FORMATS:
            return None
        path, others = _file_options(self.options)
        return read_model(path, **others)[0]

    @functools.cached_property
    def optima(self) -> Optima:
        """The optimum of every episode."""
        return Optima(self.problem)

    @functools.cached_property
    def slater(self) -> Slater:
        """The safest policy, its margins, and the bound of the multipliers that it gives (D4)."""
        return slater(self.problem.cmdp)

    @functools.cached_property
    def solution(self) -> Solution:
        """The constrained optimum."""
        return solve(self.problem.cmdp)


@functools.lru_cache(SETTINGS)
def read_setting(setting: str) -> Setting:
    """The problem of some runs, made once in a process."""
    content = json.loads(setting)
    problem = make_problem(content["problem"], content["problem_options"])
    given = SignalsSpec.model_validate(content["signals"])
    laws = {
        name: _law(law)
        for name in ("rewards", "constraints", "thresholds")
        if (law := getattr(given, name)) is not None
    }
    drift = problem.signals.drift
    if given.drift is not None:
        drift = Drift(given.drift.thresholds, given.drift.first, given.drift.last)
    observed = Problem(problem.cmdp, replace(problem.signals, drift=drift, **laws))
    return Setting(observed, content["problem"], content["problem_options"])


def make_problem(name: str, options: dict[str, Any]) -> Problem:
    """A ready problem, or the one in a file, which must be the file that was named."""
    if name != FILE:
        return problems.make(name, **options)
    path, others = _file_options(options)
    if file_checksum(options["path"]) != options["checksum"]:
        raise InvalidFile(
            f"{options['path']} has changed since these runs were specified. Restore it, or start a "
            "sweep with the new content."
        )
    return Problem(read_cmdp(path, **others))


def _file_options(options: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """The path of a file, and the options of reading it."""
    return options["path"], {k: v for k, v in options.items() if k not in ("path", "checksum")}


def _law(given: LawSpec) -> Law:
    if given.law == "beta":
        return Beta() if given.concentration is None else Beta(given.concentration)
    if given.law == "gaussian":
        return Gaussian() if given.sd is None else Gaussian(given.sd)
    return Bernoulli() if given.law == "bernoulli" else Deterministic()
