"""What a store says: means over seeds with intervals, growth exponents, paired comparisons.

Runs that differ in nothing but their seed are one group. Intervals are bootstrap intervals over the seeds (BCa); a
group of one seed has none, and says so.
"""

from __future__ import annotations

import json
import math
import warnings
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import InvalidFile, InvalidOption, unknown
from ..training.run_tables import Columns
from .store import Store

METRICS = ("regret", "violation", "strong_regret", "strong_violation")
POINTS = 33  # of the last decade that an exponent is fitted to
RESAMPLES = 9999


@dataclass(frozen=True)
class Estimate:
    """A mean over seeds. The interval is NaN where one seed, or none, has a value.

    Examples:
        >>> from safespot.experiments import summary
        >>> found = summary.estimate([1.0, 2.0, 3.0, 6.0])
        >>> print(found.mean, found.seeds, found.low < found.mean < found.high)
        3.0 4 True

    """

    mean: float
    low: float
    high: float
    seeds: int  # that have a value

    def __str__(self) -> str:
        if self.seeds == 0:
            return "none"
        if self.seeds == 1:
            return f"{self.mean:.4g} (one seed: no interval)"
        return f"{self.mean:.4g} [{self.low:.4g}, {self.high:.4g}] ({self.seeds} seeds)"


@dataclass(frozen=True)
class Group:
    """Runs that differ only in their seed.

    Examples:
        >>> import safespot as ss
        >>> from safespot.experiments import summary
        >>> study = {
        ...     "episodes": 200, "seeds": 3, "problem": {"name": "machine"},
        ...     "learners": [{"name": "uniform"}, {"name": "spot", "options": {"slack": 1, "bonus_scale": 0.01}}],
        ... }
        >>> store = ss.experiments.sweep(study, "results", workers=1, progress=False).store
        >>> group = summary.groups(store)[0]
        >>> print(group.label, group.seeds)
        spot bonus_scale=0.01 slack=1 (0, 1, 2)

    """

    label: str  # what tells it from the other groups of the store
    about: dict[str, Any]  # the content of its runs, without the seed
    seeds: tuple[int, ...]
    runs: tuple[str, ...]  # ids, in the order of the seeds


@dataclass(frozen=True)
class Summary:
    """A group at its last episode.

    Examples:
        >>> import safespot as ss
        >>> from safespot.experiments import summary
        >>> study = {
        ...     "episodes": 200, "seeds": 3, "problem": {"name": "machine"},
        ...     "learners": [{"name": "uniform"}, {"name": "spot", "options": {"slack": 1, "bonus_scale": 0.01}}],
        ... }
        >>> store = ss.experiments.sweep(study, "results", workers=1, progress=False).store
        >>> uniform = summary.summarize(store)[1]
        >>> print(uniform.final["strong_violation"])
        275 [275, 275] (3 seeds)
        >>> round(uniform.exponent["strong_violation"].mean, 3)  # in proportion to the episodes
        1.0

    """

    group: Group
    final: dict[str, Estimate]  # metric -> its value at the end
    exponent: dict[str, Estimate]  # metric -> the slope of log(metric) over log(episode)


@dataclass(frozen=True)
class Comparison:
    """How much more of a metric one group has at the end than another, on the same seeds.

    Examples:
        >>> import safespot as ss
        >>> from safespot.experiments import summary
        >>> study = {
        ...     "episodes": 200, "seeds": 3, "problem": {"name": "machine"},
        ...     "learners": [{"name": "uniform"}, {"name": "spot", "options": {"slack": 1, "bonus_scale": 0.01}}],
        ... }
        >>> store = ss.experiments.sweep(study, "results", workers=1, progress=False).store
        >>> (pair,) = summary.compare(store, "strong_violation")
        >>> print(pair.first.label, "-", pair.second.label, "=", round(pair.difference.mean, 1))
        spot bonus_scale=0.01 slack=1 - uniform = -183.8

    """

    metric: str
    first: Group
    second: Group
    difference: Estimate  # first - second


