"""Long runs: constant memory, or as much as the window needs; no drift; counters that do not overflow."""

from __future__ import annotations

import time
from typing import Any

import numpy as np

import safespot as ss
from tests.support.contract import Subject


def long_run(episodes: int, window: float) -> dict[str, Any]:
    """Learn for so many episodes, and look at the learner a tenth of the way and at the end."""
    problem = ss.problems.make("random", states=3, actions=2, horizon=3)
    learner = ss.Spot(
        **problem.interface,
        episodes=episodes,
        rho=2.0,
        bonus_scale=0.1,
        threshold_scale=0.1,
        window=window,
    )
    began = time.perf_counter()
    ss.learn(problem, learner, episodes // 10, track="grid")
    early = kept(learner)
    ss.learn(problem, learner, track="grid")
    sums = np.r_[learner.policy.sum(axis=2).ravel(), transitions(learner).sum(axis=1)]
    window_ = learner.window
    return {
        "episodes": learner.episode - 1,
        "seconds": time.perf_counter() - began,
        "kept_early": early,
        "kept": kept(learner),
        "row_error": float(np.abs(sums - 1.0).max()),
        "counts": [int(n) for n in learner.statistics.n.sum(axis=1)],
        "window": int(window_.span[1]),
        # Of a window, every sample and its pair are kept in a ring that doubles.
        "ring": window_.pairs.nbytes + window_.samples.nbytes,
        "ring_at_most": 0 if window == 1.0 else 2 * max(64, int(window_.span[1]) + 1) * 3 * (4 + 8),
        "sums_error": window_error(learner),
        "integers": {
            str(a.dtype)
            for a in (learner.statistics.n, learner.statistics.starts, window_.n, window_.span)
        },
    }


def kept(learner: ss.Learner) -> int:
    """Bytes of all that a learner carries from one episode to the next."""
    return sum(array.nbytes for array in learner.arrays().values())


def transitions(learner: ss.Learner) -> Any:
    """The empirical transitions of every pair that was visited."""
    counts = np.moveaxis(learner.statistics.successors.dense, 1, -1).reshape(
        -1, learner.interface.S
    )
    n = learner.statistics.n.reshape(-1, 1)
    return (counts / np.maximum(n, 1))[n[:, 0] > 0]


def window_error(learner: ss.Learner) -> float:
    """How far the running sums of the window are from the exact ones; 0 where it forgets nothing."""
    w = learner.window
    if len(w.pairs) == 0:
        return 0.0
    _, length, oldest = w.span
    held = (oldest + np.arange(length)) % len(w.pairs)
    H, pairs = w.n.shape
    exact = [
        np.bincount(w.pairs[held, h], w.samples[held, h, 0], minlength=pairs) for h in range(H)
    ]
    return float(np.abs(w.sums[0] + w.carries[0] - exact).max())


def beyond_32_bits(times: int = 2**31 - 2) -> ss.Learner:
    """A learner that has seen one episode 2^31 - 2 times, and then eight others."""
    subject = Subject("spot", "default")
    seen = subject.run(subject.make(episodes=2**40), 1, 1)
    arrays = seen.arrays()
    for name in ("finished", "statistics.n", "statistics.sums", "statistics.starts", "statistics.successors.dense",
                 "window.n", "window.sums"):  # fmt: skip
        arrays[name] = arrays[name] * times
    arrays["window.span"] = arrays["window.span"] * np.array([times, times, 1])
    learner = subject.make(episodes=2**40)
    learner.restore(arrays)
    return subject.run(learner, 2, 8)  # type: ignore[no-any-return]
