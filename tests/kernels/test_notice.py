"""Whoever waits for kernels to compile is told."""

from __future__ import annotations

import io
import os
import subprocess
import sys
import time
from pathlib import Path

import numba
import pytest

import safespot as ss
from safespot.kernels import notice


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setattr(notice, "_spent", 0.0)
    monkeypatch.setattr(notice, "_said", False)
    monkeypatch.setattr(notice, "PATIENCE_SECONDS", 0.05)
    caplog.set_level("INFO", logger="safespot")


def wait(seconds: float) -> None:
    with notice.compiling("work"):
        time.sleep(seconds)


@pytest.mark.usefixtures("impatient")
def test_it_is_said_once_where_somebody_watches(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(notice, "watched", lambda: True)
    for _ in range(2):
        wait(0.3)
    assert capsys.readouterr().err == f"safespot: {notice.NOTICE}\n"
    assert caplog.text.count(notice.NOTICE) == 1
    assert caplog.text.count("compiled work in 0.3 s") == 2


@pytest.mark.usefixtures("impatient")
def test_many_short_waits_are_one_long_one(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(notice, "watched", lambda: True)
    monkeypatch.setattr(notice, "PATIENCE_SECONDS", 0.5)
    wait(0.0)
    assert capsys.readouterr().err == ""
    for _ in range(3):
        wait(0.25)
    assert "compiling kernels" in capsys.readouterr().err


@pytest.mark.usefixtures("impatient")
def test_a_pipe_is_told_nothing_but_the_log_is(
    capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    wait(0.3)
    assert capsys.readouterr().err == ""
    assert notice.NOTICE in caplog.text


@pytest.mark.usefixtures("impatient")
def test_whoever_did_not_wait_is_told_nothing_later(caplog: pytest.LogCaptureFixture) -> None:
    wait(0.0)
    time.sleep(0.15)
    assert notice.NOTICE not in caplog.text


class Terminal(io.StringIO):
    """Standard error that somebody reads."""

    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("stream", "expected"), [(Terminal(), True), (io.StringIO(), False), (None, False)]
)
def test_a_terminal_is_watched_and_a_pipe_or_nothing_is_not(
    stream: io.StringIO | None, expected: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(sys.modules, "ipykernel", raising=False)
    monkeypatch.setattr(sys, "stderr", stream)
    assert notice.watched() is expected


def test_a_notebook_is_watched(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ipykernel", notice)
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    assert notice.watched() is True


CODE = """
from safespot.kernels import notice
from safespot.kernels.jit import kernel
notice.PATIENCE_SECONDS = 0.0
@kernel
def twice(x):
    return 2 * x
print(twice(21))
"""


@pytest.mark.skipif(bool(numba.config.DISABLE_JIT), reason="kernels are plain Python here")
def test_a_terminal_shows_one_line() -> None:
    ours, theirs = os.openpty()
    path = str(Path(ss.__file__).parents[1])
    said = subprocess.run(
        [sys.executable, "-c", CODE], env={**os.environ, "PYTHONPATH": path}, timeout=300,
        stdout=subprocess.PIPE, stderr=theirs, text=True, check=True,
    )  # fmt: skip
    assert said.stdout.strip() == "42"
    assert os.read(ours, 1024).decode().strip() == f"safespot: {notice.NOTICE}"
    os.close(ours)
    os.close(theirs)
