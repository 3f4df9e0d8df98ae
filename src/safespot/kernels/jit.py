"""How kernels are compiled: a few decorators, so that every kernel obeys the same rules.

No fastmath and no parallel reductions: the same input gives the same bits, compiled or not (``kernel.py_func``; but for
lgamma, of which Numba has its own), on one core or two. The GIL is released, so threads can run side by side.

Small problems gain 12 to 22 % from things that Numba and LLVM have no public switch for: no references are counted,
arrays share no memory, whole numbers are never negative (`nonnegative`), loops are not reduced in strength. And
compiled code is kept on the disk (`cache`). `_compiled` is the one place that reaches for them. Each is left out where
it is gone, with a line in the log; with all of them left out (``SAFESPOT_PLAIN_NUMBA=1``) results have the same bits.

What kernels promise is checked where they run uncompiled: no number handed over is negative, and no memory is shared.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import logging
import os
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import llvmlite.binding as llvm
import numba
import numpy as np
from numba.extending import overload

from .notice import compiling

F = TypeVar("F", bound=Callable)
log = logging.getLogger(__name__)

LLVMS = range(14, 23)  # whose switches are known; an unknown one would end the process


def kernel(function: F) -> F:
    """Compile `function` with Numba, cached on disk, without the GIL."""
    return _compiled(function)


def no_refcount(function: F) -> F:
    """A kernel that allocates nothing, so that no references are counted at all."""
    return _compiled(function, refcount=False)


def inlined(function: F) -> F:
    """A kernel that allocates nothing and becomes part of the kernels that call it.

    A call hands over seven numbers or more for every array, which in a small problem takes longer than the work. LLVM
    does the inlining: when Numba does (``inline="always"``), it has to find the types of ever larger functions.
    It may return an array only to a kernel without reference counts: nobody has counted its reference.
    """
    return _compiled(function, refcount=False, inline=True)


def inlined_noalias(function: F) -> F:
    """An inlined kernel none of whose arrays shares memory with another one that it writes to.

    The compiler may take it for granted. Else it compares the ends of all arrays before every loop, and loads again
    what any of them might have changed. Where kernels run uncompiled, the promise is checked.
    """
    return _compiled(function, refcount=False, inline=True, noalias=True)


def overload_inlined(function: Callable) -> Callable[[F], F]:
    """Numba's `overload` for a function whose implementation becomes part of the kernels that call it."""
    options = _options(refcount=False, inline=True)
    if (parts := _parts()) is not None:
        options["pipeline_class"] = parts.PartPipeline
    made: Callable[[F], F] = overload(function, strict=False, jit_options=options)
    return made


def _compiled(
    function: F, *, refcount: bool = True, inline: bool = False, noalias: bool = False
) -> F:
    """`function` compiled by Numba, with all that it has no public switch for, each as far as it is there."""
    if numba.config.DISABLE_JIT:
        return _checked(function, noalias)
    make_whole = functools.partial(
        _whole, function, refcount=refcount, inline=inline, noalias=noalias
    )
    if (parts := _parts()) is None:
        return make_whole()
    make_part = functools.partial(
        _part, function, refcount=refcount, inline=inline, noalias=noalias
    )
    dispatcher: Any
    if inline:
        dispatcher = make_part()
        dispatcher.__class__ = parts.PartDispatcher
        dispatcher.make_whole = make_whole
    else:
        dispatcher = make_whole()
        dispatcher.__class__ = parts.WholeDispatcher
        dispatcher.make_part = make_part
    compiled: F = dispatcher
    return compiled


def _part(function: Callable, *, refcount: bool, inline: bool, noalias: bool) -> Any:
    """A kernel that kernels call."""
    parts = _parts()
    pipeline = parts.NoaliasPartPipeline if noalias else parts.PartPipeline
    return numba.njit(**_options(refcount=refcount, inline=inline), pipeline_class=pipeline)(
        function
    )


def _whole(function: F, *, refcount: bool, inline: bool, noalias: bool) -> F:
    """A kernel that Python calls."""
    options = _options(refcount=refcount, inline=inline)
    if (parts := _parts()) is not None:
        options["pipeline_class"] = parts.WholePipeline
    dispatcher: Any = numba.njit(**options)(function)
    try:
        from .cache import PackageCache

        dispatcher._cache = PackageCache(function)
    except RuntimeError as problem:  # neither the package nor the user has a folder to write to
        log.debug("compiled code of %s is not kept: %s", function.__name__, problem)
    except (ImportError, AttributeError, TypeError) as problem:
        _left_out("compiled code on the disk", problem)
    try:
        compiler = dispatcher._compiler
        if noalias and not _plain():  # Numba's own flag
            compiler._customize_flags = _without_aliases
        compiler.compile = functools.partial(_compile, compiler.compile, function.__qualname__)
    except AttributeError as problem:
        _left_out("promises to the compiler", problem)
    compiled: F = dispatcher
    return compiled


