"""Journals: files of episodes, one checked record each, written in order and never again.

    header    "safespot", format, H, m, room for how many records, the number of the first, whose it is (a random
              name that all journals of a learner share), the checksum of the snapshot that it follows, what was in
              doubt of the data until then (`Doubts`), checksum
    record    length, number, the number of the first record that was synced together with it, the episode, how many
              of its steps took place, the probability of each action, who played it, how many episodes were before
              that policy, its ticket, its marks (`MARKS`), checksum
    record    …
    zeros     room for the records to come

A journal has its full length from the start, so that syncing a record leaves the file system's metadata alone, and a
cut is noticed wherever it falls. All records are equally long, so the place of each is known whatever became of those
before it. Records are written in groups, and a group is synced before the next one is written: after a crash the
records of the last group may be torn, any of them, and no others. So damage that whole records of a later group follow
did not happen while writing (an error), and damage at the end may be one (`lost`).

Numbers are little-endian; checksums are BLAKE2b of all that stands before them in the header or record. A record's has
the header's as its key, so that a record of another journal, or of another learner, is none of this one.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import re
import secrets
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .. import files
from ..arrays import EPISODE, MARKS, Episode, Float
from ..errors import InUse, InvalidFile
from ..signals.doubts import Doubts
from ..syscalls import Lock, take_lock

FORMAT = 4
MAGIC = b"safespot"
HEAD = struct.Struct("<8sIIIIQ16s32sQQQ")
CHECK = 16  # bytes of a checksum
DIGEST = 32  # bytes of a policy's digest; zeros: the learner's own policy of that moment
TICKET = 16  # bytes by which whoever recorded an episode knows it again; zeros: none
UNKNOWN = -1  # version of a policy that is not the learner's, or state that was never seen
RECORDS = 1000  # of a journal, at most: so many episodes are played again when a learner is opened
BYTES = 2**22  # of its records, at most, unless one alone is longer


def record_type(H: int, m: int) -> np.dtype:
    """The fields of a record of an episode with H steps and m constraints."""
    return np.dtype(
        [
            ("length", "<u4"),
            ("number", "<u8"),
            ("since", "<u8"),
            ("states", "<i8", (H + 1,)),
            ("actions", "<i8", (H,)),
            ("rewards", "<f8", (H,)),
            ("constraints", "<f8", (H, m)),
            ("thresholds", "<f8", (H, m)),
            ("probabilities", "<f8", (H,)),
            ("steps", "<u4"),
            ("played", np.void, DIGEST),
            ("version", "<i8"),
            ("ticket", np.void, TICKET),
            *((name, "<u4") for name in MARKS),
            ("check", np.void, CHECK),
        ]
    )


def record_length(H: int, m: int) -> int:
    """Its length in bytes, however large H and m are said to be."""
    return 20 + 8 * (4 * H + 1 + 2 * H * m) + 4 + DIGEST + 8 + TICKET + 4 * len(MARKS) + CHECK


def checksum(data: bytes, key: bytes = b"") -> bytes:
    """What makes damage to `data` show; of a record, `key` is the checksum of its journal's header."""
    return hashlib.blake2b(data, digest_size=CHECK, key=key).digest()


