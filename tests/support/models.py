"""Hypothesis strategies for CMDPs, valid and broken, and the plain NumPy reading of one.

A model is the dict of arguments of `CMDP`. `tables` spreads such a dict over the steps in the user's
own terms, without any code of the package, so that what the package says can be compared with it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from hypothesis import strategies as st
from scipy import sparse

Arguments = dict[str, Any]
Rng = np.random.Generator
Array = Any  # a NumPy array; its shape stands beside it

RANGES = [(0.0, 1.0), (-3.0, 7.0), (2.0, 2.5), (-1.0, 0.0), (0.0, 4.0)]


class Tables(NamedTuple):
    """A CMDP spread over its steps, in the user's terms."""

    transitions: Array  # [H, S, A, S]
    rewards: Array  # [H, S, A]
    constraints: Array  # [m, H, S, A]
    thresholds: Array  # [m, H]
    start: Array  # [S]
    mask: Array  # [H, S, A]
    senses: tuple[str, ...]
    reward_range: tuple[float, float]
    constraint_ranges: Array  # [m, 2]


def tables(arguments: Arguments) -> Tables:
    g, alpha = np.asarray(arguments["constraints"]), np.asarray(arguments["thresholds"])
    S, A = np.shape(arguments["rewards"])[-2:]
    m, H = len(g), horizon(arguments)
    P: Any = arguments["transitions"]
    if hasattr(P, "toarray"):
        P = P.toarray().reshape(S, A, S)
    elif isinstance(P, list):
        P = np.stack([matrix.toarray().reshape(S, A, S) for matrix in P])
    start = arguments.get("start", 0)
    senses = arguments.get("senses", ">=")
    mask = arguments.get("actions")
    ranges = arguments.get("constraint_ranges")
    return Tables(
        np.broadcast_to(P, (H, S, A, S)),
        np.broadcast_to(arguments["rewards"], (H, S, A)),
        np.broadcast_to(g if g.ndim == 4 else g[:, None], (m, H, S, A)),
        np.repeat(alpha[:, None] / H, H, axis=1) if alpha.ndim == 1 else alpha,
        np.eye(S)[start] if np.ndim(start) == 0 else np.asarray(start),
        np.broadcast_to(True if mask is None else mask, (H, S, A)),
        (senses,) * m if isinstance(senses, str) else tuple(senses),
        arguments.get("reward_range", (0.0, 1.0)),
        np.broadcast_to((0.0, 1.0) if ranges is None else ranges, (m, 2)),
    )


def horizon(arguments: Arguments) -> int:
    """H from whichever argument says it."""
    if "horizon" in arguments:
        return int(arguments["horizon"])
    P = arguments["transitions"]
    said = [
        len(P) if isinstance(P, list) or (not sparse.issparse(P) and np.ndim(P) == 4) else None,
        len(arguments["rewards"]) if np.ndim(arguments["rewards"]) == 3 else None,
        np.shape(arguments["constraints"])[1] if np.ndim(arguments["constraints"]) == 4 else None,
        np.shape(arguments["thresholds"])[1] if np.ndim(arguments["thresholds"]) == 2 else None,
        len(arguments["actions"]) if np.ndim(arguments.get("actions", True)) == 3 else None,
    ]
    return next(int(H) for H in said if H is not None)


def to_inside(t: Tables) -> Tables:
    """The same CMDP with every sense >= and everything in [0,1], converted by hand."""
    low, high = t.reward_range
    g, alpha = np.empty_like(t.constraints), np.empty_like(t.thresholds)
    for i, (sense, (least, most)) in enumerate(zip(t.senses, t.constraint_ranges, strict=True)):
        for source, target in ((t.constraints, g), (t.thresholds, alpha)):
            gain = source[i] - least if sense == ">=" else most - source[i]
            target[i] = gain / (most - least)
    m = len(g)
    return t._replace(
        rewards=((t.rewards - low) / (high - low)).clip(0, 1),
        constraints=g.clip(0, 1),
        thresholds=alpha.clip(0, 1),
        senses=(">=",) * m,
        reward_range=(0.0, 1.0),
        constraint_ranges=np.tile([0.0, 1.0], (m, 1)),
    )


