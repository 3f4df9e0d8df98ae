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

import contextlib
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from operator import index
from typing import Any, NamedTuple

import numpy as np
from gymnasium import spaces
from numpy.typing import ArrayLike, NDArray

from ..arrays import Episode, Float, Int, Policy, as_count, as_floats, first
from ..errors import InvalidEpisode, InvalidOption, SafespotError
from ..evidence.differences import Declared, check_totals, declare
from ..evidence.interface import make_interface
from ..model.outcome_tables import (
    Ending,
    absorbing_states,
    mask_with_endings,
    names_with_endings,
)
from ..model.problem import Problem
from ..model.simulation import streams
from ..model.transitions import pick
from ..units import ROUNDING, make_units, within
from .discretizers import Discretizer, make_discretizer


class Step(NamedTuple):
    """One step as the environment shows it: what functions for rewards and signals are given.

    Examples:
        >>> import safespot as ss
        >>> def speeding(step):
        ...     return float(step.info["speed"] > 50)
        >>> step = ss.gym.Step(state=0, action=1, next_state=3, reward=1.0, ended=False, info={"speed": 62})
        >>> speeding(step)  # as a BlackBox with constraints=speeding calls it
        1.0

    """

    state: Any  # the observation
    action: Any
    next_state: Any
    reward: float
    ended: bool  # terminated, not truncated
    info: Mapping[str, Any]
    truncated: bool = False
    cost: Any = None  # the third of six elements, where there are six


class Shown(NamedTuple):
    """An episode as an environment shows it: rewards, m constraints and m thresholds (NaN: no sample), a row each."""

    states: Int  # [H+1]
    actions: Int  # [H]
    signals: Float  # [1+2m, H]
    steps: int  # that were played; the rest is padded


PROBED = 200  # steps in which a threshold sample is looked for
SIGNALS = ("rewards", "constraints", "thresholds")
TOTAL = "threshold_total"  # of info: a hint for the whole episode

Found = Callable[[Step], Any]
Source = str | Found | None


