"""Bounds from a log on a policy that did not make it: what they are made of, and how often they hold."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from scipy.stats import binomtest

import safespot as ss
from safespot.data.logs import columns
from safespot.judging import off_policy
from tests.evidence import reference as ref

COIN = np.array([[0.5, 0.5], [0.5, 0.5]])
GENTLE, FAST = np.array([[1.0, 0.0], [1.0, 0.0]]), np.array([[0.0, 1.0], [0.0, 1.0]])


def toy(g: float = 0.7, limit: float = 1.2) -> ss.Problem:
    """Two states, two steps: action 0 keeps g and stays, action 1 earns more, keeps less and moves."""
    transitions = np.zeros((2, 2, 2))
    transitions[:, 0, 0] = transitions[:, 1, 1] = 1.0
    rewards = [[0.3, 0.9], [0.2, 0.6]]
    constraints = [[[g, 0.4], [0.9, 0.1]]]
    return ss.Problem(ss.CMDP(transitions, rewards, constraints, [limit], horizon=2))


def logged(problem: ss.Problem, behaviour: Any, n: int, seed: int = 0, **options: Any) -> ss.Log:
    noise = ss.streams(seed)
    played = [ss.play(problem, behaviour, noise, t) for t in range(1, n + 1)]
    return ss.read_log(columns(played), **problem.interface, **options)


@pytest.mark.parametrize("known", [False, True])
def test_bounds_are_those_of_the_slow_reading(known: bool) -> None:
    """Each difference has the share delta / m, on three episodes of four; nothing is clipped, as weights are small."""
    problem, behaviour = toy(), np.array([[0.8, 0.2], [0.7, 0.3]])
    log = logged(problem, behaviour, 400, thresholds=[1.2] if known else None)
    pi = np.array([[0.9, 0.1], [0.6, 0.4]])
    found = ss.evaluate_log(log, pi, behaviour, delta=0.1)
    certificate = found.certificate
    assert certificate.confidence == pytest.approx(0.9)
    assert certificate.difference_confidence == pytest.approx(0.8)
    rest = [e for t, e in enumerate(log.episodes) if t % 4 != 3]
    states, actions = (np.array([getattr(e, k) for e in rest]) for k in ("states", "actions"))
    ratios = (pi / behaviour)[states[:, :-1], actions]
    w, g = ratios.cumprod(axis=1), np.array([e.constraints[:, 0] for e in rest])
    x = np.full_like(g, 0.6) if known else np.array([e.thresholds[:, 0] for e in rest])
    for end, sums in enumerate((w * g + 1.0 - x, w * (1.0 - g) + x)):
        total, scale = sums.sum(axis=1) - (0.8, 1.2)[end] * known, 4.0 + 2.0 * (not known)
        lower = scale * ref.fixed_mean(total / scale, 0.1, len(rest))
        lower += (0.8, 1.2)[end] * known
        expected = (lower - 2.0) * (1.0, -1.0)[end]
        assert found.difference_bounds[end][0] == pytest.approx(expected, abs=1e-9)
    share = 0.1 / (
        4 if known else 6
    )  # reward, value, and the threshold where it is seen; two sides each
    rewards = np.array([e.rewards for e in rest])
    lower = 4.0 * ref.fixed_mean((w * rewards).sum(axis=1) / 4.0, share, len(rest))
    assert found.reward_bounds[0] == pytest.approx(lower, abs=1e-9)
    assert found.effective_episodes == pytest.approx(w[:, 1].sum() ** 2 / (w[:, 1] ** 2).sum())


def test_effective_episodes_count_the_whole_episode() -> None:
    """Kish's number of the weights at the last of three steps, of the episodes that chose nothing."""
    cmdp = ss.CMDP(np.ones((1, 2, 1)), [[0.2, 0.9]], [[[0.9, 0.1]]], [1.0], horizon=3)
    log = logged(ss.Problem(cmdp), [[0.5, 0.5]], 200)
    pi = np.array([[[0.9, 0.1]], [[0.8, 0.2]], [[0.3, 0.7]]])
    found = ss.evaluate_log(log, pi, [[0.5, 0.5]])
    rest = [e for t, e in enumerate(log.episodes) if t % 4 != 3]
    w = np.array([np.prod(pi[range(3), 0, e.actions] / 0.5) for e in rest])
    assert found.effective_episodes == pytest.approx(w.sum() ** 2 / (w**2).sum())


