"""What an account of violation holds, and who plays the next episode: the compiled part of `Guard`.

Inside units. Let U_i(t) be the upper bound of the summed violation ``sum_t (alpha - V_g)`` of constraint i that the
episodes themselves prove (`sequences.ChangingMeans` on their differences D), and c_i the most that one episode can add
(H, or less where totals are declared or the limit is known). The account keeps

    U*_i(0) = 0,    U*_i(t) = min( U_i(t),  U*_i(t-1) + c_i if the learner played, + 0 if the baseline did ),

and the learner plays episode t+1 only if ``U*_i(t) + c_i <= B_i`` for every i. docs/guard.md has the proof that then,
if the baseline keeps every limit, the violation never exceeds B with probability 1 - delta.

Beside it runs a trial of the baseline on its own episodes. Once that proves a limit broken, the baseline's episodes are
charged as any other's, and the account goes back to what the episodes themselves prove.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from ..arrays import Float, InsideEpisode, Int, Policy
from ..errors import InvalidFile
from ..evidence.differences import Declared, differences
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
    targets,
)
from ..kernels.jit import inlined, no_refcount
from ..spot.visits import Statistics
from .compiled_step import DUE, MOVED, STAYED, learning_step, step_for

# Who plays an episode. SAME: the learner's policy is the baseline; OTHER: neither of the two.
BASELINE, LEARNER, SAME, OTHER = range(4)
TRUSTED, PROVEN, SAID = range(3)  # whether the baseline is unsafe: not proven, proven, and told

CARRIED = ("spent", "plays", "unsafe", "means", "trial")  # by files; whose turn it is follows
UPPER, LOWER, TRIAL = (
    0.8,
    0.1,
    0.1,
)  # parts of delta: the budget's, of `spent` from below, the baseline's trial


class Terms(NamedTuple):
    """What stays the same: the budget, and how sure its bounds are."""

    declared: Declared
    budget: Float  # [m]
    level: Float  # [m]: ln(1/share) of the bounds that the budget is kept by
    trial_level: float  # of each statement on the baseline
    targets: Targets  # of the baseline's trial
    credit: bool  # whether the baseline's episodes count


class Account(NamedTuple):
    """What episodes change."""

    means: ChangingMeans  # [2m]: D of the counted episodes; the lower sides of all constraints, then the upper ones
    spent: Float  # [m]: U*
    trial: FixedMeans  # [2m]: D of the baseline's episodes, two sides of each constraint
    plays: Int  # [4]: episodes of each player
    turn: Int  # [1]: who plays the coming episode
    unsafe: Int  # [1]: TRUSTED, PROVEN or SAID
    x: Float  # [2m]: these three are buffers
    sides: Float  # [2m]
    low: Float  # [m]


class GuardRates(NamedTuple):
    """The rates of the guarded learner, and the terms of the guard."""

    guarded: Any
    terms: Terms


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


def make_terms(declared: Declared, budget: Float, delta: float, credit: bool) -> Terms:
    """The terms of a budget ``[m]``, inside; parts of delta go to what else the guard says."""
    m = len(budget)
    return Terms(
        declared=declared,
        budget=budget,
        level=np.full(m, math.log(m / (UPPER * delta))),
        trial_level=math.log(m / (TRIAL * delta)),
        targets=targets(),
        credit=credit,
    )


def empty_account(m: int) -> Account:
    """Nothing played yet."""
    return Account(
        means=changing_means(2 * m), spent=np.zeros(m), trial=fixed_means(2 * m),
        plays=np.zeros(4, np.int64), turn=np.zeros(1, np.int64), unsafe=np.zeros(1, np.int64),
        x=np.zeros(2 * m), sides=np.zeros(2 * m), low=np.zeros(m),
    )  # fmt: skip


def check_account(fields: dict[str, Any], episodes: int, *, credit: bool) -> None:
    """Raise unless fields of an account can be those after so many episodes."""
    plays, means, trial = fields["plays"], fields["means"], fields["trial"]
    baseline = plays[[BASELINE, SAME]].sum()
    if not (
        plays.sum() <= episodes
        and means.counted[0] == (plays.sum() if credit else plays.sum() - baseline)
        and (trial.counted == baseline).all()
        and (np.abs(trial.lower - 0.5) <= 0.5).all()
        and fields["unsafe"][0] in (TRUSTED, PROVEN, SAID)
    ):
        raise InvalidFile("the guard's account contradicts itself")


def who(digest: str, learner: str, baseline: str) -> int:
    """Return who played an episode, by the digests of the policy that did, the learner's and the baseline's."""
    if digest == baseline:
        return SAME if digest == learner else BASELINE
    return LEARNER if digest == learner else OTHER


def verdicts(declared: Declared, trial: FixedMeans) -> tuple[str, ...]:
    """Return per constraint what the baseline's own episodes prove of it: "safe", "unsafe", or "unknown"."""
    bounds = (room_bounds(declared, trial, i) for i in range(len(declared.least)))
    return tuple(
        "safe" if low >= 0.0 else "unsafe" if high < 0.0 else "unknown" for low, high in bounds
    )


