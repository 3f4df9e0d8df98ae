"""The paper's promises as functions: the radius of Theorem 1, when learning can begin, and the bounds.

Everything is in inside units (signals in [0,1], regret and violation in sums of them).
`docs/notes-on-the-paper.md` derives the explicit bounds and says where they differ from the paper's text.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from .errors import InvalidOption
from .spot import optimism


class Bounds(NamedTuple):
    """Bounds, or their orders, on the reward regret and on the constraint violation.

    Examples:
        >>> from safespot import theory
        >>> bound = theory.explicit_bound(A=2, H=2, m=1, T=10_000, rho=2.4, zeta_sum=500.0, phi_sum=900.0)
        >>> print(round(bound.regret), round(bound.violation))
        5141 4284

    """

    regret: float
    violation: float


def threshold_radius(
    S: int,
    A: int,
    H: int,
    m: int,
    T: int,
    n: int,
    *,
    delta: float = 0.05,
    threshold_scale: float = 1.0,
) -> float:
    """Return the radius of a threshold's mean over n samples of a step (Theorem 1).

    Examples:
        >>> from safespot import theory
        >>> [round(theory.threshold_radius(S=2, A=2, H=2, m=1, T=10_000, n=n), 3) for n in (0, 100, 400)]
        [1.0, 0.756, 0.378]

    """
    if n == 0:
        return 1.0
    made = optimism.make_radii(S, A, H, m, T, delta, threshold_scale=threshold_scale)
    return optimism.threshold_radius(made, float(n))


def bonus(
    S: int, A: int, H: int, m: int, T: int, n: int, *, delta: float = 0.05, bonus_scale: float = 1.0
) -> float:
    """Return the bonus of a pair after n visits (eq. opt-p; infinite before the first, D8).

    Examples:
        >>> from safespot import theory
        >>> [round(theory.bonus(S=2, A=2, H=2, m=1, T=10_000, n=n), 3) for n in (0, 100, 400)]
        [inf, 1.185, 0.593]

    """
    if n == 0:
        return math.inf
    made = optimism.make_radii(S, A, H, m, T, delta, bonus_scale=bonus_scale)
    return optimism.bonus(made, float(n), optimism.transition_radius(made, float(n)))


def visits_to_leave_cap(
    S: int,
    A: int,
    H: int,
    m: int,
    T: int,
    *,
    mean: float = 0.0,
    delta: float = 0.05,
    bonus_scale: float = 1.0,
) -> int:
    """Return the visits after which a pair is no longer at its cap while its successors still are.

    ``v_hat + phi(n) < 1`` with ``phi(n) = phi(1) / sqrt(n)``: the first n above (phi(1) / (1 - mean))^2, `mean`
    being the smallest mean among the pair's reward and constraints.

    Examples:
        >>> from safespot import theory
        >>> theory.visits_to_leave_cap(S=2, A=2, H=2, m=1, T=10_000)
        141
        >>> theory.visits_to_leave_cap(S=2, A=2, H=2, m=1, T=10_000, bonus_scale=0.1)
        2

    """
    if mean >= 1.0:
        raise InvalidOption(f"mean must be below 1, got {mean}: such a pair never leaves its cap.")
    once = bonus(S, A, H, m, T, 1, delta=delta, bonus_scale=bonus_scale)
    return math.floor((once / (1.0 - mean)) ** 2) + 1


def scale_to_leave_cap(
    S: int, A: int, H: int, m: int, T: int, *, mean: float = 0.94, delta: float = 0.05
) -> float:
    """Return the least scale at which a pair of that `mean` needs two visits to leave its cap (`visits_to_leave_cap`).

    At a mean of 0.94 it is what ``bonus_scale="auto"`` takes: the bonus of a first visit is then 0.06, whatever the
    problem's size. docs/choosing.md has the measurement behind that number.

    Examples:
        >>> from safespot import theory
        >>> small, large = ({"S": S, "A": 3, "H": 5, "m": 1, "T": 10_000} for S in (5, 60))
        >>> print(f"{theory.scale_to_leave_cap(**small):.4f} {theory.scale_to_leave_cap(**large):.4f}")
        0.0022 0.0012
        >>> theory.visits_to_leave_cap(**large, mean=0.93, bonus_scale=theory.scale_to_leave_cap(**large))
        1

    """
    if mean >= 1.0:
        raise InvalidOption(f"mean must be below 1, got {mean}: such a pair never leaves its cap.")
    return (1.0 - mean) / bonus(S, A, H, m, T, 1, delta=delta)


def sum_of_threshold_radii(
    S: int,
    A: int,
    H: int,
    m: int,
    T: int,
    *,
    gamma: float = 1.0,
    delta: float = 0.05,
    threshold_scale: float = 1.0,
    pooled: bool = False,
) -> float:
    """Return the largest that ``sum over t and h of zeta`` can be, whatever is visited.

    A window of W samples gives its most visited pair at least W / (S A) of them (all of them when pooled); with
    W >= gamma (t-1) / 2 and the sum of 1 / sqrt(t) this is at most
    ``H + 4 H sqrt(2 ln(mSAHT/delta) S A T / gamma)``, without the inner 2 when gamma = 1, and never more than H T.

    Examples:
        >>> from safespot import theory
        >>> round(theory.sum_of_threshold_radii(S=2, A=2, H=2, m=1, T=10_000))
        6049
        >>> round(theory.sum_of_threshold_radii(S=2, A=2, H=2, m=1, T=10_000, pooled=True))
        3026

    """
    L = math.log(m * S * A * H * T / delta)
    spread = 1 if pooled else S * A
    loss = 1.0 if gamma == 1.0 else 2.0
    total = H + 4.0 * threshold_scale * H * math.sqrt(loss * L * spread * T / gamma)
    return min(total, float(H * T))


def sum_of_bonuses(
    S: int, A: int, H: int, m: int, T: int, *, delta: float = 0.05, bonus_scale: float = 1.0
) -> float:
    """Return the largest that ``sum over t and h of min(H, 2 phi)`` along the visited pairs can be.

    A pair's first visit costs H; over N visits sum 1/sqrt(n) <= 2 sqrt(N), and the visits spread worst evenly.

    Examples:
        >>> from safespot import theory
        >>> round(theory.sum_of_bonuses(S=2, A=2, H=2, m=1, T=1_000_000))
        215818

    """
    once = bonus(S, A, H, m, T, 1, delta=delta, bonus_scale=bonus_scale)
    total = H * (S * A * H + 4.0 * once * math.sqrt(S * A * T))
    return min(total, float(H * H * T))


def explicit_bound(
    A: int,
    H: int,
    m: int,
    T: int,
    rho: float,
    *,
    zeta_sum: float,
    phi_sum: float,
    xi: float = 0.0,
) -> Bounds:
    """Return the bound that a run can evaluate, from the radii summed over the run.

    Reward regret: ``H^2 (1 + m rho) sqrt(2 T ln A) + (1 - xi) 2 m rho sum zeta + sum min(H, 2 phi)
    + rho H sqrt(m T) / 2``.
    Violation: ``2 / rho`` times the same with ``2 rho (xi + (1 - xi)(m - 1)) sum zeta`` for the thresholds, the bonuses
    times (1 + rho), and the dual term twice. `zeta_sum` and `phi_sum` are taken along the run, or from
    `sum_of_threshold_radii` and `sum_of_bonuses` before it.

    Examples:
        >>> from safespot import theory
        >>> size = {"A": 2, "H": 2, "m": 1, "T": 10_000}
        >>> zeta_sum = theory.sum_of_threshold_radii(S=2, **size)
        >>> phi_sum = theory.sum_of_bonuses(S=2, **size)
        >>> bound = theory.explicit_bound(**size, rho=2.4, zeta_sum=zeta_sum, phi_sum=phi_sum)
        >>> print(round(bound.regret), round(bound.violation))
        49855 55503

    """
    mirror = H**2 * (1.0 + m * rho) * math.sqrt(2.0 * T * math.log(A))
    dual = rho * H * math.sqrt(m * T) / 2.0
    regret = mirror + (1.0 - xi) * 2.0 * m * rho * zeta_sum + phi_sum + dual
    thresholds = 2.0 * rho * (xi + (1.0 - xi) * (m - 1)) * zeta_sum
    violation = 2.0 / rho * (mirror + thresholds + (1.0 + rho) * phi_sum + 2.0 * dual)
    return Bounds(regret, violation)


def trial_width(n: int, level: float) -> float:
    """Bound the distance between the two bounds of a trial of `SpotEpochs` after n episodes, in parts of the range.

    ``(4.41 ln(1 + 16 n) + 17.8 (level + 4.4)) / sqrt(n)``, at most 1, where ``level = ln(1/share)`` of one side, for a
    trial that was planned for at least n episodes, whatever it shows (docs/epochs.md has the proof).

    Examples:
        >>> from safespot import theory
        >>> [round(theory.trial_width(n, level=9.0), 3) for n in (10_000, 1_000_000, 100_000_000)]
        [1.0, 0.312, 0.033]

    """
    return min((4.41 * math.log1p(16.0 * n) + 17.8 * (level + 4.4)) / math.sqrt(n), 1.0)


def trial_violation(T: int, width: float, *, m: int = 1, delta: float = 0.05) -> float:
    """Bound a constraint's strong violation over all trials of `SpotEpochs` in T episodes, once there is a retreat.

    ``sum over phases of (33/32) c n_k trial_width(n_k) + c`` where phases double, for known limits; `width` is the
    range c of an episode's difference. It is of order ``c sqrt(T) log T``, and there is no S and no A in it.

    Examples:
        >>> from safespot import theory
        >>> [round(theory.trial_violation(T, width=4.0) / T, 2) for T in (10_000, 10**7, 10**9)]
        [4.0, 0.88, 0.1]

    """
    phases = max(1, math.ceil(math.log2(T)))
    share = delta * 6.0 / ((phases + 5) * (phases + 6))  # of the last phase, the least
    level = math.log(m / (0.9 * share))
    total, left = 0.0, T
    while left > 0:  # the last phase is half of all episodes, and so on
        n = max(1, math.ceil(left / 2))
        total += 33.0 / 32.0 * width * n * trial_width(n, level) + width
        left -= n
    return min(total, width * T)
