"""SPOT in epochs: plan exactly, with a margin, and try what was planned.

SPOT's idea, thresholds learned online and a stance between caution and reward, in phases of doubling length:

    play the baseline, or all actions alike, for 64 episodes: the first trial
    for k = 2, 3, ...:                                    phase k is as long as all before it
        explore, for at most half of it: optimistic plans, a new one when the visits of some pair have doubled
        try, for the rest: a pessimistic plan with a margin, frozen
            its trial proves some limit broken:  retreat to a policy that is certified, or to the baseline, or end
                                                 the phase; the next margin is wider
            its trial proves all limits kept:    a certificate

The parts, in the order in which an episode meets them:

    epoch_options     what a user gives, and the constants
    phases            the clock, and the compiled step: counts, thresholds, the trial
    epoch_trials      what a trial proves, and its certificate
    exploring         optimistic plans            pooled_models   models of the counts, plans in them
    proposals         plans with a margin         model_errors    what the counts leave open
    epoch_files       save and load

What is proven rests on the trials and on the bounds of the thresholds alone (docs/epochs.md): each trial has its own
share ``delta / (2 k (k+1))``, the thresholds have half of delta. No model, no Markov property and no margin enters it.
"""

from __future__ import annotations

import math
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..arrays import SUM_TOLERANCE, Episode, Int, Policy, frozen
from ..errors import InvalidEpisode, InvalidOption, warn
from ..evidence.behaviour import as_behaviour
from ..evidence.certificate import policy_digest
from ..evidence.doubts import Doubts
from ..evidence.totals import TotalRates, bounds_fit, grow_totals, total_rates
from ..spot.window import Window, empty_window
from ..syscalls import InterruptsDeferred
from . import history, phases
from .compiled_step import observe_episode
from .epoch_files import (
    PARTS,
    certificate_arrays,
    read_certificates,
    read_records,
    record_arrays,
)
from .epoch_options import EpochsOptions, Recipe, explore_budget, first_policy, known_payoffs
from .epoch_trials import (
    BROKEN,
    ISSUED,
    KEPT,
    OPEN,
    Certified,
    TrialRates,
    certify_trial,
    empty_trial,
    hint_spread,
    look_back,
    trial_rates,
    value_spread,
)
from .exploring import Exploration, explore
from .learner import Learner
from .model_errors import standard_errors
from .phases import Memory, PhaseRates, PhaseState, empty_phases
from .pooled_models import Counted, count_model, imagine, pool
from .proposals import Proposal, propose, trial_needs
from .stationarity import contradictions


