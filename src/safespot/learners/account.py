"""The compiled part of `Guard`: its account, and the choice of the next episode's policy.

The learner plays while one more episode of its policy fits in the budget (`evidence.budget`), and else the baseline,
whose episodes are free as long as it keeps every limit. docs/guard.md has the proof.

Beside it runs a trial of the baseline on its own episodes. Once that proves a limit broken, the baseline's episodes are
charged as any other's, and the account goes back to what the episodes themselves prove.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from ..arrays import Float, InsideEpisode, Int, Policy
from ..errors import InvalidFile
from ..evidence.budget import (
    LOWER,
    UPPER,
    BudgetState,
    budget_level,
    charge,
    empty_budget,
    fits,
    proven_most,
)
from ..evidence.sequences import FixedMeans, fixed_means, targets
from ..evidence.trial import (
    BROKEN,
    OPEN,
    ThresholdPrior,
    TrialRates,
    check_trial,
    difference_bounds,
    no_prior,
    verdicts,
    watch_trial,
)
from ..kernels.jit import inlined, no_refcount
from ..signals.totals import Declared, add_sums, state_differences
from ..spot.visits import Statistics
from .compiled_step import DUE, MOVED, STAYED, learning_step, step_for

# Who plays an episode. SAME: the learner's policy is the baseline; OTHER: neither of the two.
BASELINE, LEARNER, SAME, OTHER = range(4)
TRUSTED, PROVEN, SAID = range(3)  # whether the baseline is unsafe: not proven, proven, and told

CARRIED = ("budget", "plays", "unsafe", "trial")  # by files; whose turn it is follows
TRIAL = 1.0 - UPPER - LOWER  # of delta: the baseline's trial


class GuardConfig(NamedTuple):
    """Constants of a guard: the budget, and how sure its bounds are."""

    budget: Float  # [m]
    level: float  # ln(1/share) of the bounds that the budget is kept by
    trial: TrialRates  # of the baseline
    prior: ThresholdPrior  # of that trial: none
    credit: bool  # whether the baseline's episodes count


class Account(NamedTuple):
    """The account of a guard, charged with every episode."""

    budget: BudgetState
    trial: FixedMeans  # of the baseline's episodes
    plays: Int  # [4]: episodes of each player
    turn: Int  # [1]: who plays the coming episode
    unsafe: Int  # [1]: TRUSTED, PROVEN or SAID
    sums: Float  # [2+4m]: these two are buffers
    x: Float  # [2+4m]


class GuardRates(NamedTuple):
    """The rates of the guarded learner, and the terms of the guard."""

    guarded: Any
    terms: GuardConfig


class GuardState(NamedTuple):
    """The state of the guarded learner, and what is played instead of its policy."""

    pi: Policy  # [H, S, A]: what is played
    lam: Float  # these four are the guarded learner's
    lower: Float
    upper: Float
    finished: Int
    guarded: Any
    own: Int  # [1]: tells the guarded learner whether its own policy played
    baseline: Policy  # [H, S, A]; NaN: the decision is handed back
    account: Account


def make_config(declared: Declared, budget: Float, delta: float, credit: bool) -> GuardConfig:
    """Return the terms of a budget ``[m]``, inside; parts of delta go to what else the guard says."""
    m = len(budget)
    level = math.log(m / (TRIAL * delta))
    return GuardConfig(
        budget=budget,
        level=budget_level(m, delta),
        trial=TrialRates(declared, targets(), level, level, level, eager=False),
        prior=no_prior(m),
        credit=credit,
    )


def empty_account(m: int) -> Account:
    """Return the account after no episodes."""
    return Account(
        budget=empty_budget(m), trial=fixed_means(2 + 4 * m),
        plays=np.zeros(4, np.int64), turn=np.zeros(1, np.int64), unsafe=np.zeros(1, np.int64),
        sums=np.zeros(2 + 4 * m), x=np.zeros(2 + 4 * m),
    )  # fmt: skip


def check_account(fields: dict[str, Any], episodes: int, *, credit: bool) -> None:
    """Raise unless fields of an account can be those after `episodes` episodes."""
    plays, budget, trial = fields["plays"], fields["budget"], fields["trial"]
    baseline = plays[[BASELINE, SAME]].sum()
    check_trial(trial)
    if not (
        plays.sum() <= episodes
        and budget.means.counted[0] == (plays.sum() if credit else plays.sum() - baseline)
        and trial.counted[0] == baseline
        and fields["unsafe"][0] in (TRUSTED, PROVEN, SAID)
    ):
        raise InvalidFile("the guard's account contradicts itself")


def who(digest: str, learner: str, baseline: str) -> int:
    """Return who played an episode, by the digests of the policy that did, the learner's and the baseline's."""
    if digest == baseline:
        return SAME if digest == learner else BASELINE
    return LEARNER if digest == learner else OTHER


def baseline_verdicts(terms: GuardConfig, account: Account) -> tuple[str, ...]:
    """Return per constraint what the baseline's own episodes prove of it: "safe", "unsafe", or "unknown"."""
    return verdicts(*difference_bounds(terms.trial.declared, account.trial))


