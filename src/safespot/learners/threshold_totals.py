"""Bounds on an episode's threshold, alpha = sum_h alpha_h, from the hints that episodes show (``estimator="total"``).

`A_t = sum_h x_h` has the mean alpha whichever pairs were visited, so nothing is paid for states, actions and steps.
Which numbers make a factor of the sequence depends on what is declared of the hints:

- nothing: an episode's total, of range H or `threshold_totals`. A step without a sample counts as 0 in the lower and as
  1 in the upper bound.
- `independent_hints`, E[x_h] = alpha_h given also the steps before: a step, of range 1.
- `shared_threshold`, E[x_h] = alpha / H at every step that shows a sample: an episode's samples, of range H.
- both: a sample, of range 1.

Hints of one episode may share their noise (a patient's own tolerance): a factor for each of them would count that
noise as if it were new. So would one for each share of a total that comes once an episode: such a total, spread evenly
over the steps, is no case for `independent_hints`.

With a window below 1 the thresholds may drift: the bounds are then of the mean over the window, from episodes' totals
whatever is declared, for each number t of episodes with its own share delta / (t (t+1)).
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..arrays import Float, InsideEpisode, Int
from ..errors import InvalidFile
from ..evidence.sequences import (
    PATIENCE,
    WINDOW_WEIGHTS,
    FixedMeans,
    Targets,
    add_factor,
    choose_weights,
    fixed_means,
    is_due,
    move_powers,
    observe_fixed,
    observe_samples,
    read_fixed,
    sample_mean,
    targets,
    window_sum,
)
from ..kernels.jit import inlined, no_refcount
from ..spot import limits
from ..spot.optimism import Radii
from ..spot.visits import MOST
from ..states import rebuild
from ..units import ROUNDING

EPISODES, STEPS, SHARED, SAMPLES, WINDOW = range(5)  # what a factor is made of
FIRST_ROOM = 64  # episodes that a window has room for at first


class TotalRates(NamedTuple):
    """The constants of an estimator: those of its factors, and the declared ranges."""

    kind: int
    targets: Targets
    level: float  # ln(1/share) of one side of one constraint
    gamma: float  # the window, a part of the episodes
    limits: Float  # [2, m]: the least and the largest total, inside


class TotalState(NamedTuple):
    """The statistics of hints; rows 2i, 2i+1 are for the lower and the upper bound of constraint i, that of 1 - x."""

    means: FixedMeans  # [2m, .]; [0, .] where it is not used, as below
    by_step: Float  # [2m, H]: sums of a step's x, from which it is guessed
    samples: Float  # [m, 5]: sums of `observe_samples`
    powers: Float  # [2m, 4]: sums of `move_powers`
    ring: Float  # [capacity, 2m, 2]: x and y of the window's episodes
    span: Int  # [3]: episodes, the window's length, where its oldest is
    due: Float  # [1]: the episode at which SHARED is read again


class HintTotals(NamedTuple):
    """A learner's limits as totals: what stays, what was seen, and the best bounds so far (`spot.limits`)."""

    rates: TotalRates
    state: TotalState
    bounds: Float  # [2, m]: lower and upper, inside


def total_rates(
    m: int,
    H: int,
    delta: float,
    *,
    planned: int | None = None,
    independent_hints: bool = False,
    shared_threshold: bool = False,
    window: float = 1.0,
    limits: Float | None = None,
) -> TotalRates:
    """Make the rates for bounds that hold at once with probability 1 - delta, sharpest around `planned` episodes."""
    kind = (EPISODES, STEPS, SHARED, SAMPLES)[2 * shared_threshold + independent_hints]
    made = targets() if planned is None else targets(planned)
    return TotalRates(
        kind=kind if window == 1.0 else WINDOW,
        # A factor per step: H times as many.
        targets=made._replace(rate=made.rate / math.sqrt(H)) if kind in (STEPS, SAMPLES) else made,
        level=math.log(2.0 * m / delta),
        gamma=window,
        limits=np.repeat([[0.0], [float(H)]], m, axis=1) if limits is None else limits,
    )


