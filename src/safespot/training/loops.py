"""The compiled loops of training: many episodes in one call, without the GIL.

    for each episode of a chunk:
        watch   its thresholds, and the exact values of its policy -> metrics
        see     play it, as the learner sees it
        step    the learner's own

They call the kernels that `play` and a learner's `observe` call. There are two, since a step of SPOT moves the policy
in every episode, while learners that plan keep theirs until the next plan is due.
"""

from __future__ import annotations

from typing import NamedTuple

from ..arrays import Float, InsideEpisode, Int
from ..kernels.jit import assume_nonnegative, inlined, no_refcount
from ..learners.planner import PlannerRates as CountRates
from ..learners.planner import PlannerState as CountState
from ..learners.planner import count_step
from ..model.cmdp import Model
from ..model.dynamic_programming import forward_values
from ..model.simulation import Laws, Noise, play_kernel
from ..spot.step import Rows, SpotRates, SpotState, rows_of, spot_step
from ..spot.visits import Statistics
from ..spot.window import Window, has_room
from .metrics import Record, Tracker, track, write_row


class Truth(NamedTuple):
    """What the loop knows of the problem and the learner does not."""

    model: Model
    target: Float  # [m, H]: where the thresholds drift to
    laws: Laws
    offsets: Float  # [1+m]: units of the reward and the constraints
    scales: Float  # [1+m]
    scaled: bool  # whether these units differ from the inside ones


class Played(NamedTuple):
    """Buffers for one episode, in inside units."""

    states: Int  # [H+1]
    pairs: Int  # [H]
    rewards: Float  # [H]
    constraints: Float  # [H, m]
    thresholds: Float  # [H, m]
    alpha: Float  # [m, H]: the thresholds of this episode
    progress: Float  # [1]: how far the drift is that they stand for; NaN before the first


@no_refcount
def learn_chunk(
    truth: Truth,
    noise: Noise,
    progress: Float,
    optima: Float,
    first: int,
    last: int,
    every: bool,
    rates: SpotRates,
    state: SpotState,
    statistics: Statistics,
    window: Window,
    played: Played,
    tracker: Tracker,
    record: Record,
) -> int:
    """Episodes `first` up to `last` of the chunk; returns the one before which there was no room."""
    stale, rows = True, rows_of(state)
    for n in range(first, last):
        n = assume_nonnegative(n)
        if not has_room(statistics, window):
            return n
        stale = learn_episode(
            truth, noise, progress[n], optima[n], n, every, stale, rates, state, rows, statistics,
            window, played, tracker, record,
        )  # fmt: skip
    return last


@inlined
def learn_episode(
    truth: Truth,
    noise: Noise,
    progress: float,
    optimum: float,
    n: int,
    every: bool,
    stale: bool,
    rates: SpotRates,
    state: SpotState,
    rows: Rows,
    statistics: Statistics,
    window: Window,
    played: Played,
    tracker: Tracker,
    record: Record,
) -> bool:
    """Episode n of `noise`; `stale` as in `watch`, before and after."""
    stale = not watch(
        truth, progress, optimum, every, stale,
        state.finished, rows.pi, state.lam, state.lower, state.upper, played, tracker, record,
    )  # fmt: skip
    see(truth, noise, n, state.pi, played)
    episode = InsideEpisode(
        played.states, played.pairs, played.rewards, played.constraints, played.thresholds
    )
    return stale | spot_step(rates, state, rows, statistics, window, episode)


@no_refcount
def count_chunk(
    truth: Truth,
    noise: Noise,
    progress: Float,
    optima: Float,
    first: int,
    last: int,
    every: bool,
    rates: CountRates,
    state: CountState,
    statistics: Statistics,
    window: Window,
    played: Played,
    tracker: Tracker,
    record: Record,
) -> int:
    """The same for a learner that plans: its policy stands still, and the chunk ends where a plan is due."""
    stale, policy = True, state.pi.reshape(state.pi.size)
    for n in range(first, last):
        if not has_room(statistics, window):
            return n
        stale = not watch(
            truth, progress[n], optima[n], every, stale,
            state.finished, policy, state.lam, state.lower, state.upper, played, tracker, record,
        )  # fmt: skip
        see(truth, noise, n, state.pi, played)
        episode = InsideEpisode(
            played.states, played.pairs, played.rewards, played.constraints, played.thresholds
        )
        if count_step(rates, state, statistics, window, episode):
            return n + 1
    return last


@inlined
def watch(
    truth: Truth,
    progress: float,
    optimum: float,
    every: bool,
    stale: bool,
    finished: Int,
    policy: Float,
    lam: Float,
    lower: Float,
    upper: Float,
    played: Played,
    tracker: Tracker,
    record: Record,
) -> bool:
    """Before an episode: its thresholds, and where asked for the exact values of its policy, tracked and recorded.

    `stale`: the policy has moved since its values were last taken. Returns whether they are fresh now.
    """
    t = finished[0] + 1
    if progress != played.progress[0]:
        set_thresholds(truth, progress, played, tracker)
    row = record.written[0]
    wanted = row < record.episodes.shape[0] and record.episodes[row] == t
    if every or wanted:
        if stale:
            forward_values(
                truth.model, policy,
                tracker.now, tracker.after, tracker.mass, tracker.visits, tracker.values,
            )  # fmt: skip
        stale = False
        track(tracker, float(t), optimum)
        if wanted:
            write_row(record, tracker.values, lam, lower, upper, tracker.totals)
    return not stale


@inlined
def set_thresholds(truth: Truth, progress: float, played: Played, tracker: Tracker) -> None:
    """The thresholds of an episode, and their sums, where the drift is so far."""
    m, H = played.alpha.shape
    for i in range(m):
        tracker.limits[i] = 0.0
        for h in range(H):
            alpha = truth.model.alpha[i, h]
            played.alpha[i, h] = alpha + progress * (truth.target[i, h] - alpha)
            tracker.limits[i] += played.alpha[i, h]
    played.progress[0] = progress


@inlined
def see(truth: Truth, noise: Noise, n: int, pi: Float, played: Played) -> None:
    """Play episode n of `noise` and see it as a learner does, through the user's units."""
    play_kernel(
        truth.model, played.alpha, truth.laws, noise, n, pi,
        played.states, played.pairs, played.rewards, played.constraints, played.thresholds,
    )  # fmt: skip
    if truth.scaled:
        round_as_seen(truth, played)


@inlined
def round_as_seen(truth: Truth, played: Played) -> None:
    """Take the signals to the user's units and back, as a learner does that observes them."""
    H, m = played.constraints.shape
    for h in range(H):
        played.rewards[h] = there_and_back(played.rewards[h], truth.offsets[0], truth.scales[0])
        for i in range(m):
            offset, scale = truth.offsets[1 + i], truth.scales[1 + i]
            played.constraints[h, i] = there_and_back(played.constraints[h, i], offset, scale)
            played.thresholds[h, i] = there_and_back(played.thresholds[h, i], offset, scale)


@inlined
def there_and_back(x: float, offset: float, scale: float) -> float:
    """A signal in the user's units and inside again, rounded as an observed one is."""
    return min(max(((offset + scale * x) - offset) / scale, 0.0), 1.0)
