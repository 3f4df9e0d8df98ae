"""Files of arrays that run no code, notice damage, and are whole or absent.

A file is valid safetensors, so anyone can read it; its metadata carry our kind, a format version,
a JSON description and a BLAKE2b checksum over everything, since safetensors alone loads flipped
bits silently. Writing goes to a temporary file, which is synced and renamed; then the directory
is synced: a file that exists is whole.
"""

from __future__ import annotations

import contextlib
import errno
import functools
import hashlib
import json
import os
import secrets
import tempfile
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from . import __version__, syscalls
from .errors import DiskError, InvalidFile, SafespotError

FORMAT = 2  # of what files of arrays hold, but for these kinds
CHANGED = ("learner", "meter", "alarm", "certificate", "run", "checkpoint")
FORMATS = dict.fromkeys(CHANGED, 3)
PRIVATE = ("learner",)  # kinds of files that hold what was seen of people: for their owner alone
SYNCS = 16  # files synced at the same time
MEMORY = (
    2**30
)  # bytes that a file may ask for beyond its own length; SAFESPOT_MEMORY says otherwise
# A disk that is full, too slow, or gone; everything else is a wrong name or a missing permission.
FAILURES = {
    getattr(errno, name)
    for name in ("EDQUOT", "EFBIG", "EIO", "EMFILE", "ENFILE", "ENODEV", "ENOMEM", "ENOSPC", "ENXIO", "ESTALE",
                 "ETIMEDOUT")
    if hasattr(errno, name)
}  # fmt: skip


def write_arrays(
    path: str | Path, kind: str, arrays: dict[str, NDArray], about: dict[str, Any]
) -> None:
    """Write `arrays` and the JSON-able `about` to `path`, whole or not at all."""
    replace(as_path(path), pack(kind, arrays, about), private=kind in PRIVATE)


def pack(kind: str, arrays: dict[str, NDArray], about: dict[str, Any]) -> bytes:
    """Return the bytes of a file that `read_arrays` reads."""
    from safetensors.numpy import save

    version = FORMATS.get(kind, FORMAT)
    header = {"kind": kind, "version": version, "safespot": __version__, "about": about}
    header["blake2b"] = checksum(arrays, header)
    # One entry of metadata, since safetensors writes several in no fixed order. np.ascontiguousarray would turn a
    # number into an array of one.
    metadata = {"safespot": json.dumps(header, sort_keys=True, allow_nan=False)}
    whole = {name: np.asarray(array, order="C") for name, array in arrays.items()}
    data: bytes = save(whole, metadata)
    return data


def read_arrays(path: str | Path, kind: str) -> tuple[dict[str, NDArray], dict[str, Any]]:
    """Return the arrays and the description that `write_arrays` stored; raise `InvalidFile` for damage."""
    from safetensors import SafetensorError
    from safetensors.numpy import load

    data = read_bytes(path)
    try:
        # The library checks every declared size against the length of the data.
        arrays = load(data)
        whole = json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")])
        header = json.loads(whole["__metadata__"]["safespot"])
        expected = header.pop("blake2b")
        stored_kind, version, about = header["kind"], header["version"], header["about"]
    except (
        SafetensorError,
        ValueError,
        KeyError,
        TypeError,
        AttributeError,
        RecursionError,
    ) as exc:
        raise InvalidFile(
            f"{path} is not a safespot file or is damaged ({type(exc).__name__}: {exc}). "
            "Restore it from a copy."
        ) from None
    if checksum(arrays, header) != expected:
        raise InvalidFile(
            f"{path} is damaged: its checksum does not match. Restore it from a copy."
        )
    if stored_kind != kind:
        raise InvalidFile(f"{path} holds a {stored_kind}, expected a {kind}.")
    check_version(path, version, FORMATS.get(kind, FORMAT), header.get("safespot"))
    if not isinstance(about, dict):
        raise InvalidFile(
            f"{path} is damaged: it has no description of its content. Restore it from a copy."
        )
    return arrays, about


class OtherVersion(InvalidFile):
    """A file or folder that another version of safespot wrote."""


def check_version(path: str | Path, file_format: Any, expected: int, writer: Any = None) -> None:
    """Raise unless a file has the format that is read here; say which version wrote it and which one runs."""
    if file_format == expected and isinstance(file_format, int):
        return
    earlier = isinstance(file_format, int) and file_format < expected
    unnamed = "an earlier version of safespot" if earlier else "a later version of safespot"
    version = f"safespot {writer}" if isinstance(writer, str) else unnamed
    raise OtherVersion(
        f"{path} was written by {version} in format {file_format!r}; this is safespot {__version__}, which reads "
        f"format {expected}. " + ("Make it again." if earlier else "Upgrade safespot.")
    )


def stored_checksum(path: Path) -> str:
    """Return the checksum that a file of arrays carries; it identifies the content, if the file is whole."""
    try:
        with path.open("rb") as file:
            size = int.from_bytes(file.read(8), "little")
            whole = json.loads(file.read(min(size, path.stat().st_size)))
        return str(json.loads(whole["__metadata__"]["safespot"])["blake2b"])
    except OSError as exc:
        raise failure(f"cannot read {path}", exc) from None
    except (ValueError, KeyError, TypeError, RecursionError):
        raise InvalidFile(f"{path} is damaged: it carries no checksum.") from None


def read_bytes(path: str | Path) -> bytes:
    """Return the content of a file."""
    try:
        return as_path(path).read_bytes()
    except OSError as exc:
        raise failure(f"cannot read {path}", exc) from None


