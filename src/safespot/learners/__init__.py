"""The learners, one file each; all of them are made from a problem's interface."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, fields
from pathlib import Path
from typing import Any

from ..errors import InvalidFile, InvalidOption, UnknownName, unknown
from ..files import read_arrays
from .dope import DOPE
from .fixed import Fixed, Uniform
from .learner import Learner
from .opt_cmdp import OptCMDP
from .opt_cmdp_bonus import OptCMDPBonus
from .opt_dual import OptDual
from .opt_pess_lp import OptPessLP
from .opt_pess_primal_dual import OptPessPrimalDual
from .opt_primal_dual import OptPrimalDual
from .options import SpotOptions
from .regularized import RegularizedPrimalDual
from .spot import Spot
from .spot_epochs import EpochsOptions, SpotEpochs
from .yardsticks import ExploreThenPlan, PosteriorSampling

__all__ = [
    "DOPE",
    "EpochsOptions",
    "ExploreThenPlan",
    "Fixed",
    "Learner",
    "OptCMDP",
    "OptCMDPBonus",
    "OptDual",
    "OptPessLP",
    "OptPessPrimalDual",
    "OptPrimalDual",
    "PosteriorSampling",
    "RegularizedPrimalDual",
    "Spot",
    "SpotEpochs",
    "SpotOptions",
    "Uniform",
    "load",
    "make",
    "names",
    "options",
    "required",
]

_LEARNERS: dict[str, type[Learner]] = {
    learner.name: learner
    for learner in (
        DOPE, ExploreThenPlan, Fixed, OptCMDP, OptCMDPBonus, OptDual, OptPessLP, OptPessPrimalDual, OptPrimalDual,
        PosteriorSampling, RegularizedPrimalDual, Spot, SpotEpochs, Uniform,
    )
}  # fmt: skip


def names() -> list[str]:
    """The names that `make` takes."""
    return sorted(_LEARNERS)


def options(name: str) -> list[str]:
    """The options that the learner of that name takes."""
    return [option.name for option in fields(_find(name).options_type)]


def required(name: str) -> list[str]:
    """Those of its options that have no default."""
    kinds = fields(_find(name).options_type)
    return [option.name for option in kinds if option.default is MISSING]


def make(
    name: str, interface: Mapping[str, Any], *, episodes: int | None, **options: Any
) -> Learner:
    """The learner of that name for ``problem.interface``."""
    learner = _find(name)
    takes = [option.name for option in fields(learner.options_type)]
    for option in options:
        if option not in takes:
            raise InvalidOption(f"learner {name!r}: {unknown('option', option, takes)}")
    try:
        return learner(**interface, episodes=episodes, **options)
    except TypeError as problem:
        raise InvalidOption(f"learner {name!r}: {problem}.") from None


def load(path: str | Path) -> Learner:
    """The learner in a file, whichever it is; a damaged file is an `InvalidFile`."""
    _, about = read_arrays(path, "learner")
    name = about.get("learner")
    if not isinstance(name, str) or name not in _LEARNERS:
        raise InvalidFile(f"{path}: {unknown('learner', name, names())}")
    return _LEARNERS[name].load(path)


def _find(name: str) -> type[Learner]:
    if not isinstance(name, str) or name not in _LEARNERS:
        raise UnknownName(unknown("learner", name, names()))
    return _LEARNERS[name]
