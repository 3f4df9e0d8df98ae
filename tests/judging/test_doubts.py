"""No certificate says "safe" where its own data contradict what it assumes: cut off, left out, or impossible."""

from __future__ import annotations

import functools
import json
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

import safespot as ss
from safespot.evidence.certificate import Bounds, issue
from safespot.signals.terms import terms_of

H = 2
ALWAYS = np.ones((H, 1, 1))
FACE: dict[str, Any] = {
    "states": 1,
    "actions": 1,
    "horizon": H,
    "constraints": 1,
    "start": 0,
    "senses": "<=",
}


class Costly(gym.Env[Any, Any]):
    """A single state and action; every `wild`-th step costs 6, where the declared range is [0, 1]."""

    observation_space: Any = gym.spaces.Discrete(1)
    action_space: Any = gym.spaces.Discrete(1)

    def __init__(self, wild: int = 7) -> None:
        self.wild, self.count = wild, 0

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[int, dict[str, Any]]:
        return 0, {}

    def step(self, action: int) -> tuple[int, float, bool, bool, dict[str, Any]]:
        self.count += 1
        cost = 6.0 if self.wild and self.count % self.wild == 0 else 0.0
        return 0, 1.0, False, False, {"cost": cost, "threshold": 0.6}


def box(wild: int = 7) -> ss.gym.BlackBox:
    return ss.gym.BlackBox(Costly(wild), horizon=H, start=0, clip=True)


def fresh(**changes: Any) -> Any:
    return ss.Spot(**{**FACE, "episodes": 3000, "slack": 0.5, "delta": 0.1, **changes})


def plain_episode(cost: float = 0.0, clipped: int = 0) -> ss.Episode:
    return ss.Episode(
        np.zeros(H + 1, int), np.zeros(H, int), np.ones(H), np.full((H, 1), cost), np.full((H, 1), 0.6),
        clipped=clipped,
    )  # fmt: skip


def spot(durable: Any) -> ss.Spot:
    """The learner in a durable one."""
    learner: ss.Spot = durable.learner
    return learner


def in_doubt(certificate: ss.Certificate, word: str) -> bool:
    """Nothing is proven, it says why, and it still says so after a file."""
    again = ss.Certificate.from_dict(json.loads(json.dumps(certificate.as_dict())))
    for each in (certificate, again):
        assert set(each.verdict) == {"unknown"}
        assert not each.safe.any()
        assert np.isinf(each.more).all()
        assert any(word in doubt for doubt in each.doubts)
        assert "SAFE." not in str(each)
        assert each.doubts[0] in str(each)
    return True


# --- Cut off


def test_a_trial_of_signals_that_were_cut_off_proves_nothing() -> None:
    assert ss.certify(box(wild=0), ALWAYS, episodes=400).verdict == ("safe",)
    assert in_doubt(ss.certify(box(), ALWAYS, episodes=400), "cut off")
    assert "in doubt" in repr(ss.gym.evaluate_policy(box(), ALWAYS, 30))


def test_one_wild_signal_is_enough_and_rounding_is_none() -> None:
    one = [plain_episode() for _ in range(399)] + [plain_episode(clipped=1)]
    found = ss.certify(one, ALWAYS, episodes=400, interface=FACE)
    assert in_doubt(found, "1 signals lay outside")

    class Rounded(Costly):
        def step(self, action: int) -> Any:
            return 0, 1.0 + 1e-15, False, False, {"cost": -1e-15, "threshold": 0.6}

    trial = ss.certify(Rounded(), ALWAYS, episodes=400, horizon=H, start=0, clip=True)
    assert (trial.verdict, trial.doubts) == (("safe",), ())


def test_the_count_is_of_the_signals_that_lay_outside() -> None:
    some = box(wild=3)  # its constructor has taken one step
    played = [some.play(ALWAYS, np.full(H, 0.5)) for _ in range(6)]
    assert [e.clipped for e in played] == [1, 0, 1, 1, 0, 1]
    assert [int((e.constraints == 1.0).sum()) for e in played] == [1, 0, 1, 1, 0, 1]