def to_arguments(t: Tables) -> Arguments:
    return {
        "transitions": t.transitions,
        "rewards": t.rewards,
        "constraints": t.constraints,
        "thresholds": t.thresholds,
        "start": t.start,
        "senses": t.senses,
        "actions": t.mask,
        "reward_range": t.reward_range,
        "constraint_ranges": t.constraint_ranges,
    }


def values(t: Tables, policy: Array) -> Array:
    """Backward induction, [1+m]: the reward, then the constraints."""
    payoffs = np.concatenate([t.rewards[None], t.constraints])
    V = np.zeros((len(payoffs), len(t.start)))
    for h in reversed(range(len(t.rewards))):
        Q = payoffs[:, h] + np.einsum("san,cn->csa", t.transitions[h], V)
        V = np.einsum("sa,csa->cs", policy[h], Q)
    return V @ t.start


def step_means(t: Tables, policy: Array) -> Array:
    """E g_i at every step, [m, H]."""
    means, now = np.empty(t.thresholds.shape), t.start
    for h in range(means.shape[1]):
        pairs = now[:, None] * policy[h]
        means[:, h] = np.einsum("isa,sa->i", t.constraints[:, h], pairs)
        now = np.einsum("sa,san->n", pairs, t.transitions[h])
    return means


def random_policy(mask: Array, rng: Rng, *, deterministic: bool = False) -> Array:
    """A policy [H,S,A] within the mask."""
    weights = np.where(mask, 0.05 + rng.random(mask.shape), 0.0)
    if deterministic:
        return np.eye(mask.shape[2])[weights.argmax(axis=2)]
    return weights / weights.sum(axis=2, keepdims=True)


@st.composite
def valid(
    draw: st.DrawFn,
    *,
    feasible: bool = True,
    layouts: tuple[str, ...] = ("dense", "csr", "csc", "coo"),
    margins: tuple[float, ...] = (0.0, 0.01, 0.3),
    masks: bool = True,
) -> Arguments:
    """Arguments of a valid CMDP; a feasible one keeps what some policy reaches less a margin."""
    S, A, H = draw(st.integers(1, 4)), draw(st.integers(1, 3)), draw(st.integers(1, 4))
    m = draw(st.integers(1, 3))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    coarse = draw(st.booleans())  # few distinct numbers: ties and degenerate programs

    def numbers(*shape: int) -> Array:
        return rng.integers(0, 5, shape) / 4 if coarse else rng.random(shape)

    def steps() -> tuple[int, ...]:
        return draw(st.sampled_from([(), (H,)]))

    shapes: list[Any] = [None, (S, A), (H, S, A)]
    shape = draw(st.sampled_from(shapes)) if masks else None
    mask = None
    if shape is not None:
        mask = rng.random(shape) < 0.6
        mask[..., 0] |= ~mask.any(axis=-1)
    P = _rows(rng, (*steps(), S, A, S), coarse)
    if mask is not None and mask.ndim == 2 and draw(st.booleans()):
        P[..., ~mask, :] = 0.0  # nobody needs a row of an inadmissible pair
    start: Any = draw(st.integers(0, S - 1))
    if draw(st.booleans()):
        start = _rows(rng, (S,), coarse)
    r = numbers(*steps(), S, A)
    g = numbers(m, *steps(), S, A)
    senses = [draw(st.sampled_from([">=", "<="])) for _ in range(m)]
    ranges = [draw(st.sampled_from(RANGES)) for _ in range(m)]
    low, high = draw(st.sampled_from(RANGES))
    arguments: Arguments = {
        "transitions": P,
        "rewards": r,
        "constraints": g,
        "thresholds": np.zeros((m, H)),
        "start": start,
        "horizon": H,
    }
    if mask is not None:
        arguments["actions"] = mask
    if feasible:
        t = tables(arguments)
        means = step_means(t, random_policy(t.mask, rng, deterministic=coarse))
        alpha = (means - draw(st.sampled_from(margins)) / H).clip(0.0)
    else:
        alpha = numbers(m, H)
    if draw(st.booleans()):
        alpha = alpha.sum(axis=1)
    # From here on in the user's own terms.
    arguments["rewards"] = low + (high - low) * r
    arguments["reward_range"] = (low, high)
    total = H if alpha.ndim == 1 else 1
    arguments["constraints"] = np.empty_like(g)
    arguments["thresholds"] = np.empty_like(alpha)
    for i, (sense, (least, most_)) in enumerate(zip(senses, ranges, strict=True)):
        offset, scale = (least, most_ - least) if sense == ">=" else (most_, least - most_)
        arguments["constraints"][i] = offset + scale * g[i]
        arguments["thresholds"][i] = total * offset + scale * alpha[i]
    arguments["senses"] = senses[0] if len(set(senses)) == 1 and draw(st.booleans()) else senses
    same = len(set(ranges)) == 1 and draw(st.booleans())
    arguments["constraint_ranges"] = ranges[0] if same else ranges
    layout = draw(st.sampled_from(layouts))
    if layout != "dense":
        make = getattr(sparse, draw(st.sampled_from([f"{layout}_array", f"{layout}_matrix"])))
        matrices = [make(block) for block in P.reshape(-1, S * A, S)]
        arguments["transitions"] = matrices if P.ndim == 4 else matrices[0]
    others = {name: value for name, value in arguments.items() if name != "horizon"}
    if draw(st.booleans()) and _says_steps(others):
        del arguments["horizon"]
    return arguments


