"""Logged episodes: read and checked.

A log has the columns of `storage.episode_table`; an episode is any whole number, and other columns are ignored.

An episode is taken whole or not at all: one wrong value rejects all of it, since a learner observes whole episodes.
"""

from __future__ import annotations

import math
import warnings
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from .. import files
from ..arrays import Bool, Episode, Float, Int
from ..errors import InvalidFile, InvalidOption, SafespotError
from ..evidence.certificate import UNKNOWN_POLICY
from ..evidence.interface import Interface, make_interface
from ..learners.learner import Learner
from ..model.outcome_tables import Ending, absorbing_states, mask_with_endings
from ..storage import tables
from ..storage.durable import DurableLearner
from ..storage.episode_table import Columns, check_ending, step_columns, write_rows
from ..units import ROUNDING, Affine

INDICES = ("step", "state", "action", "next_state")
ENTRIES = 10**8  # of [H,S,A], at most, where the sizes are guessed from the data
SHOWN = 5  # examples in a report


class Rejection(NamedTuple):
    """Why an episode was left out: its first wrong value."""

    episode: int  # its number in the log
    step: float
    column: str
    value: float  # infinite where it was no number at all
    reason: str

    def __str__(self) -> str:
        return f"episode {self.episode}, step {self.step:g}: {self.column} {self.value:g} {self.reason}"


@dataclass(frozen=True, eq=False)
class Log:
    """Episodes as they were logged; `str` tells what was left out and why.

    Examples:
        >>> import safespot as ss
        >>> past = {
        ...     "episode": [1, 1, 2], "step": [0, 1, 0], "state": [0, 0, 0], "action": [1, 0, 1],
        ...     "reward": [0.2, 0.9, 0.4], "constraint_0": [1.0, 0.5, 0.3], "threshold_0": [0.4, 0.6, 0.5],
        ...     "next_state": [0, 1, 1],
        ... }
        >>> print(ss.read_log(past))
        the log: 1 of 2 episodes can be used.
        1 rejected: next_state ends an episode before its 2 steps, and no ending is declared for it
          episode 2, step 0: next_state 1 ends an episode before its 2 steps, and no ending is declared for
          it

    """

    source: str
    interface: dict[str, Any]  # the arguments of a learner that can observe the episodes
    episodes: tuple[Episode, ...]  # in the order of the log
    rejected: tuple[Rejection, ...]

    @property
    def reasons(self) -> dict[str, int]:
        """How many episodes were rejected for each reason, the most frequent first."""
        return dict(Counter(f"{r.column} {r.reason}" for r in self.rejected).most_common())

    def __str__(self) -> str:
        total = len(self.episodes) + len(self.rejected)
        lines = [f"{self.source}: {len(self.episodes):,} of {total:,} episodes can be used."]
        for reason, count in self.reasons.items():
            lines.append(f"{count:,} rejected: {reason}")
            examples = [r for r in self.rejected if f"{r.column} {r.reason}" == reason]
            lines += [f"  {example}" for example in examples[:SHOWN]]
        return "\n".join(lines)


