"""One's own model from a file: arrays in `.npz` or safetensors, a TOML, or a log of episodes.

The names in a file of arrays are the arguments of `CMDP`: transitions, rewards, constraints, thresholds, and start,
senses, actions, reward_range, constraint_ranges, horizon, names and units where they are needed. What `CMDP.save` wrote
is read
too. A log (`.csv`, `.parquet`) becomes its empirical model, with the options of `read_log` and `empirical_model`.
Nothing in a file is ever executed.
"""

from __future__ import annotations

import inspect
import io
import json
import tomllib
import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import safetensors
from numpy.typing import NDArray
from safetensors.numpy import load_file

from ..errors import InvalidFile, InvalidOption, SafespotError, unknown
from ..files import as_path, check_memory, read_bytes
from ..model.cmdp import CMDP
from ..model.outcome_tables import Ending
from ..signals.interface import ARGUMENTS
from ..storage.tables import FORMATS
from .empirical import EmpiricalModel, empirical_model
from .logs import Log, read_log

NEEDED = ("transitions", "rewards", "constraints", "thresholds")
TEXTS = ("senses", "state_names", "action_names", "limit_names", "units")
COUNTS = ("horizon",)
# What reading a file of another kind can raise; a RecursionError is a RuntimeError.
UNREADABLE = (OSError, ValueError, EOFError, RuntimeError, zipfile.BadZipFile, zlib.error)


def read_cmdp(path: str | Path, /, **options: Any) -> CMDP:
    """Return the CMDP in a file, by the ending of its name; a log has the options of `read_model`."""
    path = as_path(path)
    if path.is_dir():
        raise InvalidFile(f"{path} is a folder; expected a file, {', '.join(ENDINGS)}.")
    if path.suffix not in ENDINGS:
        raise InvalidFile(
            f"{path} has an unknown ending; expected a name that ends in {', '.join(ENDINGS)}."
        )
    if not path.is_file():
        raise InvalidFile(f"file not found: {path}.")
    if path.suffix in FORMATS:
        return read_model(path, **options)[1].cmdp
    if options:
        raise InvalidOption(
            f"{path}: unknown option {next(iter(options))!r}. A model file takes no options; only logs do."
        )
    if path.suffix == ".safetensors" and _is_ours(path):
        return CMDP.load(path)
    try:
        content = READERS[path.suffix](path)
    except SafespotError:
        raise
    except (*UNREADABLE, safetensors.SafetensorError) as exc:
        raise InvalidFile(f"cannot read {path}: {exc}.") from None
    return CMDP(**_arguments(content, path))


def read_model(path: str | Path, /, **options: Any) -> tuple[Log, EmpiricalModel]:
    """Return a log and its empirical model; the options are those of `read_log` and `empirical_model`."""
    log = read_logged(path, **options)
    return log, empirical_model(log, stationary=options.get("stationary", False))


def read_logged(path: str | Path, /, **options: Any) -> Log:
    """Return a log; the options are those of `read_log`.

    Options may come from TOML: an ending is then a table of its reward and its constraints, and several are a
    table of such tables by state. What is declared of limits has the keys of an interface.
    """
    takes = ("columns", "endings", *ARGUMENTS)
    for name in options:
        if name not in takes:
            raise InvalidOption(f"log {path}: {unknown('option', name, takes)}")
    if isinstance(options.get("endings"), dict):
        options = {**options, "endings": _endings(options["endings"])}
    return read_log(path, **options)


def read_array(path: str | Path) -> NDArray:
    """Return the array of an `.npy` file."""
    path = as_path(path)
    try:
        return _npy(read_bytes(path))
    except SafespotError:
        raise
    except (*UNREADABLE,) as exc:
        raise InvalidFile(f"cannot read {path}: {exc}.") from None


