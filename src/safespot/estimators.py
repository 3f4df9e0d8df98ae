"""Visit statistics and the growing window: what a learner remembers of the episodes it has seen.

Statistics count, for every step h and pair s*A + a, the visits n, the sums of the observed rewards and
constraints, and the successors. They give the empirical model of Eq. empirical-p:

    r_hat = sum r / n,   g_hat = sum g / n,   p_hat = count(s' | s, a) / n.

The growing window holds the threshold signals of the last W = max(1, floor(gamma * finished)) episodes: it
adds the newest episode and takes back those that fall out. Per step it knows the pair with the most
samples, which represents the step (below Eq. empirical-gw): through a winner tree, or where nothing is ever
taken back by comparing with the last winner.

Only counts and sums are stored; what follows from them is derived elsewhere.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .arrays import Float, Int
from .compilation import inner, kernel, natural
from .errors import InvalidFile

DENSE = 2**22  # entries of [H,S,S*A] up to which successors are counted in a dense block
GROWTH = 1.25  # how much the pool of these lists grows
MOST = 2**53  # episodes, at most, so that counts are exact as doubles too
ROUNDING = 1e-3  # how far rounding may take the sums of a window in a file
FIRST_ROOM = 4  # transitions a state has room for when it is first met; doubled when full


class Successors(NamedTuple):
    """How often each successor followed: a dense block, or per state a list in a growing pool.

    A state's list holds the transitions of all its actions, in the order in which they were first seen. One list
    per pair would have hardly an entry each while most are unknown, and no processor could guess how many.
    """

    dense: Float  # [H, S, S*A], or empty
    where: NDArray[np.int64]  # [H, S]: where a state's list begins in the pool
    length: NDArray[np.int64]  # [H, S]
    room: NDArray[np.int64]  # [H, S]
    actions: NDArray[np.int32]  # [pool]
    states: NDArray[np.int32]  # [pool]: the successors
    counts: Float  # [pool]
    used: Int  # [1]: how much of the pool is taken


class Statistics(NamedTuple):
    """Visit statistics of every step and pair."""

    n: Int  # [H, S*A]
    sums: Float  # [1+m, H, S*A]: of rewards, then of constraints
    starts: Int  # [S]: how often an episode began in each state
    met: Int  # [H, S]: the states met at each step, ascending, since arrays are read in that order
    how_many: Int  # [H]: how many of them there are
    known: NDArray[np.bool_]  # [H, S]
    successors: Successors


class Window(NamedTuple):
    """Threshold samples of the window, per step and pair (one common pair when pooled)."""

    gamma: Float  # [1]
    n: Int  # [H, pairs]
    sums: Float  # [m, H, pairs]
    carries: Float  # [m, H, pairs]: the rounding errors of `sums`, so that taking back is exact
    tree: NDArray[np.int32]  # [H, 2 * leaves]: every node's winner; gamma = 1: only one
    pairs: NDArray[np.int32]  # [capacity, H]: the history, a ring; empty when gamma = 1
    samples: Float  # [capacity, H, m]
    span: Int  # [3]: finished episodes, the window's length, where its oldest episode is


def statistics(H: int, S: int, A: int, m: int, *, dense: bool | None = None) -> Statistics:
    """No visits yet; `dense` chooses the layout of the successors (by size when None)."""
    if dense is None:
        dense = H * S * S * A <= DENSE
    lists, pool = ((0, 0), 0) if dense else ((H, S), H * S * A)
    successors = Successors(
        dense=np.zeros((H, S, S * A) if dense else (0, 0, 0)),
        where=np.zeros(lists, np.int64),
        length=np.zeros(lists, np.int64),
        room=np.zeros(lists, np.int64),
        actions=np.zeros(pool, np.int32),
        states=np.zeros(pool, np.int32),
        counts=np.zeros(pool),
        used=np.zeros(1, np.int64),
    )
    return Statistics(
        n=np.zeros((H, S * A), np.int64),
        sums=np.zeros((1 + m, H, S * A)),
        starts=np.zeros(S, np.int64),
        met=np.zeros((H, S), np.int64),
        how_many=np.zeros(H, np.int64),
        known=np.zeros((H, S), np.bool_),
        successors=successors,
    )


def window(H: int, pairs: int, m: int, gamma: float) -> Window:
    """An empty window; gamma = 1 forgets nothing and so keeps no history."""
    leaves, capacity = (1, 0) if gamma == 1.0 else (1 << max(0, pairs - 1).bit_length(), 64)
    built = Window(
        gamma=np.array([gamma]),
        n=np.zeros((H, pairs), np.int64),
        sums=np.zeros((m, H, pairs)),
        carries=np.zeros((m, H, pairs)),
        tree=np.zeros((H, 2 * leaves), np.int32),
        pairs=np.zeros((capacity, H), np.int32),
        samples=np.zeros((capacity, H, m)),
        span=np.zeros(3, np.int64),
    )
    rebuild_tree(built)
    return built


def grow_statistics(statistics: Statistics) -> Statistics:
    """The same statistics with a larger pool, its lists in the order in which planning reads them."""
    old = statistics.successors
    # Not much larger: the sooner it is full, the sooner its lists come in order again.
    size = int(old.room.sum() * GROWTH) + statistics.n.size
    new = old._replace(
        where=np.zeros_like(old.where),
        actions=np.zeros(size, np.int32),
        states=np.zeros(size, np.int32),
        counts=np.zeros(size),
        used=np.zeros(1, np.int64),
    )
    lay_out(old, new)
    return statistics._replace(successors=new)


def grow_window(window: Window) -> Window:
    """The same window with a larger ring, its oldest episode first."""
    _, length, oldest = window.span
    order = (oldest + np.arange(length)) % len(window.pairs)
    pairs = np.zeros((2 * len(window.pairs), *window.pairs.shape[1:]), np.int32)
    samples = np.zeros((2 * len(window.samples), *window.samples.shape[1:]))
    pairs[:length], samples[:length] = window.pairs[order], window.samples[order]
    span = window.span.copy()
    span[2] = 0
    return window._replace(pairs=pairs, samples=samples, span=span)


def check_statistics(fresh: Statistics, loaded: Statistics) -> Statistics:
    """`loaded` if it can belong to a learner that began with `fresh`: no kernel reads outside of it."""
    pool, model = loaded.successors, fresh.successors
    for name, array, like in (
        *((name, getattr(loaded, name), getattr(fresh, name)) for name in loaded._fields[:-1]),
        *((name, getattr(pool, name), getattr(model, name)) for name in pool._fields),
    ):
        free = name in ("actions", "states", "counts")  # the pool grows
        if array.dtype != like.dtype or (array.shape != like.shape and not free):
            raise InvalidFile(f"the array '{name}' has another shape or type than the learner")
    S = loaded.known.shape[1]
    A = loaded.n.shape[1] // S
    finished, visits = loaded.starts.sum(), loaded.n.reshape(*loaded.known.shape, A)
    met = np.argsort(
        ~loaded.known, axis=1, kind="stable"
    )  # those that are known, ascending, come first
    ends = pool.where + pool.room
    if not (
        ((loaded.starts >= 0) & (loaded.starts <= MOST)).all()
        and ((loaded.n >= 0) & (loaded.n <= finished)).all()
        and (loaded.n.sum(axis=1) == finished).all()
        and ((loaded.sums >= 0.0) & (loaded.sums <= loaded.n)).all()
        and (loaded.known == visits.any(axis=2)).all()
        and (loaded.how_many == loaded.known.sum(axis=1)).all()
        and ((loaded.met >= 0) & (loaded.met < S)).all()
        and ((loaded.met == met) | (np.arange(S) >= loaded.how_many[:, None])).all()
        and pool.actions.shape == pool.states.shape == pool.counts.shape == (len(pool.states),)
        and ((pool.actions >= 0) & (pool.actions < A)).all()
        and ((pool.states >= 0) & (pool.states < S)).all()
        and 0 <= pool.used[0] <= len(pool.states)
        and (pool.where >= 0).all()
        and ((pool.length >= 0) & (pool.length <= pool.room) & (pool.room <= S * A)).all()
        and (ends <= pool.used[0]).all()
        and (_successor_counts(pool, loaded.n.shape, A) == loaded.n).all()
    ):
        raise InvalidFile("the visit statistics contradict each other")
    return loaded


def _successor_counts(pool: Successors, shape: tuple[int, ...], A: int) -> Float:
    """``[H, S*A]``: how many successors of each pair were counted; -1 where some count is none."""
    if pool.dense.shape[0] > 0:
        return np.where((pool.dense >= 0.0).all(axis=1), pool.dense.sum(axis=1), -1.0)
    length = pool.length.reshape(-1)
    row = np.repeat(np.arange(length.size), length)
    first = np.repeat(pool.where.reshape(-1), length)
    entry = first + np.arange(row.size) - np.repeat(np.cumsum(length) - length, length)
    counts = np.where(pool.counts[entry] >= 0.0, pool.counts[entry], np.nan)
    sums: Any = np.bincount(row * A + pool.actions[entry], counts, math.prod(shape))
    return np.reshape(sums, shape)


def check_window(fresh: Window, loaded: Window) -> Window:
    """`loaded` if it can belong to a learner that began with `fresh`."""
    for name in loaded._fields:
        array, like = getattr(loaded, name), getattr(fresh, name)
        free = name in ("pairs", "samples")  # the ring grows
        same = array.shape[1:] == like.shape[1:] if free else array.shape == like.shape
        if array.dtype != like.dtype or not same:
            raise InvalidFile(f"the array '{name}' has another shape or type than the learner")
    capacity, (finished, length, oldest) = len(loaded.pairs), loaded.span
    pairs = loaded.n.shape[1]
    gamma = fresh.gamma[0]
    ring = 0 <= length <= capacity and 0 <= oldest < capacity
    if not (
        loaded.gamma[0] == gamma
        and 0 <= finished <= MOST
        and length == min(finished, finished if gamma == 1.0 else max(1, int(gamma * finished)))
        and ((loaded.n >= 0) & (loaded.n <= length)).all()
        and (loaded.n.sum(axis=1) <= length).all()
        and len(loaded.samples) == capacity
        and (capacity > 0) == (len(fresh.pairs) > 0)
        and ((loaded.pairs >= 0) & (loaded.pairs < pairs)).all()
        and (ring or (capacity == 0 and oldest == 0))
        and not ((loaded.samples < 0.0) | (loaded.samples > 1.0)).any()
        and (np.abs(loaded.carries) <= ROUNDING).all()
        and ((loaded.sums >= -ROUNDING) & (loaded.sums <= loaded.n + ROUNDING)).all()
        and (_sample_counts(loaded) == loaded.n).all()
    ):
        raise InvalidFile("the window contradicts itself")
    return loaded


def _sample_counts(window: Window) -> Int:
    """``[H, pairs]``: how many samples of each pair the history holds; where there is none, what is counted."""
    capacity, (_, length, oldest) = len(window.pairs), window.span
    if capacity == 0:
        return window.n
    held = (oldest + np.arange(length)) % capacity
    H, pairs = window.n.shape
    place = np.arange(H) * pairs + window.pairs[held]  # [length, H]
    sampled = place[~np.isnan(window.samples[held, :, 0])]
    return np.bincount(sampled, minlength=H * pairs).reshape(H, pairs)


@inner
def has_room(statistics: Statistics, window: Window) -> bool:
    """Whether one more episode fits, whatever happens in it; if not, grow first."""
    return pool_has_room(statistics) and ring_has_room(window)


@inner
def pool_has_room(statistics: Statistics) -> bool:
    """Whether the lists of successors can take one more episode.

    At worst every step moves a full list to twice its room at the pool's end; none needs more than S*A.
    """
    pool = statistics.successors
    return pool.dense.shape[0] > 0 or bool(pool.used[0] + statistics.n.size <= pool.states.shape[0])


@inner
def ring_has_room(window: Window) -> bool:
    """Whether the history can take one more episode: the newest joins before the oldest leaves."""
    capacity = window.pairs.shape[0]
    return capacity == 0 or bool(window.span[1] < capacity)


@kernel
def lay_out(old: Successors, new: Successors) -> None:
    """Copy every list from the pool of `old` to that of `new`, step by step and state by state."""
    H, S = old.where.shape
    for h in range(H):
        for s in range(S):
            moved = new.used[0]
            copy_list(old, old.where[h, s], old.length[h, s], new, moved)
            new.where[h, s] = moved
            new.used[0] += old.room[h, s]


@inner
def copy_list(old: Successors, first: int, length: int, new: Successors, moved: int) -> None:
    """Copy a list from its place `first` in one pool to `moved` in another, or in the same."""
    for j in range(length):
        new.actions[moved + j] = old.actions[first + j]
        new.states[moved + j] = old.states[first + j]
        new.counts[moved + j] = old.counts[first + j]


@inner
def add_visit(
    statistics: Statistics, h: int, s: int, pair: int, after: int, reward: float, constraints: Float
) -> None:
    """Count one step of an episode: `pair` = s*A + a was visited and led to `after`."""
    if not statistics.known[h, s]:
        statistics.known[h, s] = True
        place = statistics.how_many[h]
        while place > 0 and statistics.met[h, place - 1] > s:
            statistics.met[h, place] = statistics.met[h, place - 1]
            place -= 1
        statistics.met[h, place] = s
        statistics.how_many[h] += 1
    statistics.n[h, pair] += 1
    statistics.sums[0, h, pair] += reward
    for i in range(constraints.shape[0]):
        statistics.sums[1 + i, h, pair] += constraints[i]
    if statistics.successors.dense.shape[0] > 0:
        statistics.successors.dense[h, after, pair] += 1.0
    else:
        A = statistics.n.shape[1] // statistics.known.shape[1]
        add_to_list(statistics.successors, h, s, pair - s * A, after, A)


@inner
def add_to_list(pool: Successors, h: int, s: int, action: int, after: int, A: int) -> None:
    """Count one transition; a list that is full moves to twice the room at the pool's end."""
    first, length, room = pool.where[h, s], pool.length[h, s], pool.room[h, s]
    for j in range(first, first + length):
        if pool.states[j] == after and pool.actions[j] == action:
            pool.counts[j] += 1.0
            return
    if length == room:
        room = min(max(2 * room, FIRST_ROOM), A * pool.where.shape[1])
        moved = pool.used[0]
        pool.used[0] += room
        copy_list(pool, first, length, pool, moved)
        pool.where[h, s], pool.room[h, s] = moved, room
        first = moved
    pool.actions[first + length] = action
    pool.states[first + length] = after
    pool.counts[first + length] = 1.0
    pool.length[h, s] = length + 1


