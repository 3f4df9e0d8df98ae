"""Problems as Gymnasium environments: the checker, the noise of `play`, endings, masks, vectors."""

from __future__ import annotations

import copy
import json
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from gymnasium.vector import AutoresetMode, SyncVectorEnv

import safespot as ss
from safespot.gym.problem_env import ProblemEnv
from safespot.model.transitions import pick
from tests.test_package import SOURCE, run_python


def mixed() -> ss.Problem:
    """Senses of both kinds, units of their own, a mask per step, and thresholds that drift."""
    mask = np.ones((3, 2, 3), bool)
    mask[1, :, 0] = False
    cmdp = ss.CMDP(
        transitions=np.full((2, 3, 2), 0.5),
        rewards=[[-4.0, 1.0, 2.0], [0.0, 3.0, 6.0]],
        constraints=[[[0.5, 1.0, 2.0]] * 2, [[10.0, 20.0, 30.0]] * 2],
        thresholds=[[0.5] * 3, [25.0] * 3],
        start=[0.25, 0.75],
        senses=[">=", "<="],
        actions=mask,
        reward_range=(-4, 6),
        constraint_ranges=[(0, 2), (10, 30)],
    )
    drift = ss.signals.Drift([[0.0] * 3, [10.0] * 3], first=3)
    laws = {
        "rewards": ss.signals.Beta(),
        "constraints": ss.signals.Gaussian(),
        "thresholds": ss.signals.Deterministic(),
    }
    return ss.Problem(cmdp, ss.signals.Signals(**laws, drift=drift))  # type: ignore[arg-type]


def uniform(problem: ss.Problem) -> Any:
    cmdp = problem.cmdp
    mask = cmdp.model.mask.reshape(-1, cmdp.S, cmdp.A)
    policy = mask / mask.sum(axis=2, keepdims=True)
    return np.broadcast_to(policy, (cmdp.H, cmdp.S, cmdp.A))


def by_steps(problem: ss.Problem, seed: int, episodes: int) -> list[ss.Episode]:
    """A uniform policy in the environment, its actions drawn as `play` draws them."""
    env, pi = ProblemEnv(problem), uniform(problem)
    rng = ss.streams(seed).actions
    key = "cost" if problem.cmdp.senses == ("<=",) else "constraint"
    played = []
    for t in range(episodes):
        state, _ = env.reset(seed=seed if t == 0 else None)
        states, rows, ended, h = [state], [], False, 0
        while not ended:
            action = int(pick(pi[h, state], rng.random()))
            state, reward, ended, truncated, info = env.step(action)
            assert not truncated
            assert info["action"] == action
            states.append(state)
            rows.append((action, reward, info[key], info["threshold"]))
            h += 1
        actions, rewards, constraints, thresholds = (np.array(x) for x in zip(*rows, strict=True))
        played.append(ss.Episode(np.array(states), actions, rewards, constraints, thresholds))
    return played


PROBLEMS = [*ss.problems.names(), "mixed"]


def make(name: str) -> ss.Problem:
    return mixed() if name == "mixed" else ss.problems.make(name)


@pytest.mark.parametrize("name", PROBLEMS)
def test_gymnasiums_checker_is_content(name: str) -> None:
    # Warnings are errors here.
    check_env(ProblemEnv(make(name)))


@pytest.mark.parametrize("name", ss.problems.names())
def test_every_problem_is_registered_and_checked(name: str) -> None:
    env = gymnasium.make(f"safespot/{name}-v0", render_mode="ansi")
    check_env(env.unwrapped)
    assert isinstance(env.unwrapped, ProblemEnv)
    assert env.unwrapped.problem.cmdp == ss.problems.make(name).cmdp


@pytest.mark.parametrize("name", PROBLEMS)
def test_the_environment_plays_what_play_plays(name: str) -> None:
    problem, streams = make(name), ss.streams(11)
    expected = [ss.play(problem, uniform(problem), streams, t) for t in range(1, 6)]
    assert by_steps(problem, 11, 5) == expected


