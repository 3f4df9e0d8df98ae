"""What was built: the sources as they stand, with the stub beside them, and a wall between learning and the truth."""

from __future__ import annotations

import hashlib
import importlib.metadata
import importlib.util
import re
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

import safespot as ss
from safespot import _core

ROOT = Path(__file__).parents[2]
CORE = ROOT / "core"


def test_the_core_is_that_of_the_sources() -> None:
    """What CMake hashed when it was configured: CMakeLists.txt has the same rule."""
    names = sorted(
        str(p.relative_to(CORE)) for kind in ("*.hpp", "*.cpp") for p in CORE.rglob(kind)
    )
    hashes = "".join(hashlib.sha256((CORE / name).read_bytes()).hexdigest() for name in names)
    expected = hashlib.sha256(hashes.encode()).hexdigest()
    assert _core.sources == expected, "the core is older than core/: run `make .venv/ready`"


def test_the_stub_is_that_of_the_module(tmp_path: Path) -> None:
    out = tmp_path / "_core.pyi"
    arguments = ["-m", "nanobind.stubgen", "-q", "-m", "safespot._core", "-o", str(out)]
    subprocess.run([sys.executable, *arguments], check=True)
    checked_in = (ROOT / "src/safespot/_core.pyi").read_text()
    assert without_machine(out.read_text()) == without_machine(checked_in), f"check in {arguments}"


def without_machine(stub: str) -> str:
    """Leave out what differs from machine to machine, and how lines are broken."""
    stub = re.sub(r"^(sources|levels)\b.*$", "", stub, flags=re.M)
    return re.sub(r"\s+|,(?=\s*\))", "", stub).replace("'", '"')


def test_the_version_is_that_of_the_package() -> None:
    assert importlib.metadata.version("safespot") == ss.__version__


def includes(room: str) -> set[str]:
    text = "".join(p.read_text() for p in (CORE / room).rglob("*.?pp"))
    return set(re.findall(r'#include "(.+)"', text))


def test_learning_cannot_include_the_truth() -> None:
    truth, learning = (
        {p.name for p in (CORE / room).glob("*.hpp")} for room in ("truth", "learning")
    )
    assert truth
    assert not includes("learning") & truth
    assert not includes("truth") & learning
    assert not includes("arrays") & (truth | learning)
    assert not any("/" in name for name in includes("learning") | includes("truth"))


def test_no_learner_takes_the_truth_from_the_core() -> None:
    package = ROOT / "src/safespot"
    for room in ("spot", "learners", "evidence", "storage", "signals", "planning"):
        for module in (package / room).rglob("*.py"):
            assert not re.search(r"_core\.(Truth|Loop)|_core import", module.read_text()), module


@pytest.mark.skipif(shutil.which("g++") is None, reason="no compiler")
@pytest.mark.parametrize("room", ["learning", "truth"])
def test_a_room_finds_no_header_of_the_other(room: str, tmp_path: Path) -> None:
    other = {"learning": "values.hpp", "truth": "spot.hpp"}[room]
    for header, works in ((other, False), ("sums.hpp", True)):
        source = tmp_path / "source.cpp"
        source.write_text(f'#include "{header}"\n')
        paths = [f"-I{CORE / name}" for name in ("arrays", room)]
        built = subprocess.run(
            ["g++", "-std=c++20", "-w", "-fsyntax-only", *paths, str(source)], capture_output=True
        )
        assert (built.returncode == 0) == works


def backend() -> ModuleType:
    spec = importlib.util.spec_from_file_location("core_backend", CORE / "backend.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_zig_is_asked_for_where_no_compiler_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = backend()
    monkeypatch.chdir(ROOT)
    monkeypatch.delenv("CXX", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    hooks = module.get_requires_for_build_wheel, module.get_requires_for_build_editable
    assert all(any("ziglang" in each for each in hook()) for hook in hooks)
    for name in ("c++", "g++", "clang++"):
        compiler = tmp_path / name
        compiler.write_text("#!/bin/sh\n")
        compiler.chmod(0o755)
        assert not any("ziglang" in each for hook in hooks for each in hook())
        compiler.unlink()
    monkeypatch.setenv("CXX", "/opt/bin/c++")
    assert not module.compiler_missing()


def test_cxx_is_formatted() -> None:
    tool = shutil.which("clang-format", path=str(Path(sys.executable).parent))
    if tool is None:
        pytest.skip("clang-format is not installed")
    files = [str(p) for kind in ("*.hpp", "*.cpp") for p in CORE.rglob(kind)]
    checked = subprocess.run([tool, "--dry-run", "-Werror", *files], capture_output=True, text=True)
    assert checked.returncode == 0, checked.stderr[:2000]
