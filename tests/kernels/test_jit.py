"""The cache of compiled code: where it goes, and what makes it stale. More of it is in `test_package.py`."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numba
import numpy as np
import pytest

import safespot as ss
from safespot.kernels import cache
from safespot.kernels import jit as compilation
from safespot.training import loop
from tests.support.digest import digests
from tests.support.processes import run_python
from tests.support.trails import example, spot
from tests.support.training_cases import CASES

SOURCE = Path(ss.__file__).parent
COMPILED = not numba.config.DISABLE_JIT
needs_compiler = pytest.mark.skipif(not COMPILED, reason="kernels are plain Python here")

RUN_KERNEL = """
import json, sys
import numpy as np
from safespot.kernels.jit import compiled_at_once
from safespot.model.dynamic_programming import start_values
start = np.full(int(sys.argv[1]), 0.5)
try:
    with compiled_at_once():
        value = start_values(start, np.array([[4.0, 8.0]])).tolist()
except IndexError:
    value = "out of bounds"
print(json.dumps([value, sum(start_values.stats.cache_hits.values())]))
"""


def copy_package(folder: Path) -> Path:
    """A copy of the package without any compiled code."""
    package = folder / "safespot"
    shutil.copytree(SOURCE, package, ignore=shutil.ignore_patterns("__pycache__"))
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
    copy_package(tmp_path)
    assert run_kernel(tmp_path) == [[6.0], 0]
    assert run_kernel(tmp_path) == [[6.0], 1]
    assert run_kernel(tmp_path, entries=1, NUMBA_BOUNDSCHECK="1") == ["out of bounds", 0]
    assert run_kernel(tmp_path, NUMBA_BOUNDSCHECK="1") == [[6.0], 1]
    assert run_kernel(tmp_path) == [[6.0], 1]


@needs_compiler
def test_every_copy_of_the_package_finds_what_one_compiled(tmp_path: Path) -> None:
    for name in ("one", "other"):
        (tmp_path / name).mkdir()
        copy_package(tmp_path / name)
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
def test_who_lacks_a_record_from_elsewhere_is_not_disturbed_by_what_was_compiled_for_it(
    tmp_path: Path,
) -> None:
    """One kernel, called with a record that only one of two processes has; both keep what they compiled."""
    (tmp_path / "shared_kernel.py").write_text(
        "from safespot.kernels.jit import kernel\n@kernel\ndef first(x):\n    return x[0][0]\n"
    )
    elsewhere = tmp_path / "elsewhere.py"
    source = "from typing import Any, NamedTuple\nclass Point(NamedTuple):\n    x: Any\n"

    def call(kind: str) -> str:
        elsewhere.unlink(missing_ok=True)
        if kind == "record":
            elsewhere.write_text(source)
        code = TWO_KINDS.replace("sys.argv[1]", repr(str(tmp_path))).replace(
            "sys.argv[2]", repr(kind)
        )
        return run_python(
            code, NUMBA_CACHE_DIR=str(tmp_path / "caches"), PYTHONDONTWRITEBYTECODE="1"
        )

    assert [call("record"), call("plain")] == ["1.0 0", "1.0 0"]
    assert [call("plain"), call("record")] == ["1.0 1", "1.0 1"]


@needs_compiler
def test_where_the_user_has_no_cache_the_package_keeps_it(tmp_path: Path) -> None:
    package = copy_package(tmp_path)
    (tmp_path / "file").touch()  # no folder can be made here, not even by root
    nowhere = str(tmp_path / "file" / "nowhere")
    assert run_kernel(tmp_path, XDG_CACHE_HOME=nowhere) == [[6.0], 0]
    assert run_kernel(tmp_path, XDG_CACHE_HOME=nowhere) == [[6.0], 1]
    assert list((package / "model" / "__pycache__").glob("*start_values*.nbc"))


@needs_compiler
def test_where_nothing_can_be_written_to_kernels_are_compiled_every_time(tmp_path: Path) -> None:
    package = copy_package(tmp_path)
    (package / "model" / "__pycache__").touch()
    (tmp_path / "file").touch()
    nowhere = str(tmp_path / "file" / "nowhere")
    for _ in range(2):
        assert run_kernel(tmp_path, XDG_CACHE_HOME=nowhere, HOME=nowhere) == [[6.0], 0]


@needs_compiler
def test_kernels_release_the_lock_and_keep_to_the_rules_of_numbers() -> None:
    from safespot.kernels.parts import PartDispatcher
    from safespot.model import dynamic_programming, signals, simulation
    from safespot.spot import window as windows
    from safespot.training import metrics

    kernels = [
        loop.play_chunk,
        windows.rebuild_tree,
        metrics.accumulate,
        dynamic_programming.best_deterministic,
    ]
    kernels += [signals.beta_cdf, simulation.play_kernel]
    for kernel in kernels:
        options = kernel.targetoptions  # type: ignore[attr-defined]
        assert options["nogil"] is True
        assert not options.get("fastmath")
        assert not options.get("parallel")
        kept = isinstance(kernel._cache, cache.PackageCache)  # type: ignore[attr-defined]
        assert kept != isinstance(kernel, PartDispatcher)


@needs_compiler
def test_one_compiled_loop_serves_every_problem_and_learner() -> None:
    """The loop takes most of a minute to compile: an array of another type must not ask for another one."""
    for problem, options in CASES.values():
        made = example(**problem)
        ss.learn(made, spot(made, 20, **options))
    signatures = [str(each) for each in loop.play_chunk.signatures]  # type: ignore[attr-defined]
    ours = [
        each
        for each in signatures
        if "SpotRates" in each and "Nobody" in each and "Totals" not in each
    ]
    assert len(ours) == 1


def test_a_division_by_zero_is_not_an_error_in_a_kernel() -> None:
    @compilation.kernel
    def divide(a: float, b: float) -> float:
        return a / b

    if COMPILED:
        assert divide(1.0, 0.0) == np.inf


@pytest.fixture
def compiled_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    """No code from an earlier run serves."""

    def nowhere(function: Any) -> None:
        raise RuntimeError

    monkeypatch.setattr(cache, "PackageCache", nowhere)


def assembly(compiled: Any) -> list[str]:
    """The instructions of a function of two matrices and two vectors, without names."""
    matrix, vector = np.zeros((5, 5)), np.zeros(50)
    compiled(matrix, matrix, vector, vector.copy(), 5, 5)
    (text,) = compiled.inspect_asm().values()
    return [line for line in text.splitlines() if "_ZN" not in line and "." not in line]


def counting(a: Any, b: Any, c: Any, d: Any, n: int, m: int) -> float:
    """Arrays with seven ways of counting through them."""
    total = 0.0
    for i in range(a.shape[0]):
        for j in range(a.shape[1]):
            total += a[i, j] * b[j, i] + c[2 * i + j] * d[3 * j + i] + c[5 * j + i] * d[7 * i + j]
            c[i + j] = total
    return total


@needs_compiler
@pytest.mark.skipif(
    bool(numba.config.BOUNDSCHECK),
    reason="with every index checked the example has nothing to reduce",
)
@pytest.mark.usefixtures("compiled_anew")
def test_only_our_kernels_are_compiled_without_loop_strength_reduction(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def outer(a: Any, b: Any, c: Any, d: Any, n: int, m: int) -> float:
        total = called(n)  # compiled while this one is
        for i in range(a.shape[0]):
            for j in range(a.shape[1]):
                total += (
                    a[i, j] * b[j, i] + c[2 * i + j] * d[3 * j + i] + c[5 * j + i] * d[7 * i + j]
                )
                c[i + j] = total
        return total

    def half(n: int) -> float:
        return n / 2

    others_before = assembly(numba.njit(counting))
    called = compilation.kernel(half)
    ours, nested = assembly(compilation.kernel(counting)), assembly(compilation.kernel(outer))
    assert assembly(numba.njit(counting)) == others_before
    monkeypatch.setattr("llvmlite.binding.set_option", lambda *_: None)
    called = compilation.kernel(half)
    assert assembly(compilation.kernel(counting)) != ours
    assert assembly(compilation.kernel(outer)) != nested


@needs_compiler
@pytest.mark.usefixtures("compiled_anew")
def test_a_disjoint_kernel_is_told_so_and_no_other() -> None:
    def double(x: Any, out: Any) -> None:
        for k in range(x.shape[0]):
            out[k] = 2.0 * x[k]

    promises = []
    for decorate in (compilation.inlined, compilation.inlined_noalias):
        compiled: Any = decorate(double)
        x, out = np.arange(5.0), np.zeros(5)
        compiled(x, out)
        assert out.tolist() == [0.0, 2.0, 4.0, 6.0, 8.0]
        (text,) = compiled.whole.inspect_llvm().values()
        promises.append(text.count(" noalias "))
    assert promises[1] > promises[0]


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


@needs_compiler
@pytest.mark.usefixtures("compiled_anew")
def test_negative_numbers_are_refused_where_bounds_are_checked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from numba.extending import intrinsic

    from safespot.kernels import nonnegative

    # Numba keeps what it made of an intrinsic for each type.
    monkeypatch.setattr(nonnegative, "assumed", intrinsic(nonnegative.assumed._defn))
    monkeypatch.setattr(numba.config, "BOUNDSCHECK", 1)

    @compilation.kernel
    def entry(x: Any, i: int, scale: float) -> float:
        return float(x[i] * scale)

    assert entry(np.arange(4.0), 0, -1.0) == 0.0
    assert entry(np.arange(4.0), 2, -1.0) == -2.0
    with pytest.raises(IndexError, match="a whole number is negative"):
        entry(np.arange(4.0), -1, -1.0)


@needs_compiler
@pytest.mark.usefixtures("compiled_anew")
def test_an_index_that_is_handed_over_needs_no_code_for_negative_ones() -> None:
    def entry(x: Any, i: int) -> float:
        return float(x[i])

    ours: Any = compilation.kernel(entry)
    assert ours(np.arange(4.0), 2) == 2.0
    (text,) = ours.inspect_llvm().values()
    assert "llvm.assume" in text or numba.config.BOUNDSCHECK


CHECKED = """
import numpy as np
from safespot.kernels.jit import inlined_noalias

