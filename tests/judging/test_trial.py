"""Certificates from trials: their bounds over many seeds, when they stop, and where episodes come from."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import safespot as ss
from safespot.errors import InvalidEpisode, InvalidOption
from safespot.evidence.trial import as_bounds
from safespot.judging import trial as trials
from safespot.signals.interface import make_interface
from safespot.signals.terms import interface_terms
from safespot.signals.totals import episode_sums, statements
from tests.evidence import reference as ref


def toy(value: float = 0.8, limit: float = 1.0, H: int = 2, **options: Any) -> ss.Problem:
    """One state; action 0 is safe with probability `value` in each of H steps, action 1 never."""
    cmdp = ss.CMDP(
        np.ones((1, 2, 1)), [[0.2, 0.9]], [[[value, 0.0]]], [limit], horizon=H, **options
    )
    return ss.Problem(cmdp)


SAFE, RISKY = np.array([[1.0, 0.0]]), np.array([[0.0, 1.0]])


# Statements


@pytest.mark.parametrize(
    "declared",
    [
        {},
        {"thresholds": [0.9, 1.2]},
        {"constraint_totals": [(0, 3), (1, 2)], "threshold_totals": (0, 2.5)},
    ],
)
def test_bounds_lead_from_statements_back_to_the_users_totals(declared: dict[str, Any]) -> None:
    known = make_interface(1, 1, 3, 2, senses=(">=", "<="), **declared)
    terms = interface_terms(known)
    rng = np.random.default_rng(0)
    for _ in range(50):
        hints = 0.8 * rng.random((3, 2))
        hints[rng.random(3) < 0.3] = np.nan
        episode = known.check(
            ss.Episode(
                np.zeros(4, int),
                np.zeros(3, int),
                rng.random(3),
                0.34 + 0.32 * rng.random((3, 2)),
                hints,
            )
        )
        (row,) = statements(terms.declared, episode_sums(episode)[None])
        assert len(row) == (10 if "thresholds" in declared else 14)
        np.testing.assert_allclose(
            as_bounds(terms, row).value[0],
            known.units.constraints.total_outside(episode.constraints.sum(axis=0), 3),
        )


def test_totals_outside_of_what_was_declared_are_refused() -> None:
    problem = toy(0.9, 0.6)
    with pytest.raises(InvalidEpisode, match="constraint_totals"):
        ss.certify(problem, SAFE, episodes=50, limits=ss.Limit(total=(0, 1)))
    with pytest.raises(InvalidEpisode, match="threshold_totals"):
        ss.certify(problem, SAFE, episodes=50, limits=ss.Limit(threshold_total=(0.5, 1.5)))
    with pytest.raises(InvalidOption, match="one of the two"):
        ss.certify(
            problem, SAFE, episodes=50, limits=ss.Limit(threshold=0.6, threshold_total=(0, 1))
        )


# Certificates


def two_limits() -> ss.Problem:
    """As `toy`, with a limit that the safe action keeps and one that it breaks."""
    constraints = [[[0.9, 0.0]], [[0.2, 0.0]]]
    return ss.Problem(ss.CMDP(np.ones((1, 2, 1)), [[0.2, 0.9]], constraints, [1.0, 0.6], horizon=2))


def test_episodes_are_summed_limit_by_limit() -> None:
    """Reward, constraints and thresholds, two equal sides each, as nothing is missing."""
    source = trials.open_source(two_limits(), SAFE, 0, None, {})
    sums = np.array(list(itertools.islice(source.sums, 64)))
    rewards, values, limits = np.split(sums, [2, 6], axis=1)
    for part in (rewards, values, limits):
        one, other = np.split(part, 2, axis=1)
        np.testing.assert_array_equal(one, other)
    means = np.r_[rewards[:, :1].mean(), values[:, :2].mean(0), limits[:, :2].mean(0)]
    np.testing.assert_allclose(means, [0.4, 1.8, 0.4, 1.0, 0.6], atol=0.4)


def test_each_of_two_limits_has_its_own_bounds() -> None:
    found = ss.certify(two_limits(), SAFE, episodes=1_000)
    for bounds, truth in ((found.value_bounds, [1.8, 0.4]), (found.threshold_bounds, [1.0, 0.6])):
        low, high = bounds
        assert (low <= truth).all()
        assert (high >= truth).all()
        assert (high - low < 1.0).all()
    assert found.verdict == ("safe", "unsafe")


def test_a_trial_is_wrong_in_at_most_delta_of_the_runs() -> None:
    wrong = count_wrong(60, 100, delta=0.3)
    assert wrong <= 60 * 0.3


def count_wrong(runs: int, episodes: int, delta: float) -> int:
    problem = toy(0.8, 1.4)
    truth = ss.evaluate(problem.cmdp, SAFE)
    wrong = 0
    for seed in range(runs):
        found = ss.certify(problem, SAFE, episodes=episodes, delta=delta, seed=seed)
        (low,), (high,) = found.value_bounds
        (least,), (most,) = found.threshold_bounds
        wrong += found.verdict == ("unsafe",) or not (
            low <= truth.constraints[0] <= high
            and least <= 1.4 <= most
            and found.reward_bounds[0] <= truth.value <= found.reward_bounds[1]
        )
    return wrong


def test_an_unsafe_policy_is_never_certified() -> None:
    problem = toy(0.8, 1.0)
    for seed in range(30):
        found = ss.certify(problem, RISKY, episodes=400, seed=seed)
        assert found.verdict == ("unsafe",)
        just = ss.certify(toy(0.49, 1.0), SAFE, episodes=400, seed=seed)
        assert not just.safe.any()


def test_costs_in_units_of_their_own() -> None:
    """The same trial in costs from 2 to 6: every number is the other one's, turned round."""
    plain = toy(0.8, 1.0)
    costs = ss.Problem(
        ss.CMDP(
            np.ones((1, 2, 1)), [[0.2, 0.9]], [[[2.8, 6.0]]], [8.0], horizon=2,
            senses="<=", constraint_ranges=(2.0, 6.0),
        )
    )  # fmt: skip
    one = ss.certify(plain, SAFE, episodes=300)
    two = ss.certify(costs, SAFE, episodes=300)
    assert one.verdict == two.verdict
    np.testing.assert_allclose(two.difference_bounds, 4.0 * np.array(one.difference_bounds))
    for name in ("value_bounds", "threshold_bounds"):
        low, high = getattr(one, name)
        np.testing.assert_allclose(getattr(two, name)[0], 12.0 - 4.0 * high)
        np.testing.assert_allclose(getattr(two, name)[1], 12.0 - 4.0 * low)


