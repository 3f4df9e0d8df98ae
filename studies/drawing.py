"""Curves against episodes, both axes logarithmic, in a small SVG that is the same whenever it is drawn."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any


def log_log(
    path: Path, curves: Mapping[str, tuple[Any, Any]], says: str, *, height: float, marker: str = ""
) -> None:
    """Draw the curves, name -> (episodes, values)."""
    import matplotlib as mpl

    mpl.use("svg")
    import matplotlib.pyplot as plt

    # Text as text keeps the file small; a fixed salt and no date keep it the same.
    style: Any = {"svg.fonttype": "none", "svg.hashsalt": path.stem, "font.size": 10}
    with mpl.rc_context(style):
        figure, axes = plt.subplots(figsize=(6.4, height), layout="constrained")
        for name, (episodes, values) in curves.items():
            axes.plot(episodes, values, marker=marker, markersize=3, label=name, linewidth=1.6)
        axes.set(xscale="log", yscale="log", xlabel="episodes", ylabel=says)
        axes.grid(which="major", color="0.9")
        axes.spines[["top", "right"]].set_visible(False)
        axes.legend(frameon=False, loc="lower left")
        path.parent.mkdir(exist_ok=True)
        figure.savefig(path, metadata={"Date": None})
        plt.close(figure)
