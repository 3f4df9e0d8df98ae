"""The loop that `learn` compiles, written by hand, and problems to run both on."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse as sp

import safespot as ss
from tests.support.digest import state

Array = Any  # a NumPy array; its shape stands beside it

S, A, H, M = 4, 3, 3, 2
SENSES = ["<=", ">="]
REWARD_RANGE, RANGES = (-2.0, 6.0), [(0.0, 5.0), (10.0, 13.0)]
SCALES = 8.0, np.array([5.0, 3.0])  # of the reward and the constraints
OPTIONS: dict[str, Any] = {"rho": 2.0, "bonus_scale": 0.02, "threshold_scale": 0.2}


def example(
    signals: ss.signals.Signals | None = None,
    *,
    sparse: bool = False,
    steps: bool = False,
    start: Any = 0,
    mask: str = "",
    units: bool = False,
    alpha: float = 0.5,
) -> ss.Problem:
    """A random CMDP with two limits; with `units` the same one in costs and ranges of its own."""
    rng = np.random.default_rng(8)
    weights = rng.random((H, S, A, S)) * (rng.random((H, S, A, S)) < 0.6)
    weights[..., 0] += 0.1
    P = weights / weights.sum(axis=-1, keepdims=True)
    r, g = rng.random((H, S, A)), rng.random((M, H, S, A))
    limits = alpha + 0.1 * rng.random((M, H))
    masks = {"": None, "states": rng.random((S, A)) < 0.7, "steps": rng.random((H, S, A)) < 0.7}
    actions = masks[mask]
    if actions is not None:
        actions[..., 0] = True
    if not steps:
        P, r, g = P[0], r[0], g[:, 0]
    transitions: Any = P
    if sparse:
        matrices = [sp.csr_array(block) for block in P.reshape(-1, S * A, S)]
        transitions = matrices if steps else matrices[0]
    arguments: dict[str, Any] = {}
    if units:
        r = -2.0 + 8.0 * r
        g = np.stack([5.0 - 5.0 * g[0], 10.0 + 3.0 * g[1]])
        limits = np.stack([5.0 - 5.0 * limits[0], 10.0 + 3.0 * limits[1]])
        arguments.update(senses=SENSES, reward_range=REWARD_RANGE, constraint_ranges=RANGES)
    cmdp = ss.CMDP(transitions, r, g, limits, start, actions=actions, horizon=H, **arguments)
    return ss.Problem(cmdp, signals)


def spot(problem: ss.Problem, episodes: int | None, **options: Any) -> ss.Spot:
    return ss.Spot(**problem.interface, episodes=episodes, **{**OPTIONS, **options})


class Trail(NamedTuple):
    """What was read before each episode, and the exact values of each episode's policy."""

    episodes: list[ss.Episode]
    policies: Array  # [T, H, S, A]
    multipliers: Array  # [T, m]
    thresholds: Array  # [T, m]
    lower: Array  # [T, m]
    upper: Array  # [T, m]
    values: Array  # [T]
    constraints: Array  # [T, m]


def by_hand(problem: ss.Problem, learner: ss.Spot, episodes: int, seed: int) -> Trail:
    """Play and observe, from the learner's first episode on."""
    streams = ss.streams(seed)
    played: list[ss.Episode] = []
    rows: list[tuple[Array, ...]] = []
    for t in range(1, episodes + 1):
        assert learner.episode == t
        policy = learner.policy
        exact = ss.evaluate(problem.cmdp, policy)
        rows.append((
            policy, learner.multipliers, learner.thresholds, *learner.threshold_bounds,
            exact.value, exact.constraints,
        ))  # fmt: skip
        played.append(ss.play(problem, policy, streams, t))
        learner.observe(played[-1])
    return Trail(played, *(np.array(column) for column in zip(*rows, strict=True)))


def saved(learner: ss.Learner, folder: Path) -> bytes:
    """The bytes of a learner's file."""
    learner.save(folder / "saved")
    return (folder / "saved").read_bytes()


def same(ours: ss.Learner, theirs: ss.Learner, folder: Path) -> None:
    """Two learners are the same bit for bit: in their files, and in what they derive from that."""
    assert ours.episode == theirs.episode
    assert ours.policy.tobytes() == theirs.policy.tobytes()
    assert saved(ours, folder) == saved(theirs, folder)
    for mine, yours in zip(state(ours), state(theirs), strict=True):
        assert mine.shape == yours.shape
        assert mine.tobytes() == yours.tobytes()


def follows(run: ss.Run, trail: Trail) -> None:
    """A run read what the trail read: the same bits; and its values are exact."""
    rows = run.episodes - 1
    for ours, theirs in (
        (run.multipliers, trail.multipliers),
        (run.thresholds, trail.thresholds),
        (run.threshold_bounds[0], trail.lower),
        (run.threshold_bounds[1], trail.upper),
    ):
        assert ours.tobytes() == theirs[rows].tobytes()
    np.testing.assert_allclose(run.values, trail.values[rows], rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(
        run.constraint_values, trail.constraints[rows], rtol=1e-12, atol=1e-12
    )
