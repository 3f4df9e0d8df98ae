"""Tables of outcomes, as Gymnasium's toy-text environments have them, become a `Problem`.

A table ``P[state][action]`` lists what can happen: (probability, next state, reward, ended). Two things it does
not say:

- *What is limited.* Constraints are a function of an outcome, or an array; thresholds and senses are those of a
  `CMDP`.
- *What an ended episode counts for.* Ours have H steps, so an ended one goes on in an absorbing state
  (deviation D7), and the user must say what each of these steps pays and counts: an `Ending`. With zeros by
  default, death would look safe (it costs nothing any more) or discharge like a failure (it shows no safety
  any more).

States 0 to n-1 are the table's own; after them comes one absorbing state per distinct `Ending`, in the order of their
declaration. Only action 0 is admissible there, since nothing is decided.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse

from ..arrays import Bool, Error, Float, Int, as_count, as_floats, unmasked
from ..display import Displayed
from ..errors import InvalidModel, InvalidOption
from ..signals.limits import EXTRAS, Limit, as_limits, limit_arguments
from .cmdp import CMDP
from .problem import Problem
from .signals import ByOutcome, Signals


class TableOutcome(NamedTuple):
    """An outcome of a state and action of a table: the argument of functions for rewards and constraints.

    Examples:
        >>> import safespot as ss
        >>> def fell(outcome):
        ...     return float(outcome.ended and outcome.reward == 0)
        >>> fell(ss.gym.TableOutcome(state=4, action=1, next_state=5, reward=0.0, ended=True))
        1.0

    """

    state: int
    action: int
    next_state: int
    reward: float  # the table's own
    ended: bool


@dataclass(frozen=True)
class Ending(Displayed):
    """The reward and the constraint signals of every step after an ending, in the user's units.

    `constraints` has a number for each constraint, or one number for all. Equal endings share an absorbing state.

    Examples:
        >>> import safespot as ss
        >>> died = ss.gym.Ending(reward=0, constraints=1)  # where constraints count costs: death is never safe
        >>> died.payoffs(m=2).tolist()
        [0.0, 1.0, 1.0]

    """

    reward: float
    constraints: float | Sequence[float]

    def __post_init__(self) -> None:
        reward = as_floats("an ending's reward", self.reward)
        constraints = as_floats("an ending's constraints", self.constraints)
        if reward.ndim or constraints.ndim > 1:
            raise InvalidModel(
                "an ending has one reward, and a number for each constraint; got "
                f"{self.reward!r} and {self.constraints!r}."
            )
        object.__setattr__(self, "reward", float(reward))
        object.__setattr__(self, "constraints", tuple(constraints.reshape(-1).tolist()))

    def payoffs(self, m: int, *, error: Error = InvalidModel) -> Float:
        """Return ``[1+m]``: the reward, then the signal of each of m constraints."""
        counts = np.array(self.constraints)
        if counts.size not in (1, m):
            raise error(
                f"an ending counts {counts.tolist()}; expected a number for each of the {m} "
                "constraints, or one for all."
            )
        payoffs: Float = np.r_[self.reward, np.broadcast_to(counts, m)]
        return payoffs


def problem_from_table(
    env: Any,
    *,
    horizon: int,
    constraints: Callable[[TableOutcome], ArrayLike] | ArrayLike,
    limits: Limit | Iterable[Limit],
    endings: Ending | Mapping[int, Ending] | None = None,
    rewards: Callable[[TableOutcome], float] | None = None,
    signals: Signals | None = None,
    by_outcome: bool = False,
    **described: Any,
) -> Problem:
    """Return the `Problem` of an environment that has a table of outcomes, or of such a table.

    Args:
        env: an environment with a table `env.unwrapped.P`, or the table: ``P[state][action]`` is a list of
            (probability, next state, reward, ended). An action that a state lacks is inadmissible there.
        horizon: H, the steps of an episode; the environment's own time limit plays no part.
        constraints: what a step counts, in the user's units: a function of an `Outcome` that returns a number or
            ``[m]`` numbers, or an array ``[m,S,A]`` over the table's states.
        limits: a `Limit` for each constraint, with the threshold, since a problem holds the truth.
        endings: what each step after an ending pays and counts: one `Ending` for all, or one for each state in which
            an episode can end. Needed where an outcome ends the episode.
        rewards: a function of an `Outcome` that returns a number; None takes the table's rewards.
        signals: how the problem is observed; Bernoulli by default.
        by_outcome: whether constraint signals depend on the next state (`ByOutcome`): a fall is seen where it happens.
        **described: arguments of a `CMDP`: `start`, a state, or a distribution over the table's states
            (`env.unwrapped.initial_state_distrib` by default, or state 0 where there is none); `reward_range`;
            `state_names` of the table's states; `action_names`; `units` of the reward.

    Rewards and constraints of a CMDP belong to a state and an action. Those of outcomes are averaged with their
    probabilities, and what is observed is drawn around the average, whichever outcome it was; with `by_outcome` the
    constraints are drawn around the average of the outcomes that lead to the same state.

    Examples:
        >>> import gymnasium
        >>> import safespot as ss
        >>> problem = ss.gym.problem_from_table(
        ...     gymnasium.make("FrozenLake-v1"),
        ...     horizon=10,
        ...     constraints=lambda outcome: outcome.ended and outcome.reward == 0,  # fell into a hole
        ...     limits=ss.Limit("falling", "<=", threshold=0.2),
        ...     endings=ss.gym.Ending(reward=0, constraints=0),
        ... )
        >>> round(ss.solve(problem.cmdp).value, 3)
        0.041

    """
    base = getattr(env, "unwrapped", env)
    table = _table(env, base)
    S, A = len(table), max((1 + a for actions in table for a in actions), default=0)
    if A == 0:
        raise InvalidModel("the table lists no action in any state.")
    chances, outcomes = _outcomes(table)
    absorbing, home = absorbing_states(endings, S)
    successors = [_next(outcome, home) for outcome in outcomes]
    count = constraints if callable(constraints) else _lookup(constraints, S, A)
    paid = _stacked("rewards", [o.reward if rewards is None else rewards(o) for o in outcomes])
    counted = _stacked("constraints", [count(o) for o in outcomes])
    m = counted.shape[1]
    # An absorbing state is one more row of the table: its one action leads to itself.
    states = S + len(absorbing)
    after = np.arange(S, states)
    pairs: Int = np.r_[[o.state * A + o.action for o in outcomes], after * A].astype(np.int64)
    reached = np.r_[successors, after].astype(np.int64)
    chances = np.r_[chances, np.ones(len(absorbing))]
    payoffs = np.r_[np.c_[paid, counted], *([e.payoffs(m)] for e in absorbing)]
    each = np.arange(len(pairs))
    rows = sparse.coo_array((chances, (pairs, reached)), (states * A, states))
    means = sparse.coo_array((chances, (pairs, each)), (states * A, len(each))).tocsr() @ payoffs
    means = means.T.reshape(1 + m, states, A)
    admissible = np.bincount(pairs, minlength=states * A).reshape(states, A) > 0
    cmdp = CMDP(
        rows.tocsr(),
        means[0],
        means[1:],
        start=_start(base, described.pop("start", None), S, states),
        actions=None if admissible.all() else admissible,
        horizon=horizon,
        state_names=names_with_endings(described.pop("state_names", None), S, len(absorbing)),
        **_with_limits(described, as_limits(limits, m), horizon),
    )
    if by_outcome:
        law = _law_by_outcome(cmdp, pairs * states + reached, chances, payoffs[:, 1:])
        signals = replace(Signals() if signals is None else signals, constraints=law)
    return Problem(cmdp, signals)


def _with_limits(described: dict[str, Any], limits: Sequence[Limit], H: int) -> dict[str, Any]:
    """Return the arguments of a CMDP, with what is declared of its limits."""
    options = limit_arguments(limits, H)
    if options.keys() & set(EXTRAS) != {"thresholds"}:
        raise InvalidOption(
            "a problem holds the truth: give each ss.Limit its threshold; and what episodes show is up to its signals, "
            "so declare totals and hints to a learner."
        )
    units = {**(described.get("units") or {}), **options.pop("units")}
    ranges = options.pop("ranges")["constraints"]
    return {**described, **options, "units": units, "constraint_ranges": ranges}


def _law_by_outcome(cmdp: CMDP, where: Int, chances: Float, counted: Float) -> ByOutcome:
    """Return the law of constraint signals by state, action and next state; `where` has each outcome's flat index."""
    shape = cmdp.S, cmdp.A, cmdp.S
    weight = np.bincount(where, chances, math.prod(shape))
    totals = [np.bincount(where, chances * each, weight.size) for each in counted.T]
    means = np.reshape(totals, (cmdp.m, -1)) / np.where(weight > 0.0, weight, 1.0)
    return ByOutcome(means.reshape(cmdp.m, *shape))


