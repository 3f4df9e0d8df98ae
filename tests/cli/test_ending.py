"""How the command ends: its exit code, what it says of a failure, and what it leaves open."""

from __future__ import annotations

import errno
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from typer.testing import CliRunner

import safespot as ss
from safespot import __version__, cli
from safespot.cli.application import STOPPED


@pytest.fixture(autouse=True)
def quiet(monkeypatch: pytest.MonkeyPatch) -> None:
    """No traceback is asked for; whatever a test asks for is taken back."""
    monkeypatch.setenv("SAFESPOT_DEBUG", "")


@pytest.fixture
def interrupts() -> Iterator[None]:
    """Ctrl-C is heard again after the test."""
    before = signal.getsignal(signal.SIGINT)
    yield
    signal.signal(signal.SIGINT, before)


class Ended(NamedTuple):
    """The exit code, and what had reached standard output, also of what is written after the end."""

    code: object
    out: str


SMALLER = "Take a smaller problem, or a machine with more memory"


def ended(problem: BaseException, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Ended:
    """How a command ends in which something happens after it has answered."""

    def happens() -> None:
        print("answer")
        raise problem

    monkeypatch.setattr("safespot.cli.application.app", happens)
    with (folder / "out").open("w") as out, monkeypatch.context() as patched:
        patched.setattr("sys.stdout", out)
        with pytest.raises(SystemExit) as end:
            cli.main()
        print("more")
    return Ended(end.value.code, (folder / "out").read_text())


@pytest.mark.parametrize(
    ("problem", "code", "said"),
    [
        (ss.errors.InvalidOption("no such option."), 2, "safespot: no such option.\n"),
        (ss.errors.InvalidFile("no such file."), 2, "safespot: no such file.\n"),
        (ss.errors.Infeasible("no policy keeps it."), 1, "safespot: no policy keeps it.\n"),
        (OSError(errno.ENOSPC, "No space left on device"), 1, "safespot: No space left on device.\n"),
        (OSError("a pipe of its own kind"), 1, "safespot: a pipe of its own kind.\n"),
        (MemoryError(), 1, f"safespot: out of memory. {SMALLER}.\n"),
        (MemoryError("3 TiB"), 1, f"safespot: out of memory (3 TiB). {SMALLER}.\n"),
        (BrokenPipeError(errno.EPIPE, "Broken pipe"), 0, ""),
        (SystemExit(0), 0, ""),
    ],
    ids=lambda value: type(value).__name__,
)  # fmt: skip
def test_what_happened_decides_the_exit_code_and_the_only_line(
    problem: BaseException,
    code: int,
    said: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    end = ended(problem, tmp_path, monkeypatch)
    assert (end.code, capsys.readouterr().err) == (code, said)
    assert end.out.startswith("answer\n")


@pytest.mark.parametrize(
    "problem", [ss.errors.InvalidOption("wrong."), OSError("broken"), MemoryError()]
)
def test_with_a_traceback_asked_for_the_problem_itself_comes_out(
    problem: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    def happens() -> None:
        raise problem

    monkeypatch.setattr("safespot.cli.application.app", happens)
    monkeypatch.setenv("SAFESPOT_DEBUG", "1")
    with pytest.raises(type(problem)):
        cli.main()


@pytest.mark.parametrize(
    ("problem", "more"),
    [
        (BrokenPipeError(errno.EPIPE, "Broken pipe"), ""),
        (OSError(errno.EIO, "I/O error"), ""),
        (SystemExit(0), "more\n"),
    ],
)
def test_nothing_more_goes_to_an_output_that_is_broken(
    problem: BaseException, more: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert ended(problem, tmp_path, monkeypatch).out == f"answer\n{more}"


@pytest.mark.usefixtures("interrupts")
@pytest.mark.parametrize(("code", "heard"), [(STOPPED, False), (0, True), (1, True)])
def test_ctrl_c_is_not_heard_again_while_a_stopped_command_ends(
    code: int, heard: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    signal.signal(signal.SIGINT, signal.default_int_handler)
    assert ended(SystemExit(code), tmp_path, monkeypatch).code == code
    assert (signal.getsignal(signal.SIGINT) is not signal.SIG_IGN) is heard


@pytest.mark.parametrize(("words", "wanted"), [([], ""), (["--debug"], "1")])
def test_a_traceback_is_asked_for_with_debug(words: list[str], wanted: str) -> None:
    done = CliRunner().invoke(cli.app, [*words, "problems", "bandit"])
    assert done.exit_code == 0, done.output
    assert os.environ["SAFESPOT_DEBUG"] == wanted


def test_the_version_is_told_and_nothing_else() -> None:
    done = CliRunner().invoke(cli.app, ["--version", "problems"])
    assert (done.exit_code, done.output) == (0, f"safespot {__version__}\n")


@pytest.mark.skipif(os.name == "nt", reason="needs a POSIX shell")
@pytest.mark.parametrize(
    ("words", "closed", "code"),
    [
        ("--version", ">&-", 0),
        ("problems nonsense", ">&- 2>&-", 2),
        ("solve bandit --json", "2>&-", 0),
    ],
)
def test_a_closed_stream_changes_no_exit_code_and_makes_no_noise(
    words: str, closed: str, code: int
) -> None:
    process = subprocess.run(
        ["sh", "-c", f'exec "$0" -m safespot {words} {closed}', sys.executable],
        capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert process.returncode == code, process.stderr
    assert "Traceback" not in process.stderr
    assert ("nonsense" in process.stderr) is (code == 2 and "2>&-" not in closed)
    if ">&-" not in closed.split():  # what belongs to the other stream does not go here
        json.loads(process.stdout)