@inlined_noalias
def double(x, out):
    for k in range(x.shape[0]):
        out[k] = 2.0 * x[k]

x = np.arange(6.0)
double(x, np.zeros(6))
double(x[:3], x[3:])
try:
    double(x[:3], x[1:4])
except ValueError as problem:
    print(problem)
"""


def test_memory_that_kernels_share_is_noticed_where_they_run_uncompiled() -> None:
    said = run_python(CHECKED, NUMBA_DISABLE_JIT="1")
    assert said == "double writes to memory that two of its arrays share"


@needs_compiler
def test_kernels_have_the_same_bits_with_nothing_but_what_numba_offers_in_public() -> None:
    plain = run_python(
        "from tests.support.digest import digests\n"
        "from safespot.kernels import jit\n"
        "assert jit._parts() is None and '_nrt' not in jit._options(refcount=False, inline=True)\n"
        "for key, value in digests().items(): print(key, value)",
        SAFESPOT_PLAIN_NUMBA="1",
    )
    assert plain.splitlines() == [f"{key} {value}" for key, value in digests().items()]


@needs_compiler
@pytest.mark.usefixtures("compiled_anew")
def test_what_a_numba_does_not_have_is_left_out_with_a_word(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fails(*_: Any, **options: Any) -> Any:
        raise TypeError("an option that this Numba does not know")

    caplog.set_level("INFO", logger="safespot")
    with monkeypatch.context() as patch:
        patch.setattr(numba, "njit", fails)
        assert compilation._knows_nrt.__wrapped__() is False
    with monkeypatch.context() as patch:
        patch.setitem(sys.modules, "safespot.kernels.parts", None)
        patch.delattr("safespot.kernels.parts", raising=False)
        assert compilation._parts.__wrapped__() is None
    assert "counting no references" in caplog.text
    assert "whole numbers that are never negative" in caplog.text
    assert "same results" in caplog.text