def groups(store: Store) -> list[Group]:
    """The groups of a store, each with a label that says what is its own.

    Examples:
        >>> import safespot as ss
        >>> from safespot.experiments import summary
        >>> study = {
        ...     "episodes": 200, "seeds": 3, "problem": {"name": "machine"},
        ...     "learners": [{"name": "uniform"}, {"name": "spot", "options": {"slack": 1, "bonus_scale": 0.01}}],
        ... }
        >>> store = ss.experiments.sweep(study, "results", workers=1, progress=False).store
        >>> [group.label for group in summary.groups(store)]
        ['spot bonus_scale=0.01 slack=1', 'uniform']

    """
    found: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for about in store.runs():
        found[json.dumps(_content(about), sort_keys=True)].append(about)
    contents = [json.loads(key) for key in found]
    called = [members[0].get("label") or members[0]["learner"] for members in found.values()]
    labels = _labels(
        [_flat({**c, "learner": name}) for name, c in zip(called, contents, strict=True)]
    )
    made = []
    for label, content, members in zip(labels, contents, found.values(), strict=True):
        members.sort(key=lambda about: int(about["seed"]))
        made.append(
            Group(
                label,
                content,
                tuple(about["seed"] for about in members),
                tuple(about["run"] for about in members),
            )
        )
    return sorted(made, key=lambda group: group.label)


def summarize(store: Store, *, confidence: float = 0.95) -> list[Summary]:
    """Every group: what its metrics are at the end, and how they grow.

    Examples:
        >>> import safespot as ss
        >>> from safespot.experiments import summary
        >>> study = {
        ...     "episodes": 200, "seeds": 3, "problem": {"name": "machine"},
        ...     "learners": [{"name": "uniform"}, {"name": "spot", "options": {"slack": 1, "bonus_scale": 0.01}}],
        ... }
        >>> store = ss.experiments.sweep(study, "results", workers=1, progress=False).store
        >>> for each in summary.summarize(store):
        ...     print(each.group.label, round(each.final["strong_violation"].mean, 1))
        spot bonus_scale=0.01 slack=1 91.2
        uniform 275.0

    """
    curves, made = _curves(store, METRICS), []
    for group in groups(store):
        members = [curves[run] for run in group.runs]
        ends = {m: [one[m][-1] for one in members] for m in METRICS}
        slopes = {m: [exponent(one["episode"], one[m]) for one in members] for m in METRICS}
        made.append(
            Summary(
                group,
                {m: estimate(ends[m], confidence=confidence) for m in METRICS},
                {m: estimate(slopes[m], confidence=confidence) for m in METRICS},
            )
        )
    return made


def compare(store: Store, metric: str = "regret", *, confidence: float = 0.95) -> list[Comparison]:
    """Every two groups with the same problem and episodes, seed by seed.

    The same seed is the same noise, so most of it cancels.

    Examples:
        >>> import safespot as ss
        >>> from safespot.experiments import summary
        >>> study = {
        ...     "episodes": 200, "seeds": 3, "problem": {"name": "machine"},
        ...     "learners": [{"name": "uniform"}, {"name": "spot", "options": {"slack": 1, "bonus_scale": 0.01}}],
        ... }
        >>> store = ss.experiments.sweep(study, "results", workers=1, progress=False).store
        >>> [round(pair.difference.mean, 1) for pair in summary.compare(store, "strong_violation")]
        [-183.8]

    """
    if metric not in METRICS:
        raise InvalidOption(unknown("metric", metric, METRICS))
    curves, made = _curves(store, [metric]), []
    for first, second in combinations(groups(store), 2):
        if _setting(first) != _setting(second):
            continue
        theirs = dict(zip(second.seeds, second.runs, strict=True))
        differences = [
            curves[run][metric][-1] - curves[theirs[seed]][metric][-1]
            for seed, run in zip(first.seeds, first.runs, strict=True)
            if seed in theirs
        ]
        made.append(Comparison(metric, first, second, estimate(differences, confidence=confidence)))
    return made


