"""Numbers of episodes that a proof takes, before any is played."""

from __future__ import annotations

import math

import numpy as np

from ..arrays import as_count, as_floats
from ..errors import InvalidOption
from .counter import as_delta
from .sequences import targets

MOST = 2**53


def episodes_needed(
    room: float,
    deviation: float,
    delta: float = 0.05,
    *,
    constraints: int = 1,
    worst: float = 0.0,
) -> int:
    """Return about how many episodes a trial takes to prove that a policy keeps its limit; half of them take less.

    It is where the mixture of `sequences.FixedMeans`, planned for that number, reaches m / delta if every episode is as
    good as the average one: ``sum_k prior_k exp(n (c_k q - c_k^2 / 2)) = m / delta``, q = room / deviation.

    Where a range is much wider than the deviation it takes longer, which only `worst` can tell: a bet against
    "the mean is 0" with numbers of at least -worst wins at most a factor of 1 + room / worst with an episode of the
    average, so that a proof takes at least ``ln(m / delta) / ln(1 + room / worst)`` of them.

    Args:
        room: by how much the policy keeps its limit on average, V_g - alpha in the user's units; of a policy that
            breaks it, by how much.
        deviation: the standard deviation of an episode's difference D, the sum of its constraint signals less that of
            its threshold samples, in the same units.
        delta: the confidence of the proof is 1 - delta.
        constraints: m; each has its share of delta.
        worst: by how much one episode can break the limit at most, in the same units: H for a threshold and signals in
            [0,1], less where totals are declared. With 0, the default, ranges are not looked at.

    Examples:
        >>> import safespot as ss
        >>> ss.episodes_needed(room=0.4, deviation=1.4)
        95
        >>> ss.episodes_needed(room=0.4, deviation=0.1, worst=4.0)
        32

    """
    m = as_count("constraints", constraints, least=1, error=InvalidOption)
    as_floats("room, deviation and worst", [room, deviation, worst], error=InvalidOption)
    if not (room > 0.0 and deviation > 0.0):
        raise InvalidOption(f"room {room} and deviation {deviation} must be positive.")
    if worst < 0.0:
        raise InvalidOption(f"worst {worst} must not be negative: it says how much, not where.")
    level, quotient = math.log(m / as_delta(delta)), room / deviation
    gain = math.log1p(room / worst) if worst else math.inf  # of one average episode, at most
    least = min(level / gain if gain else math.inf, 2.0 * MOST)

    def proven(n: int) -> bool:
        made = targets(n)
        exponents = made.log_prior + n * made.rate * (quotient - made.rate / 2.0)
        return bool(np.logaddexp.reduce(exponents) >= level)

    high = max(1, math.ceil(least))
    low = high - 1
    while high <= MOST and not proven(high):
        low, high = high, 2 * high
    if high > MOST:
        raise InvalidOption(f"a room of {room} takes more than {MOST} episodes to prove.")
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if proven(middle) else (middle, high)
    return high
