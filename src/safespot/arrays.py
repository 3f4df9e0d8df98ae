"""Shape-named arrays, the checks that every array passes at the border, and the Episode record.

Axes are always ``[i, h, s, a, s']`` (constraint, step, state, action, next state), 0-based.
Arrays inside records are C-contiguous and read-only; records are frozen.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeAlias, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .display import Displayed
from .errors import InvalidEpisode, InvalidModel, SafespotError

Float: TypeAlias = NDArray[np.float64]
Int: TypeAlias = NDArray[np.int64]
Bool: TypeAlias = NDArray[np.bool_]
Policy: TypeAlias = Float  # [H, S, A], rows over the last axis are distributions

LARGEST = 2**63 - 1  # whole number that an array can hold
SUM_TOLERANCE = 1e-9  # how far a distribution's sum may be from one
AXES = {"i": "constraint", "h": "step", "s": "state", "a": "action", "n": "next state"}

Error = type[SafespotError]
A = TypeVar("A", bound=NDArray)


def frozen(array: A) -> A:
    """Return `array` itself, made read-only."""
    array.setflags(write=False)
    return array


def as_floats(
    name: str, value: ArrayLike, *, error: Error = InvalidModel, missing: bool = False
) -> Float:
    """Return `value` as a C-contiguous float64 array of finite numbers, always a copy.

    With `missing`, NaN is let through.
    """
    try:
        raw = unmasked(value)
        if raw.dtype.kind not in "fiub":
            raise TypeError(_what_else(raw))
        array = np.array(raw, dtype=np.float64, order="C")
    except (TypeError, ValueError) as exc:
        raise error(
            f"{name} must be an array of real numbers, rectangular in shape; got {exc}."
        ) from None
    wrong = np.isinf(array) if missing else ~np.isfinite(array)
    if np.count_nonzero(wrong):  # a third of the time of any(), which tells for short episodes
        bad = first(wrong)
        where = f"{name}{list(bad)}" if bad else name
        raise error(f"{where} is {array[bad]}; every entry must be a finite number.")
    return array


def unmasked(value: Any) -> NDArray:
    """Return `value` as an array in which the entries that a masked array hides are NaN."""
    return np.asarray(_filled(value) if _hides(value) else value)


def _hides(value: Any) -> bool:
    if isinstance(value, list | tuple):
        return any(map(_hides, value))
    return isinstance(value, np.ma.MaskedArray) and bool(np.ma.getmaskarray(value).any())


def _filled(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return [_filled(part) for part in value]
    if not isinstance(value, np.ma.MaskedArray):
        return value
    return np.where(np.ma.getmaskarray(value), np.nan, np.ma.getdata(value))


def _what_else(raw: NDArray) -> str:
    """Describe the content of an array that is not one of real numbers: the number, or the kind of its entries."""
    if raw.ndim == 0:
        return f"{raw.item()!r:.60}"
    kinds = {"U": "texts", "S": "bytes", "c": "complex numbers", "M": "dates", "m": "durations"}
    return kinds.get(raw.dtype.kind, "entries that are no numbers")


def first(mask: Bool) -> tuple[int, ...]:
    """Return the index of the first True."""
    return tuple(int(k) for k in np.unravel_index(int(mask.argmax()), mask.shape))


def place(axes: str, index: Sequence[int]) -> str:
    """Return the words for an index: ``place("hs", (3, 7))`` is 'step 3, state 7'."""
    return ", ".join(f"{AXES[axis]} {k}" for axis, k in zip(axes, index, strict=True))


def check_range(
    name: str,
    array: NDArray,
    low: float,
    high: float,
    axes: str,
    *,
    fix: str,
    room: float = 0.0,
    error: Error = InvalidModel,
) -> None:
    """Raise unless every entry lies in [low, high], give or take `room`; names the first that does not."""
    wrong = ~((array >= low - room) & (array <= high + room))
    if wrong.any():
        bad = first(wrong)
        raise error(
            f"{name} at {place(axes, bad)} is {array[bad]}; expected a number in "
            f"[{low:g}, {high:g}]. {fix}"
        )


def as_count(
    name: str,
    value: object,
    *,
    least: int,
    most: int | None = LARGEST,
    error: Error = InvalidModel,
) -> int:
    """Return `value` as an int from `least` to `most` (None: any); raise for others, and for bool and float."""
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, (int, np.integer)):
        raise error(f"{name} must be a whole number, got {value!r}.")
    if value < least:
        raise error(f"{name} must be at least {least}, got {value}.")
    if most is not None and value > most:
        text = value if value < 10**30 else f"a number of {int(value).bit_length()} bits"
        raise error(f"{name} must be at most {most}, got {text}.")
    return int(value)


def as_policy(value: ArrayLike, shape: tuple[int, int, int], mask: Bool | None = None) -> Policy:
    """Return `value` as a policy ``[H,S,A]``; a stationary ``[S,A]`` is repeated over the steps.

    Rows must be distributions and must put nothing on an inadmissible action (`mask` ``[K,S,A]``).
    """
    policy = as_floats("policy", value)
    if policy.shape == shape[1:]:
        policy = frozen(np.repeat(policy[None], shape[0], axis=0))
    if policy.shape != shape:
        raise InvalidModel(
            f"policy has shape {policy.shape}; expected [H,S,A] = {list(shape)}, "
            f"or [S,A] = {list(shape[1:])} for the same policy at every step."
        )
    check_range("policy", policy, 0.0, 1.0, "hsa", fix="Entries must be probabilities.")
    sums = policy.sum(axis=2)
    wrong = np.abs(sums - 1.0) > SUM_TOLERANCE
    if wrong.any():
        bad = first(wrong)
        raise InvalidModel(
            f"policy at {place('hs', bad)} sums to {sums[bad]}; expected 1 within "
            f"{SUM_TOLERANCE:g}. Divide each row by its sum."
        )
    if mask is not None:
        outside = (policy > 0.0) & ~mask
        if outside.any():
            bad = first(outside)
            raise InvalidModel(
                f"policy puts probability {policy[bad]} on {place('hsa', bad)}, which is not "
                "admissible. Set it to zero and divide the row by its sum."
            )
    return policy


EPISODE = ("states", "actions", "rewards", "constraints", "thresholds")  # the arrays in order
MARKS = ("clipped", "rejected", "unfinished", "hint_total")  # the other fields: counts, or 0 and 1


@dataclass(frozen=True, eq=False, repr=False)
class Episode(Displayed):
    """Observations of one episode, in the user's own senses and units.

    A row of `thresholds` that is NaN in every constraint says that this step carried no threshold
    sample (deviation D7). What a masked array hides is missing, as NaN is.

    The other fields say what arrays cannot, and travel with the episode into every file. `clipped` counts the signals
    that were cut off to their declared range before they came here, and `rejected` the episodes that were left out
    beside it: with any of either, nothing is proven (`Certificate.doubts`). `hint_total` says that the episode had one
    hint of each limit, of which every step shows an equal share: these are no independent samples.

    An episode that is `unfinished` was given up, and has NaN for the rewards and constraints that never came. Evidence
    counts these at their worst, on either side; a model learns from the steps before the first missing reward.

    Examples:
        >>> import safespot as ss
        >>> episode = ss.Episode(
        ...     states=[0, 1, 1], actions=[1, 0], rewards=[10, 2], constraints=[[2], [1]], thresholds=[[4], [0]]
        ... )
        >>> print(episode.rewards.sum(), episode.constraints.sum(axis=0))
        12.0 [3.]

    """

    states: Int  # [H+1]
    actions: Int  # [H]
    rewards: Float  # [H]
    constraints: Float  # [H, m]
    thresholds: Float  # [H, m]
    clipped: int = field(default=0, kw_only=True)
    rejected: int = field(default=0, kw_only=True)
    unfinished: bool = field(default=False, kw_only=True)
    hint_total: bool = field(default=False, kw_only=True)

    def __post_init__(self) -> None:
        actions = _indices("actions", self.actions)
        (H,) = actions.shape
        if H == 0:
            raise InvalidEpisode("actions are empty; expected at least one step.")
        states = _indices("states", self.states)
        missing = bool(self.unfinished)
        rewards = as_floats("rewards", self.rewards, error=InvalidEpisode, missing=missing)
        constraints = as_floats(
            "constraints", self.constraints, error=InvalidEpisode, missing=missing
        )
        if constraints.ndim != 2 or constraints.shape[0] != H or constraints.shape[1] == 0:
            raise InvalidEpisode(
                f"constraints have shape {constraints.shape}; expected [H,m] with H = {H}: "
                "one row per step, one column per constraint."
            )
        thresholds = _thresholds(self.thresholds, constraints.shape)
        for name, array, shape in (("states", states, (H + 1,)), ("rewards", rewards, (H,))):
            if array.shape != shape:
                raise InvalidEpisode(
                    f"{name} have shape {array.shape}; expected {shape}, since there are "
                    f"{H} actions (states include the one after the last step)."
                )
        for name in ("clipped", "rejected"):
            as_count(name, getattr(self, name), least=0, error=InvalidEpisode)
        if missing and not np.isnan(rewards).any():
            raise InvalidEpisode("an unfinished episode has NaN for the rewards that never came.")
        gaps = np.isnan(constraints).any(axis=1) & ~np.isnan(rewards) if missing else np.zeros(H)
        if gaps.any():
            raise InvalidEpisode(
                f"constraints at step {int(gaps.argmax())} are missing, and its reward is not. A step of which "
                "something never came has NaN for its reward."
            )
        self.__dict__.update(unfinished=missing, hint_total=bool(self.hint_total))
        self._keep(states, actions, rewards, constraints, thresholds)

    def _facts(self) -> dict[str, Any]:
        return {
            "steps": len(self.actions),
            "reward": float(self.rewards.sum()),
            "constraints": self.constraints.sum(axis=0),
        }

    @classmethod
    def trusted(cls, *arrays: Any, **marks: int) -> Episode:
        """Return an episode of arrays that were made for it and have been checked where they were made."""
        episode = object.__new__(cls)
        episode._keep(*arrays)
        episode.__dict__.update(marks)
        return episode

    def _keep(
        self, states: Int, actions: Int, rewards: Float, constraints: Float, thresholds: Float
    ) -> None:
        self.__dict__.update(
            states=frozen(states),
            actions=frozen(actions),
            rewards=frozen(rewards),
            constraints=frozen(constraints),
            thresholds=frozen(thresholds),
        )

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Episode):
            return NotImplemented
        return all(getattr(self, name) == getattr(other, name) for name in MARKS) and all(
            np.array_equal(getattr(self, name), getattr(other, name), equal_nan=name in EPISODE[2:])
            for name in EPISODE
        )


def _indices(name: str, value: ArrayLike) -> Int:
    try:
        raw = unmasked(value)
    except ValueError as exc:
        raise InvalidEpisode(f"{name} must be a list of whole numbers; got {exc}.") from None
    if raw.dtype.kind not in "iu" or raw.ndim != 1:
        raise InvalidEpisode(
            f"{name} must be a list of whole numbers; got type {raw.dtype} with shape {raw.shape}."
        )
    array = np.array(raw, dtype=np.int64)
    if np.count_nonzero(array < 0):  # unsigned numbers that are too large have become negative
        step = int((array < 0).argmax())
        raise InvalidEpisode(f"{name} at step {step} is {raw[step]}; expected 0 or more.")
    return array


def _thresholds(value: ArrayLike, shape: tuple[int, ...]) -> Float:
    """Check threshold signals ``[H,m]``: finite, but for steps without any sample (all NaN, D7)."""
    array = as_floats("thresholds", value, error=InvalidEpisode, missing=True)
    if array.shape != shape:
        raise InvalidEpisode(
            f"thresholds have shape {array.shape}; expected {shape}, as the constraints have."
        )
    absent = np.isnan(array)
    present = absent.size - np.count_nonzero(absent)
    partly = absent.any(axis=1) & ~absent.all(axis=1) if 0 < present < absent.size else absent[:0]
    if np.count_nonzero(partly):
        step = int(partly.argmax())
        raise InvalidEpisode(
            f"thresholds at step {step} are {array[step].tolist()}; expected numbers, or NaN "
            "for every constraint where the step carried no sample."
        )
    return array


class InsideEpisode(NamedTuple):
    """A checked episode in inside units, ready for kernels."""

    states: Int  # [H+1]
    pairs: Int  # [H]: s*A + a
    rewards: Float  # [H]
    constraints: Float  # [H, m]
    thresholds: Float  # [H, m], NaN in steps without a sample
