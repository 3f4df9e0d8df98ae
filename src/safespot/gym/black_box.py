"""Any Gymnasium environment as a black box: finite states, H steps, declared signals, no table at all.

An environment shows observations, rewards and an `info`. A learner needs states, and in every one of H steps a
reward, m constraint signals and m threshold signals within declared ranges. `BlackBox` holds the declarations
that lead from the one to the other, plays a policy, and returns an `Episode`:

- states: a discretizer of the observations;
- constraints and thresholds: a key of `info`, a function of the step, or by default what the environment shows:
  ``info["constraint"]``, ``info["cost"]`` or, where `step` returns six elements (observation, reward, cost, …),
  the third;
- endings: what the steps after an early end pay and count (deviation D7). Only the user can know: a death that
  stops the costs would look safe. Padded steps carry no threshold sample.

Rewards and constraints outside their declared range are an error, since a learner's guarantees hold within it; with
`clip` they are cut off instead, and counted (`Episode.clipped`): nothing is certified from such episodes.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from operator import index
from typing import Any

import numpy as np

from ..arrays import Episode, Float, Policy, as_count, first
from ..display import Displayed
from ..errors import InvalidEpisode, InvalidOption, unknown
from ..model.outcome_tables import (
    Ending,
    absorbing_states,
    mask_with_endings,
    names_with_endings,
)
from ..model.problem import Problem
from ..model.transitions import pick
from ..signals.interface import make_interface, with_limits
from ..signals.limits import Limits
from ..signals.totals import checked_sums, declare
from ..units import ROUNDING
from .actions import Actions
from .discretizers import Discretizer, make_discretizer
from .probing import probe
from .steps import SIGNALS, TOTAL, Shown, Source, Step, at, finder, numbers, signals_of


class BlackBox(Displayed):
    """An environment and the declarations that a learner needs; `interface` is what a learner is made of.

    Args:
        env: any Gymnasium environment whose actions are finitely many, or one whose `step` returns six elements.
            Actions that it does not admit at the moment (``info["action_mask"]``, ``env.action_masks()``) lead to what
            the lowest admissible one leads to.
        horizon: H. The environment is reset after H steps; its own time limit must not be shorter.
        states: a `Discretizer`, or the `bins` of `make_discretizer`; None where observations are finitely many.
        limits: what is declared of each constraint: a `Limit` (one serves all), or its name. What lies outside of its
            range is an error.
        signals: the sources of signals, where the environment's own do not serve: a dict with a source for
            "rewards", "constraints" or "thresholds", which is a key of `info`, or a function of a `Step` that returns
            a number or ``[m]``. A step whose `info` has no such key of thresholds carries no hint. Where some step of
            an episode has ``info["threshold_total"]``, a hint for the whole episode, that counts instead: an equal
            share of it in every step.
        endings: one `Ending` for all, or a dict of them by state, or by what `ending_of` returns.
        ending_of: a function of the `Step` that ended the episode; None takes the number of the state it ended in.
        clip: cut off what lies outside its range; certificates that rest on it say "unknown".
        **interface: what else is known, by the keys of an interface: `start`, the state in which every episode starts
            (None learns the distribution); `action_mask`, ``[S,A]`` or ``[H,S,A]``, and `state_names`, both of the
            discretizer's states; `action_names`; `ranges` and `units` of the reward, each a dict; and `stationary`,
            whether transitions, rewards and constraints are the same at every step, as those of Gymnasium's
            environments are: their dynamics do not see the clock. Learners that plan then share their counts between
            the steps. No guarantee rests on it.

    A `ProblemEnv` declares all of this itself. The constructor plays one step, to see how many signals there are, or a
    few more, until one carries a threshold sample.

    Examples:
        >>> import safespot as ss
        >>> died = ss.gym.Ending(reward=0, constraints=1)
        >>> edges = [[0.5, 1.0, 1.5], [0.3]]  # of the tumor, of the drug
        >>> box = ss.gym.BlackBox(ss.gym.Clinic(), horizon=14, states=edges, endings=died)
        >>> print(box.interface["states"], box.interface["actions"], box.interface["senses"])
        9 5 ('<=',)
        >>> box.state(7)  # what a number stands for: entries that were cut are bins
        (Bin(low=1.5, high=inf), Bin(low=0.3, high=1.0))

    """

    def __init__(
        self,
        env: Any,
        *,
        horizon: int | None = None,
        states: Any = None,
        limits: Limits = None,
        signals: Mapping[str, Source] | None = None,
        endings: Ending | Mapping[Any, Ending] | None = None,
        ending_of: Callable[[Step], Hashable] | None = None,
        clip: bool = False,
        **interface: Any,
    ) -> None:
        problem = problem_of(env)
        # A problem's own mask is in its interface.
        self._actions = Actions(env, masked=problem is None)
        ready = isinstance(states, Discretizer)
        seen = _checked(states) if ready else make_discretizer(env.observation_space, states)
        absorbing, self._home = absorbing_states(endings, seen.states, error=InvalidOption)
        self.env = env
        self._seen, self._endings = seen, absorbing
        self._states, self._state = seen.states, seen.number
        sources = _sources(signals)
        self._rewards = None if sources["rewards"] is None else finder(sources["rewards"])
        self._ending_of, self._clip = ending_of, clip
        self._probe = probe(env, self._actions, sources["constraints"], sources["thresholds"])
        self.shows_thresholds, self.shows_totals = (
            self._probe.shows_thresholds, self._probe.shows_totals
        )  # fmt: skip
        whole = (
            self._declared_interface(horizon, interface) if problem is None else problem.interface
        )
        self.interface = with_limits(whole, limits)
        self._known = make_interface(**self.interface)
        self.interface |= self._known.names.arguments
        totals = any(limit.total or limit.threshold_total for limit in self._known.limits)
        self._declared = declare(self._known) if totals else None
        ranges = self.interface["ranges"]
        bounds = np.array([ranges["reward"], *ranges["constraints"] * 2])
        self._bounds = low, high = bounds.T.copy()  # [1+2m] each
        room = ROUNDING * (high - low)
        self._tolerated = (low - room)[:, None], (high + room)[:, None]
        self._padded = [self._padding(ending) for ending in absorbing]

    def _declared_interface(self, horizon: int | None, known: dict[str, Any]) -> dict[str, Any]:
        """Return the declared interface without its limits."""
        if horizon is None:
            raise InvalidOption("the number of steps of an episode is not declared; give horizon=.")
        S, A, extra, m = self._states, self._actions.count, len(self._endings), self._probe.m
        ranges = {"reward": (0.0, 1.0), **(known.get("ranges") or {})}
        return {
            "start": None, "senses": "<=" if self._probe.costs else ">=", "stationary": True, **known,
            "states": S + extra, "actions": A, "horizon": horizon, "constraints": m, "ranges": ranges,
            "action_mask": mask_with_endings(known.get("action_mask"), S, A, extra),
            "state_names": names_with_endings(known.get("state_names"), S, extra),
        }  # fmt: skip

    def _padding(self, ending: Ending) -> Float:
        """Return the signals of the steps after an ending, ``[1+2m, H]``."""
        m, H = self._known.m, self._known.H
        payoffs = ending.payoffs(m, error=InvalidOption)
        steps = np.append(payoffs, np.full(m, np.nan))[:, None]
        least, most = (bound[: 1 + m] for bound in self._tolerated)
        if not (self._clip or ((least <= steps[: 1 + m]) & (steps[: 1 + m] <= most)).all()):
            raise InvalidOption(
                f"an ending pays and counts {payoffs.tolist()} a step, outside the declared ranges "
                f"{self._bounds.T[: 1 + m].tolist()}. Declare wider ranges, or clip=True."
            )
        return np.repeat(steps, H, axis=1)

    def _facts(self) -> dict[str, Any]:
        sizes = {
            name: self.interface[name] for name in ("states", "actions", "horizon", "constraints")
        }
        return {"env": repr(self.env), **sizes, "senses": self.interface["senses"]}

    def number(self, observation: Any) -> int:
        """Return the number of the state that an observation belongs to."""
        return self._state(observation)

    def state(self, number: int) -> Any:
        """Return a state's observation, where an entry that was cut is a `Bin`; of an absorbing state, the `Ending`."""
        S = self._states
        s = _within("state", number, S + len(self._endings))
        if s >= S:
            return self._endings[s - S]
        if self._seen.inverse is None:
            raise InvalidOption(
                "this discretizer cannot lead back from a number to an observation; give it "
                "inverse=, a function of the number."
            )
        return self._seen.inverse(s)

    def action(self, number: int) -> Any:
        """Return the action with this number, as the environment takes it."""
        return self._actions.value(_within("action", number, self._actions.count))

    def __str__(self) -> str:
        """Describe the numbering of states and actions."""
        S, A = self._states, self._actions.count
        lines = [
            f"states 0 to {S - 1}: {self._seen.parts or 'by a discretizer of your own'}",
            *(f"state {S + k}: {ending}" for k, ending in enumerate(self._endings)),
            f"actions 0 to {A - 1}: {self._actions.parts}",
        ]
        return "\n".join(lines)

    def play(self, policy: Policy, uniforms: Float, seed: int | None = None) -> Episode:
        """Play an episode of `policy` ``[H,S,A]``; its actions are drawn with `uniforms` ``[H]``.

        Whatever goes wrong is an `InvalidEpisode` that names the step and what the environment was asked for; an
        error of the environment's own is its cause.
        """
        m = self.interface["constraints"]
        states, actions, signals, steps, total = self.show(policy, uniforms, seed)
        clipped = 0
        if self._clip:
            observed = signals[: 1 + m]
            least, most = (bound[: 1 + m] for bound in self._tolerated)
            clipped = int(np.count_nonzero((observed < least) | (observed > most)))
            low, high = (bound[: 1 + m, None] for bound in self._bounds)
            signals[: 1 + m] = observed.clip(low, high)
        self._check_ranges(signals[:, :steps])
        constraints, thresholds = signals[1 : 1 + m].T, signals[1 + m :].T
        if m > 1:  # a single column lies in order already
            constraints, thresholds = constraints.copy(), thresholds.copy()
        episode = Episode.trusted(
            states, actions, signals[0], constraints, thresholds, clipped=clipped, hint_total=total
        )
        if self._declared is not None:
            checked_sums(self._declared, self._known.check(episode))
        return episode

    def _check_ranges(self, signals: Float) -> None:
        """Raise if a signal lies outside its range, unless it belongs to a threshold sample that is missing."""
        least, most = self._tolerated
        fine = (signals >= least) & (signals <= most)
        if fine.all():
            return
        m, (low, high) = self.interface["constraints"], self._bounds
        fine[1 + m :] |= np.isnan(signals[1 + m :]).all(axis=0)
        if not fine.all():
            h, c = first(~fine.T)
            names = ["rewards", *(f"{key}[{i}]" for key in SIGNALS[1:] for i in range(m))]
            raise at(
                h,
                names[c],
                f"{signals[c, h]} lies outside its declared range, {low[c]:g} to {high[c]:g}. Declare the range "
                "that it has, or have it cut off with clip=True.",
            )

    def show(self, policy: Policy, uniforms: Float, seed: int | None) -> Shown:
        """Play an episode and return it as shown, padded, but not yet checked against the declared ranges."""
        H, m = self.interface["horizon"], self.interface["constraints"]
        states, actions, *raw, total = self._walk(policy, uniforms.tolist(), seed)
        n, s = len(actions), states[-1]
        signals = signals_of(raw, n, m)
        if n < H:
            signals, played = self._padded[s - self._states].copy(), signals
            signals[:, :n] = played
        if total:
            signals[1 + m :] = self._shares(n - 1, total[-1], H, m)
        rest = H - n
        return Shown(
            np.array(states + [s] * rest), np.array(actions + [0] * rest), signals, n, bool(total)
        )

    def _walk(
        self, policy: Policy, uniforms: list[float], seed: int | None
    ) -> tuple[list[Any], ...]:
        """Walk with the environment: states, actions, rewards, constraints, thresholds, and totals of the latter."""
        states, actions, rewards, constraints, thresholds = [], [], [], [], []
        totals: list[Any] = []
        probe, h, request = self._probe, 0, "reset"  # the last two for what goes wrong
        try:
            observation, info = self.env.reset(seed=seed)
            request = "state"
            s = self._state(observation)
            states.append(s)
            for h, u in enumerate(uniforms):
                request = "step"
                a = pick(policy[h, s], u)
                step = self._actions.take(observation, a, info)
                actions.append(a)
                observation, info = step.next_state, step.info
                request = "rewards"
                rewards.append(step.reward if self._rewards is None else self._rewards(step))
                request = "constraints"
                constraints.append(probe.constraints(step))
                request = "thresholds"
                thresholds.append(probe.thresholds(step))
                if probe.takes_totals and TOTAL in step.info:
                    totals.append(step.info[TOTAL])
                request = "state"
                home = self._ending(step, early=h + 1 < len(uniforms)) if step.ended else None
                s = self._state(observation) if home is None else home
                states.append(s)
                if home is not None:
                    break
                if step.truncated and h + 1 < len(uniforms):
                    raise InvalidEpisode(
                        f"the environment's time limit cut an episode off after {h + 1} of {len(uniforms)} steps. No "
                        "state explains that, so it cannot be declared as an ending: take a shorter horizon, "
                        "or raise the limit with gymnasium.make(…, max_episode_steps=…)."
                    )
        except InvalidEpisode as exc:
            raise at(h, request, str(exc)) from exc.__cause__
        except Exception as exc:
            raise at(h, request, f"{type(exc).__name__} was raised: {exc}") from exc
        return states, actions, rewards, constraints, thresholds, totals

    def _shares(self, step: int, total: Any, H: int, m: int) -> Float:
        """Return the equal share ``[m,1]`` of a hint for a whole episode that each of its steps shows."""
        try:
            shares = numbers(total, (m, 1)).astype(np.float64) / H
        except (TypeError, ValueError):
            raise at(step, TOTAL, f"{m} number(s) are needed, got {total!r}.") from None
        low, high = (bound[1 + m :] for bound in self._tolerated)
        if not ((shares >= low) & (shares <= high)).all():
            raise at(
                step,
                TOTAL,
                f"{total!r} lies outside of {H} steps of the declared ranges, "
                f"{self.interface['ranges']['constraints']}.",
            )
        return shares

    def _ending(self, step: Step, *, early: bool) -> int | None:
        """Return the absorbing state in which an ended episode goes on."""
        key = self._state(step.next_state) if self._ending_of is None else self._ending_of(step)
        home = self._home(key)
        if home is None and early:
            raise InvalidEpisode(
                f"an episode ended early, with {key!r}, and no ending is declared for it. Every episode has "
                f"{self.interface['horizon']} steps here, so say what each of the remaining ones pays and counts, "
                "endings=Ending(reward=…, constraints=…), or by what it ended with, endings={…: Ending(…)}. "
                "It cannot be guessed: if costs just stop, death looks safe."
            )
        return home


