"""The meter and the alarm: user's units, missing samples, what is declared, files, false alarms."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import safespot as ss
from safespot.errors import InvalidEpisode, InvalidFile, InvalidOption
from safespot.evidence.alarm import SafetyAlarm
from safespot.evidence.meter import REWARD, SafetyMeter, meter_levels
from safespot.files import read_arrays, write_arrays

from . import reference as ref

Array = Any
COSTS = {
    "states": 2, "actions": 1, "horizon": 3, "constraints": 2, "start": None, "senses": ("<=", ">="),
    "ranges": {"reward": (-1.0, 3.0), "constraints": ((0.0, 10.0), (2.0, 4.0))},
}  # fmt: skip


def episode(rng: np.random.Generator, *, missing: float = 0.0) -> ss.Episode:
    """Three steps in the units of `COSTS`."""
    low, width = np.array([0.0, 2.0]), np.array([10.0, 2.0])
    thresholds = low + width * rng.random((3, 2)) ** 2
    thresholds[rng.random(3) < missing] = np.nan
    return ss.Episode(
        rng.integers(0, 2, 4),
        np.zeros(3, np.int64),
        -1.0 + 4.0 * rng.random(3),
        low + width * rng.random((3, 2)),
        thresholds,
    )


def watched(
    n: int, seed: int = 0, missing: float = 0.0, **options: Any
) -> tuple[SafetyMeter, list]:
    rng, meter = np.random.default_rng(seed), SafetyMeter(COSTS, **options)
    episodes = [episode(rng, missing=missing) for _ in range(n)]
    for each in episodes:
        meter.observe(each)
    return meter, episodes


def expected_bounds(least: Array, most: Array, low: float, high: float, share: float) -> Array:
    """Bounds of the sum of means of numbers between `least` and `most`, which lie in [low, high]."""
    width, n = high - low, len(least)
    below = ref.changing_sum((least - low) / width, share)
    above = ref.changing_sum((high - most) / width, share)
    return np.array([n * low + width * below, n * high - width * above])


@pytest.mark.parametrize("missing", [0.0, 0.3])
def test_bounds_are_those_of_the_slow_reading_in_the_users_units(missing: float) -> None:
    meter, episodes = watched(300, missing=missing)
    lower, upper = meter.violation_bounds
    share = (1.0 - REWARD) * 0.05 / 4
    for i, (low, high, sign) in enumerate(((0.0, 30.0, 1.0), (6.0, 12.0, -1.0))):
        values = np.array([e.constraints[:, i].sum() for e in episodes])
        hints = [
            np.array([np.nan_to_num(e.thresholds[:, i], nan=worst / 3).sum() for e in episodes])
            for worst in (low, high)
        ]
        # A violation is what a cost is above its budget, or a benefit below its limit.
        ends = sorted((sign * (values - hint) for hint in hints), key=lambda end: float(end.sum()))
        expected = expected_bounds(ends[0], ends[1], low - high, high - low, share)
        np.testing.assert_allclose([lower[i], upper[i]], expected, rtol=1e-8)
    rewards = np.array([e.rewards.sum() for e in episodes])
    x = (rewards + 3.0) / 12.0
    y = x - ref.guesses(x)
    below, above = (ref.window_sum(*sides, REWARD * 0.05 / 2) for sides in ((x, y), (1.0 - x, -y)))
    expected = -3.0 + 12.0 * np.array([below / 300, 1.0 - above / 300])
    np.testing.assert_allclose(meter.reward_bounds, expected, rtol=1e-8)
    np.testing.assert_allclose(meter.mean_bounds, np.array([lower, upper]) / 300)
    assert meter.episodes == 300


def test_safety_has_nine_tenths_of_what_may_be_missed() -> None:
    shares = np.exp(-meter_levels(3, 0.2))
    assert len(shares) == 8
    np.testing.assert_allclose(shares[:2], 0.1 * 0.2 / 2)
    np.testing.assert_allclose(shares[2:], 0.9 * 0.2 / 6)


def test_missing_samples_only_widen() -> None:
    rng = np.random.default_rng(1)
    whole, holes = SafetyMeter(COSTS), SafetyMeter(COSTS)
    for _ in range(200):
        each = episode(rng)
        whole.observe(each)
        seen = np.where(rng.random((3, 1)) < 0.2, np.nan, each.thresholds)
        holes.observe(ss.Episode(each.states, each.actions, each.rewards, each.constraints, seen))
    for side, (a, b) in zip(
        (1, -1), zip(whole.violation_bounds, holes.violation_bounds, strict=True), strict=True
    ):
        assert (side * a > side * b).all()


def test_before_the_first_episode_nothing_was_violated_and_anything_may_come() -> None:
    meter = SafetyMeter(COSTS)
    assert meter.episodes == 0
    for bound in meter.violation_bounds:
        assert bound.tolist() == [0.0, 0.0]
    np.testing.assert_allclose(meter.mean_bounds, [[-30.0, -6.0], [30.0, 6.0]])
    np.testing.assert_allclose(meter.reward_bounds, [-3.0, 9.0])


def test_known_thresholds_and_declared_totals_narrow() -> None:
    """D has the range 2H, with known thresholds H, and less where totals are known to be small."""
    rng = np.random.default_rng(2)
    interface = {"states": 1, "actions": 1, "horizon": 10, "constraints": 1, "senses": "<="}
    falls = (rng.random((2_000, 10)) < 0.002).astype(float)
    falls[np.cumsum(falls, axis=1) > 1] = 0.0
    meters = [
        SafetyMeter(interface),
        SafetyMeter(interface, more=ss.Limit(threshold=0.05)),
        SafetyMeter(interface, more=ss.Limit(threshold=0.05, total=(0, 1))),
        SafetyMeter(interface, more=[ss.Limit(total=(0, 1), threshold_total=(0.0, 0.1))]),
    ]
    for row in falls:
        hints = np.full((10, 1), 0.005)
        for meter in meters:
            meter.observe(
                ss.Episode(np.zeros(11, np.int64), np.zeros(10, np.int64), row, row[:, None], hints)
            )
    widths = [float(np.subtract(*meter.mean_bounds[::-1])[0]) for meter in meters]
    assert widths[0] > 1.4 * widths[1]
    assert widths[1] > 2.0 * widths[2]
    assert widths[3] == pytest.approx(widths[2], rel=0.2)
    for meter in meters:
        lower, upper = meter.mean_bounds
        assert lower[0] <= falls.sum(axis=1).mean() - 0.05 <= upper[0]
    with pytest.raises(InvalidEpisode, match="constraint_totals"):
        meters[2].observe(
            ss.Episode(
                np.zeros(11, np.int64),
                np.zeros(10, np.int64),
                np.zeros(10),
                np.full((10, 1), 0.3),
                hints,
            )
        )
    with pytest.raises(InvalidEpisode, match="threshold_totals"):
        meters[3].observe(
            ss.Episode(
                np.zeros(11, np.int64),
                np.zeros(10, np.int64),
                np.zeros(10),
                np.zeros((10, 1)),
                20 * hints,
            )
        )
    assert [meter.episodes for meter in meters] == [2_000] * 4


@pytest.mark.parametrize(
    "options",
    [
        {"delta": 0.0}, {"delta": True}, {"more": [ss.Limit(threshold=1.0)]}, {"more": 3},
        {"more": ss.Limit(total=(0, 31))}, {"more": [ss.Limit(threshold=1.0), ss.Limit()]},
    ],
)  # fmt: skip
def test_nonsense_is_refused(options: dict[str, Any]) -> None:
    with pytest.raises(InvalidOption):
        SafetyMeter(COSTS, **options)


def test_an_interface_must_be_one() -> None:
    with pytest.raises(InvalidOption, match=r"problem\.interface"):
        SafetyMeter({"states": 3})


@pytest.mark.parametrize("at", [0, 1, 127, 128, 200])
def test_resumed_equals_never_stopped(tmp_path: Path, at: int) -> None:
    options: dict[str, Any] = {
        "delta": 0.1, "more": [ss.Limit(total=(0, 30)), ss.Limit(total=(6, 12))],
    }  # fmt: skip
    whole, episodes = watched(300, 3, 0.1, **options)
    part = SafetyMeter(COSTS, **options)
    for each in episodes[:at]:
        part.observe(each)
    part.save(tmp_path / "meter")
    part = SafetyMeter.load(tmp_path / "meter")
    for each in episodes[at:]:
        part.observe(each)
    for a, b in zip(
        (*whole.state.means, whole.state.reward),
        (*part.state.means, part.state.reward),
        strict=True,
    ):
        np.testing.assert_array_equal(a, b)
    np.testing.assert_array_equal(whole.violation_bounds, part.violation_bounds)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("state.means.counted", -1.0), ("state.means.counted", 0.5),
        ("state.means.product", 0.0), ("state.means.product", math.nan),
        ("state.means.total", 1e9), ("state.means.power", 0.5), ("state.reward", -1.0),
    ],
)  # fmt: skip
def test_a_file_that_contradicts_itself_is_refused(tmp_path: Path, name: str, value: float) -> None:
    meter, _ = watched(5)
    meter.save(tmp_path / "meter")
    arrays, about = read_arrays(tmp_path / "meter", "meter")
    arrays[name] = np.full_like(arrays[name], value)
    write_arrays(tmp_path / "meter", "meter", arrays, about)
    with pytest.raises(InvalidFile, match="SafetyMeter"):
        SafetyMeter.load(tmp_path / "meter")


# The alarm

COINS = {"states": 1, "actions": 1, "horizon": 4, "constraints": 1}


def coins(rng: np.random.Generator, p: float) -> ss.Episode:
    g, x = (rng.random((4, 1)) < p).astype(float), (rng.random((4, 1)) < 0.5).astype(float)
    return ss.Episode(np.zeros(5, np.int64), np.zeros(4, np.int64), g[:, 0], g, x)


def until_alarm(seed: int, p: float, between: int, most: int) -> int:
    """The episode of the first alarm, at most so many."""
    rng, alarm = np.random.default_rng(seed), SafetyAlarm(COINS, between)
    for t in range(1, most + 1):
        if alarm.observe(coins(rng, p)):
            return t
    return most


def rare_enough(waits: list[int], between: int) -> bool:
    """Whether the mean wait can be what was stated; three standard errors are granted."""
    return bool(np.mean(waits) + 3.0 * np.std(waits) / math.sqrt(len(waits)) >= between)


def test_false_alarms_are_as_rare_as_stated() -> None:
    """A policy exactly at its limit; cutting long waits off can only make their mean smaller."""
    assert rare_enough([until_alarm(seed, 0.5, 50, 500) for seed in range(150)], 50)
    assert not rare_enough([until_alarm(seed, 0.5, 25, 500) for seed in range(150)], 50)


def test_a_break_is_noticed() -> None:
    delays = [until_alarm(seed, 0.3, 1_000, 2_000) for seed in range(40)]
    assert np.median(delays) < 60
    assert max(delays) < 200


def test_a_limit_that_nothing_can_keep_is_an_alarm_soon() -> None:
    """Costs of at least 1 an episode, and a limit of 0.2: the claim to bet against is false whatever is seen."""
    rng = np.random.default_rng(0)
    alarm = SafetyAlarm({**COINS, "senses": "<="}, 1_000, ss.Limit(threshold=0.2, total=(1.0, 2.0)))
    while not alarm.ringing and alarm.episodes < 30:
        g = np.array([[1.0], [float(rng.random() < 0.3)], [0.0], [0.0]])
        alarm.observe(ss.Episode(np.zeros(5, int), np.zeros(4, int), g[:, 0], g, g))
    assert alarm.ringing


def test_an_invalid_episode_changes_nothing_and_leaves_no_doubt() -> None:
    g = np.ones((4, 1))
    wild = ss.Episode(np.zeros(5, int), np.zeros(4, int), g[:, 0], g, g, clipped=3)
    for watch in (SafetyMeter, SafetyAlarm):
        made = watch(COINS, more=ss.Limit(total=(0.0, 1.0)))
        with pytest.raises(InvalidEpisode, match="lies outside the constraint_totals"):
            made.observe(wild)
        assert made.episodes == 0
        assert made.doubts.sentences() == ()


def test_an_alarm_begins_anew_and_survives_a_file(tmp_path: Path) -> None:
    rng, alarm, rang = np.random.default_rng(0), SafetyAlarm(COINS, 100), []
    for t in range(300):
        if alarm.observe(coins(rng, 0.2)):
            rang.append(t)
            assert alarm.ringing
            assert alarm.evidence[0] >= 1.0
        if t == 150:
            alarm.save(tmp_path / "alarm")
            alarm = SafetyAlarm.load(tmp_path / "alarm")
    assert len(rang) > 3
    assert alarm.episodes == 300
    with pytest.raises(InvalidFile):
        SafetyMeter.load(tmp_path / "alarm")
    arrays, about = read_arrays(tmp_path / "alarm", "alarm")
    write_arrays(
        tmp_path / "alarm", "alarm", {**arrays, "state.wealth": -arrays["state.wealth"] - 1}, about
    )
    with pytest.raises(InvalidFile, match="SafetyAlarm"):
        SafetyAlarm.load(tmp_path / "alarm")


def test_several_constraints_share_one_rate_of_false_alarms() -> None:
    rng, waits = np.random.default_rng(1), []
    for _ in range(60):
        alarm = SafetyAlarm({**COINS, "constraints": 3}, 50)
        while not alarm.ringing and alarm.episodes < 500:
            g, x = ((rng.random((4, 3)) < 0.5).astype(float) for _ in range(2))
            alarm.observe(ss.Episode(np.zeros(5, np.int64), np.zeros(4, np.int64), g[:, 0], g, x))
        waits.append(alarm.episodes)
    assert rare_enough(waits, 50)


def test_an_alarm_goes_on_from_its_file_as_if_nothing_had_happened(tmp_path: Path) -> None:
    """With what was declared: known limits, and totals in a smaller range."""
    declared = ss.Limit(threshold=2.0, total=(0.0, 3.5))
    rng, alarms = np.random.default_rng(2), [SafetyAlarm(COINS, 60, declared)]
    alarms[0].save(tmp_path / "alarm")
    alarms.append(SafetyAlarm.load(tmp_path / "alarm"))
    since, rang = 0, 0
    for t in range(1, 81):
        g = np.minimum(coins(rng, 0.3).constraints, 0.8)
        each = ss.Episode(np.zeros(5, int), np.zeros(4, int), g[:, 0], g, np.ones((4, 1)))
        since = 1 if alarms[0].ringing else since + 1
        told = {alarm.observe(each) for alarm in alarms}
        assert len(told) == 1
        rang += told == {True}
        for a, b in zip(*(alarm.state for alarm in alarms), strict=True):
            np.testing.assert_array_equal(a, b)
        assert alarms[0].state.counted.tolist() == [t, since]
        assert alarms[0].evidence.tolist() == alarms[1].evidence.tolist()
    assert rang > 1
    assert alarms[1].between == 60
    outside = ss.Episode(
        np.zeros(5, int), np.zeros(4, int), np.ones(4), np.ones((4, 1)), np.ones((4, 1))
    )
    for alarm in alarms:
        with pytest.raises(InvalidEpisode, match="constraint_totals"):
            alarm.observe(outside)
        assert alarm.episodes == 80
