"""Files of arrays that run no code, notice damage, and are whole or absent.

A file is valid safetensors, so anyone can read it; its metadata carry our kind, a format version,
a JSON description and a BLAKE2b checksum over everything, since safetensors alone loads flipped
bits silently. Writing goes to a temporary file, which is synced and renamed; then the directory
is synced: a file that exists is whole.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import secrets
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .errors import InvalidFile

VERSION = 1


def write_arrays(
    path: str | Path, kind: str, arrays: dict[str, NDArray], about: dict[str, Any]
) -> None:
    """Write `arrays` and the JSON-able `about` to `path`, whole or not at all."""
    from safetensors.numpy import save

    header = {"kind": kind, "version": VERSION, "about": about}
    header["blake2b"] = checksum(arrays, header)
    # One entry of metadata, since safetensors writes several in no fixed order. np.ascontiguousarray would turn a
    # number into an array of one.
    metadata = {"safespot": json.dumps(header, sort_keys=True, allow_nan=False)}
    data = save({name: np.asarray(array, order="C") for name, array in arrays.items()}, metadata)
    replace(_as_path(path), data)


def read_arrays(path: str | Path, kind: str) -> tuple[dict[str, NDArray], dict[str, Any]]:
    """The arrays and the description that `write_arrays` stored; damage is an `InvalidFile`."""
    from safetensors import SafetensorError
    from safetensors.numpy import load

    try:
        data = _as_path(path).read_bytes()
    except OSError as problem:
        raise InvalidFile(f"cannot read {path}: {problem.strerror}.") from None
    try:
        # The library checks every declared size against the length of the data.
        arrays = load(data)
        whole = json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")])
        header = json.loads(whole["__metadata__"]["safespot"])
        expected = header.pop("blake2b")
        found, version, about = header["kind"], header["version"], header["about"]
    except (SafetensorError, ValueError, KeyError, TypeError, AttributeError) as problem:
        raise InvalidFile(
            f"{path} is not a safespot file or is damaged ({type(problem).__name__}: {problem}). "
            "Restore it from a copy."
        ) from None
    if checksum(arrays, header) != expected:
        raise InvalidFile(f"{path} is damaged: its checksum does not fit. Restore it from a copy.")
    if version != VERSION:
        raise InvalidFile(
            f"{path} has format version {version}; this safespot reads {VERSION}. Upgrade safespot."
        )
    if found != kind:
        raise InvalidFile(f"{path} holds a {found}, expected a {kind}.")
    if not isinstance(about, dict):
        raise InvalidFile(f"{path} lacks its description.")
    return arrays, about


def _as_path(path: str | Path) -> Path:
    if not isinstance(path, (str, Path)) or "\0" in str(path):
        raise InvalidFile(f"a path must be a string or a Path, got {path!r}.")
    return Path(path)


def replace(path: Path, data: bytes) -> None:
    """Put `data` at `path` so that after a crash the old or the new content is there, whole."""
    if not path.name:
        raise InvalidFile(f"{path} is a folder; give the file a name.")
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}.tmp")
    try:
        with temporary.open("xb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException as problem:  # Ctrl-C too must not leave the temporary file behind
        with contextlib.suppress(OSError):
            temporary.unlink()
        if not isinstance(problem, OSError):
            raise
        raise InvalidFile(
            f"cannot write {path}: {problem.strerror}. What was there before is untouched."
        ) from None
    try:
        directory = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(directory)
        finally:
            os.close(directory)
    except OSError as problem:
        raise InvalidFile(
            f"{path} is written, but it may not survive a crash: its folder cannot be synced "
            f"({problem.strerror})."
        ) from None


def checksum(arrays: dict[str, NDArray], header: dict[str, Any]) -> str:
    """BLAKE2b over names, types, shapes and bytes of `arrays` and the JSON-able `header`."""
    digest = hashlib.blake2b(digest_size=32)
    digest.update(json.dumps(header, sort_keys=True).encode())
    for name in sorted(arrays):
        array = arrays[name]
        digest.update(json.dumps([name, array.dtype.str, list(array.shape)]).encode())
        digest.update(np.ascontiguousarray(array).data)
    return digest.hexdigest()
