"""Certificates from a learner's data: against a reference implementation, over many seeds, and as records."""

from __future__ import annotations

import itertools
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import safespot as ss
from safespot.errors import InvalidFile, InvalidModel, InvalidOption
from safespot.judging import model_bounds
from safespot.learners.spot import Spot
from safespot.planning.counted import Pooled
from safespot.spot import visits
from safespot.spot.optimism import make_radii
from tests.support.contract import VARIANTS, A, H, M, S, Subject

Array = Any
SUBJECTS = sorted(set(VARIANTS["spot"]) - {"total-window"})  # windows of totals certify nothing


def random_policy(rng: np.random.Generator, mask: Array) -> Array:
    weights = rng.random(mask.shape) * mask
    return weights / weights.sum(axis=2, keepdims=True)


def fed(variant: str, how_many: int, **changes: Any) -> tuple[Subject, Spot, list[ss.Episode]]:
    """A learner of a variant of the contract, and the episodes that it has seen."""
    subject = Subject("spot", variant)
    rng = np.random.default_rng(7)
    seen = [subject.episode(rng) for _ in range(how_many)]
    learner = subject.make(**changes)
    for episode in seen:
        learner.observe(episode)
    return subject, learner, seen


def reference(
    subject: Subject, learner: Spot, seen: list[ss.Episode], times: int, policy: Array
) -> Array:
    """Value bounds of the reward and the constraints, [2, 1+M], inside, from the episodes alone."""
    low, width, offset, scale = subject.maps
    n, sums = np.zeros((H, S, A)), np.zeros((1 + M, H, S, A))
    counts, starts = np.zeros((H, S, A, S)), np.zeros(S)
    for e in seen:
        starts[e.states[0]] += 1
        for h in range(H):
            at = h, e.states[h], e.actions[h]
            n[at] += 1
            counts[(*at, e.states[h + 1])] += 1
            sums[(0, *at)] += (e.rewards[h] - low) / width
            for i in range(M):
                sums[(1 + i, *at)] += (e.constraints[h, i] - offset[i]) / scale[i]
    n, sums, counts = times * n, times * sums, times * counts
    T, delta = learner.options.episodes, learner.options.delta
    if T is None:
        k, T = 1, 1024
        while len(seen) >= T:
            k, T = k + 1, T + 1024 * 2**k
        delta = delta / (k * (k + 1))
    X = S * A * H * T / delta
    l = math.log(10 * S * X)  # noqa: E741
    bounds = np.zeros((2, 1 + M))
    for c in range(1 + M):
        lower, upper = np.zeros(S), np.zeros(S)
        for h in reversed(range(H)):
            ahead = H - h - 1
            L, U = np.zeros((S, A)), np.full((S, A), ahead + 1.0)
            for s, a in itertools.product(range(S), range(A)):
                N = n[h, s, a]
                if N < 2:
                    continue
                p = counts[h, s, a] / N
                plain = math.sqrt((S + math.log(X)) / N)
                sharp = sum(
                    math.sqrt(2 * q * (1 - q) * l / (N - 1)) + 7 * l / (3 * (N - 1)) for q in p if q
                )
                phi = math.sqrt(math.log(M * X) / N) + ahead * min(plain, sharp)
                mean = sums[c, h, s, a] / N
                L[s, a] = max(mean - phi + p @ lower, 0.0)
                U[s, a] = min(mean + phi + p @ upper, ahead + 1.0)
            lower, upper = (policy[h] * L).sum(axis=1), (policy[h] * U).sum(axis=1)
        start = subject.interface["start"]
        if start is not None:
            bounds[:, c] = lower[start], upper[start]
        elif seen:
            phi_0 = H * math.sqrt((S + math.log(X)) / len(seen))
            mu: Array = starts / len(seen)
            bounds[:, c] = max(mu @ lower - phi_0, 0.0), min(mu @ upper + phi_0, H)
        else:
            bounds[:, c] = 0.0, H
    return bounds


