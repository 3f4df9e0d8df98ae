"""Compiled code on the disk, in one process: where it is kept, who finds it, and what is thrown away."""

from __future__ import annotations

import os
import stat
import time
from pathlib import Path
from typing import Any, NamedTuple

import numba
import numpy as np
import pytest

from safespot.kernels import cache, jit
from safespot.kernels.sources import digest
from safespot.spot.step import SpotRates

if numba.config.DISABLE_JIT:
    pytest.skip("kernels are plain Python here", allow_module_level=True)


class Point(NamedTuple):
    """A record from elsewhere."""

    x: float


def tripled(x: Any) -> Any:
    """A kernel in the making."""
    out = np.zeros(x.shape[0])
    for k in range(x.shape[0]):
        out[k] = 3.0 * x[k]
    return out


@pytest.fixture
def home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """An empty folder of compiled code, with the user's rights and no others."""
    folder = tmp_path / "kernels"
    folder.mkdir()
    monkeypatch.setattr(cache, "home", lambda: folder)
    cache._mark_used.cache_clear()
    return folder


def hits(kernel: Any) -> int:
    """How often compiled code was found on the disk."""
    return sum(kernel.stats.cache_hits.values())


def test_what_was_compiled_is_found_under_its_sources(home: Path) -> None:
    first: Any = jit.kernel(tripled)
    assert first(np.ones(2)).tolist() == [3.0, 3.0]
    (folder,) = home.iterdir()
    kind = numba.__version__ + "-checked" * bool(numba.config.BOUNDSCHECK)
    assert folder.name == f"{digest([tripled])}-{kind}"
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700  # loading it runs it
    assert sorted(path.suffix for path in folder.iterdir()) == [".nbc", ".nbi"]
    second: Any = jit.kernel(tripled)
    assert second(np.ones(1)).tolist() == [3.0]
    assert (hits(first), hits(second)) == (0, 1)


def test_every_signature_has_files_of_its_own(home: Path) -> None:
    kernel: Any = jit.kernel(tripled)
    kernel(np.ones(2))
    kernel(np.ones(2, dtype=np.float32))
    (folder,) = home.iterdir()
    assert len(list(folder.glob("*.nbi"))) == 2


def test_what_is_used_is_marked(home: Path) -> None:
    jit.kernel(tripled)(np.ones(2))
    (folder,) = home.iterdir()
    os.utime(folder, (0, 0))
    cache._mark_used.cache_clear()  # as a new process
    again: Any = jit.kernel(tripled)
    again(np.ones(2))
    assert hits(again) == 1
    assert time.time() - folder.stat().st_mtime < 86_400


def test_damaged_code_is_compiled_anew(home: Path, caplog: pytest.LogCaptureFixture) -> None:
    jit.kernel(tripled)(np.ones(2))
    for file in home.glob("*/*.nbi"):
        file.write_bytes(file.read_bytes()[:-7])
    again: Any = jit.kernel(tripled)
    assert again(np.ones(2)).tolist() == [3.0, 3.0]
    assert hits(again) == 0
    assert "unreadable" in caplog.text


def test_the_home_is_tidied(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """What nobody used for long goes; a stray file stays, and is no reason to go without a home."""
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path))
    folder = tmp_path / "kernels"
    for name in ("used", "unused"):
        (folder / name).mkdir(parents=True)
    (folder / "stray").touch()
    for name, days in (("used", 89), ("unused", 91), ("stray", 91)):
        then = time.time() - days * 86_400
        os.utime(folder / name, (then, then))
    assert cache.home.__wrapped__() == folder
    assert {path.name for path in folder.iterdir()} == {"used", "stray"}
    (tmp_path / "file").touch()
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path / "file"))
    assert cache.home.__wrapped__() is None
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path / "new" / "deeper"))
    assert cache.home.__wrapped__() == tmp_path / "new" / "deeper" / "kernels"


def test_records_from_elsewhere_are_part_of_what_code_depends_on() -> None:
    @jit.kernel
    def double(x: float) -> float:
        return 2.0 * x

    kinds = [numba.typeof(value) for value in (Point(1.0), (Point(2.0), 3.0), 4.0, double)]
    assert list(cache.chosen(kinds)) == [Point, Point, double.py_func]  # type: ignore[attr-defined]
    own = numba.types.NamedTuple([numba.float64] * len(SpotRates._fields), SpotRates)
    assert SpotRates not in list(cache.chosen([own]))
