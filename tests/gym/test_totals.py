"""Hints that come once an episode, early ends, and declared totals: environments as patients are."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

import safespot as ss
from safespot.gym.clinic import Clinic
from safespot.problems.dosing import BLOCKS, DRUG_EDGES, TUMOR_EDGES

H, LIMIT = 7, 3.0


class Ward(gymnasium.Env[Any, Any]):
    """One state; action 1 costs 1. The limit of 3 over 7 steps is hinted at in one of several ways."""

    observation_space: Any = spaces.Discrete(1)
    action_space: Any = spaces.Discrete(2)

    def __init__(self, hints: str, ends: float = 0.0) -> None:
        self.hints, self.ends = hints, ends

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[int, dict[str, Any]]:
        super().reset(seed=seed)
        self.steps = 0
        return 0, {}

    def step(self, action: int) -> tuple[int, float, bool, bool, dict[str, Any]]:
        self.steps += 1
        info: dict[str, Any] = {"cost": float(action)}
        noise = self.np_random.uniform(-0.4, 0.4)
        share = LIMIT / H + noise
        ended = self.np_random.random() < self.ends
        last = self.steps == H or ended
        if self.hints == "every step" or (self.hints == "last step" and self.steps == H):
            info["threshold"] = share
        if self.hints == "total" and last:
            info["threshold_total"] = np.array([LIMIT + noise])
        if self.hints == "not first" and self.steps > 1:
            info["threshold"] = share
        return 0, 0.5, ended, False, info


def learned(env: Ward, episodes: int = 1_500, **options: Any) -> tuple[float, float]:
    box = ss.gym.BlackBox(env, horizon=H, endings=ss.gym.Ending(reward=0, constraints=0))
    learner = ss.Uniform(**box.interface, episodes=episodes, estimator="total", **options)
    ss.learn(box, learner)
    (low,), (high,) = learner.threshold_bounds
    return float(low), float(high)


@pytest.mark.parametrize(
    ("hints", "options", "width"),
    [
        ("total", {}, 0.15),
        ("total", {"shared_threshold": True}, 0.4),
        ("last step", {"shared_threshold": True}, 1.2),
        ("last step", {"shared_threshold": True, "independent_hints": True}, 0.4),
        ("not first", {"shared_threshold": True}, 0.4),
        ("not first", {}, 1.3),
    ],
)
def test_hints_that_do_not_come_with_every_step(
    hints: str, options: dict[str, Any], width: float
) -> None:
    low, high = learned(Ward(hints), **options)
    assert low <= LIMIT <= high
    assert high - low <= width


def test_early_ends_cost_nothing_where_steps_share_a_threshold() -> None:
    """Without the declaration, steps that were never reached may have had any threshold."""
    low, high = learned(Ward("every step", ends=0.2))
    assert high - low > 2.0
    low, high = learned(Ward("every step", ends=0.2), shared_threshold=True)
    assert low <= LIMIT <= high
    assert high - low <= 0.4


def test_what_no_total_can_be_is_refused() -> None:
    class Wrong(Ward):
        said: Any = 99.0

        def step(self, action: int) -> Any:
            *rest, info = super().step(action)
            return *rest, {**info, "threshold_total": self.said}

    box = ss.gym.BlackBox(Wrong("total"), horizon=H)
    for said, words in ((99.0, "99.0 lies outside of 7 steps"), ("much", "are needed, got 'much'")):
        Wrong.said = said
        with pytest.raises(ss.errors.InvalidEpisode, match=f"threshold_total: .*{words}"):
            box.play(np.ones((H, 1, 2)) / 2, np.full(H, 0.5))
    Wrong.said = LIMIT
    learner = ss.Uniform(**box.interface, episodes=9, estimator="total", independent_hints=True)
    with pytest.raises(ss.errors.InvalidOption, match="without independent_hints"):
        ss.learn(box, learner)


def test_declared_totals_are_checked_and_narrow_the_meter() -> None:
    box = ss.gym.BlackBox(
        Ward("total"), horizon=H, limits=ss.Limit(total=(0, 4), threshold_total=(2, 4))
    )
    idle = np.zeros((H, 1, 2))
    idle[:, :, 0] = 1.0
    busy = idle[:, :, ::-1]
    box.play(idle, np.full(H, 0.5), 0)
    with pytest.raises(ss.errors.InvalidEpisode, match="constraint_totals"):
        box.play(busy, np.full(H, 0.5))
    plain = ss.gym.BlackBox(Ward("total"), horizon=H)
    widths = []
    for each in (plain, box):
        run = ss.learn(each, ss.Fixed(**each.interface, episodes=400, policy=idle), seed=1)
        low, high = run.evidence.mean_bounds
        assert low[-1, 0] <= -LIMIT <= high[-1, 0]
        widths.append(float(high[-1, 0] - low[-1, 0]))
    assert widths[1] < 0.7 * widths[0]
    with pytest.raises(ss.errors.InvalidOption, match="constraint_totals"):
        ss.gym.BlackBox(Ward("total"), horizon=H, limits=ss.Limit(total=(0, 8)))


def misses(runs: int, patients: int, delta: float) -> int:
    """In how many runs any bound on the tolerance of 6 doses, at any time, is wrong."""
    wrong = 0
    for seed in range(runs):
        box = ss.gym.BlackBox(
            Clinic(), horizon=BLOCKS, states=[list(TUMOR_EDGES), list(DRUG_EDGES)],
            endings=ss.gym.Ending(reward=0, constraints=1),
        )  # fmt: skip
        learner = ss.Uniform(
            **box.interface,
            episodes=patients,
            estimator="total",
            shared_threshold=True,
            delta=delta,
        )
        run = ss.learn(box, learner, seed=seed, record="all")
        low, high = run.threshold_bounds
        wrong += bool(((low > 6.0) | (high < 6.0)).any() or not low[-1, 0] <= 6.0 <= high[-1, 0])
    return wrong


def test_the_tolerance_of_patients_who_die_is_known() -> None:
    """A threshold of 6 doses, of patients with hidden types, some of whom die early."""
    assert misses(4, 40, 0.05) == 0
