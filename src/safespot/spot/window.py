"""The growing window: the threshold signals of the last episodes.

It holds the last W = max(1, floor(gamma * finished)) episodes: it adds the newest and takes back those that fall out.
Per step it knows the pair with the most samples, which represents the step (below Eq. empirical-gw): through a winner
tree, or where nothing is ever taken back by comparing with the last winner.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..arrays import Float, Int
from ..errors import InvalidFile
from ..kernels.jit import inlined, kernel
from ..states import rebuild
from .visits import MOST

ROUNDING = 2.0**-52  # of a sum: twice what rounding may cut off of it


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


def empty_window(H: int, pairs: int, m: int, gamma: float) -> Window:
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


def check_window(fresh: Window, arrays: Mapping[str, NDArray]) -> Window:
    """Return the window in a file, if a learner that began with `fresh` can have it; its tree is to be rebuilt."""
    loaded: Window = rebuild(fresh, arrays, grows=("pairs", "samples"), gaps=("samples",))
    capacity, (finished, length, oldest) = len(loaded.pairs), loaded.span
    pairs = loaded.n.shape[1]
    gamma = fresh.gamma[0]
    ring = length <= capacity and oldest < capacity
    # A sum changes at most twice an episode, and is at most one more than the window's length.
    most = 2.0 * ROUNDING * (float(finished) + 1.0) * (float(length) + 1.0)
    if not (
        loaded.gamma[0] == gamma
        and finished <= MOST
        and length == min(finished, finished if gamma == 1.0 else max(1, int(gamma * finished)))
        and (loaded.n <= length).all()
        and (loaded.n.sum(axis=1) <= length).all()
        and len(loaded.samples) == capacity
        and (capacity > 0) == (len(fresh.pairs) > 0)
        and (loaded.pairs < pairs).all()
        and (ring or (capacity == 0 and oldest == 0))
        and not ((loaded.samples < 0.0) | (loaded.samples > 1.0)).any()
        and (np.abs(loaded.carries) <= most).all()
        and ((loaded.sums >= -most) & (loaded.sums <= loaded.n + most)).all()
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


@inlined
def ring_has_room(window: Window) -> bool:
    """Whether the history can take one more episode: the newest joins before the oldest leaves."""
    capacity = window.pairs.shape[0]
    return capacity == 0 or bool(window.span[1] < capacity)


@inlined
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
        pair = 0 if one else pairs[h]
        count_sample(window, h, pair, thresholds[h], 1.0)
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
                count_sample(window, h, pair, window.samples[oldest, h], -1.0)
            window.span[2] = (oldest + 1) % capacity
            window.span[1] -= 1


@inlined
def count_sample(window: Window, h: int, pair: int, sample: Float, sign: float) -> None:
    """Add one sample of step h (sign 1.0) or take it back (sign -1.0)."""
    if np.isnan(sample[0]):
        return
    window.n[h, pair] += int(sign)
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


@inlined
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


@inlined
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


@inlined
def representative(window: Window, h: int) -> int:
    """The pair with the most samples at step h, the lowest on ties."""
    pair: int = window.tree[h, 1]
    return pair