@inner
def add_to_window(window: Window, pairs: Int, thresholds: Float) -> None:
    """The newest episode joins, and what is older than W = max(1, floor(gamma * finished)) leaves.

    `pairs` ``[H]`` are the visited pairs s*A + a; `thresholds` ``[H,m]`` the signals, NaN in a step
    without a sample, which does not count (D7).
    """
    H, m = thresholds.shape
    one = window.n.shape[1] == 1  # pooled, or a single pair
    capacity = window.pairs.shape[0]
    window.span[0] += 1
    window.span[1] += 1
    newest = (window.span[2] + window.span[1] - 1) % max(1, capacity)
    for h in range(H):
        pair = 0 if one else natural(pairs[h])
        count_sample(window, h, pair, thresholds[h], 1)
        if capacity > 0:
            window.pairs[newest, h] = pair
            for i in range(m):
                window.samples[newest, h, i] = thresholds[h, i]
    if capacity > 0:
        longest = max(1, math.floor(window.gamma[0] * window.span[0]))
        while window.span[1] > longest:
            oldest = window.span[2]
            for h in range(H):
                pair = int(window.pairs[oldest, h])
                count_sample(window, h, pair, window.samples[oldest, h], -1)
            window.span[2] = (oldest + 1) % capacity
            window.span[1] -= 1


