"""Arrays of users: what is taken, what is refused, and that nobody changes them afterwards."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import safespot as ss
from safespot.arrays import EPISODE, as_count, as_floats, as_policy, check_range, frozen

PARTS: dict[str, Any] = {
    "states": [0, 1, 2],
    "actions": [0, 1],
    "rewards": [0.5, 1.0],
    "constraints": [[0.0, 1.0], [0.5, 0.5]],
    "thresholds": [[0.0, 1.0], [np.nan, np.nan]],
}


def test_a_frozen_array_is_the_same_one_read_only() -> None:
    array = np.zeros(2)
    assert frozen(array) is array
    with pytest.raises(ValueError, match="read-only"):
        array[0] = 1.0


@pytest.mark.parametrize("trusted", [False, True])
def test_an_episode_holds_what_it_was_made_of_and_nobody_writes_to_it(trusted: bool) -> None:
    arrays = [np.array(PARTS[name]) for name in EPISODE]
    episode = ss.Episode.trusted(*arrays, clipped=2) if trusted else ss.Episode(*arrays)
    assert episode.clipped == (2 if trusted else 0)
    for name, array in zip(EPISODE, arrays, strict=True):
        kept = getattr(episode, name)
        np.testing.assert_array_equal(kept, array)
        with pytest.raises(ValueError, match="read-only"):
            kept[0] = 0
    assert episode == (ss.Episode.trusted(*arrays, clipped=2) if trusted else ss.Episode(**PARTS))
    assert episode != "an episode"
    assert episode != ss.Episode(**PARTS | {"thresholds": [[0.0, 1.0], [0.5, 0.5]]})


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("actions", [[0, 1]], r"list of whole numbers; got type int64 with shape \(1, 2\)"),
        ("actions", [0.0, 1.0], "list of whole numbers; got type float64"),
        ("actions", [True, False], "list of whole numbers"),
        ("actions", [], "actions must be"),
        ("actions", np.empty(0, int), "at least one step"),
        ("actions", [0, 1, 1], "constraints have shape"),
        ("states", [0, 1], "states have shape"),
        ("states", [0, -1, 2], "states at step 1 is -1"),
        ("states", [[0], [1, 2]], "states must be a list of whole numbers"),
        ("states", np.array([0, 1, 2**63], np.uint64), "states at step 2"),
        ("rewards", [0.5, np.nan], r"rewards\[1\] is nan"),
        ("rewards", ["a", "b"], "rewards must be an array of real numbers"),
        ("constraints", [[0.5, np.inf], [0.5, 0.5]], r"constraints\[0, 1\] is inf"),
        ("thresholds", [[0.0, 1.0]], "thresholds have shape"),
        ("thresholds", [[0.0, np.nan], [np.nan, np.nan]], "thresholds at step 0"),
    ],
)
def test_a_wrong_part_of_an_episode_is_refused(name: str, value: Any, words: str) -> None:
    with pytest.raises(ss.errors.InvalidEpisode, match=words):
        ss.Episode(**PARTS | {name: value})


def test_a_step_carries_a_sample_of_every_threshold_or_of_none() -> None:
    for thresholds in ([[0.0, 1.0]] * 2, [[np.nan] * 2] * 2, [[np.nan] * 2, [0.0, 1.0]]):
        kept = ss.Episode(**PARTS | {"thresholds": thresholds}).thresholds
        np.testing.assert_array_equal(kept, thresholds)


@pytest.mark.parametrize("wrong", [-0.2, 1.2, np.nan])
def test_the_ends_of_a_range_are_within_it_and_what_is_beyond_them_is_not(wrong: float) -> None:
    check_range("x", np.array([0.0, 1.0]), 0.0, 1.0, "s", fix="")
    check_range("x", np.array([-0.125, 1.125]), 0.0, 1.0, "s", fix="", room=0.125)
    with pytest.raises(ss.errors.InvalidModel, match="x at state 1"):
        check_range("x", np.array([0.5, wrong]), 0.0, 1.0, "s", fix="", room=0.125)


def test_a_count_lies_between_its_ends() -> None:
    assert [as_count("n", n, least=1, most=3) for n in (1, 3)] == [1, 3]
    assert as_count("n", 10**40, least=1, most=None) == 10**40
    for wrong in (0, 4):
        with pytest.raises(ss.errors.InvalidModel, match=f"n must be at .* got {wrong}"):
            as_count("n", wrong, least=1, most=3)


def test_a_policy_of_one_step_serves_all() -> None:
    one = [[0.25, 0.75], [1.0, 0.0], [0.5, 0.5]]
    np.testing.assert_array_equal(as_policy(one, (4, 3, 2)), [one] * 4)
    with pytest.raises(ss.errors.InvalidModel, match="policy has shape"):
        as_policy([one] * 2, (4, 3, 2))


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (None, "got None"),
        ("abc", "got 'abc'"),
        (["a"], "got texts"),
        ([1j], "got complex numbers"),
        ([None], "got entries that are no numbers"),
        (np.nan, "^it is nan; every entry"),
        ([0.0, np.nan], r"^it\[1\] is nan"),
    ],
)
def test_what_is_no_array_of_numbers_is_called_what_it_is(value: Any, words: str) -> None:
    with pytest.raises(ss.errors.InvalidModel, match=words):
        as_floats("it", value)


def test_a_policy_that_is_none_has_no_digest() -> None:
    with pytest.raises(ss.errors.InvalidModel, match="policy must be an array of real numbers"):
        ss.learners.policy_digest(["a"])
