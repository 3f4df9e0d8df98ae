"""LogEvidence of two sequences taken together: against a plain search, and what it promises."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from safespot.evidence.joint import LogEvidence, evidence_of, least_sum
from safespot.evidence.joint import log_evidence as kernel
from safespot.evidence.sequences import (
    fixed_means,
    observe_fixed,
    read_fixed,
    targets,
)

Array = Any


def seen(x: Array, planned: int) -> tuple[Any, Any]:
    aims, state = targets(planned), fixed_means(1)
    for each in x:
        observe_fixed(aims, state, 0, float(each))
    return aims, state


def log_evidence(evidence: LogEvidence, z: float) -> float:
    terms = evidence.terms[0] - evidence.slopes[0] * z
    return float(np.logaddexp.reduce(terms))


def searched(one: LogEvidence, w: float, two: LogEvidence, w2: float, level: float) -> float:
    """The least sum on a grid of the second mean, the first by bisection."""
    best = math.inf
    for v in np.linspace(0.0, 1.0, 401):
        low, high = 0.0, 10.0
        if log_evidence(one, 0.0) + log_evidence(two, v) > level:
            for _ in range(60):
                middle = (low + high) / 2.0
                if log_evidence(one, middle) + log_evidence(two, v) > level:
                    low = middle
                else:
                    high = middle
        best = min(best, w * low + w2 * v)
    return best


@pytest.mark.parametrize(
    ("means", "sizes", "weights"),
    [((0.6, 0.4), (300, 500), (1.3, 0.7)), ((0.02, 0.9), (800, 40), (1.0, 3.0)), ((0.9, 0.01), (20, 900), (5.0, 0.2))],
)  # fmt: skip
def test_the_least_sum_is_what_a_search_finds(
    means: tuple[float, float], sizes: tuple[int, int], weights: tuple[float, float]
) -> None:
    rng = np.random.default_rng(1)
    (aims, first), (aims2, second) = (
        seen(rng.random(n) < p, planned)
        for n, p, planned in zip(sizes, means, (300, 4000), strict=True)
    )
    one, two, level = evidence_of(aims, first), evidence_of(aims2, second), 6.0
    found = least_sum(
        one.terms[0], one.slopes[0], weights[0], two.terms[0], two.slopes[0], weights[1], level
    )
    ref = searched(one, weights[0], two, weights[1], level)
    assert ref - 2e-5 * sum(weights) <= found <= ref + 1e-9


def test_evidence_falls_as_its_derivative_says() -> None:
    aims, state = seen(np.random.default_rng(1).random(90) < 0.4, 100)
    evidence = evidence_of(aims, state)
    for z in (0.0, 0.3, 0.9):
        said, falls = kernel(evidence.terms[0], evidence.slopes[0], z)
        assert said == pytest.approx(log_evidence(evidence, z), rel=1e-12)
        ahead, back = (log_evidence(evidence, z + step) for step in (1e-6, -1e-6))
        assert falls == pytest.approx((back - ahead) / 2e-6, rel=1e-5)


def test_together_is_sharper_than_apart() -> None:
    rng = np.random.default_rng(2)
    (aims, first), (aims2, second) = (seen(rng.random(400) < 0.5, 400) for _ in range(2))
    one, two, level = evidence_of(aims, first), evidence_of(aims2, second), 8.0
    together = least_sum(one.terms[0], one.slopes[0], 1.0, two.terms[0], two.slopes[0], 1.0, level)
    for aim, state in ((aims, first), (aims2, second)):
        read_fixed(aim, state, 0, level + math.log(2.0))
    apart = float(first.lower[0] + second.lower[0])
    mean = float(first.total[0] + second.total[0]) / 400
    assert mean - together < 0.85 * (mean - apart)


def test_the_sum_is_rarely_below_its_bound() -> None:
    """400 pairs of sequences, the second read at the end of the first: looked at all the time, at share 0.1."""
    rng, share, wrong, runs = np.random.default_rng(3), 0.1, 0, 400
    for _ in range(runs):
        p, q = rng.random(2)
        aims, state = seen(rng.random(60) < p, 60)
        before = evidence_of(aims, state)
        new, missed = fixed_means(1), False
        for n, x in enumerate(rng.random(60) < q, start=1):
            observe_fixed(aims, new, 0, float(x))
            if n % 5 == 0:
                now = evidence_of(aims, new)
                bound = least_sum(
                    now.terms[0], now.slopes[0], 1.0, before.terms[0], before.slopes[0], 1.0, -math.log(share)
                )  # fmt: skip
                missed |= bound > p + q
        wrong += missed
    assert wrong <= share * runs
