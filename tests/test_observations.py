"""Observations as numbers of states."""

from __future__ import annotations

from typing import Any

import pytest

import safespot as ss
from safespot.observations import numbering

WHOLE, EDGES = {"whole": [-1, 3]}, {"edges": [0.0, 0.5]}


@pytest.mark.parametrize(
    ("recipe", "numbers"),
    [
        (WHOLE, [(-1, 0), (0, 1), (1, 2)]),
        (EDGES, [(-9.0, 0), (0.0, 1), (0.4, 1), (0.5, 2), (9.0, 2)]),
        ({"entries": [WHOLE, WHOLE]}, [([-1, -1], 0), ([-1, 1], 2), ([1, 0], 7)]),
        ({"parts": [EDGES, WHOLE]}, [((0.2, -1), 3), ((0.7, 1), 8)]),
        ({"keys": [["x", WHOLE], ["y", EDGES]]}, [({"y": 0.2, "x": -1}, 1), ({"x": 1, "y": 1}, 8)]),
    ],
)
def test_an_observation_has_a_number(recipe: Any, numbers: list[tuple[Any, int]]) -> None:
    found = numbering(recipe)
    assert [found.number(seen) for seen, _ in numbers] == [number for _, number in numbers]
    assert found.states == (3 if recipe in (WHOLE, EDGES) else 9)
    assert found.recipe == recipe


@pytest.mark.parametrize(
    ("recipe", "seen", "words"),
    [
        (WHOLE, -2, "-2 is not one of the 3 numbers from -1 on"),
        (WHOLE, 2, "2 is not one of the 3 numbers from -1 on"),
        (EDGES, float("nan"), "NaN"),
        ({"entries": [EDGES, EDGES]}, [0.0, float("nan")], "NaN"),
    ],
)
def test_what_has_no_number_is_refused(recipe: Any, seen: Any, words: str) -> None:
    with pytest.raises(ss.errors.InvalidEpisode, match=words):
        numbering(recipe).number(seen)


@pytest.mark.parametrize(
    "recipe", [{}, {"whole": [0]}, {"edges": [1.0, 0.0]}, {"edges": [1.0, 1.0]}, {"bins": [1]}, 3]
)
def test_what_is_no_recipe_is_refused(recipe: Any) -> None:
    with pytest.raises(ss.errors.InvalidFile, match="numbers no observations"):
        numbering(recipe)