def estimate(values: Sequence[float], *, confidence: float = 0.95) -> Estimate:
    """The mean of one value per seed, with its bootstrap interval; NaN values do not count.

    Examples:
        >>> from safespot.experiments import summary
        >>> print(summary.estimate([2.0, 2.0, 2.0]))
        2 [2, 2] (3 seeds)
        >>> print(summary.estimate([2.0]))
        2 (one seed: no interval)

    """
    from scipy.stats import bootstrap

    sample = np.array([x for x in values if not math.isnan(x)])
    n = len(sample)
    if n == 0:
        return Estimate(math.nan, math.nan, math.nan, 0)
    if n == 1:
        return Estimate(float(sample[0]), math.nan, math.nan, 1)
    if np.ptp(sample) == 0.0:
        same = float(sample.min())
        return Estimate(same, same, same, n)
    # The same resamples every time: a report does not change when it is made again.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of BCa where too few seeds make it degenerate
        interval = bootstrap(
            (sample,), np.mean, confidence_level=confidence, n_resamples=RESAMPLES,
            method="BCa", vectorized=True, random_state=np.random.default_rng(0),
        ).confidence_interval  # fmt: skip
    return Estimate(float(sample.mean()), float(interval.low), float(interval.high), n)


def exponent(episodes: NDArray, values: NDArray[np.floating[Any]]) -> float:
    """The slope of log(values) over log(episodes) in the last decade; NaN where they are not all positive.

    Points are taken evenly in log(episode), so that a run recorded at every episode counts its last ones no more than
    one recorded on a logarithmic grid.

    Examples:
        >>> import numpy as np
        >>> from safespot.experiments import summary
        >>> episodes = np.arange(1, 1001)
        >>> round(summary.exponent(episodes, 3.0 * np.sqrt(episodes)), 6)
        0.5

    """
    last = float(episodes[-1])
    wanted = last * np.logspace(-1.0, 0.0, POINTS)
    rows = np.unique(np.searchsorted(episodes, np.floor(wanted)).clip(0, len(episodes) - 1))
    if len(rows) < 3 or not (values[rows] > 0.0).all():  # also where it is NaN
        return math.nan
    x, y = np.log(episodes[rows]), np.log(values[rows])
    x = x - x.mean()  # so that the mean of y does not count
    return float(x @ y / (x @ x))


def _curves(store: Store, metrics: Sequence[str]) -> dict[str, Columns]:
    """Episodes and metrics of every run."""
    runs = sorted(store.finished())
    if not runs:
        raise InvalidFile(f"{store.path} has no finished run yet.")
    return store.columns(runs, metrics)


CONTENT = (
    "problem", "problem_options", "signals", "learner", "learner_options", "anytime", "episodes",
    "record", "track",
)  # fmt: skip


def _content(about: dict[str, Any]) -> dict[str, Any]:
    return {name: about[name] for name in CONTENT}


def _setting(group: Group) -> dict[str, Any]:
    return {
        name: group.about[name] for name in ("problem", "problem_options", "signals", "episodes")
    }


def _flat(content: dict[str, Any]) -> dict[str, Any]:
    """The content with an entry for every option."""
    flat: dict[str, Any] = {}
    for name, value in content.items():
        if isinstance(value, dict):
            part = name.removesuffix("_options")
            flat.update({f"{part}.{k}": v for k, v in value.items()})
        else:
            flat[name] = value
    return flat


def _labels(contents: list[dict[str, Any]]) -> list[str]:
    """For each its learner, and all in which it differs from some other."""
    names = list(dict.fromkeys(name for content in contents for name in content))
    differing = [
        name
        for name in names
        if name != "learner"
        and len({json.dumps(c.get(name), sort_keys=True) for c in contents}) > 1
    ]
    return [
        " ".join(
            [content["learner"]]
            + [
                f"{n.removeprefix('learner.')}={_short(content[n])}"
                for n in differing
                if n in content
            ]
        )
        for content in contents
    ]


def _short(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)
