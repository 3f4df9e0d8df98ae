"""The step of SPOT: Algorithm 2 of the paper, line by line.

Each episode it

- takes the optimistic model and the chosen threshold from the episodes *before* the one being played (line 2),
- evaluates its policy in it, truncated (lines 3 and 4),
- moves the policy by mirror ascent and the multipliers by a projected step (lines 5 to 8),
- and only then adds the episode that was played to its statistics (line 9).
"""

from __future__ import annotations

import math
from typing import NamedTuple

from ..arrays import Bool, Float, InsideEpisode, Int, Policy
from ..kernels.jit import inlined, no_refcount
from ..kernels.sums import offset
from .limits import learn_thresholds
from .optimism import Radii, refresh_pair, transition_radius
from .planning import evaluate_states, forget, hand_over, start_gap
from .updates import dual_step, mirror_ascent
from .visits import Statistics, Successors, add_visit
from .window import Window

BLOCK = 512  # pairs of a large problem that are worked on at once


class SpotRates(NamedTuple):
    """What the steps of one epoch compute with."""

    radii: Radii
    eta: float  # the step of the policy
    step: float  # the step of the multipliers, 1 / eta_lambda
    xi: float  # the stance
    rho: float  # the bound of the multipliers
    start: int  # the state, or S: the start distribution is learned (D5)
    learned: bool  # whether the thresholds are learned


class Scratch(NamedTuple):
    """Buffers that a step works in; they carry nothing from one step to the next but zeros."""

    G: Float  # [1+m, S]
    G_now: Float  # [1+m, S], zero between steps
    D: Float  # [1+m, S*A]
    Q: Float  # [H*S*A], of a small problem zero at the first step but for a known start
    softmax: Float  # [H*S*A + 3]
    gap: Float  # [1+m]
    alpha: Float  # [m]
    values: Float  # [m]


class SpotState(NamedTuple):
    """What a step changes, beside the statistics and the window."""

    logits: Float  # [H, S, A], at most 0; exp of them sums to at least one half
    pi: Policy  # [H, S, A]: the softmax of the logits
    flat_logits: Float  # [H*S*A]: the same memory; a change of shape costs as much as a small step
    flat_pi: Float  # [H*S*A]
    lam: Float  # [m]
    lower: Float  # [m]: threshold bounds from the finished episodes, derived from the window
    upper: Float  # [m]
    finished: Int  # [1]: episodes
    mask: Bool  # [H, S*A]
    deficit: Float  # [1+m, H, S*A]: 1 - v_bar, derived from the statistics
    weight: Float  # [H, S*A]: 1 / n, derived from the statistics
    max_deficit: (
        Float  # [H, S]: the largest deficit of a state's actions, derived; for large problems only
    )
    scratch: Scratch


@inlined
def spot_step(
    rates: SpotRates,
    state: SpotState,
    statistics: Statistics,
    window: Window,
    episode: InsideEpisode,
) -> bool:
    """Algorithm 2 for one episode t: from pi_t and the data before t to pi_{t+1}, then the data of t.

    Returns whether the policy has moved.
    """
    H, S, _ = state.pi.shape
    w = state.scratch
    # Line 2. The optimistic model is `deficit` = 1 - v_bar; the threshold is chosen by the stance.
    for i in range(state.lam.shape[0]):
        w.alpha[i] = rates.xi * state.lower[i] + (1.0 - rates.xi) * state.upper[i]
    # Lines 3 to 6: truncated policy evaluation of pi_t, and mirror ascent to pi_{t+1}.
    if statistics.successors.dense.shape[0] > 0:
        moved = sweep_steps(rates.eta, rates.start, state, statistics.successors)
    else:
        moved = sweep_states(rates.eta, state, statistics)
    # Lines 7 and 8: the dual step, with V_g at the start.
    t = state.finished[0]
    phi_0 = 0.0
    if rates.start == S:
        phi_0 = rates.radii.bonus_scale * transition_radius(rates.radii, max(1.0, float(t)))
    start_gap(w.G, rates.start, statistics.starts, t, phi_0, w.gap)
    for i in range(state.lam.shape[0]):
        w.values[i] = H - w.gap[1 + i]
    dual_step(state.lam, w.alpha, w.values, rates.step, rates.rho)
    # Line 9: the episode that was played under pi_t joins the data.
    statistics.starts[episode.states[0]] += 1
    for h in range(H):
        s, pair = episode.states[h], episode.pairs[h]
        reward, constraints = episode.rewards[h], episode.constraints[h]
        if math.isnan(reward):  # an unfinished episode teaches no more of the process
            break
        add_visit(statistics, h, s, pair, episode.states[h + 1], reward, constraints)
        refresh_pair(
            rates.radii, statistics, state.mask, h, s, pair,
            state.deficit, state.weight, state.max_deficit,
        )  # fmt: skip
    state.finished[0] += 1
    if rates.learned:
        learn_thresholds(window, rates.radii, episode, state.lower, state.upper)
    return moved