def absorbing_states(
    endings: Ending | Mapping[Any, Ending] | None, states: int, *, error: Error = InvalidModel
) -> tuple[list[Ending], Callable[[Any], int | None]]:
    """Return the distinct endings, and the map from an ending state to its absorbing one (None: undeclared)."""
    if endings is None:
        return [], lambda key: None
    if isinstance(endings, Ending):
        return [endings], lambda key: states
    if not isinstance(endings, Mapping) or not all(isinstance(e, Ending) for e in endings.values()):
        raise error(f"endings must be an Ending, or a dict of them, got {endings!r}.")
    distinct = list(dict.fromkeys(endings.values()))
    return distinct, {key: states + distinct.index(e) for key, e in endings.items()}.get


def mask_with_endings(own_mask: ArrayLike | None, S: int, A: int, absorbing: int) -> Bool | None:
    """Return the mask over all states; an absorbing one has the one action 0."""
    if own_mask is None and absorbing == 0:
        return None
    mask = np.ones((S, A), np.bool_) if own_mask is None else unmasked(own_mask)
    if mask.dtype != np.bool_ or mask.ndim not in (2, 3) or mask.shape[-2:] != (S, A):
        raise InvalidOption(
            f"action_mask has type {mask.dtype} and shape {mask.shape}; expected booleans [S,A] or "
            f"[H,S,A] with S = {S} and A = {A}."
        )
    waiting = np.zeros((*mask.shape[:-2], absorbing, A), np.bool_)
    waiting[..., 0] = True
    return np.concatenate([mask, waiting], axis=-2)


