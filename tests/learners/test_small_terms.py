"""What all learners share, term by term: epochs, radii, steps, limits, options, files, and who played."""

from __future__ import annotations

import math
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import safespot as ss
from safespot.files import read_arrays, write_arrays
from safespot.learners import doubling
from safespot.learners.baselines.opt_pess_primal_dual import OptPessPrimalDualOptions
from safespot.learners.options import BaselineOptions, DualOptions
from safespot.learners.radii import empirical_variation
from safespot.spot.optimism import make_radii

H, M = 2, 1
FACE: dict[str, Any] = {"states": 2, "actions": 2, "horizon": H, "constraints": M, "start": None}
BASE = [[1.0, 0.0]] * 2
NEEDS: dict[str, dict[str, Any]] = {
    "spot": {"rho": 2.0},
    "opt-dual": {"rho": 2.0, "dual_step": 0.25},
    "opt-cmdp": {},
    "regularized-primal-dual": {"rho": 2.0},
}


def made(name: str, episodes: int | None = 100, **options: Any) -> Any:
    return ss.learners.make(name, FACE, episodes=episodes, **{**NEEDS.get(name, {}), **options})


def episode(k: int = 0, g: float = 0.0, x: float = 0.5) -> ss.Episode:
    """One that stays in state k % 2 and takes action k // 2 % 2, with these signals."""
    s, a = k % 2, k // 2 % 2
    return ss.Episode(
        np.full(H + 1, s), np.full(H, a), np.ones(H), np.full((H, M), g), np.full((H, M), x)
    )


# Epochs


