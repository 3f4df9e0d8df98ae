"""Sums and products, each against NumPy; every length, since loops are unrolled."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose

from safespot.kernels import sums as products

rng = np.random.default_rng(0)


@pytest.mark.parametrize("rows", range(1, 27))
def test_mix_rows(rows: int) -> None:
    for length in (1, 3, 16, 37):
        matrix, weights = rng.normal(size=(rows, length)), rng.normal(size=rows)
        weights[rng.random(rows) < 0.4] = 0.0
        out = np.full(length, 9.0)
        products.mix_rows(weights, matrix, 0, length, out)
        assert_allclose(out, weights @ matrix, rtol=1e-13, atol=1e-13)
        others, out2 = rng.normal(size=rows), np.full(length, 9.0)
        others[rng.random(rows) < 0.4] = 0.0
        products.mix_rows_twice(weights, others, matrix, 0, length, out, out2)
        assert_allclose(out, weights @ matrix, rtol=1e-13, atol=1e-13)
        assert_allclose(out2, others @ matrix, rtol=1e-13, atol=1e-13)


@pytest.mark.parametrize("rows", [1, 3, 6, 14])
def test_mix_part_of_rows(rows: int) -> None:
    matrix, weights, others = rng.normal(size=(rows, 20)), rng.random(rows), rng.random(rows)
    for first, length in ((2, 3), (5, 15), (19, 1)):
        part = matrix[:, first : first + length]
        out, out2, alone = np.full((3, length + 1), 9.0)
        products.mix_rows(weights, matrix, first, length, alone)
        products.mix_rows_twice(weights, others, matrix, first, length, out, out2)
        for found, expected in ((alone, weights), (out, weights), (out2, others)):
            assert_allclose(found[:-1], expected @ part, rtol=1e-13, atol=1e-13)
            assert found[-1] == 9.0  # nothing behind the part is touched


@pytest.mark.parametrize("n", range(12))
def test_dot_and_total(n: int) -> None:
    x, y = rng.normal(size=(2, n))
    assert products.dot(x, y) == pytest.approx(float(x @ y), abs=1e-13)
    assert products.total(x) == pytest.approx(float(x.sum()), abs=1e-13)


@pytest.mark.parametrize("A", [*range(1, products.SHORT + 2), 25])
def test_rows_of_every_length(A: int) -> None:
    rows = 7
    x, y = rng.normal(size=(2, rows, A))
    out = np.full(rows + 1, 9.0)
    for j in range(rows):
        total = products.sum_row(x.reshape(-1), j * A, A)
        assert total == pytest.approx(float(x[j].sum()), abs=1e-13)
    products.sum_products(x.reshape(-1), y.reshape(-1), A, rows, out)
    assert_allclose(out[:-1], (x * y).sum(axis=1), rtol=1e-13, atol=1e-13)
    assert out[-1] == 9.0  # nothing behind the last row is touched


@pytest.mark.parametrize("rows", [2, 5, 9, 10, 14])
def test_no_row_that_has_weight_is_left_out(rows: int) -> None:
    """Rows of weight zero are passed over by fours and eights: two alone among them count all the same."""
    matrix = rng.normal(size=(rows, 6))
    nothing = np.zeros(rows)
    for i in range(rows):
        for j in range(i + 1):
            weights = np.zeros(rows)
            weights[[i, j]] = 0.5
            out, once, twice, other = np.full((4, 6), 9.0)
            products.mix_rows(weights, matrix, 0, 6, out)
            products.mix_rows_twice(weights, nothing, matrix, 0, 6, once, other)
            products.mix_rows_twice(nothing, weights, matrix, 0, 6, other, twice)
            for found in (out, once, twice):
                assert_allclose(found, weights @ matrix, rtol=1e-13, atol=1e-13)


@pytest.mark.parametrize("components", range(1, 6))
def test_mix_rows_of_all(components: int) -> None:
    matrix, weights = rng.normal(size=(7, 12)), rng.random((components, 7))
    out = np.full((components, 9), 9.0)
    products.mix_rows_of_all(weights, matrix, 2, 9, out)
    assert_allclose(out, weights @ matrix[:, 2:11], rtol=1e-13, atol=1e-13)


@pytest.mark.parametrize("constraints", range(1, 6))
def test_cut_and_price(constraints: int) -> None:
    offsets, factors = rng.normal(size=(1 + constraints, 3, 12)), rng.normal(size=(3, 12))
    prices, rows = rng.random(constraints), rng.normal(size=(1 + constraints, 5))
    cut = np.maximum(offsets[:, 1, 4:9] + factors[1, 4:9] * rows, 0.0)
    out = np.full(5, 9.0)
    products.cut_and_price(offsets, factors, prices, 1, 4, 5, rows, out)
    assert_allclose(rows, cut, rtol=1e-13, atol=1e-13)
    assert_allclose(out, -np.r_[1.0, prices] @ cut, rtol=1e-13, atol=1e-13)
