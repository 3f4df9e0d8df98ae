"""Any Gymnasium environment as a black box: finite states, H steps, declared signals, no table at all.

An environment shows observations, rewards and an `info`. A learner needs states, and in every one of H steps a
reward, m constraint signals and m threshold signals within declared ranges. `BlackBox` holds the declarations
that lead from the one to the other, plays a policy, and returns an `Episode`:

- states: a discretiser of the observations;
- constraints and thresholds: a key of `info`, a function of the step, or by default what the environment shows:
  ``info["constraint"]``, ``info["cost"]`` or, where `step` returns six elements (observation, reward, cost, …),
  the third;
- endings: what the steps after an early end pay and count (deviation D7). Nobody but the user can know: a death
  that stops the costs would look safe. Padded steps carry no threshold sample.

Rewards and constraints outside their declared range are an error, since a learner's guarantees hold within it; with
`clip` they are cut off instead.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from gymnasium import spaces
from numpy.typing import ArrayLike

from .arrays import Episode, Float, Policy, as_count, as_floats
from .discretisers import Discretiser, discretiser
from .errors import InvalidEpisode, InvalidOption, SafespotError
from .signals import Problem
from .simulation import pick, streams
from .tables import Ending, absorbing_states, mask_with_endings
from .units import units


class Step(NamedTuple):
    """One step as the environment shows it: what functions for rewards and signals are given."""

    state: Any  # the observation
    action: Any
    next_state: Any
    reward: float
    ended: bool  # terminated, not truncated
    info: Mapping[str, Any]


Source = str | Callable[[Step], Any] | None
Found = Callable[[Step, Any], Any]  # from a step and its sixth element


class BlackBox:
    """An environment and the declarations that a learner needs; `interface` is what a learner is made of.

    Args:
        env: any Gymnasium environment with a Discrete action space, or one whose `step` returns six elements.
        horizon: H. The environment is reset after H steps; its own time limit must not be shorter.
        states: a `Discretiser`, or the `bins` of `discretiser`; None where observations are Discrete.
        rewards: a function of a `Step`; None takes the environment's.
        constraints: a key of `info`, a function of a `Step` that returns a number or ``[m]``, or None: see above.
        thresholds: likewise; None takes ``info["threshold"]``, and no sample where there is none.
        endings: one `Ending` for all, or a dict of them by state, or by what `ending_of` returns.
        ending_of: a function of the `Step` that ended the episode; None takes the number of the state it ended in.
        start: the state in which every episode starts; None learns the distribution.
        action_mask: ``[S,A]`` or ``[H,S,A]`` over the states of the discretiser.
        senses: ``">="``, ``"<="``, or one per constraint; None is ``"<="`` for costs.
        reward_range: (low, high) of one reward.
        constraint_ranges: (low, high) of one step of each constraint; one pair serves all.
        clip: cut off what lies outside its range.

    A `ProblemEnv` declares all of this itself. The constructor plays one step, to see how many signals there are.

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
    ) -> None:
        actions = getattr(env, "action_space", None)
        if not isinstance(actions, spaces.Discrete):
            raise InvalidOption(
                f"an environment with a Discrete action space is needed, not {actions}; wrap it so that its "
                "actions are finite."
            )
        seen = (
            states
            if isinstance(states, Discretiser)
            else discretiser(env.observation_space, states)
        )
        absorbing, self._home = absorbing_states(endings, seen.states, error=InvalidOption)
        self.env = env
        self._states, self._number = seen
        self._first_action = int(actions.start)
        self._rewards, self._ending_of, self._clip = rewards, ending_of, clip
        self._constraints, self._thresholds, m, costs = self._probe(constraints, thresholds)
        self._padding = [ending.payoffs(m, error=InvalidOption) for ending in absorbing]
        problem = getattr(env.unwrapped, "problem", None)
        if isinstance(problem, Problem):
            self.interface = problem.interface
            return
        if horizon is None:
            raise InvalidOption("say how many steps an episode has: horizon=.")
        senses = ("<=" if costs else ">=") if senses is None else senses
        terms = units(m, senses, reward_range, constraint_ranges, error=InvalidOption)
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
        }

    def play(self, policy: Policy, luck: Float, seed: int | None = None) -> Episode:
        """Play an episode of `policy` ``[H,S,A]``; its actions are drawn with the uniform numbers `luck` ``[H]``."""
        H, m = self.interface["horizon"], self.interface["constraints"]
        observation, _ = self.env.reset(seed=seed)
        s = self._state(observation)
        states, actions, rewards, constraints, thresholds = [s], [], [], [], []
        for h, u in enumerate(luck.tolist()):
            a = pick(policy[h, s], u)
            step, cost, cut = self._take(observation, a)
            observation = step.next_state
            actions.append(a)
            rewards.append(step.reward if self._rewards is None else self._rewards(step))
            constraints.append(self._constraints(step, cost))
            thresholds.append(self._thresholds(step, cost))
            home = self._ending(step, early=h + 1 < H) if step.ended else None
            s = self._state(observation) if home is None else home
            states.append(s)
            if home is not None:
                break
            if cut and h + 1 < H:
                raise InvalidEpisode(
                    f"the environment's time limit cut an episode off after {h + 1} of {H} steps. No "
                    "state explains that, so it is no ending that could be declared: take a shorter horizon, "
                    "or raise the limit with gymnasium.make(…, max_episode_steps=…)."
                )
        after = self._padding[s - self._states] if len(actions) < H else np.zeros(1 + m)
        left = H - len(actions)
        paid = _rows("rewards", rewards, after[:1], H)[:, 0]
        counted = _rows("constraints", constraints, after[1:], H)
        if self._clip:
            ranges = self.interface["ranges"]
            paid = paid.clip(*ranges["reward"])
            counted = counted.clip(*np.transpose(ranges["constraints"]))
        return Episode(
            np.array(states + [s] * left),
            np.array(actions + [0] * left),
            paid,
            counted,
            _rows("thresholds", thresholds, np.full(m, np.nan), H),
        )

    def _take(self, observation: Any, a: int) -> tuple[Step, Any, bool]:
        """Step the environment: what it showed, the cost of six elements (else None), and whether time was up."""
        answer = self.env.step(a + self._first_action)
        if len(answer) == 6:
            after, reward, cost, ended, cut, info = answer
        elif len(answer) == 5:
            after, reward, ended, cut, info = answer
            cost = None
        else:
            raise InvalidOption(
                f"the environment's step returned {len(answer)} elements; expected five, as Gymnasium's do, "
                "or six with the cost in third place."
            )
        return Step(observation, a, after, reward, ended, info), cost, cut

    def _state(self, observation: Any) -> int:
        s = self._number(observation)
        if not 0 <= s < self._states:
            raise InvalidEpisode(
                f"the discretiser made state {s} of the observation {observation!r}; states are 0 to "
                f"{self._states - 1}."
            )
        return s

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
        observation, _ = self.env.reset(seed=0)
        step, cost, _ = self._take(observation, 0)
        named = next((key for key in ("constraint", "cost") if key in step.info), None)
        source = named if constraints is None else constraints
        if source is None and cost is None:
            raise InvalidOption(
                "the environment shows nothing to be limited: info has neither 'constraint' nor 'cost' "
                f"(it has {sorted(step.info)}), and step returns no sixth element. Give constraints=, a key "
                "or a function of a Step."
            )
        found = _finder("constraints", source)
        shown = as_floats("constraints", found(step, cost), error=InvalidOption)
        if shown.ndim > 1 or shown.size == 0:
            raise InvalidOption(
                f"constraints must be a number or [m] numbers, got {shown.tolist()}."
            )
        if thresholds is None:
            samples: Found = lambda step, cost: step.info.get("threshold")  # noqa: E731
        else:
            samples = _finder("thresholds", thresholds)
        self.shows_thresholds = samples(step, cost) is not None
        return found, samples, shown.size, source in (None, "cost")