def total_state(rates: TotalRates, H: int) -> TotalState:
    """Return the statistics of no hints."""
    m, kind = rates.limits.shape[1], rates.kind
    rows = 2 * m if kind in (EPISODES, STEPS, SAMPLES) else 0
    moving = 2 * m if kind == WINDOW else 0
    return TotalState(
        means=fixed_means(rows),
        by_step=np.zeros((2 * m if kind == STEPS else 0, H)),
        samples=np.zeros((m if kind == SHARED else 0, 5)),
        powers=np.zeros((moving, 4)),
        ring=np.zeros((FIRST_ROOM if moving else 0, moving, 2)),
        span=np.zeros(3, np.int64),
        due=np.ones(1),
    )


def make_totals(rates: TotalRates, H: int) -> HintTotals:
    """Return the estimator before any hint; its bounds are the declared ones."""
    return HintTotals(rates, total_state(rates, H), rates.limits.copy())


def bounds_at(totals: HintTotals, level: float) -> tuple[Float, Float]:
    """Return (lower ``[m]``, upper ``[m]``) with share exp(-level) a side; not for windows."""
    state, rates = totals.state, totals.rates._replace(level=level)
    means = state.means._replace(
        lower=np.zeros_like(state.means.lower), due=np.zeros_like(state.means.due)
    )
    lower, upper = rates.limits[0].copy(), rates.limits[1].copy()
    read_bounds(rates, state._replace(means=means), lower, upper)
    return lower, upper


def check_totals_state(fresh: HintTotals, arrays: dict[str, NDArray]) -> HintTotals:
    """Return the estimator in a file's arrays, checked against that of a new learner, `fresh`."""
    like = {**fresh.state._asdict(), "bounds": fresh.bounds}
    loaded = rebuild(like, arrays, grows=("ring",))
    bounds = loaded.pop("bounds")
    found = HintTotals(fresh.rates, fresh.state._replace(**loaded), bounds)
    means = found.state.means
    state, (lower, upper) = found.state, found.bounds
    episodes, length, oldest = state.span
    gamma, capacity = fresh.rates.gamma, len(state.ring)
    wanted = min(episodes, max(1, math.floor(gamma * episodes))) if capacity else 0
    if not (
        0 <= episodes <= MOST
        and length == wanted
        and (capacity > 0) == (len(fresh.state.ring) > 0)
        and 0 <= oldest < max(1, capacity)
        and length <= capacity
        and (means.power == np.floor(means.power)).all()
        and ((means.total >= 0.0) & (means.total <= means.counted)).all()
        and (means.counted <= episodes * state.by_step.shape[1]).all()
        and ((means.lower >= 0.0) & (means.lower <= 1.0)).all()
        and ((state.ring >= -1.0) & (state.ring <= 1.0)).all()
        and bounds_fit(fresh.rates, state.by_step.shape[1], lower, upper)
    ):
        raise InvalidFile("the totals contradict each other")
    return found


def bounds_fit(rates: TotalRates, H: int, lower: Float, upper: Float) -> bool:
    """Return whether bounds ``[m]`` can be those of an episode's total.

    Hints that contradict what was declared may lead beyond the declared limits, but not beyond those of H steps; a
    threshold that is known stays where it is.
    """
    least, most = rates.limits
    most = np.where(least < most, float(H) * (1.0 + ROUNDING), most)
    return bool((least <= lower).all() and (lower <= upper).all() and (upper <= most).all())


@inlined
def totals_have_room(state: TotalState) -> bool:
    """Return whether the window can take one more episode; if not, `grow_totals` first."""
    return state.ring.shape[0] == 0 or bool(state.span[1] < state.ring.shape[0])


def grow_totals(state: TotalState) -> TotalState:
    """Return a copy with twice the room, its oldest episode first."""
    _, length, oldest = state.span
    ring = np.zeros((2 * len(state.ring), *state.ring.shape[1:]))
    ring[:length] = state.ring[(oldest + np.arange(length)) % len(state.ring)]
    span = state.span.copy()
    span[2] = 0
    return state._replace(ring=ring, span=span)


