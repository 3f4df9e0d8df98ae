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
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from .errors import InvalidFile

VERSION = 1
SYNCS = 16  # files synced at the same time


def write_arrays(
    path: str | Path, kind: str, arrays: dict[str, NDArray], about: dict[str, Any]
) -> None:
    """Write `arrays` and the JSON-able `about` to `path`, whole or not at all."""
    replace(_as_path(path), pack(kind, arrays, about))


def pack(kind: str, arrays: dict[str, NDArray], about: dict[str, Any]) -> bytes:
    """The bytes of such a file."""
    from safetensors.numpy import save

    header = {"kind": kind, "version": VERSION, "about": about}
    header["blake2b"] = checksum(arrays, header)
    # One entry of metadata, since safetensors writes several in no fixed order. np.ascontiguousarray would turn a
    # number into an array of one.
    metadata = {"safespot": json.dumps(header, sort_keys=True, allow_nan=False)}
    whole = {name: np.asarray(array, order="C") for name, array in arrays.items()}
    data: bytes = save(whole, metadata)
    return data


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
    except (
        SafetensorError,
        ValueError,
        KeyError,
        TypeError,
        AttributeError,
        RecursionError,
    ) as problem:
        raise InvalidFile(
            f"{path} is not a safespot file or is damaged ({type(problem).__name__}: {problem}). "
            "Restore it from a copy."
        ) from None
    if checksum(arrays, header) != expected:
        raise InvalidFile(
            f"{path} is damaged: its checksum does not match. Restore it from a copy."
        )
    if version != VERSION:
        raise InvalidFile(
            f"{path} has format version {version}; this safespot reads {VERSION}. Upgrade safespot."
        )
    if found != kind:
        raise InvalidFile(f"{path} holds a {found}, expected a {kind}.")
    if not isinstance(about, dict):
        raise InvalidFile(
            f"{path} is damaged: it has no description of its content. Restore it from a copy."
        )
    return arrays, about


def _as_path(path: str | Path) -> Path:
    if not isinstance(path, (str, Path)) or "\0" in str(path):
        raise InvalidFile(f"a path must be a string or a Path, got {path!r}.")
    return Path(path)


class Disk:
    """Everything that is ever done to a disk, so that a test can put one here that fails."""

    def write(self, path: Path, data: bytes) -> None:
        """A new file that holds `data`, synced; the file object goes on after short writes."""
        with path.open("xb") as file:
            self.fill(file, data)
            self.sync(file.fileno())

    def fill(self, file: BinaryIO, data: bytes) -> None:
        """Hand `data` to the operating system."""
        left = memoryview(data)
        while left:  # a file without a buffer may take less than it is given
            left = left[file.write(left) :]
        file.flush()

    def sync(self, descriptor: int) -> None:
        """Have the operating system hand it to the disk."""
        os.fsync(descriptor)

    def put(self, file: BinaryIO, place: int, data: bytes) -> None:
        """Write over what a file holds at `place`, synced; its length stays.

        The file system's metadata then stay as they are, so that there is less to sync.
        """
        file.seek(place)
        self.fill(file, data)
        self.sync_data(file.fileno())

    def sync_data(self, descriptor: int) -> None:
        """Have the content of a file, but not its times, on the disk."""
        os.fdatasync(descriptor)

    def make_folder(self, path: Path) -> None:
        """A new folder, its name on the disk."""
        path.mkdir()
        self.sync_folder(path.parent)

    def rename(self, source: Path, target: Path) -> None:
        """Give a file its name, in place of what had it."""
        source.replace(target)

    def sync_folder(self, folder: Path) -> None:
        """Have the names in a folder on the disk."""
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            self.sync(descriptor)
        finally:
            os.close(descriptor)

    def remove(self, path: Path) -> None:
        """Take a file away; it may be gone already."""
        path.unlink(missing_ok=True)


disk = Disk()


def replace(path: Path, data: bytes) -> None:
    """Put `data` at `path` so that after a crash the old or the new content is there, whole."""
    replace_all({path: data})


def replace_all(files: Mapping[Path, bytes]) -> None:
    """The same for several files of one folder, each by itself, with one sync of the folder for all.

    They are synced at the same time, which a disk does in one go.
    """
    for path in files:
        if not path.name:
            raise InvalidFile(f"{path} is a folder; give the file a name.")
    temporary = {path: path.with_name(f".{path.name}.{secrets.token_hex(4)}.tmp") for path in files}
    path = next(iter(files))
    try:
        if len(files) == 1:
            disk.write(temporary[path], files[path])
        else:
            with ThreadPoolExecutor(min(SYNCS, len(files))) as threads:
                list(threads.map(disk.write, temporary.values(), files.values()))
        for path, source in temporary.items():
            disk.rename(source, path)
    except BaseException as problem:  # Ctrl-C too must not leave the temporary files behind
        for source in temporary.values():
            with contextlib.suppress(OSError):
                disk.remove(source)
        if not isinstance(problem, OSError):
            raise
        raise InvalidFile(
            f"cannot write {path}: {problem.strerror}. What was there before is untouched."
        ) from None
    for folder in {path.parent for path in files}:
        try:
            disk.sync_folder(folder)
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
