"""Episodes drawn at random, without a model behind them: valid, and otherwise as wild as they come."""

from __future__ import annotations

import numpy as np

import safespot as ss
from safespot.arrays import Bool, Float


def full_mask(mask: Bool | None, H: int, S: int, A: int) -> Bool:
    """Admissible actions ``[H,S,A]``; None admits all."""
    return np.broadcast_to(np.True_ if mask is None else mask, (H, S, A))


def random_mask(rng: np.random.Generator, *shape: int) -> Bool:
    """Booleans with at least one True in every row."""
    mask = rng.random(shape) < 0.6
    mask[..., 0] |= ~mask.any(axis=-1)
    return mask


def random_episode(
    rng: np.random.Generator,
    mask: Bool,
    m: int,
    *,
    start: int | None = 0,
    missing: float = 0.0,
    means: Float | None = None,
) -> ss.Episode:
    """States and admissible actions uniform; signals in [0,1]; `missing` steps deficit a threshold sample (D7).

    `means` ``[H,S,A]`` makes rewards and constraints Bernoulli, half of the time, so that sums are not all alike.
    """
    H, S, _ = mask.shape
    states = rng.integers(S, size=H + 1)
    if start is not None:
        states[0] = start
    actions = np.array([rng.choice(np.flatnonzero(mask[h, states[h]])) for h in range(H)], np.int64)
    signals = rng.random((H, 1 + m))
    if means is not None:
        coins = signals < means[np.arange(H), states[:-1], actions][:, None]
        signals = np.where(rng.random((H, 1)) < 0.5, coins, signals)
    thresholds = rng.random((H, m))
    thresholds[rng.random(H) < missing] = np.nan
    return ss.Episode(states, actions, signals[:, 0], signals[:, 1:], thresholds)