def create(
    path: Path, H: int, m: int, first: int, owner: bytes, snapshot: bytes, doubts: Doubts
) -> None:
    """An empty journal, whole or absent, whose first record will have the number `first`."""
    length = record_length(H, m)
    room = min(RECORDS, max(1, BYTES // length))
    head = HEAD.pack(MAGIC, FORMAT, H, m, room, first, owner, snapshot, *vars(doubts).values())
    files.replace(path, head + checksum(head) + bytes(room * length), private=True)


def place(folder: Path, first: int) -> Path:
    """Where the journal that begins with that number is kept."""
    return folder / f"journal-{first:012d}"


def numbered(folder: Path, kind: str) -> dict[int, Path]:
    """The files of a folder whose names are a kind and a number, by their numbers, in order."""
    found = {}
    for path in folder.glob(f"{kind}-*"):
        if match := re.fullmatch(rf"{kind}-(\d{{12,}})(\.safetensors)?", path.name):
            found[int(match[1])] = path
    return dict(sorted(found.items()))


@dataclass(frozen=True, eq=False)
class Journal:
    """What a journal holds."""

    path: Path
    H: int
    m: int
    first: int  # the number of the first record
    room: int  # for how many records it was made
    owner: bytes  # whose it is
    snapshot: bytes  # the checksum of the snapshot that it follows
    key: bytes  # the checksum of its header, which its records are bound to
    doubts: Doubts  # what was in doubt of the data before it
    records: NDArray  # of `record_type`: the whole ones
    end: int  # where the next one goes
    lost: str | None  # what cannot be read at the end; None: nothing

    @property
    def next(self) -> int:
        """The number of the next record."""
        return self.first + len(self.records)

    def episode(self, k: int) -> Episode:
        """The k-th episode; an `InvalidEpisode` where the record holds none."""
        record = self.records[k]
        fields: dict[str, Any] = {name: record[name] for name in EPISODE}
        fields |= {name: int(record[name]) for name in MARKS}
        return Episode(**fields)

    def played(self, k: int) -> str | None:
        """The digest of the policy that played the k-th episode; None: the learner's own."""
        digest: bytes = self.records[k]["played"].tobytes()
        return digest.hex() if any(digest) else None


def read(path: Path, name: bytes | None = None) -> Journal:
    """The journal in a file; damage before its end is an `InvalidFile` that names the place.

    With `name`, it must be the journal of the learner of that name.
    """
    data = files.read_bytes(path)
    start = HEAD.size + CHECK
    head = data[: HEAD.size]
    check_format(path, head)
    if len(data) < start or head[:8] != MAGIC or checksum(head) != data[HEAD.size : start]:
        raise InvalidFile(f"{path} is damaged at byte 0: it does not begin as a journal does.")
    _, _, H, m, room, first, owner, snapshot, *doubted = HEAD.unpack(head)
    if owner != (owner if name is None else name):
        raise InvalidFile(
            f"{path} belongs to another learner than {path.with_name('identity')}. Restore it from a copy."
        )
    length = record_length(H, m)
    size = start + room * length
    if (
        min(H, m, room) < 1
        or size < len(data)
        or room * length > max(BYTES, length)
        or first > 2**62
    ):
        raise InvalidFile(f"{path} is damaged at byte 0: its header contradicts the file's length.")
    slots = [data[place : place + length] for place in range(start, len(data), length)]
    key = data[HEAD.size : start]
    whole = [_is_whole(slot, length, first + k, key) for k, slot in enumerate(slots)]
    count = whole.index(False) if False in whole else len(whole)
    end = start + count * length
    # Where a later group follows, this record was on the disk once.
    if any(
        fits and struct.unpack_from("<Q", slot, 12)[0] > first + count
        for fits, slot in zip(whole[count:], slots[count:], strict=True)
    ):
        raise InvalidFile(
            f"{path} is damaged at byte {end}: the record of episode {first + count + 1} is not what was "
            "written, and whole records follow. Restore the file from a copy."
        )
    records = (
        np.frombuffer(data, record_type(H, m), count, start)
        if count
        else np.empty(0, record_type(1, 1))
    )
    lost = _lost(data, size, end, length, first + count)
    doubts = Doubts(*doubted)
    return Journal(path, H, m, first, room, owner, snapshot, key, doubts, records, end, lost)


def check_format(path: Path, head: bytes | None = None) -> None:
    """Raise unless a journal begins as one of this version does; its header may have another length in others."""
    head = files.read_bytes(path) if head is None else head
    magic, version = struct.unpack_from("<8sI", head.ljust(12, b"\0"))
    if magic == MAGIC and 0 < version < 2**16:  # else it is damaged
        files.check_version(path, version, FORMAT)


def name_of(folder: Path, *, create: bool = False) -> bytes:
    """The random name of the learner in a folder, which all its journals carry."""
    path = folder / "identity"
    if create and not path.exists():
        files.replace(path, f"{secrets.token_hex(16)}\n".encode(), private=True)
    text = files.read_bytes(path).decode(errors="replace")
    if not re.fullmatch(r"[0-9a-f]{32}\n", text):
        raise InvalidFile(f"{path} is damaged. Restore it from a copy.")
    return bytes.fromhex(text)


def chain(folder: Path, first: int) -> Iterator[Journal]:
    """The journals from episode number `first` on; each must begin where the one before ends."""
    owner = name_of(folder)
    journals = {n: path for n, path in numbered(folder, "journal").items() if n >= first}
    expected = first
    for number, path in journals.items():
        found = read(path, owner)
        last = number == max(journals)
        if number != expected or found.first != number:
            raise InvalidFile(
                f"{folder} lacks the episodes {expected + 1} to {number}, before {path.name}."
            )
        if found.lost is not None and not last:
            raise InvalidFile(f"{path} is damaged at byte {found.end}, and journals follow it.")
        expected = found.next
        yield found


def _is_whole(slot: bytes, length: int, number: int, key: bytes) -> bool:
    return (
        len(slot) == length
        and struct.unpack_from("<IQ", slot) == (length, number)
        and checksum(slot[:-CHECK], key) == slot[-CHECK:]
    )


def _lost(data: bytes, size: int, end: int, length: int, number: int) -> str | None:
    """What cannot be read after the whole records, in words; None: nothing but zeros stands there."""
    tail = data[end:].rstrip(b"\0")
    if len(data) < size:
        return f"whatever stood from byte {end} on, since the file is {size - len(data)} bytes too short"
    if not tail:
        return None
    episodes = -(-len(tail) // length)
    if episodes == 1:
        return (
            f"{len(tail)} bytes from byte {end} on, where the record of episode {number + 1} would stand. If the "
            "machine stopped while it was written, it was never acknowledged"
        )
    return (
        f"{len(tail)} bytes from byte {end} on, where the records of episodes {number + 1} to {number + episodes} "
        "would stand. If the machine stopped while they were written, those of the last group were never acknowledged"
    )


def lock(path: Path) -> Lock:
    """A journal, open for writing, for us alone."""
    locked = take_lock(path)
    if locked is None:
        raise InUse(f"another process is writing to {path}. Close the learner there first.")
    return locked


class EpisodeRecord(NamedTuple):
    """An episode as it is written down."""

    episode: Episode
    probabilities: Float  # [H]: of its actions
    played: str | None = None  # the digest of the policy that played it; None: the learner's own
    ticket: bytes = bytes(TICKET)
    version: int = UNKNOWN  # of the policy with that digest: how many episodes it has learned from
    steps: int | None = None  # that took place, of an episode that was given up; None: all


class Writer:
    """A journal that is open for the next records, and locked: nobody else writes to it."""

    def __init__(self, journal: Journal, lock: Lock) -> None:
        self.type, self.path, self.lock = record_type(journal.H, journal.m), journal.path, lock
        self.key = journal.key
        self.number, self.end = journal.next, journal.end
        self.left = journal.room - len(journal.records)
        self.size = self.end + self.left * self.type.itemsize  # of the file, from its making on
        # What a killed process wrote may not be on the disk yet, and what it tore must not stay.
        rest = self.left * self.type.itemsize if journal.lost else 0
        files.disk.put(lock.file, self.end, bytes(rest))

    def write(self, records: Sequence[EpisodeRecord]) -> None:
        """Add records, at most as many as there is room `left`; when this returns they are on the disk."""
        data = b"".join(self._bytes(record, k) for k, record in enumerate(records))
        try:
            # Behind a cut the next record would stand after a gap, and none of them could be read again.
            if os.fstat(self.lock.file.fileno()).st_size != self.size:
                raise FileNotFoundError(errno.ENOENT, f"{self.path.name} was cut or made longer")
            files.disk.put(self.lock.file, self.end, data)
            if not self.lock.is_at(self.path):  # a file without a name is gone when it is closed
                raise FileNotFoundError(errno.ENOENT, f"{self.path.name} was removed or replaced")
        except BaseException:
            # They are not acknowledged, so they should not be found; but nothing depends on that.
            with contextlib.suppress(OSError):
                files.disk.put(self.lock.file, self.end, bytes(len(data)))
            raise
        self.number += len(records)
        self.left -= len(records)
        self.end += len(data)

    def _bytes(self, given: EpisodeRecord, k: int) -> bytes:
        """The k-th record of a group."""
        episode, record = given.episode, np.zeros((), self.type)
        record["length"], record["number"] = self.type.itemsize, self.number + k
        record["since"] = self.number
        for name in EPISODE:
            record[name] = getattr(episode, name)
        record["probabilities"] = given.probabilities
        record["steps"] = len(episode.actions) if given.steps is None else given.steps
        record["played"] = np.void(bytes.fromhex(given.played or "00" * DIGEST))
        record["version"] = self.number + k if given.played is None else given.version
        record["ticket"] = np.void(given.ticket)
        for name in MARKS:
            record[name] = min(getattr(episode, name), 2**32 - 1)
        data = record.tobytes()[:-CHECK]
        return data + checksum(data, self.key)

    def close(self) -> None:
        """Close the file and release the lock."""
        self.lock.release()