class BlackBox:
    """An environment and the declarations that a learner needs; `interface` is what a learner is made of.

    Args:
        env: any Gymnasium environment with a Discrete action space, or one whose `step` returns six elements.
        horizon: H. The environment is reset after H steps; its own time limit must not be shorter.
        states: a `Discretizer`, or the `bins` of `discretizer`; None where observations are Discrete.
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
        >>> died = ss.Ending(reward=0, constraints=1)
        >>> edges = [[0.5, 1.0, 1.5], [0.3]]  # of the tumor, of the drug
        >>> box = ss.BlackBox(ss.gym.Clinic(), horizon=14, states=edges, endings=died)
        >>> print(box.interface["states"], box.interface["actions"], box.interface["senses"])
        9 5 ('<=',)

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
        actions = getattr(env, "action_space", None)
        if actions is None:
            raise InvalidOption(
                f"expected a Gymnasium environment, got {env!r}. gymnasium.make(name) makes one."
            )
        if not isinstance(actions, spaces.Discrete):
            raise InvalidOption(
                f"the action space is {actions}; expected Discrete. Wrap the environment so that its actions "
                "are finite."
            )
        given = isinstance(states, Discretizer)
        seen = _checked(states) if given else make_discretizer(env.observation_space, states)
        absorbing, self._home = absorbing_states(endings, seen.states, error=InvalidOption)
        self.env = env
        self._states, self._state = seen
        self._first_action, self._actions = int(actions.start), int(actions.n)
        self._rewards, self._ending_of, self._clip = rewards, ending_of, clip
        self._constraints, self._thresholds, m, costs = self._probe(constraints, thresholds)
        paddings = [ending.payoffs(m, error=InvalidOption) for ending in absorbing]
        problem = getattr(env.unwrapped, "problem", None)
        if isinstance(problem, Problem):
            self.interface = problem.interface
        elif horizon is None:
            raise InvalidOption("the number of steps of an episode is not declared; give horizon=.")
        else:
            senses = ("<=" if costs else ">=") if senses is None else senses
            terms = make_units(m, senses, reward_range, constraint_ranges, error=InvalidOption)
            A = int(actions.n)
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

    def play(self, policy: Policy, uniforms: Float, seed: int | None = None) -> Episode:
        """Play an episode of `policy` ``[H,S,A]``; its actions are drawn with `uniforms` ``[H]``.

        Whatever goes wrong is an `InvalidEpisode` that names the step and what the environment was asked for; an
        error of the environment's own is its cause.
        """
        m = self.interface["constraints"]
        states, actions, signals, steps = self.show(policy, uniforms, seed)
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
            states, actions, signals[0], constraints, thresholds, clipped=clipped
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
            raise _at(
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
        signals = _signals(found, n, m)
        if n < H:
            signals, played = self._padded[s - self._states].copy(), signals
            signals[:, :n] = played
        if total:
            signals[1 + m :] = self._shares(n - 1, total[-1], H, m)
        rest = H - n
        return Shown(np.array(states + [s] * rest), np.array(actions + [0] * rest), signals, n)

    def _walk(
        self, policy: Policy, uniforms: list[float], seed: int | None
    ) -> tuple[list[Any], ...]:
        """Walk with the environment: states, actions, rewards, constraints, thresholds, and totals of the latter."""
        states, actions, rewards, constraints, thresholds = [], [], [], [], []
        totals: list[Any] = []
        h, asked = 0, "reset"  # for what goes wrong
        try:
            observation, _ = self.env.reset(seed=seed)
            asked = "state"
            s = self._state(observation)
            states.append(s)
            for h, u in enumerate(uniforms):
                asked = "step"
                a = pick(policy[h, s], u)
                step = self._take(observation, a)
                actions.append(a)
                observation = step.next_state
                asked = "rewards"
                rewards.append(step.reward if self._rewards is None else self._rewards(step))
                asked = "constraints"
                constraints.append(self._constraints(step))
                asked = "thresholds"
                thresholds.append(self._thresholds(step))
                if self._takes_totals and TOTAL in step.info:
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
            raise _at(h, asked, str(problem)) from problem.__cause__
        except Exception as problem:
            raise _at(h, asked, f"{type(problem).__name__} was raised: {problem}") from problem
        return states, actions, rewards, constraints, thresholds, totals

    def _shares(self, step: int, total: Any, H: int, m: int) -> Float:
        """A hint for a whole episode as ``[m,1]``, what each step shows of it."""
        try:
            shares = _numbers(total, (m, 1)).astype(np.float64) / H
        except (TypeError, ValueError):
            raise _at(step, TOTAL, f"{m} number(s) are needed, got {total!r}.") from None
        low, high = (bound[1 + m :, None] for bound in self._tolerated)
        if not ((shares >= low) & (shares <= high)).all():
            raise _at(
                step,
                TOTAL,
                f"{total!r} lies outside of {H} steps of the declared ranges, "
                f"{self.interface['ranges']['constraints']}.",
            )
        return shares

    def _take(self, observation: Any, a: int) -> Step:
        """Step the environment."""
        answer = self.env.step(a + self._first_action)
        if len(answer) == 5:
            after, reward, ended, truncated, info = answer
            return Step(observation, a, after, reward, ended, info, truncated)
        if len(answer) == 6:
            after, reward, cost, ended, truncated, info = answer
            return Step(observation, a, after, reward, ended, info, truncated, cost)
        raise InvalidEpisode(
            f"the environment's step returned {len(answer)} elements; expected five, as Gymnasium's do, "
            "or six with the cost in third place."
        )

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

    def _probe(self, constraints: Source, thresholds: Source) -> tuple[Found, Found, int, bool]:
        """Where the signals are, how many, and whether they are costs, from one step of the environment."""
        with _playable("fails"):
            observation, _ = self.env.reset(seed=0)
            step = self._take(observation, 0)
        named = next((key for key in ("constraint", "cost") if key in step.info), None)
        source = named if constraints is None else constraints
        if source is None and step.cost is None:
            raise InvalidOption(
                "the environment shows no constraint signals: info has neither 'constraint' nor 'cost' "
                f"(it has {sorted(step.info)}), and step returns no sixth element. Give constraints=, a key "
                "or a function of a Step."
            )
        found = _finder(source)
        self._takes_totals = thresholds is None
        key = "threshold" if thresholds is None else thresholds
        samples: Found = key if callable(key) else lambda step: step.info.get(key)
        with _playable("shows no signals"):
            seen = found(step)
            self.shows_totals = False
            # Not every step need carry a sample. Where they are is taken on the user's word; by default, a few
            # episodes are looked through.
            self.shows_thresholds = thresholds is not None or self._shows(samples, step)
        shown = as_floats("constraints", seen, error=InvalidOption)
        if shown.ndim > 1 or shown.size == 0:
            raise InvalidOption(
                f"constraints must be a number or [m] numbers, got {shown.tolist()}."
            )
        return found, samples, shown.size, source in (None, "cost")

    def _shows(self, samples: Found, step: Step) -> bool:
        """Whether any of the next steps carries a threshold sample; not, where they cannot be taken."""
        if self._carries(samples, step):
            return True
        with contextlib.suppress(Exception):
            for number in range(PROBED):
                observation = step.next_state
                if step.ended or step.truncated:
                    observation, _ = self.env.reset()
                step = self._take(observation, number % self._actions)
                if self._carries(samples, step):
                    return True
        return False

    def _carries(self, samples: Found, step: Step) -> bool:
        """Whether a step carries a threshold sample, or a total."""
        self.shows_totals |= self._takes_totals and TOTAL in step.info
        return self.shows_totals or samples(step) is not None


@contextlib.contextmanager
def _playable(what: str) -> Iterator[None]:
    """An environment that fails at its very first step is a wrong declaration."""
    try:
        yield
    except Exception as problem:
        raise InvalidOption(
            f"the environment's first step {what}: {type(problem).__name__}: {problem}"
        ) from problem


def _at(step: int, asked: str, words: str) -> InvalidEpisode:
    """What went wrong, and where."""
    return InvalidEpisode(f"step {step}, {asked}: {words}")


def _signals(found: Sequence[Any], n: int, m: int) -> Float:
    """What n steps showed of rewards, constraints and thresholds, ``[1+2m, n]``; None is NaN."""
    try:
        rewards, *others = found
        if m > 1:
            others = [row for values in others for row in zip(*values, strict=True)]
        return _numbers([rewards, *others], (1 + 2 * m, n)).astype(np.float64, copy=False)
    except (TypeError, ValueError):  # another form, or samples are missing, or something is wrong
        parts = zip(SIGNALS, found, (1, m, m), strict=True)
        return np.hstack([_one_by_one(*part) for part in parts]).T.copy()


def _one_by_one(key: str, values: list[Any], size: int) -> Float:
    """The signals of one kind that the steps showed, ``[n, size]``."""
    out = np.full((len(values), size), np.nan)
    for h, value in enumerate(values):
        if value is not None:
            try:
                out[h] = _numbers(value, (size,))
            except (TypeError, ValueError):
                raise _at(h, key, f"expected {size} number(s), got {value!r}.") from None
    return out


def _numbers(value: Any, shape: tuple[int, ...]) -> NDArray:
    """Real numbers of that shape; texts and complex numbers are a TypeError."""
    numbers = np.asarray(value)
    if numbers.dtype.kind not in "biuf":
        raise TypeError
    return numbers.reshape(shape)


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

    return Discretizer(given.states, number)


def _finder(source: Source) -> Found:
    if source is None:
        return lambda step: step.cost
    if callable(source):
        return source

    def look(step: Step) -> Any:
        try:
            return step.info[source]
        except KeyError:
            raise InvalidEpisode(f"info has no {source!r}; it has {sorted(step.info)}.") from None

    return look


def env_interface(env: Any, **declarations: Any) -> dict[str, Any]:
    """What ``problem.interface`` is, for an environment: the arguments of a learner.

    `env` is a `BlackBox`, or an environment with the declarations of one.

    Examples:
        >>> import gymnasium
        >>> import safespot as ss
        >>> interface = ss.env_interface(gymnasium.make("safespot/machine-v0"))
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


