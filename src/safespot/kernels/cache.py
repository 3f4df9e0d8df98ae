"""Compiled code on the disk, fresh only while no source that it depends on has changed.

Numba's own cache looks at the file that defines a kernel and misses an edit in a kernel that it calls from another
file, and it fails on a truncated file. This one is stamped with the sources of all that kernels can depend on, and
compiles anew with a warning where it cannot read.
"""

from __future__ import annotations

import functools
import hashlib
import inspect
import logging
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numba
from numba import types
from numba.core.caching import FunctionCache

log = logging.getLogger(__name__)

# Packages that hold no kernel and that no kernel depends on: an edit there leaves compiled code fresh.
WITHOUT_KERNELS = (
    "benchmarks", "cli", "data", "experiments", "gym", "report", "storage", "verification",
)  # fmt: skip


class PackageCache(FunctionCache):  # type: ignore[misc]
    """Numba's cache of one kernel with that stamp."""

    def __init__(self, function: Callable) -> None:
        super().__init__(function)
        self._cache_file._source_stamp = stamp()

    def _index_key(self, sig: Any, codegen: Any) -> Any:
        """Records from outside the package stand for kernels from outside: their sources count too."""
        return (*super()._index_key(sig, codegen), outside(sig))

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """What Numba finds; nothing where it cannot be read."""
        try:
            return super().load_overload(sig, target_context)
        except Exception as problem:  # unpickling damaged data can raise anything
            log.warning("compiled code of %s is unreadable (%r): compiling anew", self, problem)
            self.flush()
            return None


@functools.cache
def stamp() -> str:
    """A digest of all that compiled code depends on; Numba adds its own version and the processor."""
    digest = hashlib.blake2b(digest_size=16)
    package = Path(__file__).parents[1]
    for source in sorted(package.rglob("*.py")):
        if source.relative_to(package).parts[0] in WITHOUT_KERNELS:
            continue
        digest.update(source.read_bytes())
    plain = os.environ.get("SAFESPOT_PLAIN_NUMBA", "")
    return f"{digest.hexdigest()} boundscheck={numba.config.BOUNDSCHECK} plain={plain}"


def outside(kinds: Any) -> str:
    """A digest of the files that define the records among these types, where they are not the package's."""
    files = {
        found
        for record in _records(kinds)
        if not record.__module__.startswith("safespot.")
        and (found := inspect.getsourcefile(record)) is not None
    }
    digest = hashlib.blake2b(digest_size=16)
    for file in sorted(files):
        digest.update(Path(file).read_bytes())
    return digest.hexdigest() if files else ""


def _records(kinds: Any) -> Iterator[type]:
    for kind in kinds:
        if isinstance(kind, types.BaseNamedTuple):
            yield kind.instance_class
        if isinstance(kind, types.BaseTuple):
            yield from _records(kind.types)
