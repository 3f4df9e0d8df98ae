"""Checkpoints of one unfinished run, two generations of them.

Each goes over the older of the two, so a damaged one leaves the one before. The file says which run it is of and
which versions wrote it: another version's numbers could differ in their last bits, so it is not resumed.
"""

from __future__ import annotations

import platform
from collections.abc import Iterator
from pathlib import Path

import numba
import numpy as np
from numpy.typing import NDArray

from .. import __version__, files
from ..errors import InvalidFile

KIND = "checkpoint"
Arrays = dict[str, NDArray]


def versions() -> dict[str, str]:
    """What the bits of a result depend on, beside its content."""
    return {
        "safespot": __version__,
        "python": platform.python_version(),
        "numpy": np.__version__,
        "numba": numba.__version__,
    }


class Checkpoint:
    """Both generations of a run's checkpoint."""

    def __init__(self, folder: Path, run: str) -> None:
        self.run = run
        self.paths = [folder / f"{run}.{generation}.safetensors" for generation in (0, 1)]
        self.next = 0

    def found(self, notes: list[str]) -> Iterator[tuple[Arrays, int]]:
        """What can be resumed, and the episodes that it has finished; the furthest first.

        What is damaged is said in `notes`.
        """
        whole = []
        for generation, path in enumerate(self.paths):
            if not path.exists():
                continue
            try:
                arrays, about = files.read_arrays(path, KIND)
            except InvalidFile as problem:
                notes.append(str(problem))
                continue
            finished = about.get("finished")
            if about.get("run") != self.run:
                notes.append(f"{path} is of run {about.get('run')}: not used.")
                continue
            if about.get("versions") != versions():
                notes.append(
                    f"{path} was written by {about.get('versions')}; this is {versions()}: not used."
                )
                continue
            if not isinstance(finished, int):
                notes.append(f"{path} does not say how many episodes it holds: not used.")
                continue
            whole.append((finished, generation, arrays))
        for finished, generation, arrays in sorted(whole, key=lambda one: one[0], reverse=True):
            self.next = 1 - generation  # never over the one that is in use
            yield arrays, finished

    def save(self, arrays: Arrays, finished: int) -> None:
        """Put a new one over the older."""
        about = {"run": self.run, "versions": versions(), "finished": finished}
        files.write_arrays(self.paths[self.next], KIND, arrays, about)
        self.next = 1 - self.next

    def drop(self) -> None:
        """The run is finished, or starts anew."""
        for path in self.paths:
            files.disk.remove(path)
