"""The cache of compiled code: where it goes, and what makes it stale."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numba
import numpy as np
import pytest

import safespot as ss
from safespot.kernels import jit as compilation
from tests.support.copies import copy_package

PROBE = """
import numpy as np
from ..kernels.jit import kernel
from .cmdp import Model  # so that it depends on the room

@kernel
def start_values(start, V):
    values = np.zeros(V.shape[0])
    for c in range(V.shape[0]):
        for s in range(V.shape[1]):
            values[c] += start[s] * V[c, s]
    return values
"""


SOURCE = Path(ss.__file__).parent
COMPILED = not numba.config.DISABLE_JIT
needs_compiler = pytest.mark.skipif(not COMPILED, reason="kernels are plain Python here")

RUN_KERNEL = """
import json, sys
import numpy as np
from safespot.model.probe import start_values
start = np.full(int(sys.argv[1]), 0.5)
try:
    value = start_values(start, np.array([[4.0, 8.0]])).tolist()
except IndexError:
    value = "out of bounds"
print(json.dumps([value, sum(start_values.stats.cache_hits.values())]))
"""


def copy_with_probe(folder: Path) -> Path:
    """A copy of the package without any compiled code."""
    package = copy_package(folder)
    (package / "model" / "probe.py").write_text(PROBE)
    return package


def run_kernel(folder: Path, entries: int = 2, **environment: str) -> list[Any]:
    """What one kernel gives in a new Python, and how often its cache served."""
    clean = {k: v for k, v in os.environ.items() if not k.startswith("NUMBA_")}
    result = subprocess.run(
        [sys.executable, "-c", RUN_KERNEL, str(entries)],
        env={**clean, "PYTHONPATH": str(folder), "HOME": str(folder), **environment},
        cwd=folder, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert result.returncode == 0, result.stderr
    found: list[Any] = json.loads(result.stdout)
    return found


@needs_compiler
def test_code_without_checks_does_not_serve_where_bounds_are_checked(tmp_path: Path) -> None:
    copy_with_probe(tmp_path)
    assert run_kernel(tmp_path) == [[6.0], 0]
    assert run_kernel(tmp_path) == [[6.0], 1]
    assert run_kernel(tmp_path, entries=1, NUMBA_BOUNDSCHECK="1") == ["out of bounds", 0]
    assert run_kernel(tmp_path, NUMBA_BOUNDSCHECK="1") == [[6.0], 1]
    assert run_kernel(tmp_path) == [[6.0], 1]


@needs_compiler
def test_every_copy_of_the_package_finds_what_one_compiled(tmp_path: Path) -> None:
    for name in ("one", "other"):
        (tmp_path / name).mkdir()
        copy_with_probe(tmp_path / name)
    caches: Any = {"XDG_CACHE_HOME": str(tmp_path / "caches")}
    assert run_kernel(tmp_path / "one", **caches) == [[6.0], 0]
    assert run_kernel(tmp_path / "other", **caches) == [[6.0], 1]
    (folder,) = (tmp_path / "caches" / "safespot" / "kernels").iterdir()
    assert folder.stat().st_mode & 0o077 == 0  # loading it runs it, so it is the user's alone
    os.utime(folder, (0, time.time() - 80 * 86_400))
    assert run_kernel(tmp_path / "other", **caches) == [[6.0], 1]
    assert time.time() - folder.stat().st_mtime < 86_400  # it was used
    os.utime(folder, (0, time.time() - 100 * 86_400))
    assert run_kernel(tmp_path / "other", **caches) == [[6.0], 0]


TWO_KINDS = """
import sys
sys.path.insert(0, sys.argv[1])
import numpy as np
from safespot.kernels.jit import kernel
from shared_kernel import first
if sys.argv[2] == "record":
    from elsewhere import Point
    print(first(Point(np.array([1.0, 2.0]))), sum(first.stats.cache_hits.values()))
else:
    print(first((np.array([1.0, 2.0]),)), sum(first.stats.cache_hits.values()))
"""


@needs_compiler
def test_where_the_user_has_no_cache_the_package_keeps_it(tmp_path: Path) -> None:
    package = copy_with_probe(tmp_path)
    (tmp_path / "file").touch()  # no folder can be made here, not even by root
    nowhere = str(tmp_path / "file" / "nowhere")
    assert run_kernel(tmp_path, XDG_CACHE_HOME=nowhere) == [[6.0], 0]
    assert run_kernel(tmp_path, XDG_CACHE_HOME=nowhere) == [[6.0], 1]
    assert list((package / "model" / "__pycache__").glob("*start_values*.nbc"))


@needs_compiler
def test_where_nothing_can_be_written_to_kernels_are_compiled_every_time(tmp_path: Path) -> None:
    package = copy_with_probe(tmp_path)
    (package / "model" / "__pycache__").touch()
    (tmp_path / "file").touch()
    nowhere = str(tmp_path / "file" / "nowhere")
    for _ in range(2):
        assert run_kernel(tmp_path, XDG_CACHE_HOME=nowhere, HOME=nowhere) == [[6.0], 0]


def test_a_division_by_zero_is_not_an_error_in_a_kernel() -> None:
    @compilation.kernel
    def divide(a: float, b: float) -> float:
        return a / b

    if COMPILED:
        assert divide(1.0, 0.0) == np.inf


def test_negative_numbers_are_refused_where_promises_are_checked() -> None:
    @compilation.kernel
    def same(i: int) -> int:
        return i

    assert same(3) == 3
    if not COMPILED or numba.config.BOUNDSCHECK:
        with pytest.raises(IndexError, match="negative"):
            same(-1)


def test_zero_is_not_negative_where_kernels_run_uncompiled() -> None:
    same: Any = compilation._checked(lambda *numbers: numbers, False)
    assert same(0, np.int64(3), -0.5, False) == (0, 3, -0.5, False)
    for negative in (-1, np.int32(-1)):
        with pytest.raises(IndexError, match="negative"):
            same(0, negative)
