"""The audit of a run: what the paper's lemmas speak of, measured against the truth in every episode.

A learner cannot know whether its intervals hold; whoever has the true model can. After each episode the
audit looks at the learner's own estimates, radii and values:

    threshold_ratio   thm:estimator2   largest error of a threshold's mean over its radius at scale 1 (i, h, t, pairs)
    bonus_ratio       F^r, F^g, F^p    largest error of a pair's model over its bonus in use
    nested_slack      F_pes, F_opt     smallest distance of a true episodic threshold from its bounds; < 0: outside
    optimism_slack    dual optimism    smallest optimistic value less the true value of the policy, of r and all g
    zeta_sum          lem:gw-sum       sum of the threshold radii in use
    window_sum        lem:gw-sum       sum of E 1 / sqrt(windowed count) of the pairs that the policy visits
    phi_sum           lem:policy errors-truncated   sum of E min(H-h+1, 2 phi) of these pairs
    mirror_sum        lem:OMD          sum of E <Q_t, pi* - pi_t> along an optimal policy pi*
    first_feasible    asp-2            the first episode whose pessimistic thresholds leave room; 0: none yet

Each is taken up to and including the episode. All intervals of scale k hold in the whole run if and only if
``threshold_ratio <= k``: an error is never above 1, which is where a radius ends.
Expectations are exact, under the policy in the true model. Everything is in inside units.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from ..arrays import Float, Policy
from ..errors import InvalidOption
from ..kernels.jit import inlined, kernel
from ..learners.learner import Learner
from ..learners.spot import Spot
from ..model.cmdp import CMDP, Model
from ..model.dynamic_programming import forward_values
from ..model.oracle import slater, solve
from ..model.transitions import push
from ..spot.optimism import (
    Radii,
    pair_bonus,
    threshold_deviation,
    threshold_radius,
    transition_radius,
)
from ..spot.step import SpotRates, SpotState
from ..spot.visits import Statistics
from ..spot.window import Window, representative
from .loop import Played, Truth
from .metrics import Tracker
from .observers import register

COLUMNS = (
    "threshold_ratio", "bonus_ratio", "nested_slack", "optimism_slack", "zeta_sum", "window_sum",
    "phi_sum", "mirror_sum", "first_feasible",
)  # fmt: skip
(
    THRESHOLD_RATIO, BONUS_RATIO, NESTED_SLACK, OPTIMISM_SLACK, ZETA_SUM, WINDOW_SUM,
    PHI_SUM, MIRROR_SUM, FIRST_FEASIBLE,
) = range(len(COLUMNS))  # fmt: skip


class Yardstick(NamedTuple):
    """What an audit compares with; the same for all runs of a problem."""

    best: Float  # [H, S*A]: the occupancy measure of an optimal policy
    room: Float  # [m]: the margins of the Slater policy


class Audit(NamedTuple):
    """What the audit carries from episode to episode."""

    totals: Float  # [columns]
    rows: Float  # [grid, columns]
    sums: Model  # the true model, whose payoffs are what `phi_sum` and `window_sum` add up
    yardstick: Yardstick
    pi: Float  # [H*S*A]: the policy that is played; these three are buffers
    expected: Float  # [2]
    error: Float  # [S]


def make_yardstick(cmdp: CMDP) -> Yardstick:
    """The optimal and the safest policy of a known model."""
    made = Yardstick(
        best=np.zeros((cmdp.H, cmdp.S * cmdp.A)),
        room=slater(cmdp).margins / np.abs(cmdp.units.constraints.scale),
    )
    occupy(cmdp.model, np.array(solve(cmdp).policy), made.best)
    return made


def make_audit(cmdp: CMDP, learner: Learner, grid: int, yardstick: Yardstick) -> Audit:
    """An audit of a learner that plays `cmdp`, with room for so many recorded episodes."""
    if not isinstance(learner, Spot) or learner.options.episodes is None:
        raise InvalidOption("track='audit' is for SPOT with a given number of episodes.")
    if learner.options.estimator == "total":
        raise InvalidOption(
            "track='audit' is about the paper's estimators of the thresholds, not about estimator='total'."
        )
    if not learner.statistics.successors.dense.size:
        raise InvalidOption(
            "track='audit' looks at every pair in every episode; this problem is too large for it."
        )
    H, S, A = cmdp.H, cmdp.S, cmdp.A
    totals = np.zeros(len(COLUMNS))
    totals[[NESTED_SLACK, OPTIMISM_SLACK]] = np.inf
    made = Audit(
        totals=totals,
        rows=np.zeros((grid, len(COLUMNS))),
        sums=cmdp.model._replace(payoffs=np.ones((2, H, S * A))),
        yardstick=yardstick,
        pi=np.zeros(H * S * A),
        expected=np.zeros(2),
        error=np.zeros(S),
    )
    derive_audit(made, learner)
    return made


def derive_audit(audit: Audit, learner: Learner) -> None:
    """Derive what follows from the learner's counts: when it is new, or comes from a checkpoint."""
    H, pairs = learner.statistics.n.shape
    for h in range(H):
        for pair in range(pairs):
            expect_bonus(audit, learner.rates.radii, learner.statistics, h, pair)
    expect_counts(audit, learner.window)


