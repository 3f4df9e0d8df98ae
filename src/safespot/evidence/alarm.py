"""The safety alarm: tells when a deployed policy no longer keeps its limits, with few false alarms.

For each constraint one bets against "the mean of D is at least 0" with every episode, and starts a new bet in each of
them (Shiryaev-Roberts; e-detectors, Shin, Ramdas and Rinaldo 2023). With R_t the mean of the constraints' mixtures,

    R_t = sum over starts j <= t of (a supermartingale from 1 on, begun in episode j),     E[R_t | past] <= R_{t-1} + 1

while the limits are kept, so R_t - t is a supermartingale. At the first T with R_T >= A therefore E[T] >= E[R_T] >= A:
**the mean time to a false alarm is at least A episodes**, from the start and from every restart.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ..arrays import Episode, Float, InsideEpisode, as_count, frozen
from ..display import Displayed
from ..errors import InvalidFile, InvalidOption, SafespotError
from ..files import read_arrays, write_arrays
from ..kernels.jit import inlined, no_refcount
from ..signals.limits import Limits
from ..states import part, rebuild
from ..syscalls import InterruptsDeferred
from .differences import Declared, check_totals, declare, differences
from .doubts import Doubts
from .interface import as_known
from .meter import restored, stored
from .sequences import WEIGHTS, bet


class AlarmState(NamedTuple):
    """What an alarm remembers."""

    wealth: Float  # [m, K]: the bets of every weight, all starts together
    evidence: Float  # [m]: their mixture
    counted: Float  # [2]: episodes in all, and since the last alarm


class SafetyAlarm(Displayed):
    """Watches a policy in use; `observe` says whether to raise the alarm.

    Args:
        interface: what the episodes are made of, as ``problem.interface`` is.
        between: the mean number of episodes between false alarms, at least, while every limit is kept.
        limits: as for `SafetyMeter`.

    Examples:
        >>> import safespot as ss
        >>> problem, noise = ss.problems.make("machine"), ss.streams(seed=0)
        >>> alarm = ss.SafetyAlarm(problem.interface, between=1_000)
        >>> while not alarm.ringing:  # a policy that breaks its budget
        ...     rang = alarm.observe(ss.play(problem, [[0, 1], [0, 1]], noise, alarm.episodes + 1))
        >>> alarm.episodes
        20

    """

    def __init__(
        self,
        interface: Mapping[str, Any],
        between: int = 10_000,
        limits: Limits = None,
    ) -> None:
        self.interface = as_known(interface, limits)
        self.between = as_count("between", between, least=1, error=InvalidOption)
        self.declared = declare(self.interface)
        self.state = alarm_state(self.interface.m)
        self.doubts = Doubts()
        self._x = np.empty(2 * self.interface.m)

    def observe(self, episode: Episode) -> bool:
        """Count one episode; True: the evidence is enough for an alarm, and the watch begins anew with the next one."""
        inside = self.interface.check(episode)
        check_totals(self.declared, inside)
        with InterruptsDeferred():
            self.doubts.note(episode)
            if self.ringing:
                restart(self.state)
            alarm_episode(self.declared, self.state, inside, self._x)
        return self.ringing

    @property
    def ringing(self) -> bool:
        """Whether the last episode raised the alarm."""
        return bool(self.state.evidence.mean() >= self.between)

    @property
    def evidence(self) -> Float:
        """``[m]``: how far each constraint is on the way to an alarm; their mean rings at 1."""
        return frozen(self.state.evidence / self.between)

    @property
    def episodes(self) -> int:
        """How many were counted in all."""
        return int(self.state.counted[0])

    def _facts(self) -> dict[str, Any]:
        doubts = self.doubts.sentences()
        return {
            "episodes": self.episodes,
            "ringing": self.ringing,
            "evidence": self.evidence,
            **({"not proven": "; ".join(doubts)} if doubts else {}),
        }

    def save(self, path: str | Path) -> None:
        """Write everything to a file; `load` goes on as if nothing had happened."""
        write_arrays(path, "alarm", *stored(self, between=self.between))

    @classmethod
    def load(cls, path: str | Path) -> SafetyAlarm:
        """Read what `save` wrote; a damaged file is an `InvalidFile`."""
        arrays, about = read_arrays(path, "alarm")
        try:
            alarm = cls({**about["interface"], "action_mask": arrays["mask"]}, about["between"])
            alarm.declared, alarm.doubts = restored(arrays, about, alarm.interface)
            state: AlarmState = rebuild(alarm.state, part(arrays, "state"))
            if not all((array >= 0.0).all() for array in state):
                raise InvalidFile("its numbers contradict each other")
            alarm.state = state
        except (SafespotError, KeyError, TypeError, ValueError) as problem:
            raise InvalidFile(f"{path} does not describe a SafetyAlarm: {problem}") from None
        return alarm


def alarm_state(m: int) -> AlarmState:
    """Nothing seen yet."""
    return AlarmState(np.zeros((m, len(WEIGHTS))), np.zeros(m), np.zeros(2))


def restart(state: AlarmState) -> None:
    """Forget every bet."""
    state.wealth[:] = 0.0
    state.evidence[:] = 0.0
    state.counted[1] = 0.0


@no_refcount
def alarm_episode(declared: Declared, state: AlarmState, episode: InsideEpisode, x: Float) -> None:
    """`alarm_step` for an episode that comes alone."""
    alarm_step(declared, state, episode, x)


@inlined
def alarm_step(declared: Declared, state: AlarmState, episode: InsideEpisode, x: Float) -> None:
    """Bet on one episode; `x` ``[2m]`` is a buffer.

    Entry 2i+1 is 1 less the largest D, scaled to [0,1]: its mean is at most `kept` while the limit is kept.
    """
    differences(declared, episode.constraints, episode.thresholds, x)
    for i in range(state.evidence.shape[0]):
        kept = 1.0 + declared.least[i] * declared.scale[1 + i]
        state.evidence[i] = bet(state.wealth[i], 1.0, kept, x[2 * i + 1])
    state.counted[0] += 1.0
    state.counted[1] += 1.0
