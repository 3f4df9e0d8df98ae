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
    found = run("tests.reliability.fuzzing", "--mutations", "2500")
    assert found["executed"] == []
    for name, fared in found["targets"].items():
        assert fared["samples"] == [], name
        assert fared["refused"] > 0.2 * fared["mutations"], name
        assert fared.get("equal", 0) + fared.get("other", 0) > 0, name  # not all is refused
    assert sum(fared["mutations"] for fared in found["targets"].values()) > 2400


def test_a_file_that_nests_too_deep_is_refused(tmp_path: Path) -> None:
    from safetensors.numpy import save

    deep = '{"about": ' + "[" * 100_000 + "]" * 100_000 + "}"
    (tmp_path / "file").write_bytes(save({"a": np.zeros(1)}, {"safespot": deep}))
    with pytest.raises(ss.errors.InvalidFile, match="RecursionError"):
        ss.CMDP.load(tmp_path / "file")