@kernel
def occupy(model: Model, pi: Policy, occupancy: Float) -> None:
    """``occupancy[h, s*A+a]``: how likely a policy visits a pair at a step of the true model."""
    H, S, A = pi.shape
    now = model.start.copy()
    for h in range(H):
        after = np.zeros(S)
        for s in range(S):
            for a in range(A):
                occupancy[h, s * A + a] = now[s] * pi[h, s, a]
                push(model.P, h, s * A + a, now[s] * pi[h, s, a], after)
        now = after


def look_before(
    audit: Audit, rates: SpotRates, policy: Float, window: Window, tracker: Tracker
) -> None:
    """Keep the policy, and what the data before the episode make of its sums."""
    H = window.n.shape[0]
    for k in range(policy.shape[0]):
        audit.pi[k] = policy[k]
    forward_values(
        audit.sums, policy,
        tracker.now, tracker.after, tracker.mass, tracker.visits, audit.expected,
    )  # fmt: skip
    for h in range(H):
        n = window.n[h, representative(window, h)]
        audit.totals[ZETA_SUM] += threshold_radius(rates.radii, float(n)) if n > 0 else 1.0


def look_after(
    audit: Audit,
    truth: Truth,
    rates: SpotRates,
    state: SpotState,
    statistics: Statistics,
    window: Window,
    played: Played,
    tracker: Tracker,
    row: int,
    recorded: bool,
) -> None:
    """What the episode adds, and what holds of the learner now."""
    add_sums(rates, state, audit)
    compare(truth, rates, state, statistics, window, played, tracker, audit)
    if recorded:
        for c in range(audit.totals.shape[0]):
            audit.rows[row, c] = audit.totals[c]


@inlined
def add_sums(rates: SpotRates, state: SpotState, audit: Audit) -> None:
    """What the episode adds to the sums that carry the rate."""
    H, S, A = state.pi.shape
    totals, w = audit.totals, state.scratch
    totals[PHI_SUM] += audit.expected[0]
    totals[WINDOW_SUM] += audit.expected[1]
    if rates.start == S:  # D5: a learned start is one more step
        before = state.finished[0] - 1
        phi_0 = rates.radii.bonus_scale * transition_radius(rates.radii, max(1.0, float(before)))
        totals[PHI_SUM] += min(float(H), 2.0 * phi_0) if before > 0 else float(H)
    # Q is known but for what all actions of a step share, which cancels in pi* - pi_t.
    for h in range(H):
        for s in range(S):
            there = 0.0
            for a in range(A):
                there += audit.yardstick.best[h, s * A + a]
            for a in range(A):
                k = (h * S + s) * A + a
                apart = audit.yardstick.best[h, s * A + a] - there * audit.pi[k]
                totals[MIRROR_SUM] += apart * w.Q[k]


