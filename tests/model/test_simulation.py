"""Playing: the same noise for the same seed, one stream per purpose, the right frequencies."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

import safespot as ss
from safespot.model.simulation import (
    as_laws,
    draw_noise,
    play_kernel,
    set_stream_states,
    stream_states,
)
from safespot.model.transitions import pick
from tests.support.models import Arguments, random_policy, tables, valid

NOISY: list[Any] = [
    ss.signals.Bernoulli(),
    ss.signals.Beta(3.0),
    ss.signals.Gaussian(0.2),
    ss.signals.Deterministic(),
]


def ward(signals: ss.signals.Signals | None = None, **options: Any) -> tuple[ss.Problem, Any]:
    """A start distribution, a mask and two limits; with a policy that uses all of it."""
    problem = ss.Problem(ss.problems.make("triage", **options).cmdp, signals)
    policy = np.array([[0.25, 0.75, 0.0], [0.2, 0.3, 0.5]])
    return problem, np.repeat(policy[None], problem.cmdp.H, axis=0)


def episodes(problem: ss.Problem, policy: Any, seed: int, n: int) -> list[ss.Episode]:
    streams = ss.streams(seed)
    return [ss.play(problem, policy, streams, t) for t in range(1, n + 1)]


def test_the_same_seed_gives_the_same_episodes() -> None:
    problem, policy = ward()
    assert episodes(problem, policy, 7, 20) == episodes(problem, policy, 7, 20)
    assert episodes(problem, policy, 7, 20) != episodes(problem, policy, 8, 20)
    one = episodes(problem, policy, 7, 20)
    assert one[0] != one[1]  # the streams advance


def test_generators_stand_where_they_stood() -> None:
    ours = ss.streams(7)
    for stream in ours:
        stream.random(5)
        stream.integers(0, 2**31, dtype=np.int32)  # leaves 32 bits to spare
    theirs = ss.streams(0)
    set_stream_states(theirs, stream_states(ours))
    for mine, other in zip(ours, theirs, strict=True):
        assert mine.bit_generator.state == other.bit_generator.state
        assert mine.standard_normal(9).tobytes() == other.standard_normal(9).tobytes()


def test_streams_differ_from_each_other_and_from_other_seeds() -> None:
    draws = [generator.random(4).tolist() for seed in range(3) for generator in ss.streams(seed)]
    assert len({tuple(draw) for draw in draws}) == 18
    # NumPy makes the same generator of [42, 0] and 42; explicit keys do not collide like that.
    assert ss.streams(42).start.random() != np.random.default_rng(42).random()


@pytest.mark.parametrize("kind", ["rewards", "constraints", "thresholds"])
@pytest.mark.parametrize("law", NOISY, ids=repr)
def test_another_law_leaves_the_other_purposes_alone(kind: str, law: Any) -> None:
    problem, policy = ward()
    other, _ = ward(ss.signals.Signals(**{kind: law}))
    for ours, theirs in zip(
        episodes(problem, policy, 3, 30), episodes(other, policy, 3, 30), strict=True
    ):
        for name in ("states", "actions", "rewards", "constraints", "thresholds"):
            if name != kind:
                np.testing.assert_array_equal(getattr(ours, name), getattr(theirs, name))


def test_every_purpose_has_its_own_law_and_parameter() -> None:
    kinds = ("rewards", "constraints", "thresholds")
    mixtures: list[list[Any]] = [
        [ss.signals.Beta(2.0), ss.signals.Beta(5.0), ss.signals.Beta(11.0)],
        [ss.signals.Gaussian(0.1), ss.signals.Deterministic(), ss.signals.Beta(3.0)],
        [ss.signals.Deterministic(), ss.signals.Beta(3.0), ss.signals.Gaussian(0.1)],
        [ss.signals.Beta(3.0), ss.signals.Gaussian(0.1), ss.signals.Deterministic()],
    ]
    for laws in mixtures:
        problem, policy = ward(ss.signals.Signals(*laws))
        mixed = episodes(problem, policy, 4, 1)
        for kind, law in zip(kinds, laws, strict=True):
            alone = episodes(ward(ss.signals.Signals(law, law, law))[0], policy, 4, 1)
            for ours, theirs in zip(mixed, alone, strict=True):
                np.testing.assert_array_equal(getattr(ours, kind), getattr(theirs, kind))


def test_another_policy_meets_the_same_noise() -> None:
    problem, policy = ward()
    waiting = np.zeros_like(policy)
    waiting[..., 0] = 1.0
    ours, theirs = episodes(problem, policy, 3, 50), episodes(problem, waiting, 3, 50)
    # Here neither the patients nor the thresholds depend on what is done.
    for mine, yours in zip(ours, theirs, strict=True):
        np.testing.assert_array_equal(mine.states, yours.states)
        np.testing.assert_array_equal(mine.thresholds, yours.thresholds)
    assert any((m.actions != y.actions).any() for m, y in zip(ours, theirs, strict=True))


@pytest.mark.parametrize("law", NOISY, ids=repr)
def test_noise_drawn_in_chunks_is_noise_drawn_one_by_one(law: Any) -> None:
    problem, _ = ward(ss.signals.Signals(law, law, law))
    whole = draw_noise(problem, ss.streams(5), 12)
    streams = ss.streams(5)
    parts = [draw_noise(problem, streams, n) for n in (1, 4, 7)]
    for together, pieces in zip(whole, zip(*parts, strict=True), strict=True):
        np.testing.assert_array_equal(together, np.concatenate(pieces))


@given(valid(feasible=False), st.integers(0, 2**32 - 1), st.integers(0, 3))
def test_the_compiled_loop_gives_the_bits_of_plain_python(
    arguments: Arguments, seed: int, which: int
) -> None:
    law = NOISY[which]
    problem = ss.Problem(ss.CMDP(**arguments), ss.signals.Signals(law, law, law))
    cmdp = problem.cmdp
    policy = random_policy(tables(arguments).mask, np.random.default_rng(seed))
    noise = draw_noise(problem, ss.streams(seed), 3)
    plain: Any = play_kernel
    runs = []
    for run in (play_kernel, plain.py_func):
        H, m = cmdp.H, cmdp.m
        out = (
            np.zeros(H + 1, int),
            np.zeros(H, int),
            np.zeros(H),
            np.zeros((H, m)),
            np.zeros((H, m)),
        )
        run(cmdp.model, problem.alpha(1), as_laws(problem), noise, 2, policy, *out)
        runs.append(out)
    for compiled, python in zip(*runs, strict=True):
        np.testing.assert_array_equal(compiled, python)


@given(valid(feasible=False), st.integers(0, 2**32 - 1))
def test_an_episode_keeps_to_what_is_possible(arguments: Arguments, seed: int) -> None:
    t = tables(arguments)
    problem = ss.Problem(ss.CMDP(**arguments))
    policy = random_policy(t.mask, np.random.default_rng(seed))
    for episode in episodes(problem, policy, seed, 5):
        s, a = episode.states, episode.actions
        steps = np.arange(problem.cmdp.H)
        assert t.start[s[0]] > 0
        assert t.mask[steps, s[:-1], a].all()
        assert (t.transitions[steps, s[:-1], a, s[1:]] > 0).all()
        # Bernoulli signals are one of the two ends of the declared ranges.
        assert np.isin(episode.rewards, np.round(t.reward_range, 12)).all()
        for i, ends in enumerate(t.constraint_ranges):
            assert np.isin(episode.constraints[:, i], ends).all()
            assert np.isin(episode.thresholds[:, i], ends).all()


@given(valid(feasible=False), st.integers(0, 2**32 - 1))
def test_without_noise_the_means_are_seen_in_the_users_units(
    arguments: Arguments, seed: int
) -> None:
    t = tables(arguments)
    quiet = ss.signals.Signals(
        ss.signals.Deterministic(), ss.signals.Deterministic(), ss.signals.Deterministic()
    )
    problem = ss.Problem(ss.CMDP(**arguments), quiet)
    policy = random_policy(t.mask, np.random.default_rng(seed))
    (episode,) = episodes(problem, policy, seed, 1)
    at = np.arange(problem.cmdp.H), episode.states[:-1], episode.actions
    np.testing.assert_allclose(episode.rewards, t.rewards[at], rtol=0, atol=1e-12)
    constraints = t.constraints[:, at[0], at[1], at[2]].T
    np.testing.assert_allclose(episode.constraints, constraints, rtol=0, atol=1e-12)
    np.testing.assert_allclose(episode.thresholds, t.thresholds.T, rtol=0, atol=1e-12)


def test_frequencies_are_the_probabilities() -> None:
    """Start, actions, next states and the three kinds of signals, by chi-square; the seed is fixed."""
    rng = np.random.default_rng(0)
    S, A, H, n = 3, 2, 2, 6_000
    P = rng.dirichlet(np.ones(S), (H, S, A))
    start, policy = np.array([0.2, 0.5, 0.3]), rng.dirichlet(np.ones(A), (H, S))
    cmdp = ss.CMDP(P, rng.random((H, S, A)), rng.random((1, H, S, A)), rng.random((1, H)), start)
    played = episodes(ss.Problem(cmdp), policy, 11, n)
    s, a = np.array([e.states for e in played]), np.array([e.actions for e in played])
    rewards = np.array([e.rewards for e in played])
    constraints = np.array([e.constraints[:, 0] for e in played])
    thresholds = np.array([e.thresholds[:, 0] for e in played])

    def fits(values: Any, probabilities: Any) -> None:
        counts = np.bincount(values, minlength=len(probabilities))
        # About sixty such tests are made: one in 60,000 keeps the family's error near one in 1,000.
        assert stats.chisquare(counts, len(values) * probabilities).pvalue > 1 / 60_000

    fits(s[:, 0], start)
    for h in range(H):
        alpha = float(cmdp.thresholds[0, h])
        fits(thresholds[:, h].astype(int), np.array([1 - alpha, alpha]))
        for state in range(S):
            here = s[:, h] == state
            fits(a[here, h], policy[h, state])
            for action in range(A):
                both = here & (a[:, h] == action)
                fits(s[both, h + 1], P[h, state, action])
                for seen, mean in ((rewards, cmdp.rewards), (constraints, cmdp.constraints[0])):
                    p = float(mean[h, state, action])
                    fits(seen[both, h].astype(int), np.array([1 - p, p]))
    # Signals of one step are independent of each other.
    table = np.histogram2d(rewards[:, 0], thresholds[:, 0], bins=2)[0]
    assert stats.chi2_contingency(table).pvalue > 1e-4


@given(
    st.lists(st.sampled_from([0.0, 0.0, 0.1, 0.25, 1.0]), min_size=1, max_size=6).filter(any),
    st.floats(0.0, 1.0, exclude_max=True),
)
def test_picking_inverts_the_cumulated_probabilities(weights: list[float], u: float) -> None:
    p = np.array(weights) / np.sum(weights)
    plain: Any = pick
    k = pick(p, u)
    assert p[k] > 0.0
    assert p[:k].sum() <= u + 1e-15
    assert u < p[: k + 1].sum() + 1e-15
    assert k == plain.py_func(p, u)


@pytest.mark.parametrize("seed", [-1, 1.0, "0", None, True, [1, 2]])
def test_a_wrong_seed_is_refused(seed: Any) -> None:
    with pytest.raises(ss.errors.InvalidOption, match="seed"):
        ss.streams(seed)


def test_wrong_calls_are_refused_before_anything_is_drawn() -> None:
    problem, policy = ward()
    streams, untouched = ss.streams(0), ss.streams(0)
    bad: Any
    for bad in (policy[:2], policy * 0.5, np.full_like(policy, 1 / 3), "best", None):
        with pytest.raises(ss.errors.InvalidModel, match="policy"):
            ss.play(problem, bad, streams, 1)
    for bad in (-1, 1.0, "1", None):
        with pytest.raises(ss.errors.InvalidOption, match="episode"):
            ss.play(problem, policy, streams, bad)
    for bad in (0, None, np.random.default_rng(0), tuple(streams)):
        with pytest.raises(ss.errors.InvalidOption, match="streams"):
            ss.play(problem, policy, bad, 1)
    assert ss.play(problem, policy, streams, 1) == ss.play(problem, policy, untouched, 1)
