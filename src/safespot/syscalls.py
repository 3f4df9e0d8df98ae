"""Calls that depend on the system: locks that die with their process, syncs that reach the disk, interrupts, limits.

The only module that asks which system this is, by whether it has a call, when the call is needed.
"""

from __future__ import annotations

import contextlib
import errno
import io
import os
import signal
import stat
import threading
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]
    import msvcrt

PRIVATE = 0o600  # of what holds people's data: for its owner alone
BUSY = (errno.EACCES, errno.EAGAIN, errno.EWOULDBLOCK, errno.EDEADLK)
# Which byte a lock of Windows is on: behind the content, which others may still read. Its C library counts to 2^31.
BYTE = 2**31 - 2
UNSUPPORTED = (errno.EINVAL, errno.ENOTSUP, errno.ENOTTY)


def sync(descriptor: int) -> None:
    """Have a file, or the names in a folder, on the disk; macOS needs to be told to ask the disk itself."""
    if fcntl is not None and hasattr(fcntl, "F_FULLFSYNC"):
        try:
            fcntl.fcntl(descriptor, fcntl.F_FULLFSYNC)
        except OSError as exc:  # disks of a network do not know it
            if exc.errno not in UNSUPPORTED:
                raise
        else:
            return
    os.fsync(descriptor)


def sync_data(descriptor: int) -> None:
    """Have the content of a file on the disk, but not its times, where the system knows the difference."""
    if hasattr(os, "fdatasync"):
        os.fdatasync(descriptor)
    else:
        sync(descriptor)


def sync_folder(folder: Path, sync: Callable[[int], None] = sync) -> None:
    """Have the names in a folder on the disk, by way of `sync`; Windows has no way to ask for it."""
    if os.name == "nt":
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        sync(descriptor)
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def interrupts_held() -> Iterator[None]:
    """Have the processes that start in this block begin with SIGINT blocked, where the system can do that."""
    if not hasattr(signal, "pthread_sigmask"):  # Windows
        yield
        return
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)


class InterruptsDeferred:
    """A block that Ctrl-C does not cut: an interrupt that arrives in it is delivered at its end.

    In the main thread alone, which is the only one that Python interrupts, and where a Python function handles SIGINT.
    A kernel that compiles, a step of a learner: what is whole or absent, and takes a moment.
    """

    def __init__(self) -> None:
        self._handler: Callable[[int, FrameType | None], object] | None = None
        self._arrived: tuple[int, FrameType | None] | None = None

    def __enter__(self) -> None:
        if threading.current_thread() is not threading.main_thread():
            return
        handler = signal.getsignal(signal.SIGINT)
        if callable(handler):  # else it raises nothing: ignored, the system's own, or not Python's
            self._handler = handler
            signal.signal(signal.SIGINT, self._note)

    def __exit__(self, *_: object) -> None:
        handler, self._handler = self._handler, None
        if handler is None:
            return
        signal.signal(signal.SIGINT, handler)
        if self._arrived is not None:
            handler(*self._arrived)

    def _note(self, number: int, frame: FrameType | None) -> None:
        self._arrived = number, frame


class Lock:
    """A file that is open and locked as long as this object lives, in this process alone.

    A lock belongs to the open file, which a forked process would share and keep locked after the death of its
    parent: so such a process gives it up at once.
    """

    def __init__(self, file: io.FileIO) -> None:
        self.file = file
        _held.add(self)

    def is_at(self, path: Path) -> bool:
        """Return whether the path still names this file, and no other that took its place."""
        try:
            there = os.stat(path, follow_symlinks=False)
        except OSError:
            return False
        here = os.fstat(self.file.fileno())
        return here.st_nlink > 0 and os.path.samestat(here, there)

    def release(self) -> None:
        """Close the file, and with it goes the lock. What was synced cannot be lost by it, whatever it says."""
        _held.discard(self)
        with contextlib.suppress(OSError):
            self.file.close()

    def __del__(self) -> None:
        with contextlib.suppress(OSError):
            self.file.close()


def take_lock(path: Path, *, create: bool = False) -> Lock | None:
    """Lock the file at `path` and return it; None: another has it. No link is followed, and only a file is opened."""
    flags = os.O_RDWR | (os.O_CREAT if create else 0)
    for name in ("O_CLOEXEC", "O_NOFOLLOW", "O_NONBLOCK", "O_BINARY"):
        flags |= getattr(os, name, 0)
    file = io.FileIO(path, "r+", opener=lambda name, _: os.open(name, flags, PRIVATE))
    try:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise OSError(errno.EINVAL, "Not a file")
        if _lock(file.fileno()):
            return Lock(file)
    except BaseException:
        file.close()
        raise
    file.close()
    return None


def _lock(descriptor: int) -> bool:
    """Try to lock the file, without waiting; return whether this process has the lock."""
    try:
        if fcntl is not None:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        else:
            os.lseek(descriptor, BYTE, os.SEEK_SET)
            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
            os.lseek(descriptor, 0, os.SEEK_SET)
    except OSError as exc:
        if exc.errno in BUSY:
            return False
        raise
    return True


def raise_limit_of_files() -> None:
    """Raise the limit of open files as far as the system allows: a server's connections and learners need them."""
    try:
        import resource
    except ImportError:  # Windows, which has no such limit
        return
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


_held: weakref.WeakSet[Lock] = weakref.WeakSet()


def _give_up() -> None:
    """Release the inherited locks in a forked process; the parent keeps its own."""
    for lock in list(_held):
        lock.release()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_give_up)
