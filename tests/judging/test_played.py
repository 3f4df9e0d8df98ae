"""Certificates from play: one policy, a mixture, or a practice; from runs, logs and durable learners."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import safespot as ss
from safespot.data.logs import columns
from safespot.judging import played as judged
from safespot.signals.interface import make_interface
from safespot.signals.totals import episode_sums
from safespot.training import metering
from tests.evidence import reference as ref

SAFE, RISKY = np.array([[1.0, 0.0]]), np.array([[0.0, 1.0]])


def toy(
    value: float = 0.8, limit: float = 1.0, rewards: tuple[float, float] = (0.2, 0.9)
) -> ss.Problem:
    """One state, two steps; action 0 is safe with probability `value`, action 1 never."""
    cmdp = ss.CMDP(np.ones((1, 2, 1)), [rewards], [[[value, 0.0]]], [limit], horizon=2)
    return ss.Problem(cmdp)


def fixed(problem: ss.Problem, policy: Any = SAFE) -> ss.Fixed:
    return ss.Fixed(**problem.interface, episodes=None, policy=policy)


def moving(problem: ss.Problem, episodes: int = 3_000) -> ss.Spot:
    """It comes to take the action that it should."""
    return ss.Spot(
        **problem.interface, episodes=episodes, rho=3.0, bonus_scale=0.001, policy_step=0.05, dual_step=0.05,
        thresholds=[1.0],
    )  # fmt: skip


def episodes_of(problem: ss.Problem, policy: Any, n: int, seed: int = 0) -> list[ss.Episode]:
    streams = ss.streams(seed)
    return [ss.play(problem, policy, streams, t + 1) for t in range(n)]


def test_one_policy_is_named_and_proven() -> None:
    problem = toy(0.8, 1.2)
    found = ss.certify(ss.learn(problem, fixed(problem), 800))
    assert found.verdict == ("safe",)
    assert found.since == 1
    assert found.covers(np.repeat(SAFE[None], 2, axis=0))
    assert found.subject == "policy"
    assert "of the one policy that played them" in str(found)
    assert "on 800 episodes as they were played" in " ".join(str(found).split())
    assert "left out of the log" not in " ".join(str(found).split())
    low, high = found.difference_bounds
    assert low[0] <= 0.4 <= high[0]


def test_bounds_are_those_of_the_slow_reading() -> None:
    """From the first episode on with half of delta; from the others with what they share.

    A learner's policies may decide on which side a verdict would be wrong, so the two sides divide it.
    """
    problem = toy(0.8, 1.2)
    run = ss.learn(problem, fixed(problem), 100)
    log = ss.read_log(columns(e for _, e in run.replay()), **problem.interface)
    x = np.array([(e.constraints.sum() - e.thresholds.sum() + 2.0) / 4.0 for e in log.episodes])
    for found in (ss.certify(run, delta=0.1), ss.certify(log, delta=0.1)):
        starts = {0: 0.05 / 2, **dict.fromkeys((32, 48, 64, 96), 0.05 / 64 / 2)}
        expected = {
            s: 4.0 * ref.changing_sum(x[s:], share) / (100 - s) - 2.0 for s, share in starts.items()
        }
        closest = max(starts, key=lambda s: expected[s])
        best = next((s for s in starts if expected[s] >= 0.0), closest)
        low, high = (end[0] for end in found.difference_bounds)
        assert found.since == best + 1
        assert low == pytest.approx(expected[best], abs=1e-9)
        above = ref.changing_sum(1.0 - x[best:], starts[best]) / (100 - best)
        assert high == pytest.approx(2.0 - 4.0 * above, abs=1e-9)
        assert found.confidence == found.difference_confidence == pytest.approx(0.9)


def test_a_learner_that_moves_proves_a_mixture_of_its_late_policies() -> None:
    problem = toy(0.9, 1.0, rewards=(0.9, 0.2))
    run = ss.learn(problem, moving(problem))
    found = ss.certify(run)
    assert found.subject == "mixture"
    assert found.verdict == ("safe",)
    assert found.since is not None
    assert found.since + found.episodes - 1 == 3_000
    mixture = run.mixture(found)
    assert "never" not in str(found)
    assert "draw one of these episodes at random" in str(found)
    # What it draws was played, and is not their average.
    stored = {p.tobytes(): t for t, (p, _) in enumerate(run.replay(), 1)}
    rng = np.random.default_rng(0)
    drawn = [mixture.sample(rng) for _ in range(150)]
    assert all(stored[p.tobytes()] >= found.since for p in drawn)
    numbers = np.array([stored[p.tobytes()] for p in drawn])
    assert len(set(numbers.tolist())) > 100
    episodes = np.arange(found.since, 3_001)
    assert abs(numbers.mean() - episodes.mean()) < 4 * episodes.std() / np.sqrt(150)
    again = np.random.default_rng(0)
    fresh = run.mixture(found)
    for p in drawn[:3]:
        np.testing.assert_array_equal(p, fresh.sample(again))
    # The truth of the mixture: the mean over its episodes.
    truth = np.mean(
        [
            ss.evaluate(problem.cmdp, p).constraints[0] - 1.0
            for k, (p, _) in enumerate(run.replay(), 1)
            if k >= found.since
        ]
    )
    low, high = found.difference_bounds
    assert low[0] <= truth <= high[0]


def test_a_start_that_is_later_serves_where_the_first_episodes_were_bad() -> None:
    """A bad policy for 600 episodes, a good one for 500: together they prove nothing safe, the later ones do."""
    problem = toy(0.9, 1.0)
    interface, streams = problem.interface, ss.streams(0)
    policies = [RISKY] * 600 + [SAFE] * 500
    episodes = [ss.play(problem, policy, streams, t) for t, policy in enumerate(policies, 1)]
    log = ss.read_log(columns(episodes), **interface)
    found = ss.certify(log)
    assert found.verdict == ("safe",)
    assert found.since is not None
    assert found.since - 1 in judged.STARTS
    assert (
        found.since == 385
    )  # the earliest that is proven; from 257 on there are too many bad ones
    assert found.episodes == 1_100 - 384


def test_every_start_has_its_share_of_delta() -> None:
    """Half is the first episode's; 2^k and 3 2^(k-1) episodes later, k = 5 ... 36, share the other half."""
    found = dict(judged.starts(10**12, 0.1))
    later = [2**k for k in range(5, 37)] + [3 * 2**k for k in range(4, 36)]
    assert found == {0: 0.05, **dict.fromkeys(later, 0.05 / 64)}
    assert list(dict(judged.starts(64, 0.1))) == [0, 32, 48]
    assert list(dict(judged.starts(65, 0.1))) == [0, 32, 48, 64]


