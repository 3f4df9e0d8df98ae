"""The typed errors: everything a user can cause is a `SafespotError`.

A message says what is wrong, where, what was expected and how to fix it, in that order. Each error is also
the built-in error that a Python programmer would expect, so ``except ValueError`` keeps working.
"""

from __future__ import annotations

import difflib
import os
import sys
import warnings
from collections.abc import Collection, Mapping

PACKAGE = os.path.dirname(__file__) + os.sep

__all__ = [
    "DiskError",
    "InUse",
    "Infeasible",
    "InvalidEpisode",
    "InvalidFile",
    "InvalidModel",
    "InvalidOption",
    "MissingPackage",
    "SafespotError",
    "SolverError",
    "UnknownName",
    "UnsafeBaseline",
]


class SafespotError(Exception):
    """Any error that a user of safespot can cause.

    Examples:
        >>> import safespot as ss
        >>> try:
        ...     problem = ss.problems.make("machine", budget=-1)
        ... except ss.SafespotError as mistake:
        ...     print(mistake)
        threshold of constraint 0 is -1 an episode; 2 steps of 0 to 4 each, its declared range, give 0 to 8.
        Declare another, or rescale.

    """


class InvalidModel(SafespotError, ValueError):
    """A CMDP, a policy or a signal that is not valid.

    Examples:
        >>> import safespot as ss
        >>> ss.evaluate(ss.problems.make("bandit").cmdp, policy=[[0.5, 0.4]])
        Traceback (most recent call last):
            ...
        safespot.errors.InvalidModel: policy at step 0, state 0 sums to 0.9; expected 1 within 1e-09. Divide
        each row by its sum.

    """


class InvalidOption(SafespotError, ValueError):
    """An option with a value that makes no sense, or options that contradict each other.

    Examples:
        >>> import safespot as ss
        >>> ss.learners.make("spot", ss.problems.make("bandit").interface, episodes=100, slack=0.5, delta=5)
        Traceback (most recent call last):
            ...
        safespot.errors.InvalidOption: learner 'spot': delta must be a number from 1e-15 to 1, 1 excluded,
        got 5.

    """

    def __init__(self, message: str = "", wrong: Mapping[str, str] | None = None) -> None:
        super().__init__(message)
        self.wrong = dict(wrong or {})  # option -> what is wrong with it, where that is known


class InvalidEpisode(SafespotError, ValueError):
    """An observed episode that does not fit the learner; the learner is left as it was.

    Examples:
        >>> import safespot as ss
        >>> learner = ss.Uniform(**ss.problems.make("bandit").interface, episodes=100)
        >>> learner.observe(ss.Episode([0, 0], [7], [1.0], [[1.0]], [[0.5]]))
        Traceback (most recent call last):
            ...
        safespot.errors.InvalidEpisode: action 7 at step 0 is out of range; expected 0 to 1.

    """


class InvalidFile(SafespotError, ValueError):
    """A file of another kind, a damaged one, or one written by a newer version.

    Examples:
        >>> import safespot as ss
        >>> ss.learners.load("nowhere.safetensors")
        Traceback (most recent call last):
            ...
        safespot.errors.InvalidFile: cannot read nowhere.safetensors: No such file or directory.

    """


class DiskError(SafespotError, OSError):
    """A disk that is full or failing: nothing is wrong with what was asked for.

    Examples:
        >>> import safespot as ss
        >>> try:  # a folder that is full, read-only, or gone
        ...     ss.problems.make("machine").cmdp.save("machine.safetensors")
        ... except ss.errors.DiskError as exc:
        ...     print(exc)

    """


class InUse(SafespotError, RuntimeError):
    """Something that another process has open, or that is busy otherwise; the message says which.

    Examples:
        >>> import safespot as ss
        >>> learner = ss.Uniform(**ss.problems.make("bandit").interface, episodes=100)
        >>> with ss.open("ward-7", learner):
        ...     ss.open("ward-7")
        Traceback (most recent call last):
            ...
        safespot.errors.InUse: ...ward-7 is open already, by process ...

    """


