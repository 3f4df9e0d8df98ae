"""Where results come from: versions, commit and machine."""

from __future__ import annotations

import functools
import platform
import socket
import subprocess
from pathlib import Path
from typing import Any

from .checkpoints import versions


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
    """The commit of the package's sources and whether they were changed since; None: they are not in git."""
    source = Path(__file__).parents[1]
    if not any((folder / ".git").exists() for folder in source.parents):
        return None
    try:
        commit, status = (
            subprocess.run(
                ["git", "-C", str(source), *arguments], capture_output=True, text=True, check=True
            ).stdout.strip()
            for arguments in (["rev-parse", "HEAD"], ["status", "--porcelain", "--", "."])
        )
    except (OSError, subprocess.CalledProcessError):
        return None
    return {"commit": commit, "changed": bool(status)}
