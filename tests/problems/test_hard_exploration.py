"""River swim, deep sea and maze: every figure of their docstrings, from derivations of the tests' own."""

from __future__ import annotations

from collections import deque
from typing import Any

import numpy as np
import pytest

import safespot as ss
from safespot.problems import maze

SPARSE: list[tuple[str, dict[str, Any]]] = [
    ("river-swim", {}),
    ("deep-sea", {}),
    ("deep-sea", {"size": 20}),
    ("maze", {}),
    ("maze", {"states": 200}),
]


@pytest.mark.parametrize(("name", "options"), SPARSE)
def test_the_limit_binds_with_room_to_spare_and_uniform_play_earns_next_to_nothing(
    name: str, options: dict[str, Any]
) -> None:
    cmdp = ss.problems.make(name, **options).cmdp
    assert cmdp.senses == ("<=",)
    assert len(cmdp.model.payoffs[0]) == 1  # the same at every step
    best, safest = ss.solve(cmdp), ss.slater(cmdp)
    assert best.gap <= 1e-8
    assert best.constraints == pytest.approx(cmdp.limits, abs=1e-8)
    assert best.multipliers[0] > 0.01
    assert safest.margin == pytest.approx(cmdp.limits[0], abs=1e-7)
    uniform = np.full((cmdp.S, cmdp.A), 1 / cmdp.A)
    assert 0.0 < ss.evaluate(cmdp, uniform).value < 0.05 * best.value


# River swim.


def priced_swim(S: int, H: int, price: float) -> float:
    """The best of reward minus `price` times strokes, by value iteration over the steps that are left."""
    V = [0.0] * S
    for _ in range(H):
        swim = [0.6 * V[s] + 0.05 * V[s - 1] + 0.35 * V[min(s + 1, S - 1)] for s in range(S)]
        swim[0], swim[S - 1] = 0.4 * V[0] + 0.6 * V[1], 0.6 * V[S - 1] + 0.4 * V[S - 2] + 1.0
        drift = [V[max(s - 1, 0)] for s in range(S)]
        drift[0] += 0.005
        V = [max(d, s - price) for d, s in zip(drift, swim, strict=True)]
    return V[0]


def by_duality(S: int, H: int, limit: float) -> tuple[float, float]:
    """The optimum and its price: the least of ``max(reward - price strokes) + price limit``, which is convex."""
    low, high = 0.0, 2.0
    for _ in range(200):
        left, right = low + (high - low) / 3, high - (high - low) / 3
        bounds = [priced_swim(S, H, price) + price * limit for price in (left, right)]
        low, high = (low, right) if bounds[0] <= bounds[1] else (left, high)
    return priced_swim(S, H, low) + low * limit, low


@pytest.mark.parametrize(
    ("states", "horizon", "limit"),
    [(6, 20, None), (6, 20, 3.0), (6, 20, 17.0), (2, 7, 3.0), (3, 9, None), (12, 40, 15.0)],
)
def test_river_swim_against_value_iteration(states: int, horizon: int, limit: float | None) -> None:
    cmdp = ss.problems.make("river-swim", states=states, horizon=horizon, limit=limit).cmdp
    assert cmdp.transitions.shape == (horizon, states, 2, states)
    assert cmdp.limits == pytest.approx([horizon / 2 if limit is None else limit])
    value, price = by_duality(states, horizon, float(cmdp.limits[0]))
    best = ss.solve(cmdp)
    assert best.value == pytest.approx(value, abs=1e-8)
    assert best.multipliers == pytest.approx([price], abs=1e-6)


def test_river_swim_as_stated() -> None:
    cmdp = ss.problems.make("river-swim").cmdp
    best, safest = ss.solve(cmdp), ss.slater(cmdp)
    assert best.value == pytest.approx(2.017430, abs=6e-7)
    assert best.multipliers == pytest.approx([0.182648], abs=6e-7)
    free = ss.solve(cmdp.with_thresholds([20]))
    assert free.value == pytest.approx(3.397264, abs=6e-7)
    assert free.value == pytest.approx(priced_swim(6, 20, 0.0), abs=1e-8)
    assert free.constraints == pytest.approx([19.12], abs=5e-3)
    assert safest.value == pytest.approx(20 / 200, abs=1e-7)
    uniform = np.full((6, 2), 0.5)
    assert ss.evaluate(cmdp, uniform).value == pytest.approx(0.043789, abs=6e-7)


