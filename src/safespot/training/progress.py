"""The progress of a run: a line on standard error, or a bar in a notebook."""

from __future__ import annotations

import sys
from typing import Any


class Progress:
    """A line that is written again and again; in a notebook, a bar that is drawn again."""

    def __init__(self, total: int) -> None:
        self.total = total
        self._bar = _bar()

    def show(self, done: int, seconds: float) -> None:
        """Show the number of `done` episodes, their rate and the time left."""
        rate = done / max(seconds, 1e-9)
        left = (self.total - done) / max(rate, 1e-9)
        text = f"{done:,} of {self.total:,} episodes, {rate:,.0f} a second, {left:,.0f} s left"
        if self._bar is None:
            print(f"\r{text}   ", end="", file=sys.stderr, flush=True)
        else:
            bar = f'<progress value="{done}" max="{self.total}"></progress> {text}'
            self._bar.update({"text/html": bar, "text/plain": text}, raw=True)

    def close(self) -> None:
        """Leave the line."""
        if self._bar is None:
            print(file=sys.stderr)


def _bar() -> Any | None:
    """Return the handle of a notebook's display; None outside of a notebook. Imports nothing new there."""
    shell = sys.modules.get("IPython")
    running = None if shell is None else shell.get_ipython()
    if running is None or type(running).__name__ != "ZMQInteractiveShell":
        return None
    from IPython.display import display  # type: ignore[import-not-found, unused-ignore]

    return display({"text/plain": ""}, raw=True, display_id=True)
