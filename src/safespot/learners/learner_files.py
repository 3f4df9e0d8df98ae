"""Files of learners: how one was made, and its arrays. A guard's hold those of its learner, as "guarded.…"."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ..errors import InvalidFile, SafespotError, nearest
from ..files import read_arrays, write_arrays
from ..signals.doubts import Doubts
from ..states import part

if TYPE_CHECKING:
    from .learner import Learner

KNOWN: dict[str, Any] = {}  # the class of every learner that has been imported, by its name
GUARDED = "guarded"


def write(learner: Learner, path: str | Path) -> None:
    """Write a learner to a file."""
    arrays = learner.arrays()
    write_arrays(path, "learner", arrays, _describe(learner, arrays))


def read(path: str | Path, kind: type | None = None) -> Any:
    """Return the learner in a file, which must be one of this kind; None: any."""
    arrays, about = read_arrays(path, "learner")
    try:
        found = KNOWN.get(about["learner"])
        if found is None or not issubclass(found, kind or found):
            hint = nearest(about["learner"], KNOWN)
            raise InvalidFile(f"a learner of the kind {about['learner']!r}{hint}")
        return _made(arrays, about)
    except (
        SafespotError,
        LookupError,
        TypeError,
        ValueError,
        AttributeError,
        OverflowError,
    ) as exc:
        name = "" if kind is None else f" {kind.__name__}"
        raise InvalidFile(f"{path} does not describe a{name} learner: {exc}") from None


def _describe(learner: Learner, arrays: dict[str, NDArray], prefix: str = "") -> dict[str, Any]:
    """Return how a learner was made, for JSON; what is an array joins `arrays`, as "option.…"."""
    arguments = {}
    for name, value in learner.arguments.items():
        if name == "action_mask":
            continue  # an array of every learner
        if isinstance(value, np.ndarray):
            arrays[f"{prefix}option.{name}"] = value
        else:
            arguments[name] = "inf" if isinstance(value, float) and value == math.inf else value
    about: dict[str, Any] = {"learner": learner.name, "arguments": arguments}
    if learner.guarded is learner:
        return about | {"doubts": dict(vars(learner.doubts))}
    return about | {GUARDED: _describe(learner.guarded, arrays, f"{prefix}{GUARDED}.")}


def _made(arrays: dict[str, NDArray], about: Mapping[str, Any]) -> Any:
    """Return the learner of a description."""
    arguments = {
        name: math.inf if value == "inf" else value for name, value in about["arguments"].items()
    }
    arguments |= part(arrays, "option")
    own = {name: array for name, array in arrays.items() if "option." not in name}
    kind = KNOWN[about["learner"]]
    if GUARDED in about:
        learner = kind(_made(part(arrays, GUARDED), about[GUARDED]), **arguments)
    else:
        _check_sizes(arguments, arrays)
        learner = kind(**arguments, action_mask=arrays["mask"])
        learner.doubts.copy_from(Doubts.read(about["doubts"]))
    learner.restore(own)
    if own.keys() != learner.arrays().keys():
        raise InvalidFile("it holds other arrays than such a learner has")
    return learner


def _check_sizes(sizes: Mapping[str, Any], arrays: Mapping[str, NDArray]) -> None:
    """Raise unless a file holds arrays of the size that it declares: nothing is allocated on its word alone."""
    S, A, H, m = (sizes[name] for name in ("states", "actions", "horizon", "constraints"))
    if arrays["mask"].shape != (H, S, A) or arrays["statistics.sums"].shape != (1 + m, H, S * A):
        raise InvalidFile(f"its arrays are not those of S={S}, A={A}, H={H}, m={m}")