def test_without_a_seed_noise_differs_and_goes_on() -> None:
    problem = ss.problems.make("random", states=50, horizon=30)

    def walk(env: ProblemEnv) -> list[int]:
        env.reset()
        return [env.step(0)[0] for _ in range(30)]

    first, second = ProblemEnv(problem), ProblemEnv(problem)
    assert walk(first) != walk(second)
    assert walk(first) != walk(first)


def test_an_episode_is_terminated_at_its_horizon() -> None:
    env = ProblemEnv("machine")
    env.reset(seed=0)
    assert env.step(0)[2:4] == (False, False)
    assert env.step(0)[2:4] == (True, False)
    with pytest.raises(ss.errors.InvalidOption, match=r"call reset\(\)"):
        env.step(0)
    env.reset()
    env.step(0)


@pytest.mark.parametrize("action", [-1, 2, 0.5, "left", None])
def test_what_is_no_action_is_refused(action: Any) -> None:
    env = ProblemEnv("machine")
    env.reset(seed=0)
    with pytest.raises(ss.errors.InvalidOption, match="action"):
        env.step(action)


def test_signals_are_in_the_users_terms() -> None:
    machine = ProblemEnv(
        ss.Problem(
            ss.problems.make("machine").cmdp,
            ss.signals.Signals(
                ss.signals.Deterministic(), ss.signals.Deterministic(), ss.signals.Deterministic()
            ),
        )
    )
    machine.reset(seed=0)
    _, reward, _, _, info = machine.step(1)
    assert reward == 10.0
    assert set(info) == {"cost", "threshold", "action", "action_mask"}
    np.testing.assert_array_equal(info["cost"], [2.0])
    np.testing.assert_array_equal(info["threshold"], [0.5])
    triage = ProblemEnv("triage")
    _, info = triage.reset(seed=0)
    assert set(info) == {"action_mask"}
    assert set(triage.step(0)[4]) == {"constraint", "threshold", "action", "action_mask"}


def test_senses_of_both_kinds_share_a_key() -> None:
    env = ProblemEnv(mixed())
    env.reset(seed=0)
    info = env.step(2)[4]
    assert "cost" not in info
    assert info["constraint"].shape == (2,)
    np.testing.assert_array_equal(info["threshold"], [0.5, 25.0])  # deterministic
    env.reset()
    env.reset()  # the third episode: the drift has happened
    np.testing.assert_array_equal(env.step(2)[4]["threshold"], [0.0, 10.0])
    env.reset(seed=0)
    np.testing.assert_array_equal(env.step(2)[4]["threshold"], [0.5, 25.0])


def test_masks_say_what_is_admissible_next() -> None:
    problem = mixed()
    env = ProblemEnv(problem)
    masks = [env.reset(seed=4)[1]["action_mask"]]
    masks += [env.step(2)[4]["action_mask"] for _ in range(3)]
    assert [mask.tolist() for mask in masks] == [[1, 1, 1], [0, 1, 1], [1, 1, 1], [1, 1, 1]]
    assert masks[0].dtype == np.int8  # what Discrete.sample takes
    assert env.action_space.sample(masks[1]) in (1, 2)


def test_an_inadmissible_action_becomes_the_lowest_admissible_one() -> None:
    ours, theirs = ProblemEnv(mixed()), ProblemEnv(mixed())
    for env in (ours, theirs):
        env.reset(seed=4)
        env.step(2)
    wanted, taken = ours.step(0), theirs.step(1)
    assert wanted[4]["action"] == taken[4]["action"] == 1
    assert wanted[:2] == taken[:2]


def test_an_absorbing_state_is_played_to_the_horizon() -> None:
    env = ProblemEnv("frozen-lake")
    state, info = env.reset(seed=1)
    for h in range(20):
        state, _, ended, _, info = env.step(2)
        assert ended == (h == 19)
    assert state == 16  # always right: fallen by now, whatever the noise of this seed
    assert info["action_mask"].tolist() == [1, 0, 0, 0]


