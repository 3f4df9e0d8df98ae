"""Visit statistics: what a learner remembers of the episodes that it has seen.

For every step h and pair s*A + a they count the visits n, the sums of the observed rewards and constraints, and the
successors. They give the empirical model of Eq. empirical-p:

    r_hat = sum r / n,   g_hat = sum g / n,   p_hat = count(s' | s, a) / n.

Only counts and sums are stored; what follows from them is derived elsewhere.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..arrays import Float, Int
from ..errors import InvalidFile
from ..kernels.jit import inlined, kernel
from ..states import rebuild

DENSE = 2**22  # entries of [H,S,S*A] up to which successors are counted in a dense block
GROWTH = 1.25  # how much the pool of these lists grows
MOST = 2**53  # episodes, at most, so that counts are exact as doubles too
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


def empty_statistics(H: int, S: int, A: int, m: int, *, dense: bool | None = None) -> Statistics:
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


def check_statistics(fresh: Statistics, arrays: Mapping[str, NDArray]) -> Statistics:
    """Return the statistics in a file, if a learner that began with `fresh` can have them: no kernel reads outside."""
    loaded: Statistics = rebuild(fresh, arrays, grows=("actions", "states", "counts"))
    pool = loaded.successors
    S = loaded.known.shape[1]
    A = loaded.n.shape[1] // S
    finished, visits = loaded.starts.sum(), loaded.n.reshape(*loaded.known.shape, A)
    met = np.argsort(
        ~loaded.known, axis=1, kind="stable"
    )  # those that are known, ascending, come first
    ends = pool.where + pool.room
    if not (
        (loaded.starts <= MOST).all()
        and (loaded.n <= finished).all()
        and (np.diff(loaded.n.sum(axis=1), prepend=finished) <= 0).all()  # episodes may end early
        and ((loaded.sums >= 0.0) & (loaded.sums <= loaded.n)).all()
        and (loaded.known == visits.any(axis=2)).all()
        and (loaded.how_many == loaded.known.sum(axis=1)).all()
        and (loaded.met < S).all()
        and ((loaded.met == met) | (np.arange(S) >= loaded.how_many[:, None])).all()
        and pool.actions.shape == pool.states.shape == pool.counts.shape == (len(pool.states),)
        and (pool.actions < A).all()
        and (pool.states < S).all()
        and pool.used[0] <= len(pool.states)
        and ((pool.length <= pool.room) & (pool.room <= S * A)).all()
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


@inlined
def pool_has_room(statistics: Statistics) -> bool:
    """Whether the lists of successors can take one more episode.

    At worst every step moves a full list to twice its room at the pool's end; none needs more than S*A.
    """
    pool = statistics.successors
    return pool.dense.shape[0] > 0 or bool(pool.used[0] + statistics.n.size <= pool.states.shape[0])


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


@inlined
def copy_list(old: Successors, first: int, length: int, new: Successors, moved: int) -> None:
    """Copy a list from its place `first` in one pool to `moved` in another, or in the same."""
    for j in range(length):
        new.actions[moved + j] = old.actions[first + j]
        new.states[moved + j] = old.states[first + j]
        new.counts[moved + j] = old.counts[first + j]


@inlined
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


@inlined
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
