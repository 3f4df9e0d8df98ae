"""Where results come from: versions, commit and machine."""

from __future__ import annotations

import functools
import os
import platform
import socket
import subprocess
import tomllib
from pathlib import Path
from typing import Any

from .checkpoints import versions

NAME = "safespot"
GIT_SECONDS = 10.0  # for Git to answer


@functools.cache
def here() -> dict[str, Any]:
    """Where this process runs, and what."""
    return {
        "versions": versions(),
        "git": _git(),
        "host": socket.gethostname(),
        "system": platform.platform(),
        "machine": platform.machine(),
    }


def _git() -> dict[str, Any] | None:
    """The commit of the package's own repository, and whether its sources were changed since; None: there is none.

    Where the package is installed inside of somebody's repository, its commit says nothing about these sources. Git is
    asked without any program or lock of that repository.
    """
    source = Path(__file__).parents[1]
    root = source.parents[1]
    if source != root / "src" / NAME or not (root / ".git").exists() or not _is_ours(root):
        return None
    clean = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    safe = [
        "--no-optional-locks",
        "-c",
        "core.fsmonitor=false",
        "-c",
        f"core.hooksPath={os.devnull}",
    ]
    try:
        commit, status = (
            subprocess.run(
                ["git", *safe, "-C", str(root), *arguments],
                capture_output=True,
                text=True,
                check=True,
                env=clean,
                timeout=GIT_SECONDS,
            ).stdout.strip()
            for arguments in (
                ["rev-parse", "HEAD"],
                ["status", "--porcelain", "--", str(source.relative_to(root))],
            )
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return {"commit": commit, "changed": bool(status)}


def _is_ours(root: Path) -> bool:
    """Whether a folder is the root of this package's own sources."""
    try:
        about = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))
        return bool(about["project"]["name"] == NAME)
    except (OSError, ValueError, KeyError, TypeError):
        return False
