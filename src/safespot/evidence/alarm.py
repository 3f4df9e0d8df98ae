"""The safety alarm: tells when a deployed policy no longer keeps its limits, with few false alarms.

For each constraint one bets against "the mean of D is at least 0" with every episode, and starts a new bet in each of
them (Shiryaev-Roberts; e-detectors, Shin, Ramdas and Rinaldo 2023). With R_t the mean of the constraints' mixtures,

    R_t = sum over starts j <= t of (a supermartingale from 1 on, begun in episode j),     E[R_t | past] <= R_{t-1} + 1

while the limits are kept, so R_t - t is a supermartingale. At the first T with R_T >= A therefore E[T] >= E[R_T] >= A:
**the mean time to a false alarm is at least A episodes**, from the start and from every restart.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ..arrays import Float, as_count, frozen
from ..errors import InvalidFile, InvalidOption
from ..kernels.jit import no_refcount
from ..signals.limits import Limits
from ..signals.terms import Declarations
from ..signals.totals import Declared, state_differences
from .counter import EpisodeCounter
from .sequences import WEIGHTS, bet


class AlarmState(NamedTuple):
    """The bets of an alarm."""

    wealth: Float  # [m, K]: of every weight, all starts together
    evidence: Float  # [m]: their mixture
    counted: Float  # [2]: episodes in all, and since the last alarm


class SafetyAlarm(EpisodeCounter):
    """Watches a policy in use; `observe` says whether to raise the alarm.

    Args:
        limits: of the episodes: `Limit` records with the range of their totals; or ``problem.interface``.
        between: the mean number of episodes between false alarms, at least, while every limit is kept.
        more: beside an interface, `Limit` records where more is known than it declares.

    Examples:
        >>> import safespot as ss
        >>> problem, noise = ss.problems.make("machine"), ss.streams(seed=0)
        >>> alarm = ss.SafetyAlarm(problem.interface, between=1_000)
        >>> while not alarm.ringing:  # a policy that breaks its budget
        ...     rang = alarm.observe(ss.play(problem, [[0, 1], [0, 1]], noise, alarm.episodes + 1))
        >>> alarm.episodes
        20

    """

    kind = "alarm"
    state: AlarmState

    def __init__(self, limits: Declarations, between: int = 10_000, more: Limits = None) -> None:
        super().__init__(limits, more)
        self.between = as_count("between", between, least=1, error=InvalidOption)
        m = self.terms.m
        self.state = AlarmState(np.zeros((m, len(WEIGHTS))), np.zeros(m), np.zeros(2))
        self._x = np.empty(2 + 2 * m)

    def _count(self, sums: Float) -> bool:
        """Bet on an episode; True: it raises the alarm, and the next one starts a new watch."""
        if self.ringing:
            self.state.wealth[:] = 0.0
            self.state.evidence[:] = 0.0
            self.state.counted[1] = 0.0
        bet_on_episode(self.terms.declared, self.state, sums, self._x)
        return self.ringing

    @property
    def ringing(self) -> bool:
        """True where the last episode raised the alarm."""
        return bool(self.state.evidence.mean() >= self.between)

    @property
    def evidence(self) -> Float:
        """The progress ``[m]`` of each constraint towards an alarm, which is raised where their mean is 1."""
        return frozen(self.state.evidence / self.between)

    @property
    def episodes(self) -> int:
        """The number of episodes counted in all."""
        return int(self.state.counted[0])

    @property
    def options(self) -> dict[str, Any]:
        """The constructor's arguments but for the limits."""
        return {"between": self.between}

    def _facts(self) -> dict[str, Any]:
        doubts = self.doubts.sentences()
        return {
            "episodes": self.episodes,
            "ringing": self.ringing,
            "evidence": self.evidence,
            **({"not proven": "; ".join(doubts)} if doubts else {}),
        }

    def _check(self) -> None:
        if not all((array >= 0.0).all() for array in self.state):
            raise InvalidFile("its numbers contradict each other")


@no_refcount
def bet_on_episode(declared: Declared, state: AlarmState, sums: Float, x: Float) -> None:
    """Bet on an episode's differences; `x` ``[2+2m]`` is a buffer.

    Entry 3+2i is 1 less the largest D, scaled to [0,1]: its mean is at most `kept` while the limit is kept.
    """
    state_differences(declared, sums, x)
    for i in range(state.evidence.shape[0]):
        kept = 1.0 + declared.least[i] * declared.scale[1 + i]
        state.evidence[i] = bet(state.wealth[i], 1.0, kept, x[3 + 2 * i])
    state.counted[0] += 1.0
    state.counted[1] += 1.0
