"""Compiled code on the disk, fresh only while no source that it depends on has changed.

Numba's own cache looks at the file that defines a kernel and misses an edit in a kernel that it calls from another
file, and it fails on a truncated file. This one is stamped with all sources that the kernel depends on (`sources`), and
compiles anew with a warning where it cannot read. An edit elsewhere leaves compiled code fresh.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterator
from typing import Any

import numba
from numba import types
from numba.core.caching import FunctionCache

from .sources import CHOSEN, digest

log = logging.getLogger(__name__)


class PackageCache(FunctionCache):  # type: ignore[misc]
    """Numba's cache of one kernel with that stamp."""

    def _index_key(self, sig: Any, codegen: Any) -> Any:
        """What the kernel is handed may choose kernels that its own module does not import: their sources count too."""
        return (*super()._index_key(sig, codegen), digest(chosen(sig)))

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """What Numba finds; nothing where it cannot be read."""
        if digest(chosen(sig)) is None:
            return None
        own = digest([self._py_func]) or self._impl.locator.get_source_stamp()
        plain = os.environ.get("SAFESPOT_PLAIN_NUMBA", "")
        self._cache_file._source_stamp = (
            f"{own} boundscheck={numba.config.BOUNDSCHECK} plain={plain}"
        )
        try:
            return super().load_overload(sig, target_context)
        except Exception as problem:  # unpickling damaged data can raise anything
            log.warning("compiled code of %s is unreadable (%r): compiling anew", self, problem)
            self.flush()
            return None

    def save_overload(self, sig: Any, data: Any) -> None:
        """Keep what was compiled, but for kernels that were typed in: nobody can tell when they change."""
        if digest(chosen(sig)) is not None:
            super().save_overload(sig, data)


def chosen(kinds: Any) -> Iterator[Callable]:
    """The kernels that arguments of these types are or choose, and the records that come from elsewhere."""
    for kind in kinds:
        if isinstance(kind, types.Dispatcher):
            yield kind.dispatcher.py_func
        if isinstance(kind, types.BaseNamedTuple):
            record = kind.instance_class
            yield from CHOSEN.get(record, ())
            if not record.__module__.startswith("safespot."):
                yield record
        if isinstance(kind, types.BaseTuple):
            yield from chosen(kind.types)
