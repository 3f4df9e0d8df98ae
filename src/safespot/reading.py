"""One's own model from a file: arrays in `.npz` or safetensors, or a TOML.

The names in the file are the arguments of `CMDP`: transitions, rewards, constraints, thresholds, and start, senses,
actions, reward_range, constraint_ranges and horizon where they are needed. What `CMDP.save` wrote is read too.
Nothing in a file is ever executed.
"""

from __future__ import annotations

import inspect
import json
import tomllib
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import safetensors
from safetensors.numpy import load_file

from .cmdp import CMDP
from .errors import InvalidFile

NEEDED = ("transitions", "rewards", "constraints", "thresholds")
TEXTS = ("senses",)
COUNTS = ("horizon",)


def read_cmdp(path: str | Path) -> CMDP:
    """The CMDP in a file, by the ending of its name."""
    path = Path(path)
    if path.suffix not in READERS:
        raise InvalidFile(f"{path}: expected a name that ends in {', '.join(sorted(READERS))}.")
    if not path.is_file():
        raise InvalidFile(f"there is no file {path}.")
    if path.suffix == ".safetensors" and _is_ours(path):
        return CMDP.load(path)
    try:
        content = READERS[path.suffix](path)
    except (
        OSError,
        ValueError,
        EOFError,
        zipfile.BadZipFile,
        safetensors.SafetensorError,
    ) as problem:
        raise InvalidFile(f"cannot read {path}: {problem}.") from None
    return CMDP(**_arguments(content, path))


def _is_ours(path: Path) -> bool:
    try:
        with safetensors.safe_open(path, "numpy") as file:
            return "safespot" in (file.metadata() or {})
    except (OSError, safetensors.SafetensorError) as problem:
        raise InvalidFile(f"cannot read {path}: {problem}.") from None


def _npz(path: Path) -> Mapping[str, Any]:
    with np.load(path, allow_pickle=False) as arrays:
        return {name: arrays[name] for name in arrays.files}


def _safetensors(path: Path) -> Mapping[str, Any]:
    with safetensors.safe_open(path, "numpy") as file:
        texts = {k: v for k, v in (file.metadata() or {}).items() if k in TEXTS}
    return {**load_file(path), **{k: json.loads(v) for k, v in texts.items()}}


def _toml(path: Path) -> Mapping[str, Any]:
    return tomllib.loads(path.read_text(encoding="utf-8"))


READERS = {".npz": _npz, ".safetensors": _safetensors, ".toml": _toml}  # by the ending


def _arguments(content: Mapping[str, Any], path: Path) -> dict[str, Any]:
    """The arguments of `CMDP`: no other names, and no array where a single thing is meant."""
    takes = list(inspect.signature(CMDP).parameters)
    unknown = [name for name in content if name not in takes]
    missing = [name for name in NEEDED if name not in content]
    if unknown or missing:
        raise InvalidFile(
            f"{path} describes no CMDP: "
            + "; ".join(
                [f"there is no such name as {name!r}" for name in unknown]
                + [f"{name!r} is missing" for name in missing]
            )
            + f". It takes {', '.join(takes)}."
        )
    arguments = dict(content)
    for name, value in content.items():
        if not isinstance(value, np.ndarray):
            continue
        if name in TEXTS:
            arguments[name] = value.tolist()
        elif name in COUNTS or (name == "start" and value.ndim == 0):
            arguments[name] = value.item()
    return arguments