@inner
def count_sample(window: Window, h: int, pair: int, sample: Float, sign: int) -> None:
    """Add one sample of step h (sign 1) or take it back (sign -1)."""
    if np.isnan(sample[0]):
        return
    window.n[h, pair] += sign
    for i in range(sample.shape[0]):
        if window.n[h, pair] == 0:
            window.sums[i, h, pair] = 0.0
            window.carries[i, h, pair] = 0.0
        else:
            # Knuth's two-sum: `carries` collects what rounding cuts off.
            total, x = window.sums[i, h, pair], sign * sample[i]
            rounded = total + x
            part = rounded - total
            window.carries[i, h, pair] += (total - (rounded - part)) + (x - part)
            window.sums[i, h, pair] = rounded
    replay(window.tree[h], window.n[h], pair)


@inner
def replay(tree: NDArray[np.int32], n: Int, pair: int) -> None:
    """Find the winners again when `pair` was counted: the larger count wins, the lower pair on ties."""
    if tree.shape[0] == 2:  # counts only grow, or there is one pair: nobody else can overtake
        winner = tree[1]
        ahead = n[pair] > n[winner] or (n[pair] == n[winner] and pair < winner)
        tree[1] = pair if ahead else winner
    else:
        node = (tree.shape[0] // 2 + pair) // 2
        while node >= 1:
            match(tree, n, node)
            node //= 2


@inner
def match(tree: NDArray[np.int32], n: Int, node: int) -> None:
    """The winner of one node, from those below it; leaves beyond the last pair never win against one."""
    left, right = tree[2 * node], tree[2 * node + 1]
    tree[node] = right if right < n.shape[0] and n[right] > n[left] else left


@kernel
def rebuild_tree(window: Window) -> None:
    """All winners from the counts alone."""
    H, pairs = window.n.shape
    leaves = window.tree.shape[1] // 2
    for h in range(H):
        if leaves == 1:
            window.tree[h, 1] = 0
            for pair in range(pairs):
                replay(window.tree[h], window.n[h], pair)
        else:
            for leaf in range(leaves):
                window.tree[h, leaves + leaf] = leaf
            for node in range(leaves - 1, 0, -1):  # upwards: no match sees a stale winner
                match(window.tree[h], window.n[h], node)


@inner
def representative(window: Window, h: int) -> int:
    """The pair with the most samples at step h, the lowest on ties."""
    pair: int = natural(window.tree[h, 1])
    return pair
