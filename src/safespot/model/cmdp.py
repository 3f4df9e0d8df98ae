"""The true model: a finite constrained Markov decision process (CMDP).

    maximize  V_r(pi) = E sum_h r_h(s_h, a_h)
    subject to  V_{g_i}(pi) = E sum_h g_{i,h}(s_h, a_h) >= alpha_i = sum_h alpha_{i,h}   for all i

over an episode of H steps that starts in a state or a distribution over states. A user may state it
with costs and budgets (sense ``<=``) and in any declared range; `CMDP` keeps what the user said, and
`Model` is the same thing inside: every sense ``>=``, everything in [0,1].
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse

from ..arrays import (
    SUM_TOLERANCE,
    Bool,
    Float,
    as_count,
    as_floats,
    as_policy,
    check_range,
    first,
    frozen,
    place,
    unmasked,
)
from ..display import Displayed
from ..errors import InvalidFile, InvalidModel
from ..files import check_memory, read_arrays, write_arrays
from ..names import Names, make_names
from ..planning.process import Process, make_process
from ..units import Units, check_means, make_units, spread_thresholds
from .transitions import Transitions, as_matrices, as_transitions, check_rows


class Model(NamedTuple):
    """The CMDP inside: senses ``>=``, everything in [0,1]. K is 1 where no step differs, else H."""

    P: Transitions  # [K, S*A, S]
    payoffs: Float  # [1+m, K, S*A]: the reward, then the constraints
    alpha: Float  # [m, H]
    start: Float  # [S]: a distribution
    mask: Bool  # [K, S*A]: which pairs are admissible

    @property
    def limits(self) -> Float:
        """The episodic thresholds ``[m]``."""
        limits: Float = self.alpha.sum(axis=1)
        return limits


def steps_alike(model: Model) -> bool:
    """Return whether transitions, rewards and constraints are the same at every step."""
    P, payoffs = model.P, model.payoffs
    alike = bool((payoffs == payoffs[:, :1]).all())
    if not alike or len(P.dense) + len(P.starts) == 1:
        return alike
    if len(P.dense) > 0:
        return bool((P.dense == P.dense[:1]).all())
    lengths = P.starts - P.starts[:, :1]
    if not (lengths == lengths[:1]).all():
        return False
    blocks = (len(P.starts), int(lengths[0, -1]))
    return all(
        bool((rows == rows[:1]).all())
        for rows in (P.successors.reshape(blocks), P.probabilities.reshape(blocks))
    )


class CMDP(Displayed):
    """A finite constrained Markov decision process, validated and frozen.

    Args:
        transitions: dense ``[H,S,A,S]`` or ``[S,A,S]``; or SciPy sparse ``[S*A, S]`` (row s*A + a),
            or a list of H of them.
        rewards: ``[H,S,A]`` or ``[S,A]``, means within `reward_range`.
        constraints: ``[m,H,S,A]`` or ``[m,S,A]``, means within `constraint_ranges`.
        thresholds: per step ``[m,H]``, or episodic totals ``[m]``, which are spread evenly.
        start: the first state, or a distribution over states ``[S]``.
        senses: ``">="``, ``"<="``, or one per constraint.
        actions: which actions are admissible, boolean ``[S,A]`` or ``[H,S,A]``; None is all.
        reward_range: (low, high) of one reward.
        constraint_ranges: (low, high) of one step of each constraint; one pair serves all.
        horizon: H, needed only where no array says it.
        state_names: what the S states are called, where people read of them.
        action_names: what the A actions are called.
        limit_names: what the m constraints are called.
        units: what an episode's sums are measured in: a dict with "reward", a text, and "constraints", one for each.

    Attributes are named like the arguments and hold what the user said; time-homogeneous arrays are
    broadcast over the steps without a copy. `limits` are the episodic thresholds ``[m]``; `names` are
    names and units.

    Examples:
        >>> import safespot as ss
        >>> cmdp = ss.CMDP(  # one state, one step: a risky arm, and one that is safe and pays less
        ...     [[[1], [1]]], rewards=[[1.0, 0.4]], constraints=[[[0, 1]]], thresholds=[0.5], horizon=1
        ... )
        >>> cmdp
        <CMDP S=1 A=2 H=1 m=1, dense transitions>
        >>> round(ss.solve(cmdp).value, 6)
        0.7

    """

    H: int
    S: int
    A: int
    m: int
    units: Units
    names: Names
    model: Model
    rewards: Float  # [H, S, A]
    constraints: Float  # [m, H, S, A]
    thresholds: Float  # [m, H]
    start: int | Float
    actions: Bool | None  # [S, A] or [H, S, A]

    def __init__(
        self,
        transitions: ArrayLike | Any,
        rewards: ArrayLike,
        constraints: ArrayLike,
        thresholds: ArrayLike,
        start: int | ArrayLike = 0,
        senses: str | Sequence[str] = ">=",
        actions: ArrayLike | None = None,
        reward_range: Sequence[float] = (0, 1),
        constraint_ranges: Sequence[float] | Sequence[Sequence[float]] | None = None,
        *,
        horizon: int | None = None,
        state_names: Sequence[str] | None = None,
        action_names: Sequence[str] | None = None,
        limit_names: Sequence[str] | None = None,
        units: Mapping[str, Any] | None = None,
    ) -> None:
        P, H_of_transitions, (rows, S) = as_transitions(transitions)
        A = rows // S
        r, g = as_floats("rewards", rewards), as_floats("constraints", constraints)
        alpha = as_floats("thresholds", thresholds)
        mask = None if actions is None else _as_mask(actions)
        H = _horizon(H_of_transitions, r, g, alpha, mask, horizon)
        _check_shapes(r, g, alpha, mask, (H, S, A))
        m = len(g)
        terms = make_units(m, senses, reward_range, constraint_ranges)
        alpha, alpha_inside = spread_thresholds(alpha, H, terms)
        r, g = r.reshape(-1, S, A), g.reshape(m, -1, S, A)  # [K,S,A], [m,K,S,A]
        if mask is not None:
            mask = frozen(mask.reshape(-1, S, A))
            barren = np.logical_not(mask.any(axis=2))
            if barren.any():
                bad = first(np.asarray(barren))
                where = place("hs", bad) if len(mask) > 1 else place("s", bad[1:])
                raise InvalidModel(
                    f"actions allow no action at {where}; every state needs an admissible action. "
                    "A state where nothing is decided keeps one action."
                )
        check_rows(P, A, mask)
        _check_ranges(r, g, terms)
        first_state = _as_start(start, S)

        self.__dict__.update(
            H=H,
            S=S,
            A=A,
            m=m,
            units=terms,
            names=make_names((S, A, m), state_names, action_names, limit_names, units),
            rewards=np.broadcast_to(r, (H, S, A)),
            constraints=np.broadcast_to(g, (m, H, S, A)),
            thresholds=alpha,
            start=first_state,
            actions=mask if mask is None or len(mask) > 1 else mask[0],
            model=_model(P, r, g, alpha_inside, first_state, mask, terms),
        )

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"a CMDP is frozen; make a new one with another `{name}`.")

    @property
    def senses(self) -> tuple[str, ...]:
        """The sense of each constraint, ``">="`` or ``"<="``."""
        return self.units.senses

    @property
    def reward_range(self) -> tuple[float, float]:
        """(low, high) of one reward."""
        return self.units.reward_range

    @property
    def constraint_ranges(self) -> tuple[tuple[float, float], ...]:
        """(low, high) of one step of each constraint."""
        return self.units.constraint_ranges

    @functools.cached_property
    def process(self) -> Process:
        """The model as plans see it."""
        P, model = self.model.P, self.model
        dense = (sparse.csr_array(rows) for rows in P.dense)
        rows = dense if P.dense.size else as_matrices(P, self.S)
        pairs = self.S * self.A
        return make_process(
            rows, model.payoffs, model.start, model.mask,
            np.zeros((1, pairs)), np.zeros((1 + self.m, self.H)),
        )  # fmt: skip

    @property
    def limits(self) -> Float:
        """The episodic thresholds ``[m]``, the sums over the steps."""
        limits: Float = self.thresholds.sum(axis=1)
        return limits

    @property
    def transitions(self) -> Any:
        """The transitions, dense ``[H,S,A,S]`` without a copy, or as a list of H sparse ``[S*A, S]``."""
        P, shape = self.model.P, (self.H, self.S, self.A, self.S)
        if P.dense.size:
            return np.broadcast_to(P.dense.reshape(-1, *shape[1:]), shape)
        matrices = as_matrices(P, self.S)
        return matrices * self.H if len(matrices) == 1 else matrices

    def with_thresholds(self, thresholds: ArrayLike) -> CMDP:
        """Return this CMDP with other thresholds, ``[m]`` or ``[m,H]``; everything else is shared."""
        values = as_floats("thresholds", thresholds)
        alpha, inside = spread_thresholds(values, self.H, self.units)
        other = object.__new__(CMDP)
        other.__dict__.update(self.__dict__)
        other.__dict__.update(thresholds=alpha, model=self.model._replace(alpha=inside))
        return other

    def policy(self, value: ArrayLike) -> Float:
        """Return `value` checked as a policy of this CMDP, ``[H,S,A]``."""
        mask = self.model.mask.reshape(-1, self.S, self.A)
        return as_policy(value, (self.H, self.S, self.A), mask)

    def save(self, path: str | Path) -> None:
        """Write to a file (safetensors with a checksum; no code is ever run from it)."""
        about = {
            "horizon": self.H,
            "states": self.S,
            "senses": self.senses,
            "reward_range": self.reward_range,
            "constraint_ranges": self.constraint_ranges,
            "names": self.names.arguments,
        }
        write_arrays(path, "cmdp", self._parts(), about)

    @classmethod
    def load(cls, path: str | Path) -> CMDP:
        """Read what `save` wrote; a damaged file is an `InvalidFile`."""
        parts, about = read_arrays(path, "cmdp")
        try:
            S, H = int(about["states"]), int(about["horizon"])
            r, g = parts["rewards"], parts["constraints"]
            check_memory(path, 8 * 2 * len(g) * H)  # thresholds, spread over the steps
            mask, start = parts.get("actions"), parts["start"]
            if r.shape[-2] != S:
                raise InvalidModel(f"it declares {S} states and has rewards of {r.shape[-2]}.")
            if "dense" in parts:
                transitions = _squeeze(parts["dense"].reshape(-1, S, r.shape[-1], S), 0)
            else:
                blocks = Transitions(*(parts.get(f, np.empty(0)) for f in Transitions._fields))
                transitions = _squeeze(as_matrices(blocks, S), 0)
            return cls(
                transitions,
                _squeeze(r, 0),
                _squeeze(g, 1),
                parts["thresholds"],
                int(start) if start.ndim == 0 else start,
                about["senses"],
                mask if mask is None else _squeeze(mask, 0),
                about["reward_range"],
                about["constraint_ranges"],
                horizon=H,
                **about.get("names", {}),
            )
        except (
            InvalidModel,
            KeyError,
            IndexError,
            TypeError,
            ValueError,
            OverflowError,
        ) as exc:
            raise InvalidFile(f"{path} does not describe a CMDP: {exc}") from None

    def _parts(self) -> dict[str, Any]:
        """Return the user's arrays, each as small as in storage: the axis of steps is K."""
        model = self.model
        parts = {name: array for name, array in model.P._asdict().items() if array.size}
        parts.update(rewards=_unspread(self.rewards, 0), constraints=_unspread(self.constraints, 1))
        parts.update(thresholds=self.thresholds, start=np.asarray(self.start))
        if self.actions is not None:
            parts["actions"] = model.mask.reshape(-1, self.S, self.A)
        return parts

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, CMDP):
            return NotImplemented
        mine, theirs = self._parts(), other._parts()
        return (
            self.units == other.units
            and mine.keys() == theirs.keys()
            and all(np.array_equal(mine[key], theirs[key]) for key in mine)
        )

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        kind = "dense" if self.model.P.dense.size else "sparse"
        return f"<CMDP S={self.S} A={self.A} H={self.H} m={self.m}, {kind} transitions>"

    def _facts(self) -> dict[str, Any]:
        limits = {
            self.names.quantity(i): f"{sense} {limit:.4g}"
            for i, (sense, limit) in enumerate(zip(self.senses, self.limits, strict=True))
        }
        return {
            "states": self.S,
            "actions": self.A,
            "steps": self.H,
            **limits,
            "rewards": self.names.reward,
        }


