"""Checks of the rows of a log, and the counts of rejected episodes.

An episode is taken whole or not at all: one wrong value rejects all of it, since a learner observes whole episodes.
What is left out is counted by an episode beside it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection
from typing import NamedTuple

import numpy as np

from ..arrays import MARKS, Bool, Float, Int
from ..signals.interface import Interface
from ..units import ROUNDING, Affine
from .log_tables import INDICES, LogTable

Wrong = tuple[Bool, str, str]  # which rows [rows], the column, the reason


OUTSIDE = "lies outside its declared range"
MOST = 2.0**53  # the largest count of a mark


class Rejection(NamedTuple):
    """The rejection of an episode: its first wrong value."""

    episode: int  # its number in the log
    step: float
    column: str  # as the log calls it
    value: str  # as it stands in the log, a text in quotes; empty where nothing does
    reason: str

    def __str__(self) -> str:
        text = " ".join(part for part in (self.column, self.value, self.reason) if part)
        # A step that is no number is the wrong value itself.
        step = f", step {self.step:g}" if math.isfinite(self.step) else ""
        return f"episode {self.episode}{step}: {text}"


class Rows(NamedTuple):
    """The rows of a log by episode, in the order of the log, and by step."""

    table: LogTable
    first: Int  # [episodes]: where each begins
    length: Int  # [episodes]

    @property
    def episode(self) -> Int:
        """The index of each row's episode, ``[rows]``."""
        return np.repeat(np.arange(len(self.first)), self.length)


def sort_rows(table: LogTable) -> Rows:
    """Put every episode's rows together."""
    _, seen, which = np.unique(table.columns["episode"], return_index=True, return_inverse=True)
    rank = np.empty(len(seen), np.int64)
    rank[np.argsort(seen)] = np.arange(len(seen))
    order = np.lexsort((table.columns["step"], rank[which]))
    length = np.bincount(rank[which])
    columns, texts = (
        {name: column[order] for name, column in part.items()}
        for part in (table.columns, table.texts)
    )
    return Rows(table._replace(columns=columns, texts=texts), np.cumsum(length) - length, length)


def threshold_samples(rows: Rows, H: int, m: int) -> Float:
    """Return the threshold samples of every step, ``[rows, m]``; an episode's total is spread evenly over H steps."""
    columns = rows.table.columns
    if rows.table.sampled is None:
        return np.full((len(columns["step"]), m), np.nan)
    samples = np.stack([columns[f"threshold_{i}"] for i in range(m)], axis=1)
    if rows.table.sampled == "threshold_total":
        samples = _of_episodes(rows, samples)[rows.episode] / H
    return samples


def _of_episodes(rows: Rows, samples: Float) -> Float:
    """Return the first value of every episode, ``[episodes]``; NaN where it has none."""
    first = np.full((len(rows.first), samples.shape[1]), np.nan)
    for i, column in enumerate(samples.T):
        there = np.flatnonzero(~np.isnan(column))[::-1]
        first[rows.episode[there], i] = column[
            there
        ]  # of several rows the last one counts: the first
    return first


def find_wrong(
    rows: Rows, samples: Float, f: Interface, own: int, home: Callable[[int], int | None]
) -> list[Wrong]:
    """Return the results of all checks of the rows, those that explain others first.

    `own` counts the log's states; `home` maps a last state to its absorbing one, None: no ending is declared for it.
    """
    columns, count = rows.table.columns, len(rows.table.columns["step"])
    position = np.arange(count) - np.repeat(rows.first, rows.length)
    last = position == np.repeat(rows.length, rows.length) - 1
    step, state, action, after = (columns[name] for name in INDICES)
    given_up = (_marked(rows, "unfinished") > 0)[rows.episode]
    # Where an episode was given up, neither the last reward nor the state after it came.
    unseen = last & given_up & np.isnan(after) & np.isnan(columns["reward"])
    checks: list[Wrong] = [
        (~_whole(step), "step", "is not a whole number"),
        (step >= f.H, "step", f"lies beyond the {f.H} steps of an episode"),
        ((position > 0) & (step == np.roll(step, 1)), "step", "occurs twice"),
        (step != position, "step", "follows a missing step"),
    ]
    named = rows.table.states, rows.table.actions, rows.table.states
    for name, names, most in zip(
        ("state", "action", "next_state"), named, (own, f.A, own), strict=True
    ):
        kind, column = name.removeprefix("next_"), columns[name]
        if name == "next_state":
            column = np.where(unseen, state, column)
        if names is None:
            checks.append((~_whole(column), name, "is not a whole number"))
        else:
            checks.append((np.isnan(column), name, "is missing"))
        outside = (column < 0) | (column >= most)
        checks.append((outside, name, f"is not one of the {most} {kind}s"))
    sound = ~np.logical_or.reduce([mask for mask, _, _ in checks])
    h, s, a = (np.where(sound, column, 0).astype(np.int64) for column in (step, state, action))
    checks.append((sound & ~f.mask[h, s, a], "action", "is not admissible in its state"))
    differs = ~last & np.roll(sound, -1) & (after != np.roll(state, -1))
    checks.append((differs, "next_state", "is not the next step's state"))
    if f.start is not None:
        begins = (position == 0) & (state != f.start)
        checks.append((begins, "state", f"is not the start, {f.start}"))
    checks += _wrong_marks(rows, f.H)
    checks += _wrong_signals(rows, samples, f)
    early = np.flatnonzero(last & sound & ~given_up & (position < f.H - 1))
    undeclared = np.zeros(count, np.bool_)
    undeclared[early] = [home(int(n)) is None for n in after[early]]
    reason = f"ends an episode before its {f.H} steps, and no ending is declared for it"
    checks.append((undeclared, "next_state", reason))
    return checks


