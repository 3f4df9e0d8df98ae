"""Certificates from trials: the two bounds over many seeds, what is promised before, and where episodes come from."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import safespot as ss
from safespot.errors import InvalidEpisode, InvalidOption
from safespot.evidence.interface import make_interface
from safespot.judging import trial as trials
from safespot.judging.trial import bernstein, episode_sums, episodes_needed, sequence, statements

Array = Any


def toy(value: float = 0.8, limit: float = 1.0, H: int = 2, **options: Any) -> ss.Problem:
    """One state; action 0 is safe with probability `value` in each of H steps, action 1 never."""
    cmdp = ss.CMDP(
        np.ones((1, 2, 1)), [[0.2, 0.9]], [[[value, 0.0]]], [limit], horizon=H, **options
    )
    return ss.Problem(cmdp)


SAFE, RISKY = np.array([[1.0, 0.0]]), np.array([[0.0, 1.0]])


def coin(rng: np.random.Generator, p: float, n: int, k: int) -> Array:
    return (rng.random((n, k)) < p).astype(float)


# The two bounds


def test_bernstein_is_its_formula() -> None:
    x = np.array([[0.0], [1.0], [1.0], [0.5]])
    mean, variance = 0.625, sum((v - 0.625) ** 2 for v in (0.0, 1.0, 1.0, 0.5)) / 3
    log = math.log(2 / 0.9)
    radius = math.sqrt(2 * variance * log / 4) + 7 * log / (3 * 3)
    low, high = bernstein(x, 0.9)
    assert low[0] == pytest.approx(max(0.0, mean - radius))
    assert high[0] == pytest.approx(min(1.0, mean + radius))
    large = np.tile(x, (500, 1))
    low, high = bernstein(large, 0.9)
    assert 0.0 < low[0] < mean < high[0] < 1.0
    assert high[0] - mean == pytest.approx(mean - low[0])


def test_the_sequence_is_its_formula() -> None:
    rng = np.random.default_rng(0)
    x, share, planned = rng.random(50), 0.02, 80
    low, high = sequence(x[:, None], share, planned)
    mean, variance, seen = 0.5, 0.25, []
    top, price, total = 0.0, 0.0, 0.0
    spread = 0.0
    for t, value in enumerate(x, 1):
        lam = min(0.5, math.sqrt(2 * math.log(1 / share) / (variance * planned)))
        top, total = top + lam * value, total + lam
        price += (value - mean) ** 2 * (-math.log(1 - lam) - lam)
        radius = (math.log(1 / share) + price) / total
        assert low[t - 1, 0] == pytest.approx(max(0.0, top / total - radius))
        assert high[t - 1, 0] == pytest.approx(min(1.0, top / total + radius))
        seen.append(value)
        mean = (0.5 + sum(seen)) / (t + 1)
        spread += (value - mean) ** 2
        variance = (0.25 + spread) / (t + 1)


def test_the_inequality_behind_the_sequence() -> None:
    """exp(l y - y^2 psi(l)) <= 1 + l y for y >= -1 and 0 <= l < 1 (Fan, Grama and Liu 2015)."""
    y, lam = np.meshgrid(np.linspace(-1.0, 1.0, 401), np.linspace(0.0, 0.99, 100))
    left = np.exp(lam * y - y**2 * (-np.log1p(-lam) - lam))
    assert (left <= 1.0 + lam * y + 1e-12).all()


def test_a_row_of_the_sequence_depends_on_the_past_only() -> None:
    x = np.random.default_rng(0).random((40, 3))
    for whole, part in zip(sequence(x, 0.1, 40), sequence(x[:17], 0.1, 40), strict=True):
        np.testing.assert_array_equal(whole[:17], part)


def test_a_long_trial_is_as_sharp_early_as_a_short_one() -> None:
    """Planned for a hundred times as many episodes, the bounds after 300 are at most a third wider."""
    x = coin(np.random.default_rng(5), 0.7, 300, 20)
    (low, high), (least, most) = sequence(x, 0.01, 300), sequence(x, 0.01, 30_000)
    assert (most[-1] - least[-1] < 1.33 * (high[-1] - low[-1])).all()
    assert (most[-1] - least[-1] > high[-1] - low[-1]).all()


def misses(p: float, n: int, k: int, share: float) -> dict[str, float]:
    """How often each one-sided bound misses a coin's mean, over k trials of n throws."""
    x = coin(np.random.default_rng(int(1000 * p)), p, n, k)
    low, high = bernstein(x, share)
    found = {"bernstein low": (low > p).mean(), "bernstein high": (high < p).mean()}
    low, high = sequence(x, share, n)
    ever = {"sequence low": (low > p).any(axis=0), "sequence high": (high < p).any(axis=0)}
    return found | {name: missed.mean() for name, missed in ever.items()}