def _checked(discretizer: Discretizer) -> Discretizer:
    """Return a user's discretizer with a check of the numbers that it makes."""

    def number(observation: Any) -> int:
        s = index(discretizer.number(observation))
        if not 0 <= s < discretizer.states:
            raise InvalidEpisode(
                f"the discretizer made state {s} of the observation {observation!r}; states are 0 to "
                f"{discretizer.states - 1}."
            )
        return s

    return discretizer._replace(number=number)


def problem_of(env: Any) -> Problem | None:
    """Return the problem of a `ProblemEnv`, which declares everything itself."""
    problem = getattr(getattr(env, "unwrapped", None), "problem", None)
    return problem if isinstance(problem, Problem) else None


def _sources(signals: Mapping[str, Source] | None) -> dict[str, Any]:
    """Return the declared source of each kind of signal; None where the environment itself shows the signal."""
    sources: dict[str, Any] = dict.fromkeys(SIGNALS)
    for name, source in dict(signals or {}).items():
        if name not in SIGNALS:
            raise InvalidOption(f"signals: {unknown('kind', name, SIGNALS)}")
        sources[name] = source
    return sources


def _within(kind: str, number: int, count: int) -> int:
    n = as_count(kind, number, least=0, error=InvalidOption)
    if n >= count:
        raise InvalidOption(f"there is no {kind} {n}; they are 0 to {count - 1}.")
    return n


def env_interface(env: Any, **declarations: Any) -> dict[str, Any]:
    """Return the arguments of a learner for an environment, as ``problem.interface`` has them for a problem.

    `env` is a `BlackBox`, or an environment with the declarations of one.

    Examples:
        >>> import gymnasium
        >>> import safespot as ss
        >>> interface = ss.gym.env_interface(gymnasium.make("safespot/machine-v0"))
        >>> print(interface["states"], interface["horizon"], interface["ranges"])
        2 2 {'reward': (0.0, 10.0), 'constraints': ((0.0, 4.0),)}

    """
    return as_box(env, declarations).interface


def as_box(env: Any, declarations: Mapping[str, Any]) -> BlackBox:
    """Return a `BlackBox` unchanged, or make one of an environment and its declarations."""
    if not isinstance(env, BlackBox):
        return BlackBox(env, **declarations)
    if declarations:
        raise InvalidOption(
            f"a BlackBox has its declarations already; leave out {sorted(declarations)}."
        )
    return env
