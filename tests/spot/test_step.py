"""The step of Algorithm 2 in either layout of the counts, against its reference; small enough to run uncompiled."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
import pytest

import safespot as ss
from safespot.kernels import sources
from safespot.learners.compiled_step import MOVED, observe_episode
from safespot.reference import ReferenceSpot
from safespot.spot import limits, visits
from tests.support.episodes import full_mask, random_episode

Reference: Any = ReferenceSpot


def answered(learner: ss.Spot, episode: ss.Episode) -> bool:
    """Let the learner observe; whether its step says that the policy has moved."""
    inside = learner.check(episode).inside
    learner.make_room()
    step = observe_episode(learner.rates, learner.state, learner.statistics, learner.window, inside)
    learner.settle()
    return step == MOVED


def watched(
    sizes: tuple[int, int, int, int], episodes: int, **options: Any
) -> tuple[ss.Spot, Any, list[bool]]:
    """The learner and its reference after the same episodes, and after which of them the policy had moved."""
    S, A, H, m = sizes
    given = {"episodes": 50, "rho": 2.0, "bonus_scale": 0.03, "policy_step": 1.0, **options}
    learner, reference = ss.Spot(*sizes, **given), Reference(*sizes, **given)
    rng, moved = np.random.default_rng(S), []
    for _ in range(episodes):
        e = random_episode(rng, full_mask(None, H, S, A), m, start=options.get("start", 0))
        before = learner.policy
        moved.append(answered(learner, e))
        assert moved[-1] or (learner.policy == before).all()
        reference.observe(e.states, e.actions, e.rewards, e.constraints, e.thresholds)
        np.testing.assert_allclose(learner.policy, reference.policy, rtol=0, atol=1e-10)
        np.testing.assert_allclose(learner.multipliers, reference.multipliers, rtol=0, atol=1e-10)
    return learner, reference, moved


@pytest.fixture(params=["block", "lists"])
def layout(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Either layout of the successor counts, whatever the problem's size."""
    if request.param == "lists":
        monkeypatch.setattr(visits, "DENSE", 0)
    return str(request.param)


@pytest.mark.parametrize("start", [1, None])
@pytest.mark.parametrize("sizes", [(5, 2, 3, 2), (7, 3, 2, 1), (1, 2, 4, 1)])
def test_both_layouts_are_the_reference(
    layout: str, sizes: tuple[int, int, int, int], start: int | None
) -> None:
    start = start if start is None else min(start, sizes[0] - 1)
    learner, _, moved = watched(sizes, 25, start=start)
    assert (learner.statistics.successors.dense.size > 0) == (layout == "block")
    assert not moved[0]  # nothing was known before the first episode
    assert any(moved)


def test_many_actions_are_worked_on_state_by_state(layout: str) -> None:
    """Rows longer than vectors, and so many pairs that a large problem's states come in several blocks."""
    _, _, moved = watched((4, 260, 2, 1), 8, start=None, bonus_scale=0.0)
    assert any(moved)


def test_what_follows_an_end_nobody_saw_is_at_its_cap(monkeypatch: pytest.MonkeyPatch) -> None:
    """Unfinished episodes lead to states that were never met at the next step; both layouts know nothing of them."""
    learners, rng = [], np.random.default_rng(3)
    for dense in (2**22, 0):
        monkeypatch.setattr(visits, "DENSE", dense)
        learners.append(ss.Spot(4, 2, 4, 1, episodes=60, rho=2.0, bonus_scale=0.0, policy_step=1.0))
    for _ in range(60):
        states, missing = np.r_[0, rng.integers(4, size=4)], np.arange(4) >= rng.integers(1, 6)
        signals = np.where(missing, np.nan, rng.random(4))
        episode = ss.Episode(
            states, rng.integers(2, size=4), signals, signals[:, None], np.full((4, 1), 0.5),
            unfinished=bool(missing.any()),
        )  # fmt: skip
        for learner in learners:
            learner.observe(episode)
        np.testing.assert_allclose(learners[0].policy, learners[1].policy, rtol=0, atol=1e-12)
    assert np.ptp(learners[0].policy) > 0.1


def test_states_that_cannot_move_are_passed_over(layout: str) -> None:
    """With a wide bonus everything is at its cap: the policy stays, whatever was met."""
    learner, _, moved = watched((6, 2, 3, 1), 12, bonus_scale=5.0)
    assert not any(moved)
    assert (learner.policy == 0.5).all()


def test_steps_of_an_unfinished_episode_are_counted_up_to_its_end(layout: str) -> None:
    learner = ss.Spot(3, 2, 3, 1, episodes=50, rho=2.0)
    nothing = np.full(3, math.nan)
    rewards, signals = nothing.copy(), nothing[:, None].copy()
    rewards[0], signals[0] = 0.5, 0.25
    learner.observe(
        ss.Episode(np.zeros(4, int), np.zeros(3, int), rewards, signals, signals, unfinished=True)
    )
    assert learner.statistics.n.sum(axis=1).tolist() == [1, 0, 0]
    assert learner.statistics.sums[:, 0, 0].tolist() == [0.5, 0.25]
    assert learner.statistics.starts.tolist() == [1, 0, 0]
    assert learner.episode == 2


def test_another_record_of_limits_brings_its_own_kernels() -> None:
    """The loop calls them, and compiled loops depend on their sources."""

    class Other(NamedTuple):
        full: bool

    told: list[Any] = []

    def learn(*arguments: Any) -> None:
        told.append(arguments)

    def room(window: Other) -> bool:
        return not window.full

    limits.register(Other, learn, room)
    try:
        assert set(sources.CHOSEN[Other]) == {learn, room}
        assert limits.window_has_room(Other(False))
        assert not limits.window_has_room(Other(True))
        limits.learn_thresholds(Other(False), *"abcd")
        assert told == [(Other(False), *"abcd")]
    finally:
        del limits._LEARN[Other], limits._ROOM[Other], sources.CHOSEN[Other]
