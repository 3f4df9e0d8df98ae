"""Posterior sampling: phases, proposals and trials of `SpotEpochs`, with exploring plans of sampled models."""

from __future__ import annotations

import numpy as np

from ...planning.process import best_plan
from ..exploring import Exploration
from ..phases import PhaseState
from ..pooling import pool
from ..spot_epochs import SpotEpochs

PRIOR = 0.5  # of each end of a signal's mean (Jeffreys)
STREAM = 7  # spawn keys (7, t): draws of their own, the same in every repetition


class PosteriorSampling(SpotEpochs):
    """Exploring plans are the best ones of a model drawn from what the counts leave open.

    Successors come from the Dirichlet distribution of their counts, the means of signals from Beta distributions;
    imaginary visits stand for what was never seen, as in `SpotEpochs`.

    Examples:
        >>> import safespot as ss
        >>> problem = ss.problems.make("machine")
        >>> learner = ss.learners.PosteriorSampling(**problem.interface)
        >>> run = ss.learn(problem, learner, episodes=500, seed=0)
        >>> learner.proposal.shape == run.policy.shape
        True

    """

    name = "posterior-sampling"

    def _exploration(self, state: PhaseState) -> Exploration:
        t = int(state.finished[0])
        rng = np.random.default_rng(np.random.SeedSequence(0, spawn_key=(STREAM, t)))
        f, kappa = self.interface, self.recipe.optimism
        pooled = pool(self.statistics, f)
        drawn = rng.gamma(pooled.counts)
        rows = pooled.pairs
        totals = np.bincount(rows, drawn, pooled.n.size)
        scale = pooled.n.reshape(-1) / np.where(totals > 0.0, totals, 1.0)
        means = rng.beta(pooled.sums + PRIOR, (pooled.n - pooled.sums).clip(0.0) + PRIOR)
        sampled = pooled._replace(counts=drawn * scale[rows], sums=means * pooled.n)
        model = self.models.of(sampled, kappa, best=True)
        return Exploration(best_plan(model.process, self.limits), self.recipe.exploring)