def _says_steps(arguments: Arguments) -> bool:
    try:
        horizon(arguments)
    except StopIteration:
        return False
    return True


def _rows(rng: Rng, shape: tuple[int, ...], coarse: bool) -> Array:
    """Distributions along the last axis, some entries zero."""
    weights = rng.integers(0, 3, shape).astype(float) if coarse else rng.random(shape)
    weights[rng.random(shape) < 0.3] = 0.0
    last = np.moveaxis(weights, -1, 0)
    last[0] += weights.sum(axis=-1) == 0.0
    return weights / weights.sum(axis=-1, keepdims=True)


# --- Broken models: each takes valid arguments with everything dense and spelled out, and breaks one thing.

Break = Callable[[Arguments, Rng], None]


def _set(name: str, value: Any) -> Break:
    def apply(arguments: Arguments, rng: Rng) -> None:
        arguments[name] = value

    return apply


def _entry(name: str, value: Any) -> Break:
    """One random entry of an array becomes `value`."""

    def apply(arguments: Arguments, rng: Rng) -> None:
        array = np.array(arguments[name], dtype=float)
        array[tuple(rng.integers(0, array.shape))] = value
        arguments[name] = array

    return apply


def _change(name: str, change: Callable[[Any], Any]) -> Break:
    def apply(arguments: Arguments, rng: Rng) -> None:
        arguments[name] = change(arguments[name])

    return apply


def _negative(P: Any) -> Any:
    """A negative entry in the first row, whose sum stays one where it has a second entry."""
    changed = np.array(P, order="C")
    row = changed.reshape(-1, changed.shape[-1])[0]
    row[0] += 2.0
    row[-1] -= 2.0 if len(row) > 1 else 4.0
    return changed


def _ragged(array: Any) -> Any:
    return [np.asarray(array).tolist(), [[0.0]]]


def _sparse(change: Callable[[Any], Any]) -> Break:
    """Transitions of every step as CSR, step 0 changed."""

    def apply(arguments: Arguments, rng: Rng) -> None:
        P = np.asarray(arguments["transitions"])
        S = P.shape[-1]
        matrices: list[Any] = [sparse.csr_array(p.reshape(-1, S)) for p in P]
        matrices[0] = change(matrices[0])
        arguments["transitions"] = matrices

    return apply