@pytest.mark.parametrize(
    ("limit", "value", "multiplier"),
    [(0.4, 0.158, 0.37), (None, 0.38, 0.37), (1.5, 0.565, 0.37), (2.0, 0.602, 0.0)],
)
def test_two_places_and_two_steps_by_hand(
    limit: float | None, value: float, multiplier: float
) -> None:
    best = ss.solve(ss.problems.make("river-swim", states=2, horizon=2, limit=limit).cmdp)
    assert best.value == pytest.approx(value, abs=1e-8)
    assert best.multipliers == pytest.approx([multiplier], abs=1e-8)


# Deep sea.


@pytest.mark.parametrize("size", [1, 2, 5, 10, 20])
@pytest.mark.parametrize("share", [None, 0.3, 0.95])
def test_deep_sea_by_hand(size: int, share: float | None) -> None:
    limit = None if share is None else share * size
    cmdp = ss.problems.make("deep-sea", size=size, limit=limit).cmdp
    assert cmdp.rewards.shape == (size, size**2, 2)
    best, expected = ss.solve(cmdp), 0.8 if share is None else share
    assert best.value == pytest.approx(expected, abs=1e-8)
    assert best.multipliers == pytest.approx([1 / size], abs=1e-8)
    # The only optimum: it decides in the first step, and stays on the diagonal.
    assert best.policy[0, 0, 1] == pytest.approx(expected, abs=1e-8)
    for h in range(1, size):
        assert best.policy[h, h * size + h, 1] == pytest.approx(1.0, abs=1e-8)


@pytest.mark.parametrize("size", [3, 10, 20])
def test_deep_sea_without_a_limit_to_the_left_and_at_random(size: int) -> None:
    cmdp = ss.problems.make("deep-sea", size=size, limit=size).cmdp
    left, right, uniform = (np.tile(row, (size**2, 1)) for row in ([1, 0], [0, 1], [0.5, 0.5]))
    assert ss.solve(cmdp).value == pytest.approx(1.0, abs=1e-8)
    for policy, found, moves in ((left, 0, 0), (right, 1, size), (uniform, 0.5**size, size / 2)):
        reached = ss.evaluate(cmdp, policy)
        assert reached.value == pytest.approx(found, rel=1e-12)
        assert reached.constraints == pytest.approx([moves], abs=1e-9)


def test_a_dive_sinks_and_stays_within_the_edges() -> None:
    cmdp = ss.problems.make("deep-sea", size=3).cmdp
    leads = cmdp.transitions[0].toarray().argmax(axis=1).reshape(9, 2)
    assert leads[:6].tolist() == [[3, 4], [3, 5], [4, 5], [6, 7], [6, 8], [7, 8]]
    assert np.argwhere(cmdp.rewards[0]).tolist() == [[8, 1]]
    episode = ss.play(ss.problems.make("deep-sea"), np.tile([0, 1], (100, 1)), ss.streams(0), 1)
    assert episode.states[:10].tolist() == list(range(0, 100, 11))
    assert episode.rewards.tolist() == [0] * 9 + [1]
    assert episode.constraints.ravel().tolist() == [1] * 10


# Maze.


def shortest(states: int, hazards: int, wary: bool = False) -> int | None:
    """Steps of a shortest way over at most so many hazards; a wary one never moves along or across one.

    Breadth-first over (place, hazards met), on the map as drawn.
    """
    rows = maze.MAPS[states].split()
    cells = {(y, x): c for y, row in enumerate(rows) for x, c in enumerate(row) if c != "#"}
    first = next(place for place, cell in cells.items() if cell == "S")
    queue, seen = deque([(first, 0, 0)]), {(first, 0)}
    while queue:
        (y, x), met, steps = queue.popleft()
        if cells[y, x] == "G":
            return steps
        for dy, dx in ((1, 0), (-1, 0), (0, 1), (0, -1)):
            place, sides = (y + dy, x + dx), [(y + dx, x + dy), (y - dx, x - dy)]
            if place not in cells or (wary and "x" in [cells.get(side) for side in sides]):
                continue
            now = met + (cells[place] == "x")
            if now <= hazards and (place, now) not in seen:
                seen.add((place, now))
                queue.append((place, now, steps + 1))
    return None