def outside(subject: Subject, inside: Array) -> tuple[Array, Array]:
    """Reward bounds [2] and constraint bounds [2, M] in the user's units, lower end first."""
    low, width, offset, scale = subject.maps
    reward = H * low + width * inside[:, 0]
    return reward, np.sort(H * offset + scale * inside[:, 1:], axis=0)


# The bounds


@pytest.mark.parametrize("variant", SUBJECTS)
def test_bounds_are_those_of_the_twin(variant: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if variant == "pool":
        monkeypatch.setattr(visits, "DENSE", 0)
    many = 1100 if variant == "anytime" else 200  # beyond the first epoch
    for episodes, times in ((0, 1), (1, 1), (40, 1), (many, 3000)):
        subject, learner, seen = fed(variant, episodes)
        multiply(learner, times)
        policy = random_policy(np.random.default_rng(1), subject.mask)
        found = ss.certify(learner, policy)
        reward, values = outside(subject, reference(subject, learner, seen, times, policy))
        np.testing.assert_allclose(found.reward_bounds, reward, rtol=0, atol=1e-11)
        np.testing.assert_allclose(found.value_bounds, values, rtol=0, atol=1e-11)
        assert found.episodes == episodes
        assert found.confidence == 0.95
    # In the end no bound is at its end: the comparison says something of every part.
    low, high = outside(subject, np.array([np.zeros(1 + M), np.full(1 + M, H)]))[1]
    assert (found.value_bounds[0] > low).all()
    assert (found.value_bounds[1] < high).all()


def multiply(learner: Spot, times: int) -> None:
    """Let every step have been seen so many times."""
    counts = learner.statistics
    for array in (counts.n, counts.sums, counts.successors.dense, counts.successors.counts):
        array[:] *= times


@pytest.mark.parametrize("variant", ["default", "units", "anytime", "pool"])
def test_threshold_bounds_are_those_of_the_unscaled_learner(variant: str) -> None:
    many = 1100 if variant == "anytime" else 300
    _, learner, _ = fed(variant, many)
    _, proven, _ = fed(variant, many, threshold_scale=1.0)
    np.testing.assert_array_equal(
        ss.certify(learner).threshold_bounds, np.array(proven.threshold_bounds)
    )


@pytest.mark.parametrize(
    "changes",
    [
        {"bonus_scale": 0.0},
        {"threshold_scale": 0.0},
        {"clip_thresholds": False, "threshold_scale": 5.0},
        {"bonus": "bernstein"},
        {"stance": 1.0},
    ],
)
def test_what_the_learner_plays_with_does_not_matter(changes: dict[str, Any]) -> None:
    subject, learner, _ = fed("default", 300)
    _, other, _ = fed("default", 300, **changes)
    policy = random_policy(np.random.default_rng(2), subject.mask)
    assert ss.certify(learner, policy).as_dict() == ss.certify(other, policy).as_dict()


@pytest.mark.parametrize("variant", ["masked", "units", "known"])
def test_differences_are_those_of_the_other_bounds(variant: str) -> None:
    """A model's certificate: the value's bounds less the threshold's, and > 0 is kept in either sense."""
    found = ss.certify(fed(variant, 60)[1])
    (low, high), (least, most) = found.value_bounds, found.threshold_bounds
    costs = np.array(found.senses) == "<="
    np.testing.assert_allclose(
        found.difference_bounds[0], np.where(costs, least - high, low - most)
    )
    np.testing.assert_allclose(
        found.difference_bounds[1], np.where(costs, most - low, high - least)
    )
    assert found.difference_confidence == found.confidence


def test_totals_are_certified_with_a_fifth_of_delta() -> None:
    """Every family of events has its fifth: bounds are wider than the learner's own."""
    _, learner, _ = fed("default", 400, estimator="total", threshold_scale=1.0)
    (least, most), (low, high) = ss.certify(learner).threshold_bounds, learner.threshold_bounds
    assert (least < low).all()
    assert (high < most).all()
    _, fifth, _ = fed("default", 400, estimator="total", threshold_scale=1.0, delta=0.01)
    np.testing.assert_allclose([least, most], fifth.threshold_bounds, atol=0.05)
    _, drifting, _ = fed("default", 10, estimator="total", threshold_scale=1.0, window=0.5)
    with pytest.raises(InvalidOption, match="thresholds may drift"):
        ss.certify(drifting)


def test_known_thresholds_are_their_own_bounds() -> None:
    _, learner, _ = fed("known", 50)
    low, high = ss.certify(learner).threshold_bounds
    np.testing.assert_allclose(low, [1.0, 2.0])
    np.testing.assert_array_equal(low, high)


def test_a_limit_that_nothing_can_break_is_safe_without_data() -> None:
    learner = ss.Spot(S, A, H, M, episodes=10, rho=1.0, thresholds=[0.0, 1.0])
    found = ss.certify(learner)
    assert found.verdict == ("safe", "unknown")
    assert found.safe.tolist() == [True, False]
    assert found.more.tolist() == [0.0, math.inf]


def test_the_policy_of_the_coming_episode_is_the_default() -> None:
    _, learner, _ = fed("default", 100)
    assert ss.certify(learner).as_dict() == ss.certify(learner, learner.policy).as_dict()
    assert ss.certify(learner).covers(learner.policy)


def test_the_error_of_a_pair_by_its_definition() -> None:
    """After 0, 1, 2 and 20,000 visits, in the last step and in the one before; of the last pair one successor alone."""
    radii = model_bounds.proven(make_radii(2, 2, 2, 1, 100_000, 0.1))
    n, counts, ends = np.array([0.0, 1, 2, 20_000]), np.array([1.0, 1, 1, 20_000]), [0, 1, 3, 4]
    states, first = np.array([0, 0, 1, 1], np.int32), np.array([[0, *ends], [4, 4, 5, 7, 8]])
    pooled = Pooled(
        np.array([n, n]), np.zeros((2, 2, 4)), first, np.tile(states, 2), np.tile(counts, 2), np.ones(2) / 2
    )  # fmt: skip
    before, last = model_bounds.pair_errors(radii, pooled)
    assert np.isinf(before[:2]).all()
    assert np.isinf(last[:2]).all()
    np.testing.assert_allclose(last[2:], np.sqrt(radii.L_r / n[2:]), rtol=1e-14)
    plain, sharp = math.sqrt((2 + radii.L_p) / 2), 7 * radii.L_b / (3 * 19_999)
    assert sharp < math.sqrt((2 + radii.L_p) / 20_000)
    assert plain < 2 * math.sqrt(2 * 0.25 * radii.L_b)
    np.testing.assert_allclose(before[2:] - last[2:], [plain, sharp], rtol=1e-11)


# Verdicts


def constant_learner(episodes: int, value: float, threshold: float, sense: str = ">=") -> Spot:
    """One state, one action, one step, in the range [0, 4]: every signal is the same."""
    learner = ss.Spot(
        1, 1, 1, 1, senses=sense, ranges={"constraints": (0.0, 4.0)}, episodes=10**6, rho=1.0
    )
    episode = ss.Episode(
        np.zeros(2, int), np.zeros(1, int), np.ones(1), np.array([[value]]), np.array([[threshold]])
    )
    for _ in range(episodes):
        learner.observe(episode)
    return learner


@pytest.mark.parametrize(
    ("sense", "value", "threshold", "verdict"),
    [
        (">=", 3.5, 0.5, "safe"),
        (">=", 0.5, 3.5, "unsafe"),
        ("<=", 0.5, 3.5, "safe"),
        ("<=", 3.5, 0.5, "unsafe"),
        (">=", 2.0, 2.0, "unknown"),
        ("<=", 2.0, 2.0, "unknown"),
    ],
)
def test_verdicts_in_either_sense(sense: str, value: float, threshold: float, verdict: str) -> None:
    found = ss.certify(constant_learner(400, value, threshold, sense))
    assert found.verdict == (verdict,)
    assert found.safe.tolist() == [verdict == "safe"]
    assert (found.shortfall[0] <= 0.0) == (verdict == "safe")
    (low,), (high,) = found.value_bounds
    assert low <= value <= high
    (low,), (high,) = found.threshold_bounds
    assert low <= threshold <= high
    if verdict == "unknown":
        assert math.isinf(found.more[0])  # no gap: nothing would decide
    else:
        assert found.more[0] == 0.0


@pytest.mark.parametrize(
    ("sense", "value", "threshold", "verdict", "shortfall"),
    [
        (">=", (2.0, 3.0), (1.0, 2.0), "safe", 0.0),
        (">=", (1.9, 3.0), (1.0, 2.0), "unknown", 0.1),
        (">=", (0.5, 1.0), (1.0, 2.0), "unknown", 1.5),
        (">=", (0.5, 0.9), (1.0, 2.0), "unsafe", 1.5),
        ("<=", (0.5, 1.0), (1.0, 2.0), "safe", 0.0),
        ("<=", (0.5, 1.1), (1.0, 2.0), "unknown", 0.1),
        ("<=", (2.0, 3.0), (1.0, 2.0), "unknown", 2.0),
        ("<=", (2.1, 3.0), (1.0, 2.0), "unsafe", 2.0),
    ],
)
def test_where_one_verdict_ends_and_the_next_begins(
    sense: str,
    value: tuple[float, float],
    threshold: tuple[float, float],
    verdict: str,
    shortfall: float,
) -> None:
    made = ss.certify(constant_learner(1, 2.0, 2.0)).as_dict()
    made |= {"senses": [sense], "verdict": [verdict]}
    made |= {"value_bounds": [[v] for v in value], "threshold_bounds": [[v] for v in threshold]}
    ends = [value[0] - threshold[1], value[1] - threshold[0]]
    made["difference_bounds"] = [[v] for v in (ends if sense == ">=" else [-ends[1], -ends[0]])]
    found = ss.Certificate.from_dict(made)
    assert found.verdict == (verdict,)
    assert found.shortfall[0] == pytest.approx(shortfall)


def test_more_episodes_are_about_enough() -> None:
    """What is promised while it is unknown decides it, and hardly anything less does."""
    few = ss.certify(constant_learner(60, 3.0, 1.0))
    assert few.verdict == ("unknown",)
    needed = 60 + int(few.more[0])
    assert ss.certify(constant_learner(math.ceil(1.1 * needed), 3.0, 1.0)).verdict == ("safe",)
    assert ss.certify(constant_learner(needed // 2, 3.0, 1.0)).verdict == ("unknown",)


# Over many seeds


def errors(seeds: int, episodes: int, **options: Any) -> int:
    """In how many runs a certificate was wrong, about any of several policies, data-dependent ones among them."""
    wrong = 0
    for seed in range(seeds):
        problem = ss.problems.make("random", states=2, actions=2, horizon=2, seed=seed % 10)
        learner = ss.Spot(**problem.interface, episodes=episodes, rho=2.0, **options)
        ss.learn(problem, learner, seed=seed)
        policies = [
            learner.policy,
            ss.solve(problem.cmdp).policy,
            ss.slater(problem.cmdp).policy,
            learner.proposal,
        ]
        wrong += any(is_wrong(ss.certify(learner, pi), problem, pi) for pi in policies)
    return wrong


def is_wrong(found: ss.Certificate, problem: ss.Problem, policy: Array) -> bool:
    """Whether any bound misses the truth."""
    truth, room = ss.evaluate(problem.cmdp, policy), 1e-9
    return not (
        (found.value_bounds[0] <= truth.constraints + room).all()
        and (truth.constraints <= found.value_bounds[1] + room).all()
        and (found.threshold_bounds[0] <= problem.cmdp.limits + room).all()
        and (problem.cmdp.limits <= found.threshold_bounds[1] + room).all()
        and found.reward_bounds[0] - room <= truth.value <= found.reward_bounds[1] + room
    )


def test_a_certificate_is_wrong_in_at_most_delta_of_the_runs() -> None:
    assert errors(20, 3000, bonus_scale=0.01, threshold_scale=0.1) <= 20 * 0.05


def test_an_unsafe_policy_is_never_certified() -> None:
    """The worst policy of each problem, after as much data as a certificate of the best needs."""
    for seed in range(8):
        problem = ss.problems.make("random", states=2, actions=2, horizon=2, seed=seed, slack=0.3)
        cmdp = problem.cmdp
        plans = [
            np.eye(2)[np.array(plan).reshape(2, 2)]
            for plan in itertools.product(range(2), repeat=4)
        ]
        worst = min(plans, key=lambda pi: float(ss.evaluate(cmdp, pi).constraints[0]))
        if ss.evaluate(cmdp, worst).constraints[0] >= cmdp.limits[0]:
            continue
        learner = ss.Spot(**problem.interface, episodes=20_000, rho=2.0, bonus_scale=0.01)
        ss.learn(problem, learner, seed=seed, track="grid")
        assert not ss.certify(learner, worst).safe.any()


# The record


def test_a_certificate_survives_a_file_and_json(tmp_path: Path) -> None:
    _, learner, _ = fed("units", 30)
    found = ss.certify(learner)
    found.save(tmp_path / "certificate")
    loaded = ss.Certificate.load(tmp_path / "certificate")
    assert loaded.as_dict() == found.as_dict()
    assert str(loaded) == str(found)
    text = json.dumps(found.as_dict(), allow_nan=False)
    assert ss.Certificate.from_dict(json.loads(text)).as_dict() == found.as_dict()


def test_it_names_the_data_of_a_learner(tmp_path: Path) -> None:
    subject, learner, _ = fed("masked", 30)
    found = ss.certify(learner)
    learner.save(tmp_path / "learner")
    assert ss.certify(Spot.load(tmp_path / "learner")).data_digest == found.data_digest
    learner.observe(subject.episode(np.random.default_rng(0)))
    assert ss.certify(learner).data_digest != found.data_digest
    assert ss.certify(fed("masked", 30, delta=0.1)[1]).data_digest != found.data_digest
    other = random_policy(np.random.default_rng(3), subject.mask)
    assert not found.covers(other)


def test_a_learners_file_is_no_certificate(tmp_path: Path) -> None:
    fed("default", 0)[1].save(tmp_path / "learner")
    with pytest.raises(InvalidFile, match="holds a learner, expected a certificate"):
        ss.Certificate.load(tmp_path / "learner")


def test_the_text_says_what_a_reviewer_must_know() -> None:
    text = str(ss.certify(constant_learner(60, 3.0, 1.0)))
    for part in ("confidence 0.95", "constraint 0: UNKNOWN", "at most 1,000,000 episodes in all"):
        assert part in text
    text = str(ss.certify(constant_learner(300, 0.5, 3.5, "<=")))
    assert "constraint 0: SAFE" in text
    assert "must be at most its threshold" in text
    assert "thresholds are the ones that were given" in str(ss.certify(fed("known", 0)[1]))


# Mistakes


def test_wrong_calls_say_what_to_do() -> None:
    _, learner, _ = fed("default", 3)
    with pytest.raises(InvalidModel, match="policy has shape"):
        ss.certify(learner, [[0.5, 0.5]])
    _, masked, _ = fed("masked", 3)
    with pytest.raises(InvalidModel, match="not admissible"):
        ss.certify(masked, np.full((H, S, A), 1.0 / A))


@pytest.mark.parametrize("name", ["spot-epochs", "explore-then-plan", "posterior-sampling"])
def test_learners_in_phases_have_their_own_certificates(name: str) -> None:
    learner = ss.learners.make(name, ss.problems.make("bandit").interface, episodes=10)
    with pytest.raises(InvalidOption, match="its certificates come from its own trials"):
        ss.certify(learner)


def test_beyond_t_nothing_is_proven() -> None:
    _, learner, _ = fed("default", 12, episodes=12)
    assert ss.certify(learner).episodes == 12
    with pytest.warns(UserWarning, match="beyond the learner's T = 12"):
        learner.observe(Subject("spot", "default").episode(np.random.default_rng(1)))
    with pytest.raises(InvalidOption, match="seen 13 episodes, more than its T = 12"):
        ss.certify(learner)
