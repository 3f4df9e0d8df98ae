"""Files and worlds that are nonsense do no harm: the quick form of `make test-reliability`."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import safespot as ss
from safespot import files
from tests.support.contract import Subject

ROOT = Path(__file__).parents[2]


def run(module: str, *arguments: str) -> dict[str, Any]:
    """What a fuzzer found, in a process of its own, with kernels whose arrays have bounds."""
    path = os.pathsep.join([str(ROOT / "src"), str(ROOT)])
    result = subprocess.run(
        [sys.executable, "-m", module, *arguments], cwd=ROOT, capture_output=True, text=True, timeout=300,
        env={**os.environ, "PYTHONPATH": path, "NUMBA_DISABLE_JIT": "1"},
    )  # fmt: skip
    assert result.stdout, result.stderr
    found: dict[str, Any] = json.loads(result.stdout)
    return found


def test_damaged_files_are_refused_or_harmless() -> None:
    found = run("tests.reliability.fuzzing", "--mutations", "4000")
    assert found["executed"] == []
    for name, fared in found["targets"].items():
        assert fared["samples"] == [], name
        assert fared["refused"] > 0.2 * fared["mutations"], name
        assert fared.get("equal", 0) + fared.get("other", 0) > 0, name  # not all is refused
    assert sum(fared["mutations"] for fared in found["targets"].values()) > 3900


def test_strange_worlds_leave_the_learner_as_it_was() -> None:
    found = run("tests.reliability.strange_worlds", "--steps", "6000")
    assert found["samples"] == []
    for what in ("observe", "act", "learn", "evaluate"):
        assert found["fared"][f"{what}: refused"] > 0
        assert found["fared"][f"{what}: accepted"] > 0


def test_no_command_line_ends_in_a_traceback() -> None:
    found = run("tests.reliability.command_lines", "--calls", "150")
    assert found["samples"] == []
    ended = {name.split(": ")[1] for name in found["fared"]}
    assert {"0", "2"} <= ended <= {"0", "1", "2"}


LIMITED = """
import resource, sys, safespot as ss
from pathlib import Path
kind, path = sys.argv[1:]
load = {"learner": ss.Spot.load, "cmdp": ss.CMDP.load}[kind]
size = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (size + 2**28, resource.RLIM_INFINITY))
try:
    load(path)
except ss.errors.InvalidFile as problem:
    print("refused", problem)
"""


@pytest.mark.parametrize(
    ("said", "value"),
    [
        ("states", 10**9),
        ("horizon", 10**8),
        ("constraints", 10**9),
        ("actions", 10**15),
        ("states", "x"),
    ],
)
def test_sizes_are_checked_before_anything_is_allocated(
    said: str, value: Any, tmp_path: Path
) -> None:
    subject = Subject("spot", "default")
    learner = subject.run(subject.make(), 1, 3)
    learner.save(tmp_path / "learner")
    arrays, about = files.read_arrays(tmp_path / "learner", "learner")
    about["arguments"][said] = value
    if said == "constraints":  # one sense and one range serve all, however many
        about["arguments"].update(senses=">=", ranges={"reward": [0, 1], "constraints": [0, 1]})
    files.write_arrays(tmp_path / "learner", "learner", arrays, about)
    result = subprocess.run(
        [sys.executable, "-c", LIMITED, "learner", tmp_path / "learner"],
        capture_output=True,
        text=True,
    )
    assert "refused" in result.stdout, result.stderr


def test_an_archive_is_not_believed(tmp_path: Path) -> None:
    from safespot.data.model_files import read_cmdp

    head = b"\x93NUMPY\x01\x00"
    said = b"{'descr': '<f8', 'fortran_order': False, 'shape': (1000000000000,), }\n"
    huge = head + len(said).to_bytes(2, "little") + said + bytes(80)
    import zipfile

    with zipfile.ZipFile(tmp_path / "model.npz", "w") as archive:
        archive.writestr("rewards.npy", huge)
    with pytest.raises(ss.errors.InvalidFile, match="cannot read"):
        read_cmdp(tmp_path / "model.npz")
    np.savez(tmp_path / "model.npz", rewards=np.array([object()]))
    with pytest.raises(ss.errors.InvalidFile, match="unpickled"):
        read_cmdp(tmp_path / "model.npz")
    (tmp_path / "model.toml").write_text("x = " + "[" * 5000)
    with pytest.raises(ss.errors.InvalidFile, match="cannot read"):
        read_cmdp(tmp_path / "model.toml")


def test_a_file_that_nests_too_deep_is_refused(tmp_path: Path) -> None:
    from safetensors.numpy import save

    deep = '{"about": ' + "[" * 100_000 + "]" * 100_000 + "}"
    (tmp_path / "file").write_bytes(save({"a": np.zeros(1)}, {"safespot": deep}))
    with pytest.raises(ss.errors.InvalidFile, match="RecursionError"):
        ss.CMDP.load(tmp_path / "file")
