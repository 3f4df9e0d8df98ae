"""The fast learner against its reference implementation, over random problems and options, and in the user's units."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import safespot as ss
from safespot.reference import ReferenceSpot
from safespot.spot import visits
from tests.support.episodes import full_mask, random_episode, random_mask

Options = dict[str, Any]
Reference: Any = ReferenceSpot


@pytest.fixture(params=["dense", "pool"])
def layout(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Either layout of the successor counts, whatever the problem's size."""
    if request.param == "pool":
        monkeypatch.setattr(visits, "DENSE", 0)
    return str(request.param)


@st.composite
def learners(draw: st.DrawFn) -> tuple[tuple[int, int, int, int], Options]:
    """Sizes (S, A, H, m) and options of a learner."""
    S, A, H, m = (draw(st.integers(1, most)) for most in (4, 3, 4, 3))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    mask = draw(st.sampled_from(["none", "states", "steps"]))
    thresholds = draw(st.sampled_from(["learned", "learned", "learned", "totals", "steps"]))
    options: Options = {
        "start": draw(st.one_of(st.none(), st.integers(0, S - 1))),
        "action_mask": {
            "none": None,
            "states": random_mask(rng, S, A),
            "steps": random_mask(rng, H, S, A),
        }[mask],
        "thresholds": {
            "learned": None,
            "totals": H * rng.random(m),
            "steps": rng.random((m, H)),
        }[thresholds],
        "stance": draw(st.sampled_from(["pessimistic", "optimistic", 0.0, 0.3, 1.0])),
        "window": draw(st.sampled_from([1.0, 0.999, 0.5, 1 / 3, 0.1, 0.001])),
        "delta": draw(st.sampled_from([0.05, 0.3])),
        "bonus": draw(st.sampled_from(["hoeffding", "bernstein"])),
        "bonus_scale": draw(st.sampled_from([0.0, 0.003, 0.03, 0.03, 0.2, 1.0])),
        "estimator": draw(st.sampled_from(["representative", "pooled"])),
        "threshold_scale": draw(st.sampled_from([0.0, 0.05, 0.3, 1.0])),
        "clip_thresholds": draw(st.booleans()),
        "policy_step": draw(st.sampled_from([None, 0.02, 1.0])),
        "dual_step": draw(st.sampled_from([None, 0.1])),
        **draw(st.sampled_from([{"rho": 2.0}, {"slack": 0.7}])),
    }
    return (S, A, H, m), options


def agree(learner: ss.Spot, reference: Any) -> None:
    assert learner.episode == reference.episode
    bounds = reference.threshold_bounds
    used = reference.xi * bounds[0] + (1 - reference.xi) * bounds[1]
    for name, ours, theirs in (
        ("policy", learner.policy, reference.policy),
        ("multipliers", learner.multipliers, reference.multipliers),
        ("thresholds", learner.thresholds, used),
        ("lower bounds", learner.threshold_bounds[0], bounds[0]),
        ("upper bounds", learner.threshold_bounds[1], bounds[1]),
    ):
        assert ours.shape == theirs.shape
        assert np.abs(ours - theirs).max() <= 1e-10, (name, ours, theirs)


def show(learner: ss.Spot, reference: Any, e: ss.Episode) -> None:
    learner.observe(e)
    reference.observe(e.states, e.actions, e.rewards, e.constraints, e.thresholds)


@given(learners(), st.sampled_from([0.0, 0.3]), st.integers(0, 2**32 - 1))
@settings(deadline=None, max_examples=20)
@pytest.mark.usefixtures("layout")
@pytest.mark.filterwarnings("ignore:an episode goes beyond")
def test_learner_and_reference_agree(
    made: tuple[tuple[int, int, int, int], Options], missing: float, seed: int
) -> None:
    (S, A, H, m), options = made
    rng = np.random.default_rng(seed)
    T = int(rng.integers(100, 220))
    learner = ss.Spot(S, A, H, m, episodes=T, **options)
    reference = Reference(S, A, H, m, episodes=T, **options)
    mask, means = full_mask(options["action_mask"], H, S, A), rng.random((H, S, A))
    agree(learner, reference)
    for _ in range(T + 3):  # beyond T nothing happens but a warning
        e = random_episode(rng, mask, m, start=options["start"], missing=missing, means=means)
        show(learner, reference, e)
        agree(learner, reference)


@pytest.mark.usefixtures("layout")
def test_the_random_problems_move_the_policy_and_the_multipliers() -> None:
    """The comparison above is of learners that learn: with these options both move away from the start."""
    rng = np.random.default_rng(1)
    learner = ss.Spot(3, 2, 3, 2, episodes=200, rho=2.0, bonus_scale=0.03, threshold_scale=0.3)
    for _ in range(200):
        learner.observe(random_episode(rng, full_mask(None, 3, 3, 2), 2))
    assert np.abs(learner.policy - 0.5).max() > 0.02
    assert learner.multipliers.max() > 0.1


@pytest.mark.parametrize(
    "options",
    [
        {"window": 0.02, "stance": 0.25},
        {"thresholds": [0.6], "bonus": "bernstein", "start": None},
    ],
)
def test_anytime_agrees_over_two_epoch_ends(options: Options) -> None:
    S, A, H, m = 2, 2, 1, 1
    arguments = {"rho": 2.0, "bonus_scale": 0.1, "threshold_scale": 0.2, **options}
    learner = ss.Spot(S, A, H, m, episodes=None, **arguments)
    reference = Reference(S, A, H, m, episodes=None, **arguments)
    rng = np.random.default_rng(5)
    mask = full_mask(None, H, S, A)
    uniform = []
    for t in range(1, 3100):
        if np.ptp(learner.policy) == 0.0 and not learner.multipliers.any():
            uniform.append(t)
        show(learner, reference, random_episode(rng, mask, m, start=arguments.get("start", 0)))
        agree(learner, reference)
    assert {1, 1025, 3073} <= set(uniform)
    assert 1024 not in uniform
    assert 3072 not in uniform


