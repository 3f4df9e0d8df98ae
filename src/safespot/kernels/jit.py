"""How kernels are compiled: one decorator, so that every kernel obeys the same rules.

No fastmath and no parallel reductions: the same input gives the same bits, compiled or not
(``kernel.py_func``; but for lgamma, of which Numba has its own), on one core or two. The GIL is released, so
threads can run side by side.

Compiled code is cached on disk. Numba's own cache looks at the file that defines a kernel and misses
an edit in a kernel that it calls from another file, and it fails on a truncated cache file. Ours
is stamped with the sources of all that kernels can depend on, and recompiles with a warning where it cannot read.
"""

from __future__ import annotations

import functools
import hashlib
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import llvmlite.binding as llvm
import numba
from numba.core.caching import FunctionCache
from numba.extending import intrinsic, overload

F = TypeVar("F", bound=Callable)
log = logging.getLogger(__name__)

# Packages that hold no kernel and that no kernel depends on: an edit there leaves compiled code fresh.
WITHOUT_KERNELS = (
    "benchmarks",
    "cli",
    "data",
    "experiments",
    "gym",
    "report",
    "storage",
    "verification",
)


def kernel(function: F) -> F:
    """Compile `function` with Numba, cached on disk, without the GIL."""
    return _compiled(function)


def no_refcount(function: F) -> F:
    """A kernel that allocates nothing, so that no references are counted at all."""
    return _compiled(function, _nrt=False)


def inlined(function: F) -> F:
    """A lean kernel that becomes part of the kernels that call it.

    A call hands over seven numbers or more for every array, which in a small problem takes longer than the work. LLVM
    does the pasting: when Numba does (``inline="always"``), it has to find the types of ever larger functions.
    What it returns must be no array, but to a lean kernel: nobody has counted its reference.
    """
    return _compiled(function, _nrt=False, forceinline=True)


def inlined_noalias(function: F) -> F:
    """An inner kernel none of whose arrays shares memory with another one that it writes to.

    The compiler may take it for granted. Else it compares the ends of all arrays before every loop, and loads again
    what any of them might have changed.
    """
    compiled: Any = inlined(function)
    if not numba.config.DISABLE_JIT:
        compiled._compiler._customize_flags = _without_aliases
    made: F = compiled
    return made


def _without_aliases(flags: Any) -> Any:
    flags.noalias = True
    return flags


def assume_nonnegative(i: int) -> int:
    """A number that is never negative, which the compiler may take for granted.

    An index then needs no code for those counted from the end. Where bounds are checked, so is this.
    """
    if i < 0:
        raise IndexError("a number is negative that must not be")
    return i


@intrinsic  # type: ignore[untyped-decorator]
def _assumed(typingctx: Any, i: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        (value,) = arguments
        builder.assume(builder.icmp_signed(">=", value, value.type(0)))
        return value

    return i(i), generate


@overload(assume_nonnegative, strict=False, inline="always")  # type: ignore[untyped-decorator]
def _natural(i: Any) -> Any:
    return assume_nonnegative if numba.config.BOUNDSCHECK else lambda i: _assumed(i)


def overload_inlined(function: Callable) -> Callable[[F], F]:
    """Numba's `overload` for a function whose implementation becomes part of the kernels that call it."""
    made: Any = overload(
        function,
        strict=False,
        jit_options={"nogil": True, "error_model": "numpy", "forceinline": True, "_nrt": False},
    )
    return made  # type: ignore[no-any-return]


def _compiled(function: F, **options: Any) -> F:
    if numba.config.DISABLE_JIT:
        return function
    dispatcher: Any = numba.njit(nogil=True, error_model="numpy", **options)(function)
    dispatcher._compiler.compile = functools.partial(_compile, dispatcher._compiler.compile)
    try:
        dispatcher._cache = _PackageCache(function)
    except RuntimeError as problem:  # neither the package nor the user has a folder to write to
        log.debug("compiled code of %s is not kept: %s", function.__name__, problem)
    compiled: F = dispatcher
    return compiled


_depth = (
    0  # of kernels that are compiled because another one calls them; Numba's lock is held meanwhile
)


def _compile(compile_it: Callable, *signature: Any) -> Any:
    """Compile one kernel without LLVM's loop strength reduction.

    It gives every array a counter of its own. In kernels as large as ours there are no registers for them, so a step of
    a small problem spent a third of its time adding to counters in memory. The switch is the whole process's, so
    it is put back.
    """
    global _depth
    _depth += 1
    llvm.set_option("safespot", "--disable-lsr=true")
    try:
        return compile_it(*signature)
    finally:
        _depth -= 1
        if _depth == 0:
            llvm.set_option("safespot", "--disable-lsr=false")


class _PackageCache(FunctionCache):  # type: ignore[misc]
    """Numba's cache of one kernel, fresh only while no source of the package has changed."""

    def __init__(self, function: Callable) -> None:
        super().__init__(function)
        self._cache_file._source_stamp = _stamp()

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        try:
            return super().load_overload(sig, target_context)
        except Exception as problem:  # unpickling damaged data can raise anything
            log.warning("compiled code of %s is unreadable (%r): compiling anew", self, problem)
            self.flush()
            return None


@functools.cache
def _stamp() -> str:
    """A digest of all that compiled code depends on; Numba adds its own version and the processor."""
    digest = hashlib.blake2b(digest_size=16)
    package = Path(__file__).parents[1]
    for source in sorted(package.rglob("*.py")):
        if source.relative_to(package).parts[0] in WITHOUT_KERNELS:
            continue
        digest.update(source.read_bytes())
    return f"{digest.hexdigest()} boundscheck={numba.config.BOUNDSCHECK}"
