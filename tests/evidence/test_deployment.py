"""The policy to deploy: it predicts, carries its certificate, and loads without the rest."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import safespot as ss
from safespot.errors import InvalidEpisode, InvalidFile, InvalidModel, InvalidOption
from safespot.observations import numbering

RNG = np.random.default_rng(0)
ARRAY = np.array([[[0.0, 1.0, 0.0], [0.2, 0.3, 0.5]], [[1.0, 0.0, 0.0], [0.0, 0.0, 1.0]]])


def test_it_predicts_with_its_own_probabilities() -> None:
    policy = ss.Policy(ARRAY)
    assert policy.predict(0, step=0) == 1
    drawn = [policy.predict(1, step=0, rng=RNG) for _ in range(4000)]
    assert np.bincount(drawn) / 4000 == pytest.approx([0.2, 0.3, 0.5], abs=0.03)
    assert policy.status == "proposed"
    assert np.array_equal(np.asarray(policy), ARRAY)
    assert ss.policy_digest(policy) == ss.policy_digest(ARRAY)


@pytest.mark.parametrize(("observation", "step"), [(2, 0), (0, 2), (-1, 0), (0, -1), ("0", 0)])
def test_what_is_no_state_or_step_is_refused(observation: Any, step: int) -> None:
    with pytest.raises(InvalidOption):
        ss.Policy(ARRAY).predict(observation, step)


def test_it_is_a_policy_and_its_certificate_is_its_own() -> None:
    with pytest.raises(InvalidModel, match=r"\[H,S,A\]"):
        ss.Policy(ARRAY[0])
    with pytest.raises(InvalidModel, match="sums to"):
        ss.Policy(0.5 * ARRAY)
    machine = ss.problems.make("machine")
    gentle = np.tile([1.0, 0.0], (2, 2, 1))
    proven = ss.certify(machine, gentle, episodes=300)
    assert ss.Policy(gentle, machine.names, proven).status == "certified"
    with pytest.raises(InvalidOption, match="another policy"):
        ss.Policy(gentle[:, :, ::-1], certificate=proven)


def test_it_comes_back_from_its_file_and_needs_nothing_else(tmp_path: Path) -> None:
    machine = ss.problems.make("machine")
    gentle = np.tile([1.0, 0.0], (2, 2, 1))
    proven = ss.certify(machine, gentle, episodes=300)
    recipe = {"entries": [{"edges": [0.5]}]}
    made = ss.Policy(gentle, machine.names, proven, numbering(recipe))
    made.save(tmp_path / "policy")
    code = f"""
import sys, safespot as ss
policy = ss.Policy.load({str(tmp_path / "policy")!r})
print(policy.names.action(policy.predict([0.7], step=1)), policy.status)
heavy = {{"numba", "gymnasium", "scipy", "highspy", "duckdb", "safespot.learners", "safespot.training"}}
print(sorted(heavy & set(sys.modules)))
"""
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert told.stdout.splitlines() == ["gentle certified", "[]"]
    found = ss.Policy.load(tmp_path / "policy")
    assert np.array_equal(found.array, made.array)
    assert found.certificate is not None
    assert found.certificate.as_dict() == proven.as_dict()
    assert found.names == machine.names


def test_a_function_of_ones_own_cannot_be_saved(tmp_path: Path) -> None:
    own = ss.gym.Discretizer(2, lambda seen: int(seen > 0.5))
    policy = ss.Policy(ARRAY, discretizer=own)
    assert policy.predict(0.2, step=0) == 1
    with pytest.raises(InvalidOption, match="which no file can hold"):
        policy.save(tmp_path / "policy")
    policy.with_discretizer(None).save(tmp_path / "policy")
    assert ss.Policy.load(tmp_path / "policy").discretizer is None


def test_recipes_number_observations() -> None:
    ward = numbering(
        {"keys": [["ward", {"whole": [1, 2]}], ["level", {"entries": [{"edges": [0.2, 0.5]}]}]]}
    )
    assert ward.states == 6
    assert ward.number({"ward": 2, "level": np.array([0.2])}) == 4
    pair = numbering({"parts": [{"whole": [0, 2]}, {"whole": [0, 3]}]})
    assert [pair.number((a, b)) for a in range(2) for b in range(3)] == list(range(6))
    with pytest.raises(InvalidEpisode, match="not one of the 2"):
        ward.number({"ward": 3, "level": [0.1]})
    with pytest.raises(InvalidEpisode, match="NaN"):
        ward.number({"ward": 1, "level": [float("nan")]})
    wrong: list[Any] = [
        {"edges": [1, 0]},
        {"pickle": "x"},
        {},
        {"whole": [0]},
        "edges",
        {"parts": [3]},
    ]
    for recipe in wrong:
        with pytest.raises(InvalidFile, match="numbers no observations"):
            numbering(recipe)
