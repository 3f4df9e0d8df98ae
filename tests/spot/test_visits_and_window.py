"""Visit statistics and the growing window, against lists kept in full."""

from __future__ import annotations

import math
from typing import Any

import numba
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from safespot.arrays import Float, Int
from safespot.errors import InvalidFile
from safespot.spot import limits, visits
from safespot.spot import window as windows
from safespot.spot.visits import Statistics
from safespot.spot.window import Window
from safespot.states import flatten
from tests.support.damage import put

Samples = list[tuple[Int, Float]]  # of each episode: the visited pairs [H], the signals [H,m]


def samples(seed: int, episodes: int, H: int, pairs: int, m: int, missing: float) -> Samples:
    rng = np.random.default_rng(seed)
    made = []
    for _ in range(episodes):
        signals = rng.random((H, m))
        signals[rng.random(H) < missing] = np.nan
        made.append((rng.integers(pairs, size=H), signals))
    return made


def filled(window: Window, history: Samples) -> Window:
    for pairs, signals in history:
        while window.pairs.shape[0] and window.span[1] == window.pairs.shape[0]:
            assert not windows.ring_has_room(window)
            window = windows.grow_window(window)
        assert windows.ring_has_room(window)
        windows.add_to_window(window, pairs, signals)
    return window


def length(gamma: float, finished: int) -> int:
    return max(1, math.floor(gamma * finished))


gammas = st.one_of(
    st.sampled_from([1.0, 0.5, 0.1, 0.29, 1 / 3, 1e-9]), st.floats(0.001, 1.0, exclude_min=True)
)


