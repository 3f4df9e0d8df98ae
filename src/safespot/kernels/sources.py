"""Which source files a function depends on: the import closure of the module that defines it.

These are the module's own file and those of all that it imports from its own package or from this one. Imports are
read from the sources, not from what happens to be loaded, so that every process finds the same files; those inside
functions count too, those for type checkers do not. A package's ``__init__`` counts where a name is imported from it,
not where it only lies on the way (as ``a`` does in ``import a.b``).
"""

from __future__ import annotations

import ast
import functools
import hashlib
import inspect
import re
from collections.abc import Callable, Iterable
from pathlib import Path

PACKAGE = __name__.partition(".")[0]
_IMPORT = re.compile(
    r"^[ \t]*(?:from[ \t]+[\w.]+[ \t]+)?import[ \t]+(?:\([^)]*\)|[\w., \t]+(?:#.*)?$)", re.MULTILINE
)
_FOR_TYPE_CHECKERS = re.compile(
    r"^if (?:typing\.)?TYPE_CHECKING:.*\n(?:[ \t]+.*\n|\n)*", re.MULTILINE
)


CHOSEN: dict[type, list[Callable]] = {}


def chosen_by(record: type, *kernels: Callable) -> None:
    """Say that kernels which are handed a record of this type call these (by an overload that looks them up).

    Compiled code on the disk then depends on them too: which they are cannot be seen in the imports of their caller.
    """
    functions = [getattr(kernel, "py_func", kernel) for kernel in kernels]
    CHOSEN.setdefault(record, []).extend(functions)


def digest(functions: Iterable[Callable]) -> str | None:
    """A digest of all sources that these functions and classes depend on; None: one was typed in and has no file.

    Where files lie does not matter.
    """
    parts = set()
    for function in functions:
        try:
            file = Path(inspect.getfile(function))
        except (TypeError, OSError):
            return None
        if not file.is_file():
            return None
        parts.add(_closure_digest(function.__module__, file))
    return _hash(part.encode() for part in sorted(parts))


@functools.cache
def _closure_digest(module: str, file: Path) -> str:
    return _hash(sorted(_content(path) for path in closure(module, file)))


def _hash(parts: Iterable[bytes]) -> str:
    found = hashlib.blake2b(digest_size=16)
    for part in parts:
        found.update(part)
    return found.hexdigest()


@functools.cache
def closure(module: str, file: Path) -> frozenset[Path]:
    """The files that the module of this name, which is defined in `file`, depends on."""
    depth = module.count(".") + (file.name == "__init__.py")
    folders = {PACKAGE: Path(__file__).parents[2], module.partition(".")[0]: file.parents[depth]}
    found: dict[str, Path] = {}
    waiting = [(module, file)]
    while waiting:
        name, path = waiting.pop()
        if name in found:
            continue
        found[name] = path
        for imported in _imports(name, path):
            folder = folders.get(imported.partition(".")[0])
            if folder is not None and (at := _source(folder, imported)) is not None:
                waiting.append((imported, at))
    return frozenset(found.values())


@functools.cache
def _content(path: Path) -> bytes:
    return path.read_bytes()


def _source(folder: Path, module: str) -> Path | None:
    """Where a module lies; None: there is no such module (but a name in its package)."""
    at = folder.joinpath(*module.split("."))
    return next(
        (path for path in (at.with_suffix(".py"), at / "__init__.py") if path.is_file()), None
    )


@functools.cache
def _imports(module: str, path: Path) -> frozenset[str]:
    """The modules that a module may import, by their whole names; some of them are names in a module."""
    package = module if path.name == "__init__.py" else module.rpartition(".")[0]
    source = _FOR_TYPE_CHECKERS.sub("", _content(path).decode())
    found: set[str] = set()
    for statement in _IMPORT.findall(source):  # to parse whole files takes a third of a second
        (node,) = ast.parse(statement.strip()).body
        if isinstance(node, ast.Import):
            found |= {each.name for each in node.names}
        elif isinstance(node, ast.ImportFrom):
            home = node.module or ""
            if node.level > 0:  # relative: each dot after the first is one package up
                above = package.rsplit(".", node.level - 1)[0]
                home = f"{above}.{home}".rstrip(".")
            names = {f"{home}.{each.name}" for each in node.names}
            found |= names if node.module is None else names | {home}
    return frozenset(found)