def _options(*, refcount: bool, inline: bool) -> dict[str, Any]:
    """The options of `njit`."""
    options: dict[str, Any] = {"nogil": True, "error_model": "numpy"}
    if inline:
        options["forceinline"] = True
    if not refcount and _knows_nrt():
        options["_nrt"] = False
    return options


@functools.cache
def _plain() -> bool:
    """Whether kernels are compiled by Numba as it is."""
    return bool(os.environ.get("SAFESPOT_PLAIN_NUMBA"))


@functools.cache
def _knows_nrt() -> bool:
    """Whether this Numba has the option that counts no references."""
    if _plain():
        return False
    try:
        numba.njit(_nrt=False)(lambda: None)
    except (KeyError, TypeError, AttributeError, numba.NumbaError) as problem:
        return _left_out("counting no references", problem)
    return True


@functools.cache
def _parts() -> Any:
    """The module that compiles parts, with whole numbers taken for granted; or None."""
    if _plain():
        return None
    try:
        from . import parts
    except (ImportError, AttributeError, TypeError) as problem:
        _left_out("whole numbers that are never negative, and parts of kernels", problem)
        return None
    return parts


def _left_out(what: str, why: Exception) -> bool:
    log.info("left out with numba %s: %s (%r); slower, same results", numba.__version__, what, why)
    return False


def _without_aliases(flags: Any) -> Any:
    flags.noalias = True
    return flags


_depth = 0  # of kernels compiled because another one calls them; Numba's lock is held meanwhile


def _compile(compile_it: Callable, name: str, *signature: Any) -> Any:
    """Compile one kernel, and whatever it calls that is not compiled yet."""
    global _depth
    _depth += 1
    try:
        if _depth > 1:
            return compile_it(*signature)
        with compiling(name), _shortcuts(), _without_strength_reduction():
            return compile_it(*signature)
    finally:
        _depth -= 1


def _shortcuts() -> contextlib.AbstractContextManager[None]:
    """What spares the compiler needless work, where this Numba has it."""
    if _plain():
        return contextlib.nullcontext()
    try:
        from .shortcuts import taken
    except (ImportError, AttributeError) as problem:
        _left_out("shortcuts of the compiler", problem)
        return contextlib.nullcontext()
    return taken()


@contextlib.contextmanager
def _without_strength_reduction() -> Iterator[None]:
    """LLVM does not reduce loops in strength.

    It gives every array a counter of its own. In kernels as large as ours there are no registers for them, so a step of
    a small problem spent a third of its time adding to counters in memory. The switch is the whole process's, so
    it is put back.
    """
    if _plain() or llvm.llvm_version_info[0] not in LLVMS:
        yield
        return
    llvm.set_option("safespot", "--disable-lsr=true")
    try:
        yield
    finally:
        llvm.set_option("safespot", "--disable-lsr=false")


# Where kernels run uncompiled


def _checked(function: F, noalias: bool) -> F:
    """A kernel that runs uncompiled, with its promises checked: numbers, and memory that is not shared."""

    @functools.wraps(function)
    def checked(*arguments: Any) -> Any:
        if any(
            type(value) is not bool and isinstance(value, int | np.integer) and value < 0
            for value in arguments
        ):
            raise IndexError(f"{function.__name__} was handed a negative number")
        if not noalias:
            return function(*arguments)
        arrays = list(_arrays(arguments))
        before = [array.tobytes() for array in arrays]
        answer = function(*arguments)
        written = [array.tobytes() != was for array, was in zip(arrays, before, strict=True)]
        for (x, x_written), (y, y_written) in itertools.combinations(
            zip(arrays, written, strict=True), 2
        ):
            if (x_written or y_written) and np.shares_memory(x, y):
                raise ValueError(
                    f"{function.__name__} writes to memory that two of its arrays share"
                )
        return answer

    kept: Any = checked
    kept.py_func = function
    made: F = kept
    return made


def _arrays(values: Any) -> Iterator[Any]:
    for value in values:
        if isinstance(value, np.ndarray):
            yield value
        elif isinstance(value, tuple):
            yield from _arrays(value)