def _rows(name: str, values: list[Any], after: Float, H: int) -> Float:
    """Signals ``[H,.]``: what the steps showed (None is no sample), and `after` in the steps that are left."""
    n, m = len(values), after.size
    rows = np.empty((H, m))
    rows[n:] = after
    try:
        rows[:n] = np.reshape(values, (n, m))
    except (TypeError, ValueError):  # samples are missing, or something is wrong
        nothing = np.full(m, np.nan)
        try:
            rows[:n] = [nothing if value is None else np.reshape(value, m) for value in values]
        except (TypeError, ValueError):
            raise InvalidEpisode(
                f"{name} of a step must be {m} number(s); an episode showed {values!r}."
            ) from None
    return rows


def _finder(name: str, source: Source) -> Found:
    if source is None:
        return lambda step, cost: cost
    if callable(source):
        return lambda step, cost: source(step)

    def look(step: Step, cost: Any) -> Any:
        try:
            return step.info[source]
        except KeyError:
            raise InvalidEpisode(
                f"{name} should be in info[{source!r}]; this step's info has {sorted(step.info)}."
            ) from None

    return look


def env_interface(env: Any, **declarations: Any) -> dict[str, Any]:
    """What ``problem.interface`` is, for an environment: the arguments of a learner.

    `env` is a `BlackBox`, or an environment with the declarations of one.
    """
    return as_box(env, declarations).interface


