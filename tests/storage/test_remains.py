"""What is left in a folder by processes that died or by whoever removed a file: opened again, or refused in words."""

from __future__ import annotations

import dataclasses
import errno
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pytest

import safespot as ss
from safespot.storage import journal, tables
from safespot.storage.folder import last_snapshot, take
from tests.reliability.disks import Power
from tests.reliability.survival import digest, on
from tests.support.contract import H, M, Subject

SPOT = Subject("spot", "masked")


@pytest.fixture(autouse=True)
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    """Journals of five episodes."""
    monkeypatch.setattr(journal, "RECORDS", 5)


def episodes(n: int) -> list[ss.Episode]:
    rng = np.random.default_rng(1)
    return [SPOT.episode(rng) for _ in range(n)]


def begin(folder: Path, n: int) -> ss.Learner:
    """A closed durable learner of n episodes; returns the plain one that saw the same."""
    plain: ss.Learner = SPOT.make()
    with ss.open(folder, SPOT.make()) as learner:
        for e in episodes(n):
            learner.observe(e)
            plain.observe(e)
    return plain


def snapshots(folder: Path) -> list[int]:
    return list(journal.numbered(folder, "snapshot"))


def test_a_snapshot_without_its_journal_serves_where_no_other_does(tmp_path: Path) -> None:
    """A process died between the two, and the snapshot before was lost."""
    folder = tmp_path / "it"
    plain = begin(folder, 10)  # a journal from 0 and one from 5, both full
    with ss.open(folder) as learner:
        learner.learner.save(folder / "snapshot-000000000010.safetensors")
    for number in (0, 5):
        (folder / f"snapshot-{number:012d}.safetensors").unlink()
    assert last_snapshot(folder)[0] == []  # it is not taken for a damaged one
    with ss.open(folder) as learner:
        assert digest(learner.learner) == digest(plain)
        assert journal.read(journal.place(folder, 10)).first == 10
        learner.observe(episodes(1)[0])
    assert snapshots(folder) == [10]


def test_a_snapshot_without_its_journal_is_made_anew(tmp_path: Path) -> None:
    folder = tmp_path / "it"
    plain = begin(folder, 10)
    lonely = folder / "snapshot-000000000010.safetensors"
    plain.save(lonely)
    bad, learner = last_snapshot(folder)
    assert (bad, learner.episode) == ([lonely], 6)
    with ss.open(folder) as opened:
        assert digest(opened.learner) == digest(plain)
    assert list(journal.numbered(folder, "journal")) == [0, 5, 10]


def test_doubts_come_from_the_journal_before_where_a_snapshot_has_none(tmp_path: Path) -> None:
    folder = tmp_path / "it"
    with ss.open(folder, SPOT.make()) as learner:
        for e, left_out in zip(episodes(5), (7, 0, 0, 0, 0), strict=True):
            learner.observe(dataclasses.replace(e, clipped=2, rejected=left_out))
        learner.learner.save(folder / "snapshot-000000000005.safetensors")
        doubts = vars(learner.learner.doubts).copy()
    (folder / "snapshot-000000000000.safetensors").unlink()
    with ss.open(folder) as learner:
        assert vars(learner.learner.doubts) == doubts
        assert learner.learner.doubts.rejected == 7
        assert learner.learner.doubts.clipped == 10


def test_names_that_a_killed_process_gave_are_on_the_disk_before_anything_is_acknowledged(
    tmp_path: Path,
) -> None:
    folder = tmp_path / "it"
    folder.mkdir()
    disk = Power()
    with on(disk):
        ss.open(folder, SPOT.make()).close()
    first = next(k for k, (what, *_) in enumerate(disk.log) if what == "create")
    assert ("folder", tmp_path) in disk.log[:first]  # the folder's own name
    disk = Power()
    with on(disk):
        ss.open(folder).close()
    assert ("folder", folder) in disk.log


def test_a_snapshot_that_no_journal_leads_to_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "it"
    begin(folder, 3)
    other = begin(tmp_path / "other", 4)
    (folder / "snapshot-000000000000.safetensors").unlink()
    other.save(folder / "snapshot-000000000004.safetensors")
    with pytest.raises(ss.errors.InvalidFile, match=r"no whole snapshot that .*journal-0+"):
        ss.open(folder)