class UnsafeBaseline(SafespotError, UserWarning):
    """A guard's baseline that breaks a limit, as its own episodes prove: a warning, and an error where it is to stop.

    Examples:
        >>> import warnings
        >>> import safespot as ss
        >>> problem = ss.problems.make("machine")
        >>> learner = ss.Uniform(**problem.interface, episodes=500)
        >>> reckless = [[0, 1], [0, 1]]  # strains the machine by 5, and 1 is allowed
        >>> guard = ss.Guard(learner, reckless, budget=8, on_unsafe="stop")
        >>> with warnings.catch_warnings():
        ...     warnings.simplefilter("ignore", ss.errors.UnsafeBaseline)
        ...     try:
        ...         run = ss.learn(problem, guard)
        ...     except ss.errors.UnsafeBaseline as found:
        ...         print(str(found)[:45], guard.baseline_verdict)
        the baseline breaks the limit of constraint 0 ('unsafe',)

    """


class UnknownName(SafespotError, KeyError):
    """A name that does not exist; the message suggests the nearest one.

    Examples:
        >>> import safespot as ss
        >>> ss.problems.make("machin")
        Traceback (most recent call last):
            ...
        safespot.errors.UnknownName: unknown problem 'machin'; did you mean `machine`? Expected one of:
        bandit, ...

    """

    def __str__(self) -> str:  # KeyError would show the repr of the message
        return str(self.args[0]) if self.args else ""


class MissingPackage(SafespotError, ImportError):
    """An optional package that is needed and not installed; the message says how to install it.

    Examples:
        >>> import safespot as ss
        >>> try:  # needs the extra safespot[icu]
        ...     problem = ss.problems.make("icu-sepsis")
        ... except ss.errors.MissingPackage as exc:
        ...     print(exc)

    """


class Infeasible(SafespotError, ValueError):
    """No policy keeps every limit.

    `constraint` is the index of a constraint that no policy can keep even alone, and `best` the
    best value that it can reach; both are None when the limits only fail together.

    Examples:
        >>> import safespot as ss
        >>> halfway = ss.CMDP([[[1]]], [[1]], constraints=[[[0.5]]], thresholds=[0.8], horizon=1)
        >>> ss.solve(halfway)
        Traceback (most recent call last):
            ...
        safespot.errors.Infeasible: constraint 0 cannot be kept: it asks for >= 0.8 over an episode, and the
        best that any policy reaches is 0.5. Move the limit at least that far.

    """

    def __init__(
        self, message: str, *, constraint: int | None = None, best: float | None = None
    ) -> None:
        super().__init__(message)
        self.constraint = constraint
        self.best = best


class SolverError(SafespotError, RuntimeError):
    """The linear-programming solver gave up; the message carries its status.

    Examples:
        >>> import safespot as ss
        >>> try:
        ...     best = ss.solve(ss.problems.make("machine").cmdp)
        ... except ss.errors.SolverError as failure:
        ...     print(failure)
        >>> round(best.value, 6)
        11.0

    """


def unknown(kind: str, name: object, names: Collection[str]) -> str:
    """Return the message for a name that is none of `names`, with the nearest of them.

    >>> print(unknown("option", "policy_stp", ["dual_step", "policy_step"]))
    unknown option 'policy_stp'; did you mean `policy_step`? Expected one of: dual_step, policy_step.
    """
    hint = nearest(name, names) or "."
    expected = f"one of: {', '.join(names)}" if names else f"no {kind}"
    return f"unknown {kind} {name!r}{hint} Expected {expected}."


def nearest(name: object, names: Collection[str]) -> str:
    """Return the question after the name that was probably meant; '' where none is near."""
    near = difflib.get_close_matches(str(name).lower(), names, n=1)
    return f"; did you mean `{near[0]}`?" if near else ""


def warn(message: str, category: type[Warning] = UserWarning) -> None:
    """Warn at the line outside of this package that led here, however deep the call is."""
    frame = caller = sys._getframe(1)
    while caller.f_back is not None and caller.f_code.co_filename.startswith(PACKAGE):
        caller = caller.f_back
    if not caller.f_code.co_filename.startswith(PACKAGE):
        frame = caller  # else the call began in the package: a thread or a command
    warnings.warn_explicit(
        message,
        category,
        frame.f_code.co_filename,
        frame.f_lineno,
        module=frame.f_globals.get("__name__"),
        registry=frame.f_globals.setdefault("__warningregistry__", {}),
    )
