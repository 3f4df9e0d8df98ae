"""What an episode leaves open of its totals, and whether they lie where they were declared to."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import safespot as ss
from safespot.arrays import InsideEpisode
from safespot.errors import InvalidEpisode
from safespot.signals.interface import make_interface
from safespot.signals.totals import (
    check_sums,
    declare,
    episode_sums,
    hinted,
    state_totals,
    sums_fit,
)

NAN = np.nan
KNOWN = make_interface(2, 2, 2, 2, start=1)


def inside(constraints: Any, thresholds: Any, rewards: Any = (0.5, 0.5)) -> InsideEpisode:
    return InsideEpisode(
        np.zeros(3, np.int64), np.zeros(2, np.int64), np.array(rewards, float),
        np.array(constraints, float), np.array(thresholds, float),
    )  # fmt: skip


def agreed(declared: Any, episode: InsideEpisode) -> bool:
    """Whether the totals fit; the compiled loop says the same as the check that raises."""
    sums = episode_sums(episode)
    try:
        check_sums(declared, sums)
        fits = True
    except InvalidEpisode:
        fits = False
    assert bool(sums_fit(declared, sums)) == fits
    return fits


@pytest.mark.parametrize("i", [0, 1])
@pytest.mark.parametrize("what", ["constraints", "thresholds"])
def test_totals_fit_where_they_were_declared_to_lie(what: str, i: int) -> None:
    """Totals in [0.4, 1.2] for either constraint; the other signal is always right."""
    declared = declare(KNOWN, None, (0.4, 1.2), (0.4, 1.2))
    for first, second, fits in (
        (0.2, 0.2, True), (0.6, 0.6, True), (0.2, 0.19, False), (0.6, 0.61, False), (0.3, 0.5, True),
        (0.0, 0.0, False), (1.0, 1.0, False), (0.1, NAN, True), (NAN, NAN, True), (0.9, NAN, True),
        (1.0, 0.2 + 1e-12, True), (0.4 - 1e-12, 0.0, True),
    ):  # fmt: skip
        signals = {name: np.full((2, 2), 0.4) for name in ("constraints", "thresholds")}
        signals[what][:, i] = first, second
        assert agreed(declared, inside(**signals)) == fits, (first, second)


def test_a_missing_step_may_have_been_anything() -> None:
    """One step is known and one missing: the total is refused only where no value of the missing one could mend it."""
    declared = declare(KNOWN, None, (0.0, 0.5), (1.5, 2.0))
    assert agreed(declared, inside([[0.5, 0.1], [NAN, NAN]], [[0.5, 0.9], [NAN, NAN]]))
    assert not agreed(declared, inside([[0.6, 0.1], [NAN, NAN]], [[0.5, 0.9], [NAN, NAN]]))
    assert not agreed(declared, inside([[0.5, 0.1], [NAN, NAN]], [[0.4, 0.9], [NAN, NAN]]))


def test_known_thresholds_have_no_samples_to_check() -> None:
    declared = declare(KNOWN, [0.3, 0.3], (0.0, 1.0), None)
    assert agreed(declared, inside([[0.5, 0.5]] * 2, [[1.0, 1.0]] * 2))
    assert not agreed(declared, inside([[0.5, 0.6]] * 2, [[1.0, 1.0]] * 2))
    sums = episode_sums(inside(np.full((2, 2), 0.5), np.full((2, 2), NAN)))
    assert tuple(hinted(declared, sums, 1)) == (0.3, 0.3)


def test_what_an_episode_leaves_open() -> None:
    episode = inside([[0.1, 0.25], [0.2, NAN]], [[0.25, NAN], [0.5, NAN]], [0.25, NAN])
    sums = episode_sums(episode)
    reward, g, x = sums[:2], sums[2:6].reshape(2, 2).T, sums[6:].reshape(2, 2).T
    assert reward.tolist() == [0.25, 1.25]
    np.testing.assert_allclose(g, [[0.3, 0.3], [0.25, 1.25]])
    assert x.tolist() == [[0.75, 0.75], [0.0, 2.0]]
    declared = declare(KNOWN, None, None, (0.5, 1.5))
    assert tuple(hinted(declared, sums, 0)) == (0.75, 0.75)
    assert tuple(hinted(declared, sums, 1)) == (0.5, 1.5)


@pytest.mark.parametrize("weight", [1.0, 0.25])
def test_what_an_episode_states(weight: float) -> None:
    """Each number is the least of a quantity in parts of its range, or 1 less the largest."""
    declared = declare(KNOWN, None, (0.0, 1.6), (0.5, 1.5))
    sums = episode_sums(inside([[0.1, 0.25], [0.2, NAN]], [[0.25, NAN], [0.5, NAN]], [0.25, NAN]))
    x = np.zeros(14)
    state_totals(declared, np.full(2, weight), sums, x)
    least, width = -1.5 * weight, 1.6 + weight
    expected = [0.125, 1.0 - 0.625]
    for low, high, under, over in ((0.3, 0.3, 0.75, 0.75), (0.25, 1.25, 0.5, 1.5)):
        expected += [
            (low - weight * over - least) / width,
            1.0 - (high - weight * under - least) / width,
        ]
    expected += [0.3 / 1.6, 1.0 - 0.3 / 1.6, 0.25 / 1.6, 1.0 - 1.25 / 1.6]
    expected += [0.25, 0.75, 0.0, 0.0]
    np.testing.assert_allclose(x, expected, atol=1e-15)
    short = np.zeros(6)
    state_totals(declared, np.full(2, weight), sums, short)
    np.testing.assert_array_equal(short, x[:6])


# The border


def episode(**changes: Any) -> ss.Episode:
    right = {
        "states": [1, 0, 0], "actions": [0, 1], "rewards": [0.5, 0.5],
        "constraints": np.full((2, 2), 0.5), "thresholds": np.full((2, 2), 0.5),
    }  # fmt: skip
    return ss.Episode(**{**right, **changes})


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"states": [1, 2, 0]}, r"state 2 at step 1 is out of range; expected 0 to 1\."),
        ({"actions": [0, 2]}, r"action 2 at step 1 is out of range; expected 0 to 1\."),
        ({"states": [0, 0, 0]}, "starts in state 0; this learner expects state 1"),
        ({"rewards": [0.5, 1.5]}, r"^reward signal at step 1 is 1\.5, outside"),
        ({"rewards": [-0.5, 0.5]}, r"^reward signal at step 0 is -0\.5, outside"),
        ({"constraints": [[0.5, 0.5], [0.5, 2.0]]}, r"^constraint signal at step 1, constraint 1 is 2\.0"),
        ({"thresholds": [[3.0, 0.5], [0.5, 2.0]]}, r"^threshold signal at step 0, constraint 0 is 3\.0"),
        ({"constraints": np.full((2, 1), 0.5), "thresholds": np.full((2, 1), 0.5)}, "2 steps and 1 constraints"),
        (
            {"states": [1, 0], "actions": [0], "rewards": [0.5], "constraints": [[0.5] * 2], "thresholds": [[0.5] * 2]},
            "has 1 steps and 2 constraints; this learner has 2 steps and 2",
        ),
    ],
)  # fmt: skip
def test_an_episode_that_does_not_fit_is_refused_and_not_counted(
    changes: dict[str, Any], says: str
) -> None:
    KNOWN.check(episode())
    meter = ss.SafetyMeter({**KNOWN.arguments, "action_mask": KNOWN.mask})
    with pytest.raises(InvalidEpisode, match=says):
        meter.observe(episode(**changes))
    assert meter.episodes == 0


def test_rounding_is_forgiven_and_cut_off() -> None:
    found = KNOWN.check(episode(rewards=[-1e-13, 1.0 + 1e-13]))
    assert found.rewards.tolist() == [0.0, 1.0]
    assert found.pairs.tolist() == [2, 1]


def test_an_action_that_is_not_admissible_is_refused() -> None:
    mask = np.ones((2, 2, 2), bool)
    mask[1, 0, 1] = False
    known = make_interface(2, 2, 2, 2, start=None, action_mask=mask)
    with pytest.raises(InvalidEpisode, match=r"action 1 in state 0 at step 1 is not admissible\."):
        known.check(episode())
    known.check(episode(actions=[0, 0]))
