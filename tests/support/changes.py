"""Single changes of a module's source, for `tests.support.mutants`.

What is changed: an operator of a comparison or a calculation, `and` and `or`, a `not` or a minus dropped, a number, a
truth value or a compared text, a condition turned round, a return value, a statement dropped.

What is left out, since no behaviour hangs on it:

- types and names: annotations, decorators, `if TYPE_CHECKING`, the second argument of `isinstance`, `__all__`,
  aliases of types;
- texts: docstrings, f-strings, what is raised, warned or logged (that it is raised or warned is *not* left out),
  `__repr__`, `__str__` and their like, `help=` and `title=`;
- sizes of buffers and the like: numbers in capitals whose name says bytes, chunk, block, seconds, objects or colors,
  keywords such as `stacklevel`, `encoding`, `timeout`, `maxsize`, `indent`, and sleeping;
- what only guards against our own mistakes: `zip(strict=True)`, `assert`;
- numbers below a millionth: tolerances for rounding;
- the 1 of `reshape(-1)`: NumPy takes any negative number for the size that is left.
"""

from __future__ import annotations

import ast
import copy
import hashlib
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

COMPARISONS: dict[type[ast.cmpop], tuple[type[ast.cmpop], ...]] = {
    ast.Lt: (ast.LtE, ast.GtE), ast.LtE: (ast.Lt, ast.Gt), ast.Gt: (ast.GtE, ast.LtE),
    ast.GtE: (ast.Gt, ast.Lt), ast.Eq: (ast.NotEq,), ast.NotEq: (ast.Eq,), ast.In: (ast.NotIn,),
    ast.NotIn: (ast.In,), ast.Is: (ast.IsNot,), ast.IsNot: (ast.Is,),
}  # fmt: skip
OPERATORS: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult, ast.FloorDiv: ast.Mult,
    ast.Mod: ast.FloorDiv, ast.Pow: ast.Mult, ast.BitAnd: ast.BitOr, ast.BitOr: ast.BitAnd,
    ast.LShift: ast.RShift, ast.RShift: ast.LShift,
}  # fmt: skip
COMPILING = {"kernel", "no_refcount", "inlined", "inlined_noalias", "overload_inlined", "step_for"}
SHOWING = {"__repr__", "__str__", "__rich__", "__rich_console__", "_repr_html_", "__dir__"}
LOGGING = {"debug", "info", "warning", "exception", "sleep", "warn", "TypeVar"}
KEYWORDS = {
    *("stacklevel", "encoding", "timeout", "maxsize", "indent", "strict", "flush", "help", "title"),
    *("daemon", "ensure_ascii", "rich_help_panel", "show_default", "metavar", "no_wrap"),
}
SIZES = re.compile(r"^[A-Z_]*(BYTES|CHUNK|BLOCK|SECONDS|OBJECTS|COLORS|NUMBERS)[A-Z_]*$")
TINY = 1e-6


@dataclass(frozen=True)
class Change:
    """One change of one node."""

    file: Path
    node: int  # its place in `ast.walk`
    alternative: int
    lines: tuple[int, int]  # of the statement, without the statements inside of it
    function: str  # the outermost function around it; "" where it runs when the module is imported
    plain: bool  # it is compiled, so it must be tried uncompiled
    text: str  # before → after
    key: str  # names it, also when lines move

    @cached_property
    def tree(self) -> ast.Module:
        """The changed module."""
        tree = ast.parse(self.file.read_text(encoding="utf-8"))
        node = list(ast.walk(tree))[self.node]
        new = list(_alternatives(node))[self.alternative]
        _Exchange(node, ast.copy_location(new, node)).visit(tree)
        return ast.fix_missing_locations(tree)


class _Exchange(ast.NodeTransformer):
    """One node for another."""

    def __init__(self, old: ast.AST, new: ast.AST) -> None:
        self.old, self.new = old, new

    def visit(self, node: ast.AST) -> ast.AST:
        return self.new if node is self.old else self.generic_visit(node)


def changes(file: Path, seed: int = 0) -> list[Change]:
    """All changes of a module, in an order that only the seed and the changes themselves decide."""
    source = file.read_text(encoding="utf-8")
    tree = ast.parse(source)
    places = {id(node): place for place, node in enumerate(ast.walk(tree))}
    compiles = any(name in source for name in ("kernels.jit import", "from .jit import"))
    found, seen, alike = [], Counter[str](), _open_sizes(tree)
    for node, statement, function, compiled in _nodes(tree):
        if node in alike:
            continue
        body = getattr(statement, "body", None) or [None]
        ends = body[0].lineno - 1 if isinstance(body[0], ast.stmt) else statement.end_lineno
        lines = statement.lineno, max(statement.lineno, ends or 0)
        for alternative, new in enumerate(_alternatives(node)):
            text = f"{_short(node)} → {_short(new)}"
            seen[name := f"{file.parent.name}/{file.name}:{function}: {text}"] += 1
            plain = compiled or (compiles and not function)
            key = f"{name} #{seen[name]}"
            found.append(
                Change(file, places[id(node)], alternative, lines, function, plain, text, key)
            )
    return sorted(found, key=lambda change: drawn(change, seed))


def drawn(change: Change, seed: int) -> bytes:
    """Where a change stands in the order of `seed`."""
    return hashlib.blake2b(f"{seed} {change.key}".encode()).digest()


