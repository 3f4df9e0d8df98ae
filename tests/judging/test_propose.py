"""From a log to the policy to try next: what is planned, what is proven, and what is said of it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import safespot as ss
from safespot.data.logs import columns
from safespot.evidence.lengths import episodes_needed
from safespot.judging.propose_log import proven_limits
from tests.evidence import reference as ref
from tests.support.ward import ward

# What the ward's doctors do: careful, and a little at random.
PRACTICE = np.array([[0.8, 0.15, 0.05], [0.5, 0.35, 0.15], [0.4, 0.4, 0.2], [0.4, 0.4, 0.2]])


def logged(problem: ss.Problem, behaviour: Any, n: int, seed: int = 0, **options: Any) -> ss.Log:
    noise = ss.streams(seed)
    played = [ss.play(problem, behaviour, noise, t) for t in range(1, n + 1)]
    return ss.read_log(columns(played), **{**problem.interface, **options})


@pytest.mark.parametrize("stationary", [True, False])
def test_the_whole_way(stationary: bool) -> None:
    """10 logs of 500 episodes: nothing unsafe is called safe, limits are kept, and most of the reward is found."""
    problem = ward()
    cmdp = problem.cmdp
    best, did = ss.solve(cmdp).value, ss.evaluate(cmdp, PRACTICE)
    kept, gains = 0, []
    for seed in range(10):
        log = logged(problem, PRACTICE, 500, 100 + seed, stationary=stationary)
        proposal = ss.propose(log)
        found = ss.evaluate(cmdp, proposal.policy)
        safe = bool(found.constraints[0] <= cmdp.limits[0])
        kept += safe
        gains.append((found.value - did.value) / (best - did.value))
        assert proposal.certificate.verdict == ("unknown",)
        assert proposal.certificate.covers(proposal.policy)
        assert proposal.practice.verdict[0] != "unsafe"  # 1.02 of 1.4
        low, high = proposal.threshold_bounds
        assert low[0] <= cmdp.limits[0] <= high[0]
        assert "Nothing is proven of this policy" in str(proposal)
    assert kept >= 9
    assert np.median(gains) >= 0.3


def test_the_margin_covers_what_a_trial_needs_and_what_the_counts_leave_open() -> None:
    problem = ward()
    log = logged(problem, PRACTICE, 400)
    short, long = (ss.propose(log, trial=n) for n in (100, 10_000))
    assert short.room[0] > long.room[0] > 0.0
    # One standard error, and half of what the log leaves open of the limit.
    half = np.subtract(*long.threshold_bounds[::-1])[0] / 2.0
    error = float(np.sqrt(long.room_errors[0] ** 2 - 0.0))
    assert long.room[0] >= half
    assert long.room[0] <= half + 1.5 * error
    even, bold = (ss.propose(log, trial=10_000, stance=xi) for xi in (0.5, "optimistic"))
    assert even.room[0] == pytest.approx(0.0, abs=1e-6)
    assert bold.room[0] < -half
    assert bold.trial_episodes is None
    assert "keeps no margin" in bold.reasons[-1]
    assert short.reward < long.reward < even.reward < bold.reward


def test_a_proposal_takes_about_the_trial_that_it_says() -> None:
    problem = ward()
    proposal = ss.propose(logged(problem, PRACTICE, 500, stationary=True))
    assert proposal.trial_episodes is not None
    trial = ss.certify(problem, proposal.policy, episodes=4 * proposal.trial_episodes)
    assert trial.verdict == ("safe",)


def table(actions: list[int], rewards: list[float]) -> dict[str, Any]:
    """One state, one step: what was done, and what it paid."""
    n = len(actions)
    return {
        "episode": range(n), "step": [0] * n, "state": [0] * n, "action": actions, "reward": rewards,
        "constraint_0": [1.0] * n, "threshold_0": [0.2] * n, "next_state": [0] * n,
    }  # fmt: skip


def test_what_was_never_or_hardly_tried_stays_out() -> None:
    # Action 1 was tried nine times and paid most, action 3 never.
    actions = [0] * 60 + [1] * 9 + [2] * 40
    rewards = [0.5] * 60 + [1.0] * 9 + [0.6] * 40
    log = ss.read_log(table(actions, rewards), actions=4)
    careful = ss.propose(log)
    assert careful.policy[0, 0].tolist() == [0.0, 0.0, 1.0, 0.0]
    assert ss.propose(log, cases=9).policy[0, 0].tolist() == [0.0, 1.0, 0.0, 0.0]
    # Where nothing was done often, what was done most often is followed.
    assert ss.propose(log, cases=100).policy[0, 0].tolist() == [1.0, 0.0, 0.0, 0.0]
    assert any(
        "not followed: 1 that nobody took there and 1 taken in fewer than 10 cases." in each
        for each in careful.reasons
    )


def test_the_policy_that_made_the_log_keeps_its_proof() -> None:
    log = ss.read_log(table([0] * 200, [0.5] * 200))
    proposal = ss.propose(log, behaviour=[[1.0]])
    assert proposal.certificate.verdict == ("safe",)
    assert "It is the policy that made the log" in proposal.reasons[-1]
    assert ss.propose(log).certificate.verdict == ("unknown",)


def test_steps_share_what_was_tried_only_where_they_are_said_to_be_alike() -> None:
    """Action 1 pays more, and was tried at the second step alone."""
    n = 200
    action = np.ravel([[0, k % 2] for k in range(n)])
    rows = {
        "episode": np.repeat(range(n), 2), "step": np.tile([0, 1], n), "state": [0] * 2 * n, "action": action,
        "reward": np.where(action == 1, 0.8, 0.2), "constraint_0": [1.0] * 2 * n, "threshold_0": [0.2] * 2 * n,
        "next_state": [0] * 2 * n,
    }  # fmt: skip
    apart, alike = (ss.propose(ss.read_log(rows, stationary=s)).policy for s in (False, True))
    assert apart[:, 0].tolist() == [[1.0, 0.0], [0.0, 1.0]]
    assert alike[:, 0].tolist() == [[0.0, 1.0], [0.0, 1.0]]


def test_an_action_that_may_not_be_taken_at_a_step_is_not_untried_there() -> None:
    n, mask = 30, np.ones((2, 1, 2), np.bool_)
    mask[1, 0, 1] = False
    rows = {
        "episode": np.repeat(range(n), 2), "step": np.tile([0, 1], n), "state": [0] * 2 * n,
        "action": np.ravel([[k % 2, 0] for k in range(n)]), "reward": [0.5] * 2 * n,
        "constraint_0": [1.0] * 2 * n, "threshold_0": [0.2] * 2 * n, "next_state": [0] * 2 * n,
    }  # fmt: skip
    left_out = ("No action is left out", "not followed: 1 that nobody took there.")
    for given, words in zip((mask, None), left_out, strict=True):
        said = ss.propose(ss.read_log(rows, action_mask=given)).reasons
        assert any(words in each for each in said)


@pytest.mark.parametrize("judge", [ss.propose, lambda log: ss.evaluate_log(log, [[1.0]])])
def test_what_is_no_log_is_refused_by_name(judge: Any) -> None:
    with pytest.raises(ss.errors.InvalidOption, match="takes a log, as read_log gives it; got str"):
        judge("log.csv")


def test_a_stance_of_one_half_plans_for_the_middle_of_the_limit() -> None:
    """Action 0 keeps 1 and earns little, action 1 keeps nothing: as often as the limit asks for, to the last bit."""
    actions = [0, 1] * 100
    rows = {
        **table(actions, [0.2, 0.9] * 100), "constraint_0": [1.0, 0.0] * 100, "threshold_0": [0.3, 0.7] * 100,
    }  # fmt: skip
    even = ss.propose(ss.read_log(rows), stance=0.5)
    assert even.room[0] == pytest.approx(0.0, abs=1e-6)
    low, high = even.threshold_bounds
    assert even.policy[0, 0, 0] == pytest.approx((low[0] + high[0]) / 2.0, abs=0.01)


def test_errors_are_those_of_means_in_the_users_units() -> None:
    """0.6 of 1,000 rewards are 10, 0.8 of the constraints 1, and limits are sampled at 0 and 0.4."""
    n = 1_000
    rows = {
        **table([0] * n, [10.0] * 600 + [0.0] * 400),
        "constraint_0": ([1.0] * 4 + [0.0]) * 200,
        "threshold_0": [0.0, 0.4] * 500,
    }
    log = ss.read_log(rows, ranges={"reward": (0, 10)})
    found = ss.propose(log, delta=0.1)
    assert found.reward == pytest.approx(6.0, rel=0.01)
    assert found.reward_error == pytest.approx(10.0 * np.sqrt(0.6 * 0.4 / n), rel=0.01)
    assert found.room[0] == pytest.approx(0.6, abs=0.01)
    assert found.room_errors[0] == pytest.approx(np.sqrt((0.8 * 0.2 + 0.04) / n), rel=0.01)
    assert found.trial_episodes == episodes_needed(0.6, np.sqrt(0.8 * 0.2 + 0.04), 0.1, worst=1.0)
    assert (found.certificate.confidence, found.certificate.difference_confidence) == (0.9, 0.9)
    assert found.certificate.episodes == 0


def test_signals_that_never_vary_are_not_proven_by_one_episode() -> None:
    """Half a step of room, and one episode could break the limit by a whole one: ln 20 / ln 1.5 episodes."""
    rows = {
        **table([0] * 500, [0.5] * 500),
        "constraint_0": [0.8] * 500,
        "threshold_0": [0.3] * 500,
    }
    found = ss.propose(ss.read_log(rows))
    assert found.room[0] == pytest.approx(0.5, abs=0.01)
    assert found.trial_episodes == 8
    assert "about 8 episodes" in found.reasons[-1]


def test_two_limits_share_delta() -> None:
    """So each is known as well as one alone is with half of delta."""
    rng, n = np.random.default_rng(0), 60
    hints = rng.random((2, n))
    both = {
        **table([0] * n, [0.5] * n), "threshold_0": hints[0], "constraint_1": [1.0] * n, "threshold_1": hints[1],
    }  # fmt: skip
    found = proven_limits(ss.read_log(both), delta=0.1)
    for i in (0, 1):
        one = {**table([0] * n, [0.5] * n), "threshold_0": hints[i]}
        for end, alone in zip(found, proven_limits(ss.read_log(one), delta=0.05), strict=True):
            assert end[i] == pytest.approx(alone[0], abs=1e-12)
        # Two sides of each share it, too.
        assert found[0][i] == pytest.approx(ref.fixed_mean(hints[i], 0.1 / 4, n), abs=1e-9)


def test_what_is_declared_of_thresholds_bounds_them() -> None:
    rows, limit = table([0] * 20, [0.5] * 20), ss.Limit(threshold_total=(0.1, 0.4))
    low, high = ss.propose(ss.read_log(rows, limits=limit)).threshold_bounds
    assert 0.1 < low[0] < 0.2 < high[0] < 0.4
    wide = ss.propose(ss.read_log(rows)).threshold_bounds
    assert wide[0][0] < low[0] < high[0] < wide[1][0]


def test_wrong_calls_say_what_to_do() -> None:
    with pytest.raises(ss.errors.InvalidFile, match="no usable episodes"):
        ss.propose(ss.read_log(table([0], [7.0])))
    log = ss.read_log(table([0] * 20, [0.5] * 20))
    with pytest.raises(ss.errors.InvalidOption, match="cases"):
        ss.propose(log, cases=0)
    with pytest.raises(ss.errors.InvalidOption, match="trial"):
        ss.propose(log, trial=0)


def test_a_practice_that_breaks_the_limit_is_told_of() -> None:
    problem = ward()
    rough = np.tile([0.1, 0.3, 0.6], (4, 1))
    proposal = ss.propose(logged(problem, rough, 300))
    assert proposal.practice.verdict == ("unsafe",)
    assert any("What was done is proven to break limit 0" in each for each in proposal.reasons)
    assert proposal.room[0] > 0.0


def test_steps_that_differ_are_told_of_and_counted_apart() -> None:
    rng = np.random.default_rng(0)
    n = 400
    rows = {
        "episode": np.repeat(range(n), 2), "step": np.tile([0, 1], n), "state": [0] * 2 * n, "action": [0] * 2 * n,
        "reward": np.where(np.tile([0, 1], n) == 0, rng.random(2 * n) < 0.9, rng.random(2 * n) < 0.1).astype(float),
        "constraint_0": [1.0] * 2 * n, "threshold_0": [0.2] * 2 * n, "next_state": [0] * 2 * n,
    }  # fmt: skip
    proposal = ss.propose(ss.read_log(rows, stationary=True))
    assert "The steps of the log are not alike (state 0, action 0)" in proposal.reasons[1]
    known = ss.propose(ss.read_log(rows, limits=ss.Limit(threshold=0.3)))
    assert any("is given: 0.3." in each for each in known.reasons)
