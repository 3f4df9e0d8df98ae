"""A Python of its own, with the package and the tests on its path."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import safespot as ss

ROOT = Path(__file__).parents[2]


def python(*arguments: str, **environment: str) -> subprocess.Popen[str]:
    """A new Python that finds this package and these tests."""
    path = os.pathsep.join([str(Path(ss.__file__).parents[1]), str(ROOT)])
    return subprocess.Popen(
        [sys.executable, *arguments],
        env={**os.environ, "PYTHONPATH": path, **environment}, cwd=ROOT, text=True,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip


def run_python(code: str, **environment: str) -> str:
    """What some code prints in a Python of its own, which must succeed."""
    process = python("-W", "error", "-c", code, **environment)
    said, _ = process.communicate(timeout=600)
    assert process.returncode == 0, said
    return said.strip()
