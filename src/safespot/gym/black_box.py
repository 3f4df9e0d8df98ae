"""Any Gymnasium environment as a black box: finite states, H steps, declared signals, no table at all.

An environment shows observations, rewards and an `info`. A learner needs states, and in every one of H steps a
reward, m constraint signals and m threshold signals within declared ranges. `BlackBox` holds the declarations
that lead from the one to the other, plays a policy, and returns an `Episode`:

- states: a discretizer of the observations;
- constraints and thresholds: a key of `info`, a function of the step, or by default what the environment shows:
  ``info["constraint"]``, ``info["cost"]`` or, where `step` returns six elements (observation, reward, cost, …),
  the third;
- endings: what the steps after an early end pay and count (deviation D7). Nobody but the user can know: a death
  that stops the costs would look safe. Padded steps carry no threshold sample.

Rewards and constraints outside their declared range are an error, since a learner's guarantees hold within it; with
`clip` they are cut off instead, and counted (`Episode.clipped`): nothing is certified from such episodes.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from operator import index
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ..arrays import Episode, Float, Policy, as_count, first
from ..display import Displayed
from ..errors import InvalidEpisode, InvalidOption
from ..evidence.differences import Declared, check_totals, declare
from ..evidence.interface import make_interface
from ..model.outcome_tables import (
    Ending,
    absorbing_states,
    mask_with_endings,
    names_with_endings,
)
from ..model.problem import Problem
from ..model.transitions import pick
from ..units import ROUNDING, make_units, within
from .actions import Actions
from .discretizers import Discretizer, make_discretizer
from .probing import probe
from .steps import SIGNALS, TOTAL, Shown, Source, Step, at, numbers, signals_of


class BlackBox(Displayed):
    """An environment and the declarations that a learner needs; `interface` is what a learner is made of.

    Args:
        env: any Gymnasium environment whose actions are finitely many, or one whose `step` returns six elements.
            Actions that it does not admit at the moment (``info["action_mask"]``, ``env.action_masks()``) lead to what
            the lowest admissible one leads to.
        horizon: H. The environment is reset after H steps; its own time limit must not be shorter.
        states: a `Discretizer`, or the `bins` of `make_discretizer`; None where observations are finitely many.
        rewards: a function of a `Step`; None takes the environment's.
        constraints: a key of `info`, a function of a `Step` that returns a number or ``[m]``, or None: see above.
        thresholds: likewise; None takes ``info["threshold"]``. A step whose `info` has no such key carries no sample.
            Where some step of an episode has ``info["threshold_total"]``, a hint for the whole episode, that counts
            instead: an equal share of it in every step.
        endings: one `Ending` for all, or a dict of them by state, or by what `ending_of` returns.
        ending_of: a function of the `Step` that ended the episode; None takes the number of the state it ended in.
        start: the state in which every episode starts; None learns the distribution.
        action_mask: ``[S,A]`` or ``[H,S,A]`` over the states of the discretizer.
        senses: ``">="``, ``"<="``, or one per constraint; None is ``"<="`` for costs.
        reward_range: (low, high) of one reward.
        constraint_ranges: (low, high) of one step of each constraint; one pair serves all.
        clip: cut off what lies outside its range; certificates that rest on it say "unknown".
        constraint_totals: (low, high), one for all constraints or one each: where an episode's total lies, if that is
            a smaller range than that of H steps (falls, deaths: at most 1). An episode outside of it is an error.
        threshold_totals: the same of an episode's threshold samples.
        stationary: whether transitions, rewards and constraints are the same at every step, as those of Gymnasium's
            environments are: their dynamics do not see the clock. Learners that plan then share their counts between
            the steps. No guarantee rests on it.
        state_names: what the states of the discretizer are called, where people read of them.
        action_names: what the actions are called.
        limit_names: what the constraints are called.
        units: what an episode's sums are measured in: a dict with "reward", a text, and "constraints", one for each.

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
        rewards: Callable[[Step], float] | None = None,
        constraints: Source = None,
        thresholds: Source = None,
        endings: Ending | Mapping[Any, Ending] | None = None,
        ending_of: Callable[[Step], Hashable] | None = None,
        start: int | None = None,
        action_mask: ArrayLike | None = None,
        senses: str | Sequence[str] | None = None,
        reward_range: Sequence[float] = (0, 1),
        constraint_ranges: Sequence[float] | Sequence[Sequence[float]] | None = None,
        clip: bool = False,
        constraint_totals: ArrayLike | None = None,
        threshold_totals: ArrayLike | None = None,
        stationary: bool = True,
        state_names: Sequence[str] | None = None,
        action_names: Sequence[str] | None = None,
        limit_names: Sequence[str] | None = None,
        units: Mapping[str, Any] | None = None,
    ) -> None:
        problem = getattr(getattr(env, "unwrapped", None), "problem", None)
        # A problem's own mask is in its interface.
        self._actions = Actions(env, masked=not isinstance(problem, Problem))
        given = isinstance(states, Discretizer)
        seen = _checked(states) if given else make_discretizer(env.observation_space, states)
        absorbing, self._home = absorbing_states(endings, seen.states, error=InvalidOption)
        self.env = env
        self._seen, self._endings = seen, absorbing
        self._states, self._state = seen.states, seen.number
        self._rewards, self._ending_of, self._clip = rewards, ending_of, clip
        self._probe = probed = probe(env, self._actions, constraints, thresholds)
        self.shows_thresholds, self.shows_totals = probed.shows_thresholds, probed.shows_totals
        m = probed.m
        paddings = [ending.payoffs(m, error=InvalidOption) for ending in absorbing]
        if isinstance(problem, Problem):
            self.interface = problem.interface
        elif horizon is None:
            raise InvalidOption("the number of steps of an episode is not declared; give horizon=.")
        else:
            senses = ("<=" if probed.costs else ">=") if senses is None else senses
            terms = make_units(m, senses, reward_range, constraint_ranges, error=InvalidOption)
            A = self._actions.count
            self.interface = {
                "states": seen.states + len(absorbing),
                "actions": A,
                "horizon": as_count("horizon", horizon, least=1, error=InvalidOption),
                "constraints": m,
                "start": start,
                "action_mask": mask_with_endings(action_mask, seen.states, A, len(absorbing)),
                "senses": terms.senses,
                "ranges": terms.ranges,
                "stationary": stationary,
                "state_names": names_with_endings(state_names, seen.states, len(absorbing)),
                "action_names": action_names,
                "limit_names": limit_names,
                "units": units,
            }
        self._known = make_interface(**self.interface)
        self.interface |= self._known.names.arguments
        self.constraint_totals, self.threshold_totals = constraint_totals, threshold_totals
        self._declared: Declared | None = None
        if constraint_totals is not None or threshold_totals is not None:
            self._declared = declare(self._known, None, constraint_totals, threshold_totals)
        ranges = self.interface["ranges"]
        bounds = np.array([ranges["reward"], *ranges["constraints"] * 2])
        self._bounds = low, high = bounds.T.copy()  # [1+2m] each
        self._tolerated = low - ROUNDING * (high - low), high + ROUNDING * (high - low)
        self._padded = []  # [1+2m, H] of each ending: what its steps show
        for padding in paddings:
            shown = np.append(padding, np.full(m, np.nan))[:, None]
            if not (clip or within(shown[: 1 + m], 1, *self._tolerated)):
                raise InvalidOption(
                    f"an ending pays and counts {padding.tolist()} a step, outside the declared ranges "
                    f"{bounds[: 1 + m].tolist()}. Declare wider ranges, or clip=True."
                )
            self._padded.append(np.repeat(shown, self.interface["horizon"], axis=1))

    def _facts(self) -> dict[str, Any]:
        sizes = {
            name: self.interface[name] for name in ("states", "actions", "horizon", "constraints")
        }
        return {"env": repr(self.env), **sizes, "senses": self.interface["senses"]}

    @property
    def discretizer(self) -> Discretizer:
        """Which state an observation is."""
        return self._seen

    def number(self, observation: Any) -> int:
        """The state that an observation is."""
        return self._state(observation)

    def state(self, number: int) -> Any:
        """What a state's number stands for: an observation, an entry that was cut being a `Bin`, or an `Ending`."""
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
        """What an action's number stands for, as the environment takes it."""
        return self._actions.value(_within("action", number, self._actions.count))

    def __str__(self) -> str:
        """How states and actions are numbered."""
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
            shown = signals[: 1 + m]
            least, most = (bound[: 1 + m, None] for bound in self._tolerated)
            clipped = int(np.count_nonzero((shown < least) | (shown > most)))
            low, high = (bound[: 1 + m, None] for bound in self._bounds)
            signals[: 1 + m] = shown.clip(low, high)
        if not within(signals, steps, *self._tolerated):
            self._complain(signals[:, :steps])
        constraints, thresholds = signals[1 : 1 + m].T, signals[1 + m :].T
        if m > 1:  # a single column lies in order already
            constraints, thresholds = constraints.copy(), thresholds.copy()
        episode = Episode.trusted(
            states, actions, signals[0], constraints, thresholds, clipped=clipped, hint_total=total
        )
        if self._declared is not None:
            check_totals(self._declared, self._known.check(episode))
        return episode

    def _complain(self, signals: Float) -> None:
        """Raise if a signal lies outside its range, unless it belongs to a threshold sample that is missing."""
        m, (low, high) = self.interface["constraints"], self._bounds
        least, most = (bound[:, None] for bound in self._tolerated)
        fine = (signals >= least) & (signals <= most)
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
        """An episode as it is shown, padded, but not yet held against the declared ranges."""
        H, m = self.interface["horizon"], self.interface["constraints"]
        states, actions, *found, total = self._walk(policy, uniforms.tolist(), seed)
        n, s = len(actions), states[-1]
        signals = signals_of(found, n, m)
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
        probe, h, asked = self._probe, 0, "reset"  # the last two for what goes wrong
        try:
            observation, info = self.env.reset(seed=seed)
            asked = "state"
            s = self._state(observation)
            states.append(s)
            for h, u in enumerate(uniforms):
                asked = "step"
                a = pick(policy[h, s], u)
                step = self._actions.take(observation, a, info)
                actions.append(a)
                observation, info = step.next_state, step.info
                asked = "rewards"
                rewards.append(step.reward if self._rewards is None else self._rewards(step))
                asked = "constraints"
                constraints.append(probe.constraints(step))
                asked = "thresholds"
                thresholds.append(probe.thresholds(step))
                if probe.takes_totals and TOTAL in step.info:
                    totals.append(step.info[TOTAL])
                asked = "state"
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
        except InvalidEpisode as problem:
            raise at(h, asked, str(problem)) from problem.__cause__
        except Exception as problem:
            raise at(h, asked, f"{type(problem).__name__} was raised: {problem}") from problem
        return states, actions, rewards, constraints, thresholds, totals

    def _shares(self, step: int, total: Any, H: int, m: int) -> Float:
        """A hint for a whole episode as ``[m,1]``, what each step shows of it."""
        try:
            shares = numbers(total, (m, 1)).astype(np.float64) / H
        except (TypeError, ValueError):
            raise at(step, TOTAL, f"{m} number(s) are needed, got {total!r}.") from None
        low, high = (bound[1 + m :, None] for bound in self._tolerated)
        if not ((shares >= low) & (shares <= high)).all():
            raise at(
                step,
                TOTAL,
                f"{total!r} lies outside of {H} steps of the declared ranges, "
                f"{self.interface['ranges']['constraints']}.",
            )
        return shares

    def _ending(self, step: Step, *, early: bool) -> int | None:
        """The absorbing state in which an ended episode goes on."""
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


def _checked(given: Discretizer) -> Discretizer:
    """A user's discretizer, whose numbers are looked at."""

    def number(observation: Any) -> int:
        s = index(given.number(observation))
        if not 0 <= s < given.states:
            raise InvalidEpisode(
                f"the discretizer made state {s} of the observation {observation!r}; states are 0 to "
                f"{given.states - 1}."
            )
        return s

    return given._replace(number=number)


def _within(what: str, number: int, count: int) -> int:
    n = as_count(what, number, least=0, error=InvalidOption)
    if n >= count:
        raise InvalidOption(f"there is no {what} {n}; they are 0 to {count - 1}.")
    return n


def env_interface(env: Any, **declarations: Any) -> dict[str, Any]:
    """What ``problem.interface`` is, for an environment: the arguments of a learner.

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
    """A `BlackBox` as it is, or one made of an environment and its declarations."""
    if not isinstance(env, BlackBox):
        return BlackBox(env, **declarations)
    if declarations:
        raise InvalidOption(
            f"a BlackBox has its declarations already; leave out {sorted(declarations)}."
        )
    return env
