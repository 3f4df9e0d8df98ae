"""What learners on tables share: options, visit statistics, where the limits come from, observing, and arrays of files.

What a learner does with them is its own file: it has a `state` and `rates`, a compiled step (`compiled_step`), and

    carried                 the fields of its state that files hold; "lam" and "finished" are among them
    settle(), _derive(), _plausible(fields)
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..arrays import Episode, Float, InsideEpisode, Int
from ..errors import InvalidFile
from ..evidence.certificate import policy_digest
from ..signals.doubts import Doubts
from ..signals.interface import make_interface
from ..signals.totals import checked_sums, declare
from ..spot.limits import has_room, window_has_room
from ..spot.visits import (
    check_statistics,
    empty_statistics,
    grow_statistics,
)
from ..states import adopt, flatten, part, rebuild
from ..syscalls import InterruptsDeferred
from .compiled_step import observe_episode
from .doubling import Lifetime
from .learner import Learner
from .learner_files import KNOWN
from .limits import empty_limits, grow_limits, limits_arrays, restored_limits
from .options import AnyOptions, check_hints
from .policies import Checked, identify
from .signature import documented, signature_of

T = TypeVar("T", bound="TabularLearner")


class TabularLearner(Learner):
    """A learner on tables. Its first arguments are ``problem.interface``, its options those of its `options_type`.

    Examples:
        >>> import safespot as ss
        >>> learner = ss.Uniform(**ss.problems.make("bandit").interface, episodes=10)
        >>> isinstance(learner, ss.learners.TabularLearner), learner.carried
        (True, ('pi', 'lam', 'finished', 'planned', 'due'))

    """

    options_type: ClassVar[type[AnyOptions]]
    carried: ClassVar[tuple[str, ...]]

    def __init__(
        self,
        states: int,
        actions: int,
        horizon: int,
        constraints: int,
        start: int | None = 0,
        action_mask: ArrayLike | None = None,
        senses: str | Sequence[str] = ">=",
        ranges: Mapping[str, Any] | None = None,
        stationary: bool = False,
        state_names: Sequence[str] | None = None,
        action_names: Sequence[str] | None = None,
        limit_names: Sequence[str] | None = None,
        units: Mapping[str, Any] | None = None,
        **options: Any,
    ) -> None:
        self.interface = f = make_interface(
            states, actions, horizon, constraints, start, action_mask, senses, ranges, stationary,
            state_names=state_names, action_names=action_names, limit_names=limit_names, units=units,
        )  # fmt: skip
        self.options = o = self.options_type(**options)
        self.statistics = empty_statistics(f.H, f.S, f.A, f.m)
        self.declared = declare(f, o.thresholds, o.constraint_totals, o.threshold_totals)
        self.window = empty_limits(f, o, self.declared)
        self.doubts, self.lifetime = Doubts(), Lifetime(o.episodes)

    def __init_subclass__(cls, **arguments: Any) -> None:
        """A learner is known by its name, and its signature is that of its options."""
        super().__init_subclass__(**arguments)
        if "name" in cls.__dict__:
            KNOWN[cls.name] = cls
        if hasattr(cls, "options_type"):
            cls.__signature__ = signature_of(cls.options_type)  # type: ignore[attr-defined]
            cls.__doc__ = documented(cls.__dict__.get("__doc__"), cls.options_type)

    @property
    def arguments(self) -> dict[str, Any]:
        """The interface and the options."""
        f = self.interface
        return {**f.arguments, "action_mask": f.mask, **vars(self.options)}

    @property
    def limits(self) -> Float:
        """``[m]``: alpha_xi, the thresholds in use, inside."""
        return self.options.between(self.state.lower, self.state.upper)

    @property
    def own_flag(self) -> Int:
        """``[1]``, read by the step: whether its own policy played the episode; here nothing depends on it."""
        return np.ones(1, np.int64)

    def anew(self: T) -> T:
        """Return a learner with the same interface and options that has seen nothing yet."""
        return type(self)(**self.arguments)

    # Episodes

    def observe(self, episode: Episode, played: ArrayLike | str | None = None) -> None:
        """Learn from an episode, as `Learner.observe` says."""
        checked = self.check(episode, played)
        own = checked.digest is None or checked.digest == policy_digest(self.state.pi)
        with InterruptsDeferred():
            self.doubts.note(episode)
            self.make_room()
            self.own_flag[0] = own
            self._step(checked.inside)
            self.settle()

    def _step(self, episode: InsideEpisode) -> None:
        """Take the learner's step with an episode for which there is room."""
        observe_episode(self.rates, self.state, self.statistics, self.window, episode)

    def check(self, episode: Episode, played: ArrayLike | str | None = None) -> Checked:
        """Check an episode and who played it."""
        self.lifetime.check_not_lent()
        inside = self.interface.check(episode)
        check_hints([episode], self.options)
        if self.options.declares_totals:
            checked_sums(self.declared, inside)
        if self.lifetime.left(self.episode) == 0 and not self.lifetime.warned:
            self.lifetime.warn_beyond("an episode goes", self.episode)
        return Checked(inside, *identify(self.interface, played))

    def make_room(self) -> None:
        """Grow what is about to overflow, so that one more episode fits."""
        while not has_room(self.statistics, self.window):
            if not window_has_room(self.window):
                self.window = grow_limits(self.window)
            else:
                self.statistics = grow_statistics(self.statistics)

    # Files

    def arrays(self) -> dict[str, NDArray]:
        """Return the state: what cannot be derived."""
        return {
            **flatten({name: getattr(self.state, name) for name in self.carried}),
            "mask": np.ascontiguousarray(self.interface.mask),
            **flatten(self.statistics, "statistics."),
            **{f"window.{name}": array for name, array in limits_arrays(self.window).items()},
        }

    def restore(self, arrays: dict[str, NDArray]) -> None:
        """Go on from where `arrays` were taken; this learner must have the same interface and options."""
        if not np.array_equal(arrays["mask"], self.interface.mask):
            raise InvalidFile("other actions are admissible there than for this learner")
        statistics = check_statistics(self.statistics, part(arrays, "statistics"))
        window = restored_limits(self.window, part(arrays, "window"))
        like = {name: getattr(self.state, name) for name in self.carried}
        fields = rebuild(like, arrays, grows=("ring",), gaps=("logits",))
        if fields["finished"][0] != statistics.starts.sum():
            raise InvalidFile(
                f"it has finished {fields['finished'][0]} episodes, and counted {statistics.starts.sum()}"
            )
        if not ((fields["lam"] >= 0.0) & (fields["lam"] <= self.rho)).all():
            raise InvalidFile(
                f"multipliers {fields['lam'].tolist()} are not within 0 to {self.rho}"
            )
        self._check_fields(fields, statistics.n)
        self.statistics, self.window = statistics, window
        self.state = adopt(self.state, fields)
        self._derive()

    @abstractmethod
    def _check_fields(self, fields: dict[str, Any], n: Int) -> None:
        """Raise unless what a file holds of the state can be this learner's after visits `n` ``[H, S*A]``."""

    @abstractmethod
    def _derive(self) -> None:
        """Derive all that follows from options, state and counts."""
