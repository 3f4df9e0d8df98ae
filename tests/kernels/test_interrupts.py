"""Ctrl-C while a kernel compiles is delivered once it is compiled: what compiling changes is put back."""

from __future__ import annotations

import functools
import gc
from typing import Any

import numba
import numpy as np
import pytest
from numba.core.targetconfig import TargetConfig

from safespot.kernels.jit import inlined, kernel
from tests.support.interrupts import heard, interrupted

ears = pytest.fixture(autouse=True)(heard)
FILE = "kernels/shortcuts.py"  # whose settings hold while a kernel compiles
pytestmark = pytest.mark.skipif(numba.config.DISABLE_JIT, reason="nothing is compiled")


def fresh() -> Any:
    """A kernel, and a part of it, that are not compiled yet."""

    @inlined
    def part(x: float) -> float:
        return 2.0 * x

    @kernel
    def whole(x: Any) -> float:
        total = 0.0
        for i in range(x.shape[0]):
            total += part(x[i])
        return total

    return whole


def settings() -> tuple[Any, ...]:
    return gc.get_threshold(), TargetConfig.values


def test_an_interrupt_while_a_kernel_compiles() -> None:
    x, before = np.arange(3.0), settings()
    fresh()(x)
    cut = 0
    for k in range(50, 90):  # where they begin to hold
        whole = fresh()
        cut += interrupted(functools.partial(whole, x), k, FILE) is not None
        assert settings() == before, f"at instruction {k}"
        assert whole(x) == 6.0
    assert cut > 20
