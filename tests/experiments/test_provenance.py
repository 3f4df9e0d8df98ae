"""Where results come from: the commit of these sources, and of no other repository."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from safespot.experiments import provenance

pytestmark = pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")


def git(folder: Path, *arguments: str) -> str:
    identity = ["-c", "user.name=a", "-c", "user.email=a@b"]
    done = subprocess.run(
        ["git", *identity, "-C", str(folder), *arguments],
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.strip()


def planted(folder: Path, place: str, name: str) -> Path:
    """The package in somebody's repository, whose project has that name; returns where `provenance` then lies."""
    here = folder / place / "experiments" / "provenance.py"
    here.parent.mkdir(parents=True)
    here.touch()
    (folder / "pyproject.toml").write_text(f'[project]\nname = "{name}"\n')
    git(folder, "init", "-q")
    git(folder, "add", "-A")
    git(folder, "commit", "-qm", "one")
    return here


def asked(here: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(provenance, "__file__", str(here))
    return provenance._git()


def test_the_commit_is_that_of_our_own_sources(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = planted(tmp_path, "src/safespot", "safespot")
    found = {"commit": git(tmp_path, "rev-parse", "HEAD"), "changed": False}
    assert asked(here, monkeypatch) == found
    (tmp_path / "elsewhere").touch()
    assert asked(here, monkeypatch) == found
    here.write_text("changed")
    assert asked(here, monkeypatch) == {**found, "changed": True}


@pytest.mark.parametrize(
    ("place", "name"),
    [
        (".venv/lib/python3.11/site-packages/safespot", "theirs"),
        ("vendor/src/safespot", "theirs"),
        ("src/safespot", "theirs"),
        ("lib/safespot", "safespot"),
    ],
)
def test_somebody_elses_commit_is_not_ours(
    place: str, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert asked(planted(tmp_path, place, name), monkeypatch) is None


def test_no_program_and_no_lock_of_a_repository_is_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = planted(tmp_path, "src/safespot", "safespot")
    ran = tmp_path / "ran"
    hook = tmp_path / "hook"
    hook.write_text(f"#!/bin/sh\ntouch {ran}\n")
    hook.chmod(0o755)
    git(tmp_path, "config", "core.fsmonitor", str(hook))
    commit = git(tmp_path, "rev-parse", "HEAD")
    index = tmp_path / ".git" / "index"
    here.touch()  # whose times git would note in its index
    ran.unlink(missing_ok=True)
    before = index.stat().st_mtime_ns, index.read_bytes()
    other = tmp_path / "other"
    planted(other, "src/safespot", "safespot")
    git(
        other, "commit", "-q", "--allow-empty", "-m", "two"
    )  # made in one second, the first are equal
    monkeypatch.setenv("GIT_DIR", str(other / ".git"))
    monkeypatch.setenv("GIT_INDEX_FILE", str(other / "index"))
    found = asked(here, monkeypatch)
    assert found is not None
    assert found["commit"] == commit
    assert not ran.exists()
    assert (index.stat().st_mtime_ns, index.read_bytes()) == before
