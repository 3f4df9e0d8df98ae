"""States of learners, meters, alarms and runs as the arrays of a file, and back.

A state is a record (`NamedTuple`) or a mapping of arrays and further states. An array is named by its path, as in
"totals.means.product". What follows from the rest (`DERIVED`) is in no file.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .errors import InvalidFile

DERIVED = ("terms", "tree")  # buffers of sequences, and the tree over a window's samples
Arrays = dict[str, NDArray]


def flatten(state: Any, prefix: str = "") -> Arrays:
    """Return the arrays of a state by their paths; they are not copied."""
    arrays: Arrays = {}
    for name, value in _fields(state).items():
        if isinstance(value, np.ndarray):
            arrays[prefix + name] = value
        else:
            arrays |= flatten(value, f"{prefix}{name}.")
    return arrays


def part(arrays: Mapping[str, NDArray], name: str) -> Arrays:
    """Return the arrays of the state of that name, by their paths in it."""
    start = f"{name}."
    return {key.removeprefix(start): each for key, each in arrays.items() if key.startswith(start)}


def rebuild(
    like: Any,
    arrays: Mapping[str, NDArray],
    *,
    grows: Collection[str] = (),
    gaps: Collection[str] = (),
    prefix: str = "",
) -> Any:
    """Return a state like another one with copies of `arrays`; what cannot be one is an `InvalidFile`.

    Shapes and types are those of `like`, but for the first axis of fields that `grows` names. Counts are not negative,
    products are positive, and numbers are finite but for fields with `gaps`.
    """
    loaded: dict[str, Any] = {}
    for name, value in _fields(like).items():
        path = prefix + name
        if isinstance(value, np.ndarray):
            loaded[name] = array = arrays[path].copy()
            check_like(path, array, value, grows=name in grows, gaps=name in gaps)
        else:
            loaded[name] = rebuild(value, arrays, grows=grows, gaps=gaps, prefix=f"{path}.")
    return loaded if isinstance(like, Mapping) else like._replace(**loaded)


def check_like(
    name: str, array: NDArray, like: NDArray, *, grows: bool = False, gaps: bool = False
) -> None:
    """Raise unless an array of a file has the shape and type of another, and numbers that can be."""
    free = int(grows)
    if (
        array.dtype != like.dtype
        or array.ndim != like.ndim
        or array.shape[free:] != like.shape[free:]
    ):
        raise InvalidFile(f"the array {name!r} has another shape or type than it should")
    if not (
        (gaps or np.isfinite(array).all())
        and (array.dtype.kind != "i" or (array >= 0).all())
        and (name.rpartition(".")[2] != "product" or (array > 0.0).all())
    ):
        raise InvalidFile(f"the array {name!r} has numbers that cannot be")


def adopt(state: Any, loaded: Any) -> Any:
    """Return a state with the numbers of another one, in its own arrays wherever they fit: others may look at them."""
    changed: dict[str, Any] = {}
    mine = _fields(state)
    for name, value in _fields(loaded).items():
        if not isinstance(value, np.ndarray):
            changed[name] = adopt(mine[name], value)
        elif mine[name].shape == value.shape:
            mine[name][...] = value
        else:
            changed[name] = value
    return state._replace(**changed)


def copy_into(target: NDArray, array: NDArray) -> None:
    """Copy an array of a file, where NumPy alone would also spread one entry over many."""
    check_like("array", array, target, gaps=True)
    target[...] = array


def _fields(state: Any) -> dict[str, Any]:
    fields = state if isinstance(state, Mapping) else state._asdict()
    return {name: value for name, value in fields.items() if name not in DERIVED}
