"""Figures for papers, by Matplotlib, in one style."""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from .. import files
from ..arrays import Float
from ..errors import InvalidFile, InvalidOption, MissingPackage
from ..experiments import Store
from .findings import Line, Study, read
from .region import Region
from .tables import learned_limits
from .text import SIGNS

KINDS = ("pdf", "png", "svg")
COLUMN = 3.4  # inches: one column of a paper
ABOVE = 9  # entries of a legend that stands above its axes, at most
COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#8A6D00", "#56B4E9", "#555555")
CAREFUL, BOLD, SAFE, GRAY, INK = "#0072B2", "#D55E00", "#BFE3D2", "#E9ECEF", "#1B1F24"
STYLE: dict[str, Any] = {
    "figure.figsize": (COLUMN, 2.3),
    "figure.constrained_layout.use": True,
    "font.size": 8,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.linewidth": 0.6,
    "axes.grid": False,
    "xtick.major.width": 0.6,
    "ytick.major.width": 0.6,
    "lines.linewidth": 1.2,
    "legend.frameon": False,
    "legend.fontsize": 7,
    "savefig.dpi": 300,
    "pdf.fonttype": 42,  # letters that can be searched and edited
    "svg.fonttype": "none",
    "svg.hashsalt": "safespot",  # the same bytes every time
}


def write(store: Store, kind: str, folder: Path) -> list[Path]:
    """One file per figure; where a store has several studies, their names are part of the files'."""
    if kind not in KINDS:
        raise InvalidOption(f"figures are of kind {', '.join(KINDS)}, got {kind!r}.")
    try:
        from matplotlib import style
        from matplotlib.figure import Figure
    except ImportError:
        raise MissingPackage('figures need Matplotlib: pip install "safespot[report]".') from None
    studies = read(store)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as problem:
        raise InvalidFile(f"cannot make {folder}: {problem.strerror}.") from None
    written = []
    dated = {"pdf": {"CreationDate": None}, "svg": {"Date": None}}
    with style.context(STYLE, after_reset=True):
        for number, study in enumerate(studies):
            for name, draw in _figures(study):
                figure = Figure()
                draw(study, figure.subplots())
                data = io.BytesIO()
                figure.savefig(data, format=kind, metadata=dated.get(kind))
                which = "" if len(studies) == 1 else f"-{number + 1}-{_slug(study.name)}"
                path = folder / f"{name}{which}.{kind}"
                files.replace(path, data.getvalue())
                written.append(path)
    return written


def _figures(study: Study) -> Iterator[tuple[str, Callable[[Study, Any], None]]]:
    """The figures that a study has."""
    for metric in ("regret", "violation"):
        yield metric, partial(_sums, metric=metric)
    for i in range(study.m):
        suffix = "" if study.m == 1 else f"-{i + 1}"
        yield f"thresholds{suffix}", partial(_thresholds, i=i)
        yield f"region{suffix}", partial(_region, i=i)
    if len(study.stances) > 1:
        yield "frontier", _frontier


def _sums(study: Study, axes: Any, metric: str) -> None:
    for line, color in _colored(study):
        mean, low, high = line.band(metric)
        axes.plot(line.episodes, mean, color=color, label=line.name)
        axes.fill_between(line.episodes, low, high, color=color, alpha=0.18, linewidth=0)
    axes.set(xlabel="episode", ylabel=metric)
    axes.axhline(0.0, color=INK, linewidth=0.4)
    _short(axes.xaxis, axes.yaxis)
    _legend(axes)


def _thresholds(study: Study, axes: Any, i: int) -> None:
    for line, color in _colored(study):
        low, high = (
            line.columns[f"threshold_{end}_{i}"].mean(axis=0) for end in ("lower", "upper")
        )
        axes.plot(line.episodes, low, color=color, label=line.name)
        axes.plot(line.episodes, high, color=color)
    episodes = study.lines[0].episodes
    limits = [study.limits(int(t))[i] for t in episodes]
    axes.plot(episodes, limits, color=INK, linestyle=(0, (4, 3)), linewidth=0.8, label="true")
    axes.set(xscale="log", xlabel="episode", ylabel=f"bounds of the limit of {study.called(i)}")
    _legend(axes)


