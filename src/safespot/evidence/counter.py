"""The common part of meters, trials, alarms and budgets: terms, doubts, one way to observe, and a file."""

from __future__ import annotations

from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any, ClassVar, TypeVar

import numpy as np

from ..arrays import Episode, Float
from ..display import Displayed
from ..errors import InvalidFile, InvalidOption, SafespotError
from ..files import read_arrays, write_arrays
from ..signals.doubts import Doubts
from ..signals.interface import with_limits
from ..signals.limits import Limit, Limits
from ..signals.terms import Declarations, Terms, terms_of
from ..signals.totals import Totals
from ..states import flatten, part, rebuild
from ..syscalls import InterruptsDeferred

C = TypeVar("C", bound="EpisodeCounter")


class EpisodeCounter(Displayed, ABC):
    """Counts the totals of episodes, one after the other."""

    kind: ClassVar[str]  # of its files
    state: Any  # a record of arrays, which files hold
    terms: Terms

    def __init__(self, limits: Declarations, more: Limits = None) -> None:
        self.terms = terms_of(limits, more)
        self.doubts = Doubts()

    def observe(self, episode: Totals | Episode) -> Any:
        """Count one episode; an invalid one changes nothing."""
        return self._observe(episode)

    def _observe(self, episode: Totals | Episode, **how: Any) -> Any:
        sums = self.terms.row(episode)
        with InterruptsDeferred():
            self.doubts.note(episode)
            return self._count(sums, **how)

    @abstractmethod
    def _count(self, sums: Float) -> Any:
        """Count an episode's sums ``[2+4m]``, inside."""

    @property
    @abstractmethod
    def options(self) -> dict[str, Any]:
        """The constructor's arguments but for the limits, ready for JSON."""

    def _check(self) -> None:
        """Raise unless the state of a file can be one."""

    def save(self, path: str | Path) -> None:
        """Write everything to a file; `load` goes on as if nothing had happened."""
        terms, arrays = self.terms, flatten(self.state, "state.")
        about: dict[str, Any] = {"options": self.options, "doubts": dict(vars(self.doubts))}
        if terms.interface is None:
            about["limits"] = [limit.declared for limit in terms.limits]
        else:
            arrays["mask"] = np.ascontiguousarray(terms.interface.mask)
            about["interface"] = with_limits(terms.interface.arguments, terms.limits)
        write_arrays(path, self.kind, arrays, about)

    @classmethod
    def load(cls: type[C], path: str | Path) -> C:
        """Read what `save` wrote; a damaged file is an `InvalidFile`."""
        arrays, about = read_arrays(path, cls.kind)
        try:
            if "limits" in about:
                limits: Any = [Limit(**each) for each in about["limits"]]
            else:
                limits = {**about["interface"], "action_mask": arrays["mask"]}
            made = cls(limits, **about["options"])
            made.doubts = Doubts.read(about["doubts"])
            made.state = rebuild(made.state, part(arrays, "state"))
            made._check()
        except (SafespotError, KeyError, TypeError, ValueError) as exc:
            raise InvalidFile(f"{path} does not describe a {cls.__name__}: {exc}") from None
        return made


def as_delta(delta: float) -> float:
    """Return `delta` as a probability."""
    # Below that, 1 - delta cannot be told from 1.
    if isinstance(delta, bool) or not isinstance(delta, (int, float)) or not 1e-15 <= delta < 1.0:
        raise InvalidOption(f"delta must be a number from 1e-15 to 1, 1 excluded, got {delta!r}.")
    return float(delta)


def confidence(delta: float, doubts: tuple[str, ...]) -> dict[str, Any]:
    """Return the displayed fact on bounds: their confidence, 1 - delta, or the doubts that leave them unproven."""
    return {"confidence": 1.0 - delta} if not doubts else {"not proven": "; ".join(doubts)}
