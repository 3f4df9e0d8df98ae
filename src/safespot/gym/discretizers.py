"""Observations as state numbers: what a table needs, from what an environment shows.

- `Discrete`: its number, counted from 0.
- `Tuple`: the number of the combination, the last part counting fastest.
- `Box`: the bin of each entry, likewise combined. Edges are given, or evenly spaced between the space's bounds, or
  quantiles of what a warm-up saw.

A binned process is not quite Markov: what a bin hides still matters. Finer bins hide less and learn more slowly.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Callable, Sequence
from operator import index
from typing import Any, NamedTuple

import numpy as np
from gymnasium import Env, spaces

from ..arrays import as_count, as_floats
from ..errors import InvalidEpisode, InvalidOption


class Discretizer(NamedTuple):
    """How many states there are, and which of them an observation is.

    Examples:
        >>> import safespot as ss
        >>> thirds = ss.gym.Discretizer(states=3, number=lambda share: min(int(3 * share), 2))
        >>> [thirds.number(share) for share in (0.1, 0.5, 1.0)]
        [0, 1, 2]

    """

    states: int
    number: Callable[[Any], int]


def make_discretizer(space: Any, bins: Any = None) -> Discretizer:
    """The discretizer of an observation space.

    Args:
        space: of the observations: Discrete, Box, or a Tuple of them.
        bins: for a Box, how its entries (in C order) are cut: one number of bins for all, or for each entry a
            number or ascending edges. k edges make k + 1 bins; a value on an edge belongs to the bin above it.
            For a Tuple, one such argument for each part, None for Discrete ones.

    Examples:
        >>> import gymnasium
        >>> import safespot as ss
        >>> space = gymnasium.spaces.Tuple([gymnasium.spaces.Discrete(2), gymnasium.spaces.Box(0, 1)])
        >>> found = ss.gym.make_discretizer(space, bins=[None, [[0.2, 0.5]]])
        >>> found.states
        6
        >>> [found.number((1, level)) for level in (0.1, 0.2, 0.9)]
        [3, 4, 5]

    """
    if isinstance(space, spaces.Box):
        return _binned(_edges(space, bins))
    if isinstance(space, spaces.Tuple):
        parts, each = space.spaces, [None] * len(space.spaces) if bins is None else bins
        if not isinstance(each, Sequence) or len(each) != len(parts):
            raise InvalidOption(f"bins of {space} must have {len(parts)} entries, got {bins!r}.")
        return _product(
            [make_discretizer(part, cut) for part, cut in zip(parts, each, strict=True)]
        )
    if isinstance(space, spaces.Discrete):
        if bins is not None:
            raise InvalidOption(f"bins are for Box observations; {space} has none, got {bins!r}.")
        return _whole(int(space.start), int(space.n))
    raise InvalidOption(
        f"observations in {space} cannot be numbered: Discrete, Box and Tuples of them can. Give "
        "states=Discretizer(count, function), the function leading from an observation to "
        "0 … count - 1."
    )


def warm_up(env: Env[Any, Any], bins: int, episodes: int = 10, seed: int = 0) -> Any:
    """The `bins` argument that cuts what random play shows into equally frequent parts.

    Plays whole episodes of the environment with random actions. Duplicate edges are dropped, so an entry that
    takes few values gets fewer bins.

    Examples:
        >>> import gymnasium
        >>> import safespot as ss
        >>> env = gymnasium.make("CartPole-v1")
        >>> edges = ss.gym.warm_up(env, bins=2)
        >>> ss.gym.make_discretizer(env.observation_space, edges).states  # two bins for each of four entries
        16

    """
    bins = as_count("bins", bins, least=1, error=InvalidOption)
    env.action_space.seed(seed)
    seen = []
    for t in range(as_count("episodes", episodes, least=1, error=InvalidOption)):
        observation, _ = env.reset(seed=seed if t == 0 else None)
        seen.append(observation)
        ended = False
        while not ended:
            observation, _, *rest = env.step(env.action_space.sample())
            ended = any(rest[-3:-1])  # six elements or five: the last three are ends and info
            seen.append(observation)
    return _quantiles(env.observation_space, seen, bins)


def _quantiles(space: Any, seen: list[Any], bins: int) -> Any:
    if isinstance(space, spaces.Tuple):
        return [
            _quantiles(part, [observation[k] for observation in seen], bins)
            for k, part in enumerate(space.spaces)
        ]
    if not isinstance(space, spaces.Box):
        return None
    values = np.array([np.ravel(observation) for observation in seen], np.float64)
    shares = np.arange(1, bins) / bins
    return [np.unique(np.quantile(entry, shares)).tolist() for entry in values.T]


def _edges(space: spaces.Box, bins: Any) -> list[list[float]]:
    size = int(np.prod(space.shape))
    if bins is None:
        raise InvalidOption(
            f"observations in {space} must be cut into bins. Give states= (bins= where `make_discretizer` is called): "
            f"a number, edges for each of its {size} entries, or what safespot.gym.warm_up(env, number) finds."
        )
    each = bins if isinstance(bins, Sequence) else [bins] * size
    if len(each) != size:
        raise InvalidOption(f"bins have {len(each)} entries; {space} has {size}.")
    bounds = zip(each, np.ravel(space.low), np.ravel(space.high), strict=True)
    return [_cut(cut, float(low), float(high)) for cut, low, high in bounds]


def _cut(cut: Any, low: float, high: float) -> list[float]:
    """The inner edges of one entry."""
    if np.ndim(cut) == 0:
        count = as_count("bins", cut, least=1, error=InvalidOption)
        if not (math.isfinite(low) and math.isfinite(high)):
            raise InvalidOption(
                f"an entry of the observation lies in [{low}, {high}], which cannot be cut evenly. Give "
                "edges, or what safespot.gym.warm_up(env, number) finds."
            )
        return [float(edge) for edge in np.linspace(low, high, count + 1)[1:-1]]
    edges = as_floats("edges", cut, error=InvalidOption)
    if edges.ndim != 1 or (np.diff(edges) <= 0.0).any():
        raise InvalidOption(f"edges must ascend, got {cut!r}.")
    return [float(edge) for edge in edges]


def _whole(low: int, count: int) -> Discretizer:
    """Whole numbers, counted from `low`."""

    def number(seen: Any) -> int:
        k = index(seen) - low
        if not 0 <= k < count:
            raise InvalidEpisode(f"{seen} is not one of the {count} numbers from {low} on.")
        return k

    return Discretizer(count, number)


def _binned(cuts: list[list[float]]) -> Discretizer:
    """The bins of all entries, the last entry counting fastest."""
    entries = [(len(edges) + 1, edges) for edges in cuts]

    def number(seen: Any) -> int:
        total = 0
        for (bins, edges), value in zip(entries, np.asarray(seen).ravel().tolist(), strict=True):
            if value != value:  # a bin would be found for it all the same
                raise InvalidEpisode("an entry of the observation is NaN.")
            total = total * bins + bisect_right(edges, value)
        return total

    return Discretizer(math.prod(bins for bins, _ in entries), number)


def _product(digits: list[Discretizer]) -> Discretizer:
    """Combinations, the last digit counting fastest."""
    pairs = [(digit.states, digit.number) for digit in digits]

    def number(seen: Sequence[Any]) -> int:
        total = 0
        for (count, digit), part in zip(pairs, seen, strict=True):
            total = total * count + digit(part)
        return total

    return Discretizer(math.prod(count for count, _ in pairs), number)