def certificates() -> Iterator[ss.Certificate]:
    """Not decided yet, of each kind that rests on episodes alone."""
    problem = toy(0.8, 1.4)
    yield ss.certify(ss.learn(problem, fixed(problem), 40))
    yield ss.certify(problem, SAFE, episodes=30)
    coin = np.array([[0.5, 0.5]])
    log = ss.read_log(columns(episodes_of(problem, coin, 60)), **problem.interface)
    yield ss.evaluate_log(log, [[0.9, 0.1]], coin).certificate


def test_more_episodes_are_those_after_which_the_bounds_would_leave_0() -> None:
    """As far as they shrink with the root of the episodes, around the middle that they have now."""
    for found in certificates():
        low, high = (float(end[0]) for end in found.difference_bounds)
        assert low < 0.0 < high
        assert found.verdict == ("unknown",)
        shrink = (low + high) / (high - low)
        total = found.episodes + float(found.more[0])
        assert total == pytest.approx(found.episodes / shrink**2, abs=1.0)


def test_a_log_is_about_the_practice_unless_the_policy_is_given() -> None:
    problem = toy(0.8, 1.0)
    log = ss.read_log(columns(episodes_of(problem, SAFE, 1_500)), **problem.interface)
    found = ss.certify(log)
    assert found.verdict == ("safe",)
    assert found.subject == "practice"
    assert not found.covers(np.repeat(SAFE[None], 2, axis=0))
    assert "of the practice that made them" in str(found)
    assert "of 1,500 episodes of a log" in " ".join(str(found).split())
    assert "the practice goes on as it was" in str(found)
    known = ss.certify(log, SAFE)
    assert known.subject == "policy"
    assert known.covers(np.repeat(SAFE[None], 2, axis=0))
    with pytest.raises(ss.errors.InvalidOption, match="never takes action 0 in state 0 at step 0"):
        ss.certify(log, [[0.0, 1.0]])
    table = columns(episodes_of(problem, SAFE, 1_500))
    table["reward"][5] = 9.0
    doubtful = ss.certify(ss.read_log(table, **problem.interface))
    assert doubtful.verdict == ("unknown",)
    assert "1 episodes were left out" in str(doubtful)
    said = " ".join(str(doubtful).split())
    assert "(1 others were rejected)" in said
    assert "those that were left out of the log too" in said
    sharper = ss.certify(log, limits=ss.Limit(threshold=1.0, total=(0, 2)))
    assert np.subtract(*sharper.difference_bounds) > np.subtract(*found.difference_bounds)