@pytest.mark.parametrize("p", [0.02, 0.5, 0.9])
def test_bounds_miss_as_rarely_as_they_say(p: float) -> None:
    share, k = 0.2, 1000
    for name, rate in misses(p, 200, k, share).items():
        assert rate <= share + 3 * math.sqrt(share * (1 - share) / k), name


@pytest.mark.slow
@pytest.mark.parametrize("p", [0.01, 0.1, 0.5, 0.95])
def test_bounds_miss_as_rarely_as_they_say_at_length(p: float) -> None:
    share, k = 0.2, 5_000
    rates = misses(p, 1000, k, share)
    print(
        f"p = {p}, share {share}:", ", ".join(f"{name} {rate:.4f}" for name, rate in rates.items())
    )
    for name, rate in rates.items():
        assert rate <= share + 3 * math.sqrt(share * (1 - share) / k), name


def test_too_small_radii_would_be_noticed() -> None:
    """The tests above have teeth: looking all the time with a bound for one time misses far more often."""
    x = coin(np.random.default_rng(1), 0.5, 400, 500)
    t = np.arange(1, 401)[:, None]
    mean = np.cumsum(x, axis=0) / t
    normal = mean - 0.8416 * np.sqrt(0.25 / t)  # misses with probability 0.2 at any one time
    assert (normal[20:] > 0.5).any(axis=0).mean() > 0.3


def test_bounds_are_not_much_wider_than_they_must_be() -> None:
    """At the planned number both are within a third of the normal approximation, which is no bound."""
    x = coin(np.random.default_rng(2), 0.5, 20_000, 10)
    best = 2 * math.sqrt(2 * 0.25 * math.log(1 / 0.01) / 20_000)
    for low, high in (bernstein(x, 0.01), (ends[-1] for ends in sequence(x, 0.01, 20_000))):
        width = high - low
        assert (width < 1.33 * best).all()
        assert (width > 0.95 * best).all()


# Certificates


@pytest.mark.parametrize("early", [False, True])
def test_a_trial_is_wrong_in_at_most_delta_of_the_runs(early: bool) -> None:
    wrong = count_wrong(60, 100, early, delta=0.3)
    assert wrong <= 60 * 0.3


@pytest.mark.slow
@pytest.mark.parametrize("early", [False, True])
def test_a_trial_is_wrong_in_at_most_delta_of_many_runs(early: bool) -> None:
    wrong = count_wrong(2000, 400, early, delta=0.3)
    print(f"certify_by_trial(early={early}): wrong in {wrong} of 2000 runs at delta = 0.3")
    assert wrong <= 2000 * 0.3


def count_wrong(runs: int, episodes: int, early: bool, delta: float) -> int:
    problem = toy(0.8, 1.4)
    truth = ss.evaluate(problem.cmdp, SAFE)
    wrong = 0
    for seed in range(runs):
        found = ss.certify_by_trial(problem, SAFE, episodes, early=early, delta=delta, seed=seed)
        (low,), (high,) = found.value_bounds
        (least,), (most,) = found.threshold_bounds
        wrong += not (
            low <= truth.constraints[0] <= high
            and least <= 1.4 <= most
            and found.reward_bounds[0] <= truth.value <= found.reward_bounds[1]
        )
    return wrong


@pytest.mark.parametrize("early", [False, True])
def test_an_unsafe_policy_is_never_certified(early: bool) -> None:
    problem = toy(0.8, 1.0)
    for seed in range(30):
        found = ss.certify_by_trial(problem, RISKY, 400, early=early, seed=seed)
        assert found.verdict == ("unsafe",)
        just = ss.certify_by_trial(toy(0.49, 1.0), SAFE, 400, early=early, seed=seed)
        assert not just.safe.any()


@pytest.mark.parametrize("known", [False, True])
def test_half_above_the_limit_is_certified_after_the_promised_episodes(known: bool) -> None:
    """The room is 0.5 of 2: the promise holds for whatever has this room, in every run but delta of them."""
    problem = toy(0.75, 1.0)
    n = episodes_needed(0.5 if known else 0.25, span=2.0, known=known)
    limits = [1.0] if known else None
    found = [
        ss.certify_by_trial(problem, SAFE, n, thresholds=limits, seed=seed) for seed in range(20)
    ]
    assert sum(f.verdict == ("safe",) for f in found) >= 19
    widths = [f.value_bounds[1][0] - f.value_bounds[0][0] for f in found]
    assert max(widths) <= (0.5 if known else 0.25) + 1e-12


