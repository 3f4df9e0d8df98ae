"""Journals as files: what their headers may say, which names count, and what is told of a damaged end."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import safespot as ss
from safespot.signals.doubts import Doubts
from safespot.storage import journal

H, M = 2, 1
OWNER, SNAPSHOT = bytes(range(16)), bytes(range(32))
LENGTH = journal.record_length(H, M)
START = journal.HEAD.size + journal.CHECK


def made(*arrays: Any, **more: Any) -> ss.Episode:
    return ss.Episode(*arrays, **more)


EPISODE = made([0, 1, 0], [1, 0], [0.5, 0.25], [[1.0], [0.0]], [[0.5], [np.nan]])


def create(folder: Path, first: int = 0, **changed: Any) -> Path:
    path = journal.place(folder, first)
    given = {"H": H, "m": M, "first": first, "owner": OWNER, "snapshot": SNAPSHOT, **changed}
    journal.create(path, **given, doubts=Doubts())
    return path


def write(path: Path, *groups: list[journal.EpisodeRecord]) -> journal.Writer:
    writer = journal.Writer(journal.read(path), journal.lock(path))
    for group in groups:
        writer.write(group)
    writer.close()
    return writer


def record(k: int = 0, **changed: Any) -> journal.EpisodeRecord:
    return journal.EpisodeRecord(EPISODE, np.full(H, 0.5), **changed)


def with_header(path: Path, **changed: Any) -> None:
    """Say something else in a header, with a right checksum."""
    names = ("magic", "format", "H", "m", "room", "first", "owner", "snapshot")
    data = path.read_bytes()
    values = list(journal.HEAD.unpack(data[: journal.HEAD.size]))
    for name, value in changed.items():
        values[names.index(name)] = value
    head = journal.HEAD.pack(*values)
    path.write_bytes(head + journal.checksum(head) + data[START:])


def test_what_is_written_is_read_again(tmp_path: Path) -> None:
    path = create(tmp_path, first=7)
    assert path.name == "journal-000000000007"
    ticket, played = bytes(range(16)), "ab" * 32
    written = write(path, [record(), record(ticket=ticket)], [record(played=played)])
    found = journal.read(path, OWNER)
    assert (found.H, found.m, found.first, found.next) == (H, M, 7, 10)
    assert (found.owner, found.snapshot, found.lost) == (OWNER, SNAPSHOT, None)
    assert found.end == written.end == START + 3 * LENGTH
    assert (written.number, written.left) == (10, found.room - 3)
    assert found.records["number"].tolist() == [7, 8, 9]
    assert found.records["since"].tolist() == [7, 7, 9]  # the first of their groups
    assert found.records["ticket"][1].tobytes() == ticket
    assert [found.played(k) for k in range(3)] == [None, None, played]
    for name in ("states", "actions", "rewards", "constraints", "thresholds"):
        np.testing.assert_array_equal(getattr(found.episode(2), name), getattr(EPISODE, name))
    assert not found.episode(0).unfinished
    assert path.stat().st_size == START + found.room * LENGTH  # its full length from the start


@pytest.mark.parametrize(
    ("limit", "room"), [(10 * LENGTH, 10), (10 * LENGTH - 1, 9), (LENGTH, 1), (LENGTH - 1, 1)]
)
def test_a_journal_is_as_long_as_its_bytes_allow_and_holds_one_record_at_least(
    limit: int, room: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journal, "BYTES", limit)
    path = create(tmp_path)
    assert journal.read(path).room == room
    assert path.stat().st_size == START + room * LENGTH
    if room == 9:  # a header that asks for more than there may be
        with_header(path, room=10)
        with pytest.raises(ss.errors.InvalidFile, match="its header contradicts"):
            journal.read(path)


@pytest.mark.parametrize(
    "changed",
    [{"H": 0}, {"m": 0}, {"room": 0}, {"room": 999}, {"H": 1}, {"first": 2**62 + 1}, {"H": 2**31}],
)
def test_a_header_that_contradicts_the_file(changed: dict[str, int], tmp_path: Path) -> None:
    path = create(tmp_path)
    with_header(path, **changed)
    with pytest.raises(ss.errors.InvalidFile, match="at byte 0: its header contradicts the"):
        journal.read(path)


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"magic": b"elsewise"}, "damaged at byte 0: it does not begin"),
        ({"format": journal.FORMAT + 1}, "format"),
        ({"format": journal.FORMAT - 1}, "format"),
        ({"owner": bytes(16)}, "belongs to another learner"),
    ],
)
def test_another_kind_of_file(changed: dict[str, Any], words: str, tmp_path: Path) -> None:
    path = create(tmp_path)
    with_header(path, **changed)
    with pytest.raises(ss.errors.InvalidFile, match=words):
        journal.read(path, OWNER)


def test_a_header_alone_is_a_journal_and_one_byte_less_is_not(tmp_path: Path) -> None:
    path = create(tmp_path)
    whole = path.read_bytes()
    path.write_bytes(whole[:START])
    found = journal.read(path)
    assert (len(found.records), found.end) == (0, START)
    assert found.lost is not None
    assert f"{len(whole) - START} bytes too short" in found.lost
    path.write_bytes(whole[: START - 1])
    with pytest.raises(ss.errors.InvalidFile, match="damaged at byte 0"):
        journal.read(path)


@pytest.mark.parametrize(
    ("torn", "words"),
    [
        (1, "1 bytes from byte {end} on, where the record of episode 9 would stand"),
        (LENGTH, "where the record of episode 9 would stand"),
        (LENGTH + 1, "where the records of episodes 9 to 10 would stand"),
        (3 * LENGTH, "where the records of episodes 9 to 11 would stand"),
    ],
)
def test_what_a_torn_end_may_have_held(torn: int, words: str, tmp_path: Path) -> None:
    path = create(tmp_path, first=7)
    write(path, [record()])
    data = bytearray(path.read_bytes())
    end = START + LENGTH
    data[end : end + torn] = b"x" * torn
    path.write_bytes(data)
    found = journal.read(path)
    assert (len(found.records), found.end) == (1, end)
    assert words.format(end=end) in str(found.lost)
    write(path)  # whoever writes next clears it away, to the end
    assert journal.read(path).lost is None


def test_names_that_count(tmp_path: Path) -> None:
    for name in (
        "journal-000000000010", "journal-000000000002", "journal-1000000000000", "journal-12",
        ".journal-000000000003", "journal-000000000004.tmp", "snapshot-000000000005.safetensors",
        "snapshot-000000000006.npz", "snapshot-x00000000007", "journal-000000000008~",
    ):  # fmt: skip
        (tmp_path / name).touch()
    assert list(journal.numbered(tmp_path, "journal")) == [2, 10, 10**12]
    assert list(journal.numbered(tmp_path, "snapshot")) == [5]


def test_journals_follow_each_other(tmp_path: Path) -> None:
    (tmp_path / "identity").write_text(OWNER.hex() + "\n")
    write(create(tmp_path), [record(), record()])
    write(create(tmp_path, first=2), [record()])
    assert [found.first for found in journal.chain(tmp_path, 0)] == [0, 2]
    assert [found.first for found in journal.chain(tmp_path, 2)] == [2]
    with pytest.raises(ss.errors.InvalidFile, match=r"lacks the episodes 2 to 2, before"):
        list(journal.chain(tmp_path, 1))
    create(tmp_path, first=4)
    with pytest.raises(ss.errors.InvalidFile, match=r"lacks the episodes 4 to 4, before"):
        list(journal.chain(tmp_path, 0))
    journal.place(tmp_path, 4).rename(journal.place(tmp_path, 3))  # its header says another number
    with pytest.raises(ss.errors.InvalidFile, match="lacks the episodes"):
        list(journal.chain(tmp_path, 0))


@pytest.mark.parametrize(
    "text", ["", "ab" * 16, "AB" * 16 + "\n", "ab" * 17 + "\n", "xy" * 16 + "\n"]
)
def test_a_damaged_name(text: str, tmp_path: Path) -> None:
    (tmp_path / "identity").write_text(text)
    with pytest.raises(ss.errors.InvalidFile, match=r"identity is damaged\. Restore it"):
        journal.name_of(tmp_path)


def test_a_name_is_made_once_and_stays(tmp_path: Path) -> None:
    with pytest.raises(ss.errors.InvalidFile):
        journal.name_of(tmp_path)
    name = journal.name_of(tmp_path, create=True)
    assert len(name) == 16
    assert journal.name_of(tmp_path, create=True) == journal.name_of(tmp_path) == name
    assert (tmp_path / "identity").stat().st_mode & 0o777 == 0o600


def test_a_journal_is_one_writers(tmp_path: Path) -> None:
    path = create(tmp_path)
    held = journal.lock(path)
    with pytest.raises(ss.errors.InUse, match=r"another process is writing to"):
        journal.lock(path)
    held.release()
    journal.lock(path).release()


def test_a_record_that_was_not_acknowledged_is_not_found(tmp_path: Path) -> None:
    """The journal is removed under its writer: what was written to the file without a name is taken back."""
    path = create(tmp_path)
    writer = journal.Writer(journal.read(path), journal.lock(path))
    writer.write([record()])
    copy = tmp_path / "copy"
    copy.hardlink_to(path)
    path.unlink()
    with pytest.raises(FileNotFoundError, match="was removed or replaced"):
        writer.write([record()])
    writer.close()
    assert (writer.number, writer.end) == (1, START + LENGTH)
    found = journal.read(copy)
    assert (len(found.records), found.lost) == (1, None)
