"""Trials: when they may stop, what they prove, and how often they are wrong."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import safespot as ss
from safespot.errors import InvalidEpisode, InvalidFile, InvalidOption
from safespot.evidence.sequences import lower_bounds
from safespot.evidence.trial import statement_levels
from safespot.signals.totals import statements

from . import reference as ref

Array = Any
EPISODE = ss.Episode(
    np.zeros(2, int), np.zeros(1, int), np.zeros(1), np.zeros((1, 2)), np.zeros((1, 2))
)
LIMITS = [ss.Limit("dose", "<=", total=(0, 4)), ss.Limit("sleep", ">=", total=(2, 10))]


def totals(rng: np.random.Generator, dose: float, sleep: float) -> ss.Totals:
    """An episode with these means; the limits are about 2 and 5."""
    return ss.Totals(
        [4.0 * rng.beta(dose, 4.0 - dose), 2.0 + 8.0 * rng.beta(sleep, 4.0 - sleep)],
        hints=[4.0 * rng.random(), 10.0 - 8.0 * rng.random() ** (3 / 5)],
    )


def watched(dose: float, sleep: float, n: int, **options: Any) -> tuple[ss.Trial, Array]:
    """A trial of n episodes, and what they state."""
    rng, trial = np.random.default_rng(0), ss.Trial(LIMITS, **options)
    episodes = [totals(rng, dose, sleep) for _ in range(n)]
    for episode in episodes:
        trial.observe(episode)
    sums = np.array([trial.terms.row(each) for each in episodes])
    return trial, statements(trial.terms.declared, sums)


@pytest.mark.parametrize(
    ("dose", "sleep", "verdict"),
    [(0.4, 3.2, ("safe", "safe")), (0.4, 0.3, ("safe", "unsafe")), (3.6, 3.2, ("unsafe", "safe"))],
)
def test_a_trial_is_decided_after_the_very_episode_that_decides(
    dose: float, sleep: float, verdict: tuple[str, ...]
) -> None:
    """By the slow reading after every episode; bounds hold at all times, so the best one so far counts."""
    rng, trial = np.random.default_rng(1), ss.Trial(LIMITS, delta=0.1, episodes=60)
    rows, declared = list[Array](), trial.terms.declared
    levels, best, answer = statement_levels(declared, 0.1), np.zeros(14), False
    while not answer:
        assert not trial.decided
        episode = totals(rng, dose, sleep)
        answer = trial.observe(episode)
        rows += statements(declared, trial.terms.row(episode)[None]).tolist()
        for r in range(2, 6):
            bound = ref.fixed_mean(np.array(rows)[:, r], math.exp(-levels[r]), 60)
            best[r] = max(best[r], bound)
        low = declared.least + declared.width * best[[2, 4]]
        high = declared.least + declared.width * (1.0 - best[[3, 5]])
        assert answer == bool(((low >= 0.0) | (high < 0.0)).all())
    assert 5 < trial.episodes < 60
    assert trial.verdict == trial.certificate().verdict == verdict
    np.testing.assert_allclose(trial.difference_bounds[0], low, rtol=1e-8)
    np.testing.assert_allclose(trial.difference_bounds[1], high, rtol=1e-8)


def test_a_certificate_has_the_bounds_of_the_slow_reading_in_the_users_units() -> None:
    trial, rows = watched(0.8, 2.8, 50, delta=0.1, episodes=50)
    levels = statement_levels(trial.terms.declared, 0.1)
    low = [ref.fixed_mean(rows[:, r], math.exp(-level), 50) for r, level in enumerate(levels)]
    certificate = trial.certificate("mine")
    dose, sleep = (np.array([x[i] for x in certificate.value_bounds]) for i in range(2))
    np.testing.assert_allclose(dose, [4.0 * low[7], 4.0 - 4.0 * low[6]], rtol=1e-7)
    np.testing.assert_allclose(sleep, [2.0 + 8.0 * low[8], 10.0 - 8.0 * low[9]], rtol=1e-7)
    limit = [x[0] for x in certificate.threshold_bounds]
    np.testing.assert_allclose(limit, [4.0 * low[11], 4.0 - 4.0 * low[10]], rtol=1e-7)
    assert certificate.reward_bounds == (-math.inf, math.inf)
    assert certificate.covers("mine")
    assert not certificate.covers("yours")
    assert ss.Certificate.from_dict(certificate.as_dict()).as_dict() == certificate.as_dict()
    assert "reward" not in str(certificate)


def test_lower_bounds_are_those_of_the_slow_reading() -> None:
    _, rows = watched(1.0, 3.0, 50)
    levels = np.linspace(2.0, 6.0, rows.shape[1])
    expected = [ref.fixed_mean(rows[:, r], math.exp(-level), 50) for r, level in enumerate(levels)]
    np.testing.assert_allclose(lower_bounds(rows, levels), expected, rtol=1e-8, atol=1e-9)


def test_shares_of_delta_of_policies_that_are_fixed_and_of_those_that_move() -> None:
    declared = ss.Trial(LIMITS).terms.declared
    fixed, moving = (np.exp(-statement_levels(declared, 0.2, moving=m)) for m in (False, True))
    np.testing.assert_allclose(fixed[2:6], 0.1)
    np.testing.assert_allclose(moving[2:6], 0.05)
    for shares in (fixed, moving):
        assert sum(shares[[0, 1, *range(6, 14)]]) == pytest.approx(0.2)


@pytest.mark.parametrize("known", [True, False])
def test_a_policy_a_little_beyond_its_limit_is_seldom_called_safe(known: bool) -> None:
    """Looked at after every episode, of 300 runs with delta = 0.2; by rights at most a fifth, and a tenth is seen."""
    rng, false = np.random.default_rng(5), 0
    limit = ss.Limit("cost", "<=", total=(0, 1), threshold=0.3 if known else None)
    for _ in range(300):
        trial = ss.Trial(limit, delta=0.2)
        for cost, hint in zip(rng.random(150) < 0.31, rng.random(150) < 0.3, strict=True):
            if trial.observe(ss.Totals([float(cost)], hints=[float(hint)])):
                break
        false += trial.verdict == ("safe",)
    assert false <= 60
    assert false >= 3  # an error that is never made would be certainty wasted


def test_what_is_missing_only_widens_and_doubts_prove_nothing() -> None:
    whole, holes = ss.Trial(LIMITS[0]), ss.Trial(LIMITS[0])
    rng = np.random.default_rng(0)
    for n in range(200):
        cost, hint = rng.random(), 2.0 + rng.random()
        whole.observe(ss.Totals([cost], hints=[hint]))
        holes.observe(ss.Totals([cost], hints=[hint if n % 20 else np.nan]))
    assert whole.difference_bounds[0] > holes.difference_bounds[0]
    assert whole.difference_bounds[1] < holes.difference_bounds[1]
    assert whole.verdict == ("safe",)
    whole.observe(ss.Totals([0.5], hints=[2.5], clipped=1))
    assert whole.verdict == whole.certificate().verdict == ("unknown",)


def test_an_episode_that_cannot_be_is_refused_and_not_counted() -> None:
    trial = ss.Trial(LIMITS)
    for wrong, message in (
        (ss.Totals([5.0, 3.0]), "constraint 0 lies outside the constraint_totals"),
        (ss.Totals([1.0, 3.0], hints=[1.0, 1.0]), "constraint 1 lies outside the threshold_totals"),
        (ss.Totals([1.0]), "costs are 1 numbers; expected 2"),
        (ss.Totals([1.0, 2.0], hints=[1.0] * 3), "hints are 3 numbers"),
        (EPISODE, "add up the episode"),
        (3, "expected ss.Totals"),
    ):
        with pytest.raises(InvalidEpisode, match=message):
            trial.observe(wrong)  # type: ignore[arg-type]
    assert trial.episodes == 0
    with pytest.raises(InvalidOption, match="at least one"):
        trial.certificate()


@pytest.mark.parametrize(
    ("limits", "message"),
    [
        ([], "no limits"),
        (ss.Limit("cost"), "total of limit cost is needed"),
        (ss.Limit(total=(0, 1), threshold=[0.1, 0.2]), "threshold of limit 0 must be one number"),
        ([ss.Limit(total=(0, 1), threshold=0.1), ss.Limit(total=(0, 1))], "all limits, or of none"),
        ({"states": 1}, "problem.interface"),
    ],
)
def test_limits_that_say_too_little_are_refused(limits: Any, message: str) -> None:
    with pytest.raises(InvalidOption, match=message):
        ss.Trial(limits)


def test_a_trial_of_totals_is_that_of_the_episodes_that_they_are_sums_of() -> None:
    problem, noise = ss.problems.make("machine"), ss.streams(seed=0)
    by_steps, by_totals = ss.Trial(problem.interface), ss.Trial(problem.interface)
    for t in range(1, 40):
        episode = ss.play(problem, [[1, 0], [1, 0]], noise, t)
        by_steps.observe(episode)
        by_totals.observe(
            ss.Totals(
                episode.constraints.sum(axis=0),
                episode.thresholds.sum(axis=0),
                episode.rewards.sum(),
            )
        )
    bounds = [trial.certificate().as_dict() for trial in (by_steps, by_totals)]
    for name in ("difference_bounds", "value_bounds", "threshold_bounds", "reward_bounds"):
        np.testing.assert_allclose(bounds[0][name], bounds[1][name], rtol=1e-12)


@pytest.mark.parametrize("limits", [LIMITS, ss.problems.make("machine").interface])
def test_a_trial_goes_on_from_its_file(limits: Any, tmp_path: Path) -> None:
    rng, trial = np.random.default_rng(0), ss.Trial(limits, 0.1, 300)
    m = trial.terms.m
    for _ in range(30):
        trial.observe(ss.Totals(4.0 * rng.random(m) + 2.0 * (m > 1) * np.arange(m)))
    trial.save(tmp_path / "trial")
    loaded = ss.Trial.load(tmp_path / "trial")
    for each in (trial, loaded):
        each.observe(ss.Totals(np.full(m, 3.0)))
    assert loaded.certificate().as_dict() == trial.certificate().as_dict()
    assert repr(loaded) == repr(trial)
    with pytest.raises(InvalidFile):
        ss.SafetyMeter.load(tmp_path / "trial")