def _endings(table: Mapping[str, Any]) -> Ending | dict[int | str, Ending]:
    try:
        if set(table) == {"reward", "constraints"}:
            return Ending(**table)
        return {int(s) if s.isdecimal() else s: Ending(**each) for s, each in table.items()}
    except (TypeError, ValueError):
        raise InvalidOption(
            f"endings cannot be read: {table!r}. Write {{ reward = 0, constraints = [0] }}, or by state, "
            "{ 5 = { reward = 0, constraints = [1] } }."
        ) from None


def _is_ours(path: Path) -> bool:
    try:
        with safetensors.safe_open(path, "numpy") as file:
            return "safespot" in (file.metadata() or {})
    except (OSError, safetensors.SafetensorError) as exc:
        raise InvalidFile(f"cannot read {path}: {exc}.") from None


def _npz(path: Path) -> Mapping[str, Any]:
    # In memory, where asking for more than there is gives what there is: on disk it would make room first.
    with zipfile.ZipFile(io.BytesIO(path.read_bytes())) as archive:
        entries = archive.infolist()
        for entry in entries:
            if entry.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
                raise ValueError("a compression that NumPy does not use")
        # No entry gives more than it says, whatever it is compressed from.
        check_memory(path, sum(entry.file_size for entry in entries))
        return {entry.filename.removesuffix(".npy"): _npy(archive.read(entry)) for entry in entries}


def _npy(data: bytes) -> NDArray:
    """Read an array of an archive. NumPy itself would make room for it on the word of its header alone."""
    file = io.BytesIO(data)
    heads = {
        (1, 0): np.lib.format.read_array_header_1_0,
        (2, 0): np.lib.format.read_array_header_2_0,
    }
    version = np.lib.format.read_magic(file)
    if version not in heads:
        raise ValueError(f"an unknown array format {version}")
    shape, columns_first, dtype = heads[version](file)
    if dtype.hasobject:
        raise ValueError("an array of Python objects, which would have to be unpickled")
    array: NDArray = np.frombuffer(data, dtype, offset=file.tell())
    return array.reshape(shape, order="F" if columns_first else "C")


def _safetensors(path: Path) -> Mapping[str, Any]:
    with safetensors.safe_open(path, "numpy") as file:
        texts = {k: v for k, v in (file.metadata() or {}).items() if k in TEXTS}
    return {**load_file(path), **{k: json.loads(v) for k, v in texts.items()}}


def _toml(path: Path) -> Mapping[str, Any]:
    return tomllib.loads(path.read_text(encoding="utf-8"))


READERS = {".npz": _npz, ".safetensors": _safetensors, ".toml": _toml}  # by the ending
ENDINGS = (*READERS, *FORMATS)


def _arguments(content: Mapping[str, Any], path: Path) -> dict[str, Any]:
    """Check the arguments of `CMDP` in a file: no other names, and no array where one value is expected."""
    takes = list(inspect.signature(CMDP).parameters)
    wrong = [f"  {unknown('name', name, takes)}" for name in content if name not in takes]
    wrong += [f"  {name!r} is missing." for name in NEEDED if name not in content]
    if wrong:
        raise InvalidFile("\n".join([f"{path} does not describe a CMDP:", *wrong]))
    arguments = dict(content)
    for name, value in content.items():
        if not isinstance(value, np.ndarray):
            continue
        if name in TEXTS:
            arguments[name] = value.tolist()
        elif name in COUNTS or (name == "start" and value.ndim == 0):
            if value.size != 1:
                raise InvalidFile(f"{path}: {name} has {value.size} numbers; expected one.")
            arguments[name] = value.item()
    horizon = arguments.get("horizon", 1)
    if isinstance(horizon, int):
        constraints = (
            np.shape(content["thresholds"])[:1] if _rectangular(content["thresholds"]) else ()
        )
        check_memory(
            path, 8 * 2 * max([1, *constraints]) * horizon
        )  # thresholds, spread over the steps
    return arguments


def _rectangular(value: Any) -> bool:
    try:
        return np.asarray(value).ndim > 0
    except ValueError:
        return False
