"""What a store holds, in the shape in which it is shown.

A `Study` is one problem, observed in one way for so many episodes; its `Line`s are the groups of runs that differ
only in their seed. Every array of a line has a row per seed and a column per shown episode.
"""

from __future__ import annotations

import functools
import json
import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ..arrays import Float, Int
from ..data.logs import Log
from ..experiments import Store
from ..experiments.settings import Setting, read_setting
from ..experiments.spec import setting_of
from ..experiments.store import answering, by_run
from ..experiments.summary import Estimate, Group, Summary, estimate, summarize
from ..model.problem import Problem
from ..names import Names

POINTS = 160  # episodes that a curve is drawn through
PART = 0.25  # of the episodes: the first are "early", the last "late"
KEPT = 1e-3  # of its range: a limit that is broken by less counts as kept
LATE = 256  # late episodes whose limits stand for all, where limits move
RESAMPLES = 400
STANCES = {"pessimistic": 0.0, "optimistic": 1.0}
STANCED = ("spot", "spot-epochs")  # learners whose stance chooses between caution and reward


class Band(NamedTuple):
    """A mean over seeds and the 95 % bootstrap interval of that mean; NaN where there is one seed."""

    mean: Float
    low: Float
    high: Float


@dataclass(frozen=True, eq=False)
class Line:
    """One group of runs."""

    name: str  # what tells it from the other lines of its study
    summary: Summary
    abouts: tuple[dict[str, Any], ...]  # one per seed
    xi: float | None  # its stance, where its learner has one
    family: str  # all else that its learner is
    episodes: Int  # [n]
    columns: dict[str, Float]  # column of the store -> [seeds, n]

    @property
    def group(self) -> Group:
        """Its runs."""
        return self.summary.group

    def band(self, column: str) -> Band:
        """A column as it is drawn."""
        return band(self.columns[column])

    def rate(self, column: str, late: bool) -> Estimate:
        """How much a cumulative column grows an episode, early or late."""
        return estimate(self.growth(column, late).tolist())

    def growth(self, column: str, late: bool) -> Float:
        """The same of each seed, ``[seeds]``: a sum over all episodes, also those between the recorded ones."""
        last = float(self.episodes[-1])
        ends = np.array([(1.0 - PART) * last, last] if late else [0.0, max(1.0, PART * last)])
        grown = [
            np.diff(np.interp(ends, np.r_[0, self.episodes], np.r_[0.0, row]))[0]
            for row in self.columns[column]
        ]
        rates: Float = np.array(grown) / (ends[1] - ends[0])
        return rates

    def late(self, column: str) -> Estimate:
        """The average of a column over the late episodes that were recorded; few may stand for many."""
        last = float(self.episodes[-1])
        when = np.linspace((1.0 - PART) * last, last, 64)
        return estimate(
            [float(np.interp(when, self.episodes, row).mean()) for row in self.columns[column]]
        )


