"""SPOT in epochs: plan exactly, with a margin, and try what was planned.

SPOT's idea, thresholds learned online and a stance between caution and reward, in phases of doubling length:

    play the baseline, or all actions alike, for 64 episodes: the first trial
    for k = 2, 3, ...:                                    phase k is as long as all before it
        explore, for half of it: optimistic plans, a new one when the visits of some pair have doubled
        try, for the rest: a pessimistic plan with a margin, frozen
            its trial proves some limit broken:  retreat to a policy that is certified, or to the baseline, or end
                                                 the phase; the next margin is wider
            its trial proves all limits kept:    a certificate

    plans:  argmax V_r   subject to   V_g >= alpha_xi + (1 - 2 xi) margin        in the model of the counts

`pooled_models` has the plans, `phases` the trials. What is proven rests on the trials and on the bounds of the
thresholds alone (docs/epochs.md): each trial has its own share ``delta / (2 k (k+1))``, the thresholds have half of
delta. No model, no Markov property and no margin enters it. What a margin is good for is that trials succeed.

The margin of a proposal is the sum of

- the standard error of V_g in the model (delta method, `pooled_models.standard_errors`),
- what its trial needs to prove it: ``deviation sqrt(2 ln(1/share) / length)``, with the deviation of the last trial,
- what the model was off by, as the last break showed; and after each further break in a row it is at least twice as
  wide.

Where no policy has that margin it is halved, and halved again, and then the plan with the largest margin is tried.
"""

from __future__ import annotations

import json
import math
import warnings
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..arrays import SUM_TOLERANCE, Episode, Float, Policy, as_floats, as_policy, frozen
from ..errors import InvalidEpisode, InvalidFile, InvalidModel, InvalidOption
from ..evidence.certificate import Certificate, issue, policy_digest
from ..evidence.meter import REWARD
from ..evidence.sequences import read_fixed, targets
from ..evidence.totals import TotalRates, grow_totals, total_rates
from ..files import checksum
from ..spot.window import Window, empty_window
from . import phases
from .compiled_step import observe_episode
from .learner import Learner
from .options import AnyOptions, nested
from .phases import Memory, PhaseRates, PhaseState, empty_phases, empty_trial, spreads
from .pooled_models import (
    Counted,
    Imagined,
    Known,
    Plan,
    best_plan,
    count_model,
    imagine,
    pool,
    standard_errors,
    widest_plan,
    with_bonus,
)
from .stationarity import contradictions

FIRST_PHASE = 64  # episodes
EXPLORING = 0.5  # the share of a phase that explores, at most
EAGERNESS = (
    2.0  # that share, in parts of how much larger the reward of an exploring plan is by its bonus
)
OPTIMISM = 0.05  # imaginary visits of exploring plans
CURIOSITY = 4.0  # standard errors of a pair that are added to its reward in exploring plans
CARE = 1.0  # standard errors of V_g that are the margin of exploring plans
REPAYMENT = 200.0  # episodes in which exploring makes up for what it fell short by
PESSIMISM = 0.1  # imaginary visits of proposals
PATIENCE = 100  # no new exploring plan before one part in so many of all episodes
WORK = 5_000  # transitions that a plan may read per step of the episodes until the next one
MIXTURE = 1.15  # what a mixture costs where its prior is largest, in ln(1/share)
POWER = 1.0  # standard errors by which a trial may fall short of its mean and succeed still
HALVINGS = 10  # of a margin that no policy has


