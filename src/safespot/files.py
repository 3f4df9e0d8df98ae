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

    metadata = {
        "kind": kind,
        "version": str(VERSION),
        "about": json.dumps(about, sort_keys=True, allow_nan=False),
    }
    metadata["blake2b"] = _checksum(arrays, metadata)
    # np.ascontiguousarray would turn a number into an array of one.
    data = save({k: np.asarray(v, order="C") for k, v in arrays.items()}, metadata)
    replace(Path(path), _ordered(data))


def read_arrays(path: str | Path, kind: str) -> tuple[dict[str, NDArray], dict[str, Any]]:
    """The arrays and the description that `write_arrays` stored; damage is an `InvalidFile`."""
    from safetensors import SafetensorError
    from safetensors.numpy import load

    try:
        data = Path(path).read_bytes()
    except OSError as problem:
        raise InvalidFile(f"cannot read {path}: {problem.strerror}.") from None
    try:
        # The library checks every declared size against the length of the data.
        arrays = load(data)
        header = json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")])
        metadata = header["__metadata__"]
        expected = metadata.pop("blake2b")
        found, version = metadata["kind"], int(metadata["version"])
    except (SafetensorError, ValueError, KeyError, TypeError, AttributeError) as problem:
        raise InvalidFile(
            f"{path} is not a safespot file or is damaged ({type(problem).__name__}: {problem}). "
            "Restore it from a copy."
        ) from None
    if _checksum(arrays, metadata) != expected:
        raise InvalidFile(f"{path} is damaged: its checksum does not fit. Restore it from a copy.")
    if version != VERSION:
        raise InvalidFile(
            f"{path} has format version {version}; this safespot reads {VERSION}. Upgrade safespot."
        )
    if found != kind:
        raise InvalidFile(f"{path} holds a {found}, expected a {kind}.")
    return arrays, json.loads(metadata["about"])


def replace(path: Path, data: bytes) -> None:
    """Put `data` at `path` so that after a crash the old or the new content is there, whole."""
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}.tmp")
    try:
        with temporary.open("xb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except OSError as problem:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise InvalidFile(
            f"cannot write {path}: {problem.strerror}. What was there before is untouched."
        ) from None
    directory = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)


def _ordered(data: bytes) -> bytes:
    """The same file with its metadata in order, which safetensors shuffles: the same state is the same bytes."""
    end = 8 + int.from_bytes(data[:8], "little")
    header = json.loads(data[8:end])
    header["__metadata__"] = dict(sorted(header["__metadata__"].items()))
    text = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode()
    text += b" " * (-len(text) % 8)  # tensors stay aligned
    return len(text).to_bytes(8, "little") + text + data[end:]


def _checksum(arrays: dict[str, NDArray], metadata: dict[str, str]) -> str:
    digest = hashlib.blake2b(digest_size=32)
    digest.update(json.dumps(metadata, sort_keys=True).encode())
    for name in sorted(arrays):
        array = arrays[name]
        digest.update(json.dumps([name, array.dtype.str, list(array.shape)]).encode())
        digest.update(np.ascontiguousarray(array).data)
    return digest.hexdigest()
