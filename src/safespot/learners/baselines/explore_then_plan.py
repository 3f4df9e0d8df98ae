"""Explore-then-plan: phases, proposals and trials of `SpotEpochs`, with uniform exploring."""

from __future__ import annotations

import numpy as np

from ...planning.process import Plan
from ..exploring import Exploration
from ..phases import PhaseState
from ..spot_epochs import SpotEpochs

SHARE = 1.0 / 3.0  # of a phase, in which actions are drawn at random


class ExploreThenPlan(SpotEpochs):
    """All admissible actions alike for a third of each phase, then the plan, which is tried.

    Examples:
        >>> import safespot as ss
        >>> problem = ss.problems.make("machine")
        >>> learner = ss.learners.ExploreThenPlan(**problem.interface)
        >>> run = ss.learn(problem, learner, episodes=500, seed=0)
        >>> learner.proposal.shape == run.policy.shape
        True

    """

    name = "explore-then-plan"

    def _exploration(self, state: PhaseState) -> Exploration:
        mask, m = self.interface.mask, self.interface.m
        uniform = mask / mask.sum(axis=2, keepdims=True)
        return Exploration(Plan(uniform, np.zeros(m), np.zeros(1 + m), True, 0, ()), SHARE)