class SpotEpochs(Learner):
    """Explores, proposes and tries in phases of doubling length; what is proven on the way is in `certificates`.

    Its first arguments are ``problem.interface``, its options those of `EpochsOptions`. `log` are episodes of the past,
    as a `Log` or any iterable of `Episode` records: they are counted, and prove nothing about a policy. Where it is
    known exactly which policy made them, `behaviour` ``[H,S,A]`` or ``[S,A]``, they are its trial: it is the baseline,
    and certified before the first episode if they prove it.

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
    recipe: ClassVar[Recipe] = Recipe()
    options: EpochsOptions
    state: PhaseState
    rates: PhaseRates

    def __init__(
        self, *interface: Any, log: Any = None, behaviour: ArrayLike | None = None, **options: Any
    ) -> None:
        if behaviour is not None:
            if log is None or options.get("baseline") is not None:
                raise InvalidOption(
                    "behaviour is the policy that made the log, and the baseline: it goes with log= and without "
                    "baseline=."
                )
            options = {**options, "baseline": behaviour}
        super().__init__(*interface, **options)
        f, o = self.interface, self.options
        self._totals: TotalRates = total_rates(
            f.m, f.H, o.delta / 2.0, independent_hints=o.independent_hints,
            shared_threshold=o.shared_threshold, window=o.window, limits=self.declared.limits,
        )  # fmt: skip
        self._known = known_payoffs(f, o)
        self._budget = explore_budget(f, self.declared, o.explore_budget)
        self._certificates: tuple[Certified, ...] = ()
        self._warned = self._told_doubts = False
        self._mask = np.ascontiguousarray(
            f.mask[:1] if (f.mask == f.mask[:1]).all() else f.mask
        ).reshape(-1, f.S * f.A)
        counts = f.S * f.A if f.stationary else f.H * f.S * f.A
        state = empty_phases(first_policy(f, o.baseline), self._totals, f.m, counts)
        before = look_back(self._totals, state.totals, 0, self.recipe.first_phase)
        self.state = state._replace(before=before)
        clock = self.state.clock
        clock[phases.PHASE], clock[phases.ENDS], clock[phases.OWN] = 1, self.recipe.first_phase, 1
        self._history: tuple[history.Part, ...] = (history.begin(clock, 1),)
        self._derive()
        if log is not None:
            self._read(log, tried=behaviour is not None)

    # What a user reads

    @property
    def proposal(self) -> Policy:
        """``[H,S,A]``: the plan to deploy now, from everything seen so far; the first policy before anything is."""
        if self.episode == 1:
            return self.policy
        return frozen(self._propose(self.state, trial=False).plan.policy)

    @property
    def certificates(self) -> tuple[Certified, ...]:
        """What was proven, in the order of issue; with probability 1 - delta all of it is true."""
        return self._certificates

    @property
    def certified(self) -> Certified | None:
        """The certified policy with the largest estimated reward; None: nothing is certified yet."""
        if not self._certificates:
            return None
        model = self._pessimistic()
        rewards = [
            standard_errors(model, self._known, each.policy, self.episode - 1)[0][0]
            for each in self._certificates
        ]
        return self._certificates[int(np.argmax(rewards))]

    @property
    def history(self) -> tuple[history.Part, ...]:
        """What was played when, part after part of each phase, and what the trials proved."""
        return self._history

    # What a user does

    def observe(self, episode: Episode, played: ArrayLike | str | None = None) -> None:
        """Learn from an episode; an invalid one changes nothing.

        `played` is the policy, or its digest (`policy_digest`), where it was not `policy`: then the episode is counted,
        and the trial goes without it. An episode in which somebody else took over is no such one (`Learner.observe`).
        """
        inside = self.check(episode)
        _, digest = self.identify(played)
        own = digest is None or digest == policy_digest(self.state.pi)
        with InterruptsDeferred():
            self.doubts.note(episode)
            self.make_room()
            self.state.clock[phases.OWN] = own
            observe_episode(self.rates, self.state, self.statistics, self.window, inside)
            self.settle()
        self._tell_doubts()

    def _tell_doubts(self) -> None:
        """Warn once where the data contradict what the budget for exploring rests on."""
        if not len(self._budget) or self._told_doubts:
            return
        if doubts := self.doubts.sentences():
            self._told_doubts = True
            warn(
                f"nothing proves any more that explore_budget is kept: {'; '.join(doubts)}. Begin anew, with ranges "
                "that all signals lie in."
            )

    # Between episodes

    @property
    def own_flag(self) -> Int:
        """``[1]``, the clock's own entry: whether this learner's policy played the episode."""
        flag: Int = self.state.clock[phases.OWN : phases.OWN + 1]
        return flag

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
        if clock[phases.VERDICT] == KEPT:
            if self.options.window == 1.0 and not self.doubts.sentences():
                certificates = (*certificates, self._certify())
            clock[phases.VERDICT] = ISSUED
        part, over = clock[phases.PART], t >= clock[phases.ENDS]
        if part == phases.EXPLORING:
            if over or self._overspent():
                state = self._begin_trial(state)
            elif clock[phases.GROWN] and t >= clock[phases.NEXT]:
                state = self._explore(state)
        elif part in (phases.FIRST, phases.TRYING) and clock[phases.VERDICT] == BROKEN:
            state = self._retreat(state)
        elif over:
            state = self._begin_phase(state)
        self._history = history.goes_on(self._history, self.state.clock, state.clock, t)
        self.state, self._certificates = state, certificates
        self._derive()

    def _begin_phase(self, state: PhaseState) -> PhaseState:
        """Remember what the trial has shown, and explore; without a budget for it, try at once."""
        clock, memory = state.clock, state.memory.copy()
        if clock[phases.VERDICT] != BROKEN:
            clock[phases.BREAKS] = 0
            memory[Memory.ERROR] /= math.sqrt(2.0)  # a model of twice the data is off by less
        found = value_spread(self.declared, state.trial)
        if np.isfinite(found).all():
            memory[Memory.SPREAD] = found
        clock[phases.PHASE] += 1
        clock[phases.BEGAN] = state.finished[0]
        clock[phases.VERDICT] = OPEN
        clock[phases.PART] = phases.EXPLORING
        clock[phases.ENDS] = clock[phases.BEGAN] + self._length(clock)
        state = state._replace(memory=memory)
        self._look_for_contradictions()
        return self._begin_trial(state) if self._overspent() else self._explore(state, begin=True)

    def _length(self, clock: NDArray) -> int:
        """How long the phase is: as long as all before it."""
        return max(self.recipe.first_phase, int(clock[phases.BEGAN] - clock[phases.LOGGED]))

    def _trial_length(self, clock: NDArray) -> int:
        """How long the phase's trial is, or will be."""
        exploring = clock[phases.PART] == phases.EXPLORING
        begins = clock[phases.ENDS] if exploring else clock[phases.TRIED]
        return max(1, int(clock[phases.BEGAN] + self._length(clock) - begins))

    def _explore(self, state: PhaseState, *, begin: bool = False) -> PhaseState:
        """The exploring plan of now; where a phase begins, how long it explores."""
        clock, t = state.clock, int(state.finished[0])
        plan, share = self._exploration(state)
        if begin:
            clock[phases.ENDS] = t + max(1, math.floor(share * self._length(clock)))
        clock[phases.GROWN] = 0
        pause = plan.work // (self.recipe.work * self.interface.H)
        clock[phases.NEXT] = t + max(1, t // self.recipe.patience, pause)
        return state._replace(pi=plan.policy, lam=plan.multipliers, planned=state.visits.copy())

    def _begin_trial(self, state: PhaseState) -> PhaseState:
        """Freeze a proposal, and begin its trial."""
        clock, memory = state.clock, state.memory.copy()
        plan, room, promised = self._propose(state, trial=True)
        memory[Memory.ROOM], memory[Memory.PROMISED] = room, promised
        memory[Memory.PRICE] = plan.multipliers
        clock[phases.PART] = phases.TRYING
        clock[phases.TRIED] = state.finished[0]
        clock[phases.ENDS] = clock[phases.BEGAN] + self._length(clock)
        before = look_back(
            self._totals, state.totals, int(state.finished[0]), self._trial_length(clock)
        )
        return state._replace(
            pi=plan.policy, lam=plan.multipliers, memory=memory,
            trial=empty_trial(self.interface.m), before=before,
        )  # fmt: skip

    def _retreat(self, state: PhaseState) -> PhaseState:
        """After a proven break: what is certified, or the baseline, for the rest of the phase; or the next phase."""
        clock, memory = state.clock, state.memory.copy()
        if clock[phases.PART] == phases.TRYING:
            declared, trial = self.declared, state.trial
            shown = declared.values[0] + (declared.values[1] - declared.values[0]) * (
                trial.total[4::4] / trial.counted[4::4]
            )
            shown = shown - (state.lower + state.upper) / 2.0
            memory[Memory.ERROR] = (memory[Memory.PROMISED] - shown).clip(0.0)
            clock[phases.BREAKS] += 1
        elif self.options.baseline is not None:
            clock[phases.DISTRUSTED] = 1
            warn(
                "the baseline breaks a limit, as its own episodes prove; it is not played any more."
            )
        state = state._replace(memory=memory)
        safe = self._safe(clock)
        if safe is None:
            return self._begin_phase(state)
        clock[phases.PART] = phases.RETREATED  # until the end of the phase, as the trial would
        return state._replace(pi=np.array(safe))

    def _safe(self, clock: NDArray) -> Policy | None:
        """The policy to retreat to, if there is one."""
        best = self.certified
        if best is not None:
            return best.policy
        if self.options.baseline is not None and not clock[phases.DISTRUSTED]:
            return first_policy(self.interface, self.options.baseline)
        return None

    def _overspent(self) -> bool:
        """Whether one more exploring episode could exceed the budget."""
        reach = self.state.spent - self.declared.least
        return bool(len(self._budget) and (reach > self._budget).any())

    # Plans and certificates

    def _optimistic(self) -> Counted:
        """The model of the counts with imaginary visits to the best there can be."""
        return self._model(self.recipe.optimism, best=True)

    def _pessimistic(self) -> Counted:
        """The same with the worst."""
        return self._model(self.recipe.pessimism, best=False)

    def _model(self, kappa: float, *, best: bool) -> Counted:
        f = self.interface
        imagined = imagine(f, kappa, self.declared.values, best=best)
        return count_model(pool(self.statistics, f), imagined, self._known, self._mask)

    def _exploration(self, state: PhaseState) -> Exploration:
        """The optimistic plan of now; where a phase begins, the share of it that the plan is worth."""
        begins = state.finished[0] == state.clock[phases.BEGAN]
        return explore(
            self._optimistic(), self._known, state, self.limits, self._side, self.recipe,
            sure=self._pessimistic() if begins else None,
        )  # fmt: skip

    def _propose(self, state: PhaseState, *, trial: bool) -> Proposal:
        """The pessimistic plan with the margin that the coming trial needs; `trial`: it is to be tried."""
        clock = state.clock
        phase, length = int(clock[phases.PHASE]), self._trial_length(clock)
        if (
            clock[phases.PART] != phases.EXPLORING
        ):  # the next phase's: as much of it, and it is twice as long
            share = length / self._length(clock)
            phase, length = (
                phase + 1,
                math.ceil(
                    share * (clock[phases.BEGAN] - clock[phases.LOGGED] + self._length(clock))
                ),
            )
        rates = self._trial_rates(phase, length)
        hints = hint_spread(self._totals, state.totals, self.declared.limits)
        needs = trial_needs(rates, state, hints, length, self.recipe, trial=trial)
        return propose(
            self._pessimistic(), self._known, state, self.limits, self._side, needs, self.recipe,
            proof=trial and not self._certificates,
        )  # fmt: skip

    @property
    def _side(self) -> float:
        """On which side of the limits a margin lies: 1 above, -1 below."""
        return 1.0 - 2.0 * self.options.xi

    def _certify(self) -> Certified:
        """The certificate of the trial that has just decided."""
        state = self.state
        return certify_trial(
            self.interface, self.rates.trial, state.trial, state.pi, state.lower, state.upper,
            self.options.delta, int(state.finished[0]), self.doubts,
        )  # fmt: skip

    def _look_for_contradictions(self) -> None:
        """Warn once where the steps of some pairs contradict that they are alike."""
        if self.interface.stationary and not self._warned:
            found = contradictions(self.statistics, self.interface.A)
            if found:
                self._warned = True
                shown = ", ".join(f"state {s} action {a}" for s, a in found[:5])
                more = f" and {len(found) - 5} more" if len(found) > 5 else ""
                warn(
                    f"the interface says that all steps are alike, and the data contradict it: {shown}{more}. Plans "
                    "suffer; certificates do not rest on it. Declare stationary=False, or let states tell the step."
                )

    def _read(self, log: Any, *, tried: bool) -> None:
        """Count the episodes of a log; the learner's own phases begin after them.

        They are the first trial if the baseline has played them; it is decided once all are read.
        """
        episodes: list[Episode] = list(getattr(log, "episodes", log))
        if tried:
            propensities = getattr(log, "propensities", None)
            as_behaviour(self.state.pi, self.interface, episodes, propensities)
        doubts = Doubts.of(episodes)
        self.doubts.add(vars(doubts))  # before a trial of the first ones is decided
        if said := doubts.sentences():
            warn(
                f"of the log, {'; '.join(said)}. So nothing can be certified from this learner's data."
            )
        clock, broken = self.state.clock, False
        clock[phases.ENDS] = np.iinfo(np.int64).max  # nothing else is decided meanwhile
        for episode in episodes:
            inside = self.check(episode)
            self.make_room()
            clock[phases.OWN] = tried and not broken
            observe_episode(self.rates, self.state, self.statistics, self.window, inside)
            if clock[phases.VERDICT] == BROKEN:
                clock[phases.VERDICT], broken = OPEN, True
            self.settle()
            clock = self.state.clock
        read = len(episodes)
        clock[phases.LOGGED] = clock[phases.BEGAN] = clock[phases.TRIED] = read
        clock[phases.ENDS] = read + self.recipe.first_phase
        if broken:
            clock[phases.VERDICT] = BROKEN
            self.state = self._retreat(self.state)
        elif read >= self.recipe.first_phase and (tried or self.options.baseline is None):
            self.state = self._begin_phase(self.state)
        self._history = (history.begin(self.state.clock, len(episodes) + 1),)
        self._derive()

    # What follows from options and state, and files

    def _empty_window(self) -> Window:
        """None: totals bound the thresholds."""
        return empty_window(self.interface.H, 1, self.interface.m, 1.0)

    def _phase_rates(self, clock: NDArray) -> PhaseRates:
        """The rates of a phase: its share of delta, and how long its trial is."""
        f, o, k = self.interface, self.options, int(clock[phases.PHASE])
        length = self.recipe.first_phase if k == 1 else self._trial_length(clock)
        return PhaseRates(
            totals=self._totals,
            trial=self._trial_rates(k, length),
            shared=f.stationary,
            narrow=self.declares_totals,
            budget=self._budget,
            budget_level=np.full(f.m, math.log(f.m / o.delta)),
        )

    def _trial_rates(self, k: int, length: int) -> TrialRates:
        """The rates of the trial of phase k, with its share of delta."""
        share = self.options.delta / (2.0 * k * (k + 1))
        learned = self.options.thresholds is None
        return trial_rates(self.declared, share, length, learned=learned)

    def _derive(self) -> None:
        self.rates = self._phase_rates(self.state.clock)

    def _carried(self) -> tuple[str, ...]:
        return "pi", "lam", "lower", "upper", "finished", "clock", "planned", "spent", "memory"

    def _plausible(self, carried: dict[str, NDArray]) -> bool:
        pi, clock = carried["pi"], carried["clock"]
        finished = int(carried["finished"][0])
        counted = self._counted()
        return bool(
            (pi >= 0.0).all()
            and (np.abs(pi.sum(axis=2) - 1.0) <= SUM_TOLERANCE).all()
            and (pi[~self.interface.mask] == 0.0).all()
            and bounds_fit(self._totals, self.interface.H, carried["lower"], carried["upper"])
            and (clock >= 0).all()
            # Every phase but the first begins after an episode of its own.
            and 1 <= clock[phases.PHASE] <= finished + 1
            and clock[phases.PART] <= phases.RETREATED
            and clock[phases.VERDICT] <= ISSUED
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
        issued = certificate_arrays(self._certificates, self.state.pi.shape)
        past = {"history": history.as_array(self._history)}
        return super().arrays() | record_arrays(self.state) | issued | past

    def restore(self, arrays: dict[str, NDArray]) -> None:
        """Go on from where `arrays` were taken; this learner must have the same interface and options."""
        mine = {k: v for k, v in arrays.items() if k.partition(".")[0] in PARTS}
        state, certificates, past = (
            read_records(self.state, mine),
            read_certificates(self.interface, mine),
            history.from_array(mine["history"]),
        )
        super().restore({k: v for k, v in arrays.items() if k not in mine})
        self.state = state._replace(visits=self._counted().copy())
        self._certificates, self._history = certificates, past
