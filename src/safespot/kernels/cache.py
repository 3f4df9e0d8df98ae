"""Compiled code on the disk, fresh only while no source that it depends on has changed.

Numba's own cache looks at the file that defines a kernel and misses an edit in a kernel that it calls from another
file, and it fails on a truncated file. This one is kept under a digest of all sources that the kernel depends on
(`sources`), and compiles anew with a warning where it cannot read. An edit elsewhere leaves compiled code fresh.

As the digest says all, where the package lies does not matter: compiled code is kept in the user's cache folder, and
every environment and checkout of the user finds it there. (``NUMBA_CACHE_DIR`` names another folder. Where neither can
be written to it lies where Numba would put it.)
"""

from __future__ import annotations

import functools
import hashlib
import logging
import os
import re
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numba
from numba import types
from numba.core.caching import FunctionCache, IndexDataCacheFile

from .sources import CHOSEN, digest

log = logging.getLogger(__name__)

UNUSED = 90 * 86_400  # seconds after which compiled code that nobody asked for is thrown away


class PackageCache(FunctionCache):  # type: ignore[misc]
    """Numba's cache of one kernel, in a folder of its sources."""

    def _index_key(self, sig: Any, codegen: Any) -> Any:
        """What the kernel is handed may choose kernels that its own module does not import: their sources count too."""
        return (*super()._index_key(sig, codegen), digest(chosen(sig)))

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """What Numba finds; nothing where it cannot be read."""
        if digest(chosen(sig)) is None:
            return None
        self._find_files(sig)
        try:
            return super().load_overload(sig, target_context)
        except Exception as problem:  # unpickling damaged data can raise anything
            log.warning("compiled code of %s is unreadable (%r): compiling anew", self, problem)
            self.flush()
            return None

    def save_overload(self, sig: Any, data: Any) -> None:
        """Keep what was compiled, but for kernels that were typed in: nobody can tell when they change."""
        if digest(chosen(sig)) is not None:
            self._find_files(sig)
            if (folder := Path(self._cache_path)).parent == home():
                folder.mkdir(mode=0o700, exist_ok=True)
            super().save_overload(sig, data)

    def _find_files(self, sig: Any) -> None:
        """Where code of these very sources is kept; they are read when it is first asked for, not on import.

        Every signature has files of its own. In Numba's one index for all of them, processes that save at the same
        time take each other's names, and whoever lacks a record from elsewhere cannot read of the others.
        """
        own = digest([self._py_func]) or self._impl.locator.get_source_stamp()
        kind = f"{own}-{numba.__version__}"
        kind += "-checked" * bool(numba.config.BOUNDSCHECK)
        kind += "-plain" * bool(os.environ.get("SAFESPOT_PLAIN_NUMBA"))
        if (folder := home()) is not None:
            self._cache_path = str(folder / kind)
            _mark_used(folder / kind)
        said = re.sub("0x[0-9a-f]+", "", str(sig))  # but for where functions lie in memory
        name = hashlib.blake2b(said.encode(), digest_size=8).hexdigest()
        self._cache_file = IndexDataCacheFile(
            cache_path=self._cache_path,
            filename_base=f"{self._impl.filename_base}.{name}",
            source_stamp=kind,
        )


@functools.cache
def home() -> Path | None:
    """The user's folder of compiled code, tidied; None: there is none that can be written to."""
    from numba.misc.appdirs import AppDirs

    found = numba.config.CACHE_DIR or AppDirs(appname="safespot", appauthor=False).user_cache_dir
    folder = Path(found, "kernels")
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        for kept in folder.iterdir():
            if time.time() - kept.stat().st_mtime > UNUSED:
                shutil.rmtree(kept, ignore_errors=True)
    except OSError:
        return None
    return folder if os.access(folder, os.W_OK) else None


@functools.cache
def _mark_used(folder: Path) -> None:
    """Once a process is enough."""
    try:
        os.utime(folder)
    except OSError:
        return


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