@pytest.mark.parametrize("clip", [1.0, 2.0, 8.0, 1e9])
def test_clipping_only_lowers_what_is_bounded_from_below(clip: float) -> None:
    """Exactly: the mean of clipped sums over all episodes is at most the value, and equal to it where nothing is."""
    behaviour, pi = np.array([[0.9, 0.1], [0.6, 0.4]]), np.array([[0.2, 0.8], [0.5, 0.5]])
    mean = value = 0.0
    u = np.array([[0.7, 0.4], [0.9, 0.1]])
    for actions in itertools.product(range(2), repeat=2):
        states = [0, actions[0]]
        chance = float(np.prod([behaviour[s, a] for s, a in zip(states, actions, strict=True)]))
        w = np.cumprod([pi[s, a] / behaviour[s, a] for s, a in zip(states, actions, strict=True)])
        steps = u[states, list(actions)][None]
        stated = off_policy._Statement(steps, 2.0, np.zeros(1), 0.0, 0.0, 2.0)
        mean += chance * float(off_policy._clipped(stated, w[None], clip)[0])
        value += (
            float(np.prod([pi[s, a] for s, a in zip(states, actions, strict=True)])) * steps.sum()
        )
    assert mean <= value + 1e-12
    assert (mean == pytest.approx(value)) == (clip > 8.0)
    problem = toy()
    assert value == pytest.approx(ss.evaluate(problem.cmdp, pi).constraints[0])


def test_what_the_behaviour_never_does_only_widens() -> None:
    problem = toy()
    log = logged(problem, GENTLE, 300)
    found = ss.evaluate_log(log, 0.5 * GENTLE + 0.5 * FAST, GENTLE)
    truth = ss.evaluate(problem.cmdp, 0.5 * GENTLE + 0.5 * FAST)
    assert found.value_bounds[0][0] <= truth.constraints[0] <= found.value_bounds[1][0]
    assert found.reward_bounds[0] <= truth.value <= found.reward_bounds[1]
    nothing = ss.evaluate_log(log, FAST, GENTLE)
    assert nothing.effective_episodes == 0.0
    assert nothing.certificate.verdict == ("unknown",)
    (line,) = str(nothing).splitlines()
    assert "its 225 episodes are worth 0 of the policy's own" in line


def test_propensities_of_the_log_are_as_good_as_the_behaviour() -> None:
    problem = toy()
    noise = ss.streams(1)
    played = [ss.play(problem, COIN, noise, t) for t in range(1, 201)]
    table = {**columns(played), "propensity": np.full(400, 0.5)}
    log = ss.read_log(table, **problem.interface)
    for policy in (GENTLE, FAST):
        ours, given = (ss.evaluate_log(log, policy, b).certificate for b in (None, COIN))
        np.testing.assert_array_equal(ours.difference_bounds, given.difference_bounds)
    table["propensity"][7] = 0.0
    with pytest.raises(ss.errors.InvalidOption, match="propensity of usable episode 4 at"):
        ss.evaluate_log(ss.read_log(table, **problem.interface), GENTLE)


def missed(delta: float, runs: int, n: int) -> int:
    """In how many logs a policy that breaks its limit by a hair is called safe."""
    problem = toy(g=0.5999, limit=1.2)  # of the gentle policy, whose value is 1.1998
    behaviour = 0.7 * GENTLE + 0.3 * FAST
    wrong = 0
    for seed in range(runs):
        log = logged(problem, behaviour, n, seed, thresholds=[1.2])
        wrong += (
            ss.evaluate_log(log, GENTLE, behaviour, delta=delta).certificate.verdict[0] == "safe"
        )
    return wrong


@pytest.mark.slow
def test_few_bounds_are_wrong() -> None:
    runs = 400
    wrong = missed(0.2, runs, 100)
    assert binomtest(wrong, runs, 0.2, alternative="greater").pvalue > 0.01
    # Clipping and a fourth of the episodes given away make it careful. That it comes near the truth at all is seen
    # at a confidence of a fifth: a bound that is never near the truth is never wrong.
    assert missed(0.8, runs, 100) >= 5


@pytest.mark.slow
def test_a_policy_that_agrees_nine_times_in_ten_is_known_almost_as_from_a_trial() -> None:
    problem = ss.problems.make("dosing")
    cmdp = problem.cmdp
    pi = ss.solve(cmdp).policy
    behaviour = 0.9 * pi + 0.1 / cmdp.A
    found = ss.evaluate_log(logged(problem, behaviour, 4_000), pi, behaviour).certificate
    trial = ss.certify(problem, pi, episodes=4_000)
    widths = [float(np.subtract(*each.difference_bounds[::-1])[0]) for each in (found, trial)]
    assert widths[0] <= 4.0 * widths[1]
    assert found.difference_bounds[0][0] <= 0.0 <= found.difference_bounds[1][0]


def test_wrong_calls_say_what_to_do() -> None:
    problem = toy()
    log = logged(problem, COIN, 20)
    with pytest.raises(ss.errors.InvalidOption, match=r"Give behaviour=.*'propensity'"):
        ss.evaluate_log(log, GENTLE)
    with pytest.raises(ss.errors.InvalidOption, match=r"policy: .*sums to"):
        ss.evaluate_log(log, np.array([[0.5, 0.4], [1, 0]]), COIN)
    with pytest.raises(ss.errors.InvalidOption, match="behaviour never takes action"):
        ss.evaluate_log(log, GENTLE, GENTLE)
    with pytest.raises(ss.errors.InvalidOption, match=r"7 episodes .* at least 8"):
        ss.evaluate_log(logged(problem, COIN, 7), GENTLE, COIN)
