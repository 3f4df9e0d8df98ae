"""Ctrl-C at every place: an interrupt at the k-th instruction that some of the package's own files run."""

from __future__ import annotations

import dis
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np

import safespot

HOME = Path(safespot.__file__).parent
RETURNS = {dis.opmap[name] for name in ("RETURN_VALUE", "RETURN_CONST") if name in dis.opmap}


class Interrupt:
    """Counts the instructions of the package's files that match, and sends SIGINT before the k-th one.

    Python itself looks for signals at calls, at jumps back and where functions begin, so this tries more places than
    there are; but for returns, at which it never looks.
    """

    def __init__(self, k: int | None, *parts: str) -> None:
        self.k, self.count = k, 0
        self.files = {str(path) for part in parts for path in HOME.glob(part)}
        assert self.files
        self.before: Any = None

    def __enter__(self) -> Interrupt:
        self.before = sys.gettrace()
        sys.settrace(self._enter)
        return self

    def __exit__(self, *_: object) -> None:
        sys.settrace(self.before)

    def _enter(self, frame: FrameType, event: str, _: Any) -> Any:
        if frame.f_code.co_filename not in self.files:
            return None
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        return self._step

    def _step(self, frame: FrameType, event: str, _: Any) -> Any:
        if event == "opcode" and frame.f_code.co_code[frame.f_lasti] not in RETURNS:
            self.count += 1
            if self.count == self.k:
                sys.settrace(None)
                signal.raise_signal(signal.SIGINT)
        return self._step


def places(run: Callable[[], Any], *parts: str, most: int) -> list[int]:
    """Where `run` can be interrupted: every instruction of these files, or as many as asked for, spread evenly."""
    with Interrupt(None, *parts) as counted:
        run()
    total = counted.count
    assert total > 50
    return sorted(set(np.linspace(1, total, min(most, total)).astype(int).tolist()))


def interrupted(run: Callable[[], Any], k: int, *parts: str) -> KeyboardInterrupt | None:
    """Run, interrupted at the k-th instruction; the interrupt, and None where it went through uninterrupted."""
    try:
        with Interrupt(k, *parts):
            run()
    except KeyboardInterrupt as stop:
        return stop
    return None


def heard() -> Iterator[None]:
    """Let Python raise KeyboardInterrupt, also where tests run in the background of a shell."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    assert (
        signal.getsignal(signal.SIGINT) is signal.default_int_handler
    )  # put back by whoever held it
    signal.signal(signal.SIGINT, before)
