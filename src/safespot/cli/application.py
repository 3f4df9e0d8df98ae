"""The application that the subcommands join, the words that they share, and the command itself."""

from __future__ import annotations

import os
import signal
import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from .. import __version__
from ..errors import InvalidFile, InvalidModel, InvalidOption, SafespotError, UnknownName

STOPPED = 130  # the exit code after Ctrl-C

WRONG_INPUT = (InvalidFile, InvalidModel, InvalidOption, UnknownName)

app = typer.Typer(
    name="safespot",
    help="Safe reinforcement learning for finite problems whose safety limits are themselves unknown.",
    epilog="Begin with: safespot problems",
    no_args_is_help=True,
    rich_markup_mode=None,  # plain help is there at once
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON document.")]

Options = Annotated[
    list[str] | None,
    typer.Option(
        "--option", "-o", metavar="NAME=VALUE", help="An option of the problem; may be repeated."
    ),
]

Out = Annotated[Path, typer.Option("--out", metavar="STORE", help="Folder for the results.")]

Workers = Annotated[
    int | None,
    typer.Option(min=1, help="Number of worker processes; one per processor by default."),
]


class EngineName(StrEnum):
    """The places that run sweeps."""

    local = "local"
    dask = "dask"


Engine = Annotated[
    EngineName,
    typer.Option(help="Where runs are done: processes of this machine, or a Dask cluster."),
]
Scheduler = Annotated[
    str | None, typer.Option(metavar="ADDRESS", help="Address of a Dask scheduler, tcp://…")
]


def main() -> None:
    """Run `app`, with errors on one screen and no traceback unless asked for."""
    _open_closed_streams()
    try:
        try:
            app()
        except SystemExit as end:
            if end.code == STOPPED:
                signal.signal(signal.SIGINT, signal.SIG_IGN)  # it is ending already
            raise
        finally:
            sys.stdout.flush()  # here, where it can still be said that it failed
    except SafespotError as exc:
        if debugging():
            raise
        print(f"safespot: {exc}", file=sys.stderr)
        sys.exit(2 if isinstance(exc, WRONG_INPUT) else 1)
    except BrokenPipeError:  # the reader has closed the pipe
        _close_output()
        sys.exit(0)
    except (
        OSError,
        MemoryError,
    ) as exc:  # a full disk behind standard output, a problem too large
        if debugging():
            raise
        _close_output()
        if isinstance(exc, MemoryError):
            why = f"out of memory ({exc})" if str(exc) else "out of memory"
            why += ". Take a smaller problem, or a machine with more memory"
        else:
            why = str(exc.strerror or exc)
        print(f"safespot: {why}.", file=sys.stderr)
        sys.exit(1)


def _open_closed_streams() -> None:
    """Put the null device where standard output or error was closed (`>&-`), so that no other file takes its place."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115


def _close_output() -> None:
    """Send the rest of standard output to the null device, so that its flush at the exit raises nothing."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def debugging() -> bool:
    """Return whether SAFESPOT_DEBUG asks for tracebacks of errors."""
    return bool(os.environ.get("SAFESPOT_DEBUG"))


def _version(wanted: bool) -> None:
    if wanted:
        print(f"safespot {__version__}")
        raise typer.Exit


@app.callback()
def options(
    debug: Annotated[bool, typer.Option(help="Show tracebacks of errors.")] = False,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """Handle the options before the subcommand."""
    if debug:
        os.environ["SAFESPOT_DEBUG"] = "1"