@dataclass(frozen=True, eq=False)
class Study:
    """A problem, how long it was learned, and the lines of it."""

    name: str
    setting: Setting
    episodes: int
    lines: tuple[Line, ...]

    @property
    def problem(self) -> Problem:
        """The truth."""
        return self.setting.problem

    @property
    def log(self) -> Log | None:
        """The log whose empirical model is the "truth"; None: it is none."""
        return self.setting.log

    @property
    def names(self) -> Names:
        """What states, actions and limits are called."""
        return self.problem.names

    def called(self, i: int) -> str:
        """What constraint i is called; where nobody has said, by its number, if there are several."""
        if self.names.limits is not None:
            return self.names.limits[i]
        return "constraint" if self.m == 1 else f"constraint {i + 1}"

    def quantity(self, i: int) -> str:
        """The same with its unit, as an axis has it."""
        unit = self.names.unit(i)
        return f"{self.called(i)} ({unit})" if unit else self.called(i)

    @property
    def m(self) -> int:
        """How many limits there are."""
        return self.problem.cmdp.m

    @property
    def senses(self) -> tuple[str, ...]:
        """Of each limit."""
        return self.problem.cmdp.units.senses

    @property
    def stances(self) -> list[int]:
        """The lines between which a stance chooses: those of the learner that has the most of them."""
        families: dict[str, list[int]] = defaultdict(list)
        for k, line in enumerate(self.lines):
            if line.xi is not None:
                families[line.family].append(k)
        return max(families.values(), key=len, default=[])

    def limits(self, episode: int) -> Float:
        """The limits ``[m]`` of an episode."""
        cmdp = self.problem.cmdp
        inside = self.problem.alpha(episode).sum(axis=1)
        limits: Float = cmdp.units.constraints.total_outside(inside, cmdp.H)
        return limits

    def optimum(self, episode: int) -> float:
        """The best reward within the limits of an episode; NaN where none is."""
        cmdp = self.problem.cmdp
        inside = self.setting.optima(np.array([episode]))[0]
        return float(cmdp.units.reward.total_outside(inside, cmdp.H))

    @property
    def drifts(self) -> bool:
        """Whether the limits move."""
        return self.problem.signals.drift is not None

    @property
    def metered(self) -> bool:
        """Whether every run has the bounds of a safety meter; runs of older versions have none.

        Episodes that were simulated in the model of a log prove nothing.
        """
        return self.log is None and all(
            "evidence_violation_lower_0" in line.columns for line in self.lines
        )

    @functools.cached_property
    def _late(self) -> tuple[Float, float]:
        """The limits ``[m]`` and the optimum of the late episodes, on average."""
        first = (1.0 - PART) * self.episodes
        when = np.linspace(first, self.episodes, LATE) if self.drifts else np.array([first])
        episodes = np.unique(when.round().clip(1).astype(np.int64))
        limits = np.mean([self.limits(int(t)) for t in episodes], axis=0)
        return limits, float(np.mean([self.optimum(int(t)) for t in episodes]))

    def late_constraint(self, line: Line, i: int) -> Estimate:
        """Constraint i over all late episodes, from the sums that say whether its limit is kept."""
        short = line.growth(f"violation_{i}", late=True)
        limit = self._late[0][i]
        return estimate((limit + short if self.senses[i] == "<=" else limit - short).tolist())

    def late_reward(self, line: Line) -> Estimate:
        """The reward over all late episodes; where there is no optimum, and so no regret, over the recorded ones."""
        best = self._late[1]
        if math.isnan(best):
            return line.late("value")
        return estimate((best - line.growth("regret", late=True)).tolist())

    def shortfall(self, line: Line, i: int) -> Estimate:
        """By how much a line is short of limit i in a late episode; negative: how much room it leaves."""
        return line.rate(f"violation_{i}", late=True)

    def kept(self, line: Line) -> list[bool]:
        """Which limits it keeps, on average over its late episodes."""
        return [self.shortfall(line, i).mean <= self.hair(i) for i in range(self.m)]

    def hair(self, i: int) -> float:
        """By how much limit i may be broken and count as kept."""
        low, high = self.problem.cmdp.units.constraint_ranges[i]
        return KEPT * self.problem.cmdp.H * (high - low)


def read(store: Store, points: int = POINTS) -> list[Study]:
    """The studies of a store."""
    summaries = summarize(store)
    rows = _rows(store, points)
    found: dict[str, list[Summary]] = defaultdict(list)
    for summary in summaries:
        about = summary.group.about
        key = {name: about[name] for name in ("problem", "problem_options", "signals", "episodes")}
        found[json.dumps(key, sort_keys=True)].append(summary)
    titles = _titles([json.loads(key) for key in found])
    return [
        _study(store, title, members, rows)
        for title, members in zip(titles, found.values(), strict=True)
    ]


def band(values: Float) -> Band:
    """The mean over the seeds ``[seeds, n]`` and its percentile bootstrap interval, the same every time."""
    seeds, n = values.shape
    mean: Float = values.mean(axis=0)
    if seeds == 1:
        return Band(mean, *np.full((2, n), np.nan))
    chosen = np.random.default_rng(0).integers(0, seeds, (RESAMPLES, seeds))
    means = np.stack([values[rows].mean(axis=0) for rows in chosen])
    return Band(mean, *np.quantile(means, [0.025, 0.975], axis=0))