@given(
    gammas, st.integers(1, 3), st.integers(1, 9), st.integers(1, 2), st.integers(0, 150),
    st.sampled_from([0.0, 0.5]), st.integers(0, 2**32 - 1),
)  # fmt: skip
@settings(deadline=None, max_examples=60)
def test_window_holds_what_a_list_of_all_episodes_says(
    gamma: float, H: int, pairs: int, m: int, episodes: int, missing: float, seed: int
) -> None:
    window = windows.empty_window(H, pairs, m, gamma)
    history = samples(seed, episodes, H, pairs, m, missing)
    for t in range(1, episodes + 1):
        window = filled(window, history[t - 1 : t])
        kept = history[t - length(gamma, t) : t]
        for h in range(H):
            counts = np.zeros(pairs, int)
            for at, signals in kept:
                counts[at[h]] += not np.isnan(signals[h, 0])
            np.testing.assert_array_equal(window.n[h], counts)
            assert windows.representative(window, h) == counts.argmax()  # the first on ties
        if t not in (1, 2, episodes // 2, episodes):
            continue
        for h in range(H):
            for pair in range(pairs):
                of_pair = [x[h] for at, x in kept if at[h] == pair and not np.isnan(x[h, 0])]
                for i in range(m):
                    exact = math.fsum(x[i] for x in of_pair)
                    total = window.sums[i, h, pair] + window.carries[i, h, pair]
                    assert total == pytest.approx(exact, rel=2.3e-16, abs=1e-18)


@given(
    st.integers(1, 20),
    st.lists(st.tuples(st.integers(0, 19), st.booleans()), max_size=80),
)
@settings(deadline=None, max_examples=100)
def test_tree_after_any_updates_equals_one_built_anew(
    pairs: int, updates: list[tuple[int, bool]]
) -> None:
    window = windows.empty_window(1, pairs, 1, 0.5)
    for number, up in updates:
        pair = number % pairs
        if up or window.n[0, pair] > 0:
            windows.count_sample(window, 0, pair, np.array([0.5]), 1.0 if up else -1.0)
        assert windows.representative(window, 0) == window.n[0].argmax()
    anew = window._replace(tree=np.zeros_like(window.tree))
    windows.rebuild_tree(anew)
    np.testing.assert_array_equal(window.tree[:, 1:], anew.tree[:, 1:])


def test_where_nothing_leaves_the_winner_alone_is_kept() -> None:
    window = windows.empty_window(1, 7, 1, 1.0)
    assert window.tree.shape == (1, 2)
    rng = np.random.default_rng(0)
    for pair in rng.integers(7, size=500):
        windows.count_sample(window, 0, int(pair), np.array([0.5]), 1.0)
        assert windows.representative(window, 0) == window.n[0].argmax()  # the lowest on ties
        anew = window._replace(tree=np.full_like(window.tree, 6))
        windows.rebuild_tree(anew)
        assert windows.representative(anew, 0) == window.n[0].argmax()


def test_an_update_touches_one_path_of_the_tree() -> None:
    """Logarithmic work: only the nodes above the pair may change, and they are log2(leaves) many."""
    pairs = 300
    window = windows.empty_window(1, pairs, 1, 0.5)
    leaves = window.tree.shape[1] // 2
    assert leaves == 512
    rng = np.random.default_rng(0)
    most = 0
    for pair in rng.integers(pairs, size=2000):
        sign = -1 if window.n[0, pair] > 0 and rng.random() < 0.4 else 1
        before = window.tree.copy()
        windows.count_sample(window, 0, int(pair), np.array([0.5]), float(sign))
        changed = np.flatnonzero((window.tree != before)[0])
        path = {(leaves + int(pair)) >> up for up in range(1, 10)}
        assert set(changed.tolist()) <= path
        most = max(most, len(changed))
    assert 5 <= most <= math.log2(leaves) + 1


@numba.njit
def churn(window: Window, signals: Float, kept: int, rounds: int) -> float:
    """Again and again add all signals and take them back, but for the last `kept`; return a plain running sum."""
    n = len(signals)
    plain = 0.0
    sample = np.zeros(1)
    for r in range(rounds):
        for j in range(n):
            sample[0] = signals[j]
            plain += signals[j]
            windows.count_sample(window, 0, 0, sample, 1.0)
        last = kept if r == rounds - 1 else 0
        for j in range(n - last):
            sample[0] = signals[j]
            plain -= signals[j]
            windows.count_sample(window, 0, 0, sample, -1.0)
        if r == 0:  # never empty from here on, so that nothing is reset
            sample[0] = 1 / 3
            plain += 1 / 3
            windows.count_sample(window, 0, 0, sample, 1.0)
    return plain


def test_adding_and_taking_back_does_not_drift() -> None:
    signals = np.random.default_rng(2).random(2000) / 3.0  # nothing dyadic
    window = windows.empty_window(1, 1, 1, 0.5)
    plain = churn(window, signals, 2, 50)  # 200,000 updates
    exact = math.fsum([1 / 3, *signals[-2:]]) / 3
    assert window.n[0, 0] == 3
    assert abs((window.sums[0, 0, 0] + window.carries[0, 0, 0]) / 3 - exact) <= 1e-13
    assert abs(plain / 3 - exact) > 1e-13  # what a plain sum would have become


@numba.njit
def repeat(window: Window, pairs: Int, signals: Float, times: int) -> None:
    for _ in range(times):
        windows.add_to_window(window, pairs, signals)


def test_a_long_life_of_equal_hints_can_be_loaded() -> None:
    """What rounding cuts off lies on one side then, and grows with the number of episodes and with the sum."""
    fresh, window = (windows.empty_window(1, 1, 1, 1.0) for _ in range(2))
    repeat(window, np.zeros(1, np.int64), np.array([[1 / 3]]), 20_000_000)
    exact = 20_000_000 / 3
    assert abs(window.sums[0, 0, 0] - exact) > 1e-3
    assert abs(window.sums[0, 0, 0] + window.carries[0, 0, 0] - exact) < 1e-6
    assert windows.check_window(fresh, flatten(window)).n.sum() == window.n.sum()


def test_taking_back_all_samples_leaves_nothing() -> None:
    window = windows.empty_window(1, 2, 1, 0.5)
    for sign in (1, 1, -1, -1):
        windows.count_sample(window, 0, 1, np.array([0.1]), float(sign))
    assert window.n[0, 1] == 0
    assert window.sums[0, 0, 1] == 0.0
    assert window.carries[0, 0, 1] == 0.0


def test_a_window_without_end_keeps_no_history() -> None:
    window = filled(windows.empty_window(2, 6, 1, 1.0), samples(0, 500, 2, 6, 1, 0.1))
    fresh = windows.empty_window(2, 6, 1, 1.0)
    assert [a.shape for a in window] == [a.shape for a in fresh]
    assert window.pairs.size == window.samples.size == 0


@pytest.mark.parametrize("gamma", [0.9, 0.5, 0.1])
def test_the_history_is_at_most_twice_the_window(gamma: float) -> None:
    window = windows.empty_window(2, 6, 1, gamma)
    for t, one in enumerate(samples(0, 2000, 2, 6, 1, 0.0), start=1):
        window = filled(window, [one])
        assert window.span[1] == length(gamma, t)
        assert len(window.pairs) <= 2 * length(gamma, t) + 64
        assert len(window.samples) == len(window.pairs)
    assert len(window.pairs) > 64


def test_a_sample_leaves_exactly_when_it_is_too_old() -> None:
    """gamma = 1/2: the windows after 1, 2, … episodes are 1, 1, 1, 2, 2, 3 long."""
    window = windows.empty_window(1, 1, 1, 0.5)
    means = []
    for k in range(1, 7):
        window = filled(window, [(np.array([0]), np.array([[k / 8]]))])
        means.append(8 * window.sums[0, 0, 0] / window.n[0, 0])
    assert means == [1, 2, 3, 3.5, 4.5, 5]


def visited(statistics: Statistics, seed: int, times: int) -> Statistics:
    rng = np.random.default_rng(seed)
    H, S = statistics.known.shape
    A = statistics.n.shape[1] // S
    m = statistics.sums.shape[0] - 1
    empty = windows.empty_window(H, 1, m, 1.0)
    for _ in range(times):
        while not limits.has_room(statistics, empty):
            statistics = visits.grow_statistics(statistics)
        after = int(rng.integers(S))
        statistics.starts[after] += 1
        for h in range(H):
            s, a = after, int(rng.integers(A))
            after = int(rng.integers(S)) if rng.random() < 0.5 else 0
            signals = rng.random(1 + m)
            visits.add_visit(statistics, h, s, s * A + a, after, signals[0], signals[1:])
    return statistics


@given(
    st.integers(1, 7), st.integers(1, 3), st.integers(1, 3), st.integers(1, 2),
    st.integers(0, 200), st.integers(0, 2**32 - 1),
)  # fmt: skip
@settings(deadline=None, max_examples=40)
def test_both_layouts_count_the_same(S: int, A: int, H: int, m: int, times: int, seed: int) -> None:
    dense = visited(visits.empty_statistics(H, S, A, m, dense=True), seed, times)
    pool = visited(visits.empty_statistics(H, S, A, m, dense=False), seed, times)
    for name in ("n", "sums", "starts", "met", "how_many", "known"):
        np.testing.assert_array_equal(getattr(dense, name), getattr(pool, name))
    assert dense.successors.states.size == 0
    assert pool.successors.dense.size == 0
    lists = pool.successors
    for h in range(H):
        for s in range(S):
            entries = slice(lists.where[h, s], lists.where[h, s] + lists.length[h, s])
            actions, states = lists.actions[entries], lists.states[entries]
            assert len(set(zip(actions.tolist(), states.tolist(), strict=True))) == len(states)
            counts = np.zeros((S, A))
            counts[states, actions] = lists.counts[entries]
            expected = dense.successors.dense[h, :, s * A : (s + 1) * A]
            np.testing.assert_array_equal(counts, expected)
        np.testing.assert_array_equal(dense.successors.dense[h].sum(axis=0), dense.n[h])


def test_visits_are_counted() -> None:
    statistics = visits.empty_statistics(2, 3, 2, 1)
    for reward, after in ((0.25, 1), (0.5, 1), (1.0, 2)):
        visits.add_visit(statistics, 1, 2, 5, after, reward, np.array([reward / 2]))
    assert statistics.n.tolist() == [[0] * 6, [0, 0, 0, 0, 0, 3]]
    assert statistics.sums[:, 1, 5].tolist() == [1.75, 0.875]
    assert statistics.sums.sum() == 2.625
    assert statistics.successors.dense[1, :, 5].tolist() == [0, 2, 1]
    assert statistics.successors.dense.sum() == 3
    assert statistics.met[1, 0] == 2
    assert statistics.how_many.tolist() == [0, 1]
    assert statistics.known.tolist() == [[False] * 3, [False, False, True]]


def test_the_layout_is_chosen_by_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(visits, "DENSE", 2 * 3 * 3 * 2)
    assert visits.empty_statistics(2, 3, 2, 1).successors.dense.shape == (2, 3, 6)
    assert visits.empty_statistics(3, 3, 2, 1).successors.dense.size == 0


def changed(record: Any, name: str, change: Any) -> Any:
    array = getattr(record, name).copy()
    return record._replace(**{name: change(array)})


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("n", lambda a: a[:, 1:]),
        ("n", lambda a: a.astype(np.int32)),
        ("n", put((0, 0), -1)),
        ("starts", put(0, -1)),
        ("how_many", put(0, 2)),
        ("met", put((0, 0), 3)),
        ("met", put((0, 0), -1)),
        ("met", lambda a: a[:, ::-1].copy()),
        ("known", put((0, 0), False)),
        ("n", put((0, 0), 21)),
        ("n", lambda a: a + np.eye(2, 6, dtype=np.int64)),
        ("starts", put(0, 2**60)),
        ("known", lambda a: a.astype(np.int8)),
        ("how_many", lambda a: a.astype(np.int32)),
        ("sums", put((0, 0, 0), np.nan)),
        ("sums", put((0, 0, 0), 20.5)),
        ("sums", put((1, 1, 1), -0.5)),
    ],
)
def test_statistics_from_a_file_must_fit(name: str, change: Any) -> None:
    fresh = visits.empty_statistics(2, 3, 2, 1)
    loaded = visited(visits.empty_statistics(2, 3, 2, 1), 0, 20)
    assert visits.check_statistics(fresh, flatten(loaded)).n.sum() == loaded.n.sum()
    with pytest.raises(InvalidFile):
        visits.check_statistics(fresh, flatten(changed(loaded, name, change)))


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("actions", put(0, 2)),
        ("actions", put(0, -1)),
        ("actions", put(-1, 2)),  # an entry that no list has yet
        ("states", put(-1, 3)),
        ("actions", lambda a: a[:-1]),
        ("states", put(0, 3)),
        ("states", put(0, -1)),
        ("states", lambda a: a[:-1]),
        ("counts", put(0, np.inf)),
        ("counts", put(0, -1.0)),
        ("counts", put(0, 20.0)),
        ("actions", lambda a: 1 - a),
        ("used", put(0, -1)),
        ("used", put(0, 10**6)),
        ("where", put((0, 0), -1)),
        ("where", put((0, 0), 10**6)),
        ("length", put((0, 0), 7)),
        ("length", put((0, 0), -1)),
        ("room", put((0, 0), 7)),
    ],
)
def test_a_pool_from_a_file_must_fit(name: str, change: Any) -> None:
    fresh = visits.empty_statistics(2, 3, 2, 1, dense=False)
    loaded = visited(visits.empty_statistics(2, 3, 2, 1, dense=False), 0, 20)
    assert visits.check_statistics(fresh, flatten(loaded)).n.sum() == loaded.n.sum()
    bad = loaded._replace(successors=changed(loaded.successors, name, change))
    with pytest.raises(InvalidFile):
        visits.check_statistics(fresh, flatten(bad))


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("n", put((0, 0), -1)),
        ("n", lambda a: a[:, 1:]),
        ("sums", put((0, 0, 0), np.nan)),
        ("gamma", put(0, 0.4)),
        ("pairs", put((0, 0), 6)),
        ("pairs", put((0, 0), -1)),
        ("pairs", lambda a: a[:-1]),
        ("samples", lambda a: a[:0]),
        ("n", lambda a: a + np.eye(2, 6, dtype=np.int64)),
        ("sums", put((0, 0, 0), 40.0)),
        ("carries", put((0, 0, 0), np.inf)),
        ("samples", put((20, 0, 0), 1.5)),
        ("samples", put((20, 0, 0), np.nan)),
        ("span", put(1, 14)),
        ("span", put(1, 65)),
        ("span", put(0, 0)),
        ("span", put(2, 64)),
        ("span", put(2, -1)),
        ("carries", lambda a: a.astype(np.float32)),
        ("samples", lambda a: a[:, :1]),
    ],
)
def test_a_window_from_a_file_must_fit(name: str, change: Any) -> None:
    fresh = windows.empty_window(2, 6, 1, 0.5)
    loaded = filled(windows.empty_window(2, 6, 1, 0.5), samples(0, 30, 2, 6, 1, 0.1))
    assert windows.check_window(fresh, flatten(loaded)).n.sum() == loaded.n.sum()
    with pytest.raises(InvalidFile):
        windows.check_window(fresh, flatten(changed(loaded, name, change)))


