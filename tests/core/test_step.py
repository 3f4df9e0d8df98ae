"""The step of SPOT, whole and part by part, against `safespot.reference`, brute counting and Numba's kernels."""

from __future__ import annotations

import hashlib
import math
from typing import Any

import numpy as np
import pytest

import safespot as ss
from safespot import _core
from safespot.reference import ReferenceSpot
from safespot.spot import visits
from safespot.spot.visits import empty_statistics, grow_statistics
from safespot.spot.window import empty_window
from tests.core.support import Bound, Record, inside, wild_episodes
from tests.support.episodes import random_episode, random_mask

MASK = random_mask(np.random.default_rng(0), 3, 4, 3)
OPTIONS: dict[str, dict[str, Any]] = {
    "default": {},
    "scaled": {"bonus_scale": 0.02, "threshold_scale": 0.1},
    "bernstein": {"bonus": "bernstein", "bonus_scale": 0.02, "window": 0.3, "start": None},
    "masked": {"action_mask": MASK, "bonus_scale": 0.02, "window": 0.5, "stance": "optimistic"},
    "pooled": {"estimator": "pooled", "bonus_scale": 0.02, "stance": 0.3, "clip_thresholds": False},
    "known": {"thresholds": [1.5, 2.0], "policy_step": 0.5, "bonus_scale": 0.0},
    "steep": {"policy_step": 800.0, "dual_step": 5.0, "bonus_scale": 0.01},  # exp underflows
    "short window": {"window": 0.01, "bonus_scale": 0.02, "threshold_scale": 0.3},
}
SIZES = [(4, 3, 3, 2), (3, 2, 3, 1), (1, 1, 1, 1), (2, 1, 4, 3), (5, 9, 2, 1), (9, 5, 2, 4)]


def made(S: int, A: int, H: int, m: int, **options: Any) -> ss.Spot:
    return ss.Spot(S, A, H, m, episodes=200, rho=3.0, **options)


@pytest.mark.parametrize("dense", [True, False])
@pytest.mark.parametrize("name", OPTIONS)
def test_whole_steps_are_those_of_the_reference(name: str, dense: bool) -> None:
    for S, A, H, m in SIZES if "mask" not in name else SIZES[:1]:
        options = dict(OPTIONS[name])
        if "thresholds" in options:
            options["thresholds"] = [0.6 * H] * m
        learner, slow = made(S, A, H, m, **options), None
        slow = ReferenceSpot(S, A, H, m, episodes=200, rho=3.0, **options)
        bound = Bound(learner, dense=dense)
        rng = np.random.default_rng(S)
        means = rng.random((H, S, A))
        for e in wild_episodes(learner, 60, H, means=means):
            np.testing.assert_allclose(bound.state.pi, slow.policy, atol=1e-10)
            np.testing.assert_allclose(bound.state.lam, slow.multipliers, atol=1e-10)
            np.testing.assert_allclose(bound.state.lower, slow.threshold_bounds[0], atol=1e-10)
            np.testing.assert_allclose(bound.state.upper, slow.threshold_bounds[1], atol=1e-10)
            bound.observe(e)
            slow.observe(e.states, e.actions, e.rewards, e.constraints, e.thresholds)
        np.testing.assert_allclose(bound.state.pi, slow.policy, atol=1e-10)
        visited = slow.count.reshape(H, S * A)
        np.testing.assert_array_equal(bound.statistics.n, visited)
        np.testing.assert_array_equal(bound.state.weight > 0.0, visited > 0)


