"""Noise laws have exactly the stated mean and stay in [0,1]; drifts move at the stated episodes."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import integrate, stats

import safespot as ss
from safespot.model.signals import (
    BERNOULLI,
    BETA,
    DETERMINISTIC,
    GAUSSIAN,
    beta_cdf,
    beta_quantile,
    fill_noise,
    signal,
)

LAWS: list[Any] = [
    ss.signals.Bernoulli(),
    ss.signals.Beta(0.5),
    ss.signals.Beta(2.0),
    ss.signals.Beta(30),
    ss.signals.Gaussian(0.02),
    ss.signals.Gaussian(0.3),
    ss.signals.Gaussian(5.0),
    ss.signals.Deterministic(),
]
MEANS = [0.0, 0.01, 0.125, 0.3, 0.5, 0.77, 0.99, 1.0]


def observe(law: Any, mean: float, z: float) -> float:
    return float(signal(law.code, law.parameter, mean, z))


@pytest.mark.parametrize("law", LAWS, ids=repr)
@pytest.mark.parametrize("mean", MEANS)
def test_the_sample_mean_is_the_mean(law: Any, mean: float) -> None:
    n = 5_000
    z = np.empty(n)
    fill_noise(law, np.random.default_rng(1), z)
    x = np.array([observe(law, mean, float(v)) for v in z])
    assert ((x >= 0.0) & (x <= 1.0)).all()
    # No law in [0,1] with this mean has a larger variance than mean (1 - mean). Five standard
    # errors: a right law fails once in two million seeds, and this seed is fixed.
    assert abs(x.mean() - mean) <= 5 * np.sqrt(mean * (1 - mean) / n) + 1e-12
    if mean in (0.0, 1.0) or law.code == DETERMINISTIC:
        assert (x == mean).all()
    else:
        assert x.std() > 0.0


@pytest.mark.parametrize("mean", [0.0, 0.125, 0.5, 0.875, 1.0])
def test_bernoulli_is_one_on_exactly_the_mean_of_the_uniform_numbers(mean: float) -> None:
    z = np.arange(1024) / 1024  # what random() can give at this resolution: 0 is in, 1 is not
    assert sum(observe(ss.signals.Bernoulli(), mean, float(u)) for u in z) == 1024 * mean


@pytest.mark.parametrize("sd", [0.01, 0.1, 0.5, 3.0])
@pytest.mark.parametrize("mean", [0.03, 0.3, 0.5, 0.9])
def test_the_clipped_gaussian_keeps_its_mean(mean: float, sd: float) -> None:
    law = ss.signals.Gaussian(sd)
    room = min(mean, 1 - mean)
    kinks = [z for z in (-room / sd, room / sd) if abs(z) < 12]

    def integrand(z: float) -> float:
        return observe(law, mean, z) * float(stats.norm.pdf(z))

    # Beyond 12 standard deviations there is less than 1e-32.
    edges = [-12.0, *kinks, 12.0]
    pieces = pairwise(edges)
    total = sum(integrate.quad(integrand, a, b, epsabs=1e-13)[0] for a, b in pieces)
    assert total == pytest.approx(mean, abs=1e-11)


@pytest.mark.parametrize("concentration", [0.3, 2.0, 10.0, 300.0])
@pytest.mark.parametrize("mean", [0.1, 0.5, 0.8])
def test_the_beta_keeps_its_mean_and_variance(mean: float, concentration: float) -> None:
    law = ss.signals.Beta(concentration)
    # Gauss-Legendre on pieces that shrink towards both ends, where the quantile is steep.
    half = 0.5 ** np.arange(1, 46)
    edges = np.unique(np.r_[0.0, half, 1 - half, 1.0])
    nodes, weights = np.polynomial.legendre.leggauss(8)
    moments = np.zeros(2)
    for a, b in pairwise(edges):
        u = (a + b) / 2 + (b - a) / 2 * nodes
        x = np.array([observe(law, mean, float(v)) for v in u])
        moments += (b - a) / 2 * np.array([weights @ x, weights @ x**2])
    assert moments[0] == pytest.approx(mean, abs=1e-9)
    variance = mean * (1 - mean) / (1 + concentration)
    assert moments[1] - moments[0] ** 2 == pytest.approx(variance, abs=1e-9)


def test_the_beta_quantile_is_scipys() -> None:
    u = np.r_[1e-6, 0.001, np.linspace(0.01, 0.99, 33), 0.999, 1 - 1e-6]
    for concentration in (0.1, 1.0, 2.0, 10.0, 100.0, 1e4, 1e6):
        for mean in (0.001, 0.1, 0.5, 0.7, 0.999):
            a, b = concentration * mean, concentration * (1 - mean)
            ours = [beta_quantile(a, b, float(v)) for v in u]
            np.testing.assert_allclose(ours, stats.beta.ppf(u, a, b), rtol=0, atol=1e-9)
            x = np.clip(stats.beta.ppf(u, a, b), 1e-12, 1 - 1e-12)
            cdf = [beta_cdf(a, b, float(v)) for v in x]
            np.testing.assert_allclose(cdf, stats.beta.cdf(x, a, b), rtol=0, atol=1e-9)


def test_the_beta_distribution_ends_at_zero_and_one() -> None:
    assert beta_cdf(2.0, 3.0, 0.0) == 0.0
    assert beta_cdf(2.0, 3.0, -0.1) == 0.0
    assert beta_cdf(2.0, 3.0, 1.0) == 1.0
    assert 0.0 <= beta_quantile(2.0, 3.0, 0.0) < 1e-15


@given(
    st.sampled_from([BERNOULLI, BETA, GAUSSIAN, DETERMINISTIC]),
    st.floats(1e-3, 1e4),
    st.floats(0.0, 1.0),
    st.floats(0.0, 1.0, exclude_max=True),
    st.floats(-9.0, 9.0),
)
def test_a_signal_stays_in_its_range(
    law: int, parameter: float, mean: float, u: float, normal: float
) -> None:
    x = signal(law, parameter, mean, normal if law == GAUSSIAN else u)
    assert 0.0 <= x <= 1.0


@pytest.mark.parametrize(
    "wrong", [0, -1.0, np.nan, np.inf, -np.inf, "2", None, True, 1j, np.complex128(1), [1.0]]
)
def test_a_wrong_parameter_is_refused(wrong: Any) -> None:
    with pytest.raises(ss.errors.InvalidModel, match="concentration must be"):
        ss.signals.Beta(wrong)
    with pytest.raises(ss.errors.InvalidModel, match="sd must be"):
        ss.signals.Gaussian(wrong)


@pytest.mark.parametrize("name", ["rewards", "constraints", "thresholds"])
@pytest.mark.parametrize("wrong", [None, "Bernoulli", ss.signals.Bernoulli, 0.5])
def test_a_wrong_law_is_refused(name: str, wrong: Any) -> None:
    with pytest.raises(ss.errors.InvalidModel, match=f"the law of {name} must be"):
        ss.signals.Signals(**{name: wrong})


def test_wrong_problems_are_refused() -> None:
    cmdp = ss.problems.make("bandit").cmdp
    wrong: Any
    for wrong in (None, "bandit", ss.Problem(cmdp)):
        with pytest.raises(ss.errors.InvalidModel, match="needs a CMDP"):
            ss.Problem(wrong)
    for wrong in (ss.signals.Bernoulli(), "noisy"):
        with pytest.raises(ss.errors.InvalidModel, match="must be a Signals"):
            ss.Problem(cmdp, wrong)
    for wrong in (3, [0.5]):
        with pytest.raises(ss.errors.InvalidModel, match="drift must be"):
            ss.signals.Signals(drift=wrong)


def drifting(first: int, last: int | None = None, **options: Any) -> ss.Problem:
    """Strain of at most 1 of 4 a day over two days, then at most 3."""
    cmdp = ss.problems.make("machine", budget=2.0).cmdp
    return ss.Problem(
        cmdp, ss.signals.Signals(drift=ss.signals.Drift([6.0], first, last), **options)
    )


def test_a_step_changes_at_its_episode() -> None:
    problem = drifting(10)
    before, after = np.full((1, 2), 0.75), np.full((1, 2), 0.25)  # 1 - 1/4, then 1 - 3/4
    for episode, alpha in ((1, before), (9, before), (10, after), (11, after), (10**9, after)):
        np.testing.assert_array_equal(problem.alpha(episode), alpha)


def test_a_slope_starts_and_ends_at_its_episodes() -> None:
    problem = drifting(10, 14)
    for episode, alpha in ((1, 0.75), (10, 0.75), (11, 0.625), (12, 0.5), (13, 0.375), (14, 0.25),
                           (15, 0.25), (10**9, 0.25)):  # fmt: skip
        np.testing.assert_array_equal(problem.alpha(episode), np.full((1, 2), alpha))


def test_without_drift_the_thresholds_stay() -> None:
    problem = ss.problems.make("machine")
    assert problem.alpha(1) is problem.alpha(10**6)
    np.testing.assert_array_equal(problem.alpha(1), problem.cmdp.model.alpha)


def test_a_drift_is_seen_in_what_is_played() -> None:
    problem = drifting(3, thresholds=ss.signals.Deterministic())
    streams, policy = ss.streams(0), np.full((2, 2, 2), 0.5)
    seen = [ss.play(problem, policy, streams, t).thresholds for t in (1, 2, 3)]
    np.testing.assert_array_equal(seen, [[[1.0], [1.0]], [[1.0], [1.0]], [[3.0], [3.0]]])


@pytest.mark.parametrize(
    ("thresholds", "first", "last"),
    [
        ([6.0], 0, None),
        ([6.0], 1.5, None),
        ([6.0], "1", None),
        ([6.0], 5, 5),
        ([6.0], 5, 4),
        ([6.0], 5, 9.0),
        ([9.0], 1, None),  # above the range of 4 a day
        ([-1.0], 1, None),
        ([1.0, 1.0], 1, None),
        ([[1.0]], 1, None),
        (1.0, 1, None),
        ([np.nan], 1, None),
        ("high", 1, None),
    ],
)
def test_a_wrong_drift_is_refused(thresholds: Any, first: Any, last: Any) -> None:
    cmdp = ss.problems.make("machine").cmdp
    with pytest.raises(ss.errors.InvalidModel):
        ss.Problem(cmdp, ss.signals.Signals(drift=ss.signals.Drift(thresholds, first, last)))


def test_the_interface_is_all_that_a_learner_may_know() -> None:
    triage = ss.problems.make("triage")
    assert triage.interface.keys() == {
        "states", "actions", "horizon", "constraints", "start", "action_mask", "senses", "ranges",
        "stationary", "state_names", "action_names", "limit_names", "units",
    }  # fmt: skip
    assert triage.interface["start"] is None  # a distribution is to be learned
    assert triage.interface["action_mask"] is triage.cmdp.actions
    with pytest.raises(AttributeError, match="frozen"):
        triage.cmdp = triage.cmdp
    machine = ss.problems.make("machine").interface
    assert (machine["states"], machine["actions"], machine["horizon"]) == (2, 2, 2)
    assert (machine["constraints"], machine["start"]) == (1, 0)
    assert machine["senses"] == ("<=",)
    assert machine["ranges"] == {"reward": (0.0, 10.0), "constraints": ((0.0, 4.0),)}


# --- What happens is what is counted


@pytest.mark.parametrize("name", ["grid", "frozen-lake"])
def test_a_fall_is_counted_where_it_happens_and_once(name: str) -> None:
    problem = ss.problems.make(name)
    cmdp, streams = problem.cmdp, ss.streams(4)
    mask = np.ones((cmdp.H, cmdp.S, cmdp.A)) * (True if cmdp.actions is None else cmdp.actions)
    uniform = mask / mask.sum(axis=2, keepdims=True)
    falls = []
    for t in range(1, 2001):
        episode = ss.play(problem, uniform, streams, t)
        fell = episode.constraints[:, 0]
        falls.append(fell.sum())
        if name == "grid":
            pits = np.isin(episode.states, (5, 6))
            assert (fell == (pits[1:] & ~pits[:-1])).all()
        else:  # an ended episode waits in the last state
            assert (episode.states[1:][fell > 0] == cmdp.S - 1).all()
    assert set(falls) == {0.0, 1.0}
    expected = ss.evaluate(cmdp, uniform).constraints[0]
    assert abs(np.mean(falls) - expected) < 4.0 * np.sqrt(expected * (1.0 - expected) / 2000)


def test_means_by_outcome_must_average_to_the_model() -> None:
    walk = np.array([[[0.9, 0.1]], [[0.0, 1.0]]])
    cmdp = ss.CMDP(walk, [[0.0], [0.0]], [[[0.1], [0.0]]], [0.5], senses="<=", horizon=5)
    falls = np.zeros((1, 2, 1, 2))
    with pytest.raises(ss.errors.InvalidModel, match="average"):
        ss.Problem(cmdp, ss.signals.Signals(constraints=ss.signals.ByOutcome(falls)))
    with pytest.raises(ss.errors.InvalidModel, match="shape"):
        ss.Problem(cmdp, ss.signals.Signals(constraints=ss.signals.ByOutcome(falls[0])))
    with pytest.raises(ss.errors.InvalidModel, match="law of rewards"):
        ss.signals.Signals(rewards=ss.signals.ByOutcome(falls))  # type: ignore[arg-type]
