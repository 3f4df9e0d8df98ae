"""Locks, syncs and interrupts of other systems, on this one: each call is taken away, or put there."""

from __future__ import annotations

import errno
import importlib.util
import multiprocessing
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from safespot import syscalls


def fresh() -> ModuleType:
    """The module as a new process would import it, beside the one in use."""
    spec = importlib.util.spec_from_file_location("safespot._other_system", syscalls.__file__)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class Msvcrt(ModuleType):
    """Windows' locks of one byte of a file, between open files."""

    LK_NBLCK = 2

    def __init__(self) -> None:
        super().__init__("msvcrt")
        self.locked: dict[tuple[int, int], int] = {}  # (file, byte) -> descriptor
        self.trouble = errno.EACCES

    def locking(self, descriptor: int, mode: int, count: int) -> None:
        position = os.lseek(descriptor, 0, os.SEEK_CUR)
        assert (mode, count) == (self.LK_NBLCK, 1)
        assert position < 2**31  # what its C library can count
        place = os.fstat(descriptor).st_ino, position
        if self.locked.setdefault(place, descriptor) != descriptor:
            raise OSError(self.trouble, "Permission denied")


@pytest.fixture
def msvcrt(monkeypatch: pytest.MonkeyPatch) -> Iterator[Msvcrt]:
    """A system without fcntl, fdatasync, fork and the flags of POSIX."""
    found = Msvcrt()
    monkeypatch.setitem(sys.modules, "fcntl", None)
    monkeypatch.setitem(sys.modules, "msvcrt", found)
    for name in ("fdatasync", "register_at_fork", "O_CLOEXEC", "O_NOFOLLOW", "O_NONBLOCK"):
        monkeypatch.delattr(os, name)
    return found


@pytest.mark.parametrize("trouble", [errno.EACCES, errno.EDEADLK])
def test_windows_locks_a_byte_behind_the_content(
    msvcrt: Msvcrt, trouble: int, tmp_path: Path
) -> None:
    other, path = fresh(), tmp_path / "lock"
    assert other.fcntl is None
    path.write_bytes(b"content")
    msvcrt.trouble = trouble
    lock = other.take_lock(path)
    assert lock is not None
    assert lock.is_at(path)
    assert lock.file.read() == b"content"  # at its beginning, as it was opened
    assert other.take_lock(path) is None
    msvcrt.locked.clear()
    assert other.take_lock(path) is not None


def test_another_trouble_of_a_lock_is_told(msvcrt: Msvcrt, tmp_path: Path) -> None:
    other = fresh()
    first = other.take_lock(tmp_path / "lock", create=True)
    msvcrt.trouble = errno.EIO
    with pytest.raises(OSError, match="Permission denied"):
        other.take_lock(tmp_path / "lock")
    assert first is not None


def test_windows_syncs_files_and_asks_nothing_of_folders(
    msvcrt: Msvcrt, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    other = fresh()
    asked: list[int] = []
    monkeypatch.setattr(os, "fsync", asked.append)
    other.sync_data(7)
    other.sync(8)
    assert asked == [7, 8]
    monkeypatch.setattr(
        other, "os", SimpleNamespace(name="nt")
    )  # which cannot open a folder at all
    other.sync_folder(tmp_path)
    assert asked == [7, 8]


@pytest.fixture
def full_sync(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """macOS, whose fsync leaves data in the disk's own memory: no fdatasync, but a call that asks the disk."""
    asked: list[Any] = []

    def fcntl(descriptor: int, command: int) -> int:
        asked.append((descriptor, command))
        if descriptor == 9:
            raise OSError(errno.ENOTSUP, "Operation not supported")
        if descriptor == 10:
            raise OSError(errno.EIO, "Input/output error")
        return 0

    monkeypatch.setattr(syscalls, "fcntl", SimpleNamespace(F_FULLFSYNC=51, fcntl=fcntl))
    monkeypatch.delattr(os, "fdatasync")
    monkeypatch.setattr(os, "fsync", lambda descriptor: asked.append(descriptor))
    return asked


def test_macos_asks_the_disk_itself(full_sync: list[Any]) -> None:
    syscalls.sync(7)
    syscalls.sync_data(8)
    assert full_sync == [(7, 51), (8, 51)]


def test_a_disk_that_cannot_be_asked_is_synced_as_others(full_sync: list[Any]) -> None:
    syscalls.sync(9)
    assert full_sync == [(9, 51), 9]
    with pytest.raises(OSError, match="Input/output"):
        syscalls.sync(10)  # a disk that fails has not synced


def test_linux_syncs_content_without_its_times(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []
    monkeypatch.setattr(os, "fdatasync", asked.append, raising=False)
    monkeypatch.setattr(os, "fsync", lambda _: pytest.fail("fdatasync is enough"))
    syscalls.sync_data(7)
    assert asked == [7]


def test_interrupts_are_held_where_the_system_can(monkeypatch: pytest.MonkeyPatch) -> None:
    with syscalls.interrupts_held():
        assert signal.SIGINT in signal.pthread_sigmask(signal.SIG_BLOCK, [])
    assert signal.SIGINT not in signal.pthread_sigmask(signal.SIG_BLOCK, [])
    monkeypatch.delattr(signal, "pthread_sigmask")
    with syscalls.interrupts_held():
        pass


def _held_elsewhere(path: Path) -> bool:
    return syscalls.take_lock(path) is None


def test_a_spawned_process_meets_the_lock(tmp_path: Path) -> None:
    lock = syscalls.take_lock(tmp_path / "lock", create=True)
    assert lock is not None
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        assert pool.apply(_held_elsewhere, (tmp_path / "lock",))
        lock.release()
        assert not pool.apply(_held_elsewhere, (tmp_path / "lock",))


def test_no_other_module_asks_for_a_system_s_own_calls() -> None:
    """What is missing elsewhere is asked for here alone; benchmarks measure this system."""
    folder = Path(syscalls.__file__).parent
    own = (
        "fcntl",
        "msvcrt",
        "fdatasync",
        "pthread_sigmask",
        "os.fork(",
        "import resource",
        "import pwd",
    )
    for source in folder.rglob("*.py"):
        if source.name != "syscalls.py" and "benchmarks" not in source.parts:
            text = source.read_text(encoding="utf-8")
            assert [name for name in own if name in text] == [], source


def test_a_lock_is_at_its_path_while_that_names_the_same_file(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    lock = syscalls.take_lock(path, create=True)
    assert lock is not None
    assert lock.is_at(path)
    path.rename(tmp_path / "elsewhere")
    assert not lock.is_at(path)
    path.touch()  # another file of that name
    assert not lock.is_at(path)
    assert lock.is_at(tmp_path / "elsewhere")
