"""The typed errors: everything a user can cause is a `SafespotError`.

A message says what is wrong, where, what was expected and how to fix it, in that order. Each error is also
the built-in error that a Python programmer would expect, so ``except ValueError`` keeps working.
"""

from __future__ import annotations

import difflib
from collections.abc import Collection


class SafespotError(Exception):
    """Any error that a user of safespot can cause."""


class InvalidModel(SafespotError, ValueError):
    """A CMDP, a policy or a signal that is not valid."""


class InvalidOption(SafespotError, ValueError):
    """An option with a value that makes no sense, or options that contradict each other."""


class InvalidEpisode(SafespotError, ValueError):
    """An observed episode that does not fit the learner; the learner is left as it was."""


class InvalidFile(SafespotError, ValueError):
    """A file of another kind, a damaged one, or one written by a newer version."""


class DiskError(SafespotError, OSError):
    """A disk that is full or failing: nothing is wrong with what was asked for."""


class InUse(SafespotError, RuntimeError):
    """Something that another process has open; the message says which."""


class UnknownName(SafespotError, KeyError):
    """A name that does not exist; the message suggests the nearest one."""

    def __str__(self) -> str:  # KeyError would show the repr of the message
        return str(self.args[0]) if self.args else ""


class MissingPackage(SafespotError, ImportError):
    """An optional package that is needed and not installed; the message says how to install it."""


class Infeasible(SafespotError, ValueError):
    """No policy keeps every limit.

    `constraint` is the index of a constraint that no policy can keep even alone, and `best` the
    best value that it can reach; both are None when the limits only fail together.
    """

    def __init__(
        self, message: str, *, constraint: int | None = None, best: float | None = None
    ) -> None:
        super().__init__(message)
        self.constraint = constraint
        self.best = best


class SolverError(SafespotError, RuntimeError):
    """The linear-programming solver gave up; the message carries its status."""


def unknown(what: str, name: object, names: Collection[str]) -> str:
    """The message for a name that is none of `names`, with the nearest of them.

    >>> print(unknown("option", "policy_stp", ["dual_step", "policy_step"]))
    unknown option 'policy_stp'; did you mean `policy_step`? Expected one of: dual_step, policy_step.
    """
    near = difflib.get_close_matches(str(name).lower(), names, n=1)
    hint = f"; did you mean `{near[0]}`?" if near else "."
    expected = f"one of: {', '.join(names)}" if names else f"no {what}"
    return f"unknown {what} {name!r}{hint} Expected {expected}."