def names_with_endings(names: Sequence[str] | None, S: int, absorbing: int) -> Sequence[str] | None:
    """Return the names of all states, where the S that are not absorbing are named."""
    if names is None or isinstance(names, str) or len(names) != S:
        return names  # there are none, or all are named, or `make_names` says what is wrong
    if absorbing == 1:
        return [*names, "ended"]
    return [*names, *(f"ended, way {k + 1}" for k in range(absorbing))]


def _table(env: Any, base: Any) -> list[dict[int, Any]]:
    """Return the table with states and actions counted from 0, whether it came as dicts or as lists."""
    P = base if isinstance(base, Mapping | Sequence) else getattr(base, "P", None)
    if not isinstance(P, Mapping | Sequence) or isinstance(P, str) or not P:
        raise InvalidModel(
            f"{env!r} has no table of outcomes P[state][action]. Give an environment that has one, "
            "or the table itself."
        )
    states = _counted("the table's states", P)
    if sorted(states) != list(range(len(states))):
        raise InvalidModel(f"the table's states must be 0 to {len(states) - 1}, without a gap.")
    return [_counted(f"the actions of state {s}", states[s]) for s in range(len(states))]


def _counted(name: str, entries: Any) -> dict[int, Any]:
    """Return entries by number."""
    if not isinstance(entries, Mapping | Sequence) or isinstance(entries, str):
        raise InvalidModel(f"{name} must be a dict or a list, got {entries!r}.")
    pairs = entries.items() if isinstance(entries, Mapping) else enumerate(entries)
    return {as_count(f"one of {name}", key, least=0): entry for key, entry in pairs}


