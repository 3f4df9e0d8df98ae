"""Regret and violation, weak and strong, from exact values of every policy that was played.

With the optimum V* and the limits alpha, the policy of episode t has a gap ``V* - V_r`` and shortfalls
``alpha_i - V_{g_i}``. Weak regret is the sum of the gaps, weak violation the largest over i of the sums of the
shortfalls (the paper); the strong ones sum positive parts. Each is accumulated over every episode and
recorded on a grid.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..arrays import Float, Int, as_count
from ..errors import Infeasible, InvalidOption
from ..kernels.jit import inlined, no_refcount
from ..model.oracle import solve
from ..model.problem import Problem

POINTS_PER_DECADE = 32
ACCUMULATED = (
    "totals",
    "last",
    "before",
    "limits_before",
)  # what a Tracker carries over an episode
RECORDED = ("values", "lam", "lower", "upper", "sums")  # the rows of a Record
DRIFT_POINTS = 65  # optima computed along a linear drift; between them they are interpolated


class Record(NamedTuple):
    """The metrics of every episode of the grid, in inside units."""

    episodes: Int  # [grid], 1-based
    values: Float  # [grid, 1+m]: exact values of the policy played
    lam: Float  # [grid, m]
    lower: Float  # [grid, m]: bounds of the thresholds, from the episodes before
    upper: Float  # [grid, m]
    sums: Float  # [grid, 2, 1+m]: weak and strong, the regret and each shortfall
    written: Int  # [1]: how many rows are filled


class Tracker(NamedTuple):
    """Exact values of the policy in play, and what has been accumulated."""

    values: Float  # [1+m]
    limits: Float  # [m]
    totals: Float  # [2, 1+m]
    last: Float  # [2]: the episode of the last accumulation, and its optimum
    before: Float  # [1+m]: the values there
    limits_before: Float  # [m]
    now: Float  # [S]: these four are buffers
    after: Float  # [S]
    mass: Float  # [S*A]
    visits: Float  # [S*A]


def grid(record: str | int, first: int, last: int) -> Int:
    """Return the episodes to record: "log" (32 a decade), "all", or every k-th; always the first and the last."""
    if record == "all":
        return np.arange(first, last + 1)
    if record == "log":
        decades = np.arange(1 + np.ceil(np.log10(max(last, 2)) * POINTS_PER_DECADE))
        points = np.round(10.0 ** (decades / POINTS_PER_DECADE)).astype(np.int64)
    elif isinstance(record, str):
        raise InvalidOption(f"record must be 'log', 'all' or a whole number k, got {record!r}.")
    else:
        every = as_count("record", record, least=1, error=InvalidOption)
        points = np.arange(every, last + 1, every)
    inside = points[(points >= first) & (points <= last)]
    return np.unique(np.r_[first, inside, last])


def empty_record(episodes: Int, m: int) -> Record:
    """Make the arrays for one row per episode of the grid."""
    n = len(episodes)
    return Record(
        episodes=episodes,
        values=np.zeros((n, 1 + m)),
        lam=np.zeros((n, m)),
        lower=np.zeros((n, m)),
        upper=np.zeros((n, m)),
        sums=np.zeros((n, 2, 1 + m)),
        written=np.zeros(1, np.int64),
    )


def empty_tracker(S: int, A: int, m: int, finished: int) -> Tracker:
    """Return a tracker without totals, after `finished` episodes."""
    return Tracker(
        values=np.zeros(1 + m),
        limits=np.zeros(m),
        totals=np.zeros((2, 1 + m)),
        last=np.array([float(finished), np.nan]),
        before=np.full(1 + m, np.nan),
        limits_before=np.zeros(m),
        now=np.zeros(S),
        after=np.zeros(S),
        mass=np.zeros(S * A),
        visits=np.zeros(S * A),
    )


@inlined
def accumulate(
    totals: Float, optimum: float, limits: Float, values: Float, episodes: float
) -> None:
    """Add one policy's gap and shortfalls, weak and strong, as often as it stands for episodes."""
    for c in range(values.shape[0]):
        lost = (optimum if c == 0 else limits[c - 1]) - values[c]
        totals[0, c] += episodes * lost
        totals[1, c] += episodes * max(lost, 0.0)


