"""How wide the bounds from play are, how soon they decide, and what they cost.

`python -m studies.evidence` prints the tables of `results/evidence.md`; it takes about two minutes.
"""

from __future__ import annotations

import itertools
import math
import time
from statistics import NormalDist
from typing import Any

import numpy as np

import safespot as ss
from safespot.evidence.alarm import bet_on_episode
from safespot.evidence.lengths import episodes_needed
from safespot.evidence.meter import REWARD, meter_episodes
from safespot.evidence.sequences import (
    changing_means,
    fixed_means,
    observe_fixed,
    observe_many_changing,
    read_fixed,
    sums_of_means,
    targets,
)
from safespot.judging.trial import open_source
from safespot.kernels.jit import no_refcount
from safespot.learners.threshold_totals import observe_totals, total_rates, total_state

Array = Any
DELTA = 0.05
RUNS = 20
LOOKS = (1_000, 10_000)


def main() -> None:
    print(
        "| problem | episodes | normal, ± | frozen policy | meter | Bernstein form | of fixed length |"
    )
    print("|---|---|---|---|---|---|---|")
    for name, problem, policy in problems():
        for n in LOOKS:
            print(f"| {name} | {n:,} | " + " | ".join(widths(problem, policy, n)) + " |")
    print("\n| rare events | frozen policy | meter | Bernstein form |\n|---|---|---|---|")
    for name, row in rare_events():
        print(f"| {name} | {row} |")
    print(
        "\n| room | deviation | `episodes_needed` | decided after (median, 90 %) |\n|---|---|---|---|"
    )
    for room in (0.2, 0.4, 0.8):
        print("| " + " | ".join(decisions(room)) + " |")
    print(f"\nthreshold of dosing after 20,000 episodes: ±{dosing_threshold():.4f} doses")
    print(
        "\n| between false alarms, at least | measured | break of 0.2 of 4 | of 0.8 | of 1.6 |\n|---|---|---|---|---|"
    )
    for between in (100, 1_000, 10_000):
        print("| " + " | ".join(alarms(between)) + " |")
    print("\nmeter, ns an episode: " + ", ".join(f"m={m}: {cost(m):.0f}" for m in (1, 2)))


def problems() -> list[tuple[str, ss.Problem, Array]]:
    dosing = ss.problems.make("dosing")
    found = [("`dosing`", dosing, ss.solve(dosing.cmdp).policy)]
    for m in (1, 2):
        problem = ss.problems.make("random", states=5, actions=3, horizon=4, constraints=m, seed=1)
        found.append((f"`random`, m = {m}", problem, ss.slater(problem.cmdp).policy))
    return found


@no_refcount
def watch_fixed(weights: Any, state: Any, x: Array, level: float, kept: float) -> int:
    """The episode after which every row's mean is above `kept`, or the last."""
    for t in range(x.shape[0]):
        above = True
        for r in range(x.shape[1]):
            observe_fixed(weights, state, r, x[t, r])
            if kept < 1.0:
                read_fixed(weights, state, r, level)
            above &= state.lower[r] > kept
        if above:
            return t + 1
    return int(x.shape[0])


def differences_of(problem: ss.Problem, policy: Array, n: int, seed: int) -> Array:
    """D of the first constraint, scaled to [0,1]: ``[n]``."""
    m, source = problem.cmdp.m, open_source(problem, policy, seed, None, {})
    whole = np.array(list(itertools.islice(source.sums, n)))
    return ((whole[:, 2] - whole[:, 2 + 2 * m]) / problem.cmdp.H + 1.0) / 2.0


def bernstein(x: Array, share: float) -> Array:
    """Maurer and Pontil's lower bounds of the means of `x` ``[n,k]`` in [0,1], for one n fixed in advance."""
    n, log = len(x), math.log(2.0 / share)
    radius = np.sqrt(2.0 * x.var(axis=0, ddof=1) * log / n) + 7.0 * log / (3.0 * (n - 1))
    return (x.mean(axis=0) - radius).clip(0.0)


def changing_width(x: Array, share: float) -> float:
    """Between the bounds of the mean of E."""
    state, low = changing_means(2), np.zeros(2)
    observe_many_changing(state, np.stack([x, 1.0 - x], axis=1))
    sums_of_means(state, np.full(2, -math.log(share)), low)
    return float(1.0 - low.sum() / len(x))


