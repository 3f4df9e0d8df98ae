"""Worlds that try to make the bounds miss: H steps, one constraint; each tells its true means.

Every world draws an episode from uniform numbers ``u`` ``[H,3]`` and what was seen so far, and returns the mean of the
sum of g and the mean of the sum of hints that it had before drawing.
"""

from __future__ import annotations

import math
from typing import Any

from safespot.kernels.jit import inlined

Array = Any

NAMES = (
    "coins", "rare", "beta", "gaussian", "deterministic", "adversary", "drift", "missing by g", "missing by hint",
    "one noise", "correlated with g", "ended by hints", "hidden types", "one noise, ended by g",
)  # fmt: skip
(
    COINS, RARE, BETA, GAUSSIAN, DETERMINISTIC, ADVERSARY, DRIFT, MISSING_BY_G, MISSING_BY_HINT,
    ONE_NOISE, CORRELATED, ENDED_BY_HINTS, HIDDEN, ONE_NOISE_ENDED_BY_G,
) = range(len(NAMES))  # fmt: skip


@inlined
def draw(
    world: int, progress: float, ahead: float, u: Array, g: Array, x: Array
) -> tuple[float, float]:
    """Fill `g` and `x` ``[H,1]``; `progress` in [0,1] through the run, `ahead` what was seen less what was expected."""
    H = g.shape[0]
    p, a = 0.5, 0.4
    if world == RARE:
        p, a = 0.01, 0.01
    elif world == ADVERSARY:
        # The higher the sum so far, the further away the next mean, and the other way round.
        p = 0.02 if ahead > 0.0 else 0.98
        a = 0.9 if ahead > 1.0 else 0.1
    elif world == DRIFT:
        a = 0.1 + 0.8 * progress
    elif world == HIDDEN:
        kind = u[0, 2] < 0.5
        p, a = (0.9, 0.8) if kind else (0.1, 0.2)
    alive, expected = True, 0.0
    for h in range(H):
        if world == BETA:  # Beta(1/2, 1/2): sin^2 of a uniform angle
            g[h, 0] = math.sin(0.5 * math.pi * u[h, 0]) ** 2
            x[h, 0] = 0.8 * math.sin(0.5 * math.pi * u[h, 1]) ** 2
        elif world == GAUSSIAN:  # cut off symmetrically
            normal = math.sqrt(-2.0 * math.log(1.0 - u[h, 0]))
            g[h, 0] = 0.5 + min(max(0.2 * normal * math.cos(2.0 * math.pi * u[h, 1]), -0.5), 0.5)
            x[h, 0] = 0.4 + min(max(0.1 * normal * math.sin(2.0 * math.pi * u[h, 1]), -0.4), 0.4)
        elif world == DETERMINISTIC:
            g[h, 0], x[h, 0] = p, a
        else:
            g[h, 0] = 1.0 if u[h, 0] < p else 0.0
            hint = u[0, 1] if world in (ONE_NOISE, ONE_NOISE_ENDED_BY_G) else u[h, 1]
            hint = u[h, 0] if world == CORRELATED else hint
            x[h, 0] = 1.0 if hint < a else 0.0
        if world == MISSING_BY_G and g[h, 0] == 0.0:
            x[h, 0] = math.nan
        if world == MISSING_BY_HINT and x[h, 0] == 1.0 and u[h, 2] < 0.7:
            x[h, 0] = math.nan
        if not alive:
            g[h, 0], x[h, 0] = 0.0, math.nan
        if world == ENDED_BY_HINTS:
            expected += p * a**h
            alive = alive and x[h, 0] == 1.0
        elif world == ONE_NOISE_ENDED_BY_G:
            expected += p ** (h + 1)
            alive = alive and g[h, 0] == 1.0
        else:
            expected += 0.5 if world == HIDDEN else p
    return expected, H * (0.5 if world == HIDDEN else a)
