"""What an episode does to an account, a trial and a clock: each kernel against the slow reading, for a few of them."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import safespot as ss
from safespot.arrays import InsideEpisode
from safespot.evidence.budget import UPPER, charge_episode, empty_budget
from safespot.evidence.sequences import observe_fixed
from safespot.evidence.trial import (
    BROKEN,
    KEPT,
    OPEN,
    difference_interval,
    no_prior,
    watch_trial,
)
from safespot.learners import account as accounts
from safespot.learners import epoch_trials, phases
from safespot.learners.compiled_step import DUE, STAYED, observe_episode
from safespot.learners.threshold_totals import EPISODES, observe_totals, total_rates, total_state
from safespot.signals.interface import make_interface
from safespot.signals.totals import Declared, declare, episode_sums, state_differences
from tests.evidence import reference as ref

Array = Any
H, M, NAN = 2, 2, math.nan
FACE = make_interface(1, 2, H, M)


def declared_as(**given: Any) -> Declared:
    names = ("thresholds", "constraint_totals", "threshold_totals")
    return declare(FACE, *(given.get(name) for name in names))


def episodes(n: int, seed: int, means: tuple[float, float], missing: float = 0.0) -> list[InsideEpisode]:  # fmt: skip
    """Coins for constraints with these means; thresholds around 0.5."""
    rng, made = np.random.default_rng(seed), []
    for _ in range(n):
        hints = 0.4 + 0.2 * rng.random((H, M))
        hints[rng.random(H) < missing] = NAN
        made.append(
            InsideEpisode(
                np.zeros(H + 1, np.int64),
                np.zeros(H, np.int64),
                rng.random(H),
                (rng.random((H, M)) < means).astype(float),
                hints,
            )
        )
    return made


def least_and_most(seen: list[InsideEpisode]) -> tuple[Array, Array]:
    """The least and the largest D ``[n,m]`` of episodes whose thresholds may be missing."""
    g = np.array([e.constraints.sum(axis=0) for e in seen])
    under, over = (
        np.array([np.nan_to_num(e.thresholds, nan=x).sum(axis=0) for e in seen]) for x in (0.0, 1.0)
    )
    return g - over, g - under


# The account of a guard


def most_violated(seen: list[InsideEpisode], delta: float) -> Array:
    """U ``[m]``: D lies in [-H, H], and its sum is bounded from below."""
    x = (least_and_most(seen)[0] + H) / (2.0 * H)
    share = UPPER * delta / M
    return np.array([len(seen) * H - 2.0 * H * ref.changing_sum(x[:, i], share) for i in range(M)])


@pytest.mark.parametrize("credit", [True, False])
def test_an_account_is_charged_by_who_played(credit: bool) -> None:
    """U*(t) = min(U(t), U*(t-1) + H, or + 0 where the baseline played); without credit that counts as nothing."""
    terms = accounts.make_config(declared_as(), np.array([3.0, 5.0]), 0.1, credit)
    account, spent, counted = accounts.empty_account(M), np.zeros(M), []
    turns = [
        accounts.LEARNER,
        accounts.BASELINE,
        accounts.OTHER,
        accounts.SAME,
        accounts.LEARNER,
    ] * 4
    for t, (turn, e) in enumerate(zip(turns, episodes(20, 0, (0.9, 0.5), 0.2), strict=True)):
        account.turn[0] = turn
        accounts.charge_alone(terms, account, e)
        free = turn in (accounts.BASELINE, accounts.SAME)
        if credit or not free:
            counted.append(e)
            spent = np.minimum(most_violated(counted, 0.1), spent + (0.0 if free else H))
        np.testing.assert_allclose(account.budget.spent, spent, rtol=1e-9, atol=1e-9)
        assert account.budget.means.counted[0] == len(counted)
        assert account.plays.tolist() == [turns[: t + 1].count(who) for who in range(4)]
    assert (account.trial.counted == 8).all()
    assert account.unsafe[0] == accounts.TRUSTED


def test_a_baseline_that_is_proven_unsafe_costs_from_then_on() -> None:
    terms = accounts.make_config(declared_as(), np.array([9.0, 9.0]), 0.1, True)
    account, seen = accounts.empty_account(M), episodes(40, 1, (0.95, 0.02))
    proven = 0
    for t, e in enumerate(seen, start=1):
        before = account.budget.spent.copy()
        account.turn[0] = accounts.BASELINE
        accounts.charge_alone(terms, account, e)
        if account.unsafe[0] == accounts.TRUSTED:
            assert (account.budget.spent <= before).all()
        elif not proven:
            proven = t
            np.testing.assert_allclose(
                account.budget.spent, most_violated(seen[:t], 0.1), rtol=1e-9
            )
        else:
            expected = np.minimum(most_violated(seen[:t], 0.1), before + H)
            np.testing.assert_allclose(account.budget.spent, expected, rtol=1e-9)
    assert 5 < proven < 40
    low, high = difference_interval(terms.trial.declared, account.trial.lower, 0)
    assert 0.0 < low < 0.9 < high <= H
    assert difference_interval(terms.trial.declared, account.trial.lower, 1)[1] < 0.0


def test_the_learner_plays_while_one_more_episode_cannot_exceed_any_budget() -> None:
    terms = accounts.make_config(declared_as(), np.array([3.0, 5.0]), 0.1, True)
    account = accounts.empty_account(M)
    baseline, learner, pi = np.eye(2)[None, :1].repeat(H, 0), np.full((H, 1, 2), 0.5), np.zeros((H, 1, 2))  # fmt: skip
    for spent, turn in (
        ((0.0, 0.0), accounts.LEARNER), ((1.0, 3.0), accounts.LEARNER), ((1.01, 0.0), accounts.BASELINE),
        ((0.0, 3.01), accounts.BASELINE),
    ):  # fmt: skip
        account.budget.spent[:] = spent
        accounts.settle_turn(terms, account, baseline, learner, pi)
        assert account.turn[0] == turn
        np.testing.assert_array_equal(pi, baseline if turn == accounts.BASELINE else learner)
    almost = baseline.copy()
    almost[-1, -1] = 0.5
    account.budget.spent[:] = 9.0
    accounts.settle_turn(terms, account, baseline, baseline.copy(), pi)
    assert account.turn[0] == accounts.SAME
    accounts.settle_turn(terms, account, baseline, almost, pi)
    assert account.turn[0] == accounts.BASELINE


# A trial


def watch(rates: Any, trial: Any, prior: Any, seen: list[InsideEpisode], ends: Array) -> list[int]:
    verdicts, verdict, x = [], OPEN, np.zeros(2 + 4 * M)
    for e in seen:
        sums = episode_sums(e)
        verdict = watch_trial(rates, trial, prior, verdict, ends[0], ends[1], sums, x)
        verdicts.append(int(verdict))
    return verdicts


@pytest.mark.parametrize(
    ("means", "ends_in"), [((0.98, 0.95), KEPT), ((0.98, 0.1), BROKEN), ((0.1, 0.98), BROKEN), ((0.5, 0.98), OPEN)]
)  # fmt: skip
def test_a_trial_is_decided_by_its_bounds(means: tuple[float, float], ends_in: int) -> None:
    """Every limit is kept for certain, or some limit is broken for certain; then nothing changes it any more."""
    seen, rates = episodes(25, 2, means), epoch_trials.trial_rates(declared_as(), 0.1, 20)  # fmt: skip
    trial, prior = epoch_trials.empty_trial(M), no_prior(M)
    verdicts = watch(rates, trial, prior, seen, np.array([[0.0] * M, [float(H)] * M]))
    least, most = least_and_most(seen)
    x, mirrored = (least + H) / (2.0 * H), 1.0 - (most + H) / (2.0 * H)
    best, expected = np.zeros((2, M)), list[int]()
    for n in range(1, 26):  # read after every episode: n < 32
        if not expected or expected[-1] == OPEN:
            for i in range(M):
                for side, (numbers, level) in enumerate(
                    ((x, rates.kept_level), (mirrored, rates.broken_level))
                ):
                    found = ref.fixed_mean(numbers[:n, i], math.exp(-level), 20)
                    best[side, i] = max(best[side, i], found)
            low, high = -H + 2.0 * H * best[0], H - 2.0 * H * best[1]
            verdict = BROKEN if (high < 0.0).any() else KEPT if (low >= 0.0).all() else OPEN
            expected.append(verdict)
        else:
            expected.append(expected[-1])
    assert verdicts == expected
    assert verdicts[-1] == ends_in
    np.testing.assert_allclose(trial.lower[2:6:2], best[0], rtol=1e-7, atol=1e-9)
    np.testing.assert_allclose(trial.lower[3:6:2], best[1], rtol=1e-7, atol=1e-9)
    assert (trial.counted == 25).all()
    np.testing.assert_allclose(trial.total[0], sum(e.rewards.sum() for e in seen) / H)
    np.testing.assert_allclose(trial.total[1], 25 - trial.total[0])
    np.testing.assert_allclose(trial.total[6::2], sum(e.constraints.sum(axis=0) for e in seen) / H)
    np.testing.assert_allclose(trial.total[7::2], 25 - trial.total[6::2])
    spread = epoch_trials.value_spread(rates.declared, trial)
    assert (spread > 0.0).all()
    assert (spread < H).all()


def test_levels_share_what_a_phase_may_miss() -> None:
    known = epoch_trials.trial_rates(declared_as(thresholds=[0.5] * M), 0.1, 20)
    assert math.exp(-known.kept_level) == pytest.approx(0.9 * 0.1)
    assert math.exp(-known.broken_level) == pytest.approx(0.9 * 0.1 / M)
    learned = epoch_trials.trial_rates(declared_as(), 0.1, 20)
    both = M * (math.exp(-learned.kept_level) + math.exp(-learned.broken_level))
    for rates in (known, learned):
        assert math.exp(-rates.printed_level) == pytest.approx(0.1 * 0.1 / 6)
    assert both + 6 * math.exp(-learned.printed_level) == pytest.approx(0.1)


@pytest.mark.parametrize(("learned", "whole"), [(True, 0.1), (False, 0.2)])
def test_phases_share_what_thresholds_leave_and_the_first_six_half_of_it(
    learned: bool, whole: float
) -> None:
    shares = [epoch_trials.phase_share(k, 0.2, learned=learned) for k in range(1, 4000)]
    assert sum(shares) == pytest.approx(whole, rel=2e-3)
    assert sum(shares) < whole
    assert sum(shares[:6]) == pytest.approx(whole / 2)


def least_together(
    one: tuple[Array, Array], w: float, two: tuple[Array, Array], w2: float, level: float
) -> float:
    """The least w u + w2 v where the evidence about both is at most `level`: a grid of v, u by bisection."""

    def said(terms: Array, slopes: Array, z: Array) -> Array:
        return np.logaddexp.reduce(terms - slopes * z[:, None], axis=1)

    v = np.linspace(0.0, 1.0, 1001)
    low, high = np.zeros(1001), np.full(1001, 10.0)
    for _ in range(50):
        middle = (low + high) / 2.0
        above = said(*one, middle) + said(*two, v) > level
        low, high = np.where(above, middle, low), np.where(above, high, middle)
    return float((w * low + w2 * v).min())


def test_a_trial_takes_what_was_known_of_the_thresholds_before_it() -> None:
    """Y = g - w x with w = n / (N + n), and the evidence of both is taken together."""
    totals = total_rates(M, H, 0.05, limits=np.array([[0.5, 0.0], [1.5, 2.0]]))
    assert totals.kind == EPISODES
    state, past = total_state(totals, H), episodes(30, 5, (0.5, 0.5))
    for e in past:
        observe_totals(totals, state, e.thresholds, np.zeros(M), np.full(M, float(H)))
    prior = epoch_trials.threshold_prior(totals, state, 30, 10)
    np.testing.assert_allclose(prior.weight, 0.25)
    np.testing.assert_array_equal(prior.limits, totals.limits)
    declared = declared_as(threshold_totals=[(0.5, 1.5), (0.0, 2.0)])
    rates = epoch_trials.trial_rates(declared, 0.1, 10)
    seen, trial = episodes(9, 6, (0.9, 0.3)), epoch_trials.empty_trial(M)
    trial.due[:] = 9.0  # one reading is enough
    watch(rates, trial, prior, seen, np.array(totals.limits))
    for i in range(M):
        low, high = totals.limits[:, i]
        width = H + 0.25 * (high - low)
        found = []
        for side, level in enumerate((rates.kept_level, rates.broken_level)):
            row, other = 2 + 2 * i + side, 2 * i + 1 - side
            terms = rates.targets.log_prior + np.log(trial.product[row]) + trial.offset[row]
            one, two = (terms, trial.slope[row]), (prior.log_terms[other], prior.slopes[other])
            found.append(least_together(one, width, two, 0.75 * (high - low), level))
        least = -0.25 * high + found[0] - 0.75 * high
        most = -0.25 * high + width - found[1] - 0.75 * low
        bounds = difference_interval(declared, trial.lower, i)
        np.testing.assert_allclose(bounds, [least, most], atol=1e-3)
        assert -H < bounds[0] < bounds[1] < H
    nothing = epoch_trials.threshold_prior(totals, total_state(totals, H), 0, 10)
    assert nothing.weight.tolist() == [1.0, 1.0]
    shared = total_rates(M, H, 0.05, shared_threshold=True)
    assert (
        epoch_trials.threshold_prior(shared, total_state(shared, H), 9, 9).weight.tolist()
        == [0.0] * M
    )


def test_spreads_are_standard_deviations_about_the_guess() -> None:
    declared = declared_as(constraint_totals=[(0.0, 2.0), (0.0, 1.0)])
    rates = epoch_trials.trial_rates(declared, 0.1, 20)
    trial = epoch_trials.empty_trial(M)
    assert np.isinf(epoch_trials.value_spread(declared, trial)).all()
    x = np.random.default_rng(0).random((25, M))
    for row in x:
        for i in range(M):
            observe_fixed(rates.targets, trial, 6 + 2 * i, row[i])
        trial.counted[0] += 1.0
    squares = [((x[:, i] - ref.guesses(x[:, i])) ** 2).mean() for i in range(M)]
    expected = np.array([2.0, 1.0]) * np.sqrt(squares)
    np.testing.assert_allclose(epoch_trials.value_spread(declared, trial), expected)
    limits = np.array([[0.0, 0.5], [2.0, 1.5]])
    for options, per in (({}, None), ({"independent_hints": True}, math.sqrt(H))):
        totals = total_rates(M, H, 0.05, limits=limits, **options)
        state = total_state(totals, H)
        half = epoch_trials.hint_spread(totals, state, limits)
        np.testing.assert_allclose(half, [1.0, 0.5])  # nothing seen
        for e in episodes(20, 3, (0.5, 0.5)):
            observe_totals(totals, state, e.thresholds, np.zeros(M), np.full(M, float(H)))
        widths = np.array([2.0, 1.0]) if per is None else per
        expected = widths * np.sqrt(state.means.squares[::2] / state.means.counted[::2])
        np.testing.assert_allclose(epoch_trials.hint_spread(totals, state, limits), expected)
    shared = total_rates(M, H, 0.05, shared_threshold=True)
    assert epoch_trials.hint_spread(shared, total_state(shared, H), limits).tolist() == [0.0, 0.0]


# The clock of a phase


def clock(**entries: int) -> Array:
    made = np.zeros(phases.CLOCK, np.int64)
    made[phases.ENDS], made[phases.NEXT] = 50, 30
    for name, value in entries.items():
        made[getattr(phases, name)] = value
    return made


@pytest.mark.parametrize(
    ("entries", "t", "due"),
    [
        ({}, 49, False), ({}, 50, True), ({}, 51, True), ({"VERDICT": KEPT}, 3, True), ({"VERDICT": BROKEN}, 3, True),
        ({"OUTSIDE": 1}, 3, True), ({"GROWN": 1}, 40, False), ({"PART": phases.TRYING, "VERDICT": BROKEN}, 3, True),
        ({"PART": phases.RETREATED, "VERDICT": BROKEN}, 3, False), ({"PART": phases.RETREATED}, 50, True),
        ({"PART": phases.EXPLORING, "GROWN": 1}, 29, False), ({"PART": phases.EXPLORING, "GROWN": 1}, 30, True),
        ({"PART": phases.EXPLORING}, 30, False), ({"PART": phases.EXPLORING, "VERDICT": BROKEN}, 30, False),
        ({"PART": phases.EXPLORING}, 50, True),
    ],
)  # fmt: skip
def test_what_is_due_by_the_clock(entries: dict[str, int], t: int, due: bool) -> None:
    assert phases.something_due(clock(**entries), t) == due


def test_what_exploring_fell_short_by_is_owed_until_it_is_made_up_for() -> None:
    declared, owed, x = declared_as(), np.zeros(M), np.zeros(2 + 2 * M)
    expected = np.zeros(M)
    for e in episodes(15, 7, (0.2, 0.7), 0.3):
        state_differences(declared, episode_sums(e), x)
        phases.note_shortfall(declared, owed, x)
        low, high = least_and_most([e])
        expected = np.maximum(0.0, expected - (low[0] + high[0]) / 2.0)
        np.testing.assert_allclose(owed, expected, atol=1e-12)
    assert owed[0] > 1.0


def test_a_budget_is_charged_with_the_least_of_what_is_proven_and_what_it_can_cost() -> None:
    declared, state, level = declared_as(), empty_budget(M), 3.0
    seen = episodes(25, 8, (0.9, 0.2))
    expected = np.zeros(M)
    for n, e in enumerate(seen, start=1):
        charge_episode(declared, state, level, episode_sums(e), np.zeros(2 + 2 * M), False)
        x = (least_and_most(seen[:n])[0] + H) / (2.0 * H)
        most = [n * H - 2.0 * H * ref.changing_sum(x[:, i], math.exp(-level)) for i in range(M)]
        expected = np.minimum(most, expected + H)
        np.testing.assert_allclose(state.spent, expected, rtol=1e-9, atol=1e-9)
    assert state.spent[0] < 2.0 * H < state.spent[1]


@pytest.mark.parametrize("own", [0, 1])
@pytest.mark.parametrize("part", range(4))
@pytest.mark.parametrize("budget_given", [False, True])
def test_an_episode_counts_where_it_should(part: int, own: int, budget_given: bool) -> None:
    """All episodes are counted; a trial, and what exploring costs, count those of the learner's own policy."""
    face: dict[str, Any] = {
        "states": 2,
        "actions": 2,
        "horizon": H,
        "constraints": 1,
        "start": None,
    }
    learner = ss.SpotEpochs(**face, explore_budget=2.5 if budget_given else None)
    state, clock = learner.state, learner.state.clock
    rng, pays = np.random.default_rng(part), part == phases.EXPLORING and budget_given
    for t in range(1, 4):
        clock[phases.PART], clock[phases.OWN], clock[phases.DUE] = part, own, 0
        clock[phases.NEXT] = 9  # no new plan meanwhile
        episode = ss.Episode(
            rng.integers(2, size=H + 1), rng.integers(2, size=H), np.ones(H),
            np.full((H, 1), 0.25), np.full((H, 1), 0.75),
        )  # fmt: skip
        learner.make_room()
        answer = observe_episode(
            learner.rates, state, learner.statistics, learner.window, learner.check(episode).inside
        )
        np.testing.assert_array_equal(state.visits, learner.statistics.n.reshape(-1))
        assert state.finished[0] == learner.statistics.starts.sum() == t
        tries = part in (phases.FIRST, phases.TRYING)
        assert state.trial.counted[0] == (t if tries and own else 0)
        assert state.exploring.means.counted[0] == (t if pays and own else 0)
        owed = t * 1.0 if part == phases.EXPLORING and own else 0.0
        assert state.memory[phases.OWED].tolist() == pytest.approx([owed])
        assert clock[phases.OWN] == 1
        # Each episode may have cost H = 2, and the next one may too: 2 + 2 exceeds 2.5.
        assert state.exploring.spent.tolist() == [2.0 * t if pays and own else 0.0]
        assert clock[phases.DUE] == int(pays and bool(own))
        assert answer == (DUE if clock[phases.DUE] else STAYED)


def test_only_learners_that_plan_ask_for_a_plan() -> None:
    face: dict[str, Any] = {"states": 1, "actions": 2, "horizon": H, "constraints": 1}
    episode = ss.Episode(
        np.zeros(H + 1, int), np.zeros(H, int), np.ones(H), np.full((H, 1), 0.5), np.full((H, 1), 0.5)
    )  # fmt: skip
    for name, answers in (("uniform", [STAYED] * 4), ("opt-cmdp", [DUE, DUE, STAYED, DUE])):
        learner = ss.learners.make(name, face, episodes=50)
        found = []
        for _ in range(4):
            inside = learner.check(episode).inside
            found.append(
                observe_episode(
                    learner.rates, learner.state, learner.statistics, learner.window, inside
                )
            )
            learner.settle()
        assert found == answers
