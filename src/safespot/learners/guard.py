"""A guard around any learner: it caps the violation of all that is played, whatever the learner does.

    play the learner's policy while the account of violation leaves room for one more episode of it, else the baseline

The account is U* (`evidence.budget`, docs/guard.md): bounds from the episodes alone, without a model. What is proven
needs a baseline that keeps every limit and signals in their declared ranges, and nothing of the learner.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..arrays import Episode, Float, Policy, frozen
from ..errors import InvalidOption, UnsafeBaseline, warn
from ..evidence.budget import as_budget, spent_bounds
from ..evidence.certificate import policy_digest
from ..evidence.counter import as_delta
from ..signals.doubts import Doubts
from ..signals.interface import Interface
from ..signals.terms import interface_terms
from ..spot.visits import Statistics
from ..states import adopt, flatten, part, rebuild
from ..syscalls import InterruptsDeferred
from .account import (
    BASELINE,
    CARRIED,
    LEARNER,
    OTHER,
    PROVEN,
    SAID,
    SAME,
    TRUSTED,
    GuardRates,
    GuardState,
    baseline_verdicts,
    charge_alone,
    check_account,
    empty_account,
    make_config,
    settle_turn,
    unsafe_baseline,
    who,
)
from .epoch_trials import Certified
from .learner import Learner, Proofs, Spending
from .learner_files import KNOWN
from .policies import Checked, given_policy
from .tabular import TabularLearner

HAND_BACK = "hand-back"


class Guard(Learner):
    """A learner that plays another one's policy only while its budget of violation allows, and else a baseline.

    If the baseline keeps every limit, then with probability 1 - delta the violation summed over all episodes never
    exceeds the budget, at any time, whatever the learner does and whatever the world is. Both players' episodes feed
    the learner's counts; its trials count those that its own policy played. It goes where a learner goes: `learn`,
    `open`, files.

    Args:
        learner: the one to guard; it belongs to the guard from now on (`guarded`).
        baseline: a policy ``[H,S,A]`` or ``[S,A]`` that keeps every limit; or "hand-back": in a loop of your own `act`
            gives None then, and the practice's own actions are observed.
        budget: how much the limits may be violated over all episodes, a number or one for each constraint, in the
            user's units; at least what one episode can cost.
        delta: all that the guard says holds at once, at all times, with probability 1 - delta.
        credit: whether the baseline's surplus pays for the learner; False: its episodes count as nothing.
        on_unsafe: what to do when its own episodes prove that the baseline breaks a limit, beside an `UnsafeBaseline`
            warning: "continue" (charging the baseline from then on), or "stop" (to play on is an `UnsafeBaseline`
            error).

    Examples:
        >>> import safespot as ss
        >>> problem = ss.problems.make("machine")
        >>> careful = ss.slater(problem.cmdp).policy
        >>> guard = ss.Guard(ss.SpotEpochs(**problem.interface), careful, budget=40)
        >>> run = ss.learn(problem, guard, episodes=2000, seed=0)
        >>> print(run.violation.max() < 40, guard.share > 0.9, guard.turn)
        True True learner

    """

    name = "guard"
    state: GuardState
    rates: GuardRates

    def __init__(
        self,
        learner: Learner,
        baseline: ArrayLike | str,
        budget: ArrayLike,
        delta: float = 0.05,
        credit: bool = True,
        on_unsafe: str = "continue",
    ) -> None:
        if not isinstance(learner, TabularLearner):
            raise InvalidOption(
                f"Guard takes a learner that has no guard yet, got {type(learner).__name__}."
            )
        if not isinstance(credit, bool):
            raise InvalidOption(f"credit must be True or False, got {credit!r}.")
        if on_unsafe not in ("continue", "stop"):
            raise InvalidOption(f"on_unsafe must be 'continue' or 'stop', got {on_unsafe!r}.")
        self._guarded = learner
        f = learner.interface
        self.interface, self.options, self.rho = learner.interface, learner.options, learner.rho
        self.declared, self.doubts, self.lifetime = (
            learner.declared,
            learner.doubts,
            learner.lifetime,
        )
        self.delta, self.credit, self.on_unsafe = as_delta(delta), credit, on_unsafe
        self.hands_back = isinstance(baseline, str)
        self.baseline = frozen(_as_baseline(f, baseline))
        self.budget, inside = as_budget(budget, interface_terms(f, self.declared))
        # A practice has a digest of its own, which is that of no policy.
        self._digest = policy_digest(np.empty(0) if self.hands_back else self.baseline)
        self._terms = make_config(self.declared, inside, self.delta, credit)
        self._account = empty_account(self.interface.m)
        self._told_doubts = False
        self._rejected = np.zeros(
            1, np.int64
        )  # episodes that were left out since the account began
        # Kernels have one type for all policies, and it is writable.
        self._pi, self._played_baseline = np.array(self.baseline), np.array(self.baseline)
        self._derive()

    # What a user reads

    @property
    def guarded(self) -> Learner:
        """The learner itself."""
        return self._guarded

    @property
    def proposal(self) -> Float:
        """The learner's policy ``[H,S,A]``."""
        return self._guarded.proposal

    @property
    def certified(self) -> Certified | None:
        """The learner's."""
        return self._guarded.certified

    @property
    def proofs(self) -> Proofs:
        """The learner's proofs, and the spending of the budget."""
        spending = Spending(self.budget, self.spent, self.share, self.baseline_verdict)
        return self._guarded.proofs._replace(keeps_budget=True, spending=spending)

    @property
    def turn(self) -> str:
        """The player of the coming episode: "learner" or "baseline"."""
        return "baseline" if self._account.turn[0] == BASELINE else "learner"

    @property
    def share(self) -> float:
        """The share of the episodes so far that the learner's policy played; 1 before the first."""
        plays = self._account.plays
        return float(plays[[LEARNER, SAME]].sum() / plays.sum()) if plays.any() else 1.0

    @property
    def spent(self) -> tuple[Float, Float]:
        """(lower ``[m]``, upper ``[m]``) of the violation so far, in the user's units; below 0 it is a surplus.

        Of all episodes, or of those that the baseline did not play where ``credit=False``. The upper one is U*, and
        rests on the baseline's keeping its limits. Where signals were cut off to their range, or a log that was charged
        left episodes out, neither is proven.
        """
        terms = interface_terms(self.interface, self.declared)
        return spent_bounds(terms, self._account.budget, self.delta)

    @property
    def baseline_verdict(self) -> tuple[str, ...]:
        """The verdict ``[m]`` of the baseline's own episodes on each limit: "safe", "unsafe", or "unknown".

        Signals that were cut off to their declared range prove nothing.
        """
        if self._doubts():
            return ("unknown",) * self.interface.m
        return baseline_verdicts(self._terms, self._account)

    def _doubts(self) -> tuple[str, ...]:
        """Return why the account proves nothing; what was left out before it began is none of it."""
        return Doubts(self.doubts.clipped, int(self._rejected[0])).sentences()

    # What a user does

    def act(self, step: int, state: int, rng: np.random.Generator) -> int | None:  # type: ignore[override]
        """Draw an action of the coming episode's policy; None: the decision is handed back."""
        self._check_going()
        return None if self._handed_back else super().act(step, state, rng)

    def observe(self, episode: Episode, played: ArrayLike | str | None = None) -> None:
        """Learn from the episode that was played; an invalid one changes nothing.

        `played` says by which policy, ``[H,S,A]`` or its digest, where it was not the one whose turn it was;
        "hand-back" where the practice decided all of it. A policy that is neither the learner's nor the baseline is
        charged. An episode in which somebody else took over is the learner's, and `unfinished` (`Learner.observe`).
        """
        checked = self.check(episode, played)
        account = self._account
        with InterruptsDeferred():
            if checked.digest is not None:
                account.turn[0] = who(
                    checked.digest, policy_digest(self._guarded.state.pi), self._digest
                )
            turn = int(account.turn[0])
            player = self._digest if turn == BASELINE else checked.digest if turn == OTHER else None
            self._rejected += episode.rejected
            charge_alone(self._terms, account, checked.inside)
            try:
                self._guarded.observe(episode, player)
            finally:  # also where a plan fails: the episode is counted
                self._derive()
        self._tell()

    def check(self, episode: Episode, played: ArrayLike | str | None = None) -> Checked:
        """Check an episode as the guarded learner does, and who played it."""
        self._check_going()
        practice = self.hands_back and isinstance(played, str) and played == HAND_BACK
        if practice or (played is None and self._handed_back):
            return self._guarded.check(episode)._replace(digest=self._digest)
        return self._guarded.check(episode, played)

    def anew(self) -> Guard:
        """Return a guard with the same options around an untrained learner."""
        return Guard(self._guarded.anew(), **self.arguments)

    # What training does between chunks of compiled episodes

    def make_room(self) -> None:
        """Grow the arrays that are about to overflow, so that one more episode fits."""
        self._check_going()
        self._guarded.make_room()

    def settle(self) -> None:
        """Let the learner do what is due, decide who plays next, and say what was found out about the baseline."""
        try:
            self._guarded.settle()
        finally:  # also where a plan fails: nothing may be played beyond the budget
            self._derive()
        self._tell()

    def _tell(self) -> None:
        """Warn once where the baseline is proven to break a limit, and where the data contradict what is assumed."""
        unsafe = self._account.unsafe
        if unsafe[0] == PROVEN:
            unsafe[0] = SAID
            warn(unsafe_baseline(self._terms, self._account), UnsafeBaseline)
        doubts = self._doubts()
        if doubts and not self._told_doubts:
            self._told_doubts = True
            warn(
                f"the guard can no longer prove that its budget is kept: {'; '.join(doubts)}. Begin anew, with ranges "
                "that all signals lie in."
            )

    def _check_going(self) -> None:
        """Raise where the guard was asked to stop."""
        if self.on_unsafe == "stop" and self._account.unsafe[0] != TRUSTED:
            raise UnsafeBaseline(unsafe_baseline(self._terms, self._account))

    # What follows from options and state, and files

    @property
    def _handed_back(self) -> bool:
        return self.hands_back and self._account.turn[0] == BASELINE

    @property
    def arguments(self) -> dict[str, Any]:
        """The constructor's arguments but for the learner."""
        return {
            "baseline": HAND_BACK if self.hands_back else self.baseline, "budget": self.budget,
            "delta": self.delta, "credit": self.credit, "on_unsafe": self.on_unsafe,
        }  # fmt: skip

    def _derive(self) -> None:
        """Derive the state and the rates of the compiled loop, and the player of the next episode."""
        learner, account = self._guarded, self._account
        mine = learner.state
        self.state = GuardState(
            pi=self._pi, lam=mine.lam, lower=mine.lower, upper=mine.upper, finished=mine.finished,
            guarded=mine, own=learner.own_flag, baseline=self._played_baseline, account=account,
        )  # fmt: skip
        self.rates = GuardRates(learner.rates, self._terms)
        settle_turn(self._terms, account, self._played_baseline, mine.pi, self._pi)

    @property
    def statistics(self) -> Statistics:  # type: ignore[override]
        """The guarded learner's."""
        return self._guarded.statistics

    @property
    def window(self) -> Any:
        """The guarded learner's."""
        return self._guarded.window

    def arrays(self) -> dict[str, NDArray]:
        """Return the guarded learner's state, and the account."""
        inner = {f"guarded.{name}": array for name, array in self._guarded.arrays().items()}
        own = {name: getattr(self._account, name) for name in CARRIED}
        return inner | flatten(own, "account.") | {"rejected": self._rejected}

    def restore(self, arrays: dict[str, NDArray]) -> None:
        """Continue from where `arrays` were taken; this guard must have the same arguments."""
        like = {name: getattr(self._account, name) for name in CARRIED}
        own = rebuild({"account": like, "rejected": self._rejected}, arrays)
        inner = part(arrays, "guarded")
        check_account(own["account"], int(inner["finished"][0]), credit=self.credit)
        self._guarded.restore(inner)
        self._account, self._rejected = adopt(self._account, own["account"]), own["rejected"]
        self._derive()


def _as_baseline(f: Interface, baseline: ArrayLike | str) -> Policy:
    """Return the baseline ``[H,S,A]``; NaN where decisions are handed back."""
    if not isinstance(baseline, str):
        return given_policy(f, "baseline", baseline)
    if baseline != HAND_BACK:
        raise InvalidOption(
            f"baseline must be a policy [H,S,A] or {HAND_BACK!r}, got {baseline!r}."
        )
    return np.full((f.H, f.S, f.A), np.nan)


KNOWN[Guard.name] = Guard