@dataclass(frozen=True, kw_only=True)
class EpochsOptions(AnyOptions):
    """The options of `SpotEpochs`; every one of them has a default.

    Examples:
        >>> import safespot as ss
        >>> ss.EpochsOptions(stance=0.5).xi
        0.5

    Args:
        episodes: T, if it is known; nothing depends on it.
        thresholds: the limits where they are known, ``[m]`` or ``[m,H]``; None: they are learned.
        stance: "pessimistic" adds the margin, "optimistic" takes it off, 0.5 has none; or xi in [0,1].
        window: gamma in (0,1]; below 1 thresholds may drift, and nothing is certified.
        delta: with probability 1 - delta no certificate is ever false.
        baseline: a policy ``[H,S,A]`` or ``[S,A]``, played first and where a trial has failed.
        known_rewards: rewards that are known and not measured, ``[S,A]`` or ``[H,S,A]``.
        known_constraints: the same of all constraints, ``[m,S,A]`` or ``[m,H,S,A]``.
        explore_budget: how much violation exploring may cost in all, a number or one for each constraint, in the
            user's units. It is kept with probability 1 - delta.

    """

    episodes: int | None = None
    baseline: Policy | None = field(default=None, compare=False, repr=False)
    known_rewards: Float | None = field(default=None, compare=False, repr=False)
    known_constraints: Float | None = field(default=None, compare=False, repr=False)
    explore_budget: Any = None

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("baseline", "known_rewards", "known_constraints"):
            if getattr(self, name) is not None:
                given = as_floats(name, getattr(self, name), error=InvalidOption)
                self._set(name, frozen(given))
        self._set("explore_budget", nested("explore_budget", self.explore_budget))


class Certified(NamedTuple):
    """A policy that was proven to keep every limit."""

    policy: Policy  # [H, S, A]
    certificate: Certificate
    episode: int  # the last one that the proof rests on


