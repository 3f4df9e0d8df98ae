"""Kernels that other kernels call stop at LLVM's code: they are optimized where they end up.

Numba optimizes every kernel and makes machine code of it, and then does so again with the kernel around it, into which
it was inlined or linked. Only the outermost one is ever run. So the library of a part holds its code as Numba wrote
it; the outermost kernel links each part once, and all is optimized once and together. A part is not kept on the disk.

Called from Python, a part is compiled as a kernel of its own.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

from numba import _dynfunc
from numba.core.codegen import JITCodeLibrary
from numba.core.registry import CPUDispatcher

from ..syscalls import InterruptsDeferred
from .nonnegative import Pipeline


class PartDispatcher(CPUDispatcher):  # type: ignore[misc]
    """A part, mostly; where Python calls it, a kernel of its own."""

    make_whole: Callable[[], Any]
    whole: Any = None

    def __call__(self, *arguments: Any) -> Any:
        """From Python."""
        if self.whole is None:
            self.whole = self.make_whole()
        return self.whole(*arguments)


class WholeDispatcher(CPUDispatcher):  # type: ignore[misc]
    """A kernel of its own, mostly; where a kernel calls it, a part."""

    make_part: Callable[[], Any]
    part: Any = None

    def _compile_for_args(self, *arguments: Any, **options: Any) -> Any:
        """From Python, with new types. An interrupt would leave Numba's tables half written, for good."""
        with InterruptsDeferred():
            return super()._compile_for_args(*arguments, **options)

    def get_call_template(self, args: Any, kws: Any) -> Any:
        """From a kernel, when its types are found."""
        if self.part is None:
            self.part = self.make_part()
        return self.part.get_call_template(args, kws)

    def get_overload(self, sig: Any) -> Any:
        """From a kernel, when its code is written."""
        return self.part.get_overload(sig)


class PartLibrary(JITCodeLibrary):  # type: ignore[misc]
    """The code of one part, without that of the parts that it calls."""

    def _optimize_functions(self, ll_module: Any) -> None:
        """As Numba does, but for functions that are only called here: it would build all passes for each of them."""
        ll_module.data_layout = self._codegen._data_layout
        for function in ll_module.functions:
            if not function.is_declaration:
                passes, builder = self._codegen._function_pass_manager()
                passes.run(function, builder)

    def finalize(self) -> None:
        """Neither optimize it nor make machine code of it."""
        self._finalized = True

    def own_module(self) -> Any:
        """The part alone."""
        return super()._get_module_for_linking()

    def _get_module_for_linking(self) -> Any:
        """The part with all that it calls, for kernels that are not ours."""
        module = self.own_module().clone()
        parts, others = collect(self._linking_libraries)
        for each in [part.own_module() for part in parts] + [
            other._get_module_for_linking() for other in others
        ]:
            module.link_in(each, preserve=True)
        return module


class WholeLibrary(JITCodeLibrary):  # type: ignore[misc]
    """The code of a kernel of its own, with every part of it."""

    _linking_libraries: list[Any]

    def finalize(self) -> None:
        """Link each part once; the rest is Numba's."""
        parts, others = collect(self._linking_libraries)
        for part in parts:
            self._reload_init.update(part._reload_init)
            self._final_module.link_in(part.own_module(), preserve=True)
        self._linking_libraries = others
        super().finalize()


def collect(libraries: list[Any]) -> tuple[list[PartLibrary], list[Any]]:
    """The parts among these libraries and those that they link in turn, and all other libraries, each once.

    Callers come before what they call: LLVM's linker leaves out what nobody has asked for yet.
    """
    parts: dict[PartLibrary, None] = {}
    others: dict[Any, None] = {}

    def visit(library: Any) -> None:
        if not isinstance(library, PartLibrary):
            others[library] = None
        elif library not in parts:
            for called in library._linking_libraries:
                visit(called)
            parts[library] = None

    for library in libraries:
        visit(library)
    return list(reversed(parts)), list(others)


class WholePipeline(Pipeline):
    """How kernels of their own are compiled."""

    def define_pipelines(self) -> list[Any]:
        """With a library that knows of parts, and without what lets C call it."""
        state = self.state
        state.flags.no_cfunc_wrapper = True
        state.library = WholeLibrary(state.targetctx.codegen(), state.func_id.func_qualname)
        state.library.enable_object_caching()
        return super().define_pipelines()


class PartPipeline(Pipeline):
    """How parts are compiled."""

    noalias = False

    def define_pipelines(self) -> list[Any]:
        """Without what lets Python call it.

        What callees inherit has been copied from the flags by now: they are not compiled anew for these.
        """
        state = self.state
        state.flags.no_cpython_wrapper = True
        state.flags.no_cfunc_wrapper = True
        state.flags.noalias = self.noalias
        state.library = PartLibrary(state.targetctx.codegen(), state.func_id.func_qualname)
        state.targetctx.get_executable = _unexecutable
        return super().define_pipelines()


class NoaliasPartPipeline(PartPipeline):
    """How parts are compiled whose arrays share no memory."""

    noalias = True


@ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.py_object, ctypes.py_object, ctypes.c_void_p)  # type: ignore[untyped-decorator]
def _not_called(*_: Any) -> Any:
    raise SystemError("a part of a kernel has no machine code")


def _unexecutable(library: Any, description: Any, environment: Any) -> Any:
    """What stands for a part in Numba's tables, which hold functions that Python can call."""
    return _dynfunc.make_function(
        description.lookup_module(), description.qualname.split(".")[-1], "a part of kernels",
        ctypes.cast(_not_called, ctypes.c_void_p).value, environment, (library,),
    )  # fmt: skip
