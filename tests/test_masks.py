"""What a masked array hides is missing, wherever an array comes in: what stands under the mask counts for nothing."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

import safespot as ss
from safespot.data.logs import columns
from safespot.observations import numbering

H = 2
FACE: dict[str, Any] = {"states": 1, "actions": 2, "horizon": H, "constraints": 1, "start": 0}


def hidden(values: Any, *where: int) -> Any:
    """The array with the entries at `where` (flat) masked."""
    array = np.ma.array(values)
    mask = np.zeros(array.shape, bool)
    mask.flat[list(where)] = True
    array.mask = mask
    return array


def episode(**changes: Any) -> ss.Episode:
    arrays: dict[str, Any] = {
        "states": [0, 0, 0], "actions": [1, 0], "rewards": [0.5, 0.5], "constraints": [[0.5], [0.5]],
        "thresholds": [[0.5], [0.5]],
    }  # fmt: skip
    return ss.Episode(**(arrays | changes))


@pytest.mark.parametrize(
    "changes",
    [
        {"rewards": hidden([0.5, 99.0], 1)},
        {"rewards": [0.5, np.ma.masked]},
        {"rewards": [hidden(99.0, 0), 0.5]},
        {"constraints": hidden([[0.5], [1.0]], 1)},
        {"constraints": [hidden([0.5], 0), [0.5]]},
        {"constraints": (hidden([0.5], 0), np.array([0.5]))},
        {"states": hidden([0, 0, 0], 2)},
        {"actions": hidden([1, 0], 0)},
    ],
)
def test_an_episode_cannot_have_hidden_signals(changes: dict[str, Any]) -> None:
    with pytest.raises(ss.errors.InvalidEpisode, match=next(iter(changes))):
        episode(**changes)


def test_a_mask_that_hides_nothing_is_none() -> None:
    whole = {
        name: np.ma.array(value) for name, value in columns([episode()]).items() if name == "reward"
    }
    assert episode(rewards=whole["reward"]) == episode()
    assert episode(states=np.ma.array([0, 0, 0])) == episode()


def test_a_hidden_threshold_is_no_sample() -> None:
    for given in (hidden([[0.9], [0.5]], 0), [[np.ma.masked], [0.5]], [hidden([0.9], 0), [0.5]]):
        np.testing.assert_array_equal(episode(thresholds=given).thresholds, [[np.nan], [0.5]])


def test_what_an_unfinished_episode_hides_never_came() -> None:
    broken = episode(
        rewards=hidden([0.5, 99.0], 1), constraints=hidden([[0.5], [99.0]], 1), unfinished=True
    )
    assert np.isnan(broken.rewards[1])
    meter, worst = ss.SafetyMeter(FACE), ss.SafetyMeter(FACE)
    for _ in range(200):
        meter.observe(broken)
        worst.observe(episode(constraints=[[0.5], [0.0]]))
    assert meter.mean_bounds[1] < 0.8
    np.testing.assert_array_equal(meter.violation_bounds[1], worst.violation_bounds[1])


def test_a_log_in_masked_arrays_is_read_without_what_they_hide() -> None:
    """As `fetchnumpy` of DuckDB gives them."""
    for name, flat, reason in (
        ("reward", 0, "reward is missing"),
        ("constraint_0", 1, "constraint_0 is missing"),
        ("action", 2, "action is not a whole number"),
    ):
        table = columns([episode(), episode()])
        table[name] = hidden(table[name], flat)
        log = ss.read_log(table, **FACE)
        assert log.reasons == {reason: 1}
        assert log.doubts.rejected == 1
    table = columns([episode(), episode()])
    table["threshold_0"] = hidden(table["threshold_0"], 3)
    assert np.isnan(ss.read_log(table, **FACE).episodes[1].thresholds[1, 0])


class Shy(gym.Env[Any, Any]):
    """Shows masked arrays in its second step."""

    observation_space: Any = gym.spaces.Discrete(1)
    action_space: Any = gym.spaces.Discrete(2)

    def __init__(self, second: dict[str, Any]) -> None:
        self.second, self.step_number = second, 0

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[int, dict[str, Any]]:
        self.step_number = 0
        return 0, {}

    def step(self, action: int) -> tuple[int, float, bool, bool, dict[str, Any]]:
        self.step_number += 1
        info: dict[str, Any] = {"constraint": 0.5, "threshold": 0.5}
        return 0, 1.0, False, False, info | (self.second if self.step_number == 2 else {})


@pytest.mark.parametrize("clip", [False, True])
@pytest.mark.parametrize("nothing", [np.ma.masked, hidden(0.9, 0), hidden([0.9], 0)])
def test_an_environment_that_hides_a_signal_does_not_show_it(nothing: Any, clip: bool) -> None:
    def play(second: dict[str, Any]) -> ss.Episode:
        box = ss.gym.BlackBox(Shy(second), horizon=H, start=0, clip=clip)
        return box.play(np.full((H, 1, 2), 0.5), np.full(H, 0.5))

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(ss.errors.InvalidEpisode, match="step 1, constraints"):
            play({"constraint": nothing})
        assert np.isnan(play({"threshold": nothing}).thresholds[1, 0])


POLICY = np.full((H, 1, 2), 0.5)


@pytest.mark.parametrize(
    "give",
    [
        lambda: ss.Spot(**{**FACE, "action_mask": hidden([[True, True]], 1)}, episodes=9, slack=1.0),
        lambda: ss.gym.BlackBox(Shy({}), horizon=H, start=0, action_mask=hidden([[True, True]], 1)),
        lambda: numbering({"entries": [{"edges": [0.5]}] * 2}).number(hidden([0.0, 1.0], 1)),
        lambda: ss.Fixed(**FACE, episodes=9, policy=hidden(POLICY, 0)),
        lambda: ss.SafetyMeter({**FACE, "thresholds": hidden([1.0], 0)}),
        lambda: ss.SafetyMeter(FACE, more=ss.Limit(total=hidden([0.0, 1.0], 1))),
        lambda: ss.Guard(ss.SpotEpochs(**FACE), hidden(POLICY, 1), budget=10),
        lambda: ss.Guard(ss.SpotEpochs(**FACE), POLICY, budget=hidden([10.0], 0)),
        lambda: ss.gym.evaluate_policy(
            ss.gym.BlackBox(Shy({}), horizon=H, start=0), hidden(POLICY, 1), episodes=2
        ),
        lambda: ss.CMDP(
            np.ones((1, 2, 1)), [[0.5, 0.5]], [[[0.5, 0.5]]], [1.0], horizon=H,
            actions=hidden([[True, True]], 1),
        ),
        lambda: ss.CMDP(np.ones((1, 2, 1)), hidden([[0.5, 0.5]], 1), [[[0.5, 0.5]]], [1.0], horizon=H),
        lambda: ss.SafetyMeter(FACE).observe_signals(
            np.ones((3, H)), np.full((3, H, 1), 99.0), np.full((3, H, 1), 0.5)
        ),
    ],
)  # fmt: skip
def test_nothing_hidden_is_taken_for_what_is_declared(give: Callable[[], Any]) -> None:
    with pytest.raises(ss.SafespotError):
        give()


def test_a_meter_of_many_episodes_counts_what_is_hidden_at_its_worst() -> None:
    meter, worst = ss.SafetyMeter(FACE), ss.SafetyMeter(FACE)
    many = np.full((200, H, 1), 0.5)
    meter.observe_signals(np.ones((200, H)), hidden(many, *range(0, many.size, 2)), many)
    least = many.copy()
    least.flat[::2] = 0.0
    worst.observe_signals(np.ones((200, H)), least, many)
    assert meter.mean_bounds[1] < 0.8
    np.testing.assert_array_equal(meter.violation_bounds[1], worst.violation_bounds[1])