def _outcomes(table: list[dict[int, Any]]) -> tuple[Float, list[TableOutcome]]:
    """Return the probability of every outcome, and the outcomes."""
    chances, outcomes = [], []
    for s, actions in enumerate(table):
        for a, entries in actions.items():
            for entry in _counted(f"the outcomes of state {s}, action {a}", entries).values():
                try:
                    p, successor, reward, ended = entry
                    p, reward = float(p), float(reward)
                except (TypeError, ValueError):
                    raise InvalidModel(
                        f"the table at state {s}, action {a} holds {entry!r}; expected "
                        "(probability, next state, reward, ended)."
                    ) from None
                n = as_count(f"a next state of state {s}, action {a}", successor, least=0)
                if n >= len(table):
                    raise InvalidModel(
                        f"the table at state {s}, action {a} leads to state {n}; states are 0 to "
                        f"{len(table) - 1}."
                    )
                if p < 0.0:
                    raise InvalidModel(
                        f"the table at state {s}, action {a} has an outcome of probability {p:g}."
                    )
                if p != 0.0:  # what never happens needs no ending
                    chances.append(p)
                    outcomes.append(TableOutcome(s, a, n, reward, bool(ended)))
    return as_floats("the table's probabilities", chances), outcomes


def _next(outcome: TableOutcome, home: Callable[[int], int | None]) -> int:
    if not outcome.ended:
        return outcome.next_state
    state = home(outcome.next_state)
    if state is None:
        raise InvalidModel(
            f"the episode can end in state {outcome.next_state} (from state {outcome.state}, action "
            f"{outcome.action}), and no ending is declared for it. Every episode has the same "
            "number of steps here, so say what the steps after this ending pay and count: "
            "endings=Ending(reward=…, constraints=…), or one for each such state, "
            "endings={state: Ending(…)}."
        )
    return state


def _lookup(constraints: ArrayLike, S: int, A: int) -> Callable[[TableOutcome], Float]:
    """Return an array ``[m,S,A]`` as a function of an outcome."""
    g = as_floats("constraints", constraints)
    if g.ndim != 3 or g.shape[1:] != (S, A):
        raise InvalidModel(
            f"constraints have shape {g.shape}; expected [m,S,A] over the table's states, S = {S} "
            f"and A = {A}, or a function of an outcome."
        )
    return lambda outcome: g[:, outcome.state, outcome.action]


def _stacked(name: str, values: list[Any]) -> Float:
    """Return the values of all outcomes as ``[outcomes, .]``."""
    stacked = as_floats(name, values)
    if stacked.ndim > 2 or (name == "rewards" and stacked.ndim > 1) or stacked.size == 0:
        expected = "a number" if name == "rewards" else "a number, or one for each constraint"
        raise InvalidModel(f"the function for {name} must return {expected}, got {values[:1]!r}.")
    return stacked.reshape(len(values), -1)


def _start(base: Any, start: int | ArrayLike | None, S: int, states: int) -> int | Float:
    """Return the start among all states; a state where the environment's own distribution is at a single one."""
    if start is None:
        start = getattr(base, "initial_state_distrib", 0)
        if np.count_nonzero(start) == 1:
            return int(np.argmax(start))
    if isinstance(start, int | np.integer):
        return int(start)
    distribution = as_floats("start", start)
    if distribution.shape != (S,):
        raise InvalidModel(
            f"start has shape {distribution.shape}; expected a state, or a distribution [S] over the "
            f"table's S = {S} states."
        )
    return np.pad(distribution, (0, states - S))