def test_a_window_without_history_has_no_oldest_episode() -> None:
    fresh = windows.empty_window(2, 6, 1, 1.0)
    loaded = filled(windows.empty_window(2, 6, 1, 1.0), samples(0, 30, 2, 6, 1, 0.1))
    ring = windows.empty_window(2, 6, 1, 0.5)
    for bad in (
        changed(loaded, "span", put(2, 1)),
        changed(loaded, "span", put(1, 29)),
        loaded._replace(pairs=ring.pairs, samples=ring.samples),
        loaded._replace(samples=ring.samples),
    ):
        with pytest.raises(InvalidFile):
            windows.check_window(fresh, flatten(bad))


@pytest.mark.parametrize(("pairs", "leaves"), [(1, 1), (2, 2), (3, 4), (8, 8), (9, 16)])
def test_the_tree_has_a_leaf_for_each_pair_and_no_more_than_it_must(
    pairs: int, leaves: int
) -> None:
    assert windows.empty_window(2, pairs, 1, 0.5).tree.shape == (2, 2 * leaves)


def test_what_a_layout_does_not_use_is_empty() -> None:
    """These are the arrays of files: with other shapes, those that exist could not be read."""
    block, lists = (
        visits.empty_statistics(2, 3, 2, 1, dense=dense).successors for dense in (True, False)
    )
    assert block.dense.shape == (2, 3, 6)
    assert {array.shape for array in (block.where, block.length, block.room)} == {(0, 0)}
    assert {array.shape for array in (block.actions, block.states, block.counts)} == {(0,)}
    assert lists.dense.shape == (0, 0, 0)
    assert {array.shape for array in (lists.where, lists.length, lists.room)} == {(2, 3)}
    assert {array.shape for array in (lists.actions, lists.states, lists.counts)} == {(12,)}