def as_box(env: Any, declarations: Mapping[str, Any]) -> BlackBox:
    """A `BlackBox` as it is, or one made of an environment and its declarations."""
    if not isinstance(env, BlackBox):
        return BlackBox(env, **declarations)
    if declarations:
        raise InvalidOption(f"a BlackBox has its declarations already, got {sorted(declarations)}.")
    return env


def check_problem_env(
    env: Any, episodes: int = 20, seed: int = 0, **declarations: Any
) -> list[str]:
    """Play some episodes at random and say in plain words what is missing or odd; nothing: an empty list."""
    try:
        box = as_box(env, declarations)
    except SafespotError as problem:
        return [str(problem)]
    f = box.interface
    shape = f["horizon"], f["states"], f["actions"]
    mask = np.broadcast_to(True if f["action_mask"] is None else f["action_mask"], shape)
    policy = mask / mask.sum(axis=2, keepdims=True)
    rng = streams(seed).actions
    findings, played = [], []
    for t in range(as_count("episodes", episodes, least=1, error=InvalidOption)):
        try:
            played.append(box.play(policy, rng.random(shape[0]), seed if t == 0 else None))
        except InvalidEpisode as problem:
            findings.append(str(problem))
    findings = list(dict.fromkeys(findings))
    if not box.shows_thresholds:
        findings.append(
            "no thresholds are shown (info has no 'threshold'): they cannot be learned. Give thresholds=, or a "
            "learner that knows them."
        )
    if played:
        findings += _odd(played, f)
    return findings


def _odd(played: list[Episode], f: Mapping[str, Any]) -> list[str]:
    """What is odd about whole episodes."""
    sentences = []
    kinds = [("rewards", np.array([e.rewards for e in played]), f["ranges"]["reward"])]
    for name in ("constraints", "thresholds"):
        for i, bounds in enumerate(f["ranges"]["constraints"]):
            values = np.array([getattr(e, name)[:, i] for e in played])
            kinds.append((f"{name} of constraint {i}", values[~np.isnan(values)], bounds))
    for name, values, (low, high) in kinds:
        if values.size == 0:
            continue
        least, most = float(values.min()), float(values.max())
        if least < low or most > high:
            sentences.append(
                f"{name} were seen from {least:g} to {most:g}; their declared range is {low:g} to {high:g}. "
                "Declare a range that holds them, or clip=True."
            )
        elif least == most and not name.startswith("thresholds"):
            sentences.append(f"{name} were always {least:g}: there is nothing to learn from them.")
    if f["start"] is not None and any(e.states[0] != f["start"] for e in played):
        sentences.append(f"an episode did not start in state {f['start']}; leave start=None.")
    return sentences