def test_it_renders_as_text() -> None:
    env = ProblemEnv("machine", render_mode="ansi")
    env.reset(seed=0)
    assert env.render() == "step 0 of 2: state 0"
    state, reward, _, _, info = env.step(1)
    assert env.render() == (
        f"step 1 of 2: state {state}, reward {reward:g}, cost {info['cost'].tolist()}, "
        f"threshold {info['threshold'].tolist()}"
    )
    silent = ProblemEnv("machine")
    silent.reset(seed=0)
    assert silent.render() is None


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"problem": 3}, "ProblemEnv takes a Problem"),
        ({"problem": ss.problems.make("machine"), "budget": 2}, "and its options; got .*budget=2"),
        ({"problem": "machine", "render_mode": "human"}, "render_mode must be None or 'ansi'"),
        ({"problem": "machine", "color": 1}, "Expected one of: budget"),
    ],
)
def test_wrong_arguments_are_refused(arguments: dict[str, Any], words: str) -> None:
    with pytest.raises(ss.errors.InvalidOption, match=words):
        ProblemEnv(**arguments)


def test_options_reach_the_problem() -> None:
    env: Any = gymnasium.make("safespot/machine-v0", budget=2.0).unwrapped
    assert env.problem.cmdp.limits == pytest.approx([2.0])
    assert env.spec.make().unwrapped.problem.cmdp == env.problem.cmdp
    spoken: Any = ProblemEnv("machine", render_mode="ansi")
    assert spoken.spec.make().render_mode == "ansi"


def test_a_copy_shares_the_problem() -> None:
    env: Any = ProblemEnv(mixed())
    env.reset(seed=0)
    assert env.spec.make().unwrapped.problem is env.problem
    copied = copy.deepcopy(env)
    assert copied.problem is env.problem
    ours, theirs = env.step(1), copied.step(1)  # but goes its own way
    assert ours[:4] == theirs[:4]
    np.testing.assert_array_equal(ours[4]["constraint"], theirs[4]["constraint"])


def vector(problem: ss.Problem, mode: AutoresetMode, n: int = 3) -> SyncVectorEnv:
    return SyncVectorEnv([lambda: ProblemEnv(problem)] * n, autoreset_mode=mode)


def test_where_a_vector_keeps_the_last_signals() -> None:
    # What the page on Gymnasium says.
    problem = ss.problems.make("machine")
    envs = vector(problem, AutoresetMode.SAME_STEP)
    envs.reset(seed=0)
    stop = np.zeros(3, int)
    info = envs.step(stop)[4]
    assert info["cost"].shape == info["threshold"].shape == (3, 1)
    *_, ended, _, info = envs.step(stop)
    assert ended.all()
    assert "cost" not in info
    assert info["final_info"]["cost"].shape == (3, 1)
    envs = vector(problem, AutoresetMode.NEXT_STEP)
    envs.reset(seed=0)
    envs.step(stop)
    *_, ended, _, info = envs.step(stop)
    assert ended.all()
    assert info["cost"].shape == (3, 1)
    *_, ended, _, info = envs.step(stop)  # the reset
    assert not ended.any()
    assert "cost" not in info
    assert info["action_mask"].shape == (3, 2)


def test_gymnasium_imports_us_by_name(tmp_path: Any) -> None:
    code = """
import gymnasium, json, sys
light = "safespot" not in sys.modules
env = gymnasium.make("safespot.gym:safespot/machine-v0")
print(json.dumps([light, env.spec.id]))
"""
    answer = json.loads(run_python(code, SOURCE.parent, tmp_path).stdout)
    assert answer == [True, "safespot/machine-v0"]


def test_the_module_is_a_lazy_name_of_the_package(tmp_path: Any) -> None:
    code = """
import safespot as ss, sys
before = "gymnasium" in sys.modules
ss.problems.make("machine")
print(before, "gymnasium" in sys.modules, ss.gym.ProblemEnv.__name__)
"""
    assert run_python(code, SOURCE.parent, tmp_path).stdout.split() == [
        "False",
        "False",
        "ProblemEnv",
    ]
