"""Phases of an epoch learner: what every episode counts, and when the learner has to decide something.

The compiled step counts an episode (visits, threshold totals), watches the trial of the policy in play, and answers DUE
where the Python part must act: the part of the phase has ended, a new exploring plan is due, the trial has decided, or
the budget for exploring is spent.

A trial is about one policy that was fixed before its first episode. For each constraint the difference D of an episode
(`evidence.differences`) has the mean V_g - alpha, and the total of g has the mean V_g; `sequences.FixedMeans` bounds
both at all times. With the bounds of alpha (`evidence.totals`),

    V_g - alpha  >=  max( lower bound of D,  lower bound of V_g - upper bound of alpha ),

and likewise above. Where the thresholds are known the two are the same, and the second one is left out.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from ..arrays import Float, InsideEpisode, Int, Policy
from ..evidence.differences import Declared, differences, reward_share, totals_fit
from ..evidence.sequences import (
    ChangingMeans,
    FixedMeans,
    Targets,
    changing_means,
    fixed_means,
    observe_changing,
    observe_fixed,
    read_when_due,
    sums_of_means,
)
from ..evidence.totals import (
    TotalRates,
    TotalState,
    observe_totals,
    total_state,
)
from ..kernels.jit import inlined
from ..spot.visits import Statistics, add_visit
from ..spot.window import Window
from . import compiled_step
from .compiled_step import step_for

FIRST, EXPLORING, TRYING, RETREATED = range(4)  # the part of a phase
OPEN, KEPT, BROKEN, ISSUED = range(
    4
)  # the verdict of a trial; ISSUED: kept, and the certificate is written

# The entries of a clock.
PHASE = 0  # k, from 1
PART = 1
BEGAN = 2  # episodes before the phase
TRIED = 3  # episodes before the trial
ENDS = 4  # episodes after which the part ends
NEXT = 5  # episodes before which no new exploring plan is made
GROWN = 6  # whether the visits of some pair have doubled since the last one
VERDICT = 7
BREAKS = 8  # trials in a row that ended in a break
DISTRUSTED = 9  # whether the baseline was proven to break a limit
LOGGED = 10  # episodes of a log, before the learner's own
OWN = 11  # whether the coming episode is played with the learner's policy
DUE = 12  # whether there is something to decide
OUTSIDE = 13  # whether an episode's total lay outside of what was declared
CLOCK = 14


OWED = 6  # the row of `Memory` that the kernel writes


class PhaseRates(NamedTuple):
    """What stays the same within a part of a phase."""

    totals: TotalRates
    declared: Declared
    targets: Targets  # of the trial
    level: float  # ln(1/share) of each of its statements about safety
    reward_level: float  # of each side of its reward
    learned: bool  # whether the thresholds are
    shared: bool  # whether the steps share their counts
    narrow: bool  # whether smaller totals were declared than H steps can have
    budget: Float  # [m]: for exploring, inside; empty: none
    budget_level: Float  # [m]: ln(1/share)


class PhaseState(NamedTuple):
    """What episodes and plans change, beside the statistics."""

    pi: Policy  # [H, S, A]
    lam: Float  # [m]
    lower: Float  # [m]: bounds of the thresholds
    upper: Float  # [m]
    finished: Int  # [1]: episodes
    clock: Int  # [CLOCK]
    visits: Int  # [K*S*A]: of every pair, shared or not; derived from the statistics
    planned: Int  # [K*S*A]: the same at the last exploring plan
    totals: TotalState
    trial: (
        FixedMeans  # [2 + 4m]: reward, 1 - reward; then for each constraint D, -D, g, -g in [0,1]
    )
    exploring: ChangingMeans  # [m]: D of exploring episodes
    spent: Float  # [m]: what exploring has cost at most, inside
    memory: Float  # [Memory.ROWS, m]
    x: Float  # [2m]: these three are buffers
    cost: Float  # [m]
    scratch: Float  # [m]


class Memory:
    """The rows of `PhaseState.memory`: what proposals remember of the trials before them."""

    MARGIN = 0  # of the last proposal
    ERROR = 1  # by how much the model was off, as the last break showed
    PROMISED = 2  # V_g - alpha of the last proposal, in the model
    SPREAD = 3  # the standard deviation of an episode's D in the last trial
    VALUE_SPREAD = 4  # the same of its total of g
    PRICE = 5  # the multipliers of the last proposal
    OWED = OWED  # what exploring episodes fell short by and have not made up for
    ROWS = 7


def empty_phases(pi: Policy, totals: TotalRates, m: int, counts: int) -> PhaseState:
    """Nothing played yet."""
    H = pi.shape[0]
    return PhaseState(
        pi=pi, lam=np.zeros(m), lower=totals.limits[0].copy(), upper=totals.limits[1].copy(),
        finished=np.zeros(1, np.int64), clock=np.zeros(CLOCK, np.int64),
        visits=np.zeros(counts, np.int64), planned=np.zeros(counts, np.int64),
        totals=total_state(totals, H), trial=empty_trial(m), exploring=changing_means(m),
        spent=np.zeros(m), memory=np.zeros((Memory.ROWS, m)),
        x=np.zeros(2 * m), cost=np.zeros(m), scratch=np.zeros(m),
    )  # fmt: skip


def empty_trial(m: int) -> FixedMeans:
    """A trial before its first episode."""
    return fixed_means(2 + 4 * m)


@step_for(PhaseRates)
def phase_step(
    rates: PhaseRates,
    state: PhaseState,
    statistics: Statistics,
    window: Window,
    episode: InsideEpisode,
) -> int:
    """The episode that was played joins the data and the trial; whether there is something to decide."""
    clock, pairs = state.clock, statistics.n.shape[1]
    statistics.starts[episode.states[0]] += 1
    for h in range(episode.pairs.shape[0]):
        s, pair = episode.states[h], episode.pairs[h]
        reward, constraints = episode.rewards[h], episode.constraints[h]
        add_visit(statistics, h, s, pair, episode.states[h + 1], reward, constraints)
        k = pair if rates.shared else h * pairs + pair
        state.visits[k] += 1
        if state.visits[k] >= 2 * state.planned[k]:
            clock[GROWN] = 1
    state.finished[0] += 1
    if rates.learned:
        observe_totals(rates.totals, state.totals, episode.thresholds, state.lower, state.upper)
    if rates.narrow and not totals_fit(rates.declared, episode):
        clock[OUTSIDE] = 1
    if clock[OWN] > 0 and (clock[PART] == FIRST or clock[PART] == TRYING):
        watch_trial(
            rates.declared, rates.targets, rates.level, rates.learned, state.trial, clock,
            state.lower, state.upper, state.x, episode,
        )  # fmt: skip
    over = False
    if clock[PART] == EXPLORING and clock[OWN] > 0:
        note_shortfall(rates.declared, state.memory[OWED], state.x, episode)
    if clock[PART] == EXPLORING and rates.budget.shape[0] > 0:
        if clock[OWN] > 0:
            pay_for_exploring(
                rates.declared, rates.budget_level, state.exploring, state.spent,
                state.x, state.cost, state.scratch, episode,
            )  # fmt: skip
        for i in range(rates.budget.shape[0]):  # could one more episode exceed it?
            over |= state.spent[i] - rates.declared.least[i] > rates.budget[i]
    clock[OWN] = 1
    if (
        over
        or something_due(clock, state.finished[0])
        or not (
            state.totals.ring.shape[0] == 0 or state.totals.span[1] < state.totals.ring.shape[0]
        )
    ):
        clock[DUE] = 1
    return compiled_step.DUE if clock[DUE] > 0 else compiled_step.STAYED


@inlined
def something_due(clock: Int, t: int) -> bool:
    """Whether the learner has to decide something before the next episode, by the clock."""
    due = t >= clock[ENDS] or clock[VERDICT] == KEPT or clock[OUTSIDE] > 0
    if clock[PART] == EXPLORING:
        due |= clock[GROWN] > 0 and t >= clock[NEXT]
    elif clock[PART] != RETREATED:
        due |= clock[VERDICT] == BROKEN
    return bool(due)


@inlined
def note_shortfall(declared: Declared, owed: Float, x: Float, episode: InsideEpisode) -> None:
    """``owed <- max(0, owed - D)``; where samples are missing, D lies in the middle of what they leave open."""
    differences(declared, episode.constraints, episode.thresholds, x)
    for i in range(owed.shape[0]):
        middle = (1.0 + x[2 * i] - x[2 * i + 1]) / 2.0
        owed[i] = max(0.0, owed[i] - declared.least[i] - declared.width[i] * middle)


@inlined
def pay_for_exploring(
    declared: Declared,
    level: Float,
    exploring: ChangingMeans,
    spent: Float,
    x: Float,
    cost: Float,
    low: Float,
    episode: InsideEpisode,
) -> None:
    """What exploring may have cost: ``U(t) = min(upper bound of the sum, U(t-1) + the most of one episode)``.

    `x` ``[2m]``, `cost` and `low` ``[m]`` are buffers.
    """
    differences(declared, episode.constraints, episode.thresholds, x)
    for i in range(cost.shape[0]):
        cost[i] = x[2 * i]
    observe_changing(exploring, cost)
    sums_of_means(exploring, level, low)
    n = exploring.counted[0]
    for i in range(cost.shape[0]):
        most = -(n * declared.least[i] + declared.width[i] * low[i])
        spent[i] = min(most, spent[i] - declared.least[i])


@inlined
def watch_trial(
    declared: Declared,
    targets: Targets,
    level: float,
    learned: bool,
    trial: FixedMeans,
    clock: Int,
    lower: Float,
    upper: Float,
    x: Float,
    episode: InsideEpisode,
) -> None:
    """Count an episode of the policy on trial, and decide as soon as the bounds do; `x` ``[2m]`` is a buffer."""
    differences(declared, episode.constraints, episode.thresholds, x)
    reward = reward_share(declared, episode.rewards)
    observe_fixed(targets, trial, 0, reward)
    observe_fixed(targets, trial, 1, 1.0 - reward)
    kept, broken = True, False
    for i in range(lower.shape[0]):
        row, value = 2 + 4 * i, 0.0
        for h in range(episode.rewards.shape[0]):
            value += episode.constraints[h, i]
        least, most = declared.values[0, i], declared.values[1, i]
        value = min(max((value - least) / (most - least), 0.0), 1.0)
        for j in range(4):
            new = x[2 * i + j] if j < 2 else value if j == 2 else 1.0 - value
            observe_fixed(targets, trial, row + j, new)
            if clock[VERDICT] == OPEN:
                read_when_due(targets, trial, row + j, level)
        if clock[VERDICT] == OPEN:
            low, high = trial_bounds(declared, trial.lower, learned, lower[i], upper[i], i)
            kept &= low >= 0.0
            broken |= high < 0.0
    if clock[VERDICT] == OPEN:
        clock[VERDICT] = BROKEN if broken else KEPT if kept else OPEN


@inlined
def trial_bounds(
    declared: Declared, bound: Float, learned: bool, lower: float, upper: float, i: int
) -> tuple[float, float]:
    """The bounds of V_g - alpha of constraint i, inside, from those of a trial's rows and of alpha."""
    row, least, width = 2 + 4 * i, declared.least[i], declared.width[i]
    low, high = least + width * bound[row], least + width * (1.0 - bound[row + 1])
    if learned:
        least, width = declared.values[0, i], declared.values[1, i] - declared.values[0, i]
        low = max(low, least + width * bound[row + 2] - upper)
        high = min(high, least + width * (1.0 - bound[row + 3]) - lower)
    return low, high


def spreads(declared: Declared, trial: FixedMeans) -> tuple[Float, Float]:
    """The standard deviations ``[m]`` of an episode's D and of its total of g; infinite before two episodes."""
    n = trial.counted[2::4]
    if n[0] < 2.0:
        unknown = np.full(len(n), math.inf)
        return unknown, unknown
    width = declared.values[1] - declared.values[0]
    return (
        declared.width * np.sqrt(trial.squares[2::4] / n),
        width * np.sqrt(trial.squares[4::4] / n),
    )
