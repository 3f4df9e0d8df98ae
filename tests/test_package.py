"""The package as its users get it: the wheel, the lazy public names, the cache of compiled code."""

from __future__ import annotations

import ast
import importlib.metadata
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import safespot as ss
from tests.support.copies import hide_editable_install

ROOT = Path(__file__).parents[1]
SOURCE = Path(ss.__file__).parent


def run_python(code: str, folder: Path, cwd: Path) -> subprocess.CompletedProcess[str]:
    """Run `code` in a new Python that finds packages in `folder` first."""
    caches = str(folder / "caches")  # compiled code of its own
    environment = {**os.environ, "PYTHONPATH": str(folder), "NUMBA_CACHE_DIR": caches}
    return subprocess.run(
        [sys.executable, "-c", code],
        env=environment, cwd=cwd, capture_output=True, text=True, timeout=300, check=True,
    )  # fmt: skip


def test_every_public_name_resolves_and_is_listed() -> None:
    for name in ss.__all__:
        assert getattr(ss, name) is not None
        assert name in dir(ss)
    assert sorted(set(ss.__all__)) == sorted(ss.__all__)
    assert "__version__" in dir(ss)


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="module 'safespot' has no attribute 'sovle'"):
        ss.sovle  # type: ignore[attr-defined]  # noqa: B018


def test_importing_is_light(tmp_path: Path) -> None:
    code = "import safespot, sys, json; safespot.SafespotError; print(json.dumps([*sys.modules]))"
    modules = set(json.loads(run_python(code, SOURCE.parent, tmp_path).stdout))
    assert "safespot" in modules
    assert modules.isdisjoint({"numpy", "numba", "scipy", "safetensors"})


def test_the_wheel_installs_and_works_alone(tmp_path: Path) -> None:
    # Built from a copy, so that nothing is left behind in the project.
    project = tmp_path / "project"
    project.mkdir()
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, project)
    ignore = shutil.ignore_patterns("__pycache__")
    for name in ("src", "core"):
        shutil.copytree(ROOT / name, project / name, ignore=ignore)
    quiet: dict[str, Any] = {"check": True, "capture_output": True, "timeout": 300}
    build = "-m", "build", "--wheel", "--no-isolation", "--outdir", tmp_path / "dist"
    subprocess.run([sys.executable, *build, project], **quiet)
    (wheel,) = (tmp_path / "dist").iterdir()
    target = tmp_path / "site"
    pip = "-m", "pip", "--disable-pip-version-check", "install", "--no-deps", "--no-index"
    subprocess.run([sys.executable, *pip, "--target", target, wheel], **quiet)
    hide_editable_install(target)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    code = """
import importlib.metadata, json, safespot as ss
machine = ss.problems.make("machine")
metadata = importlib.metadata.metadata("safespot")
print(json.dumps([ss.__file__, ss.__version__, metadata["Version"], ss.solve(machine.cmdp).value]))
"""
    home, version, stated, value = json.loads(run_python(code, target, elsewhere).stdout)
    assert Path(home).parent == target / "safespot"
    assert version == stated == ss.__version__
    assert value == pytest.approx(11, abs=1e-8)
    assert (target / "safespot" / "py.typed").exists()
    installed = {p.relative_to(target) for p in (target / "safespot").rglob("*.py")}
    sources = {p.relative_to(SOURCE.parent) for p in SOURCE.rglob("*.py")}
    assert installed == sources


def test_the_installed_metadata_ask_for_what_is_imported() -> None:
    """Every package that the sources import anywhere, but for those that an extra or the user brings."""
    homes = importlib.metadata.packages_distributions()
    imported = set()
    for source in SOURCE.rglob("*.py"):
        for node in ast.walk(ast.parse(source.read_text())):
            names = [a.name for a in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom) and node.level == 0:
                names = [node.module or ""]
            imported |= {name.partition(".")[0] for name in names}
    packages = {homes[name][0] for name in imported if name in homes} - {"safespot"}
    requires = importlib.metadata.requires("safespot") or []
    name = re.compile(r"[\w.-]+")  # before the versions
    plain = {name.findall(line)[0] for line in requires if "extra ==" not in line}
    extras = {name.findall(line)[0] for line in requires if "extra ==" in line}
    assert packages - plain <= extras | {"pandas"}
    assert plain <= packages