@pytest.mark.usefixtures("layout")
def test_a_state_leaves_and_reenters_its_cap_without_a_visit() -> None:
    """State 0 at the first step is below its cap only while state 1 at the second step is far below its own."""
    options: Options = {"rho": 1.0, "start": None, "bonus_scale": 0.03, "thresholds": [0.0]}
    options["policy_step"] = 0.005
    learner = ss.Spot(2, 2, 2, 1, episodes=300, **options)
    reference = Reference(2, 2, 2, 1, episodes=300, **options)

    def episode(first: int, signal: float) -> ss.Episode:
        """Signals of 1 at the first step, `signal` at the second, where state 1 takes action 0."""
        signals = np.array([1.0, signal])
        return ss.Episode(
            np.array([first, 1, 0]), np.array([0, 0]), signals, signals[:, None], np.zeros((2, 1))
        )

    for _ in range(4):  # the only visits of state 0 at the first step
        show(learner, reference, episode(0, 1.0))
    moved = []
    for signal in [1.0] * 5 + [0.0] * 40 + [1.0] * 200:
        before = learner.policy[0, 0]
        show(learner, reference, episode(1, signal))
        agree(learner, reference)
        moved.append(bool((learner.policy[0, 0] != before).any()))
    changes = np.flatnonzero(np.diff(moved))
    assert not moved[0]
    assert not moved[-1]
    assert len(changes) == 2  # it leaves its cap and comes back


def test_costs_and_ranges_give_the_same_learner() -> None:
    S, A, H, m = 3, 2, 3, 3
    rng = np.random.default_rng(3)
    reward_range, ranges = (-2.0, 6.0), [(0.0, 5.0), (-1.0, 1.0), (10.0, 30.0)]
    senses = ["<=", ">=", "<="]
    low, high = np.array(ranges).T
    cost = np.array([sense == "<=" for sense in senses])
    offset, scale = np.where(cost, high, low), np.where(cost, low - high, high - low)

    common: Options = {"episodes": 200, "bonus_scale": 0.03, "threshold_scale": 0.2, "stance": 0.4}
    common.update({"window": 0.4, "policy_step": 0.02})
    terms: Options = {
        "senses": senses,
        "ranges": {"reward": reward_range, "constraints": ranges},
    }
    slack = np.array([0.5, 0.9, 0.6])  # inside; the smallest counts
    totals = np.array([1.1, 2.8, 0.3])  # inside, of an episode
    steps = 0.6 + 0.4 * rng.random((m, H))
    known: list[tuple[Options, Options]] = [
        ({}, {}),
        ({"thresholds": H * offset + scale * totals}, {"thresholds": totals}),
        ({"thresholds": (offset + scale * steps.T).T}, {"thresholds": steps}),
    ]
    pairs = [
        (
            ss.Spot(S, A, H, m, **terms, **common, slack=slack * abs(scale), **outer),
            ss.Spot(S, A, H, m, **common, rho=2 * H / 0.5, **inner),
        )
        for outer, inner in known
    ]
    exact: Options = {"rtol": 1e-12, "atol": 1e-12}
    for _ in range(200):
        e = random_episode(rng, full_mask(None, H, S, A), m, missing=0.2)
        user = ss.Episode(
            e.states, e.actions,
            -2.0 + 8.0 * e.rewards, offset + scale * e.constraints, offset + scale * e.thresholds,
        )  # fmt: skip
        for outside, inside in pairs:
            outside.observe(user)
            inside.observe(e)
            np.testing.assert_allclose(outside.policy, inside.policy, rtol=0, atol=1e-12)
            prices = inside.multipliers * 8.0 / abs(scale)
            np.testing.assert_allclose(outside.multipliers, prices, **exact)
            used = H * offset + scale * inside.thresholds
            np.testing.assert_allclose(outside.thresholds, used, **exact)
            lower, upper = outside.threshold_bounds
            ends = np.array([H * offset + scale * end for end in inside.threshold_bounds])
            np.testing.assert_allclose(lower, ends.min(axis=0), **exact)
            np.testing.assert_allclose(upper, ends.max(axis=0), **exact)
            assert (lower <= upper).all()
    assert all(np.abs(inside.policy - 0.5).max() > 0.01 for _, inside in pairs)
    assert all(inside.multipliers.max() > 0.1 for _, inside in pairs)
    lower, upper = pairs[0][0].threshold_bounds
    assert (lower < upper).all()


def test_what_a_user_reads_cannot_be_written_to() -> None:
    learner = ss.Spot(2, 2, 2, 1, episodes=10, rho=1.0)
    for array in (
        learner.policy,
        learner.multipliers,
        learner.thresholds,
        *learner.threshold_bounds,
    ):
        with pytest.raises(ValueError, match="read-only"):
            array[:] = 0.0
    before = learner.policy
    for _ in range(5):
        learner.observe(random_episode(np.random.default_rng(0), full_mask(None, 2, 2, 2), 1))
    assert (before == 0.5).all()  # a copy: it does not follow the learner
