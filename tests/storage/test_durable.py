"""A durable learner: the same bits after opening it again, and plain words about whatever is wrong."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO

import duckdb
import numpy as np
import pytest

import safespot as ss
from safespot import files
from safespot.arrays import MARKS
from safespot.storage import journal
from tests.reliability.survival import digest
from tests.support.contract import INVALID, VARIANTS, H, M, Subject, applies

SPOT = Subject("spot", "masked")
SUBJECTS = [Subject(name, next(iter(VARIANTS[name]))) for name in ss.learners.names()]
Five = tuple[Path, Path, Callable[[int], str]]
LENGTH = journal.record_length(H, M)
START = journal.HEAD.size + journal.CHECK


@pytest.fixture(autouse=True)
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    """Journals of ten episodes."""
    monkeypatch.setattr(journal, "RECORDS", 10)


def episodes(n: int, subject: Subject = SPOT) -> list[ss.Episode]:
    rng = np.random.default_rng(1)
    return [subject.episode(rng) for _ in range(n)]


def begin(folder: Path, n: int, subject: Subject = SPOT) -> Any:
    """A closed durable learner of n episodes in `folder`; returns the plain one that saw the same."""
    plain = subject.make()
    with ss.open(folder, subject.make()) as learner:
        for e in episodes(n, subject):
            learner.observe(e)
            plain.observe(e)
    return plain


def same(folder: Path, plain: ss.Learner) -> bool:
    with ss.open(folder) as learner:
        return digest(learner.learner) == digest(plain)


# --- The same bits


@pytest.mark.parametrize("subject", SUBJECTS, ids=repr)
def test_every_learner_comes_back_bit_for_bit(subject: Subject, tmp_path: Path) -> None:
    plain = begin(tmp_path / "it", 25, subject)
    for e in episodes(40, subject)[25:]:  # five to a snapshot, ten beyond it
        with ss.open(tmp_path / "it", subject.make()) as learner:
            assert digest(learner.learner) == digest(plain)
            learner.observe(e)
            plain.observe(e)
    assert same(tmp_path / "it", plain)


def test_it_reads_and_acts_as_the_learner_does(tmp_path: Path) -> None:
    plain = begin(tmp_path / "it", 15)
    with ss.open(tmp_path / "it") as learner:
        for name in ("policy", "threshold_bounds"):
            np.testing.assert_array_equal(getattr(learner, name), getattr(plain, name))
        assert learner.episode == 16
        assert "<td" in learner._repr_html_()
        assert learner.interface.arguments == plain.interface.arguments
        one, two = (
            [it.act(h, 1, np.random.default_rng(h)) for h in range(H)] for it in (learner, plain)
        )
        assert one == two
        learner.save(tmp_path / "copy")
        assert digest(ss.learners.load(tmp_path / "copy")) == digest(plain)


def test_the_learner_that_is_given_is_the_beginning_and_stays_as_it_is(tmp_path: Path) -> None:
    given = SPOT.run(SPOT.make(), 3, 30)
    before = digest(given)
    with ss.open(tmp_path / "it", given) as learner:
        assert learner.episode == 31
        learner.observe(episodes(1)[0])
    assert digest(given) == before
    given.observe(episodes(1)[0])
    with ss.open(tmp_path / "it", SPOT.make()) as learner:  # what is kept counts, not what is given
        assert digest(learner.learner) == digest(given)


def test_an_episode_beyond_t_is_warned_of_and_counted(tmp_path: Path) -> None:
    rng, problem = np.random.default_rng(0), SPOT.make()
    short = ss.Spot(
        **problem.interface.arguments, action_mask=problem.interface.mask, episodes=3, slack=1.0
    )
    with ss.open(tmp_path / "it", short) as learner:
        for left in (3, 2, 1):
            assert learner.learner.lifetime.left(learner.episode) == left
            learner.observe(SPOT.episode(rng))
        with pytest.warns(UserWarning, match=r"beyond the learner's T = 3 \(0 remain\)"):
            learner.observe(SPOT.episode(rng))
        learner.observe(SPOT.episode(rng))  # once is enough
    with ss.open(tmp_path / "it") as learner:  # what was played before is not warned of again
        assert learner.episode == 6
        with pytest.warns(UserWarning, match="an episode goes beyond"):
            learner.observe(SPOT.episode(rng))


def test_two_snapshots_and_all_journals_are_kept(tmp_path: Path) -> None:
    begin(tmp_path / "it", 35)
    assert list(journal.numbered(tmp_path / "it", "snapshot")) == [20, 30]
    assert list(journal.numbered(tmp_path / "it", "journal")) == [0, 10, 20, 30]
    assert len(list((tmp_path / "it").iterdir())) == 8  # and the owner and the identity


def test_learn_takes_one_in_an_environment(tmp_path: Path) -> None:
    problem = ss.problems.make("triage")
    plain = ss.Spot(**problem.interface, episodes=20, rho=2.0)
    with ss.open(tmp_path / "it", plain) as learner:
        ss.learn(ss.gym.ProblemEnv(problem), learner, 12)
    run = ss.learn(ss.gym.ProblemEnv(problem), plain, 12)
    assert same(tmp_path / "it", plain)
    assert isinstance(run.learner, ss.Spot)
    with (
        ss.open(tmp_path / "it") as learner,
        pytest.raises(ss.errors.InvalidOption, match="takes a Problem and a plain learner"),
    ):
        ss.learn(problem, learner)  # its compiled loop would pass the journal by


def test_a_plan_that_fails_fails_again_and_no_episode_is_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    subject = Subject("opt-cmdp", "always")
    plan, calls = type(subject.make()).plan, [0]

    def fails(self: Any) -> Any:
        calls[0] += 1
        if self.episode == 4:
            raise ss.errors.SolverError("gave up")
        return plan(self)

    monkeypatch.setattr(type(subject.make()), "plan", fails)
    plain, failed = subject.make(), []
    with ss.open(tmp_path / "it", subject.make()) as learner:
        for e in episodes(6, subject):
            for it in (learner, plain):
                try:
                    it.observe(e)
                except ss.errors.SolverError:
                    assert it.episode == 4
                    failed.append(it)
    assert failed == [learner, plain]  # both say so
    assert calls[0] == 12
    assert same(tmp_path / "it", plain)


# --- What is refused


@pytest.mark.parametrize("wrong", INVALID)
def test_an_invalid_episode_changes_nothing(wrong: str, tmp_path: Path) -> None:
    if not applies(SPOT, wrong):
        pytest.skip("it is right for this learner")
    plain = begin(tmp_path / "it", 5)
    with ss.open(tmp_path / "it") as learner:
        (path,) = journal.numbered(tmp_path / "it", "journal").values()
        before = path.read_bytes()
        with pytest.raises(ss.SafespotError):
            learner.observe(INVALID[wrong](SPOT, episodes(1)[0]))
        assert path.read_bytes() == before
        assert digest(learner.learner) == digest(plain)
        learner.observe(episodes(1)[0])  # and it goes on
    assert journal.read(path).next == 6


def test_another_configuration_is_refused_and_named(tmp_path: Path) -> None:
    begin(tmp_path / "it", 3)
    with pytest.raises(ss.errors.InvalidOption, match=r"stance is 'pessimistic' there and"):
        ss.open(tmp_path / "it", SPOT.make(stance=0.5))
    other = dict(SPOT.interface, action_mask=np.ones((4, 3), bool))
    with pytest.raises(ss.errors.InvalidOption, match="action_mask is an array there and an"):
        ss.open(tmp_path / "it", ss.learners.make("spot", other, **SPOT.options))
    with pytest.raises(ss.errors.InvalidOption, match="learner is 'spot' there and") as error:
        ss.open(tmp_path / "it", ss.Uniform(**SPOT.interface, episodes=3000))
    with ss.open(tmp_path / "it", SPOT.make()) as learner:  # it was not harmed, nor left locked
        assert learner.episode == 4
    del error  # whose frames hold what was not released


@pytest.mark.parametrize("given", ["spot", 3, ss.Spot])
def test_something_else_than_a_learner_is_refused(given: Any, tmp_path: Path) -> None:
    with pytest.raises(ss.errors.InvalidOption, match="takes a learner"):
        ss.open(tmp_path / "it", given)
    assert not (tmp_path / "it").exists()


def test_nothing_to_open_and_no_place_for_it(tmp_path: Path) -> None:
    with pytest.raises(ss.errors.InvalidFile, match="there is no learner in"):
        ss.open(tmp_path / "it")
    with pytest.raises(ss.errors.InvalidFile, match=r"cannot open .*absent.it: No such file"):
        ss.open(tmp_path / "absent" / "it", SPOT.make())
    (tmp_path / "file").touch()
    with pytest.raises(ss.errors.InvalidFile, match=r"cannot open .*file: Not a directory"):
        ss.open(tmp_path / "file", SPOT.make())


# --- One at a time


def test_a_second_one_is_refused_with_the_owners_id(tmp_path: Path) -> None:
    with ss.open(tmp_path / "it", SPOT.make()):
        with pytest.raises(ss.errors.InUse, match=f"by process {os.getpid()} on "):
            ss.open(tmp_path / "it")
        opening = f"ss.open({str(tmp_path / 'it')!r})"
        code = f"import safespot as ss\ntry: {opening}\nexcept ss.errors.InUse as why: print(why)"
        said = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True
        )
        assert f"by process {os.getpid()} on {os.uname().nodename}" in said.stdout
    ss.open(tmp_path / "it").close()


def test_a_closed_one_is_closed(tmp_path: Path) -> None:
    learner = ss.open(tmp_path / "it", SPOT.make())
    learner.close()
    learner.close()
    for use in (
        lambda: learner.observe(episodes(1)[0]),
        lambda: learner.act(0, 0, np.random.default_rng()),
    ):
        with pytest.raises(ss.errors.InvalidOption, match="is closed; open it again"):
            use()


# --- Disks that fail


class Failing(files.Disk):
    """From now on, one of its operations fails."""

    def __init__(self, how: str) -> None:
        self.how = how

    def fill(self, file: BinaryIO, data: bytes) -> None:
        if self.how == "write":
            super().fill(file, data[: len(data) // 3])
            raise OSError(errno.ENOSPC, "No space left on device")
        super().fill(file, data)

    def sync_data(self, descriptor: int) -> None:
        if self.how == "sync":
            raise OSError(errno.EIO, "Input/output error")
        super().sync_data(descriptor)

    def sync_folder(self, folder: Path) -> None:
        if self.how == "folder":
            raise OSError(errno.EIO, "Input/output error")
        super().sync_folder(folder)


@pytest.mark.parametrize(
    ("how", "finished", "why"),
    [
        ("write", 5, "No space left"), ("sync", 5, "Input/output"),
        ("write", 10, "No space left"), ("folder", 10, "may not survive a crash"),
    ],
)  # fmt: skip
def test_a_failing_disk_stops_it_and_it_can_be_opened_again(
    how: str, finished: int, why: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = begin(tmp_path / "it", finished)
    late = episodes(finished + 1)[-1]
    with ss.open(tmp_path / "it") as learner:
        monkeypatch.setattr(files, "disk", Failing(how))
        with pytest.raises(ss.errors.DiskError, match=why):
            learner.observe(late)
        monkeypatch.setattr(files, "disk", files.Disk())
        assert digest(learner.learner) == digest(plain)
        with pytest.raises(ss.errors.InvalidFile, match=r"stopped after an error \(.*open it"):
            learner.observe(late)
        with pytest.raises(ss.errors.InvalidFile, match="stopped after an error"):
            learner.act(0, 0, np.random.default_rng())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what was torn is cut off
        again = ss.open(tmp_path / "it")
    with again:
        assert digest(again.learner) == digest(plain)
        again.observe(late)
        plain.observe(late)
    assert same(tmp_path / "it", plain)


def test_an_interrupt_between_disk_and_learner_stops_it_and_counts_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = begin(tmp_path / "it", 3)
    late = episodes(4)[-1]
    with ss.open(tmp_path / "it") as learner:

        def interrupted(_: ss.Episode, __: str | None) -> None:
            raise KeyboardInterrupt

        monkeypatch.setattr(learner.learner, "observe", interrupted)
        with pytest.raises(KeyboardInterrupt):
            learner.observe(late)
        with pytest.raises(ss.errors.InvalidFile, match="stopped after an error"):
            learner.observe(late)
    plain.observe(late)
    assert same(tmp_path / "it", plain)  # it was on the disk


# --- Damaged files


@pytest.fixture
def five(tmp_path: Path) -> Five:
    """A learner of five episodes: its folder, its journal, and the digest after n episodes."""
    begin(tmp_path / "it", 5)

    def after(n: int) -> str:
        return digest(SPOT.run(SPOT.make(), 1, n))

    return tmp_path / "it", journal.place(tmp_path / "it", 0), after


@pytest.mark.parametrize("kept", [0, 1, 3, 4])
@pytest.mark.parametrize("torn", [1, 100, LENGTH - 4])  # a last byte alone may be 0 as it is
def test_a_torn_end_is_cut_off_with_a_warning(kept: int, torn: int, five: Five) -> None:
    folder, path, after = five
    data = bytearray(path.read_bytes())
    end = START + kept * LENGTH
    data[end + torn :] = bytes(len(data) - end - torn)
    path.write_bytes(data)
    said = rf"has a torn end\. Lost: \d+ bytes from byte {end} on, .*episode {kept + 1} would.*never acknowledged"
    with pytest.warns(UserWarning, match=said):
        learner = ss.open(folder)
    with learner:
        assert digest(learner.learner) == after(kept)
        learner.observe(episodes(kept + 1)[-1])
    with ss.open(folder) as learner:  # and now it is whole
        assert digest(learner.learner) == after(kept + 1)


@pytest.mark.parametrize("place", [0, 3, 4, 40, LENGTH - 20, LENGTH - 1])
@pytest.mark.parametrize("record", [0, 3])
def test_damage_in_the_middle_is_an_error_that_names_the_place(
    record: int, place: int, five: Five
) -> None:
    folder, path, _ = five
    data = bytearray(path.read_bytes())
    data[START + record * LENGTH + place] ^= 4
    path.write_bytes(data)
    said = rf"damaged at byte {START + record * LENGTH}: the record of episode {record + 1} is not"
    for _ in range(2):  # opening it does no harm
        with pytest.raises(ss.errors.InvalidFile, match=said):
            ss.open(folder)
    with pytest.raises(ss.errors.InvalidFile, match=said):
        ss.logs.export_episodes(folder, folder / "trail.csv")
    assert path.read_bytes() == data


@pytest.mark.parametrize("last", [False, True])
def test_a_record_at_another_place_is_damage(last: bool, five: Five) -> None:
    folder, path, after = five
    data = bytearray(path.read_bytes())
    at = START + (4 if last else 3) * LENGTH
    data[at : at + LENGTH] = data[START : START + LENGTH]
    path.write_bytes(data)
    if last:
        with pytest.warns(UserWarning, match="torn end"):
            learner = ss.open(folder)
        with learner:
            assert digest(learner.learner) == after(4)
    else:
        with pytest.raises(
            ss.errors.InvalidFile, match=f"damaged at byte {at}: the record of episode 4"
        ):
            ss.open(folder)


def test_a_torn_end_before_another_journal_is_an_error(tmp_path: Path) -> None:
    begin(tmp_path / "it", 25)
    path = journal.place(tmp_path / "it", 10)
    path.write_bytes(path.read_bytes()[:-3])
    with ss.open(tmp_path / "it") as learner:  # nobody needs it after the snapshot
        assert learner.episode == 26
    with pytest.raises(
        ss.errors.InvalidFile, match=f"damaged at byte {START + 9 * LENGTH}, and journals follow"
    ):
        ss.logs.export_episodes(tmp_path / "it", tmp_path / "trail.csv")


def test_a_missing_journal_is_an_error(tmp_path: Path) -> None:
    begin(tmp_path / "it", 25)
    for snapshot in journal.numbered(tmp_path / "it", "snapshot").values():
        if "0020" in snapshot.name:
            snapshot.unlink()
    journal.place(tmp_path / "it", 10).unlink()
    with pytest.raises(ss.errors.InvalidFile, match="lacks the episodes 11 to 20"):
        ss.open(tmp_path / "it")


def test_a_damaged_snapshot_is_no_loss(tmp_path: Path) -> None:
    plain = begin(tmp_path / "it", 25)
    newest = journal.numbered(tmp_path / "it", "snapshot")[20]
    newest.write_bytes(newest.read_bytes()[:-1])
    with pytest.warns(UserWarning, match=r"snapshot-0+20.* The snapshot before it and the"):
        learner = ss.open(tmp_path / "it")
    with learner:
        assert digest(learner.learner) == digest(plain)
    assert list(journal.numbered(tmp_path / "it", "snapshot")) == [
        10,
        25,
    ]  # the damaged one is gone
    assert same(tmp_path / "it", plain)
    for snapshot in journal.numbered(tmp_path / "it", "snapshot").values():
        snapshot.write_bytes(b"")
    with pytest.raises(ss.errors.InvalidFile, match="has no whole snapshot"):
        ss.open(tmp_path / "it")


# --- The audit trail


@pytest.mark.parametrize("ending", ["parquet", "csv"])
def test_the_trail_has_every_step(ending: str, tmp_path: Path) -> None:
    plain, played = SPOT.make(), episodes(23)
    rows = []
    with ss.open(tmp_path / "it", SPOT.make()) as learner:
        for t, e in enumerate(played):
            policy = plain.policy
            for h in range(H):
                s, a = int(e.states[h]), int(e.actions[h])
                samples = [None if np.isnan(x) else x for x in e.thresholds[h].tolist()]
                rows.append(
                    (t + 1, h, s, a, e.rewards[h], *e.constraints[h], *samples, int(e.states[h + 1]),
                     0, 0, 0, 0, policy[h, s, a], None, t)
                )  # fmt: skip
            learner.observe(e)
            plain.observe(e)
            if t == 4:  # it may be open
                assert ss.logs.export_episodes(tmp_path / "it", tmp_path / f"early.{ending}") == 5
    to = tmp_path / f"trail.{ending}"
    assert ss.logs.export_episodes(tmp_path / "it", to) == 23
    relation: Any = duckdb.sql(f"from '{to}'")
    assert relation.columns == [
        "episode", "step", "state", "action", "reward", "constraint_0", "constraint_1",
        "threshold_0", "threshold_1", "next_state", *MARKS, "propensity", "policy", "policy_version",
    ]  # fmt: skip
    assert relation.fetchall() == rows  # every bit, in CSV too
    assert any(row[7] is None for row in rows)
    assert [file.name for file in tmp_path.glob(".*")] == []


def test_a_trail_needs_episodes_and_a_name_that_says_how(tmp_path: Path) -> None:
    with pytest.raises(ss.errors.InvalidFile, match="holds no durable learner"):
        ss.logs.export_episodes(tmp_path, tmp_path / "trail.csv")
    ss.open(tmp_path / "it", SPOT.make()).close()
    with pytest.raises(ss.errors.InvalidFile, match="has no episodes yet"):
        ss.logs.export_episodes(tmp_path / "it", tmp_path / "trail.csv")
    with pytest.raises(ss.errors.InvalidFile, match=r"ends in \.csv or \.parquet"):
        ss.logs.export_episodes(tmp_path / "it", tmp_path / "trail.xlsx")
    begin(tmp_path / "it", 3)
    with pytest.raises(ss.errors.InvalidFile, match="cannot write"):
        ss.logs.export_episodes(tmp_path / "it", tmp_path / "absent" / "trail.csv")


# --- Warm start


@pytest.mark.parametrize("ending", ["parquet", "csv"])
def test_a_trail_warms_another_learner_up_to_the_last_bit(ending: str, tmp_path: Path) -> None:
    plain = begin(tmp_path / "it", 23)
    ss.logs.export_episodes(tmp_path / "it", tmp_path / f"trail.{ending}")
    with ss.open(tmp_path / "other", SPOT.make()) as learner:
        found = ss.logs.warm_start(learner, tmp_path / f"trail.{ending}")
    assert (len(found.episodes), found.rejected) == (23, ())
    assert same(tmp_path / "other", plain)


# --- What play proves


def test_the_meter_is_kept_across_crashes(tmp_path: Path) -> None:
    """Made of the journals, whenever it is asked for: bit for bit the one that saw every episode."""
    seen = episodes(37)
    meter = SPOT.make().make_meter()
    for e in seen:
        meter.observe(e)
    with ss.open(tmp_path / "kept", SPOT.make()) as learner:
        assert learner.meter.episodes == 0
        for e in seen[:12]:
            learner.observe(e)
        assert learner.meter.episodes == 12
    with ss.open(tmp_path / "kept") as learner:
        for e in seen[12:25]:
            learner.observe(e)
    with ss.open(tmp_path / "kept") as learner:
        assert learner.meter.episodes == 25
        for e in seen[25:]:
            learner.observe(e)
        for ours, theirs in zip(learner.meter.state.means, meter.state.means, strict=True):
            np.testing.assert_array_equal(ours, theirs)
        np.testing.assert_array_equal(learner.meter.state.reward, meter.state.reward)
    with ss.open(tmp_path / "kept") as learner:
        np.testing.assert_array_equal(learner.meter.violation_bounds, meter.violation_bounds)


def test_who_played_is_written_down(tmp_path: Path) -> None:
    seen, mask = episodes(6), SPOT.make().interface.mask
    other = np.eye(mask.shape[2])[mask.argmax(axis=2)]  # always the first action that is admissible
    digest = ss.learners.policy_digest(other)
    with ss.open(tmp_path / "kept", SPOT.make()) as learner:
        for e, played in zip(seen, (None, other, digest, None, None, other), strict=True):
            learner.observe(e, played)
        with pytest.raises(ss.errors.InvalidOption, match="played"):
            learner.observe(seen[0], "someone")
        policies = [None if policy is None else policy.copy() for policy, _ in learner.replay()]
    found = journal.read(journal.place(tmp_path / "kept", 0))
    assert [found.played(k) for k in range(6)] == [None, digest, digest, None, None, digest]
    assert np.isnan(found.records[2]["probabilities"]).all()
    assert not np.isnan(found.records[1]["probabilities"]).any()
    assert [policy is None for policy in policies] == [False, True, True, False, False, True]
    plain = SPOT.make()
    for e in seen:
        plain.observe(e)
    assert same(tmp_path / "kept", plain)


def test_a_group_of_episodes_is_synced_once_and_is_as_one_after_the_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen, plain = episodes(23), SPOT.make()
    first = plain.policy
    records = []
    for k, e in enumerate(seen):
        chances = first[np.arange(H), e.states[:-1], e.actions]
        records.append(
            journal.EpisodeRecord(e, chances, ss.learners.policy_digest(first), bytes([k]) * 16)
        )
        plain.observe(e)
    syncs, sync = list[int](), files.disk.sync_data

    def counted(descriptor: int) -> None:
        syncs.append(descriptor)
        sync(descriptor)

    monkeypatch.setattr(files.disk, "sync_data", counted)
    with ss.open(tmp_path / "kept", SPOT.make()) as learner:
        before = len(syncs)
        learner.observe_group(records)
        assert len(syncs) - before <= 5  # three journals of ten, and their beginnings
        assert digest(learner.learner) == digest(plain)
        assert next(learner.replay())[0] is not None  # by its digest, the learner's own
        np.testing.assert_array_equal(learner.policies_after([0])[0], first)
        assert bytes([7]) * 16 in learner.tickets_since(0)
    assert same(tmp_path / "kept", plain)


def test_a_group_may_be_torn_anywhere_but_not_what_was_synced_before_it(tmp_path: Path) -> None:
    seen = episodes(8)
    records = [journal.EpisodeRecord(e, np.full(H, np.nan), "ab" * 32) for e in seen]
    with ss.open(tmp_path / "kept", SPOT.make()) as learner:
        learner.observe_group(records[:3])
        learner.observe_group(records[3:])
    path = journal.place(tmp_path / "kept", 0)
    whole = path.read_bytes()
    for damaged in (1, 4):
        data = bytearray(whole)
        data[START + damaged * LENGTH + 60] ^= 4
        path.write_bytes(data)
        if damaged == 1:
            with pytest.raises(ss.errors.InvalidFile, match="the record of episode 2 is not"):
                journal.read(path)
        else:  # the fifth is torn, those after it are whole, and none of them was acknowledged
            assert len(journal.read(path).records) == 4


# --- What is refused where it is called, and what belongs to another learner


class Forgetful(files.Disk):
    """Writes every snapshot with a byte of it wrong, and says nothing."""

    def write(self, path: Path, data: bytes, mode: int = 0o666) -> None:
        if path.name.startswith(".snapshot-"):
            data = data[:-1] + bytes([data[-1] ^ 1])
        super().write(path, data, mode)


def test_no_snapshot_goes_before_a_newer_one_can_be_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = SPOT.run(SPOT.make(), 1, 7)  # of these there is no journal, but a snapshot
    more = episodes(60)[7:]
    with monkeypatch.context() as patched, ss.open(tmp_path / "it", first) as learner:
        patched.setattr(files, "disk", Forgetful())
        with warnings.catch_warnings(record=True) as messages:
            warnings.simplefilter("always")
            for e in more[:45]:
                learner.observe(e)
        assert len([each for each in messages if "damaged" in str(each.message)]) == 4
    for e in more[:45]:
        first.observe(e)
    with pytest.warns(UserWarning, match="instead"):
        learner = ss.open(tmp_path / "it")
    with learner:
        assert digest(learner.learner) == digest(first)
    assert same(tmp_path / "it", first)  # and it has been mended