def test_an_early_stop_is_the_first_moment_of_decision() -> None:
    problem = toy(0.9, 0.6)
    found = ss.certify(problem, SAFE, episodes=3000, seed=4)
    assert found.verdict == ("safe",)
    assert 10 < found.episodes < 300
    assert found.more.tolist() == [0.0]
    source = trials.open_source(problem, SAFE, 4, None, {})
    sums = np.array(list(itertools.islice(source.sums, 512)))
    x = (sums[:, 2] - sums[:, 4] + 2.0) / 4.0
    last, before = (
        max(ref.fixed_mean(x[:t], 0.05, 3000) for t in range(10, found.episodes + 1 - one))
        for one in (0, 1)
    )
    assert before < 0.5 <= last
    assert found.difference_bounds[0][0] == pytest.approx(4.0 * last - 2.0, abs=1e-9)
    assert found.confidence == 0.95
    assert found.difference_confidence == pytest.approx(0.9)


def test_a_room_of_a_tenth_takes_150_episodes() -> None:
    """One statement on the difference, not two on value and threshold, which took 452."""
    cmdp = ss.CMDP(np.ones((1, 1, 1)), [[0.5]], [[[0.6]]], [2.0], horizon=4)
    planned = 1_000
    stops = [
        ss.certify(ss.Problem(cmdp), np.ones((1, 1)), episodes=planned, seed=seed).episodes
        for seed in range(60)
    ]
    assert np.median(stops) <= 150
    assert 0.5 <= np.median(stops) / ss.episodes_needed(0.4, 1.4) <= 2.0


def test_a_declared_range_decides_sooner() -> None:
    """At most one event an episode of 8 steps: the range of the total is an eighth."""
    cmdp = ss.CMDP(
        np.array([[[0.0, 1.0]], [[0.0, 1.0]]]), [[0.5], [0.5]], [[[0.02], [0.0]]], [0.2],
        horizon=8, senses="<=",
    )  # fmt: skip
    problem, policy = ss.Problem(cmdp), np.ones((2, 1))
    plain, declared = (
        ss.certify(problem, policy, episodes=5_000, limits=ss.Limit(threshold=0.2, total=totals))
        for totals in (None, (0, 1))
    )
    assert plain.verdict == declared.verdict == ("safe",)
    assert declared.episodes < 0.5 * plain.episodes


# Where the episodes come from


def test_noise_is_other_than_that_of_training() -> None:
    """Else a trial with the learner's seed would meet the very episodes that the policy was made from."""
    problem = toy(0.5)
    known, streams = make_interface(**problem.interface), ss.streams(0)
    trained = [
        episode_sums(
            known.check(ss.play(problem, np.repeat(SAFE[None], 2, axis=0), streams, t + 1))
        )
        for t in range(64)
    ]
    source = trials.open_source(problem, SAFE, 0, None, {})
    tried = np.array(list(itertools.islice(source.sums, 64)))
    assert (tried != np.array(trained)).any(axis=1).sum() > 20


