"""A published run of OptPrimalDual-CMDP, repeated with our kernels: `python -m studies.uniform_pac INSTANCE
[EPISODES]`.

INSTANCE is an npz file with the arrays of the study "Uniform-PAC-Primal-Dual-CMDP": `P`, `r`, `u` ``[H,S,A(,S)]``,
`mu`, `const` and `bgap`. The study differs from `OptPrimalDual` in four ways, which is why this is a loop of its
own:

- rewards and utilities are known: only transitions are learned; - the bonus is ``0.001 H sum_s' (sqrt(p(1-p) L / n)
+ 14/3 L / n)`` over all s', ``L = ln(6 S A H K / delta)``, delta = 0.1; - rows never visited are uniform, with n =
1 in the bonus, which puts them at their cap as D8 does; - multipliers have no upper bound; the steps are those of K
= 100,000 and of the bound `bgap`.
"""

from __future__ import annotations

import math
import sys
from typing import NamedTuple

import numpy as np

import safespot as ss
from safespot.arrays import Float
from safespot.kernels.jit import kernel
from safespot.model.cmdp import Model
from safespot.model.dynamic_programming import forward_values
from safespot.model.simulation import Laws, Noise, as_laws, draw_noise, play_kernel, streams
from safespot.spot.step import SpotState, sweep_steps
from safespot.spot.updates import dual_step
from safespot.spot.visits import Statistics, add_visit, empty_statistics
from safespot.training.metrics import Tracker, empty_tracker, track

TUNED_FOR = 100_000  # K
DELTA = 0.1
SCALE = 0.001
BLOCK = 1000  # episodes whose random numbers are drawn at once


class Study(NamedTuple):
    """Steps and logarithms of the study."""

    eta: float
    step: float
    log: float
    start: int


class Result(NamedTuple):
    """Sums over the run, and the largest shortfall of one episode."""

    weak_regret: float
    strong_regret: float
    weak_violation: float
    strong_violation: float
    peak: float
    peak_episode: int


def repeat(path: str, episodes: int, seed: int = 0) -> Result:
    """Play the study for so many episodes."""
    problem, rho = load(path)
    cmdp = problem.cmdp
    H, S, A = cmdp.H, cmdp.S, cmdp.A
    study = Study(
        eta=math.sqrt(2.0 * math.log(A) / (H**2 * (1.0 + rho) ** 2 * TUNED_FOR)),
        step=rho / math.sqrt(H**2 * TUNED_FOR),
        log=math.log(6 * S * A * H * TUNED_FOR / DELTA),
        start=int(np.argmax(cmdp.model.start)),
    )
    state = ss.learners.OptPrimalDual(**problem.interface, episodes=TUNED_FOR, rho=rho).state
    seen = empty_statistics(H, S, A, 1, dense=True)
    tracker, random = empty_tracker(S, A, 1, 0), streams(seed)
    optimum = float(ss.solve(cmdp).value)
    tracker.limits[:] = cmdp.model.limits
    peak = np.zeros(2)
    for first in range(0, episodes, BLOCK):
        n = min(BLOCK, episodes - first)
        noise = draw_noise(problem, random, n)
        laws = as_laws(problem)
        block(cmdp.model, laws, noise, n, study, optimum, state, seen, tracker, peak)
    weak, strong = tracker.totals
    return Result(weak[0], strong[0], weak[1], strong[1], peak[0], int(peak[1]))


def load(path: str) -> tuple[ss.Problem, float]:
    """The instance as a problem with exact signals, and the study's bound on the multiplier."""
    with np.load(path) as arrays:
        P, r, u, mu = (np.asarray(arrays[name], np.float64) for name in ("P", "r", "u", "mu"))
        const, bgap = float(arrays["const"]), float(arrays["bgap"])
    cmdp = ss.CMDP(
        P / P.sum(axis=3, keepdims=True), r, u[None], thresholds=[const], start=mu / mu.sum()
    )
    exact = ss.signals.Deterministic()
    return ss.Problem(cmdp, ss.signals.Signals(exact, exact, exact)), bgap


@kernel
def block(
    model: Model,
    laws: Laws,
    noise: Noise,
    episodes: int,
    study: Study,
    optimum: float,
    state: SpotState,
    seen: Statistics,
    tracker: Tracker,
    peak: Float,
) -> None:
    """Episodes: values, play, the step of policy and multiplier, and the visits."""
    H, S, _ = state.pi.shape
    states, pairs = np.zeros(H + 1, np.int64), np.zeros(H, np.int64)
    rewards, constraints, thresholds = np.zeros(H), np.zeros((H, 1)), np.zeros((H, 1))
    w = state.scratch
    for n in range(episodes):
        t = state.finished[0] + 1
        forward_values(
            model, state.flat_pi,
            tracker.now, tracker.after, tracker.mass, tracker.visits, tracker.values,
        )  # fmt: skip
        track(tracker, float(t), optimum)
        shortfall = tracker.limits[0] - tracker.values[1]
        if shortfall > peak[0]:
            peak[0], peak[1] = shortfall, t
        play_kernel(
            model, model.alpha, laws, noise, n, state.pi,
            states, pairs, rewards, constraints, thresholds,
        )  # fmt: skip
        sweep_steps(study.eta, study.start, state, seen.successors)
        w.values[0] = H - w.G[1, study.start]
        dual_step(state.lam, tracker.limits, w.values, study.step, np.inf)
        for h in range(H):
            pair = pairs[h]
            add_visit(seen, h, states[h], pair, states[h + 1], rewards[h], constraints[h])
            count = seen.n[h, pair]
            total = 0.0
            for k in range(S):
                p = seen.successors.dense[h, k, pair] / count
                total += (
                    math.sqrt(p * (1.0 - p) * study.log / count) + 14.0 / 3.0 * study.log / count
                )
            state.weight[h, pair] = 1.0 / count
            state.deficit[0, h, pair] = 1.0 - (rewards[h] + SCALE * H * total)
            state.deficit[1, h, pair] = 1.0 - (constraints[h, 0] + SCALE * H * total)
        state.finished[0] = t


if __name__ == "__main__":
    found = repeat(sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 300_000)
    for name, value in found._asdict().items():
        print(f"{name.replace('_', ' ')}: {value:,.3f}")
