"""Threads, forks and strangers at one durable learner: whatever is acknowledged is there, and nobody writes over it."""

from __future__ import annotations

import errno
import os
import pkgutil
import shutil
import signal
import stat
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import safespot as ss
from safespot import files
from safespot.storage import journal
from tests.reliability.disks import Failing
from tests.reliability.survival import digest
from tests.support.contract import Subject

SPOT = Subject("spot", "masked")
TIMEOUT = 60.0


def episode(t: int) -> ss.Episode:
    return SPOT.episode(np.random.default_rng([11, t]))


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where a learner will be; its journals are short, so that new ones begin under way."""
    monkeypatch.setattr(journal, "RECORDS", 7)
    return tmp_path / "it"


def in_child(work: Callable[[], object]) -> int:
    """Fork, work there, and say how it ended: 0, or 1 after an error."""
    child = os.fork()
    if child == 0:
        signal.alarm(int(TIMEOUT))  # a lock that nobody gives back would hold it for ever
        try:
            work()
        except BaseException as problem:
            print(f"in the child: {problem!r}", file=sys.stderr)
            os._exit(1)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


# --- Threads


@pytest.mark.parametrize("threads", [2, 8])
def test_threads_share_one_learner(threads: int, folder: Path) -> None:
    learner, failed = ss.open(folder, SPOT.make()), []
    barrier = threading.Barrier(threads)

    def work(first: int) -> None:
        rng = np.random.default_rng(first)
        try:
            barrier.wait(TIMEOUT)
            for t in range(first, 96, threads):
                learner.act(0, 0, rng)
                learner.observe(episode(t))
                np.testing.assert_allclose(learner.policy.sum(axis=2), 1.0)
        except BaseException as problem:
            failed.append(problem)

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)  # threads take turns as often as they can
    try:
        workers = [threading.Thread(target=work, args=(k,)) for k in range(threads)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join(TIMEOUT)
    finally:
        sys.setswitchinterval(interval)
    assert failed == []
    assert learner.episode == 97
    state = digest(learner.learner)
    learner.close()
    with ss.open(folder) as again:  # every acknowledged episode, and the same bits
        assert again.episode == 97
        assert digest(again.learner) == state
    trail = folder.parent / "trail.parquet"
    assert ss.logs.export_episodes(folder, trail) == 96
    played = sorted(e.rewards.tobytes() for e in ss.read_log(trail, **_interface()).episodes)
    assert played == sorted(episode(t).rewards.tobytes() for t in range(96))  # each of them once


def _interface() -> dict[str, Any]:
    f = SPOT.make().interface
    return {**f.arguments, "action_mask": f.mask}


def test_closing_waits_for_the_thread_that_observes(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    learner, within = ss.open(folder, SPOT.make()), threading.Event()

    class Slow(files.Disk):
        def sync_data(self, descriptor: int) -> None:
            within.set()
            time.sleep(0.2)
            super().sync_data(descriptor)

    monkeypatch.setattr(files, "disk", Slow())
    worker = threading.Thread(target=learner.observe, args=(episode(0),))
    worker.start()
    assert within.wait(TIMEOUT)
    learner.close()
    worker.join(TIMEOUT)
    monkeypatch.setattr(files, "disk", files.Disk())
    with ss.open(folder) as again:
        assert again.episode == 2


# --- Forks


USES: dict[str, Callable[[Any], object]] = {
    "observe": lambda learner: learner.observe(episode(0)),
    "act": lambda learner: learner.act(0, 0, np.random.default_rng(0)),
    "policy": lambda learner: learner.policy,
    "episode": lambda learner: learner.episode,
    "save": lambda learner: learner.save("never"),
}


@pytest.mark.parametrize("use", USES)
def test_a_forked_process_is_told_that_it_is_the_parents(use: str, folder: Path) -> None:
    with ss.open(folder, SPOT.make()) as learner:

        def work() -> None:
            with pytest.raises(ss.errors.InUse, match="from which this one was forked"):
                USES[use](learner)
            learner.close()  # closes nothing of the parent's

        assert in_child(work) == 0
        learner.observe(episode(0))
        with pytest.raises(ss.errors.InUse):
            ss.open(folder)


def test_a_fork_while_a_thread_observes_does_not_hang(folder: Path) -> None:
    with ss.open(folder, SPOT.make()) as learner:
        over = threading.Event()

        def work() -> None:
            for t in range(10**6):
                if over.is_set():
                    break
                learner.observe(episode(t % 50))

        worker = threading.Thread(target=work)
        worker.start()

        def child() -> None:
            with pytest.raises(ss.errors.InUse):
                learner.observe(episode(0))

        try:
            ended = [in_child(child) for _ in range(10)]
        finally:
            over.set()
            worker.join(TIMEOUT)
        finished = learner.episode
    assert ended == [0] * 10
    with ss.open(folder) as again:
        assert again.episode == finished


def test_a_lock_does_not_outlive_its_owner_in_a_forked_child(folder: Path) -> None:
    read, write = os.pipe()
    owner = os.fork()
    if owner == 0:
        learner = ss.open(folder, SPOT.make())
        learner.observe(episode(0))
        if os.fork() == 0:  # goes on after its parent's death, with all that it inherited
            os.write(write, f"{os.getpid()}".encode())
            signal.pause()
            os._exit(0)
        signal.pause()
        os._exit(0)
    grandchild = int(os.read(read, 100))
    os.close(read)
    os.close(write)
    try:
        os.kill(owner, signal.SIGKILL)
        os.waitpid(owner, 0)
        os.kill(grandchild, 0)  # it is there
        with ss.open(folder) as learner:
            assert learner.episode == 2
    finally:
        os.kill(grandchild, signal.SIGKILL)


# --- What others do to the folder


def test_who_removes_the_owner_does_not_get_in(folder: Path) -> None:
    with ss.open(folder, SPOT.make()) as learner:
        for t in range(20):  # over several journals
            learner.observe(episode(t))
            (folder / "owner").unlink(missing_ok=True)
            with pytest.raises(ss.errors.InUse, match="another process is writing"):
                ss.open(folder)
    with ss.open(folder) as again:
        assert again.episode == 21


def _gone(folder: Path) -> None:
    shutil.rmtree(folder)


def _moved(folder: Path) -> None:
    folder.rename(folder.with_name("elsewhere"))


def _journal_gone(folder: Path) -> None:
    list(journal.numbered(folder, "journal").values())[-1].unlink()


def _restored(folder: Path) -> None:
    """A copy in place of the folder, as from a backup."""
    copy = folder.with_name("copy")
    shutil.copytree(folder, copy)
    shutil.rmtree(folder)
    copy.rename(folder)


def _linked(folder: Path) -> None:
    path = list(journal.numbered(folder, "journal").values())[-1]
    path.rename(path.with_name("kept"))
    path.symlink_to("kept")


def _cut(folder: Path) -> None:
    """The journal loses its end, and some of what was acknowledged with it."""
    os.truncate(list(journal.numbered(folder, "journal").values())[-1], 200)


def _emptied(folder: Path) -> None:
    os.truncate(list(journal.numbered(folder, "journal").values())[-1], 0)


@pytest.mark.parametrize("harm", [_gone, _moved, _journal_gone, _restored, _linked, _cut, _emptied])
@pytest.mark.parametrize("finished", [3, 7])  # within a journal, and where a new one is due
def test_nothing_is_acknowledged_that_would_be_lost(
    finished: int, harm: Callable[[Path], None], folder: Path
) -> None:
    with ss.open(folder, SPOT.make()) as learner:
        for t in range(finished):
            learner.observe(episode(t))
        harm(folder)
        acknowledged = finished
        for t in range(finished, finished + 3):
            try:
                learner.observe(episode(t))
            except (ss.errors.InvalidFile, ss.errors.DiskError):
                continue
            acknowledged += 1
    if acknowledged > finished:  # then it is there for whoever opens it
        with ss.open(folder) as again:
            assert again.episode == acknowledged + 1
    else:
        with pytest.raises((ss.errors.InvalidFile, ss.errors.InvalidOption)):
            learner.observe(episode(0))


@pytest.mark.parametrize("kind", ["journal", "snapshot", "both", "identity"])
@pytest.mark.parametrize("finished", [5, 10])
def test_what_belongs_to_another_learner_is_refused(kind: str, finished: int, folder: Path) -> None:
    """The other one was made in the same way, so that all shapes fit."""
    other = folder.with_name("other")
    for place, first in ((folder, 0), (other, 1000)):
        with ss.open(place, SPOT.make()) as learner:
            for t in range(first, first + finished):
                learner.observe(episode(t))
    mine = digest(_learner(folder))
    for each in {"both": ("journal", "snapshot"), "identity": ()}.get(kind, (kind,)):
        for path in journal.numbered(other, each).values():
            shutil.copy(path, folder / path.name)
    if kind == "identity":
        shutil.copy(other / "identity", folder / "identity")
    if (
        kind == "snapshot"
    ):  # its own journals say that it is not theirs, and the first snapshot serves
        if finished == 5:
            assert digest(_learner(folder)) == mine  # both began alike
        else:
            with pytest.warns(UserWarning, match="is not the snapshot that"):
                assert digest(_learner(folder)) == mine
        return
    with pytest.raises(ss.errors.InvalidFile, match="belongs to another learner"):
        ss.open(folder)
    with pytest.raises(ss.errors.InvalidFile, match="belongs to another learner"):
        ss.logs.export_episodes(folder, folder.parent / "trail.csv")


def _learner(folder: Path) -> Any:
    with ss.open(folder) as learner:
        return learner.learner


@pytest.mark.parametrize("name", ["owner", "journal-000000000000"])
def test_no_link_is_followed(name: str, folder: Path) -> None:
    ss.open(folder, SPOT.make()).close()
    precious = folder.parent / "precious"
    precious.write_bytes((folder / name).read_bytes() + b"precious")
    before = precious.read_bytes()
    (folder / name).unlink()
    (folder / name).symlink_to(precious)
    with pytest.raises(ss.errors.InvalidFile, match="cannot open"):
        ss.open(folder)
    assert precious.read_bytes() == before


@pytest.mark.parametrize("make", [os.mkdir, os.mkfifo])
def test_an_owner_that_is_no_file_is_refused(make: Callable[[Path], None], folder: Path) -> None:
    ss.open(folder, SPOT.make()).close()
    (folder / "owner").unlink()
    make(folder / "owner")
    with pytest.raises(ss.errors.InvalidFile, match="cannot open"):
        ss.open(folder)


def test_what_holds_peoples_data_is_for_its_owner_alone(folder: Path) -> None:
    before = os.umask(0o022)
    try:
        with ss.open(folder, SPOT.make()) as learner:
            for t in range(10):
                learner.observe(episode(t))
        ss.logs.export_episodes(folder, folder / "trail.parquet")
        SPOT.make().save(folder / "copy.safetensors")
    finally:
        os.umask(before)
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()}
    assert set(modes.values()) == {0o600}, modes


# --- Disks that fail while it is opened


@pytest.mark.parametrize("code", [errno.EIO])
def test_a_disk_that_fails_at_any_step_of_opening_is_a_typed_error_and_leaves_no_lock(
    code: int, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps = 0
    while True:
        monkeypatch.setattr(files, "disk", Failing(steps, code))
        said = ""
        try:
            ss.open(folder, SPOT.make()).close()
        except ss.errors.DiskError as problem:
            said = str(problem)
        if not said:
            break
        assert os.strerror(code) in said
        steps += 1
        monkeypatch.setattr(files, "disk", files.Disk())
        ss.open(folder, SPOT.make()).close()  # neither harmed nor locked
        shutil.rmtree(folder)
    assert steps > 8


@pytest.mark.parametrize(
    "call", ["os.open", "os.listdir", "os.fstat", "fcntl.flock", "pathlib.Path.open"]
)
def test_an_error_of_the_system_in_any_call_is_a_typed_error_and_loses_nothing(
    call: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ss.open(folder, SPOT.make()).close()
    module, _, name = call.rpartition(".")
    whole, acknowledged = getattr(pkgutil.resolve_name(module), name), 0
    for last in range(40):
        left = [last]

        def fails(*given: Any, left: list[int] = left, **options: Any) -> Any:
            left[0] -= 1
            if left[0] < 0:
                raise OSError(errno.EIO, "Input/output error")
            return whole(*given, **options)

        with monkeypatch.context() as patched:
            patched.setattr(call, fails)
            try:
                with ss.open(folder) as learner:
                    for _ in range(8):
                        learner.observe(episode(acknowledged))
                        acknowledged += 1
            except ss.SafespotError:
                pass
        with ss.open(folder) as learner:
            assert acknowledged <= learner.episode - 1 <= acknowledged + 1
            acknowledged = learner.episode - 1
        if left[0] >= 0:
            return
