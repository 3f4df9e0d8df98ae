"""Confidence sequences: bounds of means that hold at every moment at once, from a few numbers of state.

Everything is a *lower* bound for variables x in [0,1]; an upper one is the lower one for 1 - x. Let E_t be the mean
of x_t given the past, and let the guess c_t and the weight l_t >= 0 be chosen before x_t is seen, l_t c_t < 1. As
1 + l (E - c) <= exp(l (E - c)),

    M_t = prod_{i<=t} (1 + l_i (x_i - c_i)) exp(-l_i (E_i - c_i))                                        (product form)

is a non-negative supermartingale from 1 on, and so is a mixture of several. By Ville's inequality it ever reaches
1/share with probability at most `share`. What E would have to be for it to reach 1/share is therefore a bound:

- `ChangingMeans`: with weights l that never change the exponent is -l sum_i (E_i - c_i), so that the bound is one on
  ``sum_t E_t``, whatever the means do.
- `FixedMeans`: where all E_t are one number (or at most one number, which is then bounded), the weights may follow the
  spread that was seen, and the bound is sharper.
- `sample_mean`, `window_sum`: forms of it made of sums alone, for samples whose number is random and for windows.
- `bet`: at a mean that is given beforehand no exponential is needed: ``prod (1 + l (x_i - mu))``.

In the first two nothing depends on the upper end of x's range but the units that l is measured in: a weight may be as
large as x is rare, l < 1/c. `docs/evidence.md` has the proofs, and what is assumed.

The products are kept as they are and their powers of two are set aside now and then, which is exact; logarithms are
taken only where bounds are read.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from ..arrays import Float, frozen
from ..kernels.jit import inlined, inlined_noalias, no_refcount

LARGEST = 0.9  # of l c: the smallest factor is 1 - LARGEST
RESCALED = 128  # episodes after which powers of two are set aside; factors lie in [0.1, 65], so nothing overflows
LN2 = math.log(2.0)

# Weights of means that change: from a few rare events to a hundred million episodes, with most of the prior where the
# totals of 10^2 to 10^5 episodes have their best weight. Eight of them fill vectors whole.
WEIGHTS: Float = frozen(6.0 * 3.0 ** -np.arange(8.0))
PRIOR: Float = 1.0 / (1.0 + np.log(WEIGHTS / 0.5) ** 2)
LOG_PRIOR: Float = frozen(np.log(PRIOR / PRIOR.sum()))
CAPS: Float = frozen(LARGEST / WEIGHTS)  # of the guess, for each weight


class ChangingMeans(NamedTuple):
    """The statistics of a bound on sums of changing means; a row for each variable."""

    product: Float  # [rows, K]: prod (1 + l y) with y = x - c, but for its powers of two
    power: Float  # [rows, K]: these
    drift: Float  # [rows, K]: sum of y
    total: Float  # [rows]: sum of x
    counted: Float  # [1]: how many were seen
    terms: Float  # [K]: a buffer


def changing_means(rows: int) -> ChangingMeans:
    """Return the statistics of no observations, for that many variables."""
    K = len(WEIGHTS)
    return ChangingMeans(
        product=np.ones((rows, K)), power=np.zeros((rows, K)), drift=np.zeros((rows, K)),
        total=np.zeros(rows), counted=np.zeros(1), terms=np.zeros(K),
    )  # fmt: skip


@inlined_noalias
def observe_changing(state: ChangingMeans, x: Float) -> None:
    """Count one number in [0,1] for every row; the guess is the mean so far, capped for each weight."""
    seen = state.counted[0] + 1.0
    share = 1.0 / seen
    for r in range(x.shape[0]):
        new, guess = x[r], (0.5 + state.total[r]) * share
        product, drift = state.product[r], state.drift[r]
        for k in range(
            product.shape[0]
        ):  # not a constant: it would be unrolled, and not vectorized
            y = new - min(guess, CAPS[k])
            product[k] *= 1.0 + WEIGHTS[k] * y
            drift[k] += y
        state.total[r] += new
    state.counted[0] = seen
    if int(seen) % RESCALED == 0:
        for r in range(x.shape[0]):
            set_powers_aside(state.product[r], state.power[r])


@inlined
def set_powers_aside(product: Float, power: Float) -> None:
    """Bring the factors of products into [1/2, 1), and add their exponents to `power`; exact."""
    for k in range(product.shape[0]):
        product[k], exponent = math.frexp(product[k])
        power[k] += exponent


@inlined
def sum_of_means(state: ChangingMeans, r: int, level: float) -> float:
    """Return the bound of ``sum_t E_t`` of row r, with share exp(-level).

    With u = sum E - sum x it is sum E - sum c = u + drift, and u solves
    ``sum_k prior_k product_k exp(-l_k (u + drift_k)) = 1/share``.
    """
    terms = state.terms
    for k in range(terms.shape[0]):
        size = math.log(state.product[r, k]) + LN2 * state.power[r, k]
        terms[k] = LOG_PRIOR[k] + size - WEIGHTS[k] * state.drift[r, k]
    return float(max(0.0, state.total[r] + crossing(terms, WEIGHTS, level)))


@no_refcount
def sums_of_means(state: ChangingMeans, level: Float, lower: Float) -> None:
    """Write ``lower[r]``: bounds of ``sum_t E_t``, each with share exp(-level[r])."""
    for r in range(lower.shape[0]):
        lower[r] = sum_of_means(state, r, level[r])


@no_refcount
def observe_many_changing(state: ChangingMeans, x: Float) -> None:
    """Count numbers ``[n,rows]`` in [0,1], row after row."""
    for n in range(x.shape[0]):
        observe_changing(state, x[n])


@inlined
def crossing(terms: Float, slopes: Float, level: float) -> float:
    """Return the z with ``log sum_k exp(terms_k - slopes_k z) = level``, or a little less; slopes are positive.

    The left side falls in z and is convex, and where a single summand crosses it has not yet fallen to `level`. So
    Newton's steps come from the left and never pass the root: wherever they end is a valid lower bound.
    """
    z = -np.inf
    for k in range(terms.shape[0]):
        z = max(z, (terms[k] - level) / slopes[k])
    for _ in range(100):
        top = -np.inf
        for k in range(terms.shape[0]):
            top = max(top, terms[k] - slopes[k] * z)
        total, slope = 0.0, 0.0
        for k in range(terms.shape[0]):
            part = math.exp(terms[k] - slopes[k] * z - top)
            total += part
            slope += slopes[k] * part
        step = (top + math.log(total) - level) * total / slope
        if not step > 1e-12 * abs(z):
            break
        z += step
    return z


# Means that do not change

TARGETS = 4.0 ** np.arange(-6.0, 10.0)  # numbers of episodes, in parts of the planned one
TYPICAL = 5.0  # ln(1/share) with what the mixture costs, for which the weights are best
STEADY = 4_000  # episodes that a sequence is made for by default
LARGEST_WEIGHT = 64.0
FIRST_VARIANCE = 1.0 / 16.0  # counts as one episode
PATIENCE = 32  # bounds are read again when the number of episodes has grown by 1 / PATIENCE


class Targets(NamedTuple):
    """The weights of a mixture, in units of 1 / the standard deviation, and their prior."""

    rate: Float  # [K]
    log_prior: Float  # [K]


def targets(planned: int = STEADY) -> Targets:
    """Return the weights sqrt(2 L / N) / deviation, sharpest after N episodes, for N around the planned number.

    The prior falls as 1 / (1 + k^2) with N = planned 4^k: half of it lies within a factor of 4.
    """
    prior = 1.0 / (1.0 + (np.log(TARGETS) / math.log(4.0)) ** 2)
    return Targets(
        frozen(np.sqrt(2.0 * TYPICAL / (planned * TARGETS))), frozen(np.log(prior / prior.sum()))
    )


class FixedMeans(NamedTuple):
    """The statistics of a bound on means that do not change; a row for each variable."""

    weight: Float  # [rows, K]: l, of the coming numbers
    product: Float  # [rows, K]: prod (1 + l y), but for its powers of two
    power: Float  # [rows, K]: these
    slope: Float  # [rows, K]: sum of l
    offset: Float  # [rows, K]: sum of l c
    total: Float  # [rows]: sum of x
    squares: Float  # [rows]: sum of y^2
    counted: Float  # [rows]
    lower: Float  # [rows]: the best bound of the mean so far
    due: Float  # [rows]: the count at which it is read again
    terms: Float  # [K]: a buffer


def fixed_means(rows: int) -> FixedMeans:
    """Return the statistics of no observations, where every mean is at least 0."""
    K = len(TARGETS)
    return FixedMeans(
        weight=np.zeros((rows, K)), product=np.ones((rows, K)), power=np.zeros((rows, K)),
        slope=np.zeros((rows, K)), offset=np.zeros((rows, K)), total=np.zeros(rows),
        squares=np.zeros(rows), counted=np.zeros(rows), lower=np.zeros(rows), due=np.ones(rows),
        terms=np.zeros(K),
    )  # fmt: skip


@inlined
def observe_fixed(targets: Targets, state: FixedMeans, r: int, x: float) -> None:
    """Count one number in [0,1] for row r; the guess is the mean so far."""
    guess = running_mean(state, r)
    choose_weights(targets, state, r, guess)
    add_factor(state, r, x, guess)


@inlined_noalias
def choose_weights(targets: Targets, state: FixedMeans, r: int, largest: float) -> None:
    """Choose the weights of the coming numbers of row r, none of which is guessed to be more than `largest`."""
    precision = math.sqrt((state.counted[r] + 1.0) / (FIRST_VARIANCE + state.squares[r]))
    most, weight = min(LARGEST_WEIGHT, LARGEST / largest), state.weight[r]
    for k in range(weight.shape[0]):
        weight[k] = min(targets.rate[k] * precision, most)


@inlined_noalias
def add_factor(state: FixedMeans, r: int, x: float, guess: float) -> None:
    """Count x in [0,1] of row r, of which `guess` was expected, with the weights that stand."""
    weight, product = state.weight[r], state.product[r]
    slope, offset = state.slope[r], state.offset[r]
    y = x - guess
    for k in range(product.shape[0]):
        product[k] *= 1.0 + weight[k] * y
        slope[k] += weight[k]
        offset[k] += weight[k] * guess
    state.total[r] += x
    state.squares[r] += y * y
    state.counted[r] += 1.0
    if int(state.counted[r]) % RESCALED == 0:
        set_powers_aside(product, state.power[r])


@inlined
def running_mean(state: FixedMeans, r: int) -> float:
    """Guess the next x of row r: the mean so far, and one half at first."""
    return float((0.5 + state.total[r]) / (state.counted[r] + 1.0))


@no_refcount
def read_fixed(targets: Targets, state: FixedMeans, r: int, level: float) -> None:
    """Raise ``lower[r]`` to what the numbers so far prove of the mean, with share exp(-level).

    The mean mu solves ``sum_k prior_k product_k exp(offset_k - mu slope_k) = 1/share``. All bounds hold at once, so the
    best one so far counts.
    """
    if state.counted[r] > 0.0:
        log_terms(targets, state, r)
        bound = crossing(state.terms, state.slope[r], level)
        state.lower[r] = min(max(state.lower[r], bound), 1.0)


@inlined
def log_terms(targets: Targets, state: FixedMeans, r: int) -> None:
    """Write into ``state.terms`` those of row r: its evidence is ``sum_k exp(terms_k - slope_k mu)``."""
    for k in range(state.terms.shape[0]):
        size = math.log(state.product[r, k]) + LN2 * state.power[r, k]
        state.terms[k] = targets.log_prior[k] + size + state.offset[r, k]


@inlined
def is_due(state: FixedMeans, r: int) -> bool:
    """Return whether row r is to be read now: counts grow geometrically, so that reading costs next to nothing."""
    if state.counted[r] < state.due[r]:
        return False
    state.due[r] = state.counted[r] + max(1.0, math.floor(state.counted[r] / PATIENCE))
    return True


@no_refcount
def observe_many_fixed(targets: Targets, state: FixedMeans, x: Float) -> None:
    """Count numbers ``[n,rows]`` in [0,1], row after row."""
    for n in range(x.shape[0]):
        for r in range(x.shape[1]):
            observe_fixed(targets, state, r, x[n, r])


def lower_bounds(x: Float, levels: Float) -> Float:
    """Return lower bounds of means that do not change, of ``[n,rows]`` in [0,1], each with share exp(-level)."""
    weights, state = targets(len(x)), fixed_means(len(levels))
    observe_many_fixed(weights, state, np.ascontiguousarray(x))
    for r, level in enumerate(levels):
        read_fixed(weights, state, r, level)
    return state.lower


# A mean per sample, where an episode's samples may share their noise

SAMPLE_WEIGHTS: Float = frozen(0.5 * 3.0 ** -np.arange(8.0))
PSI: Float = frozen(-np.log1p(-SAMPLE_WEIGHTS) - SAMPLE_WEIGHTS)
SAMPLE_PRIOR: Float = frozen(np.full(8, -math.log(8.0)))


@inlined
def observe_samples(sums: Float, n: float, total: float) -> None:
    """Count an episode with n samples that sum to `total`; ``sums`` ``[5]`` are those of n, s, s^2, s n and n^2."""
    sums[0] += n
    sums[1] += total
    sums[2] += total * total
    sums[3] += total * n
    sums[4] += n * n


@inlined
def sample_evidence(sums: Float, H: float, a: float) -> float:
    """Return ``log sum_k prior_k exp(l_k sum z - psi(l_k) sum z^2)`` with z = (s - n a) / H, per episode.

    As z >= -1, 1 + l z >= exp(l z - psi(l) z^2): below a supermartingale if no sample's mean is above a.
    """
    z = (sums[1] - a * sums[0]) / H
    squares = (sums[2] - 2.0 * a * sums[3] + a * a * sums[4]) / (H * H)
    top, total = -np.inf, 0.0
    for k in range(SAMPLE_WEIGHTS.shape[0]):
        top = max(top, SAMPLE_PRIOR[k] + SAMPLE_WEIGHTS[k] * z - PSI[k] * squares)
    for k in range(SAMPLE_WEIGHTS.shape[0]):
        total += math.exp(SAMPLE_PRIOR[k] + SAMPLE_WEIGHTS[k] * z - PSI[k] * squares - top)
    return top + math.log(total)


@inlined
def sample_mean(sums: Float, H: float, level: float) -> float:
    """Return the largest a up to which "the mean is at most a" is refuted with share exp(-level).

    The evidence falls in a: its exponents have the slope -l n + 2 psi(l) sum (s - n a) n / H <= (2 psi(l) - l) n, and
    2 psi(l) < l up to l = 1/2. So it may be bisected.
    """
    low, high = 0.0, 1.0
    if sample_evidence(sums, H, low) < level:
        return low
    for _ in range(50):
        middle = 0.5 * (low + high)
        if sample_evidence(sums, H, middle) >= level:
            low = middle
        else:
            high = middle
    return low


# A window of means that change

WINDOW_WEIGHTS: Float = frozen(0.9 * 3.0 ** -np.arange(8.0))
KAPPA: Float = frozen(
    -(np.log1p(-WINDOW_WEIGHTS) + WINDOW_WEIGHTS + WINDOW_WEIGHTS**2 / 2 + WINDOW_WEIGHTS**3 / 3)
    / WINDOW_WEIGHTS**4
)
WINDOW_PRIOR: Float = frozen(np.full(8, -math.log(8.0)))


@inlined
def move_powers(sums: Float, x: float, y: float, sign: float) -> None:
    """Add a number to a window (sign 1), or take it back (sign -1); ``sums`` ``[4]`` of x, y^2, y^3 and y^4."""
    sums[0] += sign * x
    sums[1] += sign * (y * y)
    sums[2] += sign * (y * y * y)
    sums[3] += sign * (y * y * y * y)


@no_refcount
def window_sum(sums: Float, level: float, terms: Float) -> float:
    """Return a lower bound of the sum of E over a window, with share exp(-level), for one window fixed in advance.

    From y >= -1 follows ``log(1 + l y) >= l y - l^2 y^2/2 + l^3 y^3/3 - kappa(l) l^4 y^4``: power sums stand for the
    product, since a number can be taken back from them. With u = sum E - sum x the exponents of the product form are
    ``-l u - l^2 Y2/2 + l^3 Y3/3 - kappa(l) l^4 Y4``; `terms` ``[K]`` is a buffer.
    """
    for k in range(terms.shape[0]):
        l = WINDOW_WEIGHTS[k]  # noqa: E741
        terms[k] = (
            WINDOW_PRIOR[k]
            - l * l * sums[1] / 2.0
            + l * l * l * sums[2] / 3.0
            - KAPPA[k] * (l * l * l * l) * sums[3]
        )
    return float(max(0.0, sums[0] + crossing(terms, WINDOW_WEIGHTS, level)))


# A mean that is given


@inlined
def bet(wealth: Float, fresh: float, mu: float, x: float) -> float:
    """Bet against "the mean is at most mu": ``wealth_k <- (fresh + wealth_k) (1 + l_k (x - mu))``; returns the mixture.

    From wealth 1 with `fresh` = 0 it is a supermartingale under the claim, for every l < 1/mu: it reaches 1/share with
    probability at most `share`. From 0 with `fresh` = 1 each moment starts a bet of its own (Shiryaev-Roberts): the
    mixture less the number of episodes is a supermartingale. A claim with mu < 0 is false, and any weight wins.
    """
    total = 0.0
    for k in range(WEIGHTS.shape[0]):
        l = min(WEIGHTS[k], LARGEST / mu) if mu > 0.0 else WEIGHTS[k]  # noqa: E741
        wealth[k] = (fresh + wealth[k]) * (1.0 + l * (x - mu))
        total += math.exp(LOG_PRIOR[k]) * wealth[k]
    return total
