"""Kernels that become part of others: compiled once with the kernel around them, and on their own for Python."""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
import pytest

from safespot.kernels import jit

if numba.config.DISABLE_JIT:
    pytest.skip("kernels are plain Python here", allow_module_level=True)

from safespot.kernels.parts import PartLibrary, collect


@jit.inlined
def third(x: float) -> float:
    """Of a number that is not negative."""
    if x < 0.0:
        raise ValueError("below zero")
    return x / 3.0


@jit.inlined
def thirds(x: Any) -> float:
    """Of all."""
    total = 0.0
    for k in range(x.shape[0]):
        total += third(x[k])
    return total


@jit.no_refcount
def both(x: Any) -> float:
    """A kernel with parts in parts."""
    return thirds(x) + third(x[0])


both._cache.disable()  # type: ignore[attr-defined]  # what an earlier run kept would need no parts


def test_a_part_has_no_machine_code_of_its_own_and_the_kernel_around_it_does_the_work() -> None:
    kernel: Any = both
    assert kernel(np.array([3.0, 6.0])) == 4.0
    part: Any = third
    (compiled,) = part.overloads.values()
    assert isinstance(compiled.library, PartLibrary)
    names = [function.name for function in compiled.library.own_module().functions]
    assert len(names) < 5  # nothing linked
    assert not [name for name in names if name.startswith(("cpython.", "cfunc."))]
    with pytest.raises(ValueError, match="below zero"):
        kernel(np.array([-1.0]))


def test_python_calls_a_part_as_any_kernel() -> None:
    assert third(1.5) == 0.5
    assert thirds(np.array([3.0, 4.5])) == 2.5
    with pytest.raises(ValueError, match="below zero"):
        third(-1.0)


def test_kernels_of_others_may_call_a_part() -> None:
    @numba.njit
    def theirs(x: Any) -> float:
        return thirds(x) * 2.0

    assert theirs(np.array([3.0, 6.0])) == 6.0


def test_each_part_is_linked_once_and_after_all_that_call_it() -> None:
    def library(*called: Any) -> Any:
        made = PartLibrary.__new__(PartLibrary)
        made._linking_libraries = list(called)
        return made

    other = object()
    leaf = library(other)
    first, second = library(leaf), library(leaf)
    middle = library(second, other)
    parts, others = collect([first, middle, first])
    assert others == [other]
    assert len(parts) == 4
    for caller, called in ((first, leaf), (second, leaf), (middle, second)):
        assert parts.index(caller) < parts.index(called)


def code_of(kernel: Any) -> str:
    """What Numba handed to LLVM of the only signature of a part."""
    (compiled,) = kernel.overloads.values()
    return str(compiled.library.own_module())


def test_a_part_is_always_inlined_and_called_by_kernels_alone() -> None:
    """A call hands over seven numbers or more for every array, and nobody needs what Python or C would call."""

    @jit.inlined
    def last(x: Any) -> float:
        return x[x.shape[0] - 1]  # type: ignore[no-any-return]

    @jit.kernel
    def around(x: Any) -> float:
        return last(x) + 1.0

    around._cache.disable()  # type: ignore[attr-defined]
    assert around(np.array([3.0, 6.0])) == 7.0
    code = code_of(last)
    assert "alwaysinline" in code
    assert "cpython." not in code
    assert "cfunc." not in code


def test_a_part_whose_arrays_share_no_memory_says_so_inside_of_others() -> None:
    def doubled(x: Any, out: Any) -> None:
        for k in range(x.shape[0]):
            out[k] = 2.0 * x[k]

    found = []
    for decorate in (jit.inlined, jit.inlined_noalias):
        part: Any = decorate(doubled)

        @jit.no_refcount
        def around(x: Any, out: Any, part: Any = part) -> None:
            part(x, out)

        found.append(part)
        around._cache.disable()  # type: ignore[attr-defined]
        out = np.zeros(2)
        around(np.array([3.0, 6.0]), out, part)
        assert out.tolist() == [6.0, 12.0]
    plain, promised = (code_of(part).count("noalias") for part in found)
    assert promised > plain