def unsafe_baseline(terms: GuardConfig, account: Account) -> str:
    """Return the sentence that says which limits the baseline breaks."""
    each = baseline_verdicts(terms, account)
    which = "constraint " + " and ".join(str(i) for i, one in enumerate(each) if one == "unsafe")
    episodes = account.plays[[BASELINE, SAME]].sum()
    return (
        f"the baseline breaks the limit of {which}, as {episodes:,} episodes of it prove: no "
        "budget is kept by playing it. Begin anew with a baseline that is safe: a certified policy, for example."
    )


@step_for(GuardRates)
def guard_step(
    rates: GuardRates,
    state: GuardState,
    statistics: Statistics,
    window: Any,
    episode: InsideEpisode,
) -> int:
    """Charge the episode, let the guarded learner learn from it, and decide who plays the next one."""
    account = state.account
    turn = account.turn[0]
    charge_account(rates.terms, account, episode)
    state.own[0] = 1 if turn in (LEARNER, SAME) else 0
    answer = learning_step(rates.guarded, state.guarded, statistics, window, episode)
    if answer == DUE or account.unsafe[0] == PROVEN:
        return DUE  # `settle` decides, when the learner has its next policy
    coming = next_turn(rates.terms, account, state.baseline, state.guarded.pi)
    if coming == turn and (coming == BASELINE or answer == STAYED):
        return STAYED
    account.turn[0] = coming
    copy_policy(state.baseline if coming == BASELINE else state.guarded.pi, state.pi)
    return MOVED


@inlined
def charge_account(terms: GuardConfig, account: Account, episode: InsideEpisode) -> None:
    """Count an episode that ``account.turn`` has played."""
    declared, turn, unsafe = terms.trial.declared, account.turn[0], account.unsafe
    baseline, spent = turn in (BASELINE, SAME), account.budget.spent
    account.plays[turn] += 1
    add_sums(episode.rewards, episode.constraints, episode.thresholds, account.sums)
    if terms.credit or not baseline:
        state_differences(declared, account.sums, account.x)
        free = baseline and unsafe[0] == TRUSTED
        charge(declared, account.budget, terms.level, account.x, free)
    if baseline:
        verdict = watch_trial(
            terms.trial, account.trial, terms.prior, OPEN, spent, spent, account.sums, account.x
        )
        if verdict == BROKEN and unsafe[0] == TRUSTED:
            unsafe[0] = PROVEN
            if terms.credit:
                for i in range(spent.shape[0]):
                    spent[i] = proven_most(declared, account.budget, terms.level, i)


@inlined
def next_turn(terms: GuardConfig, account: Account, baseline: Policy, learner: Policy) -> int:
    """Return `SAME` for equal policies, else `LEARNER` if its episode cannot exceed any budget, else `BASELINE`."""
    if same_policy(baseline, learner):
        return SAME
    if fits(terms.trial.declared, terms.budget, account.budget.spent):
        return LEARNER
    return BASELINE


@inlined
def same_policy(one: Policy, other: Policy) -> bool:
    """Return whether two policies are equal in every entry."""
    H, S, A = one.shape
    for h in range(H):
        for s in range(S):
            for a in range(A):
                if one[h, s, a] != other[h, s, a]:
                    return False
    return True


@inlined
def copy_policy(there: Policy, pi: Policy) -> None:
    """Copy a policy into `pi`."""
    H, S, A = pi.shape
    for h in range(H):
        for s in range(S):
            for a in range(A):
                pi[h, s, a] = there[h, s, a]


@no_refcount
def charge_alone(terms: GuardConfig, account: Account, episode: InsideEpisode) -> None:
    """Call `charge_account` for an episode that comes alone."""
    charge_account(terms, account, episode)


@no_refcount
def settle_turn(
    terms: GuardConfig, account: Account, baseline: Policy, learner: Policy, pi: Policy
) -> None:
    """Decide who plays the coming episode, whatever happened before."""
    account.turn[0] = next_turn(terms, account, baseline, learner)
    copy_policy(baseline if account.turn[0] == BASELINE else learner, pi)