WAYS = [(60, 40, (31, 19, 15)), (200, 80, (58, 34, 28))]


@pytest.mark.parametrize(("states", "horizon", "ways"), WAYS)
def test_the_ways_through_the_maze(states: int, horizon: int, ways: tuple[int, int, int]) -> None:
    assert tuple(shortest(states, hazards) for hazards in range(3)) == ways
    assert shortest(states, 9) == ways[2]  # more hazards shorten nothing
    assert shortest(states, 0, wary=True) == ways[0]
    problem = ss.problems.make("maze", states=states, slip=0)
    cmdp = problem.cmdp
    assert cmdp.rewards.shape == (horizon, states, 4)
    assert (cmdp.start, problem.interface["start"]) == (0, 0)
    assert cmdp.rewards[0].sum() == cmdp.rewards[0, -1].sum() == 4  # the goal is the last cell
    doors, one, two = (horizon - steps for steps in ways)
    for limit, value, multiplier in (
        (0.5, (doors + one) / 2, one - doors),
        (0.9, 0.1 * doors + 0.9 * one, one - doors),
        (1.5, (one + two) / 2, two - one),
        (3.0, two, 0.0),
    ):
        best = ss.solve(cmdp.with_thresholds([limit]))
        assert best.value == pytest.approx(value, abs=1e-8)
        assert best.multipliers == pytest.approx([multiplier], abs=1e-7)
    assert ss.solve(cmdp).value == pytest.approx({60: 15, 200: 34}[states], abs=1e-8)


@pytest.mark.parametrize(
    ("states", "value", "multiplier", "free", "safe", "uniform"),
    [
        (60, 11.731083, 11.894204, 23.519677, 5.029577, 0.015744),
        (200, 28.445145, 23.274021, 49.320253, 16.681380, 0.001833),
    ],
)
def test_the_slippery_maze_as_stated(
    states: int,
    value: float,
    multiplier: float,
    free: float,
    safe: float,
    uniform: float,
) -> None:
    cmdp = ss.problems.make("maze", states=states).cmdp
    best = ss.solve(cmdp)
    assert best.value == pytest.approx(value, abs=6e-7)
    assert best.multipliers == pytest.approx([multiplier], abs=6e-7)
    assert ss.solve(cmdp.with_thresholds([cmdp.H])).value == pytest.approx(free, abs=6e-7)
    assert ss.slater(cmdp).value == pytest.approx(safe, abs=6e-7)
    played = ss.evaluate(cmdp, np.full((states, 4), 0.25))
    assert played.value == pytest.approx(uniform, abs=6e-7)


def test_the_mazes_cells() -> None:
    cmdp = ss.problems.make("maze", slip=0.2).cmdp
    rows = cmdp.transitions[0].toarray().reshape(60, 4, 60)
    # Above the first hazard, which is state 18: the halls' first two rows are 0 to 17.
    assert rows[11, 1, [12, 2, 18]] == pytest.approx([0.8, 0.1, 0.1])
    assert rows[11, 2, [18, 10, 12]] == pytest.approx([0.8, 0.1, 0.1])
    assert rows[0, 0, [0, 1]] == pytest.approx(
        [0.9, 0.1]
    )  # against the wall, which also stops a slip
    assert np.flatnonzero(cmdp.constraints[0, 0, :, 0]).tolist() == [18, 19, 40, 41]
    assert rows[59, :, 59].tolist() == [1.0] * 4
    assert (
        rows[20, 3, [20, 17, 25]].sum() < 1.0
    )  # the door: its left is wall, above and below are cells
    assert rows[20, 3, 20] == pytest.approx(0.8)