class SpotEpochs(Learner):
    """Explores, proposes and tries in phases of doubling length; what is proven on the way is in `certificates`.

    Its first arguments are ``problem.interface``, its options those of `EpochsOptions`. `log` are episodes of the past,
    as a `Log` or any iterable of `Episode` records: they are counted, and prove nothing about a policy.

    Examples:
        >>> import safespot as ss
        >>> problem = ss.problems.make("machine")
        >>> learner = ss.SpotEpochs(**problem.interface)
        >>> run = ss.learn(problem, learner, episodes=2000, seed=0)
        >>> best = learner.certified
        >>> best.certificate.verdict
        ('safe',)
        >>> bool(ss.evaluate(problem.cmdp, best.policy).constraints[0] <= problem.cmdp.limits[0])
        True

    """

    name = "spot-epochs"
    options_type = EpochsOptions
    options: EpochsOptions
    state: PhaseState
    rates: PhaseRates

    def __init__(self, *interface: Any, log: Any = None, **options: Any) -> None:
        super().__init__(*interface, **options)
        f, o = self.interface, self.options
        self._totals: TotalRates = total_rates(
            f.m, f.H, o.delta / 2.0, independent_hints=o.independent_hints,
            shared_threshold=o.shared_threshold, window=o.window, limits=self.declared.limits,
        )  # fmt: skip
        self._known = self._known_payoffs()
        self._budget = self._explore_budget()
        self._certificates: tuple[Certified, ...] = ()
        self._warned = False
        self._mask = np.ascontiguousarray(
            f.mask[:1] if (f.mask == f.mask[:1]).all() else f.mask
        ).reshape(-1, f.S * f.A)
        first = self._first_policy()
        counts = f.S * f.A if f.stationary else f.H * f.S * f.A
        self.state = empty_phases(first, self._totals, f.m, counts)
        clock = self.state.clock
        clock[phases.PHASE], clock[phases.ENDS], clock[phases.OWN] = 1, FIRST_PHASE, 1
        self._derive()
        if log is not None:
            self._read(log)

    # What a user reads

    @property
    def proposal(self) -> Policy:
        """``[H,S,A]``: the plan to deploy now, from everything seen so far; the first policy before anything is."""
        if self.episode == 1:
            return self.policy
        return frozen(self._propose()[0].policy)

    @property
    def certificates(self) -> tuple[Certified, ...]:
        """What was proven, in the order of issue; with probability 1 - delta all of it is true."""
        return self._certificates

    @property
    def certified(self) -> Certified | None:
        """The certified policy with the largest estimated reward; None: nothing is certified yet."""
        if not self._certificates:
            return None
        model = self._model(self._pessimism())
        rewards = [
            standard_errors(model, self._known, each.policy, self.episode - 1)[0][0]
            for each in self._certificates
        ]
        return self._certificates[int(np.argmax(rewards))]

    # What a user does

    def observe(self, episode: Episode, played: ArrayLike | str | None = None) -> None:
        """Learn from an episode; an invalid one changes nothing.

        `played` is the policy, or its digest (`policy_digest`), where it was not `policy`: then the episode is counted,
        and the trial goes without it.
        """
        inside = self.check(episode)
        _, digest = self.identify(played)
        own = digest is None or digest == policy_digest(self.state.pi)
        self.interface.doubts.clipped += episode.clipped
        self.make_room()
        self.state.clock[phases.OWN] = own
        observe_episode(self.rates, self.state, self.statistics, self.window, inside)
        self.settle()

    # Between episodes

    @property
    def episodes_to_settle(self) -> int | None:
        """Any number: the step itself says when there is something to decide."""
        return None

    def settle(self) -> None:
        """Decide what is due: the trial's outcome, the next part of the phase, the next plan."""
        if not self.state.clock[phases.DUE]:
            return
        state = self.state._replace(clock=self.state.clock.copy())
        state.clock[phases.DUE] = 0
        if state.clock[phases.OUTSIDE]:
            self.state.clock[phases.OUTSIDE] = 0
            raise InvalidEpisode(
                "an episode's total lies outside the constraint_totals or threshold_totals that were declared, on "
                "which everything that is proven rests. Declare the range that it has, and begin anew."
            )
        ring, span = state.totals.ring, state.totals.span
        if 0 < len(ring) == span[1]:
            state = state._replace(totals=grow_totals(state.totals))
        clock, t = state.clock, int(state.finished[0])
        certificates = self._certificates
        if clock[phases.VERDICT] == phases.KEPT:
            if self.options.window == 1.0 and not self.interface.doubts.sentences():
                certificates = (*certificates, self._issue())
            clock[phases.VERDICT] = phases.ISSUED
        part, over = clock[phases.PART], t >= clock[phases.ENDS]
        if part == phases.EXPLORING:
            if over or self._overspent():
                state = self._begin_trial(state)
            elif clock[phases.GROWN] and t >= clock[phases.NEXT]:
                state = self._explore(state)
        elif part in (phases.FIRST, phases.TRYING) and clock[phases.VERDICT] == phases.BROKEN:
            state = self._retreat(state)
        elif over:
            state = self._begin_phase(state)
        self.state, self._certificates = state, certificates
        self._derive()

    def _begin_phase(self, state: PhaseState) -> PhaseState:
        """Remember what the trial has shown, and explore; without a budget for it, try at once."""
        clock, memory = state.clock, state.memory.copy()
        if clock[phases.VERDICT] != phases.BROKEN:
            clock[phases.BREAKS] = 0
        found = spreads(self.declared, state.trial)
        if np.isfinite(found[0]).all():
            memory[[Memory.SPREAD, Memory.VALUE_SPREAD]] = found
        clock[phases.PHASE] += 1
        clock[phases.BEGAN] = state.finished[0]
        clock[phases.VERDICT] = phases.OPEN
        clock[phases.PART] = phases.EXPLORING
        clock[phases.ENDS] = clock[phases.BEGAN] + self._length(clock)
        state = state._replace(memory=memory)
        self._look_for_contradictions()
        return self._begin_trial(state) if self._overspent() else self._explore(state, begin=True)

    def _length(self, clock: NDArray) -> int:
        """How long the phase is: as long as all before it."""
        return max(FIRST_PHASE, int(clock[phases.BEGAN] - clock[phases.LOGGED]))

    def _trial_length(self, clock: NDArray) -> int:
        """How long the phase's trial is, or will be."""
        exploring = clock[phases.PART] == phases.EXPLORING
        begins = clock[phases.ENDS] if exploring else clock[phases.TRIED]
        return max(1, int(clock[phases.BEGAN] + self._length(clock) - begins))

    def _explore(self, state: PhaseState, *, begin: bool = False) -> PhaseState:
        """The exploring plan of now; where a phase begins, how long it explores."""
        clock, t = state.clock, int(state.finished[0])
        plan, share = self._exploring_plan(state)
        if begin:
            clock[phases.ENDS] = t + max(1, math.floor(share * self._length(clock)))
        clock[phases.GROWN] = 0
        pause = plan.work // (WORK * self.interface.H)
        clock[phases.NEXT] = t + max(1, t // PATIENCE, pause)
        return state._replace(pi=plan.policy, lam=plan.multipliers, planned=state.visits.copy())

    def _exploring_plan(self, state: PhaseState) -> tuple[Plan, float]:
        """The optimistic plan of now, and the share of a phase that it is worth: the less, the less is to learn.

        What there is to learn is by how much the bonus raises the plan's reward.
        """
        t, prices = int(state.finished[0]), state.memory[Memory.PRICE]
        plain = self._model(self._optimism())
        model = with_bonus(plain, self._known, state.pi, prices, CURIOSITY)
        margin = CARE * standard_errors(model, self._known, state.pi, t)[1]
        margin = margin + state.memory[Memory.OWED] / REPAYMENT
        plan = best_plan(model, self.limits + (1.0 - 2.0 * self.options.xi) * margin)
        value = standard_errors(plain, self._known, plan.policy, t)[0][0]
        raised = (plan.values[0] - value) / max(float(value), 1e-9)
        return plan, min(EXPLORING, EAGERNESS * raised)

    def _begin_trial(self, state: PhaseState) -> PhaseState:
        """Freeze a proposal, and begin its trial."""
        clock, memory = state.clock, state.memory.copy()
        plan, margin, promised = self._propose(state)
        memory[Memory.MARGIN], memory[Memory.PROMISED] = margin, promised
        memory[Memory.PRICE] = plan.multipliers
        clock[phases.PART] = phases.TRYING
        clock[phases.TRIED] = state.finished[0]
        clock[phases.ENDS] = clock[phases.BEGAN] + self._length(clock)
        return state._replace(
            pi=plan.policy, lam=plan.multipliers, memory=memory, trial=empty_trial(self.interface.m)
        )

    def _retreat(self, state: PhaseState) -> PhaseState:
        """After a proven break: what is certified, or the baseline, for the rest of the phase; or the next phase."""
        clock, memory = state.clock, state.memory.copy()
        if clock[phases.PART] == phases.TRYING:
            declared, trial = self.declared, state.trial
            shown = declared.least + declared.width * trial.total[2::4] / trial.counted[2::4]
            memory[Memory.ERROR] = (memory[Memory.PROMISED] - shown).clip(0.0)
            clock[phases.BREAKS] += 1
        elif self.options.baseline is not None:
            clock[phases.DISTRUSTED] = 1
            warnings.warn(
                "the baseline breaks a limit, as its own episodes prove; it is not played any more.",
                stacklevel=4,
            )
        state = state._replace(memory=memory)
        safe = self._safe(clock)
        if safe is None:
            return self._begin_phase(state)
        clock[phases.PART] = phases.RETREATED
        clock[phases.ENDS] = clock[phases.BEGAN] + self._length(clock)
        return state._replace(pi=np.array(safe))

    def _safe(self, clock: NDArray) -> Policy | None:
        """The policy to retreat to, if there is one."""
        best = self.certified
        if best is not None:
            return best.policy
        if self.options.baseline is not None and not clock[phases.DISTRUSTED]:
            return self._first_policy()
        return None

    def _overspent(self) -> bool:
        """Whether one more exploring episode could exceed the budget."""
        reach = self.state.spent - self.declared.least
        return bool(len(self._budget) and (reach > self._budget).any())

    # Plans

    def _model(self, imagined: Imagined) -> Counted:
        return count_model(pool(self.statistics, self.interface), imagined, self._known, self._mask)

    def _optimism(self) -> Imagined:
        return imagine(self.interface, OPTIMISM, self.declared.values, best=True)

    def _pessimism(self) -> Imagined:
        return imagine(self.interface, PESSIMISM, self.declared.values, best=False)

    def _propose(self, state: PhaseState | None = None) -> tuple[Plan, Float, Float]:
        """The pessimistic plan with a margin; the margin, and V_g - alpha as the model has it, ``[m]`` each."""
        state = self.state if state is None else state
        model, t = self._model(self._pessimism()), int(state.finished[0])
        side = 1.0 - 2.0 * self.options.xi
        middle = (state.lower + state.upper) / 2.0
        margin = self._trial_needs(state) + state.memory[Memory.ERROR]
        plan = best_plan(model, self.limits + side * margin)
        margin = margin + standard_errors(model, self._known, plan.policy, t)[1]
        if state.clock[phases.BREAKS] > 1:
            margin = np.maximum(margin, 2.0 * state.memory[Memory.MARGIN])
        wanted, columns = margin, plan.columns
        for _ in range(HALVINGS):
            plan = best_plan(model, self.limits + side * margin, columns)
            if plan.feasible:
                break
            margin = margin / 2.0
        else:
            plan = widest_plan(model, self.limits, columns)
        values = standard_errors(model, self._known, plan.policy, t)[0]
        return plan, wanted, values[1:] - middle

    def _trial_needs(self, state: PhaseState) -> Float:
        """``[m]``: what a trial needs to prove a proposal, beyond alpha_xi.

        By the differences it is their radius, of which the bound of the threshold covers a part; by the totals of g,
        their radius beyond that bound. The sharper one counts.
        """
        clock, rates = state.clock, self._trial_rates(state.clock)
        power = 0.0 if self._certificates else POWER
        radius = (math.sqrt(2.0 * (rates.level + MIXTURE)) + power) / math.sqrt(
            self._trial_length(clock)
        )
        half = (state.upper - state.lower) / 2.0
        spread, value_spread = state.memory[[Memory.SPREAD, Memory.VALUE_SPREAD]]
        needed: Float = (radius * spread - half).clip(0.0)
        if rates.learned:
            needed = np.minimum(needed, radius * value_spread)
        return needed

    # What is proven

    def _issue(self) -> Certified:
        """The certificate of the trial that has just decided."""
        f, state, rates = self.interface, self.state, self.rates
        trial, declared, n = state.trial, self.declared, int(state.trial.counted[0])
        for side in range(2):
            read_fixed(rates.targets, trial, side, rates.reward_level)
        bound, units, H = trial.lower, f.units, f.H
        least, width = declared.values[0], declared.values[1] - declared.values[0]
        values = least + width * bound[4::4], least + width * (1.0 - bound[5::4])
        differences = np.array(
            [
                phases.trial_bounds(
                    declared, bound, rates.learned, state.lower[i], state.upper[i], i
                )
                for i in range(f.m)
            ]
        ).T
        if not rates.learned:
            values = state.lower + differences[0], state.lower + differences[1]
        scale = np.abs(units.constraints.scale)
        reward = [float(units.reward.total_outside(H * x, H)) for x in (bound[0], 1.0 - bound[1])]
        certificate = issue(
            more=np.zeros(f.m),
            value_bounds=units.bounds(values[0], np.maximum(*values), H),
            threshold_bounds=units.bounds(state.lower, state.upper, H),
            difference_bounds=(scale * differences[0], scale * np.maximum(*differences)),
            reward_bounds=(reward[0], max(reward)),
            senses=units.senses,
            confidence=1.0 - self.options.delta,
            difference_confidence=1.0 - self.options.delta,
            episodes=n,
            basis=(
                f"It rests on {n:,} episodes of this one policy, which was fixed before them, and on what all episodes "
                "before showed of the thresholds, by confidence sequences, which hold at every moment. With this "
                "confidence every certificate that the learner ever issues is true."
            ),
            assumptions=(
                "the episodes are independent of each other, all of them were counted, and their law does not change",
                "every signal lies in its declared range",
                "the thresholds are the ones that were given"
                if not rates.learned
                else "the thresholds do not change over the episodes; a step without a sample counts as the worst in "
                "either direction, unless shared_threshold says that samples are alike",
            ),
            subject="policy",
            policy_digest=policy_digest(state.pi),
            doubts=f.doubts.sentences(),
            data_digest=checksum({k: v for k, v in trial._asdict().items() if k != "terms"}, {}),
        )  # fmt: skip
        return Certified(frozen(state.pi.copy()), certificate, int(state.finished[0]))

    def _look_for_contradictions(self) -> None:
        """Warn once where the steps of some pairs contradict that they are alike."""
        if self.interface.stationary and not self._warned:
            found = contradictions(self.statistics, self.interface.A)
            if found:
                self._warned = True
                shown = ", ".join(f"state {s} action {a}" for s, a in found[:5])
                more = f" and {len(found) - 5} more" if len(found) > 5 else ""
                warnings.warn(
                    f"the interface says that all steps are alike, and the data contradict it: {shown}{more}. Plans "
                    "suffer; certificates do not rest on it. Declare stationary=False, or let states tell the step.",
                    stacklevel=5,
                )

    # What was given

    def _first_policy(self) -> Policy:
        """The baseline, or all admissible actions alike."""
        f = self.interface
        if self.options.baseline is None:
            uniform: Policy = f.mask / f.mask.sum(axis=2, keepdims=True)
            return uniform
        try:
            return np.array(as_policy(self.options.baseline, (f.H, f.S, f.A), f.mask))
        except InvalidModel as problem:
            raise InvalidOption(f"baseline: {problem}") from None

    def _known_payoffs(self) -> Known:
        """Known rewards and constraints, inside."""
        f, o = self.interface, self.options
        given = (o.known_rewards, o.known_constraints)
        components = np.repeat([each is not None for each in given], [1, f.m])
        steps = 1
        for each, name, shape in zip(
            given, ("known_rewards", "known_constraints"), ((), (f.m,)), strict=True
        ):
            if each is None:
                continue
            if each.shape not in ((*shape, f.S, f.A), (*shape, f.H, f.S, f.A)):
                raise InvalidOption(
                    f"{name} have shape {each.shape}; expected {[*shape, f.S, f.A]} or "
                    f"{[*shape, f.H, f.S, f.A]}."
                )
            steps = max(steps, f.H if each.ndim == 3 + len(shape) else 1)
        payoffs = np.zeros((1 + f.m, steps, f.S * f.A))
        if o.known_rewards is not None:
            payoffs[0] = f.units.reward.inside(o.known_rewards).reshape(-1, f.S * f.A)
        if o.known_constraints is not None:
            inside = f.units.constraints.inside(np.moveaxis(o.known_constraints, 0, -1))
            payoffs[1:] = np.moveaxis(inside, -1, 0).reshape(f.m, -1, f.S * f.A)
        admissible = (f.mask if steps > 1 else f.mask.any(axis=0, keepdims=True)).reshape(steps, -1)
        outside = (np.abs(payoffs - 0.5) > 0.5 + SUM_TOLERANCE) & admissible
        if outside.any():
            raise InvalidOption(
                "known rewards or constraints lie outside the declared ranges; declare the ranges that they have."
            )
        return Known(payoffs.clip(0.0, 1.0), components)

    def _explore_budget(self) -> Float:
        """``[m]`` inside; empty without one."""
        if self.options.explore_budget is None:
            return np.empty(0)
        f, given = self.interface, np.asarray(self.options.explore_budget, float)
        scale = np.abs(f.units.constraints.scale)
        if given.shape not in ((), (f.m,)) or (given / scale < -self.declared.least).any():
            raise InvalidOption(
                f"explore_budget is {self.options.explore_budget}; expected a number, or one for each of the {f.m} "
                f"constraints, of at least {(-self.declared.least * scale).tolist()}: one episode can cost as much."
            )
        return np.asarray(np.broadcast_to(given / scale, (f.m,)), np.float64).copy()

    def _read(self, log: Any) -> None:
        """Count the episodes of a log; the learner's own phases begin after them."""
        episodes: Iterable[Episode] = getattr(log, "episodes", log)
        clock = self.state.clock
        clock[phases.ENDS] = np.iinfo(np.int64).max  # nothing is decided meanwhile
        read = 0
        for episode in episodes:
            inside = self.check(episode)
            self.interface.doubts.clipped += episode.clipped
            self.make_room()
            clock[phases.OWN] = 0
            observe_episode(self.rates, self.state, self.statistics, self.window, inside)
            self.settle()
            clock = self.state.clock
            read += 1
        clock[phases.LOGGED] = clock[phases.BEGAN] = clock[phases.TRIED] = read
        clock[phases.ENDS] = read + FIRST_PHASE
        if read >= FIRST_PHASE and self.options.baseline is None:
            self.state = self._begin_phase(self.state)
        self._derive()

    # What follows from options and state, and files

    def _empty_window(self) -> Window:
        """None: totals bound the thresholds."""
        return empty_window(self.interface.H, 1, self.interface.m, 1.0)

    def _trial_rates(self, clock: NDArray) -> PhaseRates:
        """The rates of a phase: its share of delta, and how long its trial is."""
        f, o = self.interface, self.options
        k, learned = int(clock[phases.PHASE]), o.thresholds is None
        share = o.delta / (2.0 * k * (k + 1))
        length = FIRST_PHASE if k == 1 else self._trial_length(clock)
        return PhaseRates(
            totals=self._totals,
            declared=self.declared,
            targets=targets(length),
            level=math.log(2.0 * (1 + learned) * f.m / ((1.0 - REWARD) * share)),
            reward_level=math.log(2.0 / (REWARD * share)),
            learned=learned,
            shared=f.stationary,
            narrow=o.constraint_totals is not None or o.threshold_totals is not None,
            budget=self._budget,
            budget_level=np.full(f.m, math.log(f.m / o.delta)),
        )

    def _derive(self) -> None:
        self.rates = self._trial_rates(self.state.clock)

    def _carried(self) -> tuple[str, ...]:
        return "pi", "lam", "lower", "upper", "finished", "clock", "planned", "spent", "memory"

    def _plausible(self, carried: dict[str, NDArray]) -> bool:
        pi, clock, limits = carried["pi"], carried["clock"], self.declared.limits
        finished = int(carried["finished"][0])
        counted = self._counted()
        return bool(
            (pi >= 0.0).all()
            and (np.abs(pi.sum(axis=2) - 1.0) <= SUM_TOLERANCE).all()
            and (pi[~self.interface.mask] == 0.0).all()
            and (carried["lower"] >= limits[0]).all()
            and (carried["lower"] <= carried["upper"]).all()
            and (carried["upper"] <= limits[1]).all()
            and (clock >= 0).all()
            and 1 <= clock[phases.PHASE] <= 64
            and clock[phases.PART] <= phases.RETREATED
            and clock[phases.VERDICT] <= phases.ISSUED
            and (clock[[phases.BEGAN, phases.TRIED, phases.LOGGED]] <= finished).all()
            and ((carried["planned"] >= 0) & (carried["planned"] <= counted)).all()
            and np.isfinite(carried["memory"]).all()
            and np.isfinite(carried["spent"]).all()
        )

    def _counted(self) -> NDArray:
        """The visits of every pair, shared or not."""
        n = self.statistics.n
        return n.sum(axis=0) if self.interface.stationary else n.reshape(-1)

    def arrays(self) -> dict[str, NDArray]:
        """The state, and what was certified."""
        made = super().arrays()
        made |= {f"{part}.{k}": v for part, record in self._records() for k, v in record.items()}
        policies = [each.policy for each in self._certificates]
        shape = self.state.pi.shape
        about = [
            {"episode": c.episode, "certificate": c.certificate.as_dict()}
            for c in self._certificates
        ]
        made["certified.policies"] = np.reshape(policies, (len(policies), *shape)).astype(float)
        made["certified.about"] = np.frombuffer(json.dumps(about).encode(), np.uint8).copy()
        return made

    def _records(self) -> list[tuple[str, dict[str, NDArray]]]:
        """The records of the state that are made of arrays."""
        state = self.state
        totals = {k: v for k, v in state.totals._asdict().items() if k != "means"}
        return [
            ("totals", totals),
            ("means", _kept(state.totals.means)),
            ("trial", _kept(state.trial)),
            ("exploring", _kept(state.exploring)),
        ]

    def restore(self, arrays: dict[str, NDArray]) -> None:
        """Go on from where `arrays` were taken; this learner must have the same interface and options."""
        own = {"totals", "means", "trial", "exploring", "certified"}
        mine = {k: v for k, v in arrays.items() if k.partition(".")[0] in own}
        found = {}
        for part, record in self._records():
            found[part] = {k: mine[f"{part}.{k}"].copy() for k in record}
            for k, like in record.items():
                _check_like(f"{part}.{k}", found[part][k], like, grows=k == "ring")
        _check_ring(found["totals"])
        certificates = self._read_certificates(mine)
        super().restore({k: v for k, v in arrays.items() if k not in mine})
        state = self.state
        means = state.totals.means._replace(**found["means"])
        self.state = state._replace(
            visits=self._counted().copy(),
            totals=state.totals._replace(**found["totals"], means=means),
            trial=state.trial._replace(**found["trial"]),
            exploring=state.exploring._replace(**found["exploring"]),
        )
        self._certificates = certificates

    def _read_certificates(self, mine: dict[str, NDArray]) -> tuple[Certified, ...]:
        policies, f = mine["certified.policies"], self.interface
        about = json.loads(mine["certified.about"].tobytes())
        if policies.dtype != np.float64 or policies.shape != (len(about), f.H, f.S, f.A):
            raise InvalidFile(
                "its certified policies have another shape or type than the learner's"
            )
        return tuple(
            Certified(
                as_policy(policy, (f.H, f.S, f.A), f.mask),
                Certificate.from_dict(said["certificate"]),
                int(said["episode"]),
            )
            for policy, said in zip(policies, about, strict=True)
        )


def _kept(record: Any) -> dict[str, NDArray]:
    """The arrays of a sequence but for its buffer."""
    return {k: v for k, v in record._asdict().items() if k != "terms"}


def _check_like(name: str, array: NDArray, like: NDArray, *, grows: bool) -> None:
    """Raise unless an array of a file has the shape and type of the learner's, and numbers that can be."""
    skip = int(grows)
    if (
        array.dtype != like.dtype
        or array.shape[skip:] != like.shape[skip:]
        or array.ndim != like.ndim
        or not np.isfinite(array).all()
        or (name.endswith(".product") and not (array > 0.0).all())
        or (array.dtype == np.int64 and (array < 0).any())
    ):
        raise InvalidFile(f"the array '{name}' is not one of this learner")


def _check_ring(totals: dict[str, NDArray]) -> None:
    """Raise unless a window's place lies within it."""
    capacity, (_, length, oldest) = len(totals["ring"]), totals["span"]
    if capacity and not (length <= capacity and oldest < capacity):
        raise InvalidFile("the window of the thresholds contradicts itself")
