"""Logged episodes: read and checked.

A log has the columns of `storage.episode_table`, or says which of its own they are (`log_tables`); an episode is any
whole number, and other columns are ignored.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from .. import files
from ..arrays import MARKS, Episode, Float, as_floats, frozen
from ..display import Displayed
from ..errors import InvalidOption, unknown, warn
from ..evidence.certificate import UNKNOWN_POLICY
from ..learners.learner import Learner
from ..learners.options import check_hints
from ..model.outcome_tables import Ending, absorbing_states, mask_with_endings
from ..signals.doubts import Doubts
from ..signals.interface import ARGUMENTS, Interface, make_interface
from ..signals.limits import Limit, Limits, listed
from ..storage.durable import DurableLearner
from ..storage.episode_table import Columns, step_columns, write_rows
from ..units import spread_thresholds
from .log_checks import (
    OUTSIDE,
    Rejection,
    Rows,
    find_wrong,
    first_wrong,
    marks_of,
    sort_rows,
    threshold_samples,
)
from .log_interface import (
    as_names,
    check_costs,
    complete,
    numbered_endings,
)
from .log_tables import PROPENSITY, LogTable, Names, read_table

SHOWN = 5  # examples in a report


@dataclass(frozen=True, eq=False, repr=False)
class Log(Displayed):
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
    thresholds: Float | None = None  # [m] or [m,H]: the limits, where they are known
    propensities: Float | None = (
        None  # [episodes, H]: of the actions taken, where the log has them; NaN: missing
    )
    state_names: Names | None = None  # [S]: where the log has texts for them; so of the next
    action_names: Names | None = None
    constraint_names: Names = ()  # [m]: what stands behind "constraint_" or "cost_"

    @property
    def doubts(self) -> Doubts:
        """Doubts about its episodes, from here and from the files that they were in before."""
        return Doubts.of(self.episodes)

    @property
    def reasons(self) -> dict[str, int]:
        """The number of rejected episodes by reason, the most frequent first."""
        return dict(Counter(f"{r.column} {r.reason}" for r in self.rejected).most_common())

    def _facts(self) -> dict[str, Any]:
        return {
            "source": self.source, "episodes": len(self.episodes), "rejected": len(self.rejected),
        }  # fmt: skip

    def __str__(self) -> str:
        total = len(self.episodes) + len(self.rejected)
        lines = [f"{self.source}: {len(self.episodes):,} of {total:,} episodes can be used."]
        for reason, count in self.reasons.items():
            lines.append(f"{count:,} rejected: {reason}")
            examples = [r for r in self.rejected if f"{r.column} {r.reason}" == reason]
            lines += [f"  {example}" for example in examples[:SHOWN]]
        if any(r.reason == OUTSIDE for r in self.rejected):
            lines.append(self._declared())
        before = self.doubts
        before.rejected = max(0, before.rejected - len(self.rejected))
        if doubts := before.sentences(model=True):
            lines.append(f"Their file says more: {'; '.join(doubts)}.")
        return "\n".join(lines)

    def _declared(self) -> str:
        """Return the sentence on the ranges of a step's signals, and on how to declare others."""
        f = make_interface(**self.interface)
        reward, *each = (
            f"{low:g} to {high:g}"
            for low, high in (f.units.reward_range, *f.units.constraint_ranges)
        )
        return (
            f"The declared ranges of a step are: reward {reward}, constraints and thresholds {', '.join(each)}. Where "
            "they are others, declare them: ranges={reward=[low, high], constraints=[low, high]}."
        )


