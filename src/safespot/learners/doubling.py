"""Epochs: one for all episodes where T is known, else of doubling length (anytime use)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

from ..errors import InUse, warn
from ..signals.interface import Interface
from ..spot.optimism import Radii, make_radii
from ..theory import scale_to_leave_cap
from .options import Options

FIRST_EPOCH = 1024  # episodes of the first epoch when T is unknown


class Epoch(NamedTuple):
    """A stretch of episodes with the same step sizes."""

    number: int  # k, from 1
    length: int  # T_k
    last: int  # its last episode


def epoch_at(episode: int, episodes: int | None) -> Epoch:
    """Return the epoch of an episode: T where it is known, else lengths of 1024 * 2^(k-1)."""
    if episodes is not None:
        return Epoch(1, episodes, episodes)
    number, length, last = 1, FIRST_EPOCH, FIRST_EPOCH
    while episode > last:
        number, length = number + 1, 2 * length
        last += length
    return Epoch(number, length, last)


def episodes_to_settle(learner: Any) -> int | None:
    """Return how many episodes may run before `Learner.settle`; None: any number."""
    epoch = learner.guarded.epoch
    if learner.options.episodes is not None or epoch is None:
        return None
    left: int = epoch.last - learner.episode + 1
    return left


def is_over(learner: Any) -> bool:
    """Return whether a learner's epoch has ended, so that the next one is due."""
    left = episodes_to_settle(learner)
    return left is not None and left <= 0


def epoch_radii(f: Interface, options: Options, now: Epoch, *, bernstein: bool = False) -> Radii:
    """Return the radii of an epoch; anytime, its share of delta is ``delta / (k (k+1))``."""
    o, k = options, now.number
    delta = o.delta if o.episodes is not None else o.delta / (k * (k + 1))
    scale: Any = o.bonus_scale
    if scale == "auto":
        scale = scale_to_leave_cap(f.S, f.A, f.H, f.m, now.last, delta=delta)
    return make_radii(
        f.S, f.A, f.H, f.m, now.last, delta,
        bonus_scale=scale, threshold_scale=o.threshold_scale, bernstein=bernstein, clip=o.clip_thresholds,
    )  # fmt: skip


@dataclass
class Lifetime:
    """The planned number of episodes, and the state of the learner's training."""

    planned: int | None  # T; None: anytime
    warned: bool = False  # whether its user knows that episodes go beyond T
    lent: bool = False  # to a callback of its training, which may read it and no more
    dropped: int = 0  # episodes in which an environment failed, since the last one that was learned

    def left(self, episode: int) -> int | None:
        """Return how many episodes remain of T before that one; None: anytime."""
        return None if self.planned is None else max(0, self.planned - episode + 1)

    def warn_beyond(self, subject: str, episode: int) -> None:
        """Warn that episodes go beyond T; `observe` alone does so only once."""
        self.warned = True
        warn(
            f"{subject} beyond the learner's T = {self.planned} ({self.left(episode)} remain): its step "
            "sizes and radii were chosen for T."
        )

    def check_not_lent(self) -> None:
        """Raise where a callback wants the learner to learn."""
        if self.lent:
            raise InUse(
                "the learner is being trained, and this is a callback of its training, which may read it and no more. "
                "Return False to end the training, and go on when `learn` has returned."
            )
