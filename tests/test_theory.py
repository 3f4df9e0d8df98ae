"""The paper's radii and bounds as functions, against their formulas and against learners that run."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import safespot as ss
from safespot import theory
from safespot.errors import InvalidOption
from safespot.evidence.sequences import fixed_means, observe_fixed, read_fixed, targets
from tests.support.episodes import full_mask, random_episode

SMALL = (3, 2, 3, 1)  # S, A, H, m of the worked example


@pytest.mark.parametrize("n", [1, 10, 1000, 10**6])
@pytest.mark.parametrize("scale", [1.0, 0.1])
def test_threshold_radius(n: int, scale: float) -> None:
    S, A, H, m, T, delta = 3, 2, 4, 2, 10**5, 0.1
    expected = min(1.0, scale * math.sqrt(4 * math.log(m * S * A * H * T / delta) / n))
    found = theory.threshold_radius(S, A, H, m, T, n, delta=delta, threshold_scale=scale)
    assert found == pytest.approx(expected, rel=1e-14)


def test_radii_without_data() -> None:
    assert theory.threshold_radius(3, 2, 4, 2, 10, 0, threshold_scale=0.0) == 1.0
    assert theory.bonus(3, 2, 4, 2, 10, 0, bonus_scale=0.0) == math.inf


def test_bonus() -> None:
    S, A, H, m, T, delta = 3, 2, 4, 2, 10**5, 0.1
    L_r, L_p = math.log(S * A * H * m * T / delta), math.log(S * A * H * T / delta)
    expected = 0.5 * (math.sqrt(L_r / 9) + H * math.sqrt((S + L_p) / 9))
    found = theory.bonus(S, A, H, m, T, 9, delta=delta, bonus_scale=0.5)
    assert found == pytest.approx(expected, rel=1e-14)


@pytest.mark.parametrize(
    ("T", "mean", "visits"), [(10**6, 0.0, 351), (10**6, 0.5, 1404), (10**7, 0.0, 388)]
)
def test_visits_to_leave_the_cap(T: int, mean: float, visits: int) -> None:
    assert theory.visits_to_leave_cap(*SMALL, T, mean=mean) == visits
    assert mean + theory.bonus(*SMALL, T, visits - 1) >= 1.0
    assert mean + theory.bonus(*SMALL, T, visits) < 1.0


def test_a_pair_whose_mean_is_one_never_leaves() -> None:
    with pytest.raises(InvalidOption, match="never leaves"):
        theory.visits_to_leave_cap(*SMALL, 10**6, mean=1.0)


@pytest.mark.parametrize(("mean", "visits"), [(0.0, 351), (0.5, 1404)])
def test_the_policy_is_uniform_until_exactly_that_many_visits(mean: float, visits: int) -> None:
    """All signals of one pair have this mean, its successors stay at their caps, nothing else is visited."""
    S, A, H, m = SMALL
    learner = ss.Spot(S, A, H, m, episodes=10**6, rho=1.0)
    signals = np.full(H, 1.0)
    signals[0] = mean  # later steps have the largest signals, and never leave
    e = ss.Episode(
        np.array([0, 1, 2, 0]), np.zeros(H, np.int64), signals, signals[:, None], np.zeros((H, m))
    )
    for _ in range(visits):  # the update of an episode does not see it: one more is needed
        learner.observe(e)
        assert (learner.policy == 0.5).all()
    learner.observe(e)
    assert learner.policy[0, 0, 0] < 0.5 < learner.policy[0, 0, 1]
    moved = learner.policy != 0.5
    assert moved.sum() == 2


def test_the_explicit_bound_is_the_sum_of_its_four_terms() -> None:
    A, H, m, T, rho, zeta, phi = 2, 3, 2, 10**4, 1.5, 700.0, 9000.0
    mirror = H**2 * (1 + m * rho) * math.sqrt(2 * T * math.log(A))
    dual = rho * H * math.sqrt(m * T) / 2
    terms: dict[str, Any] = {"zeta_sum": zeta, "phi_sum": phi}
    pessimistic = theory.explicit_bound(A, H, m, T, rho, xi=0.0, **terms)
    assert pessimistic.regret == pytest.approx(mirror + 2 * m * rho * zeta + phi + dual, rel=1e-14)
    violation = 2 / rho * (mirror + 2 * (m - 1) * rho * zeta + (1 + rho) * phi + 2 * dual)
    assert pessimistic.violation == pytest.approx(violation, rel=1e-14)
    optimistic = theory.explicit_bound(A, H, m, T, rho, xi=1.0, **terms)
    assert optimistic.regret == pytest.approx(mirror + phi + dual, rel=1e-14)
    violation = 2 / rho * (mirror + 2 * rho * zeta + (1 + rho) * phi + 2 * dual)
    assert optimistic.violation == pytest.approx(violation, rel=1e-14)
    middle = theory.explicit_bound(A, H, m, T, rho, xi=0.25, **terms)
    for field in ("regret", "violation"):
        ends = getattr(pessimistic, field), getattr(optimistic, field)
        assert getattr(middle, field) == pytest.approx(0.75 * ends[0] + 0.25 * ends[1], rel=1e-12)


@pytest.mark.parametrize("gamma", [1.0, 0.5, 0.1])
@pytest.mark.parametrize("estimator", ["representative", "pooled"])
def test_the_sum_of_threshold_radii_bounds_every_run(gamma: float, estimator: str) -> None:
    S, A, H, m, T = 2, 2, 2, 1, 4000
    rng = np.random.default_rng(0)
    learner = ss.Spot(
        S, A, H, m, episodes=T, rho=1.0, window=gamma, estimator=estimator, start=None,
        threshold_scale=0.3, clip_thresholds=False,
    )  # fmt: skip
    mask, total = full_mask(None, H, S, A), 0.0
    for _ in range(T):
        lower, upper = learner.threshold_bounds
        # Unclipped bounds are 2 zeta apart at each step; before the first sample zeta counts as 1.
        total += H if learner.episode == 1 else float(upper[0] - lower[0]) / 2
        learner.observe(random_episode(rng, mask, m, start=None))
    bound = theory.sum_of_threshold_radii(
        S, A, H, m, T, gamma=gamma, threshold_scale=0.3, pooled=estimator == "pooled"
    )
    assert total <= bound
    assert bound < H * T  # it says something
    assert bound < 6 * total  # and is not idle


@pytest.mark.parametrize(("gamma", "known"), [(1.0, 43491), (0.5, 86980), (0.1, 194493)])
def test_the_sum_of_threshold_radii_of_the_worked_example(gamma: float, known: int) -> None:
    found = theory.sum_of_threshold_radii(*SMALL, 10**6, gamma=gamma)
    assert found / 3 == pytest.approx(known, abs=0.6)


def test_sums_never_exceed_the_trivial_ones() -> None:
    assert theory.sum_of_threshold_radii(*SMALL, 10) == 3 * 10
    assert theory.sum_of_bonuses(*SMALL, 10) == 9 * 10


def test_the_sum_of_bonuses_bounds_every_run() -> None:
    S, A, H, m, T, c = 2, 2, 2, 1, 20_000, 0.2
    rng = np.random.default_rng(0)
    counts = np.zeros((H, S, A))
    once = theory.bonus(S, A, H, m, T, 1, bonus_scale=c)
    total = 0.0
    for _ in range(T):
        for h in range(H):
            s, a = rng.integers(S), rng.integers(A)
            n = counts[h, s, a]
            total += min(H, 2 * once / math.sqrt(n)) if n else H
            counts[h, s, a] += 1
    bound = theory.sum_of_bonuses(S, A, H, m, T, bonus_scale=c)
    assert total <= bound <= 1.3 * total


@pytest.mark.parametrize("p", [0.5, 0.02, 0.0])
def test_bounds_of_a_trial_are_no_further_apart_than_proven(p: float) -> None:
    """The width that the proof speaks of, with the weights that were used, and its worst case."""
    n, level = 3000, 6.0
    x, aims, state = np.random.default_rng(0).random(n) < p, targets(n), fixed_means(2)
    sums, errors, squares = np.zeros(16), np.zeros(16), 1.0 / 16.0
    for i, each in enumerate(x.astype(float), start=1):
        guess = (0.5 + x[: i - 1].sum()) / i
        weights = aims.rate * math.sqrt(i / squares)
        sums += weights
        errors += weights**2 * (each - guess) ** 2
        squares += (each - guess) ** 2
        observe_fixed(aims, state, 0, each)
        observe_fixed(aims, state, 1, 1.0 - each)
    for row in range(2):
        read_fixed(aims, state, row, level)
    apart = 1.0 - state.lower[1] - state.lower[0]
    free = aims.rate * 4.0 * math.sqrt(n) <= 0.9  # no weight is cut off
    proven = (2.0 * (1.732 * errors + level - aims.log_prior) / sums)[free].min()
    assert free.any()
    assert 0.0 < apart <= proven
    worst = (4.41 * math.log1p(16 * n) + 17.8 * (level + 4.4)) / math.sqrt(n)
    assert proven <= worst


@pytest.mark.parametrize(("S", "H"), [(5, 4), (60, 8), (700, 10)])
def test_auto_lets_pairs_leave_their_cap_at_once(S: int, H: int) -> None:
    sizes = {"S": S, "A": 3, "H": H, "m": 1, "T": 20_000}
    scale = theory.scale_to_leave_cap(**sizes)
    assert theory.bonus(**sizes, n=1, bonus_scale=scale) == pytest.approx(0.06)
    assert theory.visits_to_leave_cap(**sizes, mean=0.93, bonus_scale=scale) == 1
    assert theory.visits_to_leave_cap(**sizes, mean=0.95, bonus_scale=scale) == 2
    with pytest.raises(ss.errors.InvalidOption, match="never leaves its cap"):
        theory.scale_to_leave_cap(**sizes, mean=1.0)


def test_spot_takes_the_scale_and_steps_to_match() -> None:
    f = ss.problems.make("machine").interface
    sizes = {"S": 2, "A": 2, "H": 2, "m": 1, "T": 500}
    paper = ss.Spot(**f, episodes=500, slack=1.0)
    auto = ss.Spot(**f, episodes=500, slack=1.0, bonus_scale="auto")
    given = ss.Spot(**f, episodes=500, slack=1.0, bonus_scale="auto", policy_step=0.1)
    assert auto.rates.radii.bonus_scale == theory.scale_to_leave_cap(**sizes)
    assert auto.rates.eta == pytest.approx(4.0 * paper.rates.eta)
    assert auto.rates.step == pytest.approx(4.0 * paper.rates.step)
    assert (given.rates.eta, given.rates.step) == (0.1, auto.rates.step)
    assert paper.rates.radii.bonus_scale == 1.0
    with pytest.raises(ss.errors.InvalidOption, match="'auto' or a number"):
        ss.Spot(**f, episodes=500, slack=1.0, bonus_scale="automatic")
    with pytest.raises(ss.errors.InvalidOption, match="is for spot"):
        ss.learners.RegularizedPrimalDual(**f, episodes=500, slack=1.0, bonus_scale="auto")


@pytest.mark.parametrize(("m", "delta"), [(1, 0.05), (3, 0.01)])
def test_the_strong_violation_of_trials_is_the_sum_over_phases_that_double(
    m: int, delta: float
) -> None:
    T, width = 2**34, 4.0
    share = delta * 6 / (39 * 40)
    level = math.log(m / (0.9 * share))
    phases = [2**k for k in range(34)] + [1]
    ref = sum(33 / 32 * width * n * theory.trial_width(n, level) + width for n in phases)
    assert sum(phases) == T
    assert ref < width * T / 10
    comp = theory.trial_violation(T, width, m=m, delta=delta)
    assert comp == pytest.approx(ref, rel=1e-12)
