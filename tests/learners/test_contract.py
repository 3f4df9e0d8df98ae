"""Every learner keeps the promises of `contract.py`; wrong names and options are refused."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import safespot as ss
from safespot.files import write_arrays
from safespot.spot import visits
from tests.support import contract
from tests.support.contract import VARIANTS, Subject

SUBJECTS = [(name, variant) for name in ss.learners.names() for variant in VARIANTS.get(name, {})]


@pytest.fixture(params=SUBJECTS, ids="-".join)
def subject(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Subject:
    name, variant = request.param
    if variant == "pool":
        monkeypatch.setattr(visits, "DENSE", 0)
    return Subject(name, variant)


def test_every_learner_is_under_contract() -> None:
    assert set(VARIANTS) == set(ss.learners.names())
    assert all(VARIANTS.values())


@pytest.mark.parametrize(
    "promise",
    [
        contract.same_seed_same_run,
        contract.policies_are_distributions,
        contract.multipliers_and_bounds_stay_in_their_ranges,
        contract.damaged_files_are_refused,
        contract.act_draws_from_the_policy,
        contract.invalid_episodes_change_nothing,
    ],
)
def test_promise(subject: Subject, tmp_path: Path, promise: Any) -> None:
    promise(subject, tmp_path)


def test_loading_goes_on_as_if_never_stopped(subject: Subject, tmp_path: Path) -> None:
    # Before the first episode, after it, with a ring that wraps and grows, and over the end of an epoch.
    episodes = (0, 1, 70, 130, 900) if subject.options["episodes"] is None else (0, 1, 70, 130)
    contract.loading_goes_on_as_if_never_stopped(subject, tmp_path, episodes)


def test_who_played_may_be_said(subject: Subject, tmp_path: Path) -> None:
    """The policy or its digest; counts and limits learn from the episode all the same."""
    told, silent = subject.make(), subject.make()
    rng = np.random.default_rng(0)
    other = np.array(subject.mask / subject.mask.sum(axis=2, keepdims=True))
    for k in range(12):
        episode = subject.episode(rng)
        told.observe(episode, played=(None, other, ss.learners.policy_digest(other))[k % 3])
        silent.observe(episode)
    np.testing.assert_array_equal(told.statistics.n, silent.statistics.n)
    np.testing.assert_array_equal(told.threshold_bounds, silent.threshold_bounds)
    # Trials count their own policy's episodes only, and a guard charges those of others.
    if not isinstance(told, ss.SpotEpochs | ss.Guard):
        assert contract.saved(told, tmp_path) == contract.saved(silent, tmp_path)
    for wrong in ("me", 0.5 * other, np.ones(3)):
        with pytest.raises(ss.errors.InvalidOption, match="played"):
            told.observe(subject.episode(rng), played=wrong)
    assert told.episode == 13


def test_unknown_learners_and_options_are_named() -> None:
    interface = Subject("spot", "default").interface
    with pytest.raises(ss.errors.UnknownName, match="unknown learner 'spott'; did you mean `spot`"):
        ss.learners.make("spott", interface, episodes=10, rho=1.0)
    with pytest.raises(ss.errors.InvalidOption, match="color"):
        ss.learners.make("spot", interface, episodes=10, rho=1.0, color="red")
    with pytest.raises(ss.errors.InvalidOption, match="color"):
        ss.learners.make("spot", {**interface, "color": "red"}, episodes=10, rho=1.0)
    with pytest.raises(ss.errors.InvalidOption):
        ss.learners.make("spot", {}, episodes=10, rho=1.0)
    made = ss.learners.make("spot", interface, episodes=10, rho=1.0)
    assert isinstance(made, ss.Spot)
    assert made.episode == 1


def test_a_file_of_another_kind_is_refused(tmp_path: Path) -> None:
    write_arrays(tmp_path / "model", "cmdp", {"x": np.zeros(1)}, {})
    with pytest.raises(ss.errors.InvalidFile, match="holds a cmdp"):
        ss.Spot.load(tmp_path / "model")
    write_arrays(tmp_path / "other", "learner", {"x": np.zeros(1)}, {"learner": "parrot"})
    with pytest.raises(ss.errors.InvalidFile, match="parrot"):
        ss.Spot.load(tmp_path / "other")


NAN, INF = math.nan, math.inf
BAD_OPTIONS: list[dict[str, Any]] = [
    {"rho": None}, {"slack": 1.0}, {"rho": None, "slack": 0.0}, {"rho": None, "slack": -1.0},
    {"rho": None, "slack": [1.0, 1.0, 1.0]}, {"rho": None, "slack": [1.0, 0.0]},
    {"rho": None, "slack": "much"}, {"rho": None, "slack": NAN}, {"rho": None, "slack": INF},
    {"rho": 0.0}, {"rho": -1.0}, {"rho": NAN}, {"rho": "2"}, {"rho": True}, {"rho": [2.0]},
    {"rho": INF}, {"rho": INF, "policy_step": 1.0}, {"rho": INF, "dual_step": 1.0},
    {"rho": np.complex128(1j)},
    {"episodes": 0}, {"episodes": -5}, {"episodes": 10.0}, {"episodes": "10"}, {"episodes": True},
    {"stance": "bold"}, {"stance": -0.1}, {"stance": 1.1}, {"stance": NAN}, {"stance": None},
    {"stance": True}, {"stance": [0.5]},
    {"window": 0.0}, {"window": 1.1}, {"window": NAN}, {"window": "all"}, {"window": None},
    {"delta": 0.0}, {"delta": 1.0}, {"delta": NAN}, {"delta": None},
    {"bonus": "none"}, {"bonus": None}, {"bonus": 1}, {"bonus": np.array(["hoeffding", "x"])},
    {"bonus_scale": -0.1}, {"bonus_scale": INF}, {"bonus_scale": NAN}, {"bonus_scale": "1"},
    {"estimator": "median"}, {"estimator": None},
    {"threshold_scale": -0.1}, {"threshold_scale": INF}, {"threshold_scale": NAN},
    {"estimator": "total", "threshold_scale": 0.5}, {"estimator": "total", "clip_thresholds": False},
    {"independent_hints": True}, {"shared_threshold": True}, {"estimator": "total", "shared_threshold": 1},
    {"constraint_totals": (1, 0)}, {"constraint_totals": (0, 4)}, {"threshold_totals": [(0, 1)]},
    {"threshold_totals": "few"}, {"thresholds": [1.0, 1.0], "threshold_totals": (0, 1)},
    {"clip_thresholds": 1}, {"clip_thresholds": None}, {"clip_thresholds": "yes"},
    {"policy_step": -1.0}, {"policy_step": INF}, {"policy_step": NAN}, {"policy_step": "big"},
    {"dual_step": -1.0}, {"dual_step": INF}, {"dual_step": NAN},
    {"thresholds": 1.0}, {"thresholds": [1.0]}, {"thresholds": [1.0, 1.0, 1.0]},
    {"thresholds": [[1.0, 1.0]]}, {"thresholds": np.ones((2, 4))}, {"thresholds": [1.0, NAN]},
    {"thresholds": [1.0, 3.1]}, {"thresholds": [1.0, -0.1]}, {"thresholds": "low"},
    {"thresholds": [[0.5, 0.5], [0.5]]}, {"thresholds": [[1.1, 0, 0], [0, 0, 0]]},
]  # fmt: skip


@pytest.mark.parametrize("options", BAD_OPTIONS, ids=str)
def test_bad_options_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(ss.SafespotError) as raised:
        ss.Spot(4, 3, 3, 2, **{"episodes": 10, "rho": 2.0, **options})
    assert str(raised.value)


BAD_INTERFACES: list[dict[str, Any]] = [
    {"states": 0}, {"states": 2.0}, {"states": "4"}, {"states": True}, {"states": -4},
    {"actions": 0}, {"horizon": 0}, {"horizon": None}, {"constraints": 0}, {"constraints": [1, 2]},
    {"start": 4}, {"start": -1}, {"start": 0.0}, {"start": [1, 0, 0, 0]}, {"start": True},
    {"action_mask": np.ones((4, 3))}, {"action_mask": np.ones((3, 4), bool)},
    {"action_mask": np.zeros((4, 3), bool)}, {"action_mask": [[True], [True, False]]},
    {"action_mask": "all"}, {"action_mask": np.ones((2, 4, 3), bool)},
    {"senses": "<"}, {"senses": [">="]}, {"senses": [">=", "<=", ">="]}, {"senses": 3},
    {"senses": None}, {"senses": [">=", 1]},
    {"ranges": {"reward": (1, 0)}}, {"ranges": {"reward": (0, NAN)}}, {"ranges": {"cost": (0, 1)}},
    {"ranges": (0, 1)}, {"ranges": {"constraints": [(0, 1)] * 3}}, {"ranges": {"reward": None}},
    {"ranges": {"constraints": (0, 0)}}, {"ranges": {"reward": (0, INF)}}, {"ranges": 3},
]  # fmt: skip


@pytest.mark.parametrize("changes", BAD_INTERFACES, ids=str)
def test_bad_interfaces_are_refused(changes: dict[str, Any]) -> None:
    arguments = {"states": 4, "actions": 3, "horizon": 3, "constraints": 2, **changes}
    with pytest.raises(ss.SafespotError) as raised:
        ss.Spot(**arguments, episodes=10, rho=2.0)
    assert str(raised.value)


def test_declared_totals_are_checked() -> None:
    subject = Subject("spot", "default")
    learner = subject.make(constraint_totals=(0.5, 2.5), threshold_totals=(0.2, 2.9))
    states, nothing = np.zeros(4, int), np.zeros(3, int)
    fine = np.full((3, 2), 0.5)
    learner.observe(ss.Episode(states, nothing, np.zeros(3), fine, fine))
    for constraints, thresholds in ((np.ones((3, 2)), fine), (fine, np.zeros((3, 2)))):
        with pytest.raises(ss.errors.InvalidEpisode, match="totals that were declared"):
            learner.observe(ss.Episode(states, nothing, np.zeros(3), constraints, thresholds))
    assert learner.episode == 2
    assert (learner.make_meter().terms.declared.width == 2.0 + 2.7).all()


def test_numbers_of_numpy_are_numbers(tmp_path: Path) -> None:
    """Options often come out of arrays; they are saved like any other."""
    subject = Subject("spot", "default")
    plain: dict[str, Any] = {
        "episodes": 50,
        "rho": 2.0,
        "window": 0.5,
        "stance": 0.25,
        "delta": 0.125,
    }
    plain.update({"bonus_scale": 0.5, "policy_step": 0.25, "dual_step": 1.0})
    kinds: dict[str, Any] = {
        "episodes": np.int64,
        "rho": np.int32,
        "window": np.float32,
        "stance": np.float16,
    }
    ours = subject.make(**{k: kinds.get(k, np.float64)(v) for k, v in plain.items()})
    assert ours.options == subject.make(**plain).options
    files = [contract.saved(subject.run(x, 0, 20), tmp_path) for x in (ours, subject.make(**plain))]
    assert files[0] == files[1]
    assert subject.load(tmp_path / "learner").options == ours.options