def test_episodes_needed_are_the_fewest() -> None:
    """With the largest variance there is, n episodes reach the width and n - 2 do not."""
    for width, m, known in ((0.5, 1, False), (0.1, 3, True)):
        n = episodes_needed(width, span=1.0, constraints=m, known=known)
        share = 0.05 / statements(m, known=known)
        for count, enough in ((n + n % 2, True), (n - 2 - n % 2, False)):
            x = np.r_[np.zeros(count // 2), np.ones(count // 2)][:, None]
            low, high = bernstein(x, share)
            assert (high[0] - low[0] <= width) == enough
    assert episodes_needed(1.0, 14.0, deviation=1.0) < episodes_needed(1.0, 14.0) / 5
    assert episodes_needed(100.0, 1.0) == 2


def test_costs_in_units_of_their_own() -> None:
    """The same trial in costs from 2 to 6: every number is the other one's, turned round."""
    plain = toy(0.8, 1.0)
    costs = ss.Problem(
        ss.CMDP(
            np.ones((1, 2, 1)), [[0.2, 0.9]], [[[2.8, 6.0]]], [8.0], horizon=2,
            senses="<=", constraint_ranges=(2.0, 6.0),
        )
    )  # fmt: skip
    one = ss.certify_by_trial(plain, SAFE, 300)
    two = ss.certify_by_trial(costs, SAFE, 300)
    assert one.verdict == two.verdict
    for name in ("value_bounds", "threshold_bounds"):
        low, high = getattr(one, name)
        np.testing.assert_allclose(getattr(two, name)[0], 12.0 - 4.0 * high)
        np.testing.assert_allclose(getattr(two, name)[1], 12.0 - 4.0 * low)


def test_an_early_stop_is_the_first_moment_of_decision() -> None:
    problem = toy(0.9, 0.6)
    found = ss.certify_by_trial(problem, SAFE, 3000, early=True, seed=4)
    assert found.verdict == ("safe",)
    assert 10 < found.episodes < 300
    assert found.more.tolist() == [0.0]
    sums = trials._from_problem(problem, np.repeat(SAFE[None], 2, axis=0), 4)(3000)
    low, high = sequence(sums, 0.05 / 6, 3000)
    decided = low[:, 1] >= high[:, 3]
    assert decided.argmax() == found.episodes - 1
    assert found.value_bounds[0][0] == pytest.approx(2 * low[found.episodes - 1, 1])


def test_an_open_trial_ends_at_its_number() -> None:
    found = ss.certify_by_trial(toy(0.5, 1.0), SAFE, 150, early=True)
    assert found.verdict == ("unknown",)
    assert found.episodes == 150
    assert found.more[0] > 0.0


def test_several_constraints_are_all_decided() -> None:
    cmdp = ss.CMDP(np.ones((1, 1, 1)), [[0.5]], [[[0.9]], [[0.1]]], [[0.3], [0.7]], horizon=1)
    found = ss.certify_by_trial(ss.Problem(cmdp), np.ones((1, 1)), 5000, early=True)
    assert found.verdict == ("safe", "unsafe")
    assert found.episodes < 1000


def test_the_text_says_how_it_was_done() -> None:
    text = str(ss.certify_by_trial(toy(), SAFE, 50))
    assert "50 fresh episodes of this one policy, by the empirical Bernstein bound" in text
    assert "the policy was fixed before the trial" in text
    assert "the thresholds do not change" in text
    text = str(ss.certify_by_trial(toy(), SAFE, 50, early=True, thresholds=[0.1]))
    assert "a confidence sequence" in text
    assert "the thresholds are the ones that were given" in text


# Where the episodes come from


def test_noise_is_other_than_that_of_training() -> None:
    """Else a trial with the learner's seed would meet the very episodes that the policy was made from."""
    problem = toy(0.5)
    policy = np.repeat(SAFE[None], 2, axis=0)
    known = make_interface(**problem.interface)
    streams = ss.streams(0)
    trained = [
        episode_sums(known.inside(ss.play(problem, policy, streams, t + 1))) for t in range(60)
    ]
    assert (trials._from_problem(problem, policy, 0)(60) != np.array(trained)).any(
        axis=1
    ).sum() > 20


def test_seeds_name_the_noise_and_chunks_do_not_matter() -> None:
    problem, policy = toy(0.5), np.repeat(SAFE[None], 2, axis=0)
    play = trials._from_problem(problem, policy, 3)
    parts = np.concatenate([play(7), play(30), play(3)])
    np.testing.assert_array_equal(trials._from_problem(problem, policy, 3)(40), parts)
    assert (trials._from_problem(problem, policy, 4)(40) != parts).any()


def records(problem: ss.Problem, n: int) -> Iterator[ss.Episode]:
    streams = ss.streams(11)
    for t in range(n):
        yield ss.play(problem, SAFE, streams, t + 1)


def two_steps(thresholds: list[list[float]]) -> ss.Episode:
    return ss.Episode(
        np.zeros(3, int), np.zeros(2, int), np.array([0.0, 1.0]),
        np.array([[1.0], [0.0]]), np.array(thresholds),
    )  # fmt: skip


@pytest.mark.parametrize("early", [False, True])
def test_episodes_from_anywhere(early: bool) -> None:
    problem = toy(0.9, 0.6)
    found = ss.certify_by_trial(
        records(problem, 400), SAFE, 400, early=early, interface=problem.interface
    )
    assert found.verdict == ("safe",)
    assert (found.episodes == 400) != early
    sums = np.array([e.constraints.sum() for e in records(problem, found.episodes)])
    low, high = found.value_bounds
    assert low[0] < sums.mean() < high[0]


def test_steps_without_a_threshold_sample_count_as_the_worst() -> None:
    problem = toy(0.9, 0.6)
    known = make_interface(**problem.interface)
    nan = [math.nan]
    episode = two_steps([[1.0], nan])
    np.testing.assert_array_equal(episode_sums(known.inside(episode)), [0.5, 0.5, 0.5, 1.0])
    gone = two_steps([nan, nan])
    found = ss.certify_by_trial([gone] * 2000, SAFE, 2000, interface=problem.interface)
    (low,), (high,) = found.threshold_bounds
    assert low == 0.0
    assert high == 2.0
    assert found.verdict == ("unknown",)


def test_an_environment_is_tried_as_the_problem_is() -> None:
    problem = toy(0.9, 0.6)
    env = ss.gym.ProblemEnv(problem)
    found = ss.certify_by_trial(env, SAFE, 500, early=True)
    assert found.verdict == ("safe",)
    again = ss.certify_by_trial(ss.BlackBox(env), SAFE, 500, early=True)
    assert again.as_dict() == found.as_dict()
    assert ss.certify_by_trial(env, SAFE, 500, early=True, seed=1).data_digest != found.data_digest


# Mistakes


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"episodes": 1}, "episodes must be at least 2"),
        ({"episodes": 2.5}, "episodes must be a whole number"),
        ({"delta": 0.0}, "delta must be a number"),
        ({"delta": "x"}, "delta must be a number"),
        ({"seed": -1}, "seed must be at least 0"),
        ({"thresholds": [1.0, 2.0]}, "thresholds have shape"),
        ({"horizon": 3}, "unexpected horizon: a Problem"),
        ({"interface": {}}, "unexpected interface: a Problem"),
    ],
)
def test_wrong_options(options: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidOption, match=message):
        ss.certify_by_trial(toy(), SAFE, **{"episodes": 10, **options})