def test_a_journal_of_another_shape_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "it"
    begin(folder, 0)
    path = journal.place(folder, 0)
    found = journal.read(path)
    journal.create(path, H + 1, M, 0, found.owner, found.snapshot, found.doubts)
    with pytest.raises(ss.errors.InvalidFile, match=r"journal-0+ holds episodes of another"):
        ss.open(folder)


def test_a_replay_finds_the_policies_again_that_played_or_says_so(tmp_path: Path) -> None:
    folder = tmp_path / "it"
    with ss.open(folder, SPOT.make()) as learner:
        own = ss.learners.policy_digest(learner.policy)
        learner.observe_group([journal.EpisodeRecord(episodes(1)[0], np.full(H, 0.123), own)])
        with pytest.raises(ss.errors.InvalidFile, match="episode 1 was not played by the"):
            list(learner.replay())


def test_an_owner_that_cannot_be_read_is_in_use_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "it"
    begin(folder, 1)

    def unreadable(self: Path, *_: Any, **__: Any) -> Any:
        raise PermissionError(self)

    with ss.open(folder), monkeypatch.context() as patch:
        patch.setattr(Path, "open", unreadable)
        with pytest.raises(ss.errors.InUse, match=r"is open already, by another process\."):
            take(folder)


def test_a_group_with_an_invalid_episode_is_refused_as_a_whole(tmp_path: Path) -> None:
    folder, (right, other) = tmp_path / "it", episodes(2)
    wrong = ss.Episode(
        other.states, other.actions, other.rewards + 9.0, other.constraints, other.thresholds
    )
    chances = np.full(H, np.nan)
    with ss.open(folder, SPOT.make()) as learner:
        own = ss.learners.policy_digest(learner.policy)
        for group in ([right, wrong], [wrong]):
            with pytest.raises(ss.errors.InvalidEpisode):
                learner.observe_group([journal.EpisodeRecord(e, chances, own) for e in group])
        assert learner.episode == 1
        learner.observe_group([journal.EpisodeRecord(right, chances, own)])  # it was not stopped
    assert journal.read(journal.place(folder, 0)).next == 1


def test_a_name_that_is_not_unicode_is_refused_before_duckdb_sees_it(tmp_path: Path) -> None:
    with pytest.raises(ss.errors.InvalidFile, match="has a name that is not Unicode"):
        tables.csv(tmp_path / "log\udcff.csv")


def test_rows_are_counted_before_they_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """8 bytes a number of every column of every file."""
    for name, rows in (("a", 10), ("b", 30)):
        duckdb.connect().execute(
            f"copy (select range from range({rows})) to '{tmp_path}/{name}.parquet'"
        )
    paths = [tmp_path / "a.parquet", tmp_path / "b.parquet"]
    with tables.connect() as database:
        monkeypatch.setenv("SAFESPOT_MEMORY", str(8 * 3 * 40))
        tables.check_rows(database, paths, 3)
        monkeypatch.setenv("SAFESPOT_MEMORY", str(8 * 3 * 40 - 1))
        with pytest.raises(ss.errors.InvalidFile, match=f"{tmp_path.name} asks for 960 bytes"):
            tables.check_rows(database, paths, 3)
        tables.check_rows(database, paths[:1], 3)
        with pytest.raises(ss.errors.InvalidFile, match=r"b\.parquet asks for 1,200 bytes"):
            tables.check_rows(database, paths[1:], 5)


def test_a_trail_that_cannot_be_written_is_an_error_in_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begin(tmp_path / "it", 1)
    with pytest.raises(ss.errors.InvalidFile, match=r"cannot write .*trail\.csv: No such file"):
        ss.logs.export_episodes(tmp_path / "it", tmp_path / "nowhere" / "trail.csv")

    def full(*_: Any, **__: Any) -> Any:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("tempfile.TemporaryDirectory", full)
    with pytest.raises(ss.errors.DiskError, match="temporary files: No space left on device"):
        ss.logs.export_episodes(tmp_path / "it", tmp_path / "trail.csv")
