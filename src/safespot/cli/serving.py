"""`safespot serve`: a durable learner behind HTTP, and the tokens of those who may use it."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from .application import AsJson, app
from .output import print_json


class _Serve(TyperGroup):
    """``serve FOLDER`` is ``serve folder FOLDER``: the folder may have any name but that of a subcommand."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        wants_help = args[:1] in (["--help"], ["-h"]) or not args
        if not wants_help and args[0] not in self.commands:
            args = ["folder", *args]
        return super().parse_args(ctx, args)


serve_app = typer.Typer(
    cls=_Serve,
    help="Serve a durable learner over HTTP: safespot serve FOLDER. Needs the extra safespot[serve].",
    epilog="Options of the service itself: safespot serve folder --help",
    no_args_is_help=True,
    rich_markup_mode=None,
)
token_app = typer.Typer(
    help="Tokens: who may decide, read, administer.", no_args_is_help=True, rich_markup_mode=None
)
serve_app.add_typer(token_app, name="token")
app.add_typer(serve_app, name="serve")

Folder = Annotated[Path, typer.Argument(metavar="FOLDER", help="Folder of a durable learner.")]


@serve_app.command("folder")
def serve(
    folder: Folder,
    host: Annotated[
        str, typer.Option(help="Address to listen on; another machine needs tokens.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port to listen on.")] = 8000,
    expire_after: Annotated[
        float,
        typer.Option(
            min=1.0, metavar="SECONDS",
            help="An episode of which nothing is heard for so long expires, and counts at its worst.",
        ),
    ] = 86_400.0,
    most_open: Annotated[
        int, typer.Option(min=1, help="Episodes that may be open at the same time.")
    ] = 1_000,
) -> None:  # fmt: skip
    """Serve a durable learner over HTTP, until Ctrl-C or SIGTERM.

    Episodes that are open then are there when it is served again. docs/service.md has the requests.

    \b
    Examples:
      safespot serve ward-7
      safespot serve ward-7 --host 0.0.0.0 --port 8443 --expire-after 604800
    """
    from ..service.desk import Settings
    from ..service.server import serve as run

    print(f"safespot: opening {folder} …", file=sys.stderr, flush=True)

    def ready(desk: Any) -> None:
        counted, left = desk.current.version, desk.open
        print(
            f"safespot: {counted:,} episodes, {left:,} open; listening on http://{host}:{port}",
            file=sys.stderr,
            flush=True,
        )

    run(folder, host, port, Settings(expire_after, most_open), ready)


@token_app.command("add")
def add(
    folder: Folder,
    name: Annotated[str, typer.Argument(metavar="NAME", help="Who will use it.")],
    right: Annotated[
        list[str],
        typer.Option(metavar="RIGHT", help="decide, read or administer; may be repeated."),
    ],
) -> None:
    """Make a token and print it, this once; only its hash is kept.

    \b
    Examples:
      safespot serve token add ward-7 ordering-system --right decide
      safespot serve token add ward-7 dashboard --right read
    """
    from ..service.tokens import add_token

    print(add_token(folder, name, right))


@token_app.command("revoke")
def revoke(
    folder: Folder,
    name: Annotated[str, typer.Argument(metavar="NAME", help="Whose token it is.")],
) -> None:
    """Take a token back; a running service notices within a second.

    \b
    Example:
      safespot serve token revoke ward-7 dashboard
    """
    from ..service.tokens import revoke_token

    revoke_token(folder, name)


@token_app.command("list")
def show(folder: Folder, as_json: AsJson = False) -> None:
    """Show who has a token, with which rights, and who made or revoked it.

    \b
    Example:
      safespot serve token list ward-7
    """
    from dataclasses import asdict

    from ..service.tokens import check_learner, read_tokens

    check_learner(folder)
    tokens = read_tokens(folder)
    if as_json:
        hidden = ("sha256",)
        print_json([{k: v for k, v in asdict(t).items() if k not in hidden} for t in tokens])
        return
    if not tokens:
        print("no tokens: every caller from this machine may do everything")
    for each in tokens:
        state = "" if each.revoked is None else f"  revoked by {each.revoked_by}"
        print(f"{each.name}  {', '.join(each.rights)}  made by {each.made_by}{state}")
