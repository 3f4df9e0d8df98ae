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
    exploring         optimistic plans            pooling         the counts that models are made of
    proposals         plans with a margin         planning        plans in them, and what the counts leave open
    epoch_files       save and load

What is proven rests on the trials and on the bounds of the thresholds alone (docs/epochs.md): each trial has its own
share of delta (`epoch_trials.phase_share`), thresholds that are learned have half of it. No model, no Markov property
and no margin enters it.
"""

from __future__ import annotations

import math
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..arrays import Episode, Int, Policy, frozen
from ..errors import InvalidEpisode, InvalidOption, warn
from ..evidence.budget import fits
from ..evidence.trial import BROKEN, ISSUED, KEPT, OPEN, TrialRates
from ..planning.counted import Counted
from ..planning.errors import standard_errors
from ..signals.behavior import as_behaviour
from ..signals.doubts import Doubts
from ..signals.terms import interface_terms
from . import history, phases
from .compiled_step import observe_episode
from .epoch_files import certificate_arrays, check_phases, read_certificates
from .epoch_options import EpochsOptions, Recipe, explore_budget, first_policy, known_payoffs
from .epoch_trials import (
    Certified,
    certify_trial,
    empty_trial,
    hint_spread,
    phase_share,
    threshold_prior,
    trial_rates,
    value_means,
    value_spread,
)
from .exploring import Exploration, explore
from .learner import Proofs
from .phases import Memory, PhaseRates, PhaseState, empty_phases
from .pooling import CountModels, visits_of_pairs
from .proposals import MarginPlan, propose, trial_needs
from .stationarity import warn_of_contradictions
from .tabular import TabularLearner
from .threshold_totals import TotalRates, grow_totals, total_rates


class SpotEpochs(TabularLearner):
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
    carried = (
        "pi", "lam", "lower", "upper", "finished", "clock", "planned", "memory", "totals", "trial",
        "prior", "exploring",
    )  # fmt: skip

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
        self.models = CountModels(f, known_payoffs(f, o), self.declared.values)
        self._budget = explore_budget(f, self.declared, o.explore_budget)
        self._certificates: tuple[Certified, ...] = ()
        self._warned = self._told_doubts = False
        counts = f.S * f.A if f.stationary else f.H * f.S * f.A
        state = empty_phases(first_policy(f, o.baseline), self._totals, f.m, counts)
        prior = threshold_prior(self._totals, state.totals, 0, self.recipe.first_phase)
        self.state = state._replace(prior=prior)
        clock = self.state.clock
        clock[phases.PHASE], clock[phases.ENDS], clock[phases.OWN] = 1, self.recipe.first_phase, 1
        self._history: tuple[history.Part, ...] = (history.begin(clock, 1),)
        self._derive()
        if log is not None:
            self._read(log, tried=behaviour is not None)

    # What a user reads

    @property
    def proposal(self) -> Policy:
        """The plan ``[H,S,A]`` to deploy now, from all data so far; the first policy before there are any."""
        if self.episode == 1:
            return self.policy
        return frozen(self._propose(self.state, trial=False).plan.policy)

    @property
    def certificates(self) -> tuple[Certified, ...]:
        """The certificates in the order of issue; with probability 1 - delta all of them are true."""
        return self._certificates

    @property
    def certified(self) -> Certified | None:
        """The certified policy with the largest estimated reward; None: nothing is certified yet."""
        if not self._certificates:
            return None
        model = self._pessimistic()
        rewards = [
            standard_errors(model, self.models.known, each.policy, self.episode - 1)[0][0]
            for each in self._certificates
        ]
        return self._certificates[int(np.argmax(rewards))]

    @property
    def proofs(self) -> Proofs:
        """The history, the certificates, and whether a budget limits exploring."""
        return Proofs(True, self.history, self.certificates, len(self._budget) > 0)

    @property
    def history(self) -> tuple[history.Part, ...]:
        """The parts of each phase in order, with the verdicts of the trials."""
        return self._history

    # What a user does

    def observe(self, episode: Episode, played: ArrayLike | str | None = None) -> None:
        """Learn from an episode; an invalid one changes nothing.

        `played` is the policy, or its digest (`policy_digest`), where it was not `policy`: then the episode is counted,
        and the trial goes without it. An episode in which somebody else took over is no such one (`Learner.observe`).
        """
        super().observe(episode, played)
        if len(self._budget) and not self._told_doubts and (doubts := self.doubts.sentences()):
            self._told_doubts = True
            warn(
                f"nothing proves any more that explore_budget is kept: {'; '.join(doubts)}. Begin anew, with ranges "
                "that all signals lie in."
            )

    # Between episodes

    @property
    def own_flag(self) -> Int:
        """The clock's own entry ``[1]``: whether this learner's policy played the episode."""
        flag: Int = self.state.clock[phases.OWN : phases.OWN + 1]
        return flag

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
                certificates = (*certificates, self._certificate())
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
        clock[phases.ENDS] = clock[phases.BEGAN] + phases.phase_length(
            clock, self.recipe.first_phase
        )
        state = state._replace(memory=memory)
        if self.interface.stationary and not self._warned:
            self._warned = warn_of_contradictions(self.statistics, self.interface.A)
        if self._overspent():
            return self._begin_trial(state)
        return self._explore(state, begin=True)

    def _overspent(self) -> bool:
        """Return whether one more exploring episode could exceed the budget."""
        spent = self.state.exploring.spent
        return bool(len(self._budget) and not fits(self.declared, self._budget, spent))

    def _explore(self, state: PhaseState, *, begin: bool = False) -> PhaseState:
        """Plan to explore from now on; where a phase begins, decide how long it explores."""
        clock, t = state.clock, int(state.finished[0])
        plan, share = self._exploration(state)
        if begin:
            clock[phases.ENDS] = t + max(
                1, math.floor(share * phases.phase_length(clock, self.recipe.first_phase))
            )
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
        clock[phases.ENDS] = clock[phases.BEGAN] + phases.phase_length(
            clock, self.recipe.first_phase
        )
        prior = threshold_prior(
            self._totals,
            state.totals,
            int(state.finished[0]),
            phases.trial_length(clock, self.recipe.first_phase),
        )
        return state._replace(
            pi=plan.policy, lam=plan.multipliers, memory=memory,
            trial=empty_trial(self.interface.m), prior=prior,
        )  # fmt: skip

    def _retreat(self, state: PhaseState) -> PhaseState:
        """Retreat after a proven break to a certified policy or the baseline for this phase, or begin the next one."""
        clock, memory = state.clock, state.memory.copy()
        if clock[phases.PART] == phases.TRYING:
            margin = value_means(self.declared, state.trial) - (state.lower + state.upper) / 2.0
            memory[Memory.ERROR] = (memory[Memory.PROMISED] - margin).clip(0.0)
            clock[phases.BREAKS] += 1
        elif self.options.baseline is not None:
            clock[phases.DISTRUSTED] = 1
            warn(
                "the baseline breaks a limit, as its own episodes prove; it is not played any more."
            )
        state = state._replace(memory=memory)
        if (best := self.certified) is not None:
            safe = best.policy
        elif self.options.baseline is not None and not clock[phases.DISTRUSTED]:
            safe = first_policy(self.interface, self.options.baseline)
        else:
            return self._begin_phase(state)
        clock[phases.PART] = phases.RETREATED  # until the end of the phase, as the trial would
        return state._replace(pi=np.array(safe))

    # Plans and certificates

    def _optimistic(self) -> Counted:
        """Return the model of the counts with imaginary visits to the best there can be."""
        return self.models.count(self.statistics, self.recipe.optimism, best=True)

    def _pessimistic(self) -> Counted:
        """Return the model of the counts with imaginary visits to the worst there can be."""
        return self.models.count(self.statistics, self.recipe.pessimism, best=False)

    def _exploration(self, state: PhaseState) -> Exploration:
        """Return the optimistic plan of now; where a phase begins, with the share of it that the plan is worth."""
        begins = state.finished[0] == state.clock[phases.BEGAN]
        return explore(
            self._optimistic(), self.models.known, state,
            self.limits, self.options.side, self.recipe,
            sure=self._pessimistic() if begins else None,
        )  # fmt: skip

    def _propose(self, state: PhaseState, *, trial: bool) -> MarginPlan:
        """Return the pessimistic plan with the margin that the coming trial needs; `trial`: it is to be tried."""
        clock = state.clock
        phase, length = (
            int(clock[phases.PHASE]),
            phases.trial_length(clock, self.recipe.first_phase),
        )
        if (
            clock[phases.PART] != phases.EXPLORING
        ):  # the next phase's: as much of it, and it is twice as long
            whole = phases.phase_length(clock, self.recipe.first_phase)
            seen = clock[phases.BEGAN] - clock[phases.LOGGED]
            phase, length = phase + 1, math.ceil(length / whole * (seen + whole))
        rates = self._trial_rates(phase, length)
        hints = hint_spread(self._totals, state.totals, self.declared.limits)
        needs = trial_needs(rates, state, hints, length, self.recipe, trial=trial)
        return propose(
            self._pessimistic(), self.models.known, state, self.limits, self.options.side, needs, self.recipe,
            proof=trial and not self._certificates,
        )  # fmt: skip

    def _certificate(self) -> Certified:
        """Return the certificate of the trial that has just decided."""
        state = self.state
        return certify_trial(
            interface_terms(self.interface, self.declared), self.rates.trial, state.trial, state.pi,
            (state.lower, state.upper), self.options.delta, int(state.finished[0]), self.doubts,
        )  # fmt: skip

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
            inside = self.check(episode).inside
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

    def _trial_rates(self, k: int, length: int) -> TrialRates:
        """Return the rates of the trial of phase k, with its share of delta."""
        learned = self.options.thresholds is None
        share = phase_share(k, self.options.delta, learned=learned)
        return trial_rates(self.declared, share, length)

    def _derive(self) -> None:
        f, o, clock = self.interface, self.options, self.state.clock
        k, first = int(clock[phases.PHASE]), self.recipe.first_phase
        length = first if k == 1 else phases.trial_length(clock, first)
        self.rates = PhaseRates(
            totals=self._totals,
            trial=self._trial_rates(k, length),
            shared=f.stationary,
            narrow=o.declares_totals,
            budget=self._budget,
            budget_level=math.log(f.m / o.delta),
            learned=o.thresholds is None,
        )

    def _check_fields(self, fields: dict[str, Any], n: Int) -> None:
        check_phases(fields, self.interface, self._totals, visits_of_pairs(n, self.interface))

    def arrays(self) -> dict[str, NDArray]:
        """Return the state, what was certified, and the history."""
        issued = certificate_arrays(self._certificates, self.state.pi.shape)
        return super().arrays() | issued | {"history": history.as_array(self._history)}

    def restore(self, arrays: dict[str, NDArray]) -> None:
        """Continue from where `arrays` were taken; this learner must have the same interface and options."""
        certificates = read_certificates(self.interface, arrays)
        past = history.from_array(arrays["history"])
        super().restore(arrays)
        visits = visits_of_pairs(self.statistics.n, self.interface).copy()
        self.state = self.state._replace(visits=visits)
        self._certificates, self._history = certificates, past