@inlined
def sweep_steps(eta: float, start: int, state: SpotState, successors: Successors) -> bool:
    """Lines 3 to 6 for a small problem, all states of a step at once; returns whether the policy has moved.

    At the first step only a known `start` can be met; elsewhere Q stays at 0 there. Mirror ascent runs over all steps
    from the first to the last at which some Q is below 0: elsewhere the same logits give the same policy.
    """
    H, S, A = state.pi.shape
    w, pairs = state.scratch, S * A
    first, last = H, 0
    for h in range(H - 1, -1, -1):
        begin, end = (start, start + 1) if h == 0 and start < S else (0, S)
        policy, Q = state.flat_pi[offset(h, pairs) :], w.Q[offset(h * S + begin, A) :]
        if evaluate_states(
            successors, state.deficit, state.weight, policy, state.lam,
            A, h, begin, end, w.G, w.D, Q, w.G,
        ):  # fmt: skip
            first, last = h, max(last, h + 1)
    if first < last:
        Q = w.Q[offset(first, pairs) :]
        mirror_ascent(state.flat_logits, state.flat_pi, Q, eta, A, first * S, last * S, w.softmax)
    return bool(first < last)


@inlined
def sweep_states(eta: float, state: SpotState, statistics: Statistics) -> bool:
    """Lines 3 to 6 for a large problem, a few neighboring states at once, so that they stay in the cache.

    Only states that were met at a step can be below their cap, and of these only the ones whose `max_deficit` and the
    largest gap ahead allow it.
    """
    H, S, A = state.pi.shape
    most_states = max(1, BLOCK // A)
    w = state.scratch
    logits, pi = state.flat_logits.reshape(H, S * A), state.flat_pi.reshape(H, S * A)
    moved, most = False, 0.0
    forget(w.G, statistics.met[0], statistics.how_many[0])  # left from the last episode
    for h in range(H - 1, -1, -1):
        met, how_many, max_deficit = statistics.met[h], statistics.how_many[h], state.max_deficit[h]
        j = 0
        while j < how_many:
            first = last = met[j]
            while (
                j < how_many
                and met[j] == last
                and last - first < most_states
                and max_deficit[last] + most > 0.0
            ):
                last += 1
                j += 1
            if first == last:
                j += 1
            elif move_states(
                eta, statistics.successors, state.deficit, state.weight, logits[h], pi[h], state.lam,
                h, first, last, w,
            ):  # fmt: skip
                moved = True
        if h < H - 1:
            forget(w.G, statistics.met[h + 1], statistics.how_many[h + 1])
        most = hand_over(w.G_now, w.G, statistics.met[h], statistics.how_many[h])
    return moved


@no_refcount
def move_states(
    eta: float,
    successors: Successors,
    deficit: Float,
    weight: Float,
    logits: Float,
    pi: Float,
    lam: Float,
    h: int,
    first: int,
    last: int,
    w: Scratch,
) -> bool:
    """Evaluate states from `first` up to `last` at step h, and move their policy; whether anything moved."""
    A = pi.shape[0] // w.G.shape[1]
    below = evaluate_states(
        successors, deficit, weight, pi, lam, A, h, first, last, w.G, w.D, w.Q, w.G_now
    )
    if below:
        mirror_ascent(logits, pi, w.Q, eta, A, first, last, w.softmax)
    return below
