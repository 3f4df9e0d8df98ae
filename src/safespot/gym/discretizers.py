"""Observations and actions as numbers: what a table needs, from the spaces that an environment declares.

- `Discrete`: its number, counted from 0, wherever the space itself starts.
- `MultiDiscrete`, `MultiBinary`, `Box` of whole numbers: the number of the combination of entries, in C order.
- `Tuple`, `Dict`: the number of the combination of parts, those of a `Dict` in the order of its keys.
- `Box` of real numbers: the bin of each entry, likewise combined. Edges are given, or evenly spaced between the space's
  bounds, or quantiles of what a warm-up saw.

In a combination the last part counts fastest, as in an array in C order, and `inverse` leads back from a number.
A binned process is not quite Markov: what a bin hides still matters. Finer bins hide less and learn more slowly.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from gymnasium import Env, spaces

from ..arrays import as_count, as_floats
from ..errors import InvalidOption, unknown
from ..observations import Recipe, numbering

MOST = 10_000_000  # states or actions: no table of more fits into a memory


class Discretizer(NamedTuple):
    """A map of observations to a finite number of states, and back where that is known.

    Examples:
        >>> import safespot as ss
        >>> thirds = ss.gym.Discretizer(states=3, number=lambda share: min(int(3 * share), 2))
        >>> [thirds.number(share) for share in (0.1, 0.5, 1.0)]
        [0, 1, 2]

    """

    states: int
    number: Callable[[Any], int]
    inverse: Callable[[int], Any] | None = None
    parts: str = ""  # what the number is made of, for people
    recipe: Any = None  # for files (`observations`); None: a user's function


class Bin(NamedTuple):
    """A part of the real line: what a number says of an entry that was cut; `low` belongs to it, `high` does not.

    Examples:
        >>> import gymnasium
        >>> import safespot as ss
        >>> found = ss.gym.make_discretizer(gymnasium.spaces.Box(0, 1, (1,)), bins=[[0.2, 0.5]])
        >>> found.inverse(1)
        (Bin(low=0.2, high=0.5),)

    """

    low: float
    high: float


def make_discretizer(space: Any, bins: Any = None) -> Discretizer:
    """Return the discretizer of an observation space.

    Args:
        space: of the observations: Discrete, MultiDiscrete, MultiBinary, Box, or a Tuple or Dict of such spaces.
        bins: for a Box, how its entries (in C order) are cut: one number of bins for all, or for each entry a
            number or ascending edges. k edges make k + 1 bins; a value on an edge belongs to the bin above it.
            None, for the whole Box or for an entry, takes every whole number of a bounded integer Box as a value.
            For a Tuple or Dict, such an argument for each part that needs one, by position or key; a Tuple also takes
            one for each part, None for those that are finite already.

    Examples:
        >>> import gymnasium
        >>> import safespot as ss
        >>> spaces = gymnasium.spaces
        >>> space = spaces.Dict({"ward": spaces.Discrete(2), "pressure": spaces.Box(0, 1)})
        >>> found = ss.gym.make_discretizer(space, bins={"pressure": [[0.2, 0.5]]})
        >>> print(found.states, found.parts)
        6 (pressure 3 bins × ward 2)
        >>> found.number({"ward": 1, "pressure": 0.3})
        3
        >>> found.inverse(3)
        {'pressure': (Bin(low=0.2, high=0.5),), 'ward': 1}

    """
    discretizer = _discretizer(space, bins)
    if discretizer.states > MOST:
        raise InvalidOption(
            f"{space} has about 10^{math.log10(discretizer.states):.0f} values, and no table holds more than {MOST:,}. "
            "Cut its entries into fewer bins, or leave out what does not matter with a wrapper or "
            "states=Discretizer(count, function)."
        )
    return discretizer


def _discretizer(space: Any, bins: Any) -> Discretizer:
    if isinstance(space, spaces.Box):
        return _box(space, bins)
    if isinstance(space, spaces.Tuple):
        digits = _each(space, dict(enumerate(space.spaces)), bins)
        return _product({"parts": [digit.recipe for digit in digits]}, digits, tuple)
    if isinstance(space, spaces.Dict):
        keys = list(space.spaces)
        digits = _each(space, dict(space.spaces), bins)
        return _product(
            {"keys": [[key, digit.recipe] for key, digit in zip(keys, digits, strict=True)]},
            digits,
            lambda parts: dict(zip(keys, parts, strict=True)),
            names=[f"{key} " for key in keys],
        )
    if bins is not None:
        raise InvalidOption(f"bins are for Box observations; {space} has none, got {bins!r}.")
    if isinstance(space, spaces.Discrete):
        return _whole(int(space.start), int(space.n))
    if isinstance(space, spaces.MultiDiscrete):
        bounds = zip(np.ravel(space.start).tolist(), np.ravel(space.nvec).tolist(), strict=True)
        return _array(space, [_whole(low, count) for low, count in bounds])
    if isinstance(space, spaces.MultiBinary):
        return _array(space, [_whole(0, 2)] * math.prod(space.shape))
    raise InvalidOption(
        f"{space} cannot be numbered: Discrete, MultiDiscrete, MultiBinary, Box, and Tuple and Dict of these can. Give "
        "states=Discretizer(count, function), the function leading from an observation to "
        "0 … count - 1."
    )


def warm_up(env: Env[Any, Any], bins: int, episodes: int = 10, seed: int = 0) -> Any:
    """Return the `bins` argument that cuts the observations of random play into equally frequent parts.

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
    if isinstance(space, spaces.Tuple | spaces.Dict):
        parts = space.items() if isinstance(space, spaces.Dict) else enumerate(space.spaces)
        edges = {
            key: _quantiles(part, [observation[key] for observation in seen], bins)
            for key, part in parts
        }
        return edges if isinstance(space, spaces.Dict) else list(edges.values())
    if not isinstance(space, spaces.Box):
        return None
    values = np.array([np.ravel(observation) for observation in seen], np.float64)
    shares = np.arange(1, bins) / bins
    return [np.unique(np.quantile(entry, shares)).tolist() for entry in values.T]