@pytest.mark.parametrize("dense", [True, False])
@pytest.mark.parametrize("name", OPTIONS)
def test_truncated_evaluation_is_that_of_the_reference(name: str, dense: bool) -> None:
    S, A, H, m = SIZES[0]
    learner = made(S, A, H, m, **OPTIONS[name])
    slow = ReferenceSpot(S, A, H, m, episodes=200, rho=3.0, **OPTIONS[name])
    bound = Bound(learner, dense=dense)
    for e in wild_episodes(learner, 40, 3):
        bound.observe(e)
        slow.observe(e.states, e.actions, e.rewards, e.constraints, e.thresholds)
    slow.multipliers[:] = 0.3, 1.7
    Q, V = np.zeros((1 + m, H, S * A)), np.zeros((1 + m, S))
    bound.core.evaluate(slow.policy.reshape(H, S * A), slow.multipliers, Q, V)
    priced = Q[0] + np.tensordot(slow.multipliers, Q[1:], axes=1)
    expected, at_start = slow._evaluate()
    admissible = slow.mask.reshape(H, S * A)
    np.testing.assert_allclose(
        priced[admissible], expected.reshape(H, S * A)[admissible], atol=1e-10
    )
    np.testing.assert_allclose(
        V[0], (Q[0, 0].reshape(S, A) * slow.policy[0]).sum(axis=1), atol=1e-10
    )
    if slow.start is not None:
        np.testing.assert_allclose(V[1:, slow.start], at_start, atol=1e-10)