@pytest.mark.parametrize("name", NEEDS)
def test_anytime_an_epoch_follows_the_other_with_its_share_of_delta(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Epochs of 4, 8, 16, …: the k-th may miss with probability delta / (k (k+1))."""
    monkeypatch.setattr(doubling, "FIRST_EPOCH", 4)
    learner = made(name, None, delta=0.1)
    for t, (k, length, last) in enumerate([(1, 4, 4)] * 4 + [(2, 8, 12)] * 8 + [(3, 16, 28)]):
        assert learner.epoch == (k, length, last)
        assert doubling.episodes_to_settle(learner) == last - t
        expected = make_radii(
            2, 2, H, M, last, 0.1 / (k * (k + 1)), bonus_scale=1.0, threshold_scale=1.0,
            bernstein=learner.rates.radii.bernstein, clip=True,
        )  # fmt: skip
        assert learner.rates.radii == expected
        learner.observe(episode(t))


@pytest.mark.parametrize("name", NEEDS)
def test_a_planned_number_of_episodes_is_one_epoch(name: str) -> None:
    learner = made(name, 4)
    assert doubling.episodes_to_settle(learner) is None
    for t in range(4):
        assert learner.epoch == (1, 4, 4)
        learner.observe(episode(t))
    with pytest.warns(UserWarning, match="beyond the learner's T = 4"):
        learner.observe(episode())
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # it was told once
        learner.observe(episode())
    assert learner.epoch == (1, 4, 4)


def test_multipliers_of_opt_dual_begin_anew_with_an_epoch(monkeypatch: pytest.MonkeyPatch) -> None:
    """Signals of 0 and a limit of 2: every plan moves the multiplier by at most 0.25 * 2 towards its bound."""
    monkeypatch.setattr(doubling, "FIRST_EPOCH", 6)
    learner = made("opt-dual", None, bonus_scale=0.001, thresholds=[float(H)])
    found = []
    for t in range(7):
        learner.observe(episode(t))
        found.append(float(learner.multipliers[0]))
    assert found[:5] == sorted(found[:5])
    assert found[4] > 0.5 >= found[5] > 0.0  # the first plan of the second epoch
    assert found[6] > found[5]


# Steps and radii


@pytest.mark.parametrize(("scale", "times"), [(0.1, 1.0), ("auto", 4.0)])
@pytest.mark.parametrize("m", [1, 2])
def test_steps_of_spot_are_the_papers(scale: Any, times: float, m: int) -> None:
    T, A, rho = 50, 3, 1.5
    rates = ss.Spot(2, A, H, m, episodes=T, rho=rho, bonus_scale=scale).rates
    eta = math.sqrt(2.0 * math.log(A) / (H**2 * (1.0 + m * rho) ** 2 * T))
    assert rates.eta == pytest.approx(times * eta)
    assert rates.step == pytest.approx(times * rho / math.sqrt(m * H**2 * T))
    given = ss.Spot(2, A, H, m, episodes=T, rho=rho, policy_step=0.3, dual_step=0.4).rates
    assert (given.eta, given.step) == (0.3, 0.4)


@pytest.mark.parametrize("m", [1, 2])
def test_steps_of_the_regularized_learner_are_the_papers(m: int) -> None:
    T, rho = 50, 1.5
    rates: Any = ss.learners.RegularizedPrimalDual(2, 3, H, m, episodes=T, rho=rho).rates
    paper = T ** (-5 / 7) / (H**2 * (1.0 + m * rho))
    assert (rates.eta, rates.step) == pytest.approx((paper, paper))
    assert rates.tau == pytest.approx(T ** (-1 / 7))
    ss.learners.RegularizedPrimalDual(
        2, 3, H, m, episodes=T, rho=rho, regularization=0.9, policy_step=1.1, dual_step=0.5
    )
    with pytest.raises(ss.errors.InvalidOption, match="below 1"):
        ss.learners.RegularizedPrimalDual(
            2, 3, H, m, episodes=T, rho=rho, regularization=0.5, policy_step=2.0
        )


@pytest.mark.parametrize(("tightening", "t"), [(1e-4, 1), (1e-4, 40), (1.0, 40)])
def test_limits_are_tightened_by_no_more_than_half_the_slack(tightening: float, t: int) -> None:
    learner = ss.learners.OptPessPrimalDual(
        4, 2, 3, M, episodes=90, slack=0.5, tightening=tightening
    )
    log = math.log(t / 0.05)
    paper = 5.0 * 3**2 * math.sqrt(4**3 * 2) * (log + 1.0) / math.sqrt(t * log)
    assert learner.epsilon(t) == pytest.approx(min(0.25, tightening * paper))
    assert (learner.epsilon(t) < 0.25) == (tightening < 1.0)


def test_rows_that_were_counted_are_as_far_off_as_the_smaller_bound_says() -> None:
    """What was never seen adds nothing: after 1000 visits with one successor, its own radius is the smaller one."""
    radii = make_radii(3, 2, 3, 1, 1000, 0.1, bonus_scale=0.5)
    off, unknown = empirical_variation(
        radii, np.array([1000, 0]), np.array([0]), np.array([1000.0])
    )
    assert off == pytest.approx(0.5 * 7.0 * radii.L_b / (3.0 * 999))
    assert off < 0.5 * math.sqrt((3 + radii.L_p) / 1000)
    assert unknown == 1.0


# Limits


@pytest.mark.parametrize("xi", [0.0, 0.25, 1.0])
@pytest.mark.parametrize("name", ["uniform", "spot", "spot-epochs"])
def test_a_stance_lies_between_the_bounds(name: str, xi: float) -> None:
    learner = made(name, stance=xi, delta=0.5)
    for t in range(40):
        learner.observe(episode(t, x=0.3 + 0.4 * (t % 2)))
    lower, upper = learner.threshold_bounds
    np.testing.assert_allclose(learner.thresholds, xi * lower + (1.0 - xi) * upper, rtol=1e-12)
    assert (learner.thresholds <= upper).all()


def test_pooled_samples_are_those_of_all_pairs() -> None:
    """Four pairs, each seen 10 times with a sample of its own: one pair represents a step, or all of them do."""
    radius, widths = {}, {}
    for estimator, mean in (("representative", 0.2), ("pooled", 0.35)):
        learner = made("uniform", estimator=estimator, threshold_scale=0.01, clip_thresholds=False)
        for t in range(40):
            learner.observe(episode(t, x=0.2 + 0.1 * (t % 4)))
        lower, upper = learner.threshold_bounds
        np.testing.assert_allclose((lower + upper) / 2.0, H * mean, atol=1e-9)
        radius[estimator], widths[estimator] = learner.rates.radii, upper - lower
    assert radius["pooled"] == radius["representative"]
    np.testing.assert_allclose(widths["representative"], 2.0 * widths["pooled"])


# Options and files


@pytest.mark.parametrize(
    ("options", "more"), [(DualOptions, {}), (OptPessPrimalDualOptions, {}), (BaselineOptions, {"baseline": BASE})]
)  # fmt: skip
def test_an_array_among_the_options_is_kept_as_numbers(options: Any, more: dict[str, Any]) -> None:
    slack, limits = np.array([0.5, 0.75]), np.array([1.0, 2.0])
    kept = options(episodes=9, slack=slack, thresholds=limits, **more)
    slack[:] = limits[:] = 9.0  # the caller's
    assert kept.slack == (0.5, 0.75)
    assert kept.thresholds == (1.0, 2.0)


@pytest.mark.parametrize(
    ("kind", "name", "more"),
    [(ss.Fixed, "policy", {}), (ss.learners.DOPE, "baseline", {"slack": 0.5})],
)
def test_a_policy_among_the_options_is_the_learners_own(
    kind: Any, name: str, more: dict[str, Any]
) -> None:
    given = np.array(BASE)
    learner = kind(**FACE, episodes=9, **{name: given}, **more)
    given[:] = 0.5  # the caller's
    np.testing.assert_array_equal(learner.anew().policy, [BASE] * H)
    with pytest.raises(ValueError, match="read-only"):
        getattr(learner.options, name)[:] = 0.5
    with pytest.raises(ss.errors.InvalidOption, match=name):
        kind(**FACE, episodes=9, **{name: "careful"}, **more)


def test_a_learner_of_ones_own_says_what_it_takes() -> None:
    class Own(ss.Uniform):
        """Ours."""

    said = str(Own.__doc__)
    assert said.startswith("Ours.")
    for option in ss.learners.options("uniform"):
        assert f"\n    {option}: " in said


def test_a_number_that_no_float_can_be_is_infinite() -> None:
    assert DualOptions(episodes=9, rho=10**400, dual_step=1.0).rho == math.inf
    with pytest.raises(ss.errors.InvalidOption, match="rho"):
        DualOptions(episodes=9, rho=-(10**400), dual_step=1.0)


def test_nothing_is_made_of_a_size_that_a_file_only_says(tmp_path: Path) -> None:
    made("spot").save(tmp_path / "learner")
    arrays, about = read_arrays(tmp_path / "learner", "learner")
    for name in ("states", "actions", "horizon", "constraints"):
        said = {**about, "arguments": {**about["arguments"], name: 7}}
        write_arrays(tmp_path / "other", "learner", arrays, said)
        with pytest.raises(ss.errors.InvalidFile, match="its arrays are not those of"):
            ss.learners.load(tmp_path / "other")


# Guards


def test_a_limit_that_nothing_can_break_is_kept_for_certain() -> None:
    guard = ss.Guard(made("uniform", thresholds=[0.0]), BASE, 40.0)
    assert guard.baseline_verdict == ("safe",)
    assert ss.Guard(made("uniform"), BASE, 40.0).baseline_verdict == ("unknown",)


def test_the_baselines_surplus_pays_unless_it_is_said_not_to() -> None:
    assert ss.Guard(made("uniform"), BASE, 40.0).credit