def read_log(
    source: str | Path | Any,
    states: int | None = None,
    actions: int | None = None,
    horizon: int | None = None,
    constraints: int | None = None,
    start: int | None = None,
    action_mask: ArrayLike | None = None,
    senses: str | Sequence[str] = ">=",
    ranges: Mapping[str, Any] | None = None,
    stationary: bool = False,
    *,
    endings: Ending | Mapping[int, Ending] | None = None,
) -> Log:
    """The episodes of a log that a learner with this interface can observe.

    Args:
        source: a `.csv` or `.parquet` file, a mapping of columns, or a pandas DataFrame.
        states: S; this and the next eight are what ``problem.interface`` and `env_interface` say. Sizes that are
            not given are the largest ones in the data.
        actions: A.
        horizon: H.
        constraints: m.
        start: the state in which every episode starts; None allows any.
        action_mask: ``[S,A]`` or ``[H,S,A]``.
        senses: ``">="``, ``"<="``, or one per constraint.
        ranges: of rewards and constraints, [0,1] by default.
        stationary: whether every step is alike.
        endings: what the steps after an early end pay and count (deviation D7): one `Ending` for all, or one for each
            state in which an episode can end. Their absorbing states are the last of the S. Without it an
            episode of fewer than H steps is rejected.

    Examples:
        >>> import safespot as ss
        >>> problem, noise = ss.problems.make("machine"), ss.streams(seed=0)
        >>> gentle = [[1, 0], [1, 0]]
        >>> ss.write_log("past.csv", [ss.play(problem, gentle, noise, t) for t in range(1, 21)])
        >>> print(ss.read_log("past.csv", **problem.interface))
        past.csv: 20 of 20 episodes can be used.

    """
    name = str(source) if isinstance(source, str | Path) else "the log"
    table = _table(source, name)
    absorbing, _ = absorbing_states(endings, 0, error=InvalidOption)
    given: dict[str, Any] = {
        "states": _size(table, "state", "next_state") + len(absorbing) if states is None else states,
        "actions": _size(table, "action") if actions is None else actions,
        "horizon": _size(table, "step") if horizon is None else horizon,
        "constraints": _constraints(table) if constraints is None else constraints,
        "start": start,
        "action_mask": action_mask,
        "senses": senses,
        "ranges": ranges,
        "stationary": stationary,
    }  # fmt: skip
    if None in (states, actions, horizon):
        _check_sizes(given, name)
    f = make_interface(**given)
    if f.m != _constraints(table):
        raise InvalidFile(
            f"{name} has {_constraints(table)} constraint columns; the interface has {f.m}."
        )
    own = f.S - len(absorbing)
    if absorbing and action_mask is None:
        given["action_mask"] = mask_with_endings(None, own, f.A, len(absorbing))
        f = make_interface(**given)
    _, home = absorbing_states(endings, own)
    padding = [ending.payoffs(f.m, error=InvalidOption) for ending in absorbing]

    table, first, length = _sorted(table)
    wrong = _wrong(table, first, length, f, own, home)
    rejected = _rejections(table, first, length, wrong)
    bad = {rejection.episode for rejection in rejected}
    episodes = []
    for row, steps in zip(first.tolist(), length.tolist(), strict=True):
        if int(table["episode"][row]) not in bad:
            rows = slice(row, row + steps)
            # After H steps only a state can tell whether the episode has ended.
            ended = steps < f.H or isinstance(endings, Mapping)
            after = home(int(table["next_state"][rows][-1])) if ended else None
            episodes.append(_episode(table, rows, f, after, padding, own))
    return Log(name, given, tuple(episodes), tuple(rejected))


def warm_start(
    learner: Learner | DurableLearner,
    source: str | Path | Any,
    *,
    endings: Ending | Mapping[int, Ending] | None = None,
) -> Log:
    """Let a learner observe the past: every episode of a log that it can; the log tells what was left out and why.

    Each counts as one of its T episodes, and as one that somebody else played: it is no evidence about the learner's
    policy. What the learner estimates does not depend on who chose the actions, as long as they were chosen by what the
    states show. Episodes that are left out are warned
    of, and from then on no certificate of this learner says "safe": those that are left need not be like them.

    Examples:
        >>> import safespot as ss
        >>> problem, noise = ss.problems.make("machine"), ss.streams(seed=0)
        >>> gentle = [[1, 0], [1, 0]]
        >>> ss.write_log("past.csv", [ss.play(problem, gentle, noise, t) for t in range(1, 21)])
        >>> learner = ss.Spot(**problem.interface, episodes=1000, slack=1.0)
        >>> print(ss.warm_start(learner, "past.csv"))
        past.csv: 20 of 20 episodes can be used.
        >>> learner.episode
        21

    """
    f = learner.interface
    log = read_log(source, **f.arguments, action_mask=f.mask, endings=endings)
    if left_out := len(log.rejected):
        reasons = "; ".join(f"{count:,} because {why}" for why, count in log.reasons.items())
        warnings.warn(
            f"{left_out:,} of {left_out + len(log.episodes):,} episodes were left out ({reasons}). What is left need "
            "not be like them, so nothing can be certified from this learner's data any more.",
            stacklevel=2,
        )
        if isinstance(learner, DurableLearner):
            learner.note_rejected(left_out)
        else:
            f.doubts.rejected += left_out
    for episode in log.episodes:
        learner.observe(episode, played=UNKNOWN_POLICY)
    return log


def write_log(path: str | Path, episodes: Iterable[Episode]) -> None:
    """Write episodes as a log that `read_log` reads, numbered from 0; whole or not at all.

    Examples:
        >>> import safespot as ss
        >>> from pathlib import Path
        >>> problem, noise = ss.problems.make("bandit"), ss.streams(seed=0)
        >>> ss.write_log("past.csv", [ss.play(problem, [[0, 1]], noise, episode=1)])
        >>> print(Path("past.csv").read_text())
        episode,step,state,action,reward,constraint_0,threshold_0,next_state
        0,0,0,1,1.0,1.0,1.0,0

    """
    write_rows(files.as_path(path), [columns(episodes)])


def columns(episodes: Iterable[Episode]) -> Columns:
    """Episodes as the columns of a log."""
    played = list(episodes)
    if len({e.constraints.shape[1] for e in played}) != 1:
        raise InvalidOption(
            "cannot write a log: expected at least one episode, all with the same number of constraints."
        )
    lengths = [len(e.actions) for e in played]
    return step_columns(
        episode=np.repeat(np.arange(len(played)), lengths),
        step=np.concatenate([np.arange(n) for n in lengths]),
        state=np.concatenate([e.states[:-1] for e in played]),
        action=np.concatenate([e.actions for e in played]),
        reward=np.concatenate([e.rewards for e in played]),
        constraints=np.concatenate([e.constraints for e in played]),
        thresholds=np.concatenate([e.thresholds for e in played]),
        next_state=np.concatenate([e.states[1:] for e in played]),
    )


