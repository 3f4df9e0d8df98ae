"""Phases of an epoch learner: what every episode counts, and when the learner has to decide something.

The compiled step counts an episode (visits, threshold totals), watches the trial of the policy in play, and answers DUE
where the Python part must act: the part of the phase has ended, a new exploring plan is due, the trial has decided, or
the budget for exploring is spent.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from ..arrays import Float, InsideEpisode, Int, Policy
from ..evidence.differences import Declared, differences, totals_fit
from ..evidence.sequences import (
    ChangingMeans,
    FixedMeans,
    changing_means,
    observe_changing,
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
from .epoch_trials import BROKEN, KEPT, Before, TrialRates, empty_trial, nothing_before, watch_trial

FIRST, EXPLORING, TRYING, RETREATED = range(4)  # the part of a phase

# The entries of a clock.
PHASE = 0  # k, from 1
PART = 1
BEGAN = 2  # episodes before the phase
TRIED = 3  # episodes before the trial
ENDS = 4  # episodes after which the part ends
NEXT = 5  # episodes before which no new exploring plan is made
GROWN = 6  # whether the visits of some pair have doubled since the last one
VERDICT = 7  # of the trial (`epoch_trials`)
BREAKS = 8  # trials in a row that ended in a break
DISTRUSTED = 9  # whether the baseline was proven to break a limit
LOGGED = 10  # episodes of a log, before the learner's own
OWN = 11  # whether the coming episode is played with the learner's policy
DUE = 12  # whether there is something to decide
OUTSIDE = 13  # whether an episode's total lay outside of what was declared
CLOCK = 14


OWED = 5  # the row of `Memory` that the kernel writes


class PhaseRates(NamedTuple):
    """What stays the same within a part of a phase."""

    totals: TotalRates
    trial: TrialRates
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
    trial: FixedMeans  # [2 + 4m] rows
    before: Before  # what the thresholds were known to be when it began
    exploring: ChangingMeans  # [m]: D of exploring episodes
    spent: Float  # [m]: what exploring has cost at most, inside
    memory: Float  # [Memory.ROWS, m]
    x: Float  # [2m]: these three are buffers
    cost: Float  # [m]
    scratch: Float  # [m]


class Memory:
    """The rows of `PhaseState.memory`: what proposals remember of the trials before them."""

    ROOM = 0  # that the last proposal was to have beyond alpha_xi
    ERROR = 1  # by how much the model was off, as the last break showed
    PROMISED = 2  # V_g - alpha of the last proposal, in the model
    SPREAD = 3  # the standard deviation of an episode's total of g in the last trial
    PRICE = 4  # the multipliers of the last proposal
    OWED = OWED  # what exploring episodes fell short by and have not made up for
    ROWS = 6


def empty_phases(pi: Policy, totals: TotalRates, m: int, counts: int) -> PhaseState:
    """Nothing played yet."""
    H = pi.shape[0]
    return PhaseState(
        pi=pi, lam=np.zeros(m), lower=totals.limits[0].copy(), upper=totals.limits[1].copy(),
        finished=np.zeros(1, np.int64), clock=np.zeros(CLOCK, np.int64),
        visits=np.zeros(counts, np.int64), planned=np.zeros(counts, np.int64),
        totals=total_state(totals, H), trial=empty_trial(m), before=nothing_before(m), exploring=changing_means(m),
        spent=np.zeros(m), memory=np.zeros((Memory.ROWS, m)),
        x=np.zeros(2 * m), cost=np.zeros(m), scratch=np.zeros(m),
    )  # fmt: skip


def phase_length(clock: Int, first: int) -> int:
    """Return how long the phase is: as long as all before it, and at least `first`."""
    return max(first, int(clock[BEGAN] - clock[LOGGED]))


def trial_length(clock: Int, first: int) -> int:
    """Return how long the phase's trial is, or will be."""
    begins = clock[ENDS] if clock[PART] == EXPLORING else clock[TRIED]
    return max(1, int(clock[BEGAN] + phase_length(clock, first) - begins))


@step_for(PhaseRates)
def phase_step(
    rates: PhaseRates,
    state: PhaseState,
    statistics: Statistics,
    window: Window,
    episode: InsideEpisode,
) -> int:
    """The episode that was played joins the data and the trial; whether there is something to decide."""
    clock, pairs, declared = state.clock, statistics.n.shape[1], rates.trial.declared
    statistics.starts[episode.states[0]] += 1
    for h in range(episode.pairs.shape[0]):
        s, pair = episode.states[h], episode.pairs[h]
        reward, constraints = episode.rewards[h], episode.constraints[h]
        if math.isnan(reward):  # an unfinished episode teaches no more of the process
            break
        add_visit(statistics, h, s, pair, episode.states[h + 1], reward, constraints)
        k = pair if rates.shared else h * pairs + pair
        state.visits[k] += 1
        if state.visits[k] >= 2 * state.planned[k]:
            clock[GROWN] = 1
    state.finished[0] += 1
    if rates.trial.learned:
        observe_totals(rates.totals, state.totals, episode.thresholds, state.lower, state.upper)
    if rates.narrow and not totals_fit(declared, episode):
        clock[OUTSIDE] = 1
    if clock[OWN] > 0 and (clock[PART] == FIRST or clock[PART] == TRYING):
        clock[VERDICT] = watch_trial(
            rates.trial,
            state.trial,
            state.before,
            clock[VERDICT],
            state.lower,
            state.upper,
            episode,
        )
    over = False
    if clock[PART] == EXPLORING and clock[OWN] > 0:
        note_shortfall(declared, state.memory[OWED], state.x, episode)
    if clock[PART] == EXPLORING and rates.budget.shape[0] > 0:
        if clock[OWN] > 0:
            pay_for_exploring(
                declared, rates.budget_level, state.exploring, state.spent,
                state.x, state.cost, state.scratch, episode,
            )  # fmt: skip
        for i in range(rates.budget.shape[0]):  # could one more episode exceed it?
            over |= state.spent[i] - declared.least[i] > rates.budget[i]
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