def test_a_guard_of_signals_that_were_cut_off_says_that_it_proves_nothing(tmp_path: Path) -> None:
    learner = ss.SpotEpochs(**FACE)
    guard = ss.Guard(learner, ALWAYS, budget=10)
    with pytest.warns(UserWarning, match="no longer prove that its budget is kept") as told:
        ss.learn(box(), guard, 700)
    assert len([each for each in told if "no longer prove" in str(each.message)]) == 1
    assert guard.baseline_verdict == ("unknown",)
    guard.save(tmp_path / "guard")
    assert ss.Guard.load(tmp_path / "guard").baseline_verdict == ("unknown",)
    clean = ss.Guard(ss.SpotEpochs(**FACE), ALWAYS, budget=10)
    ss.learn(box(wild=0), clean, 700)
    assert clean.baseline_verdict == ("safe",)


# --- Left out


def table(episodes: int, wild: int) -> dict[str, Any]:
    """A log of which every `wild`-th episode has a cost out of range."""
    rows = np.arange(episodes * H)
    cost = np.where((rows // H) % wild == wild - 1, 6.0, 0.0) if wild else np.zeros(len(rows))
    zeros = np.zeros(len(rows), int)
    return {
        "episode": rows // H, "step": rows % H, "state": zeros, "action": zeros, "next_state": zeros,
        "reward": np.ones(len(rows)), "constraint_0": cost, "threshold_0": np.full(len(rows), 0.6),
    }  # fmt: skip


def test_a_warm_start_warns_of_what_it_leaves_out_and_certifies_nothing() -> None:
    learner = fresh()
    with pytest.warns(UserWarning, match=r"750 of 3,000 episodes were left out \(750 because"):
        ss.logs.warm_start(learner, table(3000, 4))
    assert learner.episode == 2251
    assert in_doubt(ss.certify(learner), "750 episodes were left out")
    whole = fresh()
    ss.logs.warm_start(whole, table(3000, 0))  # and no warning
    assert ss.certify(whole).verdict == ("safe",)


def test_a_budget_for_exploring_that_nothing_proves_any_more_is_told_once() -> None:
    learner = ss.SpotEpochs(**FACE, explore_budget=50.0)
    learner.observe(plain_episode())
    with pytest.warns(UserWarning, match="explore_budget is kept: 2 signals"):
        learner.observe(plain_episode(clipped=2))
    learner.observe(plain_episode(clipped=1))  # warnings are errors
    ss.SpotEpochs(**FACE).observe(plain_episode(clipped=2))  # there is no budget


def test_a_guard_that_was_charged_for_a_log_with_gaps_says_that_it_proves_nothing() -> None:
    """What was left of it would be a surplus, to be spent later."""
    guard = ss.Guard(fresh(), ALWAYS, budget=10)
    with (
        pytest.warns(UserWarning, match="no longer prove that its budget is kept") as told,
        pytest.warns(UserWarning, match="200 of 400 episodes were left out"),
    ):
        ss.logs.warm_start(guard, table(400, 2))
    assert len(told) == 1
    assert guard.spent[1][0] < 0.0
    learner = fresh()
    with pytest.warns(UserWarning, match="left out"):
        ss.logs.warm_start(learner, table(400, 2))
    beside = ss.Guard(learner, ALWAYS, budget=10)  # the log is none of its account
    for _ in range(60):
        beside.observe(plain_episode())
    assert beside.baseline_verdict == ("safe",)


# --- Impossible


def test_episodes_of_another_policy_are_refused() -> None:
    face = {**FACE, "actions": 2}
    never = np.zeros((H, 1, 2))
    never[:, :, 0] = 1.0
    good = [plain_episode() for _ in range(50)]
    assert ss.certify(good, never, interface=face).verdict == ("safe",)
    bad = ss.Episode(
        np.zeros(H + 1, int), np.array([0, 1]), np.ones(H), np.zeros((H, 1)), np.full((H, 1), 0.6)
    )
    with pytest.raises(ss.errors.InvalidEpisode, match="episode 49 takes action 1 in state 0"):
        ss.certify([*good[:-1], bad], never, episodes=50, interface=face)


# --- Records


@functools.cache
def valid() -> dict[str, Any]:
    return ss.certify(box(wild=0), ALWAYS, episodes=50).as_dict()


WRONG: dict[str, Any] = {
    "confidence": [5, 0, 1, -0.5, None, "0.9", True, float("nan")],
    "senses": [["??"], [], ["<=", "<="], "<=", [1], None],
    "value_bounds": [[[2], [1]], [[0]], [[0], [0, 1]], [[None], [1]], [["0"], [1]], [[float("nan")], [1]], [[], []]],
    "threshold_bounds": [[[2], [1]], [[0, 0], [1, 1]], 3],
    "reward_bounds": [[2, 1], [0], [0, 1, 2], [None, 1], ["0", 1], [0, float("inf")], [-(10**30), 1]],
    "episodes": [-1, 1.5, "3", None, True],
    "more": [[-1], [], [0, 0], ["x"], [0.5], [10**30]],
    "names": [{}, {**valid()["names"], "action_names": {}}, {**valid()["names"], "units": {}}],
    "basis": [None, 3],
    "subject": ["everything"],
    "since": [0, 1.5, "3"],
    "assumptions": [None, "text", [3]],
    "doubts": [None, "text", [3], ["seen to fail"]],
    "policy_digest": ["", "xyz", 3, None],
    "data_digest": ["", "../..", None],
    "verdict": [["safe", "safe"], [], None, ["unsafe"], "safe"],
}  # fmt: skip


@pytest.mark.parametrize(("name", "value"), [(k, v) for k, values in WRONG.items() for v in values])
def test_a_record_that_no_certificate_can_be_is_refused(name: str, value: Any) -> None:
    assert ss.Certificate.from_dict(valid()).verdict == ("safe",)
    with pytest.raises(ss.errors.InvalidFile, match="not a certificate"):
        ss.Certificate.from_dict({**valid(), name: value})


@pytest.mark.parametrize("name", valid())
def test_a_record_that_lacks_something_is_refused(name: str) -> None:
    plain = {k: v for k, v in valid().items() if k != name}
    with pytest.raises(ss.errors.InvalidFile, match="not a certificate"):
        ss.Certificate.from_dict(plain)


def test_a_doubt_outweighs_every_bound() -> None:
    bounds = np.array([0.0]), np.array([0.1])
    far = np.array([5.0]), np.array([6.0])
    for value, threshold in ((bounds, far), (far, bounds)):
        room = threshold[0] - value[1], threshold[1] - value[0]
        made = issue(
            terms_of(ss.Limit("cost", "<=", total=(0, 9))), Bounds(room, value, threshold, (0.0, 1.0)), 0.1, episodes=3,
            basis="", assumptions=(), subject="policy", policy_digest="0" * 64, data_digest="0" * 64,
            doubts=("it was seen to fail",),
        )  # fmt: skip
        assert in_doubt(made, "seen to fail")


# --- Numbers at the edge


@pytest.mark.parametrize("delta", [5e-324, 1e-300, 1e-17, 0.0, 1.0, float("nan")])
def test_a_confidence_that_cannot_be_told_from_one_is_refused(delta: float) -> None:
    with pytest.raises(ss.errors.InvalidOption, match="delta"):
        ss.certify(box(wild=0), ALWAYS, episodes=50, delta=delta)
    with pytest.raises(ss.errors.InvalidOption, match="delta"):
        ss.episodes_needed(0.1, 1.0, delta)
    for learner in ("spot", "spot-epochs", "uniform", "opt-cmdp"):
        needs: dict[str, Any] = {"slack": 0.5} if learner == "spot" else {}
        with pytest.raises(ss.errors.InvalidOption, match="delta"):
            ss.learners.make(learner, FACE, episodes=3000, delta=delta, **needs)
    with pytest.raises(ss.errors.InvalidOption, match="delta"):
        ss.SafetyMeter(FACE, delta=delta)
