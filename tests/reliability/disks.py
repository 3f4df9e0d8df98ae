"""Disks for tests: one that kills its process, one that fails, one that remembers what a power failure could leave.

`Power` keeps what a disk may forget: contents until they are synced, names until their folder is. An image is what may
be found after the power fails: any of the names, and of unsynced contents nothing, either half, or all.
"""

from __future__ import annotations

import contextlib
import errno
import itertools
import os
import random
import signal
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

from safespot import files

Log = list[tuple[Any, ...]]


# --- kill -9


class Killing(files.Disk):
    """Kills this process before, in the middle of, or after the n-th thing that is done to the disk."""

    def __init__(self, number: int) -> None:
        self.number, self.count = number, 0

    def step(self) -> None:
        self.count += 1
        if self.count == self.number:
            os.kill(os.getpid(), signal.SIGKILL)

    def fill(self, file: BinaryIO, data: bytes) -> None:
        self.step()
        half = len(data) // 2
        super().fill(file, data[:half])
        self.step()
        super().fill(file, data[half:])
        self.step()

    def sync(self, descriptor: int) -> None:
        super().sync(descriptor)
        self.step()

    def sync_data(self, descriptor: int) -> None:
        super().sync_data(descriptor)
        self.step()

    def rename(self, source: Path, target: Path) -> None:
        super().rename(source, target)
        self.step()

    def remove(self, path: Path) -> None:
        super().remove(path)
        self.step()


def killed(work: Callable[[], Any], after: float | None = None) -> bool:
    """Do `work` in a copy of this process, which may kill itself, or is killed after some seconds."""
    child = os.fork()
    if child == 0:
        try:
            work()
            os._exit(0)
        except BaseException:
            os._exit(1)
    if after is not None:
        time.sleep(after)
        with contextlib.suppress(ProcessLookupError):
            os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    assert os.WIFSIGNALED(status) or os.WEXITSTATUS(status) == 0
    return os.WIFSIGNALED(status)


# --- Errors


class Stepping(files.Disk):
    """Calls `step` before each thing that is done to it."""

    def step(self) -> None:
        raise NotImplementedError

    def fill(self, file: BinaryIO, data: bytes) -> None:
        self.step()
        super().fill(file, data)

    def sync(self, descriptor: int) -> None:
        self.step()
        super().sync(descriptor)

    def sync_data(self, descriptor: int) -> None:
        self.step()
        super().sync_data(descriptor)

    def rename(self, source: Path, target: Path) -> None:
        self.step()
        super().rename(source, target)


class Failing(Stepping):
    """The n-th thing that is done to it fails, and all after it; whoever dies of that does not tidy up."""

    def __init__(self, number: int, code: int = errno.ENOSPC) -> None:
        self.left, self.code = number, code

    def step(self) -> None:
        self.left -= 1
        if self.left < 0:
            raise OSError(self.code, os.strerror(self.code))

    def make_folder(self, path: Path) -> None:
        self.step()
        super().make_folder(path)

    def remove(self, path: Path) -> None:
        if self.left >= 0:
            super().remove(path)


@contextlib.contextmanager
def room(size: int) -> Iterator[None]:
    """Let no file grow beyond a size: the system refuses the write, as on a full disk (EFBIG for ENOSPC)."""
    import resource  # Windows has none

    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def full(folder: Path) -> contextlib.AbstractContextManager[None]:
    """Let no file grow beyond the largest one of a folder: what has its room already can be written to."""
    return room(max(path.stat().st_size for path in folder.iterdir()))


# --- Power loss


@dataclass
class Image:
    """Names and contents as they may be found."""

    names: dict[Path, int] = field(default_factory=dict)  # -> which content
    contents: dict[int, bytes] = field(default_factory=dict)
    lost: set[Path] = field(default_factory=set)  # folders that are gone, with all that is in them

    @property
    def files(self) -> dict[Path, bytes]:
        """The content of every file."""
        return {
            path: self.contents[inode]
            for path, inode in self.names.items()
            if path.parent not in self.lost
        }


class Power(files.Disk):
    """Does everything for real, and remembers in which order."""

    def __init__(self) -> None:
        self.log: Log = []

    def named(self, path: Path) -> Path:
        """The name that goes into the log."""
        return path

    def write(self, path: Path, data: bytes, mode: int = 0o666) -> None:
        self.log.append(("create", self.named(path)))
        super().write(path, data, mode)

    def fill(self, file: BinaryIO, data: bytes) -> None:
        place = file.tell()
        super().fill(file, data)
        self.log.append(("put", self.named(Path(file.name)), place, data))

    def sync(self, descriptor: int) -> None:
        super().sync(descriptor)
        path = Path(os.readlink(f"/proc/self/fd/{descriptor}"))
        self.log.append(("folder", path) if path.is_dir() else ("sync", self.named(path)))

    def sync_data(self, descriptor: int) -> None:
        super().sync_data(descriptor)
        self.log.append(("sync", self.named(Path(os.readlink(f"/proc/self/fd/{descriptor}")))))

    def make_folder(self, path: Path) -> None:
        self.log.append(("make", path))
        super().make_folder(path)

    def rename(self, source: Path, target: Path) -> None:
        super().rename(source, target)
        self.log.append(("rename", source, target))

    def remove(self, path: Path) -> None:
        super().remove(path)
        self.log.append(("remove", path))


