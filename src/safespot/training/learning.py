"""Common parts of training in problems and environments: checks, the loop over chunks, and the end."""

from __future__ import annotations

import contextlib
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

from ..arrays import as_count, first, place
from ..errors import InvalidOption, SolverError
from ..learners.learner import Learner
from ..signals.interface import Interface
from ..syscalls import InterruptsDeferred
from .metrics import grid
from .progress import Progress
from .recorded import Callback, recorded
from .run import Run

CHUNK_SECONDS = 0.1  # how long a chunk of episodes takes, about


class Trainable(ABC):
    """A run in the making."""

    def __init__(
        self, learner: Learner, episodes: int | None, seed: int, record: str | int
    ) -> None:
        self.learner = learner
        self.first = learner.episode
        self.last = self.first + check_episodes(learner, episodes) - 1
        self.seed = as_count("seed", seed, least=0, most=None, error=InvalidOption)
        self.recorded = grid(record, self.first, self.last)  # the episodes to record, in order
        self.meter = learner.make_meter()
        self.seconds = 0.0

    @property
    def remaining(self) -> int:
        """The number of episodes still to be played."""
        return self.last - self.learner.episode + 1

    @abstractmethod
    def advance(self, most: int | None = None) -> int:
        """Play for about `CHUNK_SECONDS`, at most `most` episodes; return their number."""

    @abstractmethod
    def rows(self, which: slice) -> dict[str, Any]:
        """Return what was recorded, in the user's terms: the fields of a `Run` that have a row per recorded episode."""

    @abstractmethod
    def result(self) -> Run:
        """Return the run so far, in the user's terms."""


def carry_on(
    make: Callable[[], Trainable], progress: bool, callback: Callback | None = None
) -> Run:
    """Make a run and play it; whatever ends it early leaves the run so far in the error's `run`."""
    if callback is not None and not callable(callback):
        raise InvalidOption(f"callback must be a function of a record, got {callback!r}.")
    training: Trainable | None = None
    try:
        with InterruptsDeferred():
            training = make()
        _play(training, progress, callback)
        return training.result()
    except BaseException as stop:
        if training is not None:
            with InterruptsDeferred():
                training.learner.lifetime.lent = False
                with contextlib.suppress(SolverError):  # the next episode plans again
                    training.learner.settle()
                stop.run = training.result()  # type: ignore[attr-defined]
        raise


def _play(training: Trainable, progress: bool, callback: Callback | None) -> None:
    """Play what remains, or until the callback says False."""
    total = training.remaining
    bar = Progress(total) if progress else None
    n_reported = 0  # recorded episodes that the callback has seen
    try:
        while training.remaining:
            if callback is None:
                training.advance()
            else:
                training.advance(int(training.recorded[n_reported]) - training.learner.episode + 1)
            if bar is not None:
                bar.show(total - training.remaining, training.seconds)
            if callback is not None and training.learner.episode > training.recorded[n_reported]:
                n_reported += 1
                row = recorded(training.learner, training.rows(slice(n_reported - 1, n_reported)))
                training.learner.lifetime.lent = True
                going = callback(row) is not False
                training.learner.lifetime.lent = False
                if not going:
                    break
    finally:
        if bar is not None:
            bar.close()


def check_episodes(learner: Learner, episodes: int | None) -> int:
    """Return the number of episodes to play: `episodes`, or what remains of T."""
    learner.lifetime.check_not_lent()
    if learner.hands_back:
        raise InvalidOption(
            "a guard with baseline='hand-back' gives the decision back to a practice, and there is none here: let it "
            "act and observe in a loop of your own, or give it a policy as baseline."
        )
    remaining = learner.lifetime.left(learner.episode)
    if episodes is None:
        if remaining is None:
            raise InvalidOption("say how many episodes: an anytime learner has no end of its own.")
        if remaining == 0:
            raise InvalidOption(
                f"the learner has played all of its {learner.options.episodes} episodes; say how many more."
            )
        return remaining
    total = as_count("episodes", episodes, least=1, error=InvalidOption)
    if remaining is not None and total > remaining:
        learner.lifetime.warn_beyond(f"{total} episodes go", learner.episode)
    return total


def check_fit(learner: Learner, theirs: Interface, source: str) -> None:
    """Raise unless the learner can play a `source`, "problem" or "environment", of that interface."""
    mine = learner.interface
    if (mine.S, mine.A, mine.H, mine.m) != (theirs.S, theirs.A, theirs.H, theirs.m):
        raise InvalidOption(
            f"the learner is for S={mine.S}, A={mine.A}, H={mine.H}, m={mine.m}; the {source} has S={theirs.S}, "
            f"A={theirs.A}, H={theirs.H}, m={theirs.m}. Make it with **problem.interface, or **env_interface(env, …) "
            "and the same declarations."
        )
    if source == "problem" and mine.start not in (None, theirs.start):
        raise InvalidOption("the learner expects another start state than the problem's.")
    if mine.units != theirs.units:
        raise InvalidOption(f"the learner has other senses or ranges than the {source}.")
    forbidden = mine.mask & ~theirs.mask
    if forbidden.any():
        raise InvalidOption(
            f"the learner's action_mask allows {place('hsa', first(forbidden))}, which the {source} does not admit."
        )
