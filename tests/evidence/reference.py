"""The slow reading of `docs/evidence.md`: whole arrays, logarithms, dense root search, nothing kept."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

Array = Any


def guesses(x: Array) -> Array:
    """What is guessed of each number from those before it."""
    before = np.concatenate([[0.0], np.cumsum(x)[:-1]])
    return (0.5 + before) / np.arange(1, len(x) + 1)


def root(evidence: Callable[[float], float], level: float, low: float, high: float) -> float:
    """The largest z up to which a falling function is at least `level`."""
    for _ in range(200):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if evidence(middle) >= level else (low, middle)
    return low


def changing_sum(x: Array, share: float) -> float:
    """A lower bound of sum E after the numbers `x`, for means that change."""
    weights = 6.0 / 3.0 ** np.arange(8)
    prior = 1.0 / (1.0 + np.log(weights / 0.5) ** 2)
    prior /= prior.sum()
    c = np.minimum(guesses(x)[:, None], 0.9 / weights)
    logs = np.log1p(weights * (x[:, None] - c)).sum(axis=0)

    def evidence(total: float) -> float:
        return float(np.logaddexp.reduce(np.log(prior) + logs - weights * (total - c.sum(axis=0))))

    return max(0.0, root(evidence, np.log(1.0 / share), -1e4, len(x) + 1.0))


def fixed_mean(x: Array, share: float, planned: float) -> float:
    """A lower bound of the mean after the numbers `x`, from these alone."""
    k = np.arange(-6, 10)
    rates, prior = np.sqrt(10.0 / (planned * 4.0**k)), 1.0 / (1.0 + k**2)
    prior /= prior.sum()
    c = guesses(x)
    before = np.concatenate([[0.0], np.cumsum((x - c) ** 2)[:-1]])
    deviation = np.sqrt((1.0 / 16.0 + before) / np.arange(1, len(x) + 1))
    weights = np.minimum(rates / deviation[:, None], np.minimum(64.0, 0.9 / c)[:, None])
    logs = np.log1p(weights * (x - c)[:, None]).sum(axis=0)

    def evidence(mean: float) -> float:
        exponents = logs - (weights * (mean - c)[:, None]).sum(axis=0)
        return float(np.logaddexp.reduce(np.log(prior) + exponents))

    return float(np.clip(root(evidence, np.log(1.0 / share), -1e3, 2.0), 0.0, 1.0))


def sample_mean(n: Array, s: Array, H: int, share: float) -> float:
    """A lower bound of a sample's mean, from episodes with n samples that sum to s; a dense search."""
    weights = 0.5 / 3.0 ** np.arange(8)
    psi = -np.log(1.0 - weights) - weights
    for a in np.linspace(0.0, 1.0, 20_001):
        z = (s - n * a) / H
        exponents = weights * z.sum() - psi * (z**2).sum()
        if np.logaddexp.reduce(exponents - np.log(8.0)) < np.log(1.0 / share):
            return float(a)
    return 1.0


def window_sum(x: Array, y: Array, share: float) -> float:
    """A lower bound of sum E over the numbers `x` of a window, which were guessed to be x - y."""
    weights = 0.9 / 3.0 ** np.arange(8)
    kappa = -(np.log(1 - weights) + weights + weights**2 / 2 + weights**3 / 3) / weights**4
    z = weights * y[:, None]
    logs = (z - z**2 / 2 + z**3 / 3 - kappa * z**4).sum(axis=0)
    assert (logs <= np.log1p(z).sum(axis=0) + 1e-9).all()  # it is below the product

    def evidence(total: float) -> float:
        exponents = logs - weights * (total - (x - y).sum())
        return float(np.logaddexp.reduce(exponents - np.log(8.0)))

    return max(0.0, root(evidence, np.log(1.0 / share), -1e5, len(x) + 1.0))


def betting_mean(x: Array, share: float, means: Array) -> float:
    """Waudby-Smith and Ramdas: the least of `means` at which no bet has won; a dense grid of bets l < 1/mean."""
    for mean in means:
        bets = np.minimum(0.98, np.geomspace(1e-3, 0.98, 60)) / mean
        wealth = np.log1p(bets * (x[:, None] - mean)).sum(axis=0)
        if np.logaddexp.reduce(wealth - np.log(len(bets))) < np.log(1.0 / share):
            return float(mean)
    return float(means[-1])