def test_a_durable_learner_remembers_what_it_played(tmp_path: Path) -> None:
    problem = toy(0.9, 1.0)
    with ss.open(tmp_path / "kept", moving(problem, 1_500)) as learner:
        streams = ss.streams(3)
        for t in range(1_100):
            learner.observe(ss.play(problem, learner.policy, streams, t + 1))
    with ss.open(tmp_path / "kept") as learner:
        for t in range(1_100, 1_500):
            other = t % 10 == 0
            policy = SAFE if other else learner.policy
            learner.observe(
                ss.play(problem, policy, streams, t + 1), played=policy if other else None
            )
        found = ss.certify(learner)
        assert found.since is not None
        others = sum(n > found.since - 1 and n % 10 == 1 for n in range(1_101, 1_501))
        assert found.episodes == 1_501 - found.since - others
        assert found.subject == "mixture"
        own = {p.tobytes() for p, _ in learner.replay() if p is not None}
        mixture, rng = learner.mixture(found), np.random.default_rng(1)
        assert all(mixture.sample(rng).tobytes() in own for _ in range(60))
        plain = ss.learn(problem, moving(problem, 1_500), 1_100, seed=3)
        for (p, e), (q, f) in zip(plain.replay(), learner.replay(), strict=False):
            np.testing.assert_array_equal(p, q)
            assert e == f


def misses(runs: int, episodes: int, delta: float) -> int:
    """In how many runs a certificate, taken at several moments, says something wrong of its mixture."""
    problem, wrong = toy(0.5, 1.0), 0  # exactly at the limit, if only the safe action is taken
    for seed in range(runs):
        learner = moving(problem, episodes)
        run = ss.learn(problem, learner, episodes, seed=seed)
        truths = np.array(
            [ss.evaluate(problem.cmdp, p).constraints[0] - 1.0 for p, _ in run.replay()]
        )
        found = ss.certify(run, delta=delta)
        assert found.since is not None
        truth = truths[found.since - 1 :].mean()
        low, high = found.difference_bounds
        wrong += not low[0] <= truth <= high[0]
    return wrong


def test_few_certificates_from_play_are_wrong() -> None:
    assert misses(20, 150, 0.3) <= 6


