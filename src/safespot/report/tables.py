"""The numbers of a study as tables: what charts are drawn over, and what a reader downloads.

A column `group` is the number of a line of the study.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..arrays import Float
from ..experiments import Store
from .findings import Line, Study
from .region import Region

Table = dict[str, list[Any]]  # column -> its cells

CELLS = 60_000  # of policies that a page draws at most
STATES = 60  # of a policy that are drawn at most


def every(study: Study, store: Store) -> dict[str, Table]:
    """All tables by their names; one without rows is left out."""
    tables = {
        "curves": curves(study),
        "truth": truth(study),
        "regions": regions(study),
        "policies": policies(study, store),
        "runs": runs(study),
    }
    tables["epochs"] = epochs(study)
    if len(study.stances) > 1:
        tables["frontier"] = frontier(study)
    return {name: table for name, table in tables.items() if next(iter(table.values()))}


def curves(study: Study) -> Table:
    """Every line at every shown episode: means over seeds, with intervals where a band is drawn."""
    banded = ["value", "regret", "strong_regret", "violation", "strong_violation"]
    plain = []
    for i in range(study.m):
        banded += [f"constraint_{i}", f"multiplier_{i}"]
        plain += [f"threshold_lower_{i}", f"threshold_upper_{i}"]
        if study.metered:
            banded.append(f"violation_{i}")
            plain += [f"evidence_violation_{end}_{i}" for end in ("lower", "upper")]
    table: Table = {"group": [], "episode": []}
    for index, line in enumerate(study.lines):
        table["group"] += [index] * len(line.episodes)
        table["episode"] += line.episodes.tolist()
        for column in banded:
            for suffix, values in zip(("", "_low", "_high"), line.band(column), strict=True):
                table.setdefault(column + suffix, []).extend(rounded(values))
        for column in plain:
            table.setdefault(column, []).extend(rounded(line.columns[column].mean(axis=0)))
    return table


def runs(study: Study) -> Table:
    """Every shown episode of every run."""
    table: Table = {"group": [], "seed": [], "episode": []}
    for index, line in enumerate(study.lines):
        for row, seed in enumerate(line.group.seeds):
            table["group"] += [index] * len(line.episodes)
            table["seed"] += [seed] * len(line.episodes)
            table["episode"] += line.episodes.tolist()
            for column, values in line.columns.items():
                table.setdefault(column, []).extend(rounded(values[row]))
    return table


def truth(study: Study) -> Table:
    """The optimum and the limits at both ends, and in between where they move."""
    episodes = study.lines[0].episodes if study.drifts else np.array([1, study.episodes])
    table: Table = {"episode": episodes.tolist()}
    table["optimum"] = rounded(np.array([study.optimum(int(t)) for t in episodes]))
    limits = np.array([study.limits(int(t)) for t in episodes])
    for i in range(study.m):
        table[f"limit_{i}"] = rounded(limits[:, i])
    return table


def epochs(study: Study) -> Table:
    """What the first seed of each line in phases played when, part after part, and what its trials proved.

    Nothing of the model of a log, in which nothing is proven.
    """
    names = ("phase", "kind", "first", "last", "verdict", "decided")
    table: Table = {name: [] for name in ("group", *names)}
    for index, line in enumerate(study.lines if study.log is None else ()):
        for part in line.abouts[0].get("epochs") or ():
            table["group"].append(index)
            for name in names:
                table[name].append(part[name])
    return table


def frontier(study: Study) -> Table:
    """Each line's regret and violation at the end, with its stance."""
    table: Table = {"group": [], "xi": [], "family": []}
    families = list(dict.fromkeys(line.family for line in study.lines))
    for index, line in enumerate(study.lines):
        table["group"].append(index)
        table["xi"].append(line.xi)
        table["family"].append(families.index(line.family))
        for metric, found in line.summary.final.items():
            for suffix, value in (("", found.mean), ("_low", found.low), ("_high", found.high)):
                table.setdefault(metric + suffix, []).extend(rounded(np.array([value])))
    return table


def regions(study: Study) -> Table:
    """The corners of what can be achieved, by all policies and by those within limits; `group` -1 is the truth.

    Rows of one polygon are numbered by `corner`; a row with `set` "optimum, …" is a single point.
    """
    table: Table = {
        "limit": [], "group": [], "set": [], "corner": [], "constraint": [], "reward": [],
    }  # fmt: skip

    def add(i: int, group: int, name: str, points: Float) -> None:
        closed = points if len(points) <= 1 else np.vstack([points, points[:1]])
        for corner, (x, y) in enumerate(closed):
            for key, value in zip(
                table, (i, group, name, corner, *rounded(np.array([x, y]))), strict=True
            ):
                table[key].append(value)

    def add_feasible(group: int, name: str, limits: Float) -> None:
        found = region.feasible(limits)
        if found is None:
            return
        for i in range(study.m):
            add(i, group, name, found.polygons[i])
            add(i, group, f"optimum, {name}", np.array([[found.constraints[i], found.reward]]))

    region = Region(study.problem.cmdp)
    for i in range(study.m):
        add(i, -1, "all", region.achievable(i))
    add_feasible(-1, "true", study.limits(study.episodes))
    for index, line in enumerate(study.lines):
        for name, limits in zip(
            ("pessimistic", "optimistic"), learned_limits(study, line), strict=True
        ):
            add_feasible(index, name, limits)
    return table


def policies(study: Study, store: Store) -> Table:
    """The last policy of the first seed of each line; of large ones the states that are visited most."""
    table: Table = {"group": [], "step": [], "state": [], "action": [], "probability": []}
    for index, line in enumerate(study.lines):
        policy = store.policy(line.group.runs[0])
        if policy is None:
            continue
        H, S, A = policy.shape
        states = (
            np.arange(S) if S <= STATES else np.sort(_visits(study, policy).argsort()[-STATES:])
        )
        if len(table["group"]) + H * len(states) * A > CELLS:
            break
        h, s, a = np.meshgrid(np.arange(H), states, np.arange(A), indexing="ij")
        table["group"] += [index] * h.size
        table["step"] += h.ravel().tolist()
        table["state"] += s.ravel().tolist()
        table["action"] += a.ravel().tolist()
        table["probability"] += [round(float(p), 3) for p in policy[:, states].ravel()]
    return table


def rounded(values: Float) -> list[float | None]:
    """Numbers in six digits, for a file that stays small; what is not finite is left out."""
    return [float(f"{x:.6g}") if math.isfinite(x) else None for x in values.tolist()]


def learned_limits(study: Study, line: Line) -> tuple[Float, Float]:
    """The limits ``[m]`` that a line ends with if it is careful, and if it is not."""
    low, high = (
        np.array([line.columns[f"threshold_{e}_{i}"][:, -1].mean() for i in range(study.m)])
        for e in ("lower", "upper")
    )
    least = np.array([sense == ">=" for sense in study.senses])
    return np.where(least, high, low), np.where(least, low, high)


def _visits(study: Study, policy: Float) -> Float:
    """How often each state is expected in an episode."""
    from ..model.transitions import as_matrices

    P, (H, S, A) = study.problem.cmdp.model.P, policy.shape
    blocks = list(P.dense) if P.dense.size else as_matrices(P, S)
    now = study.problem.cmdp.model.start
    total = np.zeros(S)
    for h in range(H):
        total += now
        now = (now[:, None] * policy[h]).reshape(S * A) @ blocks[h if len(blocks) > 1 else 0]
    return total
