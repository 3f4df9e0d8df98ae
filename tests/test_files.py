"""Files: whole or absent, and no damage goes unnoticed."""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import safespot as ss
from safespot import files
from tests.reliability.disks import Failing


@pytest.fixture
def small() -> ss.CMDP:
    return ss.problems.make("machine").cmdp


def test_arrays_and_their_description_come_back(tmp_path: Path) -> None:
    arrays = {
        "table": np.arange(6.0).reshape(2, 3),
        "columns": np.asfortranarray(np.arange(6.0).reshape(2, 3)),
        "every other": np.arange(10)[::2],
        "number": np.array(7),
        "mask": np.array([True, False]),
        "none": np.empty((0, 3)),
        "small": np.array([1, 2], np.int32),
    }
    files.write_arrays(tmp_path / "file", "things", arrays, {"name": "a", "list": [1, 2.5, None]})
    again, about = files.read_arrays(tmp_path / "file", "things")
    assert about == {"name": "a", "list": [1, 2.5, None]}
    assert again.keys() == arrays.keys()
    for name, array in arrays.items():
        assert (again[name].dtype, again[name].shape) == (array.dtype, array.shape)
        np.testing.assert_array_equal(again[name], array)


def test_anyone_who_reads_safetensors_can_read_it(tmp_path: Path, small: ss.CMDP) -> None:
    from safetensors.numpy import load_file

    small.save(tmp_path / "file")
    np.testing.assert_array_equal(load_file(tmp_path / "file")["rewards"][0], small.rewards[0])


class Refusing(Failing):
    """Fails, and what has failed is tidied up."""

    remove = files.Disk.remove


def test_a_failed_write_leaves_what_was_there(
    tmp_path: Path, small: ss.CMDP, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "model"
    small.save(path)
    before = path.read_bytes()
    for step in range(3):  # its content, its sync, its name
        with monkeypatch.context() as patch:
            patch.setattr(files, "disk", Refusing(step))
            with pytest.raises(ss.errors.DiskError, match=r"cannot write .*model: .*untouched"):
                ss.problems.make("triage").cmdp.save(path)
        assert path.read_bytes() == before
        assert [file.name for file in tmp_path.iterdir()] == ["model"]


def test_a_folder_that_cannot_be_synced_is_our_error(
    tmp_path: Path, small: ss.CMDP, monkeypatch: pytest.MonkeyPatch
) -> None:
    fsync = os.fsync

    def fail_on_folders(descriptor: int) -> None:
        if Path(f"/proc/self/fd/{descriptor}").is_dir():
            raise OSError(errno.EIO, "Input/output error")
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", fail_on_folders)
    with pytest.raises(ss.errors.DiskError, match="may not survive a crash"):
        small.save(tmp_path / "model")
    assert ss.CMDP.load(tmp_path / "model") == small


def test_a_truncated_file_is_noticed(tmp_path: Path, small: ss.CMDP) -> None:
    path = tmp_path / "model"
    small.save(path)
    data = path.read_bytes()
    for length in range(len(data)):
        path.write_bytes(data[:length])
        with pytest.raises(ss.errors.InvalidFile):
            ss.CMDP.load(path)
    path.write_bytes(data + b"\0")
    with pytest.raises(ss.errors.InvalidFile):
        ss.CMDP.load(path)


def rewritten(path: Path, **changes: object) -> None:
    """The file with another header and a checksum that fits."""
    from safetensors.numpy import load, save

    data = path.read_bytes()
    arrays = load(data)
    whole = json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")])
    header = json.loads(whole["__metadata__"]["safespot"])
    header.update(changes)
    del header["blake2b"]
    header["blake2b"] = files.checksum(arrays, header)
    path.write_bytes(save(arrays, {"safespot": json.dumps(header)}))


def test_another_kind_or_version_is_refused(tmp_path: Path, small: ss.CMDP) -> None:
    path = tmp_path / "model"
    small.save(path)
    rewritten(path)
    assert ss.CMDP.load(path) == small  # the rewriting itself does no harm
    rewritten(path, version=3)
    with pytest.raises(ss.errors.InvalidFile, match=r"format 3.*reads format 2\. Upgrade"):
        ss.CMDP.load(path)
    rewritten(path, version=1)
    with pytest.raises(ss.errors.InvalidFile, match=r"format 1.*reads format 2\. Make"):
        ss.CMDP.load(path)
    rewritten(path, version=2, kind="learner")
    with pytest.raises(ss.errors.InvalidFile, match="holds a learner, expected a cmdp"):
        ss.CMDP.load(path)
    rewritten(path, kind="cmdp", about=None)
    with pytest.raises(ss.errors.InvalidFile, match="has no description of its content"):
        ss.CMDP.load(path)


@pytest.mark.parametrize("path", [None, 3, "a\0b", "/", "."])
def test_a_path_that_is_none_is_refused(small: ss.CMDP, path: Any) -> None:
    with pytest.raises(ss.errors.InvalidFile):
        small.save(path)
    with pytest.raises(ss.errors.InvalidFile):
        ss.CMDP.load(path)


def test_a_file_that_is_not_ours_is_refused(tmp_path: Path) -> None:
    from safetensors.numpy import save_file

    save_file({"rewards": np.zeros(3)}, tmp_path / "foreign")
    with pytest.raises(ss.errors.InvalidFile, match="not a safespot file"):
        ss.CMDP.load(tmp_path / "foreign")
    # A header that declares more than there is must not be believed.
    (tmp_path / "huge").write_bytes((2**62).to_bytes(8, "little") + b"{}")
    with pytest.raises(ss.errors.InvalidFile, match="not a safespot file"):
        ss.CMDP.load(tmp_path / "huge")


def test_a_missing_file_or_a_folder_is_our_error(tmp_path: Path, small: ss.CMDP) -> None:
    with pytest.raises(ss.errors.InvalidFile, match=r"cannot read .*absent: No such file"):
        ss.CMDP.load(tmp_path / "absent")
    with pytest.raises(ss.errors.InvalidFile, match=r"cannot read .*: Is a directory"):
        ss.CMDP.load(tmp_path)
    with pytest.raises(ss.errors.InvalidFile, match=r"cannot write .*: No such file"):
        small.save(tmp_path / "absent" / "model")
    (tmp_path / "folder").mkdir()
    with pytest.raises(ss.errors.InvalidFile, match=r"cannot write .*: Is a directory"):
        small.save(tmp_path / "folder")
    assert [file.name for file in tmp_path.iterdir()] == ["folder"]


def test_how_much_memory_a_file_may_ask_for_is_the_users_to_say(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("SAFESPOT_MEMORY", "100")
    files.check_memory("model", 100)
    with pytest.raises(ss.errors.InvalidFile, match="model asks for 101 bytes"):
        files.check_memory("model", 101)
    monkeypatch.setenv("SAFESPOT_MEMORY", "much")
    with pytest.raises(ss.errors.InvalidFile, match="whole number of bytes"):
        files.check_memory("model", 1)


def test_no_name_at_all_is_not_the_folder_that_one_is_in() -> None:
    with pytest.raises(ss.errors.InvalidFile, match="a path is empty"):
        ss.open("")
