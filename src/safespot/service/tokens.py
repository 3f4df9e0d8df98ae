"""Tokens: who may decide, read, administer. The file `tokens.json` keeps their hashes, and who made or revoked them.

A token is 32 random bytes, so its plain SHA-256 cannot be turned back or guessed. Without any token everybody who can
reach the service may do everything: it then listens to its own machine only.
"""

from __future__ import annotations

import contextlib
import getpass
import hashlib
import json
import re
import secrets
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from .. import files
from ..errors import InUse, InvalidFile, InvalidOption, UnknownName, unknown
from ..syscalls import take_lock

FILE = "tokens.json"
DECIDE, READ, ADMINISTER = RIGHTS = ("decide", "read", "administer")


@dataclass(frozen=True)
class Token:
    """A token, without itself."""

    name: str
    sha256: str
    rights: tuple[str, ...]
    made: float
    made_by: str
    revoked: float | None = None
    revoked_by: str | None = None


ANYBODY = Token("anybody", "", RIGHTS, 0.0, "")  # where there are no tokens


def read_tokens(folder: Path) -> list[Token]:
    """All tokens of a folder, revoked ones too."""
    path = folder / FILE
    if not path.exists():
        return []
    try:
        return [_token(each) for each in json.loads(files.read_bytes(path))]
    except (ValueError, TypeError, KeyError, RecursionError) as exc:
        raise InvalidFile(f"{path} is damaged: {exc}. Restore it from a copy.") from None


def _token(fields: dict[str, Any]) -> Token:
    """Return the token that the fields of a file make; others are a TypeError or a ValueError."""
    token = Token(**{**fields, "rights": tuple(fields["rights"])})
    for name in ("name", "sha256"):
        if not isinstance(getattr(token, name), str):
            raise TypeError(f"{name} must be a text")
    if not set(token.rights) <= set(RIGHTS):
        raise ValueError(f"rights must be among {', '.join(RIGHTS)}")
    return token


def hashed(token: str) -> str:
    """What is kept of a token."""
    return hashlib.sha256(token.encode()).hexdigest()


def add_token(folder: Path, name: str, rights: Sequence[str]) -> str:
    """A new token, which is shown this once."""
    if not re.fullmatch(r"[\w.@-]{1,64}", name):
        raise InvalidOption(
            f"{name!r} cannot be the name of a token; expected letters, digits and . _ @ -, 64 at most."
        )
    for right in rights:
        if right not in RIGHTS:
            raise UnknownName(unknown("right", right, RIGHTS))
    if not rights:
        raise InvalidOption("a token needs a right: decide, read or administer.")
    check_learner(folder)
    token = secrets.token_urlsafe(32)
    chosen = tuple(right for right in RIGHTS if right in rights)
    with _alone(folder):
        known = read_tokens(folder)
        if any(each.name == name and each.revoked is None for each in known):
            raise InvalidOption(f"there is a token {name!r} already; revoke it first.")
        _write(folder, [*known, Token(name, hashed(token), chosen, time.time(), getpass.getuser())])
    return token


def revoke_token(folder: Path, name: str) -> None:
    """The token of that name is not taken any more."""
    check_learner(folder)
    now, who = time.time(), getpass.getuser()
    with _alone(folder):
        known = read_tokens(folder)
        names = [each.name for each in known if each.revoked is None]
        if not names:
            raise UnknownName(f"there is no token {name!r}: {folder} has none.")
        if name not in names:
            raise UnknownName(unknown("token", name, names))
        _write(
            folder,
            [
                replace(each, revoked=now, revoked_by=who)
                if each.name == name and each.revoked is None
                else each
                for each in known
            ],
        )


@contextlib.contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """One at a time changes them: else of two changes at once the first, say a token taken back, would be undone."""
    lock = take_lock(folder / "tokens.lock", create=True)
    if lock is None:
        raise InUse(f"another process is changing the tokens of {folder}. Try again.")
    try:
        yield
    finally:
        lock.release()


def _write(folder: Path, tokens: Sequence[Token]) -> None:
    data = json.dumps([asdict(each) for each in tokens], indent=2).encode()
    files.replace(folder / FILE, data + b"\n", private=True)


def check_learner(folder: Path) -> None:
    """Raise unless a durable learner is there."""
    if not (folder / "identity").exists():
        raise InvalidFile(f"there is no durable learner in {folder}; safespot.open makes one.")