def _unspread(array: Float, axis: int) -> Float:
    """Undo `np.broadcast_to` over the steps: the axis has length 1 where nothing was copied."""
    spread = array.strides[axis] == 0 and array.shape[axis] > 1
    return np.take(array, [0], axis=axis) if spread else array


def _squeeze(array: Any, axis: int) -> Any:
    """Drop the axis of steps where one entry serves them all."""
    if isinstance(array, list):
        return array[0] if len(array) == 1 else array
    return array.squeeze(axis) if array.shape[axis] == 1 else array


def _as_mask(value: ArrayLike) -> Bool:
    try:
        mask = unmasked(value)
    except ValueError:
        mask = np.empty(0)
    if mask.dtype != np.bool_ or mask.ndim not in (2, 3):
        raise InvalidModel(
            f"actions have type {mask.dtype} and shape {mask.shape}; expected a boolean mask [S,A] "
            "or [H,S,A] that is True where an action is admissible."
        )
    return frozen(np.array(mask, order="C"))


def _horizon(
    H_of_transitions: int | None,
    r: Float,
    g: Float,
    alpha: Float,
    mask: Bool | None,
    horizon: int | None,
) -> int:
    """Return H by all arrays that have an axis of steps; raise where they disagree."""
    horizons = {
        "transitions": H_of_transitions,
        "rewards": r.shape[0] if r.ndim == 3 else None,
        "constraints": g.shape[1] if g.ndim == 4 else None,
        "thresholds": alpha.shape[1] if alpha.ndim == 2 else None,
        "actions": mask.shape[0] if mask is not None and mask.ndim == 3 else None,
        "horizon": None if horizon is None else as_count("horizon", horizon, least=1),
    }
    known = {name: H for name, H in horizons.items() if H is not None}
    if not known:
        raise InvalidModel(
            "no array says how many steps an episode has: give horizon=, or thresholds per step "
            "[m,H]."
        )
    if len(set(known.values())) > 1 or 0 in known.values():
        raise InvalidModel(
            "the arrays disagree on the number of steps H: "
            + ", ".join(f"{name} say {H}" for name, H in known.items())
            + "."
        )
    return next(iter(known.values()))


