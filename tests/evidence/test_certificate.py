"""The certificate as a record: what it accepts from a file, what it says and shows."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from safespot.errors import InvalidFile
from safespot.evidence.certificate import (
    Bounds,
    Certificate,
    issue,
    more_episodes,
    policy_digest,
)
from safespot.signals.limits import Limit
from safespot.signals.terms import terms_of


def made(**changes: Any) -> Certificate:
    """Two limits: the first is kept for certain, the second open."""
    right: dict[str, Any] = {
        "difference_bounds": (np.array([0.25, -0.5]), np.array([1.0, 0.75])),
        "value_bounds": (np.array([2.0, 1.0]), np.array([2.5, 1.5])),
        "threshold_bounds": (np.array([1.0, 1.0]), np.array([1.75, 2.0])),
        "reward_bounds": (0.5, 1.5), "difference_confidence": 0.8,
        "episodes": 40, "basis": "It rests on 40 episodes.", "assumptions": ("nothing changes",), "subject": "policy",
        "policy_digest": "a" * 64, "data_digest": "b" * 64,
        "more": np.array([5.0, 7.0]), **changes,
    }  # fmt: skip
    terms = terms_of([Limit("dose", ">=", total=(0, 9)), Limit("falls", "<=", total=(0, 9))])
    ends = (f"{name}_bounds" for name in ("difference", "value", "threshold", "reward"))
    return issue(terms, Bounds(*(right.pop(name) for name in ends)), 0.1, **right)


def test_what_would_decide_is_said_only_where_it_is_open() -> None:
    assert made().verdict == ("safe", "unknown")
    assert made().more.tolist() == [0.0, 7.0]
    assert made(more=np.array([0.0, 0.0])).more.tolist() == [0.0, 1.0]
    assert np.isinf(made(doubts=("signals were cut off",)).more).all()


def test_a_certificate_comes_back_from_plain_numbers() -> None:
    for certificate in (
        made(),
        made(more=np.array([0.0, math.inf])),
        made(reward_bounds=(1.0, 1.0), doubts=("signals were cut off",)),
        made(episodes=0, difference_confidence=0.0, subject="mixture", since=7),
        made(difference_confidence=0.9),
        made(value_bounds=(np.array([2.0, 1.0]), np.array([2.0, 1.0]))),
    ):
        plain = certificate.as_dict()
        assert Certificate.from_dict(plain).as_dict() == plain


@pytest.mark.parametrize(
    "changes",
    [
        {"confidence": 0.0}, {"confidence": 1.0}, {"confidence": True}, {"confidence": "0.9"}, {"confidence": math.nan},
        {"difference_confidence": -0.1}, {"difference_confidence": 0.95}, {"senses": [">=", "??"]}, {"senses": [">="]},
        {"senses": []}, {"senses": ">=<="}, {"more": [0, -1]}, {"more": [0]}, {"more": [0, 0.5]},
        {"more": [0, 2**60 + 1]},
        {"reward_bounds": [1.5, 0.5]}, {"reward_bounds": [0.5, 1.5, 2.0]}, {"episodes": -1}, {"episodes": 1.5},
        {"policy_digest": "a" * 63}, {"data_digest": "B" * 64}, {"basis": None}, {"assumptions": "nothing changes"},
        {"assumptions": [1]}, {"subject": "nobody"}, {"since": 0}, {"since": 1.5}, {"since": "1"},
        {"verdict": ["safe", "safe"]}, {"names": {}},
        {"value_bounds": [[2.0, 1.0], [1.0, 1.5]]}, {"value_bounds": [[2.0], [2.5]]},
        {"value_bounds": [[2.0, 1.0], [2.5]]},
        {"threshold_bounds": [[1.0, math.inf], [1.75, math.inf]]},
    ],
)  # fmt: skip
def test_what_no_certificate_can_say_is_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(InvalidFile, match="not a certificate"):
        Certificate.from_dict({**made().as_dict(), **changes})


def test_its_text_and_its_picture_name_every_limit() -> None:
    text = str(made())
    assert "  dose: SAFE. The room that it keeps its threshold with lies in [0.25, 1]" in text
    assert "(both ends with confidence 0.8)" in text
    assert "it must be at most its threshold, which lies in [1, 2]." in text
    assert "short by 0.5 of being proven safe. About 7 more episodes" in text
    assert "The reward lies in [0.5, 1.5]." in text
    assert f"Policy {'a' * 16}, data {'b' * 16}." in text
    assert "both ends" not in str(made(difference_confidence=0.9))
    shown = made()._chart()
    assert "dose" in shown
    assert "falls" in shown
    assert "room in [0.25, 1]" in str(made()._facts())


def test_how_many_more_episodes_a_gap_takes() -> None:
    """Twice as wide as its gap: four times the episodes; no gap, or nothing seen: no number would do."""
    found = more_episodes(np.array([1.0, 0.5, 0.0]), np.array([2.0, 1.5, 1.0]), 10)
    assert found.tolist() == [30.0, 80.0, math.inf]
    assert np.isinf(more_episodes(np.ones(2), np.ones(2), 0)).all()


def test_a_policy_is_known_by_its_numbers() -> None:
    array = np.array([[[0.25, 0.75]]])
    digest = policy_digest(array)
    assert made(policy_digest=digest).covers(array)
    assert not made(policy_digest=digest).covers(array[:, :, ::-1])
    assert not made(policy_digest=digest, subject="practice").covers(array)