def _region(study: Study, axes: Any, i: int) -> None:
    """All policies, those within the true limits, and the optima; the sets of the first line's bounds."""
    region, line = Region(study.problem.cmdp), study.lines[0]
    axes.fill(*region.achievable(i).T, facecolor=GRAY, edgecolor="#AAB2BB", linewidth=0.6)
    true = region.feasible(study.limits(study.episodes))
    if true is not None:
        axes.fill(*true.polygons[i].T, facecolor=SAFE, linewidth=0)
    careful, bold = (region.feasible(limits) for limits in learned_limits(study, line))
    for found, color, style, marker, name in (
        (bold, BOLD, "--", "^", "optimistic"),
        (true, "#00724F", "", "D", "true"),
        (careful, CAREFUL, "-", "v", "pessimistic"),
    ):
        if found is None:
            continue
        if style:
            axes.plot(*_closed(found.polygons[i]).T, color=color, linestyle=style, linewidth=1.0)
        axes.plot(found.constraints[i], found.reward, marker, color=color, markersize=4, label=name)
    for one, color in _colored(study):
        x, y = one.columns[f"constraint_{i}"].mean(axis=0), one.columns["value"].mean(axis=0)
        axes.plot(x, y, color=color if len(study.lines) > 1 else INK, linewidth=0.8)
        axes.plot(x[-1], y[-1], "o", color=color if len(study.lines) > 1 else INK, markersize=3)
    sign = SIGNS[study.senses[i]]
    axes.set(xlabel=f"{study.quantity(i)}, {sign} limit", ylabel=study.names.reward)
    axes.legend(
        title="best policy under each limit", title_fontsize=7, handletextpad=0.2, ncols=3,
        loc="lower center", bbox_to_anchor=(0.5, 1.0), columnspacing=1.0,
    )  # fmt: skip


def _frontier(study: Study, axes: Any) -> None:
    families: dict[str, list[Line]] = {}
    for line in study.lines:
        families.setdefault(line.family, []).append(line)
    for lines in families.values():
        ends = [
            [line.summary.final[m].mean for line in lines if line.xi is not None]
            for m in ("violation", "regret")
        ]
        axes.plot(*ends, color="#AAB2BB", linewidth=0.8, zorder=1)
    for line, color in _colored(study):
        x, y = (line.summary.final[m] for m in ("violation", "regret"))
        axes.errorbar(
            x.mean,
            y.mean,
            xerr=_reach(x),
            yerr=_reach(y),
            fmt="o",
            color=color,
            markersize=4,
            elinewidth=0.7,
            label=line.name,
        )
    axes.margins(0.15)
    axes.set(xlabel="violation", ylabel="regret")
    _short(axes.xaxis, axes.yaxis)
    _legend(axes)


def _reach(found: Any) -> Float | None:
    """How far an interval reaches to both sides of its mean."""
    if np.isnan(found.low):
        return None
    return np.array([[max(0.0, found.mean - found.low)], [max(0.0, found.high - found.mean)]])


def _colored(study: Study) -> Iterator[tuple[Line, str]]:
    """Lines with their colors; many lines go from careful to bold."""
    from matplotlib import colors

    n = len(study.lines)
    ramp = colors.LinearSegmentedColormap.from_list("stance", [CAREFUL, "#8A8A8A", BOLD])
    for k, line in enumerate(study.lines):
        yield line, COLORS[k] if n <= len(COLORS) else colors.to_hex(ramp(k / (n - 1)))


def _legend(axes: Any) -> None:
    """Outside the axes, where no curve can be: above them, or beside them where it is long."""
    many = len(axes.get_legend_handles_labels()[1]) > ABOVE
    place = {"loc": "outside right upper"} if many else {"loc": "outside upper left", "ncols": 3}
    axes.figure.legend(**place, handlelength=1.4, columnspacing=1.0)


def _short(*axes: Any) -> None:
    """20k for 20000."""
    from matplotlib.ticker import EngFormatter

    for axis in axes:
        axis.set_major_formatter(EngFormatter(sep=""))


def _closed(points: Float) -> Float:
    return np.vstack([points, points[:1]])


def _slug(name: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")