def marks_of(rows: Rows, rejected: Collection[int]) -> dict[str, Int]:
    """Return the `MARKS` of episodes, ``[episodes]`` each, to which the `rejected` ones are added.

    Those count for the next episode that is there, at the end for the last one. A mark in some rows is one in all.
    """
    n = len(rows.first)
    marks = {name: _marked(rows, name) for name in MARKS}
    if rows.table.sampled == "threshold_total":
        marks["hint_total"] = np.ones(n, np.int64)
    out = np.array(sorted(rejected), np.int64)
    there = np.setdiff1d(np.arange(n), out)
    if len(there):
        neighbors = there[np.searchsorted(there, out).clip(max=len(there) - 1)]
        np.add.at(marks["rejected"], neighbors, 1 + marks["rejected"][out])
    return marks


def _marked(rows: Rows, name: str) -> Int:
    """Return the largest mark in the rows of each episode, ``[episodes]``; 0 where the log has none."""
    if name not in rows.table.columns:
        return np.zeros(len(rows.first), np.int64)
    column = rows.table.columns[name]
    counts = np.where(_counts(column), column, 0.0).astype(np.int64)
    largest: Int = np.maximum.reduceat(counts, rows.first)
    return largest


def _counts(column: Float) -> Bool:
    counts: Bool = _whole(column) & (column >= 0.0) & (column < MOST)
    return counts


def _wrong_marks(rows: Rows, H: int) -> list[Wrong]:
    columns = rows.table.columns
    checks: list[Wrong] = [
        (~_counts(columns[name]), name, "is not a count") for name in MARKS if name in columns
    ]
    if "unfinished" in columns:
        incomplete = np.logical_or.reduceat(np.isnan(columns["reward"]), rows.first)
        wrong = (_marked(rows, "unfinished") > 0) & ~incomplete & (rows.length >= H)
        checks.append(
            (wrong[rows.episode], "unfinished", "is said of an episode that has every reward")
        )
    return checks


def _wrong_signals(rows: Rows, samples: Float, f: Interface) -> list[Wrong]:
    columns = rows.table.columns
    sampled: Bool = np.logical_not(np.isnan(samples).all(axis=1))
    finished = (_marked(rows, "unfinished") == 0)[rows.episode]
    checks = _wrong_numbers("reward", columns["reward"], f.units.reward, finished)
    for i, terms in enumerate(zip(*f.units.constraints, strict=True)):
        name = f"constraint_{i}"
        checks += _wrong_numbers(name, columns[name], Affine(*terms), finished)
        if rows.table.sampled is not None:
            checks += _wrong_numbers(f"threshold_{i}", samples[:, i], Affine(*terms), sampled)
    if rows.table.sampled == "threshold_total":
        for i in range(f.m):
            name = f"threshold_{i}"
            apart = np.abs(columns[name] / f.H - samples[:, i]) > ROUNDING * np.abs(samples[:, i])
            checks.append((apart, name, "is another one than before in its episode"))
    return checks


def _wrong_numbers(name: str, column: Float, terms: Affine, needed: Bool) -> list[Wrong]:
    inside = terms.inside(column)
    outside = (inside < -ROUNDING) | (inside > 1.0 + ROUNDING)
    return [
        (np.isnan(column) & needed, name, "is missing"),
        (np.isinf(column), name, "is not a finite number"),
        (outside, name, OUTSIDE),
    ]


def _whole(column: Float) -> Bool:
    whole: Bool = np.isfinite(column) & (column == np.floor(column))
    return whole


def first_wrong(rows: Rows, wrong: list[Wrong]) -> dict[int, Rejection]:
    """Return the rejection for the first wrong value of each episode that has one, by the episode's index."""
    table = rows.table
    which = np.full(len(table.columns["step"]), -1)
    for k, (mask, _, _) in reversed(list(enumerate(wrong))):
        which[mask] = k
    there = np.flatnonzero(which >= 0)
    episodes, earliest = np.unique(rows.episode[there], return_index=True)
    rejections = {}
    for episode, row in zip(episodes.tolist(), there[earliest].tolist(), strict=True):
        _, name, reason = wrong[which[row]]
        number, step = int(table.columns["episode"][row]), float(table.columns["step"][row])
        value = table.text(name, row)
        rejections[episode] = Rejection(number, step, table.labels[name], value, reason)
    return rejections
