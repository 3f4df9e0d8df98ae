"""The typed errors: everything a user can cause is a `SafespotError`.

A message says what was wrong, where, what was expected and how to mend it. Each error is also
the built-in error that a Python programmer would expect, so ``except ValueError`` keeps working.
"""

from __future__ import annotations


class SafespotError(Exception):
    """Any error that a user of safespot can cause."""


class InvalidModel(SafespotError, ValueError):
    """A CMDP, a policy or a signal that cannot be what it says it is."""


class InvalidOption(SafespotError, ValueError):
    """An option with a value that makes no sense, or options that contradict each other."""


class InvalidEpisode(SafespotError, ValueError):
    """An observed episode that does not fit the learner; the learner is left as it was."""


class InvalidFile(SafespotError, ValueError):
    """A file that is not ours, is damaged, or was written by a newer version."""


class DiskError(SafespotError, OSError):
    """A disk that is full or failing: nothing is wrong with what was asked for."""


class InUse(SafespotError, RuntimeError):
    """Another process has it open; the message says which."""


class UnknownName(SafespotError, KeyError):
    """A problem or learner that does not exist."""

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
