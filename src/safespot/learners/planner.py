"""Learners that make a plan, play it for a while, and make the next one.

    while episodes remain:
        play the plan and count what is seen          compiled, in `training`
        where the counts have grown enough: plan      in Python

A plan is due after every episode, or once the visits of some pair have doubled, or never. It uses everything seen so
far; before the first one the policy is uniform, or a baseline. A plan is made in full before anything changes, so that
an interrupted one can be made again.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..arrays import Float, InsideEpisode, Int, Policy
from ..errors import InvalidFile
from ..planning.counted import Pooled
from ..spot.limits import learn_thresholds
from ..spot.optimism import Radii
from ..spot.visits import Statistics, add_visit
from ..spot.window import Window
from .compiled_step import DUE, STAYED, step_for
from .doubling import Epoch, epoch_at, epoch_radii, is_over
from .limits import derive_bounds, first_bounds
from .options import REPLAN, Options
from .policies import is_policy, uniform_policy
from .pooling import pool
from .tabular import TabularLearner


class PlannerRates(NamedTuple):
    """The constants of counting in one epoch."""

    radii: Radii
    learned: bool  # whether the thresholds are learned
    replan: int  # 0: never; else the factor by which a count grows until the next plan


class PlannerState(NamedTuple):
    """The state that episodes and plans change, but for the statistics and the window."""

    pi: Policy  # [H, S, A]
    lam: Float  # [m]
    lower: Float  # [m]: threshold bounds from the finished episodes, derived from the window
    upper: Float  # [m]
    finished: Int  # [1]: episodes
    planned: Int  # [H, S*A]: the visits at the last plan
    due: Int  # [1]: whether a plan is due


class Planner(TabularLearner):
    """A learner with a `plan`."""

    options: Options
    state: PlannerState
    rates: PlannerRates
    epoch: Epoch
    carried = ("pi", "lam", "finished", "planned", "due")
    replan = "always"  # when a plan is due, unless an option says
    bernstein = True  # which of the two transition radii its bonus may take

    def __init__(self, *interface: Any, **options: Any) -> None:
        super().__init__(*interface, **options)
        f = self.interface
        lower, upper = first_bounds(f, self.options, self.declared)
        self.state = PlannerState(
            pi=np.array(self.first_policy()),
            lam=np.zeros(f.m),
            lower=lower,
            upper=upper,
            finished=np.zeros(1, np.int64),
            planned=np.zeros((f.H, f.S * f.A), np.int64),
            due=np.zeros(1, np.int64),
        )
        self._derive()

    @abstractmethod
    def plan(self) -> dict[str, NDArray]:
        """Return the fields of the state that the next plan replaces: `pi`, mostly `lam`; changes nothing."""

    def first_policy(self) -> Policy:
        """Return the policy before the first plan: all admissible actions alike."""
        return uniform_policy(self.interface)

    def counts(self) -> Pooled:
        """Return the counts that a plan is made of; where the steps are alike, those of all of them together.

        The radii of `learners.radii` hold for shared counts too: their union is over S A H T numbers of visits, and
        a pair of all steps together has one of H T.
        """
        return pool(self.statistics, self.interface)

    def begin_epoch(self) -> dict[str, NDArray]:
        """Return the fields of the state that start over with an epoch (anytime use)."""
        return {}

    def settle(self) -> None:
        """Begin the next epoch where one has just ended, and make the plan that is due."""
        if is_over(self):
            due = np.array([int(self.rates.replan > 0)])
            self.state = self.state._replace(**self.begin_epoch(), due=due)
            self._derive()
        if self.state.due[0]:
            self.state = self.state._replace(
                **self.plan(), planned=self.statistics.n.copy(), due=np.zeros(1, np.int64)
            )

    def _derive(self) -> None:
        """Derive the rates, the epoch and the threshold bounds from options and counts."""
        now = epoch_at(self.episode, self.options.episodes)
        self.rates = PlannerRates(
            radii=epoch_radii(self.interface, self.options, now, bernstein=self.bernstein),
            learned=self.options.thresholds is None,
            replan=REPLAN[getattr(self.options, "replan", self.replan)],
        )
        if self.rates.learned:
            derive_bounds(self.window, self.rates.radii, self.state.lower, self.state.upper)
        self.epoch = now

    def _check_fields(self, fields: dict[str, Any], n: Int) -> None:
        if not (
            is_policy(self.interface, fields["pi"])
            and (fields["planned"] <= n).all()
            and fields["due"][0] <= 1
        ):
            raise InvalidFile("the policy, or when it was planned, contradicts the counts")


@step_for(PlannerRates)
def count_step(
    rates: PlannerRates,
    state: PlannerState,
    statistics: Statistics,
    window: Window,
    episode: InsideEpisode,
) -> int:
    """Add an episode to the data; return `DUE` where a plan is."""
    statistics.starts[episode.states[0]] += 1
    for h in range(episode.pairs.shape[0]):
        s, pair = episode.states[h], episode.pairs[h]
        reward, constraints = episode.rewards[h], episode.constraints[h]
        if math.isnan(reward):  # an unfinished episode teaches no more of the process
            break
        add_visit(statistics, h, s, pair, episode.states[h + 1], reward, constraints)
        if rates.replan > 0 and statistics.n[h, pair] >= max(
            1, rates.replan * state.planned[h, pair]
        ):
            state.due[0] = 1
    state.finished[0] += 1
    if rates.learned:
        learn_thresholds(window, rates.radii, episode, state.lower, state.upper)
    return DUE if state.due[0] > 0 else STAYED
