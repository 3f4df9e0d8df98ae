"""The learners, one file each; all of them are made from a problem's interface."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

from ..errors import InvalidOption, UnknownName, unknown
from ..evidence.certificate import policy_digest
from . import baselines
from .baselines import *  # noqa: F403 (its `__all__` is the one list of them)
from .epoch_options import EpochsOptions
from .fixed import Fixed, Uniform
from .guard import Guard
from .learner import Learner
from .learner_files import read
from .options import SpotOptions, is_required
from .spot import Spot
from .spot_epochs import SpotEpochs
from .tabular import TabularLearner

__all__ = [
    "EpochsOptions",
    "Fixed",
    "Guard",
    "Learner",
    "Spot",
    "SpotEpochs",
    "SpotOptions",
    "TabularLearner",
    "Uniform",
    "find",
    "load",
    "make",
    "names",
    "options",
    "policy_digest",
    "required",
]
__all__ += baselines.__all__

_READY: tuple[type[TabularLearner], ...] = (
    *(getattr(baselines, name) for name in baselines.__all__), Fixed, Spot, SpotEpochs, Uniform
)  # fmt: skip


def names() -> list[str]:
    """Return the names of the ready learners; `make` takes ``"package.module:Class"`` too.

    Examples:
        >>> import safespot as ss
        >>> ss.learners.names()
        ['dope', 'explore-then-plan', 'fixed', ..., 'spot', 'spot-epochs', 'uniform']

    """
    return sorted(learner.name for learner in _READY)


def options(name: str) -> list[str]:
    """Return the options that the learner of that name takes.

    Examples:
        >>> import safespot as ss
        >>> ss.learners.options("dope")
        ['episodes', 'thresholds', 'stance', ..., 'baseline', 'slack']

    """
    return [option.name for option in fields(find(name).options_type)]


def required(name: str) -> list[str]:
    """Return the names of the options that have no default.

    Examples:
        >>> import safespot as ss
        >>> ss.learners.required("spot"), ss.learners.required("spot-epochs")
        (['episodes'], [])

    """
    return [option.name for option in fields(find(name).options_type) if is_required(option)]


def make(
    name: str,
    interface: Mapping[str, Any],
    /,
    *,
    episodes: int | None,
    guard: Mapping[str, Any] | None = None,
    **options: Any,
) -> Learner:
    """Return the learner of that name for ``problem.interface``.

    One of your own is named by where it is, ``"package.module:Class"``; sweeps and the command take that name too.
    `guard` holds the arguments of a `Guard` around it: ``{"baseline": …, "budget": …}``.

    Examples:
        >>> import safespot as ss
        >>> problem = ss.problems.make("machine")
        >>> learner = ss.learners.make("spot", problem.interface, episodes=500, rho=2.4)
        >>> print(learner.name, learner.rho, learner.policy.shape)
        spot 2.4 (2, 2, 2)

    """
    learner = find(name)
    try:
        made = learner(**interface, episodes=episodes, **options)
        return made if guard is None else Guard(made, **guard)
    except InvalidOption as problem:
        raise InvalidOption(f"learner {name!r}: {problem}") from None
    except (TypeError, OverflowError) as problem:  # such as a number that no float can be
        raise InvalidOption(f"learner {name!r}: {problem}.") from None


def load(path: str | Path) -> Learner:
    """Return the learner in a file, of any kind; raise `InvalidFile` for a damaged file.

    Nothing is imported because a file says so: a learner of your own must have been imported before.

    Examples:
        >>> import safespot as ss
        >>> problem = ss.problems.make("machine")
        >>> learner = ss.Spot(**problem.interface, episodes=500, slack=1.0)
        >>> run = ss.learn(problem, learner, episodes=200)
        >>> learner.save("machine.safetensors")
        >>> ss.learners.load("machine.safetensors").episode
        201

    """
    learner: Learner = read(path)
    return learner


def find(name: str) -> type[TabularLearner]:
    """Return the class of that name: a ready learner's, or ``"package.module:Class"``.

    Examples:
        >>> import safespot as ss
        >>> ss.learners.find("opt-cmdp").__name__
        'OptCMDP'
        >>> ss.learners.find("safespot.learners.baselines.dope:DOPE").name
        'dope'

    """
    ready = {learner.name: learner for learner in _READY}
    if isinstance(name, str) and name in ready:
        return ready[name]
    if not isinstance(name, str) or ":" not in name:
        raise UnknownName(unknown("learner", name, names()))
    module, _, attribute = name.partition(":")
    try:
        found = getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError, ValueError) as problem:
        raise UnknownName(f"learner {name!r} cannot be imported: {problem}.") from None
    if not (isinstance(found, type) and issubclass(found, TabularLearner)):
        raise UnknownName(
            f"learner {name!r} is not a subclass of safespot.learners.TabularLearner."
        )
    return found
