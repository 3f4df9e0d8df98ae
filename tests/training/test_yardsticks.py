"""The yardsticks of the training benchmarks learn what the package learns."""

from __future__ import annotations

import numpy as np
import pytest

import safespot as ss
from safespot.benchmarks.compiled_reference import CompiledSpot
from safespot.benchmarks.numpy_reference import PlainSpot, TunedSpot


@pytest.mark.slow  # compiles the plain loop, which no cache keeps
@pytest.mark.parametrize("kind", [PlainSpot, TunedSpot, CompiledSpot])
def test_a_yardstick_has_the_sums_of_the_package(kind: type[TunedSpot]) -> None:
    problem = ss.problems.make("random", states=4, actions=3, horizon=3, constraints=2, seed=2)
    rho = ss.slater(problem.cmdp).rho
    reference = kind(problem, episodes=10_000, rho=rho, bonus_scale=0.01)
    reference.run(300)
    reference.run(900)  # across the end of a block of noise
    learner = ss.Spot(**problem.interface, episodes=10_000, rho=rho, bonus_scale=0.01)
    run = ss.learn(problem, learner, episodes=1_200)
    np.testing.assert_allclose(reference.regret, run.regret[-1], rtol=1e-9)
    np.testing.assert_allclose(reference.violation, run.violations[-1], rtol=1e-9)