@inlined
def observe_totals(
    rates: TotalRates,
    state: TotalState,
    thresholds: Float,
    lower: Float,
    upper: Float,
) -> None:
    """Count an episode's hints ``[H,m]`` and tighten the bounds ``[m]`` of the thresholds, inside."""
    H, m = thresholds.shape
    state.span[0] += 1
    if rates.kind == WINDOW:
        slide(rates, state)
    for i in range(m):
        if rates.kind == EPISODES or rates.kind == WINDOW:
            low, high = charged(rates, thresholds, i)
            least, most = rates.limits[0, i], rates.limits[1, i]
            x, x_above = (low - least) / (most - least), (most - high) / (most - least)
            if rates.kind == EPISODES:
                observe_fixed(rates.targets, state.means, 2 * i, x)
                observe_fixed(rates.targets, state.means, 2 * i + 1, x_above)
                read_means(rates, state, i, least, most, lower, upper)
            else:
                join(state, 2 * i, x)
                join(state, 2 * i + 1, x_above)
                read_window(rates, state, i, least, most, lower, upper)
        elif rates.kind == STEPS or rates.kind == SAMPLES:
            if rates.kind == STEPS:
                observe_steps(rates, state, thresholds, i)
            else:
                observe_each(rates, state, thresholds, i)
            read_means(rates, state, i, 0.0, float(H), lower, upper)
        else:
            observe_shared(state, thresholds, i)
            if state.span[0] >= state.due[0]:
                read_shared(rates, state, i, float(H), lower, upper)
    if state.span[0] >= state.due[0]:
        state.due[0] = state.span[0] + max(1, state.span[0] // PATIENCE)


@inlined
def learn_from_totals(
    totals: HintTotals, radii: Radii, episode: InsideEpisode, lower: Float, upper: Float
) -> None:
    """Learn from an episode's hints, as a learner's step does; `radii` are the paper's, and not needed."""
    observe_totals(
        totals.rates, totals.state, episode.thresholds, totals.bounds[0], totals.bounds[1]
    )
    for i in range(lower.shape[0]):
        lower[i] = totals.bounds[0, i]
        upper[i] = totals.bounds[1, i]


@inlined
def has_room_for_hints(totals: HintTotals) -> bool:
    """Return whether the window can take one more episode."""
    return totals_have_room(totals.state)


limits.register(HintTotals, learn_from_totals, has_room_for_hints)


@no_refcount
def read_bounds(rates: TotalRates, state: TotalState, lower: Float, upper: Float) -> None:
    """Update the bounds ``[m]`` from the statistics, whether they are due or not."""
    H = state.by_step.shape[1]
    for i in range(lower.shape[0]):
        if rates.kind == SHARED:
            read_shared(rates, state, i, float(H), lower, upper)
        elif rates.kind == EPISODES:
            read_means(rates, state, i, rates.limits[0, i], rates.limits[1, i], lower, upper)
        else:
            read_means(rates, state, i, 0.0, float(H), lower, upper)


@inlined
def charged(rates: TotalRates, thresholds: Float, i: int) -> tuple[float, float]:
    """Return the least and the largest total that an episode's hints leave open."""
    least, most = rates.limits[0, i], rates.limits[1, i]
    under, over = 0.0, 0.0
    for h in range(thresholds.shape[0]):
        missing = math.isnan(thresholds[h, i])
        under += 0.0 if missing else thresholds[h, i]
        over += 1.0 if missing else thresholds[h, i]
    return min(max(under, least), most), min(max(over, least), most)


@inlined
def observe_steps(rates: TotalRates, state: TotalState, thresholds: Float, i: int) -> None:
    """Add a factor for each step, all with the episode's weights: their exponents sum up to l (alpha - sum_h c_h)."""
    H, n = thresholds.shape[0], float(state.span[0])
    for side in range(2):
        r, largest = 2 * i + side, 0.0
        for h in range(H):
            largest = max(largest, (0.5 + state.by_step[r, h]) / n)
        choose_weights(rates.targets, state.means, r, largest)
        for h in range(H):
            hint = thresholds[h, i]
            x = 0.0 if math.isnan(hint) else (hint if side == 0 else 1.0 - hint)
            add_factor(state.means, r, x, (0.5 + state.by_step[r, h]) / n)
            state.by_step[r, h] += x


@inlined
def observe_each(rates: TotalRates, state: TotalState, thresholds: Float, i: int) -> None:
    """Add a factor for each sample."""
    for h in range(thresholds.shape[0]):
        if not math.isnan(thresholds[h, i]):
            observe_fixed(rates.targets, state.means, 2 * i, thresholds[h, i])
            observe_fixed(rates.targets, state.means, 2 * i + 1, 1.0 - thresholds[h, i])


@inlined
def observe_shared(state: TotalState, thresholds: Float, i: int) -> None:
    """Add one factor for all samples of an episode."""
    n, total = 0.0, 0.0
    for h in range(thresholds.shape[0]):
        if not math.isnan(thresholds[h, i]):
            n += 1.0
            total += thresholds[h, i]
    observe_samples(state.samples[i], n, total)


@inlined
def read_means(
    rates: TotalRates,
    state: TotalState,
    i: int,
    least: float,
    most: float,
    lower: Float,
    upper: Float,
) -> None:
    """Tighten the total's bounds by those of means in [0,1]."""
    for r in (2 * i, 2 * i + 1):
        if is_due(state.means, r):
            read_fixed(rates.targets, state.means, r, rates.level)
    tighten(
        least + (most - least) * state.means.lower[2 * i],
        most - (most - least) * state.means.lower[2 * i + 1],
        i, lower, upper,
    )  # fmt: skip


@inlined
def read_shared(
    rates: TotalRates, state: TotalState, i: int, H: float, lower: Float, upper: Float
) -> None:
    """Tighten the total's bounds by the mean per sample; for the upper one by that of 1 - x, whose sums follow."""
    n, s, ss, sn, nn = state.samples[i]
    mirrored = state.samples[i]
    low = sample_mean(mirrored, H, rates.level)
    mirrored[1], mirrored[2], mirrored[3] = n - s, nn - 2.0 * sn + ss, nn - sn
    high = 1.0 - sample_mean(mirrored, H, rates.level)
    mirrored[1], mirrored[2], mirrored[3] = s, ss, sn
    tighten(H * low, H * high, i, lower, upper)


@inlined
def tighten(low: float, high: float, i: int, lower: Float, upper: Float) -> None:
    """Intersect bounds that hold at all times at once; the lower one is never above."""
    lower[i] = max(lower[i], low)
    upper[i] = max(lower[i], min(upper[i], high))


# Windows


@inlined
def slide(rates: TotalRates, state: TotalState) -> None:
    """Remove the episodes that are older than W = max(1, floor(gamma t)), before the newest one joins."""
    longest = max(1, math.floor(rates.gamma * state.span[0]))
    capacity = state.ring.shape[0]
    while state.span[1] >= longest:
        oldest = state.span[2]
        for r in range(state.powers.shape[0]):
            move_powers(state.powers[r], state.ring[oldest, r, 0], state.ring[oldest, r, 1], -1.0)
        state.span[2] = (oldest + 1) % capacity
        state.span[1] -= 1
    state.span[1] += 1


@inlined
def join(state: TotalState, r: int, x: float) -> None:
    """Add the newest x of row r; the guess is the mean over the rest of the window."""
    length = state.span[1]
    y = x - min(max((0.5 + state.powers[r, 0]) / length, 0.0), 1.0)
    place = (state.span[2] + length - 1) % state.ring.shape[0]
    state.ring[place, r, 0] = x
    state.ring[place, r, 1] = y
    move_powers(state.powers[r], x, y, 1.0)


@inlined
def read_window(
    rates: TotalRates,
    state: TotalState,
    i: int,
    least: float,
    most: float,
    lower: Float,
    upper: Float,
) -> None:
    """Update the bounds by the mean over the current window, each t with its own share."""
    t, length = float(state.span[0]), float(state.span[1])
    level = rates.level + math.log(t) + math.log(t + 1.0)
    terms = state.means.terms[: WINDOW_WEIGHTS.shape[0]]
    low = min(window_sum(state.powers[2 * i], level, terms) / length, 1.0)
    high = 1.0 - min(window_sum(state.powers[2 * i + 1], level, terms) / length, 1.0)
    lower[i] = least + (most - least) * low
    upper[i] = max(lower[i], least + (most - least) * high)
