"""Observations as numbers of states, from a recipe that a file can hold.

A recipe is plain data, one of

    {"whole": [low, count]}          a whole number, counted from `low`
    {"edges": [...]}                 a real number, by its bin; a value on an edge belongs to the bin above it
    {"entries": [recipe, ...]}       the entries of an array, in C order
    {"parts": [recipe, ...]}         the parts of a tuple
    {"keys": [[key, recipe], ...]}   the parts of a dict, in this order

In a combination the last part counts fastest, as in an array in C order.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Callable, Iterable
from operator import index
from typing import Any, NamedTuple

from .arrays import unmasked
from .errors import InvalidEpisode, InvalidFile

Recipe = dict[str, Any]


class Numbering(NamedTuple):
    """A map of observations to numbers of states, with the recipe that it was made from."""

    states: int
    number: Callable[[Any], int]
    recipe: Recipe


def numbering(recipe: Recipe) -> Numbering:
    """Return the numbering of a recipe; raise `InvalidFile` where it is none."""
    try:
        ((kind, value),) = recipe.items()
        return Numbering(*KINDS[kind](value), recipe)
    except (AttributeError, IndexError, KeyError, TypeError, ValueError) as exc:
        raise InvalidFile(f"{recipe!r} numbers no observations: {exc!r}.") from None


def _whole(value: Any) -> tuple[int, Callable[[Any], int]]:
    low, count = index(value[0]), index(value[1])

    def number(seen: Any) -> int:
        k = index(seen) - low
        if not 0 <= k < count:
            raise InvalidEpisode(f"{seen} is not one of the {count} numbers from {low} on.")
        return k

    return count, number


def _edges(value: Any) -> tuple[int, Callable[[Any], int]]:
    edges = [float(edge) for edge in value]
    if sorted(set(edges)) != edges:
        raise ValueError("edges must ascend")

    def number(seen: Any) -> int:
        if seen != seen:  # a bin would be found for it all the same
            raise InvalidEpisode("an entry of the observation is NaN.")
        return bisect_right(edges, seen)

    return len(edges) + 1, number


def _entries(value: Any) -> tuple[int, Callable[[Any], int]]:
    return _product(value, lambda seen: unmasked(seen).ravel().tolist())


def _parts(value: Any) -> tuple[int, Callable[[Any], int]]:
    return _product(value, lambda seen: seen)


def _keys(value: Any) -> tuple[int, Callable[[Any], int]]:
    keys = [key for key, _ in value]
    return _product([each for _, each in value], lambda seen: [seen[key] for key in keys])


def _product(
    recipes: Iterable[Recipe], split: Callable[[Any], Iterable[Any]]
) -> tuple[int, Callable[[Any], int]]:
    """Return the number of combinations of an observation's parts, and the function that numbers them."""
    pairs = [numbering(recipe)[:2] for recipe in recipes]

    def number(seen: Any) -> int:
        total = 0
        for (count, digit), part in zip(pairs, split(seen), strict=True):
            total = total * count + digit(part)
        return total

    return math.prod(count for count, _ in pairs), number


KINDS = {"whole": _whole, "edges": _edges, "entries": _entries, "parts": _parts, "keys": _keys}