def test_seeds_name_the_noise_and_a_cap_changes_nothing_before_it() -> None:
    problem = toy(0.5)
    found = ss.certify(problem, SAFE, episodes=300, seed=3)
    assert ss.certify(problem, SAFE, episodes=300, seed=3).as_dict() == found.as_dict()
    assert ss.certify(problem, SAFE, episodes=300, seed=4).data_digest != found.data_digest
    one, two = (
        ss.certify(toy(0.9, 0.6), SAFE, episodes=300, most=most, seed=4) for most in (290, 5_000)
    )
    assert one.as_dict() == two.as_dict()
    assert one.episodes < 290
    assert ss.certify(problem, SAFE, episodes=300, most=41, seed=3).episodes == 41


def records(problem: ss.Problem, n: int) -> Iterator[ss.Episode]:
    streams = ss.streams(11)
    for t in range(n):
        yield ss.play(problem, SAFE, streams, t + 1)


def two_steps(thresholds: list[list[float]]) -> ss.Episode:
    return ss.Episode(
        np.zeros(3, int), np.zeros(2, int), np.array([0.0, 1.0]),
        np.array([[1.0], [0.0]]), np.array(thresholds),
    )  # fmt: skip


def test_episodes_from_anywhere() -> None:
    """Taken one at a time, no more than it needs; where they end before that, it ends."""
    problem = toy(0.9, 0.6)
    source = records(problem, 400)
    found = ss.certify(source, SAFE, episodes=400, interface=problem.interface)
    assert found.verdict == ("safe",)
    assert sum(1 for _ in source) == 400 - found.episodes > 0
    listed = ss.certify(list(records(problem, 400)), SAFE, interface=problem.interface)
    assert listed.as_dict() == found.as_dict()
    few = ss.certify(records(problem, 7), SAFE, episodes=400, interface=problem.interface)
    assert (few.episodes, few.verdict) == (7, ("unknown",))
    sums = np.array([e.constraints.sum() for e in records(problem, found.episodes)])
    low, high = found.value_bounds
    assert low[0] < sums.mean() < high[0]


def test_steps_without_a_threshold_sample_count_as_the_worst() -> None:
    problem = toy(0.9, 0.6)
    known = make_interface(**problem.interface)
    nan = [math.nan]
    episode = two_steps([[1.0], nan])
    np.testing.assert_array_equal(
        episode_sums(known.check(episode)), [1.0, 1.0, 1.0, 1.0, 1.0, 2.0]
    )
    gone = two_steps([nan, nan])
    found = ss.certify([gone] * 2000, SAFE, episodes=2000, interface=problem.interface)
    (low,), (high,) = found.threshold_bounds
    assert low == 0.0
    assert high == 2.0
    assert found.verdict == ("unknown",)


def test_an_environment_is_tried_as_the_problem_is() -> None:
    problem = toy(0.9, 0.6)
    env = ss.gym.ProblemEnv(problem)
    found = ss.certify(env, SAFE, episodes=500)
    assert found.verdict == ("safe",)
    again = ss.certify(ss.gym.BlackBox(env), SAFE, episodes=500)
    assert again.as_dict() == found.as_dict()
    assert ss.certify(env, SAFE, episodes=500, seed=1).data_digest != found.data_digest


# Mistakes


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"episodes": 0}, "episodes must be at least 1"),
        ({"most": 0}, "most must be at least 1"),
        ({"episodes": 2.5}, "episodes must be a whole number"),
        ({"delta": 0.0}, "delta must be a number"),
        ({"delta": "x"}, "delta must be a number"),
        ({"seed": -1}, "seed must be at least 0"),
        ({"limits": ss.Limit(threshold=[1.0, 2.0, 3.0])}, "thresholds"),
        ({"horizon": 3}, "unexpected horizon: a Problem"),
        ({"interface": {}}, "unexpected interface: a Problem"),
    ],
)
def test_wrong_options(options: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidOption, match=message):
        ss.certify(toy(), SAFE, **{"episodes": 10, **options})


def test_wrong_sources() -> None:
    problem = toy()
    with pytest.raises(InvalidOption, match="needs interface="):
        ss.certify(records(problem, 9), SAFE, episodes=9)
    with pytest.raises(InvalidOption, match="interface"):
        ss.certify([], SAFE, episodes=9, interface={"sates": 3})
    for none in (list[ss.Episode](), records(problem, 0)):
        with pytest.raises(InvalidOption, match="there are no episodes"):
            ss.certify(none, SAFE, interface=problem.interface)
    with pytest.raises(InvalidOption, match="say of which policy"):
        ss.certify(problem)
    with pytest.raises(InvalidEpisode, match="takes an Episode, got int"):
        ss.certify(itertools.repeat(3), SAFE, episodes=9, interface=problem.interface)
    with pytest.raises(InvalidOption, match="an environment declares its own"):
        ss.certify(object(), SAFE, episodes=9, interface=problem.interface)
    with pytest.raises(InvalidOption, match="expected a Gymnasium environment"):
        ss.certify(object(), SAFE, episodes=9)
    drifting = ss.Problem(problem.cmdp, ss.signals.Signals(drift=ss.signals.Drift([0.5], first=9)))
    with pytest.raises(InvalidOption, match="thresholds of this problem drift"):
        ss.certify(drifting, SAFE, episodes=9)