@pytest.mark.parametrize("level", _core.levels)
@pytest.mark.parametrize("dense", [2**22, 0])
@pytest.mark.parametrize("name", OPTIONS)
def test_steps_have_the_bits_of_the_kernels_that_they_replace(
    name: str, dense: int, level: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every array, derived ones included, at each level of vector instructions: one digest for all."""
    monkeypatch.setattr(visits, "DENSE", dense)
    learner = made(*SIZES[0], **OPTIONS[name])
    bound = Bound(learner, level, dense=dense > 0)
    for e in wild_episodes(learner, 130, 7):
        learner.observe(e)
        bound.observe(e)
        records = (learner.state, learner.statistics, learner.statistics.successors, learner.window)
        expected = {name: array for record in records for name, array in record._asdict().items()}
        for key, array in bound.arrays().items():
            assert digest(array) == digest(expected[key]), key


def digest(array: Any) -> str:
    return hashlib.blake2b(array.tobytes(), digest_size=16).hexdigest()


@pytest.mark.parametrize(
    "flags", [(0, 0, 0, 0), (1, 0, 0, 0), (0, 1, 0, 1), (1, 1, 1, 1), (1, 0, 1, 0)]
)
@pytest.mark.parametrize("dense", [True, False])
def test_what_is_the_same_at_every_step_is_counted_together(
    flags: tuple[int, ...], dense: bool
) -> None:
    S, A, H, m = 4, 2, 5, 2
    learner = made(S, A, H, m, bonus="bernstein", bonus_scale=0.5)
    K = 1 if flags[0] else H
    blank = empty_statistics(H, S, A, m, dense=True)
    lists = empty_statistics(K, S, A, m, dense=dense)
    record = blank._replace(
        met=lists.met, how_many=lists.how_many, known=lists.known,
        successors=lists.successors if dense else grow_statistics(lists).successors._replace(**room(4000)),
    )  # fmt: skip
    pooling = Record(flags=np.array(flags, bool), n=np.zeros(S * A, np.int64))
    statistics = _core.Statistics(record, pooling)
    window = _core.Window(empty_window(H, S * A, m, 1.0))
    core = _core.Spot(learner.rates, learner.state, statistics, window)
    core.derive()
    rng, mask = np.random.default_rng(1), np.ones((H, S, A), bool)
    n, sums = np.zeros((H, S * A), int), np.zeros((1 + m, H, S * A))
    after = np.zeros((H, S, S * A))
    for _ in range(30):
        e = inside(random_episode(rng, mask, m), A)
        core.observe(e)
        steps = np.arange(H)
        n[steps, e.pairs] += 1
        sums[:, steps, e.pairs] += np.column_stack([e.rewards, e.constraints]).T
        after[steps, e.states[1:], e.pairs] += 1.0
    count = [n.sum(axis=0) if flag else n for flag in flags]
    visits_p, followers = count[0] + 0 * n, (after.sum(axis=0) if flags[0] else after) + 0.0 * after
    radii = learner.rates.radii
    p = followers / np.maximum(visits_p, 1)[:, None]
    with np.errstate(all="ignore"):
        each = np.sqrt(2 * p * (1 - p) * radii.L_b / (visits_p - 1)[:, None])
        each = np.where(followers > 0, each + 7 * radii.L_b / (3 * (visits_p - 1)[:, None]), 0.0)
        bonus_p = np.minimum(H * np.sqrt((S + radii.L_p) / visits_p), H * each.sum(axis=1))
        bonus_p = np.where(visits_p > 1, bonus_p, math.inf)
        for c in range(1 + m):
            visited = count[1 + c] + 0 * n
            total = sums[c].sum(axis=0) if flags[1 + c] else sums[c]
            bar = total / visited + 0.5 * (np.sqrt(radii.L_r / visited) + bonus_p)
            expected = np.where(visited > 0, 1.0 - bar, -math.inf)
            np.testing.assert_allclose(learner.state.deficit[c], expected, atol=1e-10)
    weight = np.where(visits_p > 0, 1.0 / np.maximum(visits_p, 1), 0.0)
    np.testing.assert_allclose(learner.state.weight, weight)
    np.testing.assert_array_equal(record.n, n)
    assert (
        record.how_many.tolist() == (visits_p.reshape(H, S, A).any(axis=2).sum(axis=1)[:K]).tolist()
    )


def room(size: int) -> dict[str, Any]:
    return {
        "actions": np.zeros(size, np.int32), "states": np.zeros(size, np.int32),
        "counts": np.zeros(size), "used": np.zeros(1, np.int64),
    }  # fmt: skip


def test_exponentials_are_exact_to_the_last_bits() -> None:
    x = np.concatenate(
        [-np.logspace(-300, 2.85, 5000), [0.0, -0.0, -708.0, -708.1, -1e9, -math.inf]]
    )
    y = x.copy()
    _core.exponentials(y)
    true = np.where(x < -708.0, 0.0, np.exp(x))
    np.testing.assert_allclose(y, true, rtol=4e-16, atol=0.0)
    assert (y[x < -708.0] == 0.0).all()


@pytest.mark.parametrize("A", [1, 2, 3, 4, 5, 6, 8, 13])
def test_softmax_lifts_rows_that_have_sunk(A: int) -> None:
    rng = np.random.default_rng(A)
    logits = -rng.exponential(3.0, (7, A))
    logits[2] -= 900.0  # below what exp can hold
    logits[3, 1:] = -math.inf  # one admissible action
    logits[:, 0] = np.maximum(logits[:, 0], -950.0)
    before, pi = logits.copy(), np.zeros_like(logits)
    _core.softmax(logits, pi)
    shifted = np.exp(before - before.max(axis=1, keepdims=True))
    np.testing.assert_allclose(
        pi, shifted / shifted.sum(axis=1, keepdims=True), rtol=1e-12, atol=1e-300
    )
    assert (logits <= 0.0).all()
    assert (np.exp(logits).sum(axis=1) >= 0.5).all()


@pytest.mark.parametrize("gamma", [1.0, 0.5, 0.07])
@pytest.mark.parametrize("pooled", [True, False])
def test_windows_hold_the_last_samples(gamma: float, pooled: bool) -> None:
    """Against all samples, kept: counts, exact sums, and the representative of every step."""
    S, A, H, m = 3, 2, 2, 2
    learner = made(S, A, H, m, window=gamma, estimator="pooled" if pooled else "representative")
    slow = ReferenceSpot(
        S, A, H, m, episodes=200, rho=3.0, window=gamma, threshold_scale=0.3,
        estimator="pooled" if pooled else "representative",
    )  # fmt: skip
    radii = learner.rates.radii._replace(threshold_scale=0.3)
    bound = Bound(learner)
    lower, upper = np.zeros(m), np.zeros(m)
    for e in wild_episodes(learner, 150, 5, missing=0.4):
        bound.observe(e)
        slow.observe(e.states, e.actions, e.rewards, e.constraints, e.thresholds)
        _core.Window(bound.window).bounds(radii, lower, upper)
        np.testing.assert_allclose(lower, slow.threshold_bounds[0], atol=1e-12)
        np.testing.assert_allclose(upper, slow.threshold_bounds[1], atol=1e-12)
