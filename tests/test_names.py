"""Names and units: given once, they reach whoever writes for people; nothing is computed with them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import safespot as ss

KEYS = ("state_names", "action_names", "limit_names", "units")
WARD: dict[str, Any] = {
    "state_names": ["ill", "well"],
    "action_names": ["wait", "treat"],
    "limit_names": ["drug"],
    "units": {"reward": "good days", "constraints": ["tablets a week"]},
}


def ward(**names: Any) -> ss.CMDP:
    return ss.CMDP(
        transitions=[[[0.9, 0.1], [0.5, 0.5]], [[0.2, 0.8], [0.1, 0.9]]],
        rewards=[[0, 0], [1, 1]],
        constraints=[[[0, 1], [0, 1]]],
        thresholds=[1.0],
        senses="<=",
        horizon=3,
        **names,
    )


def test_a_name_is_the_users_word_or_a_number() -> None:
    named, plain = ward(**WARD).names, ward().names
    assert [named.state(1), named.action(1), named.limit(0)] == ["well", "treat", "drug"]
    assert [plain.state(1), plain.action(1), plain.limit(0)] == [
        "state 1",
        "action 1",
        "constraint 0",
    ]
    assert (named.quantity(0), named.reward) == ("drug (tablets a week)", "reward (good days)")
    assert (plain.quantity(0), plain.reward) == ("constraint 0", "reward")


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"state_names": ["ill"]}, "state_names has 1 texts; expected one for each of 2"),
        ({"state_names": "ill"}, "state_names must be texts"),
        ({"action_names": ["wait", 3]}, "action_names must be texts"),
        ({"action_names": ["wait", " "]}, "action_names must be texts"),
        ({"action_names": ["wait", "wait"]}, "'wait' twice"),
        ({"limit_names": 7}, "limit_names must be texts"),
        ({"state_names": {"ill": 0, "well": 1}}, "state_names must be texts"),
        ({"units": "tablets"}, "units must be a dict"),
        ({"units": {"constraint": ["tablets"]}}, "did you mean `constraints`?"),
        ({"units": {"reward": 1}}, "the unit of the reward must be a text"),
        ({"units": {"constraints": ["a", "b"]}}, "units of constraints has 2 texts"),
    ],
)
def test_wrong_names_are_refused_everywhere(wrong: dict[str, Any], words: str) -> None:
    with pytest.raises(ss.errors.InvalidModel, match=words.replace("?", r"\?")):
        ward(**wrong)
    interface = {**ss.Problem(ward()).interface, **wrong}
    with pytest.raises(ss.errors.InvalidOption, match=words.replace("?", r"\?")):
        ss.Uniform(**interface, episodes=10)


@pytest.mark.parametrize("name", ss.problems.names())
def test_ready_problems_have_names(name: str) -> None:
    problem = ss.problems.make(name)
    cmdp, names = problem.cmdp, problem.names
    if name == "random":  # drawn, so that nothing in it is anything
        assert names == ss.signals.Names()
        return
    assert [len(each or ()) for each in (names.states, names.actions, names.limits)] == [
        cmdp.S, cmdp.A, cmdp.m,
    ]  # fmt: skip
    assert all(names.unit(i) for i in range(cmdp.m))


def test_they_travel_with_the_interface(tmp_path: Path) -> None:
    problem = ss.Problem(ward(**WARD))
    for learner in (
        ss.Uniform(**problem.interface, episodes=50),
        ss.learners.make("spot", problem.interface, episodes=50, slack=1.0),
    ):
        assert learner.interface.names == problem.names
        assert learner.anew().interface.names == problem.names
        learner.save(tmp_path / "learner")
        assert ss.learners.load(tmp_path / "learner").interface.names == problem.names


def test_a_cmdp_keeps_them_in_its_file_and_with_other_thresholds(tmp_path: Path) -> None:
    cmdp = ward(**WARD)
    cmdp.save(tmp_path / "ward")
    assert ss.CMDP.load(tmp_path / "ward").names == cmdp.names
    assert cmdp.with_thresholds([2.0]).names == cmdp.names
    assert ward() == cmdp  # the same process, whatever it is called


def test_a_certificate_speaks_of_limits_by_name(tmp_path: Path) -> None:
    problem = ss.Problem(ward(**WARD))
    found = ss.certify(problem, ss.solve(problem.cmdp).policy, episodes=50)
    assert "\n  drug: " in str(found)
    assert found.names.states is None  # it tells nothing of states
    found.save(tmp_path / "certificate")
    assert ss.Certificate.load(tmp_path / "certificate").names == found.names


def test_environments_and_tables_take_them(tmp_path: Path) -> None:
    died = ss.gym.Ending(reward=0, constraints=1)
    edges = [[0.5], [0.3]]
    names = ["small, clean", "small, drugged", "large, clean", "large, drugged"]
    box = ss.gym.BlackBox(
        ss.gym.Clinic(),
        horizon=14,
        states=edges,
        endings=died,
        state_names=names,
        limits="dose",
    )
    assert box.interface["state_names"] == (*names, "ended")
    assert ss.Uniform(**box.interface, episodes=9).interface.names.limit(0) == "dose"
    assert ss.gym.env_interface(ss.gym.ProblemEnv("machine"))["action_names"] == ("gentle", "fast")
    with pytest.raises(ss.errors.InvalidOption, match="expected one for each of 5"):
        ss.gym.BlackBox(
            ss.gym.Clinic(), horizon=14, states=edges, endings=died, state_names=names[:2]
        )


def test_logs_and_their_models_take_them(tmp_path: Path) -> None:
    problem, noise = ss.Problem(ward(**WARD)), ss.streams(seed=0)
    half = np.full((3, 2, 2), 0.5)
    ss.write_log(tmp_path / "past.csv", [ss.play(problem, half, noise, t) for t in range(1, 30)])
    log = ss.read_log(tmp_path / "past.csv", **problem.interface)
    assert {key: log.interface[key] for key in KEYS} == {
        key: problem.interface[key] for key in KEYS
    }
    assert ss.logs.empirical_model(log).cmdp.names == problem.names