def fixed_width(x: Array, share: float) -> float:
    state, weights, level = fixed_means(2), targets(len(x)), -math.log(share)
    watch_fixed(weights, state, np.stack([x, 1.0 - x], axis=1), level, 1.0)
    for r in range(2):
        read_fixed(weights, state, r, level)
    return float(1.0 - state.lower.sum())


def widths(problem: ss.Problem, policy: Array, n: int) -> tuple[str, ...]:
    """The half-width of a normal interval, in the user's units, and how many times as wide the others are."""
    m, rows = problem.cmdp.m, []
    each = DELTA / (2 * m)
    for seed in range(RUNS):
        x = differences_of(problem, policy, n, seed)
        low, high = sequence(x[:, None], each, n)
        at_once = [float(bernstein(side[:, None], each)[0]) for side in (x, 1.0 - x)]
        rows.append(
            (
                2.0 * NormalDist().inv_cdf(1.0 - each) * x.std() / math.sqrt(n),
                fixed_width(x, each), changing_width(x, (1.0 - REWARD) * each), high[-1, 0] - low[-1, 0],
                1.0 - sum(at_once),
            )
        )  # fmt: skip
    normal, *others = np.mean(rows, axis=0)
    span = 2 * problem.cmdp.H * abs(float(problem.cmdp.units.constraints.scale[0]))
    return f"{normal * span / 2:.4f}", *(f"{other / normal:.2f}" for other in others)


def sequence(x: Array, share: float, planned: int) -> tuple[Array, Array]:
    """The rival: an empirical Bernstein sequence with predictable weights (Waudby-Smith and Ramdas 2023, Theorem 2).

    Bounds of the means of `x` ``[n,k]`` in [0,1] after each episode. It is sharp around the number of episodes that its
    weights are made for; so several of them, for `planned` episodes, a quarter and so on, share what may be missed.
    """
    goals = [float(planned)]
    while goals[-1] > 256:
        goals.append(goals[-1] / 4.0)
    each = [bernstein_sequence(x, share / len(goals), goal) for goal in goals]
    low = np.max([low for low, _ in each], axis=0)
    return low, np.maximum(low, np.min([high for _, high in each], axis=0))


def bernstein_sequence(x: Array, share: float, goal: float) -> tuple[Array, Array]:
    log, t = math.log(1.0 / share), np.arange(1, len(x) + 1)[:, None]
    mean = (0.5 + np.cumsum(x, axis=0)) / (t + 1)
    variance = (0.25 + np.cumsum((x - mean) ** 2, axis=0)) / (t + 1)
    first = np.ones((1, x.shape[1]))
    mean, variance = np.r_[0.5 * first, mean[:-1]], np.r_[0.25 * first, variance[:-1]]
    weight = np.minimum(0.5, np.sqrt(2.0 * log / (variance * goal)))
    price = np.cumsum((x - mean) ** 2 * (-np.log1p(-weight) - weight), axis=0)
    total = np.cumsum(weight, axis=0)
    center, radius = np.cumsum(weight * x, axis=0) / total, (log + price) / total
    return (center - radius).clip(0.0), (center + radius).clip(None, 1.0)


def rare_events() -> list[tuple[str, str]]:
    """Falls in 14 steps, at most one an episode: lower and upper bounds of the mean, with c = 14 and with c = 1."""
    found = []
    for p, n in ((0.015, 5_000), (0.05, 1_000)):
        falls = (np.random.default_rng(0).random(n) < p).astype(float)
        for c in (14.0, 1.0):
            x = np.stack([falls, c - falls], axis=1) / c
            state, low = changing_means(2), np.zeros(2)
            observe_many_changing(state, x)
            sums_of_means(state, np.full(2, -math.log(DELTA / 2)), low)
            fixed, weights = fixed_means(2), targets(n)
            watch_fixed(weights, fixed, x, 0.0, 1.0)
            for r in range(2):
                read_fixed(weights, fixed, r, -math.log(DELTA / 2))
            old_low, old_high = sequence(x[:, :1], DELTA / 2, n)
            found.append(
                (
                    f"{p} falls, range {c:g}, {n:,} episodes, seen {falls.mean():.4f}",
                    f"[{c * fixed.lower[0]:.4f}, {c - c * fixed.lower[1]:.4f}] | "
                    f"[{c * low[0] / n:.4f}, {c - c * low[1] / n:.4f}] | "
                    f"[{c * old_low[-1, 0]:.4f}, {c * old_high[-1, 0]:.4f}]",
                )
            )
    return found