class Unsynced(Power):
    """Broken on purpose: contents are not synced."""

    def sync(self, descriptor: int) -> None:
        if Path(f"/proc/self/fd/{descriptor}").is_dir():
            super().sync(descriptor)

    def sync_data(self, descriptor: int) -> None:
        pass


class Unnamed(Power):
    """Broken on purpose: folders are not synced."""

    def sync_folder(self, folder: Path) -> None:
        pass


class InPlace(Power):
    """Broken on purpose: files get their content under their own name."""

    def named(self, path: Path) -> Path:
        if path.suffix != ".tmp":
            return path
        return path.with_name(path.name.removeprefix(".").rsplit(".", 2)[0])

    def rename(self, source: Path, target: Path) -> None:
        files.Disk.rename(self, source, target)


class Died(BaseException):
    """Stands for a kill, in a test that must go on."""


class Dying(Stepping, Power):
    """Does no more from the n-th thing on, until it is revived: what was not synced stays so."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self.left = number

    def step(self) -> None:
        self.left -= 1
        if self.left < 0:
            raise Died

    def revive(self) -> None:
        self.left = 10**9

    def write(self, path: Path, data: bytes, mode: int = 0o666) -> None:
        self.step()
        super().write(path, data, mode)

    def remove(self, path: Path) -> None:
        self.step()
        super().remove(path)


class Contents:
    """A file's content: what is on the disk for certain, and what it has become since."""

    def __init__(self) -> None:
        self.synced = self.now = b""

    def put(self, place: int, data: bytes) -> None:
        self.now = self.now[:place] + data + self.now[place + len(data) :]

    def sync(self) -> None:
        self.synced = self.now

    def found(self) -> list[bytes]:
        """What may be found: the old, the new, or either half of what has changed."""
        old, new = self.synced, self.now
        if old == new:
            return [old] * 4
        changed = [k for k in range(max(len(old), len(new))) if old[k : k + 1] != new[k : k + 1]]
        half = (changed[0] + changed[-1] + 1) // 2
        return [old, new[:half] + old[half:], old[:half].ljust(half, b"\0") + new[half:], new]


def images(log: Log, rng: random.Random, subsets: int = 6) -> Iterator[tuple[int, Image]]:
    """For every moment, what may be found if the power fails then."""
    durable: dict[Path, int] = {}
    contents: dict[int, Contents] = {}
    now: dict[Path, int] = {}
    changes: list[tuple[Path, int | None]] = []  # of names, not yet on the disk
    folders: set[Path] = set()  # made, and their names not yet on the disk
    number = itertools.count()
    for moment, (what, *about) in enumerate(log, 1):
        if what == "create":
            now[about[0]] = inode = next(number)
            contents[inode] = Contents()
            changes.append((about[0], inode))
        elif what == "put":
            contents[now[about[0]]].put(*about[1:])
        elif what == "sync":
            contents[now[about[0]]].sync()
        elif what == "rename":
            inode = now.pop(about[0])
            now[about[1]] = inode
            changes += [(about[1], inode), (about[0], None)]
        elif what == "remove":
            if now.pop(about[0], None) is not None:
                changes.append((about[0], None))
        elif what == "make":
            folders.add(about[0])
        elif what == "folder":
            folders -= {path for path in folders if path.parent == about[0]}
            for path, inode_or_none in [c for c in changes if c[0].parent == about[0]]:
                _apply(durable, path, inode_or_none)
            changes = [c for c in changes if c[0].parent != about[0]]
        chosen = [[], changes] + [
            [c for c in changes if rng.random() < 0.5] for _ in range(subsets)
        ]
        found = {inode: content.found() for inode, content in contents.items()}
        for subset, how in itertools.product(chosen, range(4)):
            names = dict(durable)
            for path, inode_or_none in subset:
                _apply(names, path, inode_or_none)
            kept = {inode: found[inode][how] for inode in names.values()}
            yield moment, Image(names, kept, set() if subset else set(folders))


def _apply(names: dict[Path, int], path: Path, inode: int | None) -> None:
    if inode is None:
        names.pop(path, None)
    else:
        names[path] = inode
