"""Whole numbers that are handed to a kernel are never negative: a pass of the compiler that promises it to LLVM.

An index then needs no code for those counted from the end. Where bounds are checked, so is this.
"""

from __future__ import annotations

from typing import Any

import numba
from numba import types
from numba.core import ir
from numba.core.compiler import CompilerBase, DefaultPassBuilder
from numba.core.compiler_machinery import FunctionPass, register_pass
from numba.core.ir_utils import build_definitions
from numba.core.untyped_passes import IRProcessing
from numba.extending import intrinsic

NEGATIVE = "a whole number is negative that was handed to a kernel"


@intrinsic  # type: ignore[untyped-decorator]
def assumed(typingctx: Any, value: Any) -> Any:
    """`value`; a whole number with a sign is promised not to be negative, or checked where bounds are."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        (given,) = arguments
        if isinstance(value, types.Integer) and value.signed:
            fits = builder.icmp_signed(">=", given, given.type(0))
            if numba.config.BOUNDSCHECK:
                with builder.if_then(builder.not_(fits), likely=False):
                    context.call_conv.return_user_exc(builder, IndexError, (NEGATIVE,))
            else:
                builder.assume(fits)
        elif context.enable_nrt:  # the same object once more
            context.nrt.incref(builder, signature.return_type, given)
        return given

    return value(value), generate


@register_pass(mutates_CFG=False, analysis_only=False)
class AssumeNonnegative(FunctionPass):  # type: ignore[misc]
    """``x = argument`` becomes ``x = assumed(argument)`` at the beginning of a kernel."""

    _name = "safespot_assume_nonnegative"

    def __init__(self) -> None:
        super().__init__()

    def run_pass(self, state: Any) -> bool:
        """Rewrite the first block, which is where arguments are."""
        code = state.func_ir
        block = code.blocks[min(code.blocks)]
        body = []
        for statement in block.body:
            if not (isinstance(statement, ir.Assign) and isinstance(statement.value, ir.Arg)):
                body.append(statement)
                continue
            x, where = statement.target, statement.loc
            given, function = (
                ir.Var(x.scope, f"{x.name}.{what}", where) for what in ("given", "assumed")
            )
            body.append(ir.Assign(statement.value, given, where))
            body.append(ir.Assign(ir.Global("assumed", assumed, where), function, where))
            body.append(ir.Assign(ir.Expr.call(function, [given], (), where), x, where))
        block.body = body
        code._definitions = build_definitions(code.blocks)
        return True


class Pipeline(CompilerBase):  # type: ignore[misc]
    """Numba's own pipeline with that pass in it."""

    def define_pipelines(self) -> list[Any]:
        """Python's bytecode is Numba's representation by then, and has no types yet."""
        passes = DefaultPassBuilder.define_nopython_pipeline(self.state)
        passes.add_pass_after(AssumeNonnegative, IRProcessing)
        passes.finalize()
        return [passes]