def read_log(
    source: str | Path | Any,
    *,
    columns: Mapping[str, str] | None = None,
    limits: Limits = None,
    endings: Ending | Mapping[Any, Ending] | None = None,
    **interface: Any,
) -> Log:
    """Return the episodes of a log that a learner with this interface can observe.

    Args:
        source: a `.csv` or `.parquet` file, a mapping of columns, or a pandas DataFrame.
        columns: what the log's columns are, by their names there: ``{"patient": "episode", "dose": "cost_dose"}``.
        limits: what is declared of each constraint: a `Limit` (one serves all), or its name. Senses are by default
            ``"<="`` for columns ``cost_…``, else ``">="``. Columns of thresholds may be absent where the limits have
            a threshold.
        endings: what the steps after an early end pay and count (deviation D7): one `Ending` for all, or one for each
            state in which an episode can end. Their absorbing states are the last of the S. Without it an
            episode of fewer than H steps is rejected.
        **interface: what ``problem.interface`` and `env_interface` say. Sizes that are not given are the largest ones
            in the data. States and actions may be given by their names, in the order of their numbers; by default
            their names are the log's own texts. Without `start` an episode may start in any state.

    Examples:
        >>> import safespot as ss
        >>> problem, noise = ss.problems.make("machine"), ss.streams(seed=0)
        >>> gentle = [[1, 0], [1, 0]]
        >>> ss.write_log("past.csv", [ss.play(problem, gentle, noise, t) for t in range(1, 21)])
        >>> print(ss.read_log("past.csv", **problem.interface))
        past.csv: 20 of 20 episodes can be used.

    """
    name = str(source) if isinstance(source, str | Path) else "the log"
    for key in interface:
        if key not in ARGUMENTS:
            raise InvalidOption(
                f"read_log: {unknown('option', key, ('columns', 'limits', 'endings', *ARGUMENTS))}"
            )
    if not isinstance(limits, Limit | str | None):
        limits = listed(limits)
    known = interface.get("thresholds") is not None
    table = read_table(
        source, name, columns,
        as_names("states", interface.get("states")), as_names("actions", interface.get("actions")),
        limits_known=known or any(one.threshold is not None for one in listed(limits)),
    )  # fmt: skip
    ends = numbered_endings(endings, table.states)
    extra = len(absorbing_states(ends, 0, error=InvalidOption)[0])
    arguments = complete(interface, limits, table, extra, name)
    f = make_interface(**arguments)
    if extra and arguments["action_mask"] is None:
        arguments["action_mask"] = mask_with_endings(None, f.S - extra, f.A, extra)
        f = make_interface(**arguments)
    arguments |= f.names.arguments
    check_costs(table, f)
    thresholds = arguments.get("thresholds")
    if thresholds is not None:
        thresholds = frozen(as_floats("thresholds", thresholds, error=InvalidOption))
        spread_thresholds(thresholds, f.H, f.units, error=InvalidOption)
    played, propensities, rejected = _episodes(table, f, ends)
    return Log(
        name, arguments, played, rejected, thresholds, propensities, table.states, table.actions,
        table.constraints,
    )  # fmt: skip


def warm_start(
    learner: Learner | DurableLearner,
    source: str | Path | Any,
    *,
    endings: Ending | Mapping[int, Ending] | None = None,
) -> Log:
    """Let a learner observe the past: every episode of a log that it can; the log tells what was left out and why.

    Each counts as one of its T episodes, and as one that somebody else played: it is no evidence about the learner's
    policy. What the learner estimates does not depend on who chose the actions, as long as they were chosen by what the
    states show. Doubts about the log (episodes that were left out, here or before; signals that were cut off to
    their range) are warned of, and from then on no certificate of this learner says "safe".

    Examples:
        >>> import safespot as ss
        >>> problem, noise = ss.problems.make("machine"), ss.streams(seed=0)
        >>> gentle = [[1, 0], [1, 0]]
        >>> ss.write_log("past.csv", [ss.play(problem, gentle, noise, t) for t in range(1, 21)])
        >>> learner = ss.Spot(**problem.interface, episodes=1000, slack=1.0)
        >>> print(ss.logs.warm_start(learner, "past.csv"))
        past.csv: 20 of 20 episodes can be used.
        >>> learner.episode
        21

    """
    f = learner.interface
    log = read_log(source, **f.arguments, action_mask=f.mask, endings=endings)
    check_hints(log.episodes, learner.learner.options)
    if doubts := log.doubts.sentences():
        if log.rejected:
            reasons = "; ".join(f"{count:,} because {why}" for why, count in log.reasons.items())
            total = len(log.episodes) + len(log.rejected)
            left_out = f"{len(log.rejected):,} of {total:,} episodes were left out ({reasons})"
            doubts = (left_out, *doubts)
        warn(f"{'; '.join(doubts)}. So nothing can be certified from this learner's data any more.")
    for episode in log.episodes:
        learner.observe(episode, played=UNKNOWN_POLICY)
    return log


def write_log(path: str | Path, episodes: Iterable[Episode] | Log) -> None:
    """Write episodes as a log that `read_log` reads, numbered from 0; whole or not at all.

    Marks of doubtful episodes are written too, and the propensities of a `Log`.

    Examples:
        >>> import safespot as ss
        >>> from pathlib import Path
        >>> problem, noise = ss.problems.make("bandit"), ss.streams(seed=0)
        >>> ss.write_log("past.csv", [ss.play(problem, [[0, 1]], noise, episode=1)])
        >>> print(Path("past.csv").read_text())
        episode,step,state,action,reward,constraint_0,threshold_0,next_state,clipped,rejected,unfinished,hint_total
        0,0,0,1,1.0,1.0,1.0,0,0,0,0,0

    """
    write_rows(files.as_path(path), [columns(episodes)])


