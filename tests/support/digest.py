"""Play fixed episodes with several learners and print what they have become, bit by bit.

Run as a program, also with NUMBA_DISABLE_JIT=1: compiled and plain kernels must print the same.
"""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np

import safespot as ss
from safespot.learners.limits import limits_arrays
from safespot.learners.threshold_totals import HintTotals
from safespot.spot import visits
from tests.support.episodes import full_mask, random_episode, random_mask

MASK = random_mask(np.random.default_rng(0), 3, 4, 3)
LEARNERS: dict[str, dict[str, Any]] = {
    "default": {},
    "bernstein": {"bonus": "bernstein", "window": 0.3, "start": None, "action_mask": MASK},
    "pooled": {"estimator": "pooled", "window": 0.5, "stance": 0.3, "clip_thresholds": False},
    "known": {"thresholds": [1.5, 2.0], "policy_step": 0.5},
    "total": {"estimator": "total", "threshold_scale": 1.0},
    "total, window": {"estimator": "total", "threshold_scale": 1.0, "window": 0.5},
}


def digests(episodes: int = 50) -> dict[str, str]:
    """Of each learner in each layout: a digest of all its numbers after every episode."""
    S, A, H, m = 4, 3, 3, 2
    found = {}
    for dense in (2**22, 0):
        visits.DENSE = dense
        for name, options in LEARNERS.items():
            arguments = {
                "start": 0, "action_mask": None, "bonus_scale": 0.02, "threshold_scale": 0.1, **options
            }  # fmt: skip
            learner = ss.Spot(S, A, H, m, episodes=200, rho=3.0, **arguments)
            rng = np.random.default_rng(7)
            mask = full_mask(arguments["action_mask"], H, S, A)
            digest = hashlib.blake2b(digest_size=16)
            for _ in range(episodes):
                e = random_episode(rng, mask, m, start=arguments["start"], missing=0.2)
                learner.observe(e)
                for array in (*learner.threshold_bounds, *state(learner)):
                    digest.update(array.tobytes())
            assert np.abs(learner.state.pi - learner.state.pi[0, 0, 0]).max() > 0.01
            found[f"{name} {dense}"] = digest.hexdigest()
    visits.DENSE = 2**22
    return found


def state(learner: ss.Learner) -> list[np.ndarray]:
    """All arrays of a learner, derived ones included, but for the buffers."""
    state, statistics = learner.state, learner.statistics
    window = learner.window
    if isinstance(window, HintTotals):
        window = limits_arrays(window).values()
    return [*state[:-1], *statistics[:-1], *statistics.successors, *window]


if __name__ == "__main__":
    for key, value in digests().items():
        print(key, value)