def thin(episodes: Int, points: int) -> Int:
    """At most about so many of the episodes: half of them evenly, half evenly in their logarithm."""
    if len(episodes) <= points:
        return episodes
    last = float(episodes[-1])
    wanted = np.r_[np.linspace(1.0, last, points // 2), np.geomspace(1.0, last, points // 2)]
    rows = np.searchsorted(episodes, wanted.round())  # none is beyond the last
    kept: Int = episodes[np.unique(np.r_[0, rows, len(episodes) - 1])]
    return kept


def _rows(store: Store, points: int) -> dict[str, dict[str, Float]]:
    """The shown rows of every run. Runs that were recorded alike are asked for together."""
    grids: dict[tuple[int, str], list[int]] = defaultdict(list)
    with answering():
        recorded = store.query(
            "select distinct episodes, record::varchar, episode from results join runs using (run) order by all"
        ).fetchall()
    for episodes, record, episode in recorded:
        grids[episodes, record].append(episode)
    found: dict[str, dict[str, Float]] = {}
    for (episodes, record), grid in grids.items():
        shown = thin(np.array(grid), points)
        with answering():
            table = store.query(
                "select results.* from results join runs using (run) where episodes = ? and "
                "record::varchar = ? and episode in (select unnest(?)) order by results.run, episode",
                [episodes, record, shown.tolist()],
            ).fetchnumpy()
        found |= by_run(table)
    return found


def _study(
    store: Store, name: str, members: list[Summary], rows: dict[str, dict[str, Float]]
) -> Study:
    abouts = [tuple(store.about(run) for run in s.group.runs) for s in members]
    names = _names(
        [{**about[0], **s.group.about} for about, s in zip(abouts, members, strict=True)]
    )
    lines = [
        _line(label, summary, about, rows)
        for label, summary, about in zip(names, members, abouts, strict=True)
    ]
    lines.sort(key=_place)
    first = abouts[0][0]
    setting = read_setting(setting_of(first))
    return Study(name, setting, first["episodes"], tuple(lines))


def _line(
    name: str, summary: Summary, abouts: tuple[dict[str, Any], ...], rows: dict[str, Any]
) -> Line:
    members = [rows[run] for run in summary.group.runs]
    about = summary.group.about
    rest = {k: v for k, v in about["learner_options"].items() if k != "stance"}
    return Line(
        name=name,
        summary=summary,
        abouts=abouts,
        xi=_xi(about),
        family=json.dumps([about["learner"], about["anytime"], rest], sort_keys=True),
        episodes=members[0]["episode"].astype(np.int64),
        columns={k: np.stack([one[k] for one in members]) for k in members[0] if k != "episode"},
    )


def _place(line: Line) -> tuple[Any, ...]:
    """Learners in epochs first, those that learn nothing last; of one learner from the careful to the bold."""
    learner = line.group.about["learner"]
    rank = {"spot-epochs": 0, "fixed": 2, "uniform": 2}.get(learner, 1)
    return rank, line.xi is None, line.family, line.xi or 0.0, line.name


def _xi(about: dict[str, Any]) -> float | None:
    """Between caution (0) and reward (1). Learners are pessimistic unless told otherwise."""
    if about["learner"] not in STANCED or about["learner_options"].get("thresholds") is not None:
        return None
    stance = about["learner_options"].get("stance", "pessimistic")
    return STANCES[stance] if isinstance(stance, str) else float(stance)


def _names(abouts: Sequence[dict[str, Any]]) -> list[str]:
    """For each group of a study, what tells it from the others of its learner, as people say it.

    A learner's name stands before that where several learners have several groups, and alone where nothing else does.
    A label always stands there, and what it names is told from nothing but what has the same one.
    """
    flats = [
        {"learner": a["learner"], "record": a["record"], "track": a["track"]}
        | ({"anytime": True} if a["anytime"] else {})
        | a["learner_options"]
        for a in abouts
    ]  # fmt: skip
    groups: dict[str, list[dict[str, Any]]] = defaultdict(list)
    called = [a.get("label") or a["learner"] for a in abouts]
    for name, flat in zip(called, flats, strict=True):
        groups[name].append(flat)
    named = sum(len(members) > 1 for members in groups.values()) > 1
    names = []
    for name, flat, about in zip(called, flats, abouts, strict=True):
        differing = [k for k in _differing(groups[name]) if k in flat]
        said = [_said(k, flat[k]) for k in differing]
        alone = said and not named and not about.get("label")
        names.append(", ".join(said if alone else [name, *said]))
    return names


def _titles(settings: Sequence[dict[str, Any]]) -> list[str]:
    """For each study its problem, and all in which it differs from some other."""
    flats = [
        {"problem": problem_title(s), "episodes": s["episodes"], "signals": s["signals"]}
        | s["problem_options"]
        for s in settings
    ]
    differing = [k for k in _differing(flats) if k != "problem"]
    return [
        ", ".join([flat["problem"], *(_said(k, flat[k]) for k in differing if k in flat)])
        for flat in flats
    ]


def problem_title(setting: dict[str, Any]) -> str:
    """What a problem is called: its name, or that of its file."""
    if setting["problem"] != "file":
        return str(setting["problem"])
    return Path(setting["problem_options"]["path"]).name


def _differing(flats: Sequence[dict[str, Any]]) -> list[str]:
    every = dict.fromkeys(k for flat in flats for k in flat)
    return [k for k in every if len({json.dumps(f.get(k), sort_keys=True) for f in flats}) > 1]


def _said(option: str, value: Any) -> str:
    """An option in a word where it has one."""
    if option == "stance":
        return value if isinstance(value, str) else f"ξ = {value:g}"
    if option == "learner":
        return str(value)
    if (option, value) == ("thresholds", "known"):
        return "limits known"
    if option == "episodes":
        return f"{value:,} episodes"
    if option == "guard":  # whose baseline may be a whole policy
        return f"budget {json.dumps(value['budget'])}"
    if isinstance(value, bool):
        return option if value else f"not {option}"
    text = value if isinstance(value, str) else json.dumps(value)
    return f"{option.replace('_', ' ')} {text}"
