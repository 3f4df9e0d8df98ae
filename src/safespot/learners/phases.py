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
from ..evidence.budget import BudgetState, charge, empty_budget, fits
from ..evidence.sequences import FixedMeans
from ..evidence.trial import (
    BROKEN,
    KEPT,
    ThresholdPrior,
    TrialRates,
    no_prior,
    watch_trial,
)
from ..kernels.jit import inlined
from ..signals.totals import Declared, add_sums, state_differences, sums_fit
from ..spot.visits import Statistics, add_visit
from ..spot.window import Window
from . import compiled_step
from .compiled_step import step_for
from .epoch_trials import empty_trial
from .threshold_totals import TotalRates, TotalState, observe_totals, total_state

FIRST, EXPLORING, TRYING, RETREATED = range(4)  # the part of a phase

# The entries of a clock.
PHASE = 0  # k, from 1
PART = 1
BEGAN = 2  # episodes before the phase
TRIED = 3  # episodes before the trial
ENDS = 4  # episodes after which the part ends
NEXT = 5  # episodes before which no new exploring plan is made
GROWN = 6  # whether the visits of some pair have doubled since the last one
VERDICT = 7  # of the trial (`evidence.trial`)
BREAKS = 8  # trials in a row that ended in a break
DISTRUSTED = 9  # whether the baseline was proven to break a limit
LOGGED = 10  # episodes of a log, before the learner's own
OWN = 11  # whether the coming episode is played with the learner's policy
DUE = 12  # whether there is something to decide
OUTSIDE = 13  # whether an episode's total lay outside of what was declared
CLOCK = 14

OWED = 5  # the row of `Memory` that the kernel writes


class PhaseRates(NamedTuple):
    """The constants of a part of a phase."""

    totals: TotalRates
    trial: TrialRates
    shared: bool  # whether the steps share their counts
    narrow: bool  # whether smaller totals were declared than H steps can have
    budget: Float  # [m]: for exploring, inside; empty: none
    budget_level: float  # ln(1/share)
    learned: bool  # whether the thresholds are


class PhaseState(NamedTuple):
    """The state that episodes and plans change, but for the statistics."""

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
    prior: ThresholdPrior  # of its beginning
    exploring: BudgetState  # of the episodes that explored
    memory: Float  # [Memory.ROWS, m]
    sums: Float  # [2+4m]: these two are buffers
    x: Float  # [2+4m]


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
    """Return the state after zero episodes."""
    H = pi.shape[0]
    return PhaseState(
        pi=pi, lam=np.zeros(m), lower=totals.limits[0].copy(), upper=totals.limits[1].copy(),
        finished=np.zeros(1, np.int64), clock=np.zeros(CLOCK, np.int64),
        visits=np.zeros(counts, np.int64), planned=np.zeros(counts, np.int64),
        totals=total_state(totals, H), trial=empty_trial(m), prior=no_prior(m),
        exploring=empty_budget(m), memory=np.zeros((Memory.ROWS, m)),
        sums=np.zeros(2 + 4 * m), x=np.zeros(2 + 4 * m),
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
    """Add an episode to the data and to the trial; return `DUE` where something is to be decided."""
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
    if rates.learned:
        observe_totals(rates.totals, state.totals, episode.thresholds, state.lower, state.upper)
    own, exploring = clock[OWN] > 0, clock[PART] == EXPLORING
    add_sums(episode.rewards, episode.constraints, episode.thresholds, state.sums)
    if rates.narrow and not sums_fit(declared, state.sums):
        clock[OUTSIDE] = 1
    if own and (clock[PART] == FIRST or clock[PART] == TRYING):
        clock[VERDICT] = watch_trial(
            rates.trial, state.trial, state.prior, clock[VERDICT], state.lower, state.upper,
            state.sums, state.x,
        )  # fmt: skip
    if own and exploring:
        state_differences(declared, state.sums, state.x)
        note_shortfall(declared, state.memory[OWED], state.x)
        if rates.budget.shape[0] > 0:
            charge(declared, state.exploring, rates.budget_level, state.x, False)
    over = (
        exploring
        and rates.budget.shape[0] > 0
        and not fits(declared, rates.budget, state.exploring.spent)
    )
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
    """Return whether the clock asks for a decision of the learner before episode t."""
    due = t >= clock[ENDS] or clock[VERDICT] == KEPT or clock[OUTSIDE] > 0
    if clock[PART] == EXPLORING:
        due |= clock[GROWN] > 0 and t >= clock[NEXT]
    elif clock[PART] != RETREATED:
        due |= clock[VERDICT] == BROKEN
    return bool(due)


@inlined
def note_shortfall(declared: Declared, owed: Float, x: Float) -> None:
    """Update ``owed <- max(0, owed - D)``; where samples are missing, D lies in the middle of what they leave open."""
    for i in range(owed.shape[0]):
        middle = (1.0 + x[2 + 2 * i] - x[3 + 2 * i]) / 2.0
        owed[i] = max(0.0, owed[i] - declared.least[i] - declared.width[i] * middle)