def test_wrong_sources() -> None:
    problem = toy()
    with pytest.raises(InvalidOption, match="needs interface="):
        ss.certify_by_trial(records(problem, 9), SAFE, 9)
    with pytest.raises(InvalidOption, match="unexpected keyword"):
        ss.certify_by_trial([], SAFE, 9, interface={"sates": 3})
    with pytest.raises(InvalidOption, match="the episodes ended 2 before the trial did"):
        ss.certify_by_trial(records(problem, 7), SAFE, 9, interface=problem.interface)
    with pytest.raises(InvalidEpisode, match="takes an Episode, got int"):
        ss.certify_by_trial(itertools.repeat(3), SAFE, 9, interface=problem.interface)
    with pytest.raises(InvalidOption, match="an environment declares its own"):
        ss.certify_by_trial(object(), SAFE, 9, interface=problem.interface)
    with pytest.raises(InvalidOption, match="expected a Gymnasium environment"):
        ss.certify_by_trial(object(), SAFE, 9)
    drifting = ss.Problem(problem.cmdp, ss.Signals(drift=ss.Drift([0.5], first=9)))
    with pytest.raises(InvalidOption, match="thresholds of this problem drift"):
        ss.certify_by_trial(drifting, SAFE, 9)


@pytest.mark.parametrize(
    "arguments",
    [(0.0, 1.0), (1.0, 0.0), (math.inf, 1.0), (math.nan, 1.0), ("a", 1.0)],
)
def test_wrong_promises(arguments: Any) -> None:
    with pytest.raises(InvalidOption):
        episodes_needed(*arguments)
    with pytest.raises(InvalidOption, match="at most half the span"):
        episodes_needed(1.0, 1.0, deviation=0.6)
