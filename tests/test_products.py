"""Sums and products, each against NumPy; every length, since loops are unrolled."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose

from safespot import products

rng = np.random.default_rng(0)


@pytest.mark.parametrize("rows", range(1, 27))
def test_mix_rows(rows: int) -> None:
    for length in (1, 3, 16, 37):
        matrix, weights = rng.normal(size=(rows, length)), rng.normal(size=rows)
        weights[rng.random(rows) < 0.4] = 0.0
        out = np.full(length, 9.0)
        products.mix_rows(weights, matrix, out)
        assert_allclose(out, weights @ matrix, rtol=1e-13, atol=1e-13)
        others, out2 = rng.normal(size=rows), np.full(length, 9.0)
        others[rng.random(rows) < 0.4] = 0.0
        products.mix_rows_twice(weights, others, matrix, out, out2)
        assert_allclose(out, weights @ matrix, rtol=1e-13, atol=1e-13)
        assert_allclose(out2, others @ matrix, rtol=1e-13, atol=1e-13)


@pytest.mark.parametrize("n", range(12))
def test_dot_and_total(n: int) -> None:
    x, y = rng.normal(size=(2, n))
    assert products.dot(x, y) == pytest.approx(float(x @ y), abs=1e-13)
    assert products.total(x) == pytest.approx(float(x.sum()), abs=1e-13)


@pytest.mark.parametrize("A", [1, 2, 5, products.SHORT - 1, products.SHORT, 25])
def test_rows_of_every_length(A: int) -> None:
    rows = 7
    x, y, factors = rng.normal(size=(rows, A)), rng.normal(size=(rows, A)), rng.normal(size=rows)
    out, scaled = np.full(rows + 1, 9.0), np.full(rows * A + 1, 9.0)
    products.sum_rows(x.reshape(-1), A, rows, out)
    assert_allclose(out[:-1], x.sum(axis=1), rtol=1e-13, atol=1e-13)
    products.sum_products(x.reshape(-1), y.reshape(-1), A, rows, out)
    assert_allclose(out[:-1], (x * y).sum(axis=1), rtol=1e-13, atol=1e-13)
    products.scale_rows(x.reshape(-1), factors, A, rows, scaled)
    assert_allclose(scaled[:-1].reshape(rows, A), x * factors[:, None], rtol=1e-15)
    assert out[-1] == scaled[-1] == 9.0  # nothing behind the last row is touched