# Reading


def _table(source: Any, name: str) -> Columns:
    """The columns of a log as float64 (the episodes' numbers as int64): NaN is missing, infinity not a number."""
    import duckdb

    with tables.connect() as database:
        try:
            relation = "log"
            if isinstance(source, str | Path):
                relation = _relation(files.as_path(source))
            elif isinstance(source, Mapping):
                database.register("log", {str(k): np.asarray(v) for k, v in source.items()})
            else:
                database.register("log", source)
            described = database.execute(f"describe select * from {relation}").fetchall()
            named = _named([str(row[0]) for row in described], name)
            if isinstance(source, str | Path) and Path(source).suffix == ".parquet":
                tables.check_rows(database, [Path(source)], len(named))
            chosen = ", ".join(f"{_cast(column)} as {column}" for column in named)
            found = database.execute(f"select {chosen} from {relation}").fetchnumpy()
        except SafespotError:
            raise
        except OSError as problem:
            raise files.failure(f"cannot read {name}", problem) from None
        # Ragged arrays are a ValueError, and what is no table at all whatever DuckDB makes of it.
        except (duckdb.Error, ValueError, TypeError, RuntimeError) as problem:
            raise InvalidFile(f"cannot read {name}: {str(problem).splitlines()[0]}") from None
    unnumbered = np.ma.getmaskarray(found["episode"])
    if unnumbered.size == 0:
        raise InvalidFile(f"{name} has no rows.")
    if unnumbered.any():
        row = unnumbered.argmax()
        raise InvalidFile(f"{name}: row {row} (from 0) has an episode that is not a whole number.")
    return {column: np.asarray(found[column]) for column in named}


def _relation(path: Path) -> str:
    check_ending(path)
    if not path.is_file():
        raise InvalidFile(f"file not found: {path}.")
    return tables.csv(path) if path.suffix == ".csv" else tables.parquet([path])


def _named(there: list[str], name: str) -> list[str]:
    """The columns to read; constraints and thresholds are counted."""
    m = 0
    while f"constraint_{m}" in there:
        m += 1
    needed = [
        "episode", *INDICES, "reward",
        *(f"constraint_{i}" for i in range(max(m, 1))), *(f"threshold_{i}" for i in range(m)),
    ]  # fmt: skip
    missing = [column for column in needed if column not in there]
    if missing:
        raise InvalidFile(
            f"{name} lacks the columns {', '.join(missing)}; it has {', '.join(there)}. A log without threshold "
            "samples has their columns all the same, empty."
        )
    return needed


def _cast(column: str) -> str:
    """A column's numbers in SQL: text that is not a number becomes infinite, and NULL as the number of an episode."""
    if column == "episode":
        number = "try_cast(episode as double)"  # whole, or else the cast to a bigint would round it
        return f"case when {number} = floor({number}) then try_cast(episode as bigint) end"
    return f"case when {column} is null then 'nan'::double else coalesce(try_cast({column} as double), 'infinity') end"


def _constraints(table: Columns) -> int:
    return sum(name.startswith("constraint_") for name in table)


def _check_sizes(given: dict[str, Any], name: str) -> None:
    """One wild number in a log must not ask for all memory."""
    sizes = {key: given[key] for key in ("states", "actions", "horizon")}
    if all(isinstance(n, int) for n in sizes.values()) and math.prod(sizes.values()) > ENTRIES:
        raise InvalidFile(
            f"{name} needs tables of {sizes}, if its largest numbers are to be believed. Give states=, actions= "
            "and horizon=: episodes with larger numbers are then left out."
        )


def _size(table: Columns, *names: str) -> int:
    """One more than the largest whole number in some columns."""
    values = np.concatenate([table[name] for name in names])
    whole = values[np.isfinite(values) & (values == np.floor(values))]
    return int(max(whole.max(initial=0.0), 0.0)) + 1


def _sorted(table: Columns) -> tuple[Columns, Int, Int]:
    """The rows by episode, in the order of the log, and by step; where each episode begins, and its length."""
    _, seen, which = np.unique(table["episode"], return_index=True, return_inverse=True)
    rank = np.empty(len(seen), np.int64)
    rank[np.argsort(seen)] = np.arange(len(seen))
    order = np.lexsort((table["step"], rank[which]))
    length = np.bincount(rank[which])
    return (
        {name: column[order] for name, column in table.items()},
        np.cumsum(length) - length,
        length,
    )