def _check_shapes(
    r: Float, g: Float, alpha: Float, mask: Bool | None, shape: tuple[int, int, int]
) -> None:
    H, S, A = shape
    m = len(g) if g.ndim else 0
    expected: tuple[tuple[str, Any, str, list[tuple[int, ...]]], ...] = (
        ("rewards", r, "[H,S,A] or [S,A]", [shape, (S, A)]),
        ("constraints", g, "[m,H,S,A] or [m,S,A], m >= 1", [(m, *shape), (m, S, A)]),
        ("thresholds", alpha, "[m,H] or [m]", [(m, H), (m,)]),
        ("actions", mask, "[S,A] or [H,S,A]", [shape, (S, A)]),
    )
    for name, array, words, shapes in expected:
        if array is not None and (array.shape not in shapes or array.size == 0):
            raise InvalidModel(
                f"{name} have shape {array.shape}; expected {words} with H = {H}, S = {S}, A = {A}"
                + (f", m = {m}." if m else ".")
            )


def _check_ranges(r: Float, g: Float, terms: Units) -> None:
    check_means("reward", _squeeze(r, 0), terms.reward_range, "hsa" if len(r) > 1 else "sa")
    axes = "hsa" if g.shape[1] > 1 else "sa"
    for i, bounds in enumerate(terms.constraint_ranges):
        check_means(f"constraint {i}", _squeeze(g[i], 0), bounds, axes)


