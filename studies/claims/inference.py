"""The statistics of the verdicts: shares, means over seeds, growth, paired comparisons.

Every test has a level and three answers. It says "not shown" where the interval is too wide to tell.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from safespot.report.text import number

from .verdicts import Outcome, decide


class Interval(NamedTuple):
    """An estimate and its confidence interval; infinite ends: too few seeds for one."""

    mean: float
    low: float
    high: float

    def __str__(self) -> str:
        if math.isinf(self.low) and math.isinf(self.high):
            return number(self.mean)
        return f"{number(self.mean)} [{number(self.low)}, {number(self.high)}]"


def share(hits: int, n: int, level: float) -> Interval:
    """A share of n independent runs, with the interval of Clopper and Pearson."""
    from scipy.stats import binomtest

    if n == 0:
        return Interval(math.nan, 0.0, 1.0)
    found = binomtest(hits, n).proportion_ci(1.0 - level, method="exact")
    return Interval(hits / n, float(found.low), float(found.high))


def share_at_least(hits: int, n: int, wanted: float, level: float) -> Outcome:
    """Whether the share behind `hits` of n is at least `wanted`: one-sided, by Clopper and Pearson."""
    found = share(hits, n, 2.0 * level)
    return decide(holds=found.low >= wanted, fails=found.high < wanted)


def mean(values: Sequence[float], level: float) -> Interval:
    """The mean over seeds, with Student's interval."""
    from scipy.stats import t as student

    sample = np.asarray(values, float)
    n, middle = len(sample), float(sample.mean()) if len(sample) else math.nan
    if n < 2:
        return Interval(middle, -math.inf, math.inf)
    reach = float(student.ppf(1.0 - level / 2.0, n - 1) * sample.std(ddof=1) / math.sqrt(n))
    return Interval(middle, middle - reach, middle + reach)


def at_most(values: Sequence[float], limit: float, level: float) -> Outcome:
    """Whether the mean is at most `limit`: one-sided, by Student's interval."""
    found = mean(values, 2.0 * level)
    return decide(holds=found.high <= limit, fails=found.low > limit)


def near(found: Interval, wanted: float, margin: float) -> Outcome:
    """Whether an estimate is within `margin` of a value: its interval lies wholly inside, or wholly outside."""
    low, high = wanted - margin, wanted + margin
    inside = low <= found.low and found.high <= high
    return decide(holds=inside, fails=found.low > high or found.high < low)


def slope(x: Sequence[float], y: Sequence[float]) -> float:
    """The least-squares slope of log(y) over log(x); NaN where something is not positive."""
    a, b = np.asarray(x, float), np.asarray(y, float)
    if len(a) < 2 or not ((a > 0.0).all() and (b > 0.0).all()):
        return math.nan
    a, b = np.log(a), np.log(b)
    a = a - a.mean()
    return float(a @ (b - b.mean()) / (a @ a))


def larger(first: Sequence[float], second: Sequence[float]) -> float:
    """The p-value of Wilcoxon's signed-rank test that, seed by seed, the first are larger than the second."""
    from scipy.stats import wilcoxon

    differences = np.asarray(first, float) - np.asarray(second, float)
    differences = differences[differences != 0.0]
    if len(differences) == 0:
        return 1.0
    ties = len(set(np.abs(differences))) < len(differences)
    found = wilcoxon(differences, alternative="greater", method="approx" if ties else "exact")
    return float(found.pvalue)


def holm(p: Sequence[float], level: float) -> list[bool]:
    """Which of several tests reject, by Holm's step-down, which errs in any of them with at most `level`."""
    order = np.argsort(p, kind="stable")
    rejected = [False] * len(p)
    for rank, k in enumerate(order):
        if p[k] > level / (len(p) - rank):
            break
        rejected[k] = True
    return rejected


def ordered(samples: Sequence[Sequence[float]], level: float) -> tuple[Outcome, list[float]]:
    """Whether paired samples increase from each to the next, and the p-values of the steps.

    Holds where every step up is significant (Holm); fails where some step down is.
    """
    steps = list(pairwise(samples))
    up = [larger(after, before) for before, after in steps]
    down = [larger(before, after) for before, after in steps]
    return decide(holds=all(holm(up, level)), fails=any(holm(down, level))), up