@inlined
def compare(
    truth: Truth,
    rates: SpotRates,
    state: SpotState,
    statistics: Statistics,
    window: Window,
    played: Played,
    tracker: Tracker,
    audit: Audit,
) -> None:
    """Compare with the truth: the values of the episode, and the estimates that now hold its data."""
    H = state.pi.shape[0]
    totals, gap = audit.totals, state.scratch.gap
    for c in range(gap.shape[0]):
        above = (H - gap[c]) - tracker.values[c]
        totals[OPTIMISM_SLACK] = min(totals[OPTIMISM_SLACK], above)
    if rates.learned:
        ratio = worst_threshold(rates.radii, window, played.alpha)
        totals[THRESHOLD_RATIO] = max(totals[THRESHOLD_RATIO], ratio)
    roomy = True
    for i in range(state.lam.shape[0]):
        below, above = tracker.limits[i] - state.lower[i], state.upper[i] - tracker.limits[i]
        totals[NESTED_SLACK] = min(totals[NESTED_SLACK], below, above)
        roomy &= above < audit.yardstick.room[i]
    if roomy and totals[FIRST_FEASIBLE] == 0.0:
        totals[FIRST_FEASIBLE] = state.finished[0] + 1.0
    for h in range(H):
        pair = played.pairs[h]
        expect_bonus(audit, rates.radii, statistics, h, pair)
        ratio = model_error(truth.model, statistics, h, pair, audit.error)
        ratio /= pair_bonus(rates.radii, statistics, h, pair)
        totals[BONUS_RATIO] = max(totals[BONUS_RATIO], ratio)
    expect_counts(audit, window)


@inlined
def worst_threshold(radii: Radii, window: Window, alpha: Float) -> float:
    """The largest ``|alpha_hat - alpha|`` over its radius at scale 1, of all constraints, steps and pairs."""
    H, pairs = window.n.shape
    worst: float = 0.0
    for h in range(H):
        for pair in range(pairs):
            n = window.n[h, pair]
            if n > 0:
                radius = threshold_deviation(radii, float(n))
                for i in range(alpha.shape[0]):
                    mean = (window.sums[i, h, pair] + window.carries[i, h, pair]) / n
                    worst = max(worst, abs(mean - alpha[i, h]) / radius)
    return worst


@inlined
def model_error(model: Model, statistics: Statistics, h: int, pair: int, error: Float) -> float:
    """How much bonus a visited pair needs (note 8): ``max_v |v_hat - v| + (H-h)/2 ||p_hat - p||_1``."""
    components, steps, _ = model.payoffs.shape
    H, S = statistics.known.shape
    n = statistics.n[h, pair]
    off = 0.0
    for c in range(components):
        truth = model.payoffs[c, h if steps > 1 else 0, pair]
        off = max(off, abs(statistics.sums[c, h, pair] / n - truth))
    for s in range(S):
        error[s] = statistics.successors.dense[h, s, pair] / n
    push(model.P, h, pair, -1.0, error)
    apart = 0.0
    for s in range(S):
        apart += abs(error[s])
    return float(off + 0.5 * (H - 1 - h) * apart)


@inlined
def expect_bonus(audit: Audit, radii: Radii, statistics: Statistics, h: int, pair: int) -> None:
    """``min(H - h, 2 phi)`` of a pair: its part of `phi_sum`."""
    H = statistics.n.shape[0]
    phi = pair_bonus(radii, statistics, h, pair)
    audit.sums.payoffs[0, h, pair] = min(float(H - h), 2.0 * phi)


@inlined
def expect_counts(audit: Audit, window: Window) -> None:
    """``1 / sqrt(max(1, n))`` of every pair in the window: their parts of `window_sum`."""
    _, H, pairs = audit.sums.payoffs.shape
    one = window.n.shape[1] == 1  # pooled, or a single pair
    for h in range(H):
        for pair in range(pairs):
            n = window.n[h, 0 if one else pair]
            audit.sums.payoffs[1, h, pair] = 1.0 / math.sqrt(max(1.0, float(n)))


register(Audit, look_before, look_after)