def test_a_run_keeps_what_its_certificate_rests_on(tmp_path: Path) -> None:
    """The sums of its episodes, bit for bit, and where the policy moved: also of an environment, and from a file."""
    problem = toy(0.9, 1.0)
    env = ss.gym.ProblemEnv(problem)
    guard = ss.Guard(moving(problem), SAFE, budget=30)
    for run in (
        ss.learn(problem, moving(problem), 300),
        ss.learn(problem, ss.SpotEpochs(**problem.interface), 700),
        ss.learn(problem, guard, 300),
        ss.learn(env, moving(problem), 300),
        ss.learn(problem, fixed(problem), 50),
    ):
        policies, episodes = zip(*((p.copy(), e) for p, e in run.replay()), strict=True)
        assert run.sums is not None
        face = run.learner.interface
        np.testing.assert_array_equal(
            run.sums.totals, [episode_sums(face.check(e)) for e in episodes]
        )
        moved = [not np.array_equal(p, q) for p, q in itertools.pairwise((*policies, run.policy))]
        np.testing.assert_array_equal(run.sums.moved, [False, *moved])
        found = ss.certify(run)
        log = ss.read_log(columns(episodes), **problem.interface)
        known = run.learner.options.thresholds
        same = ss.certify(log, limits=known and ss.Limit(threshold=known[0]))
        np.testing.assert_array_equal(found.difference_bounds, same.difference_bounds)
        assert (found.since, found.episodes) == (same.since, same.episodes)
        run.save(tmp_path / "run")
        assert ss.certify(ss.Run.load(tmp_path / "run")).as_dict() == found.as_dict()


def test_missing_samples_and_unfinished_episodes_are_added_up_as_their_worst() -> None:
    rng = np.random.default_rng(0)
    signals = rng.random((3, 5))
    signals[1, 3:], signals[2] = np.nan, np.nan
    face = make_interface(1, 1, 3, 2)
    episode = ss.Episode(
        np.zeros(4, int), np.zeros(3, int), signals[:, 0], signals[:, 1:3], signals[:, 3:], unfinished=True
    )  # fmt: skip
    sums = episode_sums(face.check(episode))
    worst = [np.nan_to_num(signals, nan=x).sum(axis=0) for x in (0.0, 1.0)]
    expected = [end[part] for part in (slice(1), slice(1, 3), slice(3, 5)) for end in worst]
    np.testing.assert_allclose(sums, np.concatenate(expected), rtol=1e-14)


def test_a_run_of_very_many_episodes_says_that_it_keeps_none(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(metering, "MOST_SUMS", 9)
    problem = toy()
    assert ss.certify(ss.learn(problem, fixed(problem), 9)).episodes == 9
    run = ss.learn(problem, fixed(problem), 10)
    assert run.sums is None
    with pytest.raises(ss.errors.InvalidOption, match="keeps no sums of its 10 episodes"):
        ss.certify(run)


def test_wrong_calls_say_what_to_do() -> None:
    problem = toy()
    run = ss.learn(problem, fixed(problem), 10)
    wrongs: list[dict[str, Any]] = [
        {"policy": SAFE},
        {"thresholds": [1.0]},
        {"episodes": 3},
        {"horizon": 2},
    ]
    for wrong in wrongs:
        with pytest.raises(ss.errors.InvalidOption, match=f"unexpected {next(iter(wrong))}"):
            ss.certify(run, **wrong)
    with pytest.raises(ss.errors.InvalidOption, match="delta"):
        ss.certify(run, delta=1.0)
    with pytest.raises(ss.errors.InvalidOption, match="unexpected delta"):
        ss.certify(run.learner, delta=0.2)
    one = ss.read_log(columns(episodes_of(problem, SAFE, 1)), **problem.interface)
    with pytest.raises(ss.errors.InvalidOption, match="unexpected most"):
        ss.certify(one, most=3)
    with pytest.raises(ss.errors.InvalidOption, match="has no episode that can be used"):
        ss.certify(dataclasses.replace(one, episodes=()))
    run = ss.learn(problem, moving(problem), 20)
    with pytest.raises(ss.errors.InvalidOption, match="rng"):
        run.mixture(ss.certify(run)).sample(0)  # type: ignore[arg-type]
    for other in (ss.certify(one), ss.certify(ss.learn(problem, fixed(problem), 30))):
        with pytest.raises(ss.errors.InvalidOption, match="certificate is about"):
            run.mixture(other)