def decisions(room: float) -> tuple[str, ...]:
    """Trials that keep a limit of 2 over 4 steps with this room, planned for four times as many as expected."""
    deviation = math.sqrt(4 * ((0.5 + room / 4) * (0.5 - room / 4) + 0.25))
    expected = episodes_needed(room, deviation)
    planned = 4 * expected
    stops, rng = [], np.random.default_rng(0)
    for _ in range(200):
        g, x = rng.binomial(4, 0.5 + room / 4, planned), rng.binomial(4, 0.5, planned)
        d = ((g - x + 4) / 8)[:, None]
        stops.append(watch_fixed(targets(planned), fixed_means(1), d, -math.log(DELTA), 0.5))
    return (
        f"{room:g}", f"{deviation:.2f}", f"{expected:,}",
        f"{np.median(stops):,.0f}, {np.quantile(stops, 0.9):,.0f}",
    )  # fmt: skip


@no_refcount
def watch_totals(rates: Any, state: Any, hints: Array, lower: Array, upper: Array) -> None:
    for t in range(hints.shape[0]):
        observe_totals(rates, state, hints[t], lower, upper)


def dosing_threshold() -> float:
    """Half the width of the bounds on the tolerance, the largest of ten runs."""
    found = []
    for seed in range(10):
        noise = np.random.default_rng(seed).standard_normal((20_000, 14, 1))
        hints = 6 / 14 + np.clip(0.2 * noise, -6 / 14, 6 / 14)
        rates = total_rates(1, 14, DELTA)
        lower, upper = np.zeros(1), np.full(1, 14.0)
        watch_totals(rates, total_state(rates, 14), hints, lower, upper)
        found.append((upper[0] - lower[0]) / 2)
    return float(max(found))


@no_refcount
def first_alarm(declared: Any, state: Any, x: Array, sums: Array, between: float) -> int:
    for t in range(sums.shape[0]):
        bet_on_episode(declared, state, sums[t], x)
        if state.evidence[0] >= between:
            return t + 1
    return int(sums.shape[0])


def alarms(between: int) -> tuple[str, ...]:
    """The mean time to a false alarm at the limit itself, and the delay after breaks of several sizes."""
    interface = {"states": 1, "actions": 1, "horizon": 4, "constraints": 1}
    rng, found = np.random.default_rng(0), []
    for broken in (0.0, 0.2, 0.8, 1.6):
        waits = []
        for _ in range(200):
            u = rng.random((20 * between if broken == 0.0 else 6_000, 4, 2))
            g, x = (u < np.array([0.5 - broken / 4, 0.5])).sum(axis=1).T
            sums = np.stack([0.0 * g, 0.0 * g, g, g, x, x], axis=1)
            alarm = ss.SafetyAlarm(interface)
            waits.append(
                first_alarm(alarm.terms.declared, alarm.state, np.zeros(4), sums, float(between))
            )  # fmt: skip
        found.append(f"{np.mean(waits):,.0f}")
    return f"{between:,}", *found


def cost(m: int) -> float:
    """Nanoseconds an episode, the best of ten."""
    meter = ss.SafetyMeter({"states": 1, "actions": 1, "horizon": 4, "constraints": m})
    sums, best = 4.0 * np.random.default_rng(0).random((100_000, 1 + 2 * m)), math.inf
    parts = np.split(sums, [1, 1 + m], axis=1)
    rows = np.hstack([part for part in parts for _ in range(2)])
    for _ in range(10):
        begin = time.perf_counter()
        meter_episodes(meter.terms.declared, meter.state, rows, np.zeros(2 + 2 * m))
        best = min(best, time.perf_counter() - begin)
    return best / len(rows) * 1e9


if __name__ == "__main__":
    main()