def _each(space: Any, parts: dict[Any, Any], bins: Any) -> list[Discretizer]:
    """Return the discretizers of the parts of a Tuple or Dict."""
    if isinstance(space, spaces.Tuple) and isinstance(bins, Sequence) and len(bins) == len(parts):
        bins = dict(enumerate(bins))
    cuts = {} if bins is None else bins
    if not isinstance(cuts, Mapping):
        raise InvalidOption(
            f"bins of {space} must be a dict of those of its parts, {list(parts)}; got {bins!r}."
        )
    for key in cuts:
        if key not in parts:
            raise InvalidOption(unknown("part", str(key), [*map(str, parts)]))
    return [_discretizer(part, cuts.get(key)) for key, part in parts.items()]


def _box(space: spaces.Box, bins: Any) -> Discretizer:
    """Return the discretizer of a Box, entry by entry."""
    whole = space.dtype is not None and space.dtype.kind in "biu"
    size = math.prod(space.shape)
    if bins is None and not whole:
        raise InvalidOption(
            f"observations in {space} must be cut into bins. Give states= (bins= where `make_discretizer` is called): "
            f"a number, edges for each of its {size} entries, or what safespot.gym.warm_up(env, number) finds."
        )
    each = bins if isinstance(bins, Sequence) else [bins] * size
    if len(each) != size:
        raise InvalidOption(f"bins have {len(each)} entries; {space} has {size}.")
    bounds = zip(each, np.ravel(space.low).tolist(), np.ravel(space.high).tolist(), strict=True)
    digits = [
        _whole(int(low), int(high) - int(low) + 1)
        if whole and cut is None
        else _binned(_edges(cut, float(low), float(high)), float(low), float(high))
        for cut, low, high in bounds
    ]
    return _array(space, digits, binned=bins is not None)


def _edges(cut: Any, low: float, high: float) -> list[float]:
    """Return the inner edges of one entry."""
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
    """Return the discretizer of whole numbers, counted from `low`."""
    count, number, recipe = numbering({"whole": [low, count]})
    return Discretizer(count, number, lambda k: low + k, str(count), recipe)


def _binned(edges: list[float], low: float, high: float) -> Discretizer:
    """Return the discretizer of a real number by its bin; beyond the bounds it belongs to the outermost ones."""
    bounds = [low, *edges, high]
    count, number, recipe = numbering({"edges": edges})
    return Discretizer(
        count, number, lambda k: Bin(bounds[k], bounds[k + 1]), f"{count} bins", recipe
    )


def _array(space: Any, digits: list[Discretizer], *, binned: bool = False) -> Discretizer:
    """Return the discretizer of an array's entries, in C order; where some are bins, they come back as a tuple."""

    def join(entries: Iterable[Any]) -> Any:
        return tuple(entries) if binned else np.array([*entries], space.dtype).reshape(space.shape)

    return _product({"entries": [digit.recipe for digit in digits]}, digits, join)


def _product(
    recipe: Recipe,
    digits: list[Discretizer],
    join: Callable[[Iterable[Any]], Any],
    names: Iterable[str] | None = None,
) -> Discretizer:
    """Return the discretizer of combinations of an observation's parts, the last one counting fastest."""
    states, number, _ = numbering(recipe)

    def inverse(total: int) -> Any:
        parts = []
        for digit in reversed(digits):
            total, k = divmod(total, digit.states)
            assert digit.inverse is not None  # of our own making
            parts.append(digit.inverse(k))
        return join(reversed(parts))

    labels = names or [""] * len(digits)
    words = [label + digit.parts for label, digit in zip(labels, digits, strict=True)]
    text = f"({' × '.join(words)})" if len(words) > 1 or names else "".join(words)
    return Discretizer(states, number, inverse, text, recipe)