def _nodes(tree: ast.Module) -> Iterator[tuple[ast.AST, ast.stmt, str, bool]]:
    """Every node that may be changed, with its statement, its outermost function and whether that is compiled."""

    def walk(
        node: ast.AST, statement: ast.stmt | None, names: str, function: str, compiled: bool
    ) -> Iterator[tuple[ast.AST, ast.stmt, str, bool]]:
        for field, child in _fields(node):
            if _left_out(child, field, node):
                continue
            inside = child if isinstance(child, ast.stmt) else statement
            # Defaults are computed where the function is made, not where it runs.
            body = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and field == "body"
            around = function or (names if body else "")
            if inside is not None:
                yield child, inside, around, compiled and bool(around)
            named, compiles = names, compiled
            if isinstance(child, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                named = f"{names}.{child.name}".lstrip(".")
                compiles |= any(
                    isinstance(n, ast.Name) and n.id in COMPILING
                    for d in child.decorator_list
                    for n in ast.walk(d)
                )
            yield from walk(child, inside, named, around, compiles)

    yield from walk(tree, None, "", "", False)


def _fields(node: ast.AST) -> Iterator[tuple[str, ast.AST]]:
    for field, value in ast.iter_fields(node):
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST):
                yield field, child


def _left_out(node: ast.AST, field: str, parent: ast.AST) -> bool:
    """Whether nothing in `node` is changed: see the top of this file."""
    match parent, field:
        case (_, "annotation" | "returns" | "decorator_list" | "type_comment" | "bases"):
            return True
        case (ast.Raise(), "exc" | "cause"):
            return True
        case (ast.Call(func=ast.Name("isinstance")), "args"):
            return node is not parent.args[0]
        case (ast.Call(func=ast.Name(name) | ast.Attribute(attr=name)), _) if name in LOGGING:
            return True
    match node:
        case ast.JoinedStr() | ast.Assert() | ast.Import() | ast.ImportFrom():
            return True
        case ast.Expr(ast.Constant()):
            return True
        case ast.Expr(ast.Call(func=ast.Attribute(value=ast.Name("log")))):
            return True
        case ast.If(test=ast.Name("TYPE_CHECKING")):
            return True
        case ast.If(test=ast.Compare(left=ast.Name("__name__"))):
            return True
        case ast.Assign(targets=[ast.Name(name)]) | ast.AnnAssign(target=ast.Name(name)):
            alias = name[0].isupper() and isinstance(getattr(node.value, "op", None), ast.BitOr)
            return name.startswith("__") or bool(SIZES.match(name)) or alias
        case ast.keyword(arg=str(word)):
            return word in KEYWORDS
        case ast.FunctionDef(name=name):
            return name in SHOWING
    return False


def _open_sizes(tree: ast.Module) -> set[ast.AST]:
    """The 1 of every `reshape(-1)`."""
    calls = (node for node in ast.walk(tree) if isinstance(node, ast.Call))
    return {
        size.operand
        for call in calls
        if isinstance(call.func, ast.Attribute) and call.func.attr == "reshape"
        for argument in call.args
        for size in getattr(argument, "elts", [argument])
        if isinstance(size, ast.UnaryOp) and isinstance(size.op, ast.USub)
    }


def _alternatives(node: ast.AST) -> Iterator[ast.AST]:
    """What may stand in a node's place."""
    new = copy.deepcopy(node)
    match new:
        case ast.Compare():
            for place, operator in enumerate(new.ops):
                for other in COMPARISONS[type(operator)]:
                    changed = copy.deepcopy(new)
                    changed.ops[place] = other()
                    yield changed
            for place, value in enumerate([new.left, *new.comparators]):
                if isinstance(value, ast.Constant) and isinstance(value.value, str):
                    changed = copy.deepcopy(new)
                    other_text = ast.Constant(value.value + "?")
                    if place:
                        changed.comparators[place - 1] = other_text
                    else:
                        changed.left = other_text
                    yield changed
        case ast.BinOp() | ast.AugAssign() if type(new.op) in OPERATORS:
            texts = (getattr(new, "left", None), getattr(new, "right", None))
            if not any(isinstance(part, ast.JoinedStr) for part in texts):
                new.op = OPERATORS[type(new.op)]()
                yield new
        case ast.BoolOp():
            new.op = ast.Or() if isinstance(new.op, ast.And) else ast.And()
            yield new
        case ast.UnaryOp(op=ast.Not() | ast.USub()):
            yield new.operand
        case ast.Constant(value=bool(value)):
            yield ast.Constant(not value)
        case ast.Constant(value=int(value)):
            yield ast.Constant(value + 1)
        case ast.Constant(value=float(value)) if abs(value) >= TINY or value == 0:
            yield ast.Constant(2 * value or 1.0)
        case ast.If() | ast.While() | ast.IfExp() if not isinstance(new.test, ast.UnaryOp):
            new.test = ast.UnaryOp(ast.Not(), new.test)
            yield new
        case ast.comprehension(ifs=[_, *_]):
            new.ifs[0] = ast.UnaryOp(ast.Not(), new.ifs[0])
            yield new
        case ast.Return(value=ast.expr()) if not isinstance(new.value, ast.Constant):
            yield ast.Return(ast.Constant(None))
    match node:
        case ast.Expr(ast.Call()) | ast.AugAssign() | ast.Raise() | ast.Continue() | ast.Break():
            yield ast.Pass()
        case ast.Assign(targets=[ast.Attribute() | ast.Subscript()]):
            yield ast.Pass()


def _short(node: ast.AST) -> str:
    """A node in one line; of a compound statement its first."""
    if isinstance(node, ast.comprehension):
        return "if " + ast.unparse(node.ifs[0])
    text = " ".join(ast.unparse(ast.fix_missing_locations(node)).splitlines()[:1])
    return text if len(text) < 90 else f"{text[:60]} … {text[-25:]}"