def columns(episodes: Iterable[Episode] | Log) -> Columns:
    """Return episodes as the columns of a log."""
    if isinstance(episodes, Log):
        made = columns(episodes.episodes)
        if episodes.propensities is not None:
            made[PROPENSITY] = episodes.propensities.ravel()
        return made
    played = list(episodes) if isinstance(episodes, Iterable) else [episodes]
    for wrong in (each for each in played if not isinstance(each, Episode)):
        raise InvalidOption(f"cannot write a log: expected episodes, got {type(wrong).__name__}.")
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
        marks={name: np.repeat([getattr(e, name) for e in played], lengths) for name in MARKS},
    )


def _episodes(
    table: LogTable, f: Interface, endings: Ending | Mapping[int, Ending] | None
) -> tuple[tuple[Episode, ...], Float | None, tuple[Rejection, ...]]:
    """Return the usable episodes, the propensities of their actions ``[episodes, H]``, and the rejections."""
    absorbing, _ = absorbing_states(endings, 0)
    own = f.S - len(absorbing)
    _, home = absorbing_states(endings, own)
    padding = [ending.payoffs(f.m, error=InvalidOption) for ending in absorbing]
    rows = sort_rows(table)
    samples = threshold_samples(rows, f.H, f.m)
    rejected = first_wrong(rows, find_wrong(rows, samples, f, own, home))
    marks = marks_of(rows, rejected)
    episodes, propensities = [], []
    for k, (row, steps) in enumerate(zip(rows.first.tolist(), rows.length.tolist(), strict=True)):
        if k not in rejected:
            part = slice(row, row + steps)
            # After H steps only a state can tell whether the episode has ended.
            flags = {name: int(column[k]) for name, column in marks.items()}
            ended = not flags["unfinished"] and (steps < f.H or isinstance(endings, Mapping))
            after = home(int(rows.table.columns["next_state"][part][-1])) if ended else None
            episodes.append(_episode(rows, samples, part, f, after, padding, own, flags))
            if PROPENSITY in table.columns:
                # After its end an episode has no choice.
                taken = rows.table.columns[PROPENSITY][part]
                propensities.append(np.pad(taken, (0, f.H - steps), constant_values=1.0))
    stacked = np.reshape(propensities, (-1, f.H)) if PROPENSITY in table.columns else None
    return tuple(episodes), None if stacked is None else frozen(stacked), tuple(rejected.values())


def _episode(
    rows: Rows,
    samples: Float,
    part: slice,
    f: Interface,
    after: int | None,
    padding: list[Float],
    own: int,
    marks: dict[str, Any],
) -> Episode:
    """Return the episode of valid rows; `after` is the absorbing state in which it goes on."""
    columns = rows.table.columns
    begun, final = columns["state"][part], columns["next_state"][part.stop - 1]
    states = np.append(begun, begun[-1] if np.isnan(final) else final).astype(np.int64)
    actions = columns["action"][part].astype(np.int64)
    left = f.H - len(actions)
    if after is not None:
        states[-1] = after
    signals = np.stack(
        [columns[name][part] for name in ("reward", *(f"constraint_{i}" for i in range(f.m)))],
        axis=1,
    )
    sampled = samples[part]
    if left and marks["unfinished"]:  # nothing is known of the steps that are not there
        signals = np.pad(signals, ((0, left), (0, 0)), constant_values=np.nan)
        sampled = np.pad(sampled, ((0, left), (0, 0)), constant_values=np.nan)
    elif left:
        signals = np.r_[signals, np.tile(padding[states[-1] - own], (left, 1))]
        # One sample for the whole episode counts in the steps after its end too.
        whole = rows.table.sampled == "threshold_total"
        after_end = sampled[-1:] if whole else np.full((1, f.m), np.nan)
        sampled = np.r_[sampled, np.tile(after_end, (left, 1))]
    return Episode(
        np.pad(states, (0, left), mode="edge"),
        np.append(actions, f.mask[len(actions) :, states[-1]].argmax(axis=1)),
        signals[:, 0],
        signals[:, 1:],
        sampled,
        **marks,
    )