def unsafe_baseline(declared: Declared, account: Account) -> str:
    """Return the sentence that says which limits the baseline breaks."""
    broken = [i for i, each in enumerate(verdicts(declared, account.trial)) if each == "unsafe"]
    which = "constraint " + " and ".join(map(str, broken))
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
    charge(rates.terms, account, episode)
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
def charge(terms: Terms, account: Account, episode: InsideEpisode) -> None:
    """Count an episode that ``account.turn`` has played."""
    declared, turn, m = terms.declared, account.turn[0], account.spent.shape[0]
    baseline = turn in (BASELINE, SAME)
    account.plays[turn] += 1
    differences(declared, episode.constraints, episode.thresholds, account.x)
    if terms.credit or not baseline:
        for i in range(m):
            account.sides[i], account.sides[m + i] = account.x[2 * i], account.x[2 * i + 1]
        observe_changing(account.means, account.sides)
        sums_of_means(account.means, terms.level, account.low)
        free = baseline and account.unsafe[0] == TRUSTED
        for i in range(m):
            most = proven_most(declared, account, i)
            step = 0.0 if free else -declared.least[i]
            account.spent[i] = min(most, account.spent[i] + step)
    if baseline:
        try_baseline(terms, account)


@inlined
def proven_most(declared: Declared, account: Account, i: int) -> float:
    """U_i: what the counted episodes have violated at most, by themselves."""
    counted, low = account.means.counted[0], account.low[i]
    return float(-(counted * declared.least[i] + declared.width[i] * low))


@inlined
def try_baseline(terms: Terms, account: Account) -> None:
    """Count an episode of the baseline, whose sides are in ``account.x``; notice where it proves a limit broken."""
    trial, broken = account.trial, False
    for r in range(account.x.shape[0]):
        observe_fixed(terms.targets, trial, r, account.x[r])
        read_when_due(terms.targets, trial, r, terms.trial_level)
    for i in range(account.spent.shape[0]):
        broken |= room_bounds(terms.declared, trial, i)[1] < 0.0
    if broken and account.unsafe[0] == TRUSTED:
        account.unsafe[0] = PROVEN
        if terms.credit:
            for i in range(account.spent.shape[0]):
                account.spent[i] = proven_most(terms.declared, account, i)


@inlined
def room_bounds(declared: Declared, trial: FixedMeans, i: int) -> tuple[float, float]:
    """The bounds of the baseline's V_g - alpha for constraint i."""
    least, width = declared.least[i], declared.width[i]
    return (
        least + width * trial.lower[2 * i],
        least + width * (1.0 - trial.lower[2 * i + 1]),
    )


@inlined
def next_turn(terms: Terms, account: Account, baseline: Policy, learner: Policy) -> int:
    """Who plays the coming episode: the learner, if one more episode of its policy cannot exceed any budget."""
    if same_policy(baseline, learner):
        return SAME
    for i in range(account.spent.shape[0]):
        if account.spent[i] - terms.declared.least[i] > terms.budget[i]:
            return BASELINE
    return LEARNER


@inlined
def same_policy(one: Policy, other: Policy) -> bool:
    """Whether two policies are the same in every entry."""
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
def charge_episode(terms: Terms, account: Account, episode: InsideEpisode) -> None:
    """`charge` for an episode that comes alone."""
    charge(terms, account, episode)


@no_refcount
def settle_turn(
    terms: Terms, account: Account, baseline: Policy, learner: Policy, pi: Policy
) -> None:
    """Decide who plays the coming episode, whatever happened before."""
    account.turn[0] = next_turn(terms, account, baseline, learner)
    copy_policy(baseline if account.turn[0] == BASELINE else learner, pi)


@no_refcount
def read_least(account: Account, level: Float, low: Float) -> None:
    """``low`` ``[2m]``: bounds of sums of both sides, as `sums_of_means` has them."""
    sums_of_means(account.means, level, low)