@inlined
def track(tracker: Tracker, t: float, optimum: float) -> None:
    """Accumulate episode t; episodes since the last accumulation follow the trapezoidal rule."""
    skipped = t - tracker.last[0] - 1.0
    if skipped > 0.0:
        # sum over the skipped ones of a straight line between both ends
        accumulate(
            tracker.totals, tracker.last[1], tracker.limits_before, tracker.before, skipped / 2.0
        )
        accumulate(tracker.totals, optimum, tracker.limits, tracker.values, skipped / 2.0)
    accumulate(tracker.totals, optimum, tracker.limits, tracker.values, 1.0)
    tracker.last[0] = t
    tracker.last[1] = optimum
    for c in range(tracker.values.shape[0]):
        tracker.before[c] = tracker.values[c]
    for i in range(tracker.limits.shape[0]):
        tracker.limits_before[i] = tracker.limits[i]


@no_refcount
def add_shortfalls(
    constraints: Float, thresholds: Float, limits: Float, senses: Float, sums: Float
) -> None:
    """Add by how much the signals ``[H,m]`` of one episode fall short to `sums` ``[2,m]``, weak and strong.

    `limits` ``[m]`` where they are numbers; else the episode's own samples decide, steps without one like the
    others. `senses` are 1 where a constraint asks for at least so much, -1 for at most.
    """
    H, m = constraints.shape
    for i in range(m):
        counted, total, samples = 0.0, 0.0, 0
        for h in range(H):
            counted += constraints[h, i]
            if not np.isnan(thresholds[h, i]):
                total += thresholds[h, i]
                samples += 1
        limit = limits[i]
        if np.isnan(limit) and samples > 0:
            limit = H * total / samples
        lost = senses[i] * (limit - counted)
        sums[0, i] += lost
        sums[1, i] += 0.0 if lost <= 0.0 else lost  # NaN, where there was no sample, stays


@inlined
def write_row(
    record: Record, values: Float, lam: Float, lower: Float, upper: Float, totals: Float
) -> None:
    """Fill the next row of the record."""
    row = record.written[0]
    for i in range(lam.shape[0]):
        record.lam[row, i] = lam[i]
        record.lower[row, i] = lower[i]
        record.upper[row, i] = upper[i]
    for c in range(values.shape[0]):
        record.values[row, c] = values[c]
        record.sums[row, 0, c] = totals[0, c]
        record.sums[row, 1, c] = totals[1, c]
    record.written[0] = row + 1


class Optima:
    """The optimum for the thresholds of each episode, inside; NaN while no policy keeps them.

    Where thresholds stand still it is solved once per distinct value; along a linear drift it is solved at
    evenly spaced episodes and interpolated between them.
    """

    def __init__(self, problem: Problem) -> None:
        self.drift = problem.signals.drift
        if self.drift is None:
            self.points = np.array([1])
        elif self.drift.last is None:
            self.points = np.array([1, self.drift.first])
        else:
            along = np.linspace(self.drift.first, self.drift.last, DRIFT_POINTS)
            self.points = np.unique(np.r_[1, along.round().astype(np.int64)])
        self.values = np.array([_optimum(problem, int(t)) for t in self.points])

    def __call__(self, episodes: Int) -> Float:
        """Return the optimum of each episode."""
        if self.drift is not None and self.drift.last is not None:
            return np.asarray(np.interp(episodes, self.points, self.values), np.float64)
        where = np.searchsorted(self.points, episodes, side="right") - 1
        values: Float = self.values[where.clip(0)]
        return values


def _optimum(problem: Problem, episode: int) -> float:
    cmdp = problem.cmdp
    if problem.signals.drift is not None:
        now = cmdp.units.constraints.outside(problem.alpha(episode).T).T
        cmdp = cmdp.with_thresholds(now)
    try:
        return float(cmdp.units.reward.total_inside(solve(cmdp).value, cmdp.H))
    except Infeasible:
        return float("nan")