def _tamper(part: str, value: float) -> Callable[[Any], Any]:
    def change(matrix: Any) -> Any:
        getattr(matrix, part)[-1] = value
        return matrix

    return change


def _columns_out_of_range(matrix: Any) -> Any:
    """SciPy lets such columns be made, and crashes when it turns them into rows."""
    columns = sparse.csc_array(matrix)
    columns.indices[-1] = 10**8
    return columns


ARRAYS = ("transitions", "rewards", "constraints", "thresholds")
BREAKS: dict[str, Break] = {
    **{f"{n}: {v}": _entry(n, v) for n in ARRAYS for v in (np.nan, np.inf, -np.inf)},
    **{f"{n}: too large": _entry(n, 2e3) for n in ARRAYS},
    **{f"{n}: too small": _entry(n, -2e3) for n in ARRAYS},
    **{f"{n}: ragged": _change(n, _ragged) for n in ARRAYS},
    **{f"{n}: text": _set(n, "zero") for n in ARRAYS},
    **{f"{n}: texts": _change(n, lambda a: np.asarray(a).astype(str)) for n in ARRAYS},
    **{f"{n}: objects": _change(n, lambda a: np.asarray(a).astype(object)) for n in ARRAYS},
    **{f"{n}: complex": _change(n, lambda a: np.asarray(a) + 1j) for n in ARRAYS},
    **{f"{n}: dates": _change(n, lambda a: np.zeros(np.shape(a), "M8[s]")) for n in ARRAYS},
    **{f"{n}: None": _set(n, None) for n in ARRAYS},
    **{f"{n}: dict": _set(n, {}) for n in ARRAYS},
    **{f"{n}: scalar": _set(n, 0.5) for n in ARRAYS},
    **{f"{n}: empty": _set(n, []) for n in ARRAYS},
    **{f"{n}: no entries": _change(n, lambda a: np.asarray(a)[..., :0]) for n in ARRAYS},
    **{f"{n}: one axis more": _change(n, lambda a: np.asarray(a)[None, None]) for n in ARRAYS},
    **{
        f"{n}: a column more": _change(n, lambda a: np.concatenate([a, a[..., :1]], axis=-1))
        for n in ARRAYS
    },
    **{
        f"{n}: huge ints": _change(n, lambda a: (np.full(np.shape(a), 10**30, object)).tolist())
        for n in ARRAYS
    },
    "transitions: negative": _change("transitions", _negative),
    "transitions: a row's sum": _change("transitions", lambda P: P * (1 + 1e-6)),
    "constraints: none": _change("constraints", lambda g: g[:0]),
    "thresholds: none": _change("thresholds", lambda a: a[:0]),
    "thresholds: a constraint more": _change("thresholds", lambda a: np.concatenate([a, a[:1]])),
    "horizon: disagrees": _change("horizon", lambda H: H + 1),
    "horizon: zero": _set("horizon", 0),
    "horizon: negative": _set("horizon", -1),
    "horizon: fraction": _set("horizon", 2.0),
    "horizon: bool": _set("horizon", True),
    "horizon: text": _set("horizon", "3"),
    "start: too large": _set("start", 99),
    "start: negative": _set("start", -1),
    "start: fraction": _set("start", 0.0),
    "start: bool": _set("start", False),
    "start: text": _set("start", "first"),
    "start: None": _set("start", None),
    "start: empty": _set("start", []),
    "start: ragged": _set("start", [[0.5], [0.25, 0.25]]),
    "start: sum": _change("start", lambda s: np.asarray(s) * 0.9),
    "start: NaN": _entry("start", np.nan),
    "start: negative entry": _entry("start", -0.5),
    "start: a state more": _change("start", lambda s: np.append(s, 0.0)),
    "start: texts": _change("start", lambda s: np.asarray(s).astype(str)),
    "actions: none at a state": _change("actions", lambda k: np.zeros_like(k)),
    "actions: numbers": _change("actions", lambda k: k.astype(int)),
    "actions: ragged": _set("actions", [[True], [True, False]]),
    "actions: shape": _change("actions", lambda k: k[..., :0]),
    "actions: text": _set("actions", "all"),
    "actions: a column more": _change(
        "actions", lambda k: np.concatenate([k, k[..., :1]], axis=-1)
    ),
    "senses: word": _set("senses", "=="),
    "senses: too many": _set("senses", [">="] * 9),
    "senses: none": _set("senses", []),
    "senses: numbers": _change("senses", lambda s: [1] * len(s)),
    "senses: number": _set("senses", 1),
    "senses: None": _set("senses", None),
    "senses: arrays": _change("senses", lambda s: [np.array([">=", "<="])] * len(s)),
    "reward_range: reversed": _change("reward_range", lambda r: (r[1], r[0])),
    "reward_range: empty": _set("reward_range", (1.0, 1.0)),
    "reward_range: one": _set("reward_range", (1.0,)),
    "reward_range: number": _set("reward_range", 1.0),
    "reward_range: NaN": _set("reward_range", (0.0, np.nan)),
    "reward_range: infinite": _set("reward_range", (-np.inf, np.inf)),
    "reward_range: overflows": _set("reward_range", (-1.5e308, 1.5e308)),
    "reward_range: text": _set("reward_range", "ab"),
    "reward_range: None": _set("reward_range", None),
    "constraint_ranges: reversed": _change("constraint_ranges", lambda r: [(b, a) for a, b in r]),
    "constraint_ranges: too many": _set("constraint_ranges", [(0.0, 9.0)] * 9),
    "constraint_ranges: NaN": _entry("constraint_ranges", np.nan),
    "constraint_ranges: infinite": _entry("constraint_ranges", np.inf),
    "constraint_ranges: text": _set("constraint_ranges", "wide"),
    "constraint_ranges: ragged": _set("constraint_ranges", [[0.0, 1.0], [2.0]]),
    "sparse: index too large": _sparse(_tamper("indices", 99)),
    "sparse: negative index": _sparse(_tamper("indices", -1)),
    "sparse: pointer": _sparse(_tamper("indptr", 999)),
    "sparse: pointers back to zero": _sparse(_tamper("indptr", 0)),
    "sparse: NaN": _sparse(_tamper("data", np.nan)),
    "sparse: infinite": _sparse(_tamper("data", np.inf)),
    "sparse: negative": _sparse(_tamper("data", -0.25)),
    "sparse: a row's sum": _sparse(lambda matrix: matrix * 0.5),
    "sparse: complex": _sparse(lambda matrix: matrix * 1j),
    "sparse: shape": _sparse(lambda matrix: matrix[:-1]),
    "sparse: no rows": _sparse(lambda matrix: matrix[:0]),
    "sparse: one axis": _sparse(lambda matrix: sparse.coo_array(np.ones(3))),
    "sparse: mixed with dense": _change(
        "transitions", lambda P: [sparse.csr_array(P[0].reshape(-1, P.shape[-1])), P[0]]
    ),
    "sparse: columns with a bad index": _sparse(_columns_out_of_range),
}


@st.composite
def broken(draw: st.DrawFn, what: str | None = None) -> Arguments:
    """Arguments that are wrong in one way: that of `what`, a key of `BREAKS`, or any."""
    # Without a mask: a row of an inadmissible pair may hold anything, so breaking it breaks nothing.
    t = tables(draw(valid(layouts=("dense",), masks=False)))
    arguments = to_arguments(t)
    arguments["horizon"] = len(t.rewards)
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    name = draw(st.sampled_from(sorted(BREAKS))) if what is None else what
    BREAKS[name](arguments, rng)
    return arguments