def failure(action: str, exc: OSError, more: str = "") -> SafespotError:
    """Return the error for a failed operation: a `DiskError` where the disk failed, else an `InvalidFile`."""
    if isinstance(exc, SafespotError):  # a `DiskError` says it already
        return exc
    message = f"{action}: {exc.strerror or exc}.{more}"
    if exc.errno not in FAILURES:
        return InvalidFile(message)
    error = DiskError(message)
    error.errno = exc.errno
    return error


def scratch() -> tempfile.TemporaryDirectory[str]:
    """Make a folder for temporary files."""
    try:
        return tempfile.TemporaryDirectory(prefix="safespot-")
    except OSError as exc:  # tempfile finds no place where every disk is full, and does not say why
        raise DiskError(
            f"cannot make a folder for temporary files: {exc.strerror or exc}."
        ) from None


def check_memory(path: str | Path, n_bytes: int) -> None:
    """Raise where a file asks for more memory than it may; what it holds itself does not count."""
    try:
        room = int(os.environ.get("SAFESPOT_MEMORY", MEMORY))
    except ValueError:
        raise InvalidFile("SAFESPOT_MEMORY must be a whole number of bytes.") from None
    if n_bytes > room:
        raise InvalidFile(
            f"{path} asks for {n_bytes:,} bytes of memory, more than the {room:,} that a file may ask for. If it is "
            f"meant, set the environment variable SAFESPOT_MEMORY to {n_bytes} or more."
        )


def as_path(path: str | Path) -> Path:
    """Return `path` as a Path that the operating system can take; raise `InvalidFile` otherwise."""
    if path == "":  # Path("") would be the current folder
        raise InvalidFile("a path is empty; give the name of a file or a folder.")
    if not isinstance(path, (str, Path)) or "\0" in str(path):
        raise InvalidFile(f"a path must be a string or a Path, got {path!r}.")
    try:
        os.lstat(path)
    except OSError as exc:
        if exc.errno == errno.ENAMETOOLONG:
            raise failure(f"{str(path)[:60]}… cannot be a path", exc) from None
    return Path(path)


class Disk:
    """The operations on disks, in one object that a test can replace by one that fails."""

    def write(self, path: Path, data: bytes, mode: int = 0o666) -> None:
        """Make a file that holds `data`, synced; the file object goes on after short writes."""
        with open(path, "xb", opener=lambda name, flags: os.open(name, flags, mode)) as file:
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
        syscalls.sync(descriptor)

    def put(self, file: BinaryIO, place: int, data: bytes) -> None:
        """Write over what a file holds at `place`, synced; its length stays.

        The file system's metadata then stay as they are, so that there is less to sync.
        """
        file.seek(place)
        self.fill(file, data)
        self.sync_data(file.fileno())

    def sync_data(self, descriptor: int) -> None:
        """Have the content of a file, but not its times, on the disk."""
        syscalls.sync_data(descriptor)

    def make_folder(self, path: Path) -> None:
        """Make a folder, and have its name on the disk."""
        path.mkdir()
        self.sync_folder(path.parent)

    def rename(self, source: Path, target: Path) -> None:
        """Give a file its name, in place of what had it."""
        source.replace(target)

    def sync_folder(self, folder: Path) -> None:
        """Have the names in a folder on the disk."""
        syscalls.sync_folder(folder, self.sync)

    def remove(self, path: Path) -> None:
        """Take a file away; it may be gone already."""
        path.unlink(missing_ok=True)


disk = Disk()


def replace(path: Path, data: bytes, *, private: bool = False) -> None:
    """Put `data` at `path` so that after a crash the old or the new content is there, whole.

    With `private`, only its owner may read the file.
    """
    replace_all({path: data}, private=private)


def replace_all(files: Mapping[Path, bytes], *, private: bool = False) -> None:
    """Put several files of one folder in place as `replace` does, with one sync of the folder for all.

    They are synced at the same time, which a disk does in one go.
    """
    write = functools.partial(disk.write, mode=syscalls.PRIVATE) if private else disk.write
    for path in files:
        if not path.name:
            raise InvalidFile(f"{path} is a folder; give the file a name.")
    temporary = {path: path.with_name(f".{path.name}.{secrets.token_hex(4)}.tmp") for path in files}
    path = next(iter(files))
    try:
        if len(files) == 1:
            write(temporary[path], files[path])
        else:
            with ThreadPoolExecutor(min(SYNCS, len(files))) as threads:
                list(threads.map(write, temporary.values(), files.values()))
        for path, source in temporary.items():
            disk.rename(source, path)
    except BaseException as exc:  # Ctrl-C too must not leave the temporary files behind
        for source in temporary.values():
            with contextlib.suppress(OSError):
                disk.remove(source)
        if not isinstance(exc, OSError):
            raise
        raise failure(f"cannot write {path}", exc, " What was there before is untouched.") from None
    for folder in {path.parent for path in files}:
        try:
            disk.sync_folder(folder)
        except OSError as exc:
            raise DiskError(
                f"{path} is written, but it may not survive a crash: its folder cannot be synced "
                f"({exc.strerror})."
            ) from None


def checksum(arrays: dict[str, NDArray], header: dict[str, Any]) -> str:
    """Return the BLAKE2b digest of names, types, shapes and bytes of `arrays` and of the JSON-able `header`."""
    digest = hashlib.blake2b(digest_size=32)
    digest.update(json.dumps(header, sort_keys=True).encode())
    for name in sorted(arrays):
        array = arrays[name]
        digest.update(json.dumps([name, array.dtype.str, list(array.shape)]).encode())
        digest.update(np.ascontiguousarray(array).data)
    return digest.hexdigest()
