"""The patients of `dosing` as an environment: the simulator's own courses, hints that are right on average."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

import safespot as ss
from safespot.gym.clinic import Clinic
from safespot.problems import dosing
from safespot.problems.dosing import DEATH, DOSES, DRUG_EDGES, TUMOR_EDGES, state_of
from safespot.problems.dosing.tumor import LETHAL, admit, dead, treat

DECLARED: dict[str, Any] = {
    "horizon": 14, "states": [list(TUMOR_EDGES), list(DRUG_EDGES)],
    "endings": ss.gym.Ending(reward=0, constraints=1),
}  # fmt: skip


def always(action: int) -> Any:
    return np.tile(np.eye(len(DOSES))[action], (14, dosing.STATES, 1))


@pytest.mark.filterwarnings("ignore")  # the checker has opinions about unbounded spaces
def test_it_is_an_environment_that_gymnasium_and_ours_find_sound() -> None:
    check_env(Clinic(), skip_render_check=True)
    assert ss.gym.check_env(Clinic(), **DECLARED) == []


def test_a_course_is_the_simulators() -> None:
    env, rng = Clinic(), np.random.default_rng(0)
    seen, _ = env.reset(seed=7)
    rng = np.random.Generator(np.random.PCG64(np.random.SeedSequence(7)))
    patient, body = admit(rng)
    assert seen.tolist() == [body.tumor, 0.0]
    for action in (0, 2, 4, 1):
        seen, health, ended, cut, info = env.step(action)
        body, expected = treat(patient, body, DOSES[action], rng)
        rng.standard_normal()  # the biomarker
        assert (health, ended, cut) == (expected, dead(body), False)
        assert seen.tolist() == [min(body.tumor, LETHAL), body.drug]
        assert info["cost"] == DOSES[action]


def test_states_are_those_of_the_table_and_death_costs_full_doses() -> None:
    box = ss.gym.BlackBox(Clinic(), **DECLARED)
    assert box.interface["states"] == dosing.STATES
    env = Clinic()
    for seed in range(20):
        seen, _ = env.reset(seed=seed)
        assert box._state(seen) == state_of(env.body)
    rng = np.random.default_rng(0)
    untreated = [box.play(always(0), rng.random(14), seed) for seed in range(60)]
    lost = [e for e in untreated if e.states[-1] == DEATH]
    assert 15 < len(lost) < 50  # half of the untreated die
    for episode in lost:
        after = episode.states[:-1] == DEATH
        assert (episode.constraints[after] == 1.0).all()
        assert (episode.rewards[after] == 0.0).all()


def test_hints_are_right_on_average_and_never_outside() -> None:
    for tolerance in (1.0, 6.0, 12.5):
        env = Clinic(tolerance)
        env.reset(seed=0)
        hints = [env.step(4)[4]["threshold"] for _ in range(3000)]
        assert 0.0 <= min(hints) <= max(hints) <= 1.0
        assert np.mean(hints) == pytest.approx(tolerance / 14, abs=4 * np.std(hints) / 54)


def test_spot_learns_on_patients() -> None:
    box = ss.gym.BlackBox(Clinic(), **DECLARED)
    learner = ss.Spot(
        **box.interface, episodes=400, slack=1.8, bonus_scale=0.003, estimator="pooled",
        threshold_scale=0.3, policy_step=0.1, dual_step=0.2,
    )  # fmt: skip
    run = ss.learn(box, learner, seed=0, record="all")
    doses = run.constraint_values[:, 0]
    assert doses[-100:].mean() < doses[:100].mean() - 0.3  # it learns to save doses
    low, high = (bound[0] for bound in learner.threshold_bounds)
    assert low < 6.0 < high