def check_env(env: Any, episodes: int = 20, seed: int = 0, **declarations: Any) -> list[str]:
    """Play some episodes at random and say in plain words what is missing or odd; nothing: an empty list.

    Examples:
        >>> import safespot as ss
        >>> edges = [[0.5, 1.0, 1.5], [0.3]]  # of the tumor, of the drug
        >>> print(ss.check_env(ss.gym.Clinic(), horizon=14, states=edges)[0])
        step ..., state: an episode ended early, with ..., and no ending is declared for it. ...
        >>> died = ss.Ending(reward=0, constraints=1)
        >>> ss.check_env(ss.gym.Clinic(), horizon=14, states=edges, endings=died)
        []

    """
    try:
        box = as_box(env, declarations)
    except SafespotError as problem:
        return [str(problem)]
    f = box.interface
    shape = f["horizon"], f["states"], f["actions"]
    mask = np.broadcast_to(True if f["action_mask"] is None else f["action_mask"], shape)
    policy = mask / mask.sum(axis=2, keepdims=True)
    rng = streams(seed).actions
    findings: dict[str, str] = {}  # the first place of each
    played = []
    for t in range(as_count("episodes", episodes, least=1, error=InvalidOption)):
        try:
            played.append(box.show(policy, rng.random(shape[0]), seed if t == 0 else None))
        except InvalidEpisode as problem:
            findings.setdefault(str(problem).partition(": ")[2], str(problem))
    sentences = list(findings.values())
    if not box.shows_thresholds:
        sentences.append(
            "no thresholds are shown (info has neither 'threshold' nor 'threshold_total'): they cannot be learned. "
            "Give thresholds=, or a learner that knows them."
        )
    return sentences + _odd(played, f) if played else sentences


def _odd(played: list[Shown], f: Mapping[str, Any]) -> list[str]:
    """What is odd about whole episodes."""
    sentences = []
    m, ranges = f["constraints"], f["ranges"]
    signals = np.hstack([shown.signals for shown in played])
    names = ["rewards", *(f"{key} of constraint {i}" for key in SIGNALS[1:] for i in range(m))]
    bounds = [ranges["reward"], *ranges["constraints"] * 2]
    for name, values, (low, high) in zip(names, signals, bounds, strict=True):
        samples = values[~np.isnan(values)]
        if samples.size < values.size and not name.startswith("thresholds"):
            sentences.append(f"{name} were NaN in {values.size - samples.size} steps.")
        if samples.size == 0:
            continue
        least, most = float(samples.min()), float(samples.max())
        if least < low or most > high:
            sentences.append(
                f"{name} were seen from {least:g} to {most:g}; their declared range is {low:g} to {high:g}. "
                "Declare a range that holds them, or clip=True."
            )
        elif least == most and not name.startswith("thresholds"):
            sentences.append(f"{name} were always {least:g}: there is nothing to learn from them.")
    if f["start"] is not None and any(shown.states[0] != f["start"] for shown in played):
        sentences.append(f"an episode did not start in state {f['start']}; leave start=None.")
    return sentences