def _as_start(value: int | ArrayLike, S: int) -> int | Float:
    try:
        single = np.ndim(value) == 0
    except ValueError:  # ragged, and refused below
        single = False
    if single:
        state = as_count("start", value, least=0)
        if state >= S:
            raise InvalidModel(f"start is state {state}; states are 0 to {S - 1}.")
        return state
    start = as_floats("start", value)
    if start.shape != (S,):
        raise InvalidModel(
            f"start has shape {start.shape}; expected a state, or a distribution [S] with S = {S}."
        )
    check_range("start", start, 0.0, 1.0, "s", fix="Entries must be probabilities.")
    if abs(start.sum() - 1.0) > SUM_TOLERANCE:
        raise InvalidModel(
            f"start sums to {start.sum()}; expected 1 within {SUM_TOLERANCE:g}. Divide it by its "
            "sum."
        )
    return frozen(start)


def _model(
    P: Transitions,
    r: Float,
    g: Float,
    alpha: Float,
    start: int | Float,
    mask: Bool | None,
    terms: Units,
) -> Model:
    """Return the inside model of a validated CMDP; `r` is ``[K,S,A]``, `g` ``[m,K,S,A]``."""
    m, _, S, A = g.shape
    K = max(r.shape[0], g.shape[1])
    inside = terms.constraints.inside
    payoffs = np.empty((1 + m, K, S * A))
    payoffs[0] = terms.reward.inside(r).reshape(-1, S * A)
    payoffs[1:] = np.moveaxis(inside(np.moveaxis(g, 0, -1)), -1, 0).reshape(m, -1, S * A)
    if isinstance(start, int):
        distribution = np.zeros(S)
        distribution[start] = 1.0
    else:
        distribution = start
    admissible = np.ones((1, S, A), np.bool_) if mask is None else mask
    return Model(
        P=P,
        payoffs=frozen(payoffs.clip(0.0, 1.0)),
        alpha=alpha,
        start=frozen(distribution),
        mask=frozen(admissible.reshape(-1, S * A)),
    )
