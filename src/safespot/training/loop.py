"""The compiled loop of training: many episodes of any learner in one call, without the GIL.

    for each episode of a chunk:
        watch      its thresholds, and the exact values of its policy -> metrics
        see        play it, as the learner sees it
        meter      what it proves of the violation, without the truth -> evidence
        learn      the learner's own step (`learners.compiled_step`)

It calls the kernels that `play` and a learner's `observe` call. Three records say what it is about: what is played,
what is watched, and what is learned.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from ..arrays import Float, InsideEpisode, Int
from ..kernels.jit import inlined, no_refcount
from ..learners.compiled_step import DUE, MOVED, learning_step
from ..model.cmdp import Model
from ..model.dynamic_programming import forward_values
from ..model.simulation import Laws, Noise, play_kernel
from ..spot.limits import has_room
from ..spot.visits import Statistics
from .metering import Metering, add_up, count_episode, mark_moved
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


class Playing(NamedTuple):
    """What is played: the truth, and the noise of the coming episodes."""

    truth: Truth
    noise: Noise
    progress: Float  # [episodes]: how far the drift is in each
    optima: Float  # [episodes]: the optimum in each
    played: Played


class Watching(NamedTuple):
    """Exact values, and what play itself proves."""

    every: bool  # episode, or only the recorded ones
    tracker: Tracker
    record: Record
    metering: Metering


class Learning(NamedTuple):
    """What is learned: the learner's own records."""

    rates: Any
    state: Any
    statistics: Statistics
    window: Any  # of `spot.limits`


@no_refcount
def play_chunk(
    playing: Playing, watching: Watching, learning: Learning, first: int, last: int
) -> int:
    """Episodes `first` up to `last` of the chunk; returns the one that has to wait for the learner's Python part.

    That is where there is no room for one more episode, where `settle` is due, or where an episode has other totals
    than were declared; it is not learned from.
    """
    truth, played = playing.truth, playing.played
    rates, state = learning.rates, learning.state
    statistics, window = learning.statistics, learning.window
    policy = state.pi.reshape(state.pi.size)
    episode = InsideEpisode(
        played.states, played.pairs, played.rewards, played.constraints, played.thresholds
    )
    stale = True
    for n in range(first, last):
        if not has_room(statistics, window):
            return n
        row = watching.record.written[0]
        t = state.finished[0] + 1
        if playing.progress[n] != played.progress[0]:
            set_thresholds(truth, playing.progress[n], played, watching.tracker)
        stale = not watch(
            truth.model,
            playing.optima[n],
            t,
            watching,
            state.lam,
            state.lower,
            state.upper,
            policy,
            stale,
        )
        see(truth, playing.noise, n, state.pi, played)
        if not add_up(watching.metering, episode):
            return n
        recorded = watching.record.written[0] > row
        count_episode(watching.metering, row, recorded)
        answer = learning_step(rates, state, statistics, window, episode)
        if answer == DUE:
            return n + 1
        if answer == MOVED:
            stale = True
            mark_moved(watching.metering)
    return last


@inlined
def watch(
    model: Model,
    optimum: float,
    t: int,
    watching: Watching,
    lam: Float,
    lower: Float,
    upper: Float,
    policy: Float,
    stale: bool,
) -> bool:
    """Before episode t: where asked for the exact values of its policy, tracked and recorded.

    `stale`: the policy has moved since its values were last taken. Returns whether they are fresh now. It takes what
    it reads and not the learner's whole state, which would take seconds to compile.
    """
    tracker, record = watching.tracker, watching.record
    row = record.written[0]
    wanted = row < record.episodes.shape[0] and record.episodes[row] == t
    if watching.every or wanted:
        if stale:
            forward_values(
                model, policy,
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
