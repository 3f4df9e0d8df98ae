"""A guard around any learner: it caps the violation of all that is played, whatever the learner does.

    play the learner's policy while the account of violation leaves room for one more episode of it, else the baseline

The account is U* (`budget`, docs/guard.md): bounds from the episodes alone, without a model. What is proven needs a
baseline that keeps every limit and signals in their declared ranges, and nothing of the learner.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..arrays import Episode, Float, InsideEpisode, Policy, as_count, as_floats, as_policy, frozen
from ..errors import InvalidFile, InvalidModel, InvalidOption, UnsafeBaseline, warn
from ..evidence.certificate import policy_digest
from ..evidence.doubts import Doubts
from ..evidence.meter import as_delta
from ..syscalls import InterruptsDeferred
from ..units import ROUNDING
from .budget import (
    BASELINE,
    LEARNER,
    LOWER,
    OTHER,
    PROVEN,
    SAID,
    SAME,
    TRUSTED,
    GuardRates,
    GuardState,
    charge_episode,
    empty_account,
    make_terms,
    read_least,
    room_bounds,
    settle_turn,
)
from .budget_files import CARRIED, account_arrays, own_arrays, plausible_account, with_arrays
from .learner import KNOWN, Epoch, Learner

HAND_BACK = "hand-back"


class Guard(Learner):
    """A learner that plays another one's policy only while its budget of violation allows, and else a baseline.

    If the baseline keeps every limit, then with probability 1 - delta the violation summed over all episodes never
    exceeds the budget, at any time, whatever the learner does and whatever the world is. Both players' episodes feed
    the learner's counts; its trials count those that its own policy played. It goes where a learner goes: `learn`,
    `learn_env`, `open`, files.

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
        if not isinstance(learner, Learner) or isinstance(learner, Guard):
            raise InvalidOption(
                f"Guard takes a learner that has no guard yet, got {type(learner).__name__}."
            )
        if not isinstance(credit, bool):
            raise InvalidOption(f"credit must be True or False, got {credit!r}.")
        if on_unsafe not in ("continue", "stop"):
            raise InvalidOption(f"on_unsafe must be 'continue' or 'stop', got {on_unsafe!r}.")
        self._guarded = learner
        self.interface, self.options, self.rho = learner.interface, learner.options, learner.rho
        self.declared = learner.declared
        self.delta, self.credit, self.on_unsafe = as_delta(delta), credit, on_unsafe
        self.hands_back = isinstance(baseline, str)
        self.baseline = frozen(self._as_baseline(baseline))
        self.budget = frozen(self._as_budget(budget))
        # A practice has a digest of its own, which is that of no policy.
        self._digest = policy_digest(np.empty(0) if self.hands_back else self.baseline)
        inside = np.maximum(self.budget / self._scale, -self.declared.least)
        self._terms = make_terms(self.declared, inside, self.delta, credit)
        self._account = empty_account(self.interface.m)
        self._told_doubts = False
        self._rejected_before = self.doubts.rejected  # none of its account
        # Kernels have one type for all policies, and it is writable.
        self._pi, self._played_baseline = np.array(self.baseline), np.array(self.baseline)
        self._derive()

    # What a user reads

    @property
    def guarded(self) -> Learner:
        """The learner itself."""
        return self._guarded

    @property
    def doubts(self) -> Doubts:  # type: ignore[override]
        """The guarded learner's."""
        return self._guarded.doubts

    @property
    def turn(self) -> str:
        """Who plays the coming episode: "learner" or "baseline"."""
        return "baseline" if self._account.turn[0] == BASELINE else "learner"

    @property
    def share(self) -> float:
        """How often the learner's policy was played, of all episodes so far; 1 before the first."""
        plays = self._account.plays
        return float(plays[[LEARNER, SAME]].sum() / plays.sum()) if plays.any() else 1.0

    @property
    def spent(self) -> tuple[Float, Float]:
        """(lower ``[m]``, upper ``[m]``) of the violation so far, in the user's units; below 0 it is a surplus.

        Of all episodes, or of those that the baseline did not play where ``credit=False``. The upper one is U*, and
        rests on the baseline's keeping its limits. Where signals were cut off to their range, or a log that was charged
        left episodes out, neither is proven.
        """
        m, declared = self.interface.m, self.declared
        low, level = np.zeros(2 * m), np.full(2 * m, math.log(m / (LOWER * self.delta)))
        read_least(self._account, level, low)
        counted = self._account.means.counted[0]
        least = declared.width * low[m:] - counted * (declared.least + declared.width)
        upper = self._scale * self._account.spent
        return frozen(np.minimum(self._scale * least, upper)), frozen(upper)

    @property
    def baseline_verdict(self) -> tuple[str, ...]:
        """Per constraint what the baseline's own episodes prove of it: "safe", "unsafe", or "unknown".

        Signals that were cut off to their declared range prove nothing.
        """
        if self._doubts():
            return ("unknown",) * self.interface.m
        return self._seen_of_baseline()

    def _doubts(self) -> tuple[str, ...]:
        """Why the account proves nothing; what was left out before it began is none of it."""
        doubts = self.doubts
        return Doubts(doubts.clipped, doubts.rejected - self._rejected_before).sentences()

    def _seen_of_baseline(self) -> tuple[str, ...]:
        """The same, whatever is in doubt."""
        return tuple(
            "safe" if low >= 0.0 else "unsafe" if high < 0.0 else "unknown"
            for low, high in (
                room_bounds(self.declared, self._account.trial, i) for i in range(self.interface.m)
            )
        )

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
        inside = self.check(episode)
        _, digest = self.identify(played)
        account = self._account
        with InterruptsDeferred():
            if digest is not None:
                account.turn[0] = self._who(digest)
            turn = int(account.turn[0])
            told = self._digest if turn == BASELINE else digest if turn == OTHER else None
            charge_episode(self._terms, account, inside)
            try:
                self._guarded.observe(episode, told)
            finally:  # also where a plan fails: the episode is counted
                self._derive()
        self._tell()

    def identify(self, played: ArrayLike | str | None) -> tuple[Policy | None, str | None]:
        """The policy that played an episode and its digest; None for both: the one whose turn it was."""
        if isinstance(played, str) and played == HAND_BACK and self.hands_back:
            return None, self._digest
        if played is None and self._handed_back:
            return None, self._digest
        return super().identify(played)

    def check(self, episode: Episode) -> InsideEpisode:
        """As the guarded learner checks it."""
        self._check_going()
        return self._guarded.check(episode)

    def anew(self) -> Guard:
        """A guard with the same options around a learner that has seen nothing yet."""
        return Guard(self._guarded.anew(), **self._arguments)

    # What training does between chunks of compiled episodes

    def make_room(self) -> None:
        """Grow what is about to overflow, so that one more episode fits."""
        self._check_going()
        self._guarded.make_room()
        self.statistics, self.window = self._guarded.statistics, self._guarded.window

    def settle(self) -> None:
        """Let the learner do what is due, decide who plays next, and say what was found out about the baseline."""
        try:
            self._guarded.settle()
        finally:  # also where a plan fails: nothing may be played beyond the budget
            self._derive()
        self._tell()

    @property
    def episodes_to_settle(self) -> int | None:
        """How many episodes may run before `settle`; None: any number."""
        return self._guarded.episodes_to_settle

    @property
    def told_beyond(self) -> bool:
        """Whether its user was told that episodes go beyond T."""
        return self._guarded.told_beyond

    @told_beyond.setter
    def told_beyond(self, told: bool) -> None:
        self._guarded.told_beyond = told

    def _tell(self) -> None:
        """Warn once where the baseline is proven to break a limit, and where the data contradict what is assumed."""
        unsafe = self._account.unsafe
        if unsafe[0] == PROVEN:
            unsafe[0] = SAID
            warn(self._unsafe(), UnsafeBaseline)
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
            raise UnsafeBaseline(self._unsafe())

    def _unsafe(self) -> str:
        broken = [i for i, verdict in enumerate(self._seen_of_baseline()) if verdict == "unsafe"]
        which = "constraint " + " and ".join(map(str, broken))
        return (
            f"the baseline breaks the limit of {which}, as {self._played_by_baseline:,} episodes of it prove: no "
            "budget is kept by playing it. Begin anew with a baseline that is safe: a certified policy, for example."
        )

    # What follows from options and state, and files

    @property
    def _scale(self) -> Float:
        scale: Float = np.abs(self.interface.units.constraints.scale)
        return scale

    @property
    def _handed_back(self) -> bool:
        return self.hands_back and self._account.turn[0] == BASELINE

    @property
    def _played_by_baseline(self) -> int:
        return int(self._account.plays[[BASELINE, SAME]].sum())

    @property
    def _arguments(self) -> dict[str, Any]:
        """What it was made with, beside the learner."""
        return {
            "baseline": HAND_BACK if self.hands_back else self.baseline, "budget": self.budget,
            "delta": self.delta, "credit": self.credit, "on_unsafe": self.on_unsafe,
        }  # fmt: skip

    @property
    def configuration(self) -> dict[str, Any]:
        """All that it was made with."""
        mine = {f"guard's {name}": value for name, value in self._arguments.items()}
        return {**self._guarded.configuration, **mine}

    def _who(self, digest: str) -> int:
        """Who played an episode, by the digest of the policy."""
        learner = digest == policy_digest(self._guarded.state.pi)
        if digest == self._digest:
            return SAME if learner else BASELINE
        return LEARNER if learner else OTHER

    def _as_baseline(self, given: ArrayLike | str) -> Policy:
        f = self.interface
        if isinstance(given, str):
            if given != HAND_BACK:
                raise InvalidOption(
                    f"baseline must be a policy [H,S,A] or {HAND_BACK!r}, got {given!r}."
                )
            return np.full((f.H, f.S, f.A), np.nan)
        try:
            return np.array(as_policy(given, (f.H, f.S, f.A), f.mask))
        except InvalidModel as problem:
            raise InvalidOption(f"baseline: {problem}") from None

    def _as_budget(self, given: ArrayLike) -> Float:
        """``[m]``, in the user's units."""
        m, least = self.interface.m, -self.declared.least * self._scale
        budget = as_floats("budget", given, error=InvalidOption)
        if budget.shape not in ((), (m,)) or (budget < least * (1.0 - ROUNDING)).any():
            each = f", or one for each of the {m} constraints," * (m > 1)
            ends = ", ".join(f"{end:g}" for end in least)
            raise InvalidOption(
                f"budget is {budget.tolist()}; expected a number{each} of at least {ends}: one episode can cost as "
                "much."
            )
        return np.array(np.broadcast_to(budget, (m,)))

    def _derive(self) -> None:
        """Who plays next, and the records of the compiled loop."""
        learner, account = self._guarded, self._account
        self.statistics, self.window = learner.statistics, learner.window
        mine = learner.state
        self.state = GuardState(
            pi=self._pi, lam=mine.lam, lower=mine.lower, upper=mine.upper, finished=mine.finished,
            guarded=mine, own=learner.own_flag, baseline=self._played_baseline, account=account,
        )  # fmt: skip
        self.rates = GuardRates(learner.rates, self._terms)
        settle_turn(self._terms, account, self._played_baseline, mine.pi, self._pi)

    @property
    def epoch(self) -> Epoch:  # type: ignore[override]
        """The guarded learner's."""
        return self._guarded.epoch

    def arrays(self) -> dict[str, NDArray]:
        """The guarded learner's state, and the account."""
        made = {f"guarded.{name}": array for name, array in self._guarded.arrays().items()}
        return made | account_arrays(self._account)

    def restore(self, arrays: dict[str, NDArray]) -> None:
        """Go on from where `arrays` were taken; this guard must have the same arguments."""
        found = own_arrays(self._account, arrays)
        inner = {k: v for k, v in arrays.items() if k.startswith("guarded.")}
        self._guarded.restore({k.removeprefix("guarded."): v for k, v in inner.items()})
        if not self._plausible(found):
            raise InvalidFile("the guard's account contradicts itself")
        self._account = with_arrays(self._account, found)
        self._derive()

    def _carried(self) -> tuple[str, ...]:
        return CARRIED

    def _plausible(self, carried: dict[str, NDArray]) -> bool:
        return plausible_account(carried, self._guarded.episode - 1, credit=self.credit)

    def _stored(self) -> tuple[dict[str, NDArray], dict[str, Any]]:
        """What a file holds: the guarded learner's part, and the guard's."""
        arrays, about = self._guarded._stored()
        made = {f"guarded.{name}": array for name, array in arrays.items()}
        made |= account_arrays(self._account)
        made |= {"baseline": self.baseline, "budget": self.budget}
        options = {k: v for k, v in self._arguments.items() if k not in ("baseline", "budget")}
        return made, {
            "learner": self.name, "guarded": about, "hands_back": self.hands_back, "options": options,
            "rejected_before": self._rejected_before,
        }  # fmt: skip

    @classmethod
    def _from_stored(cls, arrays: dict[str, NDArray], about: Mapping[str, Any]) -> Guard:
        """What `_stored` gave."""
        inner = {
            k.removeprefix("guarded."): arrays.pop(k)
            for k in [k for k in arrays if k.startswith("guarded.")]
        }
        said = about["guarded"]
        baseline = HAND_BACK if about["hands_back"] is True else arrays["baseline"]
        learner = KNOWN[said["learner"]]._from_stored(dict(inner), said)
        guard = cls(learner, baseline, arrays["budget"], **about["options"])
        guard._rejected_before = as_count(
            "rejected_before",
            about["rejected_before"],
            least=0,
            most=guard._rejected_before,
            error=InvalidFile,
        )
        guard.restore({**arrays, **{f"guarded.{k}": v for k, v in inner.items()}})
        return guard