# Checking


def _wrong(
    table: Columns, first: Int, length: Int, f: Interface, own: int, home: Any
) -> list[tuple[Bool, str, str]]:
    """What can be wrong with a row: (which rows ``[rows]``, the column, the reason), what matters most first."""
    rows = len(table["step"])
    position = np.arange(rows) - np.repeat(first, length)
    last = position == np.repeat(length, length) - 1
    step, state, action, after = (table[name] for name in INDICES)
    found = [
        (~_whole(step), "step", "is not a whole number"),
        (step >= f.H, "step", f"lies beyond the {f.H} steps of an episode"),
        ((position > 0) & (step == np.roll(step, 1)), "step", "occurs twice"),
        (step != position, "step", "follows a missing step"),
    ]
    for name, column, count in (
        ("state", state, own),
        ("action", action, f.A),
        ("next_state", after, own),
    ):
        kind = name.removeprefix("next_")
        found.append((~_whole(column), name, "is not a whole number"))
        found.append(((column < 0) | (column >= count), name, f"is not one of the {count} {kind}s"))
    sound = ~np.logical_or.reduce([mask for mask, _, _ in found])
    h, s, a = (np.where(sound, column, 0).astype(np.int64) for column in (step, state, action))
    found.append((sound & ~f.mask[h, s, a], "action", "is not admissible in its state"))
    found.append(
        (
            ~last & np.roll(sound, -1) & (after != np.roll(state, -1)),
            "next_state",
            "is not the next step's state",
        )
    )
    if f.start is not None:
        found.append(
            ((position == 0) & (state != f.start), "state", f"is not the start, {f.start}")
        )
    found += _wrong_signals(table, f)
    early = np.flatnonzero(last & sound & (position < f.H - 1))
    undeclared = np.zeros(rows, np.bool_)
    undeclared[early] = [home(int(n)) is None for n in after[early]]
    reason = f"ends an episode before its {f.H} steps, and no ending is declared for it"
    found.append((undeclared, "next_state", reason))
    return found


def _wrong_signals(table: Columns, f: Interface) -> list[tuple[Bool, str, str]]:
    sampled = ~np.isnan([table[f"threshold_{i}"] for i in range(f.m)]).all(axis=0)
    ranges = [("reward", f.units.reward)]
    for i, terms in enumerate(zip(*f.units.constraints, strict=True)):
        ranges += [(f"{kind}_{i}", Affine(*terms)) for kind in ("constraint", "threshold")]
    found = []
    for name, terms in ranges:
        column, needed = table[name], sampled if name.startswith("threshold") else np.True_
        inside = terms.inside(column)
        found += [
            (np.isnan(column) & needed, name, "is missing"),
            (np.isinf(column), name, "is not a finite number"),
            (
                (inside < -ROUNDING) | (inside > 1.0 + ROUNDING),
                name,
                "lies outside its declared range",
            ),
        ]
    return found


def _whole(column: Float) -> Bool:
    whole: Bool = np.isfinite(column) & (column == np.floor(column))
    return whole


def _rejections(
    table: Columns, first: Int, length: Int, wrong: list[tuple[Bool, str, str]]
) -> list[Rejection]:
    """The first wrong value of each episode that has one."""
    which = np.full(len(table["step"]), -1)
    for k, (mask, _, _) in reversed(list(enumerate(wrong))):
        which[mask] = k
    rows = np.flatnonzero(which >= 0)
    episode = np.repeat(np.arange(len(first)), length)[rows]
    _, earliest = np.unique(episode, return_index=True)
    found = []
    for row in rows[earliest]:
        _, column, reason = wrong[which[row]]
        step, value = float(table["step"][row]), float(table[column][row])
        found.append(Rejection(int(table["episode"][row]), step, column, value, reason))
    return found


def _episode(
    table: Columns, rows: slice, f: Interface, after: int | None, padding: list[Float], own: int
) -> Episode:
    """The rows of a valid episode; `after` is the absorbing state in which it goes on."""
    states = np.append(table["state"][rows], table["next_state"][rows.stop - 1]).astype(np.int64)
    left = f.H - len(states) + 1
    if after is not None:
        states[-1] = after
    signals = np.stack(
        [table[name][rows] for name in ("reward", *(f"constraint_{i}" for i in range(f.m)))], axis=1
    )
    samples = np.stack([table[f"threshold_{i}"][rows] for i in range(f.m)], axis=1)
    if left:
        signals = np.r_[signals, np.tile(padding[states[-1] - own], (left, 1))]
        samples = np.pad(samples, ((0, left), (0, 0)), constant_values=np.nan)
    return Episode(
        np.pad(states, (0, left), mode="edge"),
        np.pad(table["action"][rows].astype(np.int64), (0, left)),
        signals[:, 0],
        signals[:, 1:],
        samples,
    )
