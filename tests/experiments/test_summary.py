"""What a store says: means, intervals, exponents, comparisons."""

from __future__ import annotations

import math

import numpy as np
import pytest

import safespot as ss
from safespot.experiments import Store
from safespot.experiments.summary import METRICS, compare, estimate, exponent, groups, summarize
from tests.support.sweeping import sweep_inline, tiny


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    path = tmp_path_factory.mktemp("store") / "store"
    known = {"name": "spot", "options": {"rho": "slater", "thresholds": "known"}}
    sweep_inline(path, tiny(seeds=5, episodes=200))
    sweep_inline(path, tiny(seeds=[2, 3, 9], episodes=200, learners=[known]))
    sweep_inline(path, tiny(seeds=1, episodes=300, learners=[known]))
    return Store(path)


def test_groups_are_runs_that_differ_in_their_seed_and_labels_tell_them_apart(store: Store) -> None:
    found = {group.label: group.seeds for group in groups(store)}
    assert found == {
        "spot episodes=200 bonus_scale=0.01 stance=0.0": (0, 1, 2, 3, 4),
        "spot episodes=200 bonus_scale=0.01 stance=0.5": (0, 1, 2, 3, 4),
        "spot episodes=200 thresholds=known": (2, 3, 9),
        "spot episodes=300 thresholds=known": (0,),
    }


def test_the_end_of_every_metric_is_its_mean_over_the_seeds(store: Store) -> None:
    all_ends = {}
    for metric in METRICS:
        sql = f"select run, arg_max({metric}, episode) from results group by run"
        all_ends[metric] = dict(store.query(sql).fetchall())
    for summary in summarize(store):
        for metric, found in summary.final.items():
            ends = [all_ends[metric][run] for run in summary.group.runs]
            assert found.mean == pytest.approx(np.mean(ends), rel=1e-12)
            assert found.seeds == len(ends)
            if len(ends) > 1:
                assert min(ends) <= found.low <= found.mean <= found.high <= max(ends)
            else:
                assert math.isnan(found.low)
                assert "one seed" in str(found)


def test_comparisons_are_of_the_same_seeds_and_problem(store: Store) -> None:
    found = {(c.first.label[5:], c.second.label[5:]): c for c in compare(store, "violation")}
    # The group of 300 episodes has no other to be compared with.
    assert len(found) == 3
    for c in found.values():
        assert c.metric == "violation"
        common = sorted(set(c.first.seeds) & set(c.second.seeds))
        assert c.difference.seeds == len(common) == (2 if c.second.seeds == (2, 3, 9) else 5)
        ends = []
        for group in (c.first, c.second):
            runs = [group.runs[group.seeds.index(seed)] for seed in common]
            sql = "select run, arg_max(violation, episode) from results group by run"
            all_ends = dict(store.query(sql).fetchall())
            ends.append(np.array([all_ends[run] for run in runs]))
        assert c.difference.mean == pytest.approx((ends[0] - ends[1]).mean())
    with pytest.raises(ss.errors.InvalidOption, match="unknown metric 'happiness'"):
        compare(store, "happiness")


def test_an_interval_covers_as_often_as_it_says() -> None:
    rng = np.random.default_rng(0)
    found = [estimate(list(rng.normal(3.0, 2.0, 20)), confidence=0.8) for _ in range(200)]
    covered = np.mean([e.low <= 3.0 <= e.high for e in found])
    assert 0.68 <= covered <= 0.88
    assert estimate([1.0, 2.0, 5.0]) == estimate([1.0, 2.0, 5.0])  # the same every time


@pytest.mark.parametrize("values", [[], [math.nan], [2.0], [2.0, math.nan], [2.0, 2.0], [1.0, 2.0]])
def test_few_seeds_say_so(values: list[float]) -> None:
    found = estimate(values)
    n = sum(not math.isnan(x) for x in values)
    assert found.seeds == n
    assert str(found) == {0: "none", 1: "2 (one seed: no interval)"}.get(n, str(found))
    if n >= 2:
        assert found.low <= found.mean <= found.high
        assert "(2 seeds)" in str(found)
    else:
        assert math.isnan(found.low)
        assert math.isnan(found.high)


@pytest.mark.parametrize(
    ("episodes", "fitted"),
    [
        ([1, 9, 10, 11, 30, 100], [10, 11, 30, 100]),
        ([1, 8, 20, 50, 99], [20, 50, 99]),
        ([10, 11, 100], [10, 11, 100]),
        ([1, 40, 100], [40, 100]),
    ],
)
def test_the_exponent_is_a_least_squares_slope_of_the_last_decade(
    episodes: list[int], fitted: list[int]
) -> None:
    values = dict(zip(episodes, np.random.default_rng(1).uniform(1.0, 9.0, 9), strict=False))
    found = exponent(np.array(episodes), np.array(list(values.values())))
    if len(fitted) < 3:
        assert math.isnan(found)
        return
    slope = np.polyfit(np.log(fitted), np.log([values[t] for t in fitted]), 1)[0]
    assert found == pytest.approx(slope, rel=1e-9)


def test_there_is_no_exponent_of_what_is_not_positive() -> None:
    episodes = np.arange(1, 101)
    assert math.isnan(exponent(episodes, -1.0 * episodes))
    assert math.isnan(exponent(episodes, np.full(100, np.nan)))
    assert math.isnan(exponent(episodes[:2], np.ones(2)))
