"""The ledger: every request that changed something, one line each, in the order in which they were taken.

    <checksum> {"what": "start", "episode": …, "by": …, "at": …, …}

It is what a service remembers of open episodes when it is opened again, and the audit trail. A file of it
(`requests-<n>`) has its full length from the start, filled with zeros, so that syncing leaves the file system's
metadata alone; the next one begins with the lines of all episodes that are not in the journal yet, and has room for
as many bytes again. No file is ever removed. The end of that room is spare: where the disk has no room for the next
file, episodes can still be expired.

A line is handed to the operating system before its request is answered, so that it survives the process; what must
survive the machine (a start, an end) is answered after a `sync`, and says how much was synced before it. So after a
crash lines are missing only behind the last sync, and damage before it is noticed.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any, BinaryIO

from .. import files
from ..errors import InUse, InvalidFile, warn
from ..storage import journal
from ..syscalls import Lock, take_lock

BYTES = 2**24  # of one file
CHECK = 8  # bytes of a checksum
LONGEST = 512  # bytes of a line that is read for `newest`, on average

Event = dict[str, Any]
_encode = json.JSONEncoder(separators=(",", ":"), allow_nan=False).encode


class Ledger:
    """The ledger of a folder, open for more; whoever opens it has the learner's folder locked already."""

    end: int  # where the next line goes
    size: int  # of the file, from its making on
    synced: int  # up to where lines are on the disk for certain

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.events, self._number, end = _read(folder)
        self._lock: Lock | None = None
        if self._number is None:
            self._begin(0, [])
        else:
            self._use(_place(folder, self._number), end)
            # What a killed process wrote may not be on the disk yet, and what it tore must not stay.
            left = _place(folder, self._number).stat().st_size - end
            assert self._lock is not None
            files.disk.put(self._lock.file, end, bytes(left))
            self._lock.file.seek(end)

    @property
    def full(self) -> bool:
        """Return whether it is time for the next file.

        Lines that a file began with do not count: else a file that begins full would be followed at once.
        """
        return self.end > self.size - _spare()

    def write(self, event: Event, *, last: bool = False) -> bytes:
        """Add a line, and return it; it survives this process from now on."""
        if last:
            event["synced"] = self.synced
        data = as_line(event)
        assert self._lock is not None
        try:
            files.disk.fill(self._lock.file, data)
        except BaseException:
            self._lock.file.seek(self.end)  # the next line takes the place of the half of this one
            raise
        self.end += len(data)
        return data

    def sync(self) -> None:
        """Have all lines so far on the disk."""
        end = self.end
        assert self._lock is not None
        files.disk.sync_data(self._lock.file.fileno())
        self.synced = end

    def turn(self, lines: Iterable[bytes]) -> None:
        """Begin the next file with those of this one that are still needed."""
        assert self._number is not None
        self._begin(self._number + 1, lines)

    def close(self) -> None:
        """Close the file and release the lock."""
        if self._lock is not None:
            self._lock.release()

    def _begin(self, number: int, lines: Iterable[bytes]) -> None:
        data = b"".join(lines)
        path = _place(self.folder, number)
        room = max(BYTES, len(data)) + _spare()
        files.replace(path, data + bytes(room), private=True)
        self.close()
        self._number = number
        self._use(path, len(data))

    def _use(self, path: Path, end: int) -> None:
        self._lock = take_lock(path)
        if self._lock is None:
            raise InUse(f"another process is writing to {path}. Stop the service there first.")
        self._lock.file.seek(end)
        self.size = path.stat().st_size
        self.end = self.synced = end


def _spare() -> int:
    """Return the bytes of a file's end that are left for expiries: 256 kB, more than a thousand lines."""
    return BYTES // 64


def trail(folder: Path) -> Iterable[Event]:
    """Every line of every file, in order: the audit trail. Lines that a later file repeats come again."""
    for path in journal.numbered(folder, "requests").values():
        yield from _events(path)[0]


def newest(folder: Path, most: int) -> list[Event]:
    """The newest lines of the audit trail, the oldest of them first; no more is read than they may take."""
    found: list[Event] = []
    for path in reversed(journal.numbered(folder, "requests").values()):
        with path.open("rb") as file:
            end = _used(file)
            # `end` may be a line too far, and the first line that is read is seldom whole.
            file.seek(max(0, end - (most + 2) * LONGEST))
            lines = file.read(end - file.tell()).split(b"\n")
        found = [event for line in lines if (event := _event(line)) is not None] + found
        if len(found) >= most:
            break
    return found[-most:]


def _used(file: BinaryIO) -> int:
    """Where the zeros at the end of a file begin, to within a line: it has no zero before them."""
    low, high = 0, file.seek(0, 2)
    while high - low > LONGEST:
        middle = (low + high) // 2
        file.seek(middle)
        low, high = (low, middle) if file.read(1) == b"\0" else (middle, high)
    return high


def _place(folder: Path, number: int) -> Path:
    return folder / f"requests-{number:012d}"


def as_line(event: Event) -> bytes:
    """An event as it is written."""
    text = _encode(event).encode()
    return hashlib.blake2b(text, digest_size=CHECK).hexdigest().encode() + b" " + text + b"\n"


def _read(folder: Path) -> tuple[list[Event], int | None, int]:
    """The events of the last file, its number, and where the next line goes."""
    with contextlib.suppress(OSError):
        for left in folder.glob(".requests-*.tmp"):  # by a process that died
            files.disk.remove(left)
    found = journal.numbered(folder, "requests")
    if not found:
        return [], None, 0
    number = max(found)
    events, end = _events(found[number])
    return events, number, end


def _events(path: Path) -> tuple[list[Event], int]:
    """The whole lines of a file, and where they end; damage before the last sync is an `InvalidFile`."""
    data = files.read_bytes(path).rstrip(b"\0")
    events: list[Event] = []
    place, end, torn = 0, 0, False
    for line in data.split(b"\n"):
        event = _event(line)
        if event is None:
            torn = True
        elif torn:
            if event.get("synced", 0) > end:
                raise InvalidFile(
                    f"{path} is damaged at byte {end}: what stood there was on the disk. Restore it from a copy."
                )
        else:
            events.append(event)
            end = place + len(line) + 1
        place += len(line) + 1
    if data[end:].strip(b"\0"):
        warn(
            f"{path} has a torn end: {len(data) - end} bytes from byte {end} on, which were not synced yet."
        )
    return events, end


def _event(line: bytes) -> Event | None:
    check, _, text = line.partition(b" ")
    if hashlib.blake2b(text, digest_size=CHECK).hexdigest().encode() != check:
        return None
    event: Event = json.loads(text)
    return event
